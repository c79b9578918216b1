//! Express SCs: received in the worker without programs, and with programs in the kernel, which send as well. Root, for programs.

use super::*;
use crate::kernel_link::{LinkPlace, LinkPlaceSettings};
use crate::kernel_ports::PlaceWanted;

/// A station that announces express SCs, and has no programs: it receives them under keys of their own, and sends on none.
#[test]
fn express_scs_are_received_beside_the_others() {
    use CipherSuite::{ChaCha20Poly1305, ChaCha20Poly1305Xpn, GcmAes256};
    let mut ends = Ends::new();
    ends.table.set(64, padded_to(FrameSizes::NONE), false, true);
    for (kn, suite) in [(1, ChaCha20Poly1305), (2, ChaCha20Poly1305Xpn)] {
        assert_eq!(ends.apply_event(Event::Install(sak(kn, suite, [1, 2]))), [Report::Installed(ki(kn))]);
        assert_eq!(ends.apply_event(Event::EnableTransmit(ki(kn))), [Report::Transmitting(ki(kn))]);
    }
    assert_eq!(ends.installed(), "1 2* 1:1+2 2:1+2 x1:1+2 x2:1+2");
    assert_eq!(ends.table.by_an(), [None, Some(ki(1)), Some(ki(2)), None], "one transmit SA for each SAK");
    ends.apply_event(Event::Expel(sci(2)));
    ends.apply_event(Event::Admit { ki: ki(1), admission: Admission { sci: sci(4), ssci: None } });
    ends.apply_event(Event::RaiseLowest { ki: ki(1), sci: sci(4), lowest_pn: 1000 });
    assert_eq!(ends.installed(), "1 2* 1:1+2 x1:1+2 4:1 x4:1");
    let lowest = |of: Sci| {
        let sc = ends.pipeline.secy.receive_scs().find(|sc| sc.sci() == of).unwrap();
        sc.sas().next().unwrap().window().lowest()
    };
    assert_eq!((lowest(sci(4)), lowest(sci(4).express().unwrap())), (1000, 1));
    ends.apply_event(Event::Retire(ki(1)));
    assert_eq!(ends.installed(), "2* 1:2 x1:2 4:", "an express SC goes with its last SA");
    // Suites without express SCs, and groups too large for them.
    ends.apply_event(Event::Install(sak(3, GcmAes256, [1, 4])));
    assert_eq!(ends.installed(), "2* 3 1:2+3 x1:2 4:3");
    let mut ends = Ends::new();
    ends.table.set(64, padded_to(FrameSizes::NONE), false, true);
    ends.apply_event(Event::Install(sak(1, ChaCha20Poly1305, 1..=17)));
    assert_eq!((ends.pipeline.secy.receive_scs().count(), ends.notices.len()), (17, 0));
}

/// A group grows until there are no SCs for express frames any more: each peer is received with the SAK behind at the latest.
#[test]
fn a_group_that_outgrows_express_scs_receives_all_peers() {
    let mut ends = Ends::new();
    ends.table.set(64, padded_to(FrameSizes::NONE), false, true);
    ends.apply_event(Event::Install(sak(1, CipherSuite::ChaCha20Poly1305, 1..=16)));
    assert_eq!(ends.pipeline.secy.receive_scs().count(), SecY::RECEIVE_SCS);
    let done = ends.apply_event(Event::Install(sak(2, CipherSuite::ChaCha20Poly1305, 1..=18)));
    assert_eq!(done, [Report::Installed(ki(2))]);
    assert_eq!(ends.notices.len(), 2, "no room for 17 and 18 yet: {:?}", ends.notices);
    ends.apply_event(Event::Retire(ki(1)));
    let all: Vec<_> = (1..=18).map(|number| format!("{number}:2")).collect();
    assert_eq!(ends.installed(), format!("2 {}", all.join(" ")));
    // A peer that begins anew, under another SCI, in a full table.
    let mut ends = Ends::new();
    ends.table.set(64, padded_to(FrameSizes::NONE), false, true);
    ends.apply_event(Event::Install(sak(1, CipherSuite::ChaCha20Poly1305, 1..=16)));
    ends.apply_event(Event::Admit { ki: ki(1), admission: Admission { sci: sci(17), ssci: None } });
    assert!(!ends.installed().contains("17:1"));
    ends.apply_event(Event::Expel(sci(3)));
    assert!(
        ends.installed().ends_with(" 17:1 x17:1") || ends.installed().ends_with(" x17:1 17:1"),
        "{}",
        ends.installed()
    );
}

/// Two members of which one has the SCI that the other's express frames have: both are received, and the SAK is used.
#[test]
fn an_express_sci_that_a_member_has_is_that_members() {
    let both = |first: Sci, second: Sci| {
        let mut ends = Ends::new();
        ends.table.set(64, padded_to(FrameSizes::NONE), false, true);
        let of = |sci| Admission { sci, ssci: None };
        let mut association = sak(1, CipherSuite::ChaCha20Poly1305, []);
        association.receive = vec![of(first)];
        ends.apply_event(Event::Install(association));
        ends.apply_event(Event::Admit { ki: ki(1), admission: of(second) });
        let mut association = sak(2, CipherSuite::ChaCha20Poly1305, []);
        association.receive = vec![of(first), of(second)];
        let done = ends.apply_event(Event::Install(association));
        assert_eq!(done, [Report::Installed(ki(2))]);
        (ends.installed(), ends.notices.len())
    };
    let (own, other) = (sci(1), sci(1).express().unwrap());
    // Under the first SAK who came first has the SCI, under the second its owner.
    assert_eq!(both(own, other), ("1 2 1:1+2 x1:1+2".into(), 1));
    assert_eq!(both(other, own), ("1 2 x1:1+2 1:1+2".into(), 1));
}

/// A peer's frame on its express SC is opened with the key that is derived from the SAK, and with no other.
#[test]
fn express_scs_have_the_derived_key() {
    for suite in [CipherSuite::ChaCha20Poly1305, CipherSuite::ChaCha20Poly1305Xpn] {
        let mut ends = Ends::new();
        ends.table.set(64, padded_to(FrameSizes::NONE), false, true);
        let association = sak(1, suite, [1]);
        let own = association.sak.clone();
        let derived = own.express(suite).unwrap();
        ends.apply_event(Event::Install(association));
        let peer = sci(1).express().unwrap();
        for (key, opens) in [(own, false), (derived, true)] {
            let mut sender = pipeline(peer);
            let xpn = suite.is_xpn().then_some(XpnBinding { ssci: Ssci(2), salt: Salt([3; 12]) });
            let key = Key::prepare(suite, &key).unwrap();
            let protection = Protection::Encrypt(ConfidentialityOffset::Zero);
            let an = An::from_tci(1);
            let sa = TransmitSa::new(an, key, xpn, protection, Pn::FIRST, Pn::LAST_32).unwrap();
            sender.secy.install_transmit(Box::new(sa)).unwrap();
            sender.secy.enable_transmit(an).unwrap();
            let mut octets = [7; 256];
            let mut sdus = [secy::Outgoing::new(wire::Frame::new(&mut octets, 64, 100).unwrap())];
            sender.secy.protect(&mut sdus);
            let [sdu] = sdus;
            let (start, len) = (sdu.frame().start(), sdu.frame().len());
            assert!(sdu.into_outcome().is_ok());
            let mut frames = [secy::Incoming::new(wire::Frame::new(&mut octets, start, len).unwrap())];
            let mut room = secy::SduBuffer::none();
            ends.pipeline.secy.verify(wire::Instant::START, &mut frames, &mut room);
            let [frame] = frames;
            assert_eq!(frame.into_outcome().is_ok(), opens, "{suite}");
        }
    }
}

/// Programs for the express SCs of `OWN`, in front of no ports.
fn programs() -> KernelLink {
    let mut kernel = KernelLink::new(xdp::Link::load(64).unwrap());
    let secy = Settings { reassemble: true, ..*pipeline(OWN).secy.settings() };
    let settings = LinkPlaceSettings {
        wanted: PlaceWanted::Auto,
        suite: CipherSuite::ChaCha20Poly1305,
        sci: OWN,
        refused: None,
        secy,
        express: Some(ExpressClasses::DEFAULT),
        bypass: vec![],
        replay_window: 64,
        saks: None,
    };
    kernel.configure(&settings, &[], true).unwrap();
    kernel
}

/// A SAK of members that all announce express SCs, or not.
fn agreed(kn: u32, express: bool) -> Event {
    let fragmentation = FragmentAgreement { express, ..FRAGMENTED };
    Event::Install(Box::new(Association { fragmentation, ..*sak(kn, CipherSuite::ChaCha20Poly1305, [1, 2]) }))
}

impl Ends {
    fn apply_in_kernel(&mut self, event: Event, kernel: &mut KernelLink) -> Vec<Report> {
        self.table.apply_event(event, Some(kernel), &mut |notice| self.notices.push(format!("{notice:?}")));
        let Some(mut changes) = self.table.take_changes() else { return vec![] };
        changes.apply(&mut self.pipeline);
        assert_eq!(changes.refused, None, "control knows the tables");
        changes.reports
    }
}

/// ANs of the express SC, the enabled one marked, and those that a peer's has in the programs.
fn in_kernel(kernel: &KernelLink, peer: u8) -> String {
    let transmit = An::ALL.into_iter().filter_map(|an| {
        let (_, enabled) = kernel.pns(an).unwrap()?;
        Some(format!("{an}{}", if enabled { "*" } else { "" }))
    });
    let sci = sci(peer).express().unwrap();
    let receive = An::ALL.into_iter().filter(|an| kernel.highest(sci, *an).unwrap().is_some());
    let receive: Vec<_> = receive.map(|an| an.to_string()).collect();
    format!("{} {peer}:{}", transmit.collect::<Vec<_>>().join(" "), receive.join("+"))
}

#[test]
fn programs_have_the_express_sas_and_the_worker_all_others() {
    let (mut ends, mut kernel) = (Ends::new(), programs());
    ends.table.set(64, padded_to(FrameSizes::NONE), false, true);
    for (kn, express, place) in [(1, true, "1* 1:1"), (2, true, "1 2* 1:1+2"), (3, false, "1 2 3 1:1+2+3")] {
        assert_eq!(ends.apply_in_kernel(agreed(kn, express), &mut kernel), [Report::Installed(ki(kn))]);
        let done = ends.apply_in_kernel(Event::EnableTransmit(ki(kn)), &mut kernel);
        assert_eq!(done, [Report::Transmitting(ki(kn))]);
        assert_eq!(in_kernel(&kernel, 1), place);
        assert_eq!(ends.table.express_place() == LinkPlace::Express, express);
    }
    assert_eq!(ends.installed(), "1 2 3* 1:1+2+3 2:1+2+3 x1: x2:", "the worker has the SCs, too");
    assert_eq!(ends.table.next_pns(&kernel).len(), 0, "the KaY hears PNs of the other SC");
    ends.apply_in_kernel(Event::Expel(sci(2)), &mut kernel);
    ends.apply_in_kernel(Event::Retire(ki(1)), &mut kernel);
    ends.apply_in_kernel(Event::Retire(ki(3)), &mut kernel);
    assert_eq!((in_kernel(&kernel, 1).as_str(), in_kernel(&kernel, 2).as_str()), ("2 1:2", "2 2:"));
    assert_eq!(ends.installed(), "2 1:2 x1:");
    // Out of the kernel: received by the worker from then on, and sent by it on its one SC.
    ends.table.leave_kernel(&mut kernel).unwrap();
    assert!(ends.apply_in_kernel(Event::EnableTransmit(ki(2)), &mut kernel).len() == 1);
    assert_eq!((in_kernel(&kernel, 1).as_str(), ends.installed().as_str()), (" 1:", "2* 1:2 x1:2"));
    assert_ne!(ends.table.express_place(), LinkPlace::Express);
    assert_eq!(ends.notices, [""; 0]);
}

/// Three quarters of the PNs of the express SA are used: another SAK is asked for, until there is one.
#[test]
fn pns_of_the_express_sa_that_run_out_want_another_sak() {
    let (mut ends, mut kernel) = (Ends::new(), programs());
    ends.table.set(64, padded_to(FrameSizes::NONE), false, true);
    ends.apply_in_kernel(agreed(1, true), &mut kernel);
    ends.apply_in_kernel(Event::EnableTransmit(ki(1)), &mut kernel);
    assert!(!ends.table.express_wants_sak(&kernel));
    let (an, association) = (An::from_tci(1), sak(1, CipherSuite::ChaCha20Poly1305, [1]));
    kernel.retire(an, &[]).unwrap();
    let far = Pn::new(3 << 30).unwrap();
    kernel.install_transmit(an, &transmit_key(&association), far, Pn::LAST_64).unwrap();
    kernel.enable_transmit(an).unwrap();
    // A request may be lost with the key server that heard it.
    (0..3).for_each(|_| assert!(ends.table.express_wants_sak(&kernel)));
    // One that is taken back again is none.
    ends.apply_in_kernel(agreed(2, true), &mut kernel);
    assert!(!ends.table.express_wants_sak(&kernel), "there is one");
    ends.apply_in_kernel(Event::Retire(ki(2)), &mut kernel);
    assert!(ends.table.express_wants_sak(&kernel));
    ends.apply_in_kernel(agreed(3, true), &mut kernel);
    ends.apply_in_kernel(Event::EnableTransmit(ki(3)), &mut kernel);
    assert!(!ends.table.express_wants_sak(&kernel));
}
