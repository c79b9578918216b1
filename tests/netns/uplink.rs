//! An uplink that is the bottleneck, with one deep queue for all as in a modem: how long cyclic frames take beside twice as much bulk as
//! it carries, and what their packets show.

use std::time::Duration;

use lab::cyclic::{Exchange, Relation};
use lab::flood::Load;
use lab::topology::LEFT;
use lab::{Capture, Direction, Frame};
use perf::demo::sites::{PORT, SitesChoice};
use wire::ethernet::HEADER_OCTETS;

use super::onebox::OneBox;
use super::{DEADLINE, counter};

/// The line, and how long its queue is.
const LINE: u64 = 20_000_000;
const QUEUE: Duration = Duration::from_millis(200);
const CYCLE: Duration = Duration::from_millis(4);

/// Outcome of the cyclic frames of machine 1, and of the flood beside them.
struct Outcome {
    sent: u64,
    received: u64,
    /// p50, p90, p99 of the delay.
    delays: [Duration; 3],
    /// Packets of the site on its line.
    packets: Vec<Vec<u8>>,
}

fn beside_a_flood(site: &'static str) -> Outcome {
    let boxes = OneBox::started(2, 1, &SitesChoice { site, ..SitesChoice::default() });
    boxes.secured();
    boxes.reaches(0, 1, 56);
    let plant = &boxes.plants.plants[0];
    plant.limit_uplink(LINE, QUEUE).unwrap();
    let (a, b) = (boxes.machine(0), boxes.machine(1));
    let relation =
        Relation { stations: [a.mac, b.mac], frame_ids: [0x8001, 0x8002], cycle: CYCLE, payload_octets: 60 };
    // Twice the line, in frames of 1200 octets.
    let per_second = LINE / 8 / 1200 * 2;
    let load = Load::start(a, b, 1186, Some(per_second as u32), DEADLINE).unwrap();
    // The queue is full then.
    std::thread::sleep(2 * QUEUE);
    let capture = Capture::start(plant.line.as_ref().unwrap(), LEFT).unwrap();
    let exchange = Exchange::start(a, b, &[relation]).unwrap();
    exchange.wait_for(500, DEADLINE).unwrap();
    let heard = exchange.stop().unwrap();
    let sent = load.stop().unwrap();
    let capture = capture.stop().unwrap();
    let uplink = boxes.sites[0].report().unwrap().sites.remove(0).uplink;
    if let Some(uplink) = uplink {
        let of = |name| counter(&uplink.counters, name);
        assert!(of("OutPktsExpress") >= 500 && of("OutPktsExpressFull") == 0, "{uplink:#?}");
        let bulk =
            of("OutPktsBulk") + of("OutPktsBulkFull") + of("OutPktsBulkDelayed") + of("OutPktsOvertaken");
        // A busy machine may lose some in front of the gateway.
        assert!(bulk + uplink.bulk_waiting >= sent / 2 && of("OutPktsBulkFull") > 0, "{sent}: {uplink:#?}");
        assert!(of("OutOctetsChannel") > 0, "{uplink:#?}");
        let status = boxes.command(&["status", "site-1"]);
        assert!(status.contains("\n  uplink, 18000 kbit/s; "), "{status}");
        assert!(status.contains("known flows: user space: "), "{status}");
    }
    boxes.stop();
    // Those that machine B has received.
    let [_, at_b] = &heard[0];
    let delays = [0.5, 0.9, 0.99].map(|part| Duration::from_nanos(at_b.delay.value_at_quantile(part)));
    let is_data = |frame: &&Frame| super::wan::is_data(PORT, &frame.octets);
    let packets = capture.going(Direction::In).filter(is_data).map(|frame| frame.octets.clone()).collect();
    Outcome { sent: at_b.sent, received: at_b.received, delays, packets }
}

/// The DSCP of an IPv4 packet.
fn dscp(packet: &[u8]) -> u8 {
    packet[HEADER_OCTETS + 1] >> 2
}

#[test]
fn cyclic_frames_pass_a_full_uplink_whose_rate_is_known() {
    let without = beside_a_flood("protect = true\n[site.mka]\ncak_file = \"line.cak\"");
    let with =
        beside_a_flood("protect = true\nrate = \"18M\"\ndscp = \"pcp\"\n[site.mka]\ncak_file = \"line.cak\"");
    println!("p50, p90, p99: {:?} with a rate, {:?} without", with.delays, without.delays);
    assert_eq!(with.received, with.sent, "cyclic frames were lost");
    // Priority 6 of the tag that MACsec hides, and none.
    for (packets, express) in [(&with.packets, true), (&without.packets, false)] {
        let of = |wanted| packets.iter().filter(|packet| dscp(packet) == wanted).count();
        assert!(of(0) > 500 && of(0) + of(48) == packets.len(), "{} packets", packets.len());
        assert_eq!(of(48) >= 400, express, "{} express packets", of(48));
    }
    // 200 ms of the queue, as far as cyclic frames find room in it at all. On a busy machine frames wait for CPUs, the slowest of a hundred
    // longer than in any queue: the bench judges those.
    let ([with, _, _], [without, _, _]) = (with.delays, without.delays);
    assert!(without >= Duration::from_millis(100), "the line is no bottleneck: {without:?}");
    assert!(4 * with < without, "{with:?} and {without:?}");
}
