#!/usr/bin/python3
"""PROFINET frames as scapy builds them: cyclic.pcap, what relations are for; acyclic.pcap, what is none of theirs.

    tests/vectors/profinet/make.py DIRECTORY

The same files each time. Of scapy 2.5.0 (Debian's python3-scapy); scripts/setup.sh test installs it.
"""
import sys

from scapy.contrib.pnio import (
    PNIORealTime_IOxS,
    PNIORealTimeCyclicPDU,
    ProfinetIO,
)
from scapy.contrib.pnio_dcp import ProfinetDCP
from scapy.contrib.pnio_rpc import Alarm_High, Alarm_Low, AlarmNotification_High, AlarmNotification_Low
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Raw
from scapy.utils import PcapWriter

PLC = "02:00:00:00:01:01"
# Addresses below and above the PLC's.
DEVICES = ["02:00:00:00:00:09", "02:00:00:00:01:02", "02:00:00:ff:00:03"]
# RT class 1 (old and new range), class UDP's range, and the first and last FrameID: device by device, the PLC's and its own.
FRAME_IDS = [(0x8001, 0x8002), (0xBBFF, 0x8000), (0xC000, 0xFBFF)]
PRIORITY = Dot1Q(prio=6, vlan=0)


def frame(destination, source, frame_id, pdu, tag=PRIORITY):
    front = Ether(dst=destination, src=source)
    front = front / tag.copy() if tag else front
    return front / ProfinetIO(frameID=frame_id) / pdu


def cyclic(octets, cycle, status=0x35, provider=1, consumer=1):
    """Data with the provider's state behind it, the consumer's state, RTC padding to 40 octets, the APDU status."""
    data = Raw(bytes((cycle + 7 * n) % 256 for n in range(octets)))
    states = [PNIORealTime_IOxS(dataState=provider), PNIORealTime_IOxS(dataState=consumer, instance=2)]
    short = max(0, 40 - octets - len(states))
    return PNIORealTimeCyclicPDU(
        data=[data, *states], padding=b"\0" * short, cycleCounter=cycle % 65536, dataStatus=status
    )


def cyclic_frames():
    for (device, (plc_sends, device_sends)), octets in zip(zip(DEVICES, FRAME_IDS), (4, 40, 250)):
        for n, (to, of, sends) in enumerate([(device, PLC, plc_sends), (PLC, device, device_sends)]):
            for cycle in (0, 32, 65504 + n):
                yield frame(to, of, sends, cyclic(octets, cycle))
    device, (plc_sends, device_sends) = DEVICES[0], FRAME_IDS[0]
    # The longest C_SDU with its APDU status, and none of ours at all: a frame of 64 octets with FCS, untagged.
    yield frame(device, PLC, plc_sends, cyclic(1434, 64))
    yield frame(PLC, device, device_sends, cyclic(1, 64), tag=None)
    # Another priority and a VID on its way to the gateway.
    yield frame(device, PLC, plc_sends, cyclic(20, 96), tag=Dot1Q(prio=5, vlan=42))
    # Stopped, backup, problem; bad data from a provider, a consumer that cannot take it.
    for n, status in enumerate((0x25, 0x34, 0x15, 0x31, 0x00, 0xB7)):
        yield frame(PLC, device, device_sends, cyclic(8, 128 + 32 * n, status, provider=n % 2, consumer=(n + 1) % 2))


def acyclic_frames():
    identify = ProfinetDCP(service_id=5, service_type=0, option=255, sub_option=255, dcp_data_length=4)
    yield frame("01:0e:cf:00:00:00", PLC, 0xFEFE, identify)
    yield frame("01:0e:cf:00:00:00", PLC, 0xFEFE, identify, tag=None)
    hello = ProfinetDCP(
        service_id=6, option=2, sub_option=2, dcp_data_length=14, dcp_block_length=9, name_of_station="\0\0device1"
    )
    yield frame("01:0e:cf:00:00:01", DEVICES[0], 0xFEFC, hello)
    high, low = AlarmNotification_High(), AlarmNotification_Low()
    yield frame(PLC, DEVICES[0], 0xFC01, Alarm_High(RTA_SDU=high), tag=Dot1Q(prio=6, vlan=0))
    yield frame(PLC, DEVICES[0], 0xFE01, Alarm_Low(RTA_SDU=low), tag=Dot1Q(prio=5, vlan=0))
    # Cyclic, and between stations or of FrameIDs that no relation has.
    yield frame(DEVICES[0], PLC, 0x8003, cyclic(4, 0))
    yield frame(DEVICES[1], DEVICES[0], 0x8002, cyclic(4, 0))


def write(path, frames):
    with PcapWriter(path, linktype=1, endianness="<") as writer:
        for number, packet in enumerate(frames):
            packet = Ether(bytes(packet))
            packet.time = 1_700_000_000 + number / 1000
            writer.write(packet)


if __name__ == "__main__":
    write(f"{sys.argv[1]}/cyclic.pcap", cyclic_frames())
    write(f"{sys.argv[1]}/acyclic.pcap", acyclic_frames())
