//! Padding end to end: whatever machines send, a capture of the network shows frames of the chosen sizes and no others.

use lab::topology::{LEFT, PLAIN};
use lab::traffic::{self, Ip, MARKER, Until};
use lab::{Capture, Machine, Shape};
use perf::demo::pair::Choice;
use perf::demo::sites::{PORT, SitesChoice};
use report::GatewayReport;
use testkit::frames::tagged;
use wire::EtherType;

use super::mka::{Group, LINE, discards, mka, stop, until};
use super::onebox::OneBox;
use super::reload::reloaded;
use super::{EXPERIMENT, counter, exchange, lab, marked};

const SIZES: [usize; 3] = [256, 700, 1514];
const PADDED: &str = "padding = [256, 700, 1514]";

/// Frames of all sizes, with tags and without, express ones among them, an exchange of TCP and some pings.
fn all_kinds_of_traffic(a: &Machine, b: &Machine) {
    for (from, to) in [(a, b), (b, a)] {
        let sizes = (0..=1500).step_by(7).chain([46, 1462, 1463, 1464, 1499, 1500]);
        let mut frames: Vec<_> =
            sizes.map(|octets| marked(to.mac, from.mac, EXPERIMENT, octets, octets as u64)).collect();
        for octets in [46, 1464, 1496, 1500] {
            frames.push(tagged(&marked(to.mac, from.mac, EXPERIMENT, octets, 7), EtherType::VLAN, 0x0005));
        }
        exchange(from, to, &frames);
        exchange(from, to, &[46, 1500].map(|octets| marked(to.mac, from.mac, EtherType::GOOSE, octets, 3)));
        traffic::tcp(from, to, Ip::V4, Until::Octets(2_000_000)).unwrap();
    }
    traffic::ping(a, b, Ip::V4, 3, 1472).unwrap();
}

/// Sizes of the MACsec frames of a capture, each once.
fn sizes_on(wire: &lab::Captured) -> Vec<usize> {
    let mut sizes: Vec<_> = wire.of_ethertype(EtherType::MACSEC.0).map(|frame| frame.octets.len()).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// The octets in clear behind DA, SA and SecTAG: in all frames the same.
fn assert_headers_tell_nothing(wire: &lab::Captured) {
    for frame in wire.of_ethertype(EtherType::MACSEC.0) {
        assert_eq!(frame.octets[15], 0x80, "MF and SL of a padded frame are inside");
        assert_eq!(frame.octets[28..30], [0, 4], "and so are the lengths");
    }
}

fn sent(report: &GatewayReport, name: &str) -> u64 {
    counter(&report.links[0].secy.counters, name)
}

#[test]
fn a_link_that_agrees_on_keys_shows_the_chosen_sizes_alone() {
    let group = Group { link: PADDED, ..Group::new() };
    group.cak("line.cak", "line");
    let [a, b] = group.pair(LINE);
    let wire = Capture::start(&group.topology.middle, LEFT).unwrap();
    all_kinds_of_traffic(&group.topology.machine_a, &group.topology.machine_b);
    let wire = wire.stop().unwrap().complete().unwrap();
    assert_eq!(sizes_on(&wire), SIZES);
    assert_headers_tell_nothing(&wire);
    assert_eq!(wire.find(MARKER), None, "plaintext is on the network");
    for report in [&a, &b].map(|station| station.report().unwrap()) {
        assert!(mka(&report).fragmentation.padded, "{report:#?}");
        // Shared frames are fuller than whole ones.
        assert!(sent(&report, "OutOctetsPadding") > 1000, "{report:#?}");
        assert_eq!(report.links[0].concerns, []);
        assert_eq!(discards(&report), []);
        let path = report.links[0].secy.path.as_deref();
        assert_eq!(path, Some("user space: programs pad no frames; remove padding"));
    }
    let status = group.command(&["status", "a"]).stdout;
    assert!(status.contains("fragment on, concatenate on; padded"), "{status}");
    stop([a, b]);
}

#[test]
fn a_peer_that_does_not_know_it_gets_none_and_status_says_so_until_it_does() {
    let mut group = Group::new();
    group.cak("line.cak", "line");
    group.topology.gateway_b.namespace.ip(&["link", "set", PLAIN, "mtu", "1400"]).unwrap();
    group.link = "fragment = \"off\"\nconcatenate = \"off\"";
    group.configure("b", LINE);
    group.link = PADDED;
    group.configure("a", LINE);
    let [a, b] = ["a", "b"].map(|name| group.start(name));
    group.secured(&[&a, &b]);
    let machines = [&group.topology.machine_a, &group.topology.machine_b];
    let wire = Capture::start(&group.topology.middle, LEFT).unwrap();
    let few = [46, 500, 1400].map(|octets| marked(machines[1].mac, machines[0].mac, EXPERIMENT, octets, 1));
    exchange(machines[0], machines[1], &few);
    let wire = wire.stop().unwrap().complete().unwrap();
    assert!(wire.frames.iter().all(|frame| frame.octets[15] & 0xc0 == 0), "a bit that the standard has not");
    let report = a.report().unwrap();
    let why = mka(&report).fragmentation.why_not_padded.clone().unwrap();
    // Beside its SCI stands what it calls itself.
    assert!(why.starts_with("peer 02:00:00:00:00:b3/1 ") && why.ends_with(" does not know it"), "{why}");
    assert!(
        report.links[0]
            .concerns
            .iter()
            .any(|concern| concern.text.starts_with("Frames are not padded: peer "))
    );
    assert!(group.command(&["status", "a"]).stdout.contains("; not padded: peer "));
    // It takes padded frames as soon as it may reassemble; it need not pad itself.
    group.link = "";
    group.configure("b", LINE);
    reloaded(&group.scratch, "b");
    until(&a, "it is padded", |mka| mka.fragmentation.padded);
    let wire = Capture::start(&group.topology.middle, LEFT).unwrap();
    exchange(machines[0], machines[1], &few);
    let wire = wire.stop().unwrap().complete().unwrap();
    assert!(sizes_on(&wire).iter().all(|size| SIZES.contains(size)), "{:?}", sizes_on(&wire));
    // Other sizes hold from the reload on, with the key that is there.
    group.link = "padding = [300, 1514]";
    group.configure("a", LINE);
    reloaded(&group.scratch, "a");
    let wire = Capture::start(&group.topology.middle, LEFT).unwrap();
    // One after the other: those that wait would share a frame.
    few.iter().for_each(|frame| exchange(machines[0], machines[1], std::slice::from_ref(frame)));
    let wire = wire.stop().unwrap().complete().unwrap();
    assert_eq!(sizes_on(&wire), [300, 1514]);
    stop([a, b]);
}

/// Both ends take padded frames before anybody sends some, so nobody waits for the next key.
#[test]
fn a_reload_has_a_link_padded_at_once() {
    let mut group = Group::new();
    group.cak("line.cak", "line");
    let [a, b] = group.pair(LINE);
    group.link = PADDED;
    group.configure("a", LINE);
    reloaded(&group.scratch, "a");
    until(&a, "it is padded", |mka| mka.fragmentation.padded);
    let machines = [&group.topology.machine_a, &group.topology.machine_b];
    let wire = Capture::start(&group.topology.middle, LEFT).unwrap();
    let few = [46, 500, 1400].map(|octets| marked(machines[1].mac, machines[0].mac, EXPERIMENT, octets, 1));
    exchange(machines[0], machines[1], &few);
    let wire = wire.stop().unwrap().complete().unwrap();
    assert!(sizes_on(&wire).iter().all(|size| SIZES.contains(size)), "{:?}", sizes_on(&wire));
    stop([a, b]);
}

#[test]
fn with_static_keys_both_ends_are_configured() {
    let shape = Shape { plain_mtu: 1500, protected_mtu: 1500, ..Shape::default() };
    for io in ["af_xdp", "af_packet"] {
        let (topology, pair) = lab(&shape, &Choice { io, link: PADDED, ..Choice::default() });
        let wire = Capture::start(&topology.middle, LEFT).unwrap();
        all_kinds_of_traffic(&topology.machine_a, &topology.machine_b);
        let wire = wire.stop().unwrap().complete().unwrap();
        assert_eq!(sizes_on(&wire), SIZES, "{io}");
        assert_headers_tell_nothing(&wire);
        assert!(wire.all_ethertype(EtherType::MACSEC.0));
        assert!(sent(&pair.a.report().unwrap(), "OutOctetsPadding") > 100_000);
        pair.stop().unwrap();
    }
}

/// A packet has what the frame has, less DA, SA and SecTAG, and with 16 octets of the tunnel, UDP, IP and Ethernet around.
#[test]
fn packets_of_a_site_have_the_chosen_sizes_alone() {
    const SITE: &str = "protect = true\npadding = [256, 1484]\n[site.mka]\ncak_file = \"line.cak\"";
    for io in ["auto", "af_packet"] {
        let boxes = OneBox::started(2, 1, &SitesChoice { io, site: SITE, ..SitesChoice::default() });
        boxes.secured();
        boxes.reaches(0, 1, 1472);
        for plant in [0, 1] {
            boxes.until(plant, "its path is known", |report| {
                report.sites[0].peers[0].path_payload == Some(1472) && mka(report).fragmentation.padded
            });
        }
        // Flows are known afterwards, those of the tagged frames too.
        boxes.counted(1);
        let line = Capture::start(boxes.plants.plants[0].line.as_ref().unwrap(), LEFT).unwrap();
        boxes.counted(1000);
        let line = line.stop().unwrap().complete().unwrap();
        let mut sizes: Vec<_> = line
            .frames
            .iter()
            .filter(|frame| super::wan::is_data(PORT, &frame.octets))
            .map(|frame| frame.octets.len())
            .collect();
        assert!(sizes.len() >= 400, "{}", sizes.len());
        sizes.sort_unstable();
        sizes.dedup();
        assert_eq!(sizes, [256 + 30, 1484 + 30]);
        for plant in [0, 1] {
            let report = boxes.sites[plant].report().unwrap();
            assert!(sent(&report, "OutOctetsPadding") > 10_000, "{report:#?}");
            assert_eq!(report.links[0].concerns, []);
        }
        boxes.stop();
    }
}
