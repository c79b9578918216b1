//! SAKs that are not taken, and the words for it.

use mka::SuiteRule;
use suite::CipherSuite;
use wire::mkpdu::{Capability, Confidentiality, Mkpdu};

use crate::scripted::{Alone, HandedOut, Scripted};
use crate::station::{cak, ms, settings};

/// Refused SAKs, each with words for it; the group stands still, and nothing is installed.
#[test]
fn saks_that_cannot_be_used_are_refused_with_a_reason() {
    type Change = fn(&mut Scripted);
    let cases: [(&str, &str, Change); 5] = [
        ("unknown cipher suite", "lacks", |server| {
            server.hands_out.as_mut().expect("one").named = Some(*b"\x00\x80\xc2\x00\x01\x00\x00\x77");
        }),
        ("not allowed by the configuration", "does not allow", |server| {
            let suite = CipherSuite::Aegis128L;
            server.hands_out.as_mut().expect("one").named = Some(suite.identifier());
        }),
        ("offset of 50", "does not support", |server| server.confidentiality = Confidentiality::Fifty),
        ("cannot be unwrapped", "cannot be unwrapped", |server| {
            server.cak = suite::mka::Cak::new(&[1; 16]).expect("16 octets");
            let kek_of_another = wire::Ckn::new(b"another").expect("a name");
            server.ckn = kek_of_another;
        }),
        ("", "", |_| {}),
    ];
    for (told, fault, change) in cases {
        let mut own_settings = settings(0);
        own_settings.capability = Capability::Confidentiality;
        let (mut alone, mut server) = (Alone::new(own_settings), Scripted::new(9));
        alone.meets(&mut server);
        server.hand_out(1, 0, 5);
        change(&mut server);
        server.hears(alone.last_sent());
        let frame = if told == "cannot be unwrapped" {
            wrapped_under_another_kek(&mut server)
        } else {
            server.mkpdu()
        };
        alone.hears(&frame);
        alone.pass(ms(100));
        let status = alone.kay.status(alone.now);
        if told.is_empty() {
            assert_eq!(alone.installed().len(), 1);
            continue;
        }
        assert_eq!(alone.installed(), [], "{told}");
        assert_eq!(alone.told(told), 1, "{told}: {:?}", status.changes);
        assert!(status.fault.expect("there is trouble").to_string().contains(fault), "{:?}", status.fault);
        assert_eq!(alone.kay.counters().saks_refused, 1);
    }
}

/// The ICV is right, the key is wrapped under another CKN's KEK.
fn wrapped_under_another_kek(server: &mut Scripted) -> Vec<u8> {
    let right = cak(1).ckn;
    let frame = {
        server.basic.mn += 1;
        let wrong = server.same_mn();
        server.ckn = right;
        wrong
    };
    // The ICV was made with the wrong name's ICK too: it is made again.
    let authenticated = Mkpdu::parse(&frame).expect("an MKPDU").authenticated().to_vec();
    let icv = server.cak.ick(&right).icv(&authenticated);
    [authenticated, icv.to_vec()].concat()
}

/// A station that is to encrypt accepts no SAK under which user data, or a part of it, leaves in clear;
/// unless it is told to.
#[test]
fn a_sak_that_hides_less_than_is_configured_is_refused() {
    use Confidentiality::{Fifty, Integrity, Thirty, Zero};
    for (own, offered, is_taken) in [
        (Zero, Zero, true),
        (Zero, Integrity, false),
        (Zero, Thirty, false),
        (Zero, Fifty, false),
        (Thirty, Zero, true),
        (Thirty, Fifty, false),
        (Fifty, Thirty, true),
        (Fifty, Integrity, false),
        (Integrity, Integrity, true),
        (Integrity, Zero, true),
    ] {
        for accept_integrity in [false, true] {
            let mut own_settings = settings(0);
            (own_settings.confidentiality, own_settings.accept_integrity) = (own, accept_integrity);
            let (mut alone, mut server) = (Alone::new(own_settings), Scripted::new(9));
            alone.meets(&mut server);
            server.hand_out(1, 0, 5);
            server.confidentiality = offered;
            server.hears(alone.last_sent());
            alone.hears(&server.mkpdu());
            alone.pass(ms(100));
            let refused = u64::from(!is_taken && !accept_integrity);
            assert_eq!(alone.installed().len() as u64, 1 - refused, "{own:?} {offered:?}");
            let counters = alone.kay.counters();
            assert_eq!((counters.saks_refused, counters.saks_weaker), (refused, refused));
            assert_eq!(alone.told("hides less than is configured") as u64, refused);
            if refused == 1 {
                let fault = alone.kay.status(alone.now).fault.expect("there is trouble").to_string();
                assert!(fault.contains("accept_integrity"), "{fault}");
            }
        }
    }
}

#[test]
fn only_a_configured_suite_is_taken() {
    let mut own_settings = settings(0);
    own_settings.suite = SuiteRule::Only(CipherSuite::GcmAes256);
    let (mut alone, mut server) = (Alone::new(own_settings), Scripted::new(9));
    alone.meets(&mut server);
    server.hand_out(1, 0, 5);
    alone.hears(&server.mkpdu());
    assert_eq!(alone.installed(), []);
    let suite = CipherSuite::GcmAes256;
    server.hands_out = Some(HandedOut {
        kn: 2,
        an: wire::An::ALL[0],
        named: Some(suite.identifier()),
        suite,
        key: vec![5; 32],
    });
    alone.hears(&server.mkpdu());
    assert_eq!(alone.installed().len(), 1);
    server.uses(alone.installed()[0], wire::An::ALL[0], true, true);
    alone.hears(&server.mkpdu());
    assert_eq!(alone.kay.status(alone.now).fault, None);
}
