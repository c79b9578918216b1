mod express;

use super::*;
use std::num::NonZeroU16;

use mka::FragmentAgreement;
use secy::{ClearVlan, SciInclusion, ValidateFrames};
use suite::{CipherSuite, Sak, Salt};
use wire::{MacAddr, Mi, Ssci};

const OWN: Sci = sci(0);
const WHOLE: FragmentAgreement =
    FragmentAgreement { fragment: false, concatenate: false, pad: false, express: false, largest_sdu: 1518 };
const FRAGMENTED: FragmentAgreement =
    FragmentAgreement { fragment: true, concatenate: true, pad: true, express: false, largest_sdu: 9000 };

const fn sci(number: u8) -> Sci {
    Sci::new(MacAddr([2, 0, 0, 0, 0, number]), 1)
}

const fn ki(kn: u32) -> Ki {
    Ki { server: Mi([7; 12]), kn }
}

fn sak(kn: u32, suite: CipherSuite, peers: impl IntoIterator<Item = u8>) -> Box<Association> {
    let ssci = |number: u8| suite.is_xpn().then_some(Ssci(u32::from(number) + 1));
    let admission = |number| Admission { sci: sci(number), ssci: ssci(number) };
    Box::new(Association {
        ki: ki(kn),
        an: An::from_tci(kn as u8),
        suite,
        sak: Sak::new(suite, &vec![kn as u8; suite.key_octets()]).unwrap(),
        confidentiality: Confidentiality::Zero,
        xpn: ssci(0).map(|own| (Salt([3; 12]), own)),
        receive: peers.into_iter().map(admission).collect(),
        fragmentation: WHOLE,
        whole: true,
    })
}

/// Fragmenters that hold nothing, and pad to these sizes.
const fn padded_to(padding: FrameSizes) -> FragmenterSettings {
    FragmenterSettings { hold: Duration::ZERO, express_classes: ExpressClasses::DEFAULT, padding }
}

/// A table and the pipeline that it is about.
struct Ends {
    table: SaTable,
    pipeline: Pipeline,
    notices: Vec<String>,
}

impl Ends {
    fn new() -> Self {
        let pipeline = pipeline(OWN);
        Self {
            table: SaTable::new(&pipeline.secy, 64, padded_to(FrameSizes::NONE), false, false),
            pipeline,
            notices: vec![],
        }
    }

    /// Carries an event out; returns what the KaY hears.
    fn apply_event(&mut self, event: Event) -> Vec<Report> {
        self.table.apply_event(event, None, &mut |notice| self.notices.push(format!("{notice:?}")));
        let Some(mut changes) = self.table.take_changes() else { return vec![] };
        changes.apply(&mut self.pipeline);
        assert_eq!(changes.refused, None, "control knows the tables");
        changes.reports
    }

    /// Contents of the SecY: ANs of transmit SAs, the enabled one marked, and of receive SAs by the number of their SC, express ones marked.
    fn installed(&self) -> String {
        let secy = &self.pipeline.secy;
        let enabled = |an| if secy.encoding_sa() == Some(an) { "*" } else { "" };
        let mut all: Vec<_> =
            secy.transmit_sas().map(|sa| format!("{}{}", sa.an(), enabled(sa.an()))).collect();
        for sc in secy.receive_scs() {
            assert!(sc.sas().all(ReceiveSa::in_use));
            let ans: Vec<_> = sc.sas().map(|sa| sa.an().to_string()).collect();
            let express = if sc.sci().express().is_none() { "x" } else { "" };
            all.push(format!("{express}{}:{}", sc.sci().system().0[5], ans.join("+")));
        }
        all.join(" ")
    }
}

fn pipeline(own: Sci) -> Pipeline {
    let settings = Settings {
        protect_frames: true,
        sci_inclusion: SciInclusion::Always,
        validate_frames: ValidateFrames::Strict,
        replay_protect: true,
        clear_vlan: ClearVlan::Refuse,
        reassemble: false,
        mtu: 1532,
    };
    Pipeline::new(SecY::new(own, settings), &[], None)
}

#[test]
fn events_become_sas() {
    use CipherSuite::{GcmAes128, GcmAesXpn256};
    let mut ends = Ends::new();
    assert_eq!(ends.apply_event(Event::Install(sak(1, GcmAes128, [1, 2]))), [Report::Installed(ki(1))]);
    assert_eq!(ends.installed(), "1 1:1 2:1");
    assert_eq!(ends.apply_event(Event::EnableTransmit(ki(1))), [Report::Transmitting(ki(1))]);
    assert_eq!(ends.installed(), "1* 1:1 2:1");
    assert_eq!(ends.apply_event(Event::Install(sak(2, GcmAesXpn256, [1, 2, 3]))), [Report::Installed(ki(2))]);
    assert_eq!(ends.installed(), "1* 2 1:1+2 2:1+2 3:2");
    assert_eq!(ends.table.by_an(), [None, Some(ki(1)), Some(ki(2)), None]);
    ends.apply_event(Event::EnableTransmit(ki(2)));
    assert_eq!(ends.apply_event(Event::Retire(ki(1))), []);
    assert_eq!(ends.installed(), "2* 1:2 2:2 3:2");
    ends.apply_event(Event::Expel(sci(2)));
    ends.apply_event(Event::Admit { ki: ki(2), admission: Admission { sci: sci(4), ssci: Some(Ssci(9)) } });
    ends.apply_event(Event::RaiseLowest { ki: ki(2), sci: sci(4), lowest_pn: 1000 });
    assert_eq!(ends.installed(), "2* 1:2 3:2 4:2");
    let lowest =
        ends.pipeline.secy.receive_scs().flat_map(|sc| sc.sas()).map(|sa| sa.window().lowest()).max();
    assert_eq!(lowest, Some(1000));
    // An event about a SAK or a peer that is not there changes nothing.
    for event in [
        Event::Retire(ki(1)),
        Event::Expel(sci(2)),
        Event::EnableTransmit(ki(1)),
        Event::RaiseLowest { ki: ki(1), sci: sci(1), lowest_pn: 5 },
        Event::Admit { ki: ki(1), admission: Admission { sci: sci(5), ssci: None } },
    ] {
        assert_eq!(ends.apply_event(event), []);
    }
    ends.apply_event(Event::Retire(ki(2)));
    assert_eq!(ends.installed(), "1: 3: 4:");
    assert_eq!(ends.notices, [""; 0]);
}

/// More peers than a SecY has room for: those that find room are served, the others are told of, and the SAK is used.
#[test]
fn a_full_table_serves_whom_it_can() {
    let mut ends = Ends::new();
    let room = SecY::RECEIVE_SCS as u8;
    let reports = ends.apply_event(Event::Install(sak(1, CipherSuite::GcmAes128, 1..=room + 2)));
    assert_eq!(reports, [Report::Installed(ki(1))]);
    assert_eq!(ends.pipeline.secy.receive_scs().count(), SecY::RECEIVE_SCS);
    let notices: Vec<_> =
        (1..=2).map(|more| format!("{:?}", SaNotice::TooManyPeers(sci(room + more)))).collect();
    assert_eq!(ends.notices, notices);
    // A peer that goes makes room.
    ends.apply_event(Event::Expel(sci(1)));
    ends.apply_event(Event::Admit { ki: ki(1), admission: Admission { sci: sci(room + 1), ssci: None } });
    assert!(ends.pipeline.secy.receive_scs().any(|sc| sc.sci() == sci(room + 1)));
    assert_eq!(ends.notices.len(), 2);
}

/// A SAK that cannot be: told, not reported, and nothing of it is installed.
#[test]
fn a_sak_that_cannot_be_installed_is_told_of_and_left_out() {
    let mut ends = Ends::new();
    let thirty = Confidentiality::Thirty;
    let offset = Association { confidentiality: thirty, ..*sak(1, CipherSuite::GcmAesXpn128, [1]) };
    let unsalted = Association { xpn: None, ..*sak(1, CipherSuite::GcmAesXpn128, [1]) };
    let short = Association { suite: CipherSuite::GcmAes256, ..*sak(1, CipherSuite::GcmAes128, [1]) };
    for (sak, why) in [(offset, "offset"), (unsalted, "salt"), (short, "long")] {
        assert_eq!(ends.apply_event(Event::Install(Box::new(sak))), []);
        assert!(ends.notices.pop().is_some_and(|notice| notice.contains(why)));
        assert_eq!(ends.installed(), "");
    }
    // Our own SCI from somebody else gets no SC.
    ends.apply_event(Event::Install(sak(1, CipherSuite::GcmAes128, [0, 1])));
    assert_eq!((ends.installed(), ends.notices.len()), ("1 1:1".to_owned(), 1));
}

/// SDUs are fragmented as the enabled SAK says: not under one that does not, under one with an offset, or under none.
#[test]
fn fragmentation_follows_the_enabled_sak() {
    let mut ends = Ends::new();
    let with = |kn, confidentiality, fragmentation| {
        Box::new(Association { confidentiality, fragmentation, ..*sak(kn, CipherSuite::GcmAes128, [1]) })
    };
    let rows = [
        (Confidentiality::Zero, FRAGMENTED, true),
        (Confidentiality::Zero, WHOLE, false),
        (Confidentiality::Integrity, FRAGMENTED, true),
        (Confidentiality::Fifty, FRAGMENTED, false),
        (Confidentiality::Zero, FragmentAgreement { fragment: false, ..FRAGMENTED }, true),
    ];
    for (kn, (confidentiality, fragmentation, fragments)) in (1..).zip(rows) {
        let before = ends.pipeline.is_fragmenting();
        ends.apply_event(Event::Install(with(kn, confidentiality, fragmentation)));
        assert_eq!(ends.pipeline.is_fragmenting(), before, "not before it is enabled");
        ends.apply_event(Event::EnableTransmit(ki(kn)));
        assert_eq!(ends.pipeline.is_fragmenting(), fragments, "{kn}");
        ends.apply_event(Event::Retire(ki(kn - 1)));
        assert_eq!(ends.pipeline.is_fragmenting(), fragments, "{kn}");
        // Another pipeline goes on so.
        let mut next = pipeline(OWN);
        ends.table.prepare(&mut next).unwrap();
        assert_eq!(next.is_fragmenting(), fragments, "{kn}");
    }
    ends.apply_event(Event::Retire(ki(rows.len() as u32)));
    assert!(!ends.pipeline.is_fragmenting());
    assert!(ends.table.prepare(&mut pipeline(sci(9))).is_err(), "another SCI");
}

/// Frames are padded under a SAK that allows it and encrypts all, and other settings hold at once.
#[test]
fn padding_follows_the_enabled_sak_and_the_settings() {
    let mut ends = Ends::new();
    let sizes = FrameSizes::new(&[256]).unwrap();
    let set = |ends: &mut Ends, sizes| {
        ends.table.set(64, padded_to(sizes), false, false);
        if let Some(mut changes) = ends.table.take_changes() {
            assert!(changes.reports.is_empty(), "the KaY hears nothing of it");
            changes.apply(&mut ends.pipeline);
        }
    };
    set(&mut ends, sizes);
    let pads = FragmentAgreement { pad: true, ..WHOLE };
    let rows = [
        (Confidentiality::Zero, pads, true),
        (Confidentiality::Zero, WHOLE, false),
        (Confidentiality::Integrity, pads, false),
        (Confidentiality::Fifty, pads, false),
        (Confidentiality::Zero, pads, true),
    ];
    for (kn, (confidentiality, fragmentation, padded)) in (1..).zip(rows) {
        let sak = sak(kn, CipherSuite::GcmAes128, [1]);
        ends.apply_event(Event::Install(Box::new(Association { confidentiality, fragmentation, ..*sak })));
        ends.apply_event(Event::EnableTransmit(ki(kn)));
        ends.apply_event(Event::Retire(ki(kn - 1)));
        assert_eq!(ends.pipeline.is_fragmenting(), padded, "{kn}");
        set(&mut ends, FrameSizes::NONE);
        assert!(!ends.pipeline.is_fragmenting(), "{kn}");
        set(&mut ends, sizes);
        assert_eq!(ends.pipeline.is_fragmenting(), padded, "{kn}");
    }
}

/// Frames that leave at a constant rate do so under a SAK for which all announced padded frames, and what waits stays at a change of SAKs.
#[test]
fn cover_follows_the_enabled_sak() {
    let mut ends = Ends::new();
    let cover = FrameSizes::cover(256, NonZeroU16::new(100).unwrap()).unwrap();
    ends.table.set(64, padded_to(cover), false, false);
    let pads = FragmentAgreement { pad: true, ..WHOLE };
    for (kn, (fragmentation, covers)) in (1..).zip([(pads, true), (pads, true), (WHOLE, false), (pads, true)])
    {
        let sak = sak(kn, CipherSuite::GcmAes128, [1]);
        ends.apply_event(Event::Install(Box::new(Association { fragmentation, ..*sak })));
        ends.apply_event(Event::EnableTransmit(ki(kn)));
        ends.apply_event(Event::Retire(ki(kn - 1)));
        assert_eq!(ends.pipeline.held_until().is_some(), covers, "{kn}");
    }
}

/// Changes that a worker did not take go before those that were made since.
#[test]
fn changes_stay_in_order() {
    let mut ends = Ends::new();
    let mut tell = |_| {};
    ends.table.apply_event(Event::Install(sak(1, CipherSuite::GcmAes128, [1])), None, &mut tell);
    let first = ends.table.take_changes().unwrap();
    ends.table.apply_event(Event::EnableTransmit(ki(1)), None, &mut tell);
    ends.table.requeue(*first);
    let mut all = ends.table.take_changes().unwrap();
    all.apply(&mut ends.pipeline);
    assert_eq!((all.refused, ends.installed()), (None, "1* 1:1".to_owned()));
    assert_eq!(all.reports, [Report::Installed(ki(1)), Report::Transmitting(ki(1))]);
    assert!(ends.table.take_changes().is_none());
}
