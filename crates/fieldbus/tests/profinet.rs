//! Frames that are not ours: PROFINET as scapy builds it (`tests/vectors/profinet`), through the data path of two gateways
//! that made their sessions by themselves; and what Wireshark says of them, before, on the wire and after.
#![allow(clippy::unwrap_used, clippy::panic)] // a test's own set-up fails loudly

mod agreed;
mod wireshark;

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::time::Duration;

use fieldbus::relation::Relation;
use fieldbus::{
    Incoming, InwardFrame, Mode, Moment, Outgoing, RelationSettings, Relations, Settings, VlanTag,
};
use testkit::fixture::{pcap_frames, vectors};
use wire::fieldbus::{CellSuite, FrameId, Protect, Protection};
use wire::{Frame, MacAddr};
use wireshark::{Scratch, tshark};

const PLC: MacAddr = MacAddr([2, 0, 0, 0, 1, 1]);
/// The devices, and the FrameIDs of the PLC and of the device, as in `make.py`.
const DEVICES: [(MacAddr, u16, u16); 3] = [
    (MacAddr([2, 0, 0, 0, 0, 9]), 0x8001, 0x8002),
    (MacAddr([2, 0, 0, 0, 1, 2]), 0xbbff, 0x8000),
    (MacAddr([2, 0, 0, 0xff, 0, 3]), 0xc000, 0xfbff),
];
const ADDRESSES: usize = 12;
const TAG: usize = 4;
const HEADROOM: usize = 64;

fn fixture(name: &str) -> Vec<Vec<u8>> {
    pcap_frames(&vectors().join("profinet").join(name))
}

/// The PLC's gateway and the devices', after their handshakes, and all HELLOs of these.
fn gateways(protection: Protection, vlan: Option<VlanTag>) -> ([Relations; 2], Vec<Vec<u8>>) {
    let relation = |end: usize, (device, plc_sends, sends): (MacAddr, u16, u16)| {
        let ends = [(PLC, FrameId(plc_sends)), (device, FrameId(sends))];
        let relation = Relation::new(ends[end], ends[1 - end], Duration::from_millis(1)).unwrap();
        RelationSettings { relation, mode: Mode::Protect, alarm: Duration::from_micros(1500) }
    };
    let settings = Settings { vlan, ..Settings::new(protection, 1532) };
    let relations = [0, 1].map(|end| DEVICES.map(|device| relation(end, device)).to_vec());
    agreed::gateways(settings, &relations)
}

fn chunk(frame: &[u8]) -> Vec<u8> {
    [&[0xee; HEADROOM][..], frame, &[0xee; HEADROOM]].concat()
}

/// A frame on the wire, and as it is delivered.
fn through(cells: &mut [Relations; 2], frame: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let from = usize::from(frame[6..ADDRESSES] != PLC.0);
    let found = cells[from].find_outward(frame).expect("a relation's");
    let mut octets = chunk(frame);
    let mut burst = [Outgoing::new(Frame::new(&mut octets, HEADROOM, frame.len()).unwrap(), found)];
    cells[from].protect(&mut burst);
    let [outgoing] = burst;
    let wire = outgoing.frame().octets().to_vec();
    outgoing.into_outcome().expect("protected");
    let InwardFrame::Protected(found) = cells[1 - from].find_inward(&wire) else { panic!("a relation's") };
    let mut octets = chunk(&wire);
    let mut burst = [Incoming::new(Frame::new(&mut octets, HEADROOM, wire.len()).unwrap(), found)];
    cells[1 - from].verify(Moment::START, &mut burst);
    let [incoming] = burst;
    let delivered = incoming.frame().octets().to_vec();
    incoming.into_outcome().expect("verified");
    (wire, delivered)
}

fn is_tagged(frame: &[u8]) -> bool {
    frame[ADDRESSES..ADDRESSES + 2] == [0x81, 0]
}

fn untagged(frame: &[u8]) -> Vec<u8> {
    let behind = ADDRESSES + if is_tagged(frame) { TAG } else { 0 };
    [&frame[..ADDRESSES], &frame[behind..]].concat()
}

const MODES: [Protection; 2] = [
    Protection { protect: Protect::Encrypt, suite: CellSuite::GcmAes128 },
    Protection { protect: Protect::Authenticate, suite: CellSuite::GcmAes256 },
];

#[test]
fn the_frames_are_what_scapy_builds() {
    let made = std::env::temp_dir().join(format!("frameward-profinet-{}", std::process::id()));
    fs::create_dir_all(&made).unwrap();
    // The system's Python has the package, whatever else stands in PATH.
    let output = Command::new("/usr/bin/python3").arg(vectors().join("profinet/make.py")).arg(&made).output();
    let output = output.unwrap_or_else(|error| panic!("/usr/bin/python3: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}\nscripts/setup.sh test installs python3-scapy");
    for name in ["cyclic.pcap", "acyclic.pcap"] {
        assert_eq!(pcap_frames(&made.join(name)), fixture(name), "{name}");
    }
    fs::remove_dir_all(&made).unwrap();
}

#[test]
fn cyclic_frames_come_out_octet_for_octet_with_the_tag_that_is_configured() {
    for protection in MODES {
        for (vlan, tag) in [
            (Some(VlanTag::PROFINET), &[0x81, 0, 0xc0, 0][..]),
            (VlanTag::new(5, 42), &[0x81, 0, 0xa0, 42]),
            (None, &[]),
        ] {
            let (mut cells, _) = gateways(protection, vlan);
            let frames = fixture("cyclic.pcap");
            assert!(frames.len() > 20);
            let mut same = 0;
            for frame in &frames {
                let (wire, delivered) = through(&mut cells, frame);
                let plain = untagged(frame);
                assert_eq!(delivered, [&plain[..ADDRESSES], tag, &plain[ADDRESSES..]].concat());
                same += usize::from(delivered == *frame);
                // The machine's tag is still there for switches on the way.
                assert_eq!(wire[..ADDRESSES], frame[..ADDRESSES]);
                assert_eq!(is_tagged(&wire), is_tagged(frame));
                assert_eq!(wire.len(), frame.len() + 5 + 16);
            }
            // All but those that another tag was chosen for.
            assert_eq!(same, if vlan == Some(VlanTag::PROFINET) { frames.len() - 2 } else { 1 });
        }
    }
}

#[test]
fn what_is_acyclic_is_no_relations() {
    let (cells, _) = gateways(MODES[0], None);
    for frame in fixture("acyclic.pcap") {
        for cell in &cells {
            assert_eq!(cell.find_outward(&frame), None);
            assert_eq!(cell.find_inward(&frame), InwardFrame::Other);
        }
    }
}

#[test]
fn wireshark_reads_what_a_machine_gets_as_the_profinet_that_was_sent() {
    let scratch = Scratch::new("profinet-machine");
    let fields = [
        "frame.protocols",
        "frame.len",
        "eth.dst",
        "eth.src",
        "vlan.priority",
        "vlan.id",
        "pn_rt.frame_id",
        "pn_rt.cycle_counter",
        "pn_rt.ds",
        "pn_rt.transfer_status",
        "_ws.col.Info",
        "_ws.expert.message",
    ];
    for protection in MODES {
        let (mut cells, _) = gateways(protection, Some(VlanTag::PROFINET));
        let sent: Vec<_> = fixture("cyclic.pcap")
            .into_iter()
            .filter(|frame| frame[ADDRESSES..ADDRESSES + TAG] == [0x81, 0, 0xc0, 0])
            .collect();
        let got: Vec<_> = sent.iter().map(|frame| through(&mut cells, frame).1).collect();
        let told = tshark(&scratch.capture("got.pcap", &got), false, &fields);
        assert_eq!(told, tshark(&scratch.capture("sent.pcap", &sent), false, &fields));
        assert_eq!(told.len(), sent.len());
        // And that is PROFINET RT, with what the scapy script says.
        let first = "eth:ethertype:vlan:ethertype:pn_rt:pn_io|64|02:00:00:00:00:09|02:00:00:00:01:01|6|0|";
        assert!(told[0].starts_with(first), "{}", told[0]);
        assert!(
            told[1].contains("RTC1, ID:0x8001, Len:  40, Cycle:   32 (Valid,Primary,Ok,Run)"),
            "{}",
            told[1]
        );
        assert!(told.iter().any(|line| line.contains("(Invalid,Primary,Ok,Run)")));
    }
}

#[test]
fn on_the_wire_wireshark_sees_neither_profinet_nor_a_payload() {
    let scratch = Scratch::new("profinet-wire");
    let (mut cells, hellos) = gateways(MODES[0], Some(VlanTag::PROFINET));
    let sent = fixture("cyclic.pcap");
    let wire: Vec<_> = sent.iter().map(|frame| through(&mut cells, frame).0).collect();
    let all: Vec<_> = hellos.into_iter().chain(wire.iter().cloned()).collect();
    let ethertypes = ["eth.type", "vlan.etype", "pn_rt.frame_id", "frame.protocols"];
    for line in tshark(&scratch.capture("wire.pcap", &all), false, &ethertypes) {
        let protocols: Vec<_> = line.split('|').collect();
        let behind_tag = if protocols[0] == "0x8100" { protocols[1] } else { protocols[0] };
        assert_eq!((behind_tag, protocols[2]), ("0x88b5", ""), "{line}");
        assert!(!protocols[3].contains("pn_"), "{line}");
    }
    // Eight octets of data that are not all alike are seen by nobody.
    for (frame, wire) in sent.iter().zip(&wire) {
        let payload = &untagged(frame)[ADDRESSES + 4..];
        let telling = payload.windows(8).filter(|octets| octets.iter().collect::<BTreeSet<_>>().len() > 4);
        for octets in telling {
            assert!(!wire.windows(8).any(|seen| seen == octets), "{octets:02x?} in clear");
        }
    }
}

#[test]
fn the_dissector_shows_frames_and_hellos_and_names_what_is_broken() {
    let scratch = Scratch::new("profinet-lua");
    let chacha20 = Protection { protect: Protect::Encrypt, suite: CellSuite::ChaCha20Poly1305 };
    let rows = [(MODES[0], "1", "0", "0"), (MODES[1], "0", "1", "0"), (chacha20, "1", "0", "1")];
    for (protection, encrypts, longer, chacha20) in rows {
        let (mut cells, hellos) = gateways(protection, Some(VlanTag::PROFINET));
        let frames: Vec<_> = fixture("cyclic.pcap")[..3].iter().map(|f| through(&mut cells, f).0).collect();
        let mut broken = [frames[0][..40].to_vec(), hellos[0].clone(), frames[0][..20].to_vec()];
        broken[1][14 + 7] |= 0x80;
        let all: Vec<_> = hellos[..4].iter().chain(&frames).chain(&broken).cloned().collect();
        let fields = [
            "fieldbus.frame_id",
            "fieldbus.seq",
            "fieldbus.hello.entered",
            "fieldbus.hello.encrypts",
            "fieldbus.hello.bits256",
            "fieldbus.hello.chacha20_poly1305",
            "_ws.expert.message",
        ];
        let told = tshark(&scratch.capture("all.pcap", &all), true, &fields);
        let hello =
            |frame_id: &str, entered: &str| format!("{frame_id}|0|{entered}|{encrypts}|{longer}|{chacha20}|");
        let ends = "The frame ends before KeyID, Seq and ICV, or the HELLO, are whole";
        let expected = [
            hello("0x8001", "0"),
            hello("0x8002", "0"),
            hello("0x8001", "1"),
            hello("0x8002", "1"),
            "0x8001|1|||||".into(),
            "0x8001|2|||||".into(),
            "0x8001|3|||||".into(),
            format!("0x8001|1|||||{ends}"),
            format!("0x8001|0|0|{encrypts}|{longer}|{chacha20}|A reserved bit of the State is set"),
            format!("||||||{ends}"),
        ];
        assert_eq!(told, expected);
        let lengths =
            tshark(&scratch.0.join("all.pcap"), true, &["fieldbus.payload", "fieldbus.icv", "_ws.col.Info"]);
        let payload = |frame: &[u8]| {
            frame[18 + 7..frame.len() - 16].iter().map(|o| format!("{o:02x}")).collect::<String>()
        };
        assert!(lengths[4].starts_with(&payload(&frames[0])), "{}", lengths[4]);
        assert!(lengths[4].contains("FrameID 0x8001, KeyID"), "{}", lengths[4]);
        assert!(
            lengths[0].contains("asks who is there")
                && lengths[1].contains(", asks")
                && lengths[2].contains("has entered")
        );
    }
}
