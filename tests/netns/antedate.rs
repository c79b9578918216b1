//! Gateways that make keystreams ahead, end to end: what was ready is used, and keys change without a loss.

use std::time::{Duration, Instant};

use lab::traffic::{self, Ip, Until};
use lab::{Shape, Topology};
use perf::demo::pair::Choice;
use report::GatewayReport;
use suite::CipherSuite;

use super::mka::{Group, LINE, discards, ki};
use super::reload::{change_keys, while_they_talk};
use super::{DEADLINE, counter, lab};

const ON: &str = "antedate = \"on\"";

/// Frames sent and received with a whole, a part and nothing of their keystream ready.
fn antedated(report: &GatewayReport) -> [[u64; 3]; 2] {
    let secy = &report.links[0].secy;
    let sent = ["OutPktsAntedated", "OutPktsAntedatedInPart", "OutPktsNotAntedated"];
    let received = ["InPktsAntedated", "InPktsAntedatedInPart", "InPktsNotAntedated"];
    let of_scs = |name: &str| secy.receive.iter().map(|sc| counter(&sc.counters, name)).sum();
    [sent.map(|name| counter(&secy.transmit.counters, name)), received.map(of_scs)]
}

/// Every encrypted frame is one of the three, and many had their keystream.
fn used(report: &GatewayReport) {
    let secy = &report.links[0].secy;
    let [sent, received] = antedated(report);
    assert_eq!(sent.iter().sum::<u64>(), counter(&secy.transmit.counters, "OutPktsEncrypted"));
    let ok: u64 = secy.receive.iter().map(|sc| counter(&sc.counters, "InPktsOK")).sum();
    assert_eq!(received.iter().sum::<u64>(), ok);
    assert!(sent[0] > 10 && received[0] > 10, "{sent:?} {received:?}");
}

fn talk(topology: &Topology) {
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    traffic::ping(a, b, Ip::V4, 20, 1472).unwrap();
    traffic::tcp(b, a, Ip::V4, Until::Octets(20_000_000)).unwrap();
    traffic::ping(a, b, Ip::V4, 20, 56).unwrap();
}

#[test]
fn pings_and_tcp_use_what_was_made_ahead() {
    for (polling, suite) in [
        ("antedate = \"on\"\npolling = \"adaptive\"", CipherSuite::GcmAes256),
        ("antedate = \"on\"\npolling = \"interrupt\"", CipherSuite::GcmAes128),
    ] {
        let choice = Choice { gateway: polling, suite, ..Choice::default() };
        let (topology, pair) = lab(&Shape::default(), &choice);
        talk(&topology);
        for station in [&pair.a, &pair.b] {
            let report = station.report().unwrap();
            assert!(report.antedating.as_ref().is_some_and(|antedating| antedating.on));
            used(&report);
            // Losses of ports under TCP are no matter of this test.
            let refused = discards(&report).into_iter().find(|(name, _)| name == "InPktsNotValid");
            assert_eq!(refused, None);
        }
        let told = pair.a.stop().unwrap();
        assert!(told.contains("antedate: on, "), "{told}");
        pair.b.stop().unwrap();
    }
}

#[test]
fn off_is_off() {
    let (topology, pair) =
        lab(&Shape::default(), &Choice { gateway: "antedate = \"off\"", ..Choice::default() });
    traffic::ping(&topology.machine_a, &topology.machine_b, Ip::V4, 3, 56).unwrap();
    assert_eq!(antedated(&pair.a.report().unwrap()), [[0; 3]; 2]);
    assert!(pair.a.stop().unwrap().contains("antedate: off\n"));
    pair.b.stop().unwrap();
}

#[test]
fn static_keys_change_under_traffic_and_nothing_is_lost() {
    change_keys(ON, 2).iter().for_each(used);
}

#[test]
fn keys_roll_under_traffic_and_nothing_is_lost() {
    // The suite is given: the fastest one here may be none that can be antedated.
    let group = Group { link: "suite = \"gcm-aes-xpn-256\"", ..Group::new() };
    group.cak("line.cak", "line");
    let [a, b] = group.pair_with(ON, LINE);
    while_they_talk(&group.topology, || {
        for _ in 0..4 {
            let before = ki(&a);
            assert!(group.command(&["rekey", "a", "press"]).status.success());
            let end = Instant::now() + DEADLINE;
            while ki(&a) == before || ki(&b) != ki(&a) {
                assert!(Instant::now() < end, "no other key");
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    });
    for station in [a, b] {
        used(&station.report().unwrap());
        station.stop().unwrap();
    }
}
