use std::time::Duration;

use ::mka::{OnPeerLoss, SuiteRule};
use suite::CipherSuite;
use wire::MacAddr;

use super::super::tests::{lines, validated};
use super::super::{Expected, Finding, Link, Mka};

/// A valid configuration; the keys of [link.mka] from line 11 on.
const VALID: &str = r#"[gateway]
name = "press-line"
allow_experimental = false
[[link]]
name = "press"
plain = "eth0"
protected = "eth1"
suite = "auto"
mtu = "interface"
[link.mka]
cak_file = "line.cak"
priority = 16
"#;

const SECOND: &str = r#"[[link]]
name = "oven"
plain = "eth2"
protected = "eth3"
[link.mka]
cak_file = "line.cak"
sci = "02:00:00:00:00:01/1"
"#;

fn link(text: &str) -> (Link, Vec<Finding>) {
    let (mut config, warnings) = validated(text).unwrap();
    (config.links.remove(0), warnings)
}

fn mka(text: &str) -> Mka {
    link(text).0.mka().unwrap().clone()
}

#[test]
fn the_defaults_are_the_contract() {
    for text in [VALID.to_owned(), VALID.replace("suite = \"auto\"\n", "").replace("priority = 16\n", "")] {
        let (link, warnings) = link(&text);
        assert_eq!(lines(&warnings), [""; 0]);
        assert_eq!(link.suite(), None);
        assert!(link.static_sas().is_none());
        let fragmentation = link.fragmentation.unwrap();
        assert!(fragmentation.fragment && fragmentation.concatenate && fragmentation.hold.is_zero());
        let mka = link.mka().unwrap();
        assert_eq!((mka.suite, mka.priority), (SuiteRule::Standard(CipherSuite::GcmAes128), 16));
        assert_eq!(mka.destination.to_string(), "01:80:c2:00:00:03");
        assert_eq!(
            (mka.on_peer_loss, mka.rekey, mka.delay_protect),
            (OnPeerLoss::Block, Some(Duration::from_secs(28_800)), false)
        );
        assert_eq!((mka.cak.octets(), mka.fallback.is_none()), (&[b'l'; 16][..], true));
        assert_eq!(mka.sci_on(MacAddr([2, 0, 0, 0, 0, 9])).to_string(), "02:00:00:00:00:09/1");
        assert_eq!(mka.expects, Expected::default());
        assert!(mka.peers.is_empty() && !mka.accept_integrity);
    }
}

#[test]
fn the_caks_length_chooses_among_the_standards_suites() {
    for (word, cak, expected) in [
        ("auto", "line.cak", SuiteRule::Standard(CipherSuite::GcmAes128)),
        ("auto", "line256", SuiteRule::Standard(CipherSuite::GcmAes256)),
        ("any", "line256", SuiteRule::Any),
    ] {
        let text = VALID.replace("\"auto\"", &format!("{word:?}")).replace("line.cak", cak);
        assert_eq!(mka(&text).suite, expected, "{word} {cak}");
    }
}

#[test]
fn every_key_is_understood() {
    let more = r#"fallback_cak_file = "old.cak"
destination = "01:80:c2:00:00:1f"
on_peer_loss = "hold"
rekey = "90m"
delay_protect = true
sci = "02:00:00:00:00:01/7"
peers = ["02:00:00:00:00:02/1", "02:00:00:00:00:03/1"]
accept_integrity = true
"#;
    let text = format!("{VALID}{more}").replace("\"auto\"", "\"aegis-128l\"").replace("= 16", "= 0");
    let mka = mka(&text.replace("mtu = \"interface\"", "fragment = \"on\"\nconcatenate = \"off\""));
    assert_eq!(mka.suite, SuiteRule::Only(CipherSuite::Aegis128L));
    assert_eq!(mka.fallback.as_ref().unwrap().ckn().octets(), b"ooooo");
    assert_eq!(mka.caks().count(), 2);
    assert_eq!((mka.peers.len(), mka.accept_integrity), (2, true));
    assert_eq!((mka.priority, mka.on_peer_loss, mka.delay_protect), (0, OnPeerLoss::Hold, true));
    assert_eq!(mka.rekey, Some(Duration::from_secs(5400)));
    assert_eq!(mka.destination.to_string(), "01:80:c2:00:00:1f");
    assert_eq!(mka.sci_on(MacAddr([9; 6])).to_string(), "02:00:00:00:00:01/7");
    assert_eq!(mka.expects, Expected { fragment: true, concatenate: false });
}

#[test]
fn frames_are_fragmented_where_it_is_safe_and_not_switched_off() {
    for (of_link, expected) in [
        ("", Some((true, true))),
        ("fragment = \"off\"", Some((false, true))),
        ("concatenate = \"off\"", Some((true, false))),
        ("fragment = \"off\"\nconcatenate = \"off\"", None),
        ("encrypt = false", Some((true, true))),
        ("suite = \"gcm-aes-128\"\nconfidentiality_offset = 30", None),
        ("validate_frames = \"check\"", None),
    ] {
        let text = VALID.replace("suite = \"auto\"\n", "").replace("mtu = \"interface\"", of_link);
        let fragmented = link(&text).0.fragmentation.map(|how| (how.fragment, how.concatenate));
        assert_eq!(fragmented, expected, "{of_link}");
    }
}

/// A choice that is left to the gateway: frames stay whole where the kernel takes them. Where it is demanded, the choice is made.
#[test]
fn sdus_stay_whole_for_the_kernel_where_nobody_insists() {
    use super::super::WholeSdus::{AsConfigured, Demanded, ForKernel};
    for (of_link, expected, demanded) in [
        ("", ForKernel, Demanded),
        ("fragment = \"auto\"\nconcatenate = \"auto\"", ForKernel, Demanded),
        ("fragment = \"off\"", ForKernel, Demanded),
        ("concatenate = \"off\"", ForKernel, Demanded),
        ("fragment = \"on\"", AsConfigured, AsConfigured),
        ("concatenate = \"on\"", AsConfigured, AsConfigured),
        // Held to share frames.
        ("hold = \"250us\"", AsConfigured, AsConfigured),
        // Nothing is fragmented anyway.
        ("fragment = \"off\"\nconcatenate = \"off\"", AsConfigured, AsConfigured),
        ("validate_frames = \"check\"", AsConfigured, AsConfigured),
    ] {
        let text = VALID.replace("suite = \"auto\"\n", "").replace("mtu = \"interface\"", of_link);
        let left = link(&text).0;
        assert_eq!(left.whole_sdus, expected, "{of_link}");
        let kernel = link(&text.replace("[gateway]", "[gateway]\nio = \"kernel\"")).0;
        assert_eq!(kernel.whole_sdus, demanded, "{of_link}");
        let whole = kernel.fragmentation.is_none();
        assert_eq!(whole, demanded == Demanded || left.fragmentation.is_none(), "{of_link}");
    }
}

/// Of all suites the kernel has one: where it is demanded no other can be agreed on.
#[test]
fn any_suite_is_that_of_the_kernel_where_that_is_demanded() {
    let rule = |io: &str, suite: &str| {
        let text = VALID.replace("\"auto\"", &format!("{suite:?}"));
        mka(&text.replace("[gateway]", &format!("[gateway]\nio = {io:?}"))).suite
    };
    assert_eq!(rule("kernel", "any"), SuiteRule::Only(CipherSuite::ChaCha20Poly1305));
    assert_eq!(rule("auto", "any"), SuiteRule::Any);
    // An audit wants the standard's: these are refused by the kernel instead.
    assert_eq!(rule("kernel", "auto"), SuiteRule::Standard(CipherSuite::GcmAes128));
}

#[test]
fn express_scs_need_what_programs_and_mkpdus_can_do() {
    let rows = [
        ("chacha20-poly1305", "", "", None),
        ("chacha20-poly1305-xpn", "sci = \"end-station\"", "sci = \"02:00:00:00:00:01/1\"", None),
        ("chacha20-poly1305", "", "sci = \"02:00:00:00:00:01/32767\"", None),
        ("any", "fragment = \"off\"", "", None),
        ("auto", "", "", Some("needs suite = ")),
        ("gcm-aes-256", "", "", Some("needs suite = ")),
        ("any", "fragment = \"off\"\nconcatenate = \"off\"", "", Some("remove express")),
        ("any", "sci = \"never\"", "", Some("remove sci = \"never\"")),
        ("any", "", "delay_protect = true", Some("remove one of them")),
        ("any", "", "sci = \"02:00:00:00:00:01/32768\"", Some("below 32768")),
    ];
    for (suite, of_link, of_mka, why) in rows {
        let text = VALID.replace("suite = \"auto\"", &format!("suite = \"{suite}\""));
        let text = text.replace("mtu = \"interface\"", &format!("express = true\n{of_link}"));
        match validated(&(text + of_mka)) {
            Ok((config, _)) => {
                assert!(why.is_none() && config.links[0].express, "{suite} {of_link} {of_mka}")
            }
            Err(errors) => {
                let said = lines(&errors);
                let [one] = &said[..] else { panic!("{said:?}") };
                assert!(why.is_some_and(|why| one.contains(why)), "{suite} {of_link} {of_mka}: {one}");
                assert!(one.starts_with("gw.toml:9: link \"press\": express = true "), "{one}");
            }
        }
    }
    assert!(!link(VALID).0.express, "not unless it is asked for");
}

#[test]
fn lives_and_destinations() {
    for (text, seconds) in
        [("30s", Some(30)), ("2m", Some(120)), ("1h", Some(3600)), ("7d", Some(604_800)), ("off", None)]
    {
        let text = format!("{VALID}rekey = \"{text}\"\n");
        assert_eq!(mka(&text).rekey, seconds.map(Duration::from_secs));
    }
    for text in super::GROUPS.map(|group| group.to_string()).into_iter().chain(["02:00:00:00:00:09".into()]) {
        let to = mka(&format!("{VALID}destination = \"{text}\"\n")).destination;
        assert_eq!(to.to_string(), text);
    }
}

#[test]
fn each_mistake_has_its_line() {
    for (what, by, expected) in MISTAKES {
        assert!(VALID.contains(what), "{what}");
        let found = validated(&VALID.replacen(what, by, 1)).map(|_| ()).map_err(|errors| lines(&errors));
        assert_eq!(found, Err(expected.lines().map(|line| format!("gw.toml:{line}")).collect()), "{by}");
    }
}

const MISTAKES: &[(&str, &str, &str)] = &[
    (
        "priority",
        "prio",
        "12: unknown key \"prio\"; remove it or use one of cak_file, fallback_cak_file, fallback_until, peers, priority, destination, on_peer_loss, rekey, delay_protect, sci, accept_integrity, record",
    ),
    (
        "line.cak",
        "Zeros.cak",
        "11: link \"press\": Zeros.cak holds only zeros, which are no secret; make a key with: frameward keygen cak --out FILE",
    ),
    ("cak_file = \"line.cak\"\n", "", "10: link \"press\": cak_file is missing; add cak_file = \"FILE\""),
    (
        "priority = 16",
        "priority = 256",
        "12: link \"press\": priority = 256 is out of range; use 0 (first choice for key server) to 255 (never)",
    ),
    (
        "priority = 16",
        "priority = -1",
        "12: link \"press\": priority = -1 is out of range; use 0 (first choice for key server) to 255 (never)",
    ),
    (
        "priority = 16",
        "fallback_cak_file = \"lane.cak\"",
        "12: link \"press\": fallback_cak_file has the ckn of cak_file, 6c6c6c6c6c, but the ckn tells them apart; give each its own",
    ),
    (
        "priority = 16",
        "fallback_cak_file = \"Line.cak\"",
        "12: link \"press\": fallback_cak_file holds the key of cak_file under another name, so it adds nothing; make another key with: frameward keygen cak --out FILE",
    ),
    (
        "priority = 16",
        "destination = \"01:80:c2:00:00:04\"",
        "12: link \"press\": destination = \"01:80:c2:00:00:04\" is no address for EAPOL; use \
         01:80:c2:00:00:03, 01:80:c2:00:00:00, 01:80:c2:00:00:0e, 01:80:c2:00:00:0b, 01:80:c2:00:00:1f or ff:ff:ff:ff:ff:ff, or the address of the only peer",
    ),
    (
        "priority = 16",
        "destination = \"group\"",
        "12: link \"press\": destination = \"group\" is not a MAC address such as 02:00:00:00:00:01; use \
         01:80:c2:00:00:03, 01:80:c2:00:00:00, 01:80:c2:00:00:0e, 01:80:c2:00:00:0b, 01:80:c2:00:00:1f or ff:ff:ff:ff:ff:ff, or the address of the only peer",
    ),
    ("priority = 16", "peers = []", "12: link \"press\": peers names 0 boxes; name 1 to 32, or remove it"),
    (
        "priority = 16",
        "peers = [\"02:00:00:00:00:01/1\", \"02:00:00:00:00:01/1\"]",
        "12: link \"press\": peers: \"02:00:00:00:00:01/1\" stands there twice; name each other box of the link once, by the SCI that its frameward status shows",
    ),
    (
        "priority = 16",
        "peers = [\"oven\"]",
        "12: link \"press\": peers: \"oven\" is not an SCI such as 02:00:00:00:00:01/1 (MAC address, slash, port identifier); name each other box of the link once, by the SCI that its frameward status shows",
    ),
    (
        "priority = 16",
        "sci = \"02:00:00:00:00:01/1\"\npeers = [\"02:00:00:00:00:01/1\"]",
        "13: link \"press\": peers: \"02:00:00:00:00:01/1\" is this box's own; name each other box of the link once, by the SCI that its frameward status shows",
    ),
    (
        "priority = 16",
        "fallback_cak_file = \"old.cak\"\nfallback_until = 18:00:00",
        "13: link \"press\": fallback_until = 18:00:00 is neither a day nor a time in UTC; write it such as 2027-03-31 or 2027-03-31T18:00:00Z",
    ),
    (
        "priority = 16",
        "fallback_until = 9999-12-01",
        "12: link \"press\": fallback_until without fallback_cak_file ends nothing; remove it",
    ),
    (
        "priority = 16",
        "on_peer_loss = \"pass\"",
        "12: link \"press\": on_peer_loss = \"pass\" is no choice; use \"block\" or \"hold\"",
    ),
    (
        "priority = 16",
        "rekey = \"29s\"",
        "12: link \"press\": rekey = \"29s\" is no life of a key; use 30s or more, such as \"10m\", \"1h\" or \"7d\", or \"off\"",
    ),
    (
        "priority = 16",
        "rekey = \"hourly\"",
        "12: link \"press\": rekey = \"hourly\" is no life of a key; use 30s or more, such as \"10m\", \"1h\" or \"7d\", or \"off\"",
    ),
    (
        "priority = 16",
        "sci = \"02:00:00:00:00:01\"",
        "12: link \"press\": sci = \"02:00:00:00:00:01\" is not an SCI such as 02:00:00:00:00:01/1 (MAC address, slash, port identifier); correct it",
    ),
    (
        "priority = 16",
        "sci = \"02:00:00:00:00:01/0\"",
        "12: link \"press\": sci = \"02:00:00:00:00:01/0\" has port 0, which is reserved; correct it",
    ),
    (
        "priority = 16",
        "sci = \"03:00:00:00:00:01/1\"",
        "12: link \"press\": sci = \"03:00:00:00:00:01/1\" is no station's: a group address, or none; correct it",
    ),
    (
        "mtu = \"interface\"",
        "sci = \"end-station\"",
        "9: link \"press\": sci = \"end-station\" implies the machine's address with port 1; set sci = \"MACHINE/1\" in [link.mka] or use \"always\"",
    ),
    (
        "mtu = \"interface\"",
        "protect_frames = false",
        "9: link \"press\": protect_frames = false does not go with [link.mka], whose keys protect frames; remove one of them",
    ),
    (
        "suite = \"auto\"",
        "suite = \"any\"\nconfidentiality_offset = 50",
        "9: link \"press\": confidentiality_offset = 50 needs a suite with offsets; set one, such as suite = \"gcm-aes-128\"",
    ),
    (
        "mtu = \"interface\"",
        "fragment = \"on\"\nvalidate_frames = \"check\"",
        "9: link \"press\": fragment = \"on\" is not safe with these settings; set validate_frames = \"strict\"",
    ),
    (
        "suite = \"auto\"",
        "suite = \"fast\"",
        "8: link \"press\": suite = \"fast\" is unknown; use auto, any, gcm-aes-128, gcm-aes-256, gcm-aes-xpn-128, gcm-aes-xpn-256, chacha20-poly1305, chacha20-poly1305-xpn, aegis-128l, aegis-256, morus-640-128 or morus-1280-128",
    ),
    (
        "suite = \"auto\"",
        "suite = \"morus-640-128\"",
        "8: link \"press\": suite = \"morus-640-128\" is experimental; use another, or for research set allow_experimental = true in [gateway]",
    ),
    (
        "[link.mka]",
        "[link.static]\nan = 0\n[link.mka]",
        "12: link \"press\": has [link.mka] and [link.static]; remove one of them",
    ),
];

#[test]
fn two_links_never_name_one_sci() {
    let named = VALID.replace("priority = 16", "sci = \"02:00:00:00:00:01/1\"");
    let errors = validated(&format!("{named}{SECOND}")).unwrap_err();
    assert_eq!(
        lines(&errors),
        [
            "gw.toml:19: link \"oven\": sci = \"02:00:00:00:00:01/1\" is already used on line 12; give each link its own"
        ]
    );
    assert!(validated(&format!("{VALID}{SECOND}")).is_ok(), "one CAK for two links is no fault");
}

#[test]
fn what_weakens_is_warned_about() {
    for (what, by, expected) in [
        (
            "priority = 16",
            "priority = 255",
            "gw.toml:12: link \"press\": priority = 255: this box never becomes key server; if the whole group has 255, there are no keys, and nothing passes",
        ),
        (
            "priority = 16",
            "fallback_cak_file = \"old.cak\"\nfallback_until = 2020-02-29",
            "gw.toml:13: link \"press\": fallback_until = 2020-02-29 is over: the fallback CAK is not used; remove both keys, or set the clock",
        ),
        (
            "priority = 16",
            "accept_integrity = true",
            "gw.toml:12: link \"press\": accept_integrity = true: frames leave authenticated, but readable, if the key server says so",
        ),
        (
            "suite = \"auto\"",
            "suite = \"gcm-aes-256\"",
            "gw.toml:11: link \"press\": cak_file: keys of gcm-aes-256 are no stronger than their CAK of 128 bits; make one with: frameward keygen cak --bits 256 --out FILE",
        ),
    ] {
        assert_eq!(lines(&link(&VALID.replace(what, by)).1), [expected]);
    }
    let strong = VALID.replace("\"auto\"", "\"gcm-aes-256\"").replace("line.cak", "line256");
    assert!(link(&strong).1.is_empty());
    let research = VALID.replace("\"auto\"", "\"morus-640-128\"").replace("= false", "= true");
    assert!(link(&research).1[0].text.contains("broken in theory"));
}

#[test]
fn a_change_of_any_key_is_a_change() {
    let like = |more: &str| {
        let changed = link(&format!("{VALID}{more}\n")).0;
        (changed == link(VALID).0, changed.is_like_but_for_keys(&link(VALID).0))
    };
    assert_eq!(like("# nothing"), (true, true));
    for more in [
        "fallback_cak_file = \"old.cak\"",
        "peers = [\"02:00:00:00:00:02/1\"]",
        "rekey = \"1h\"",
        "on_peer_loss = \"hold\"",
    ] {
        assert_eq!(like(more), (false, true), "{more}");
    }
    assert_ne!(link(&VALID.replace("line.cak", "other.cak")).0, link(VALID).0);
}

#[test]
fn a_fallback_is_used_until_its_time_is_over() {
    let until = |written: &str| {
        let more = format!("fallback_cak_file = \"old.cak\"\nfallback_until = {written}\n");
        let mka = mka(&format!("{VALID}{more}"));
        let until =
            mka.fallback_until.map(|until| until.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs());
        (mka.fallback.is_some(), until)
    };
    // `date -u -d 2099-04-01 +%s`: the day counts whole.
    assert_eq!(until("2099-03-31"), (true, Some(4_078_684_800)));
    assert_eq!(until("2099-03-31T18:00:00Z"), (true, Some(4_078_663_200)));
    assert_eq!(until("2099-03-31T18:00:00+02:00"), (true, Some(4_078_656_000)));
    assert_eq!(until("2020-02-29"), (false, None));
}
