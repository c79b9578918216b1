use std::path::Path;

use suite::Sak;
use wire::{Ckn, MacAddr, Sci};

use super::super::Level;
use super::super::exam::Probed;
use super::super::exam::Rejections;
use super::super::targets::TARGETS;
use super::*;
use config::Config;
use config::key_file::{NamedCak, fingerprint};

fn config(more: &str) -> Config {
    of_suite("gcm-aes-128", more)
}

fn of_suite(suite: &str, more: &str) -> Config {
    let text = format!(
        r#"[gateway]
name = "press-line"
[[link]]
name = "press"
plain = "eth0"
protected = "eth1"
suite = "{suite}"
{more}
[link.static]
an = 0
sci = "02:00:00:00:00:01/1"
key_file = "a.key"
[[link.static.peer]]
an = 2
sci = "02:00:00:00:00:02/1"
key_file = "bb.key"
"#
    );
    parsed(&text)
}

fn parsed(text: &str) -> Config {
    let key = |path: &Path, suite: CipherSuite| {
        let octets = [path.as_os_str().len() as u8; 32];
        Ok(Sak::new(suite, &octets[..suite.key_octets()]).unwrap())
    };
    let files = config::KeyFiles {
        key: &key,
        cak: &|_| Ok(NamedCak::new(Ckn::new(b"line").unwrap(), &[3; 16]).unwrap()),
        identity: &config::key_file::read_identity,
        master_key: &config::key_file::read_master_key,
    };
    config::parse(Path::new("gw.toml"), text, files).unwrap().0
}

const MTUS: Mtus = Mtus { plain: 1500, protected: 1532 };

/// A path without fault, as both ends see it.
fn good(config: &Config) -> Outcome {
    let link = &config.links[0];
    let all = ((1_u32 << TARGETS.len()) - 1) as u16;
    let record = ReceiveRecord { received: 1000, ..ReceiveRecord::default() };
    Outcome {
        end: End::Examined,
        peer: Some("02:00:00:00:00:02/1".parse().unwrap()),
        theirs: super::super::frame::Status { largest: 1532, sent: 1000, record, ..facts(link, MTUS) },
        probed: Probed { tried: all, crossed: all, tag: TagFate::Kept, largest: Some(1532), sent: 1000 },
        record,
        rejections: Rejections::default(),
    }
}

/// Findings that are not ok, after a change to a good outcome.
fn told(more: &str, change: impl Fn(&mut Outcome)) -> Vec<Finding> {
    told_of(config(more), change)
}

fn told_of(config: Config, change: impl Fn(&mut Outcome)) -> Vec<Finding> {
    let mut outcome = good(&config);
    change(&mut outcome);
    let findings = findings(
        &config.links[0],
        MTUS,
        &Seen {
            outcome,
            own: Sci::new(MacAddr([2, 0, 0, 0, 0, 1]), 1),
            lost_here: 0,
            unfilled: 0,
            misplaced: None,
        },
    );
    assert!(!findings.is_empty());
    findings.into_iter().filter(|finding| finding.level > Level::Ok).collect()
}

#[test]
fn a_good_path_has_no_note() {
    assert_eq!(told("", |_| ()), []);
    assert_eq!(told("fragment = \"on\"\nconcatenate = \"on\"", |_| ()), []);
}

/// Two doctors that hear each other do so in frames of 0x88B5: of another EtherType they know nothing.
#[test]
fn whether_a_cells_frames_cross_is_said_of_their_own_ethertype_alone() {
    let of = |cell: &str| {
        let text = format!(
            "[gateway]\nname = \"g\"\n[[fieldbus]]\nname = \"cell-4\"\nplain = \"eth0\"\nprotected = \"eth1\"\nrest = \"drop\"\nmaster_key_file = \"m\"\nlocal = [\"02:00:00:00:01:01\"]\n{cell}\n[[fieldbus.relation]]\nstations = [\"02:00:00:00:01:01\", \"02:00:00:00:02:01\"]\nframe_ids = [0x8001, 0x8002]\ncycle = \"1ms\"\n"
        );
        let key = |_: &Path| Ok(config::key_file::CellKey::new(&[1; 32]));
        let files = config::KeyFiles { master_key: &key, ..config::KeyFiles::ON_DISK };
        config::parse(Path::new("gw.toml"), &text, files).unwrap().0
    };
    let finding = cell(&of("").links[0]).unwrap();
    assert_eq!((finding.level, finding.about), (Level::Ok, "fieldbus"));
    assert!(finding.text.contains("EtherType 0x88b5, that of protected frames, crosses"), "{finding:?}");
    let finding = cell(&of("ethertype = 0x88b6").links[0]).unwrap();
    assert_eq!((finding.level, finding.about), (Level::Note, "fieldbus"));
    assert!(finding.text.contains("EtherType 0x88b6") && finding.text.contains("not tried"), "{finding:?}");
    assert_eq!(cell(&config("").links[0]), None, "a link without a cell");
}

#[test]
fn each_fault_has_its_line_and_its_cure() {
    type Change = fn(&mut Outcome);
    let window = "replay_window = 64";
    let fragment = "fragment = \"on\"\nmtu = 1532";
    let rows: [(&str, Change, Level, &str); 19] = [
        (
            "",
            |o| o.probed.largest = Some(1500),
            Level::Problem,
            "drops frames above 1514 octets, and full frames of the machine need 1546: raise the MTU of the switches on the path to 1532 or more, or set mtu = 1500 and fragment = \"on\" at both ends",
        ),
        (fragment, |o| o.probed.largest = Some(1500), Level::Problem, "set mtu = 1500 at both ends"),
        ("", |o| o.probed.crossed &= !1, Level::Problem, "0x88E5"),
        ("", |o| o.probed.crossed &= !2, Level::Problem, "broadcast"),
        ("", |o| o.probed.crossed &= !8, Level::Problem, "PROFINET DCP"),
        (
            "",
            |o| o.probed.crossed &= !0b1_1100_0000,
            Level::Note,
            "do not cross: STP, LACP, LLDP and PTP peer delay",
        ),
        (
            "",
            |o| o.probed.crossed &= !0b1110_0000_0000,
            Level::Note,
            "crosses to 01:80:c2:00:00:1f, the other box's own address, 01:80:c2:00:00:0b, ff:ff:ff:ff:ff:ff",
        ),
        ("", |o| o.record.tagged = 9, Level::Problem, "clear_vlan = \"strip\""),
        ("", |o| o.record.looped = 9, Level::Problem, "loop"),
        ("", |o| o.record.received = 990, Level::Problem, "back: 10 of 1000 frames were lost (1.00 %)"),
        ("", |o| o.record.received = 999, Level::Note, "back: 1 of 1000 frames were lost"),
        (
            "",
            |o| (o.theirs.record.received, o.theirs.record.damaged) = (997, 3),
            Level::Problem,
            "there: 3 frames arrived damaged",
        ),
        (
            "",
            |o| (o.record.reordered, o.record.displacement) = (5, 3),
            Level::Problem,
            "replay_window = 0 discards them as late: set replay_window = 8 or more",
        ),
        (
            window,
            |o| (o.record.reordered, o.record.displacement) = (5, 3),
            Level::Note,
            "replay_window = 64 bears that",
        ),
        (
            fragment,
            |o| (o.record.reordered, o.record.displacement) = (5, 3),
            Level::Problem,
            "no window helps",
        ),
        ("", |o| o.record.duplicates = 4, Level::Note, "discards the copies"),
        ("", |o| o.theirs.suite[7] ^= 3, Level::Problem, "set the same suite at both ends"),
        (
            "",
            |o| o.theirs.fragmentation = 3,
            Level::Problem,
            "it has fragment and concatenate on, and this box has neither",
        ),
        ("", |o| o.theirs.plain_mtu = 1400, Level::Note, "1500 here and 1400 there"),
    ];
    for (more, change, level, words) in rows {
        let findings = told(more, change);
        let texts: Vec<_> = findings.iter().map(|finding| (finding.level, finding.text.as_str())).collect();
        assert!(
            matches!(texts.as_slice(), [(found, text)] if *found == level && text.contains(words)),
            "{words}: {texts:#?}"
        );
    }
    assert_eq!(told("clear_vlan = \"strip\"", |o| o.record.tagged = 9), []);
}

/// Express SCs with static keys: a receiver without them discards the other end's express frames.
#[test]
fn an_express_sc_at_one_end_alone_is_a_problem() {
    let told = |more: &str, theirs: u8| {
        let config = of_suite("chacha20-poly1305", more);
        told_of(config, |o| o.theirs.fragmentation = theirs).into_iter().map(|found| found.text).collect()
    };
    let (fragment, express) = ("fragment = \"on\"", "fragment = \"on\"\nexpress = true");
    let both: Vec<String> = told(express, 5);
    assert!(both.is_empty(), "{both:?}");
    let here: Vec<String> = told(express, 1);
    let said = "this box has express = true, and it has not: it discards this box's express frames; set express alike at both ends";
    assert_eq!(here, [said]);
    let there: Vec<String> = told(fragment, 5);
    let said = "it has express = true, and this box has not: this box discards its express frames; set express alike at both ends";
    assert_eq!(there, [said]);
    let neither: Vec<String> = told(express, 0);
    assert_eq!(neither.len(), 2, "{neither:?}");
    assert!(neither[0].starts_with("it has neither fragment nor concatenate on, and this box has fragment"));
}

/// Padded frames with static keys: a receiver that reassembles nothing discards all of them.
#[test]
fn padding_at_one_end_is_a_problem_if_the_other_one_takes_no_padded_frames() {
    let told = |more: &str, theirs: u8| {
        let found = told_of(of_suite("gcm-aes-128", more), |o| o.theirs.fragmentation = theirs);
        found.into_iter().map(|found| found.text).collect::<Vec<_>>()
    };
    let padding = "padding = [256, 1514]";
    assert_eq!(told(padding, 8), Vec::<String>::new());
    assert_eq!(told("fragment = \"on\"", 9), Vec::<String>::new());
    let here = "this box has padding, and it takes no padded frames: set padding or fragment = \"on\" there";
    assert_eq!(told(padding, 0), [here]);
    let there = "it has padding, and this box takes no padded frames: set padding or fragment = \"on\" here";
    assert_eq!(told("", 8), [there]);
}

#[test]
fn an_answer_that_does_not_fit_is_told_from_none() {
    let unanswered = |rejections: Rejections| {
        let findings = told("", |o| (o.end, o.peer, o.rejections) = (End::Unanswered, None, rejections));
        assert_eq!((findings.len(), findings[0].level), (1, Level::Problem), "{findings:#?}");
        findings[0].text.clone()
    };
    let peer = Some("02:00:00:00:00:02/1".parse().unwrap());
    assert!(unanswered(Rejections::default()).contains("start 'frameward doctor' on that box too"));
    let text = unanswered(Rejections { misfits: 3, misfit: peer, ..Rejections::default() });
    assert!(text.contains(&format!("(fingerprint {})", fingerprint(&[6; 16]))), "{text}");
    let text = unanswered(Rejections { deaf: peer, refused: true, ..Rejections::default() });
    assert!(text.contains(&format!("(fingerprint {})", fingerprint(&[5; 16]))), "{text}");
    assert!(unanswered(Rejections { deaf: peer, ..Rejections::default() }).contains("one direction only"));
    assert!(
        unanswered(Rejections { stranger: peer, ..Rejections::default() })
            .contains("not a peer of this link")
    );
    assert!(
        unanswered(Rejections { own_sci: Some(true), ..Rejections::default() }).contains("copied to both")
    );
    let lost = told("", |o| o.end = End::Lost);
    assert!(lost[0].text.contains("fell silent"));
}

#[test]
fn with_mka_eapol_has_to_cross_and_all_else_is_agreed_on() {
    let agreed = |of_mka: &str, change: fn(&mut Outcome)| {
        let text = format!(
            "[gateway]\nname = \"g\"\n[[link]]\nname = \"press\"\nplain = \"eth0\"\nprotected = \"eth1\"\n\
             [link.mka]\ncak_file = \"a.cak\"\n{of_mka}\n"
        );
        told_of(parsed(&text), change)
    };
    assert_eq!(agreed("", |_| ()), []);
    assert_eq!(agreed("", |o| (o.theirs.suite[7], o.theirs.fragmentation) = (3, 0)), []);
    let other = "destination = \"01:80:c2:00:00:1f\"";
    let near_only: fn(&mut Outcome) = |o| o.probed.crossed &= !(1 << 9);
    assert_eq!(agreed(other, near_only), [], "another one crosses");
    for (of_mka, change, words) in [
        (
            "",
            near_only,
            "does not cross to 01:80:c2:00:00:03, so no keys can be agreed on: a switch between the boxes drops it unless it is configured to pass EAPOL (Linux bridge: group_fwd_mask 8); or set destination at all boxes to one that crosses: 01:80:c2:00:00:00, 01:80:c2:00:00:0e",
        ),
        ("", |o| o.probed.crossed &= !0xfe00, "does not cross to any address, so no keys can be agreed on"),
        (
            "",
            |o| (o.end, o.peer, o.rejections) = (End::Unanswered, None, Rejections::default()),
            "another box did not answer: start 'frameward doctor' on that box",
        ),
        (
            "",
            |o| (o.end, o.peer, o.rejections) = (End::Unanswered, None, misfit()),
            "(ckn 6c696e65, fingerprint ",
        ),
        ("", |o| o.rejections.own_sci = Some(true), "give each its own (sci in [link.mka]"),
    ] {
        let findings = agreed(of_mka, change);
        assert!(
            matches!(findings.as_slice(), [one] if one.level == Level::Problem && one.text.contains(words)),
            "{words}: {findings:#?}"
        );
    }
}

fn misfit() -> Rejections {
    Rejections { misfits: 3, misfit: Some("02:00:00:00:00:02/1".parse().unwrap()), ..Rejections::default() }
}

/// A peer's frame at the plain port explains why nobody answers: that is asked, and not that the other doctor be started.
#[test]
fn exchanged_ports_are_asked_for() {
    let config = config("");
    let outcome = Outcome { end: End::Unanswered, peer: None, ..good(&config) };
    let own = Sci::new(MacAddr([2, 0, 0, 0, 0, 1]), 1);
    let seen = |misplaced| Seen { outcome: outcome.clone(), own, lost_here: 0, unfilled: 0, misplaced };
    let told = |misplaced| findings(&config.links[0], MTUS, &seen(misplaced));
    let peer = MacAddr([2, 0, 0, 0, 0, 2]);
    for (frame, words) in [
        (Misplaced::Doctor(Sci::new(peer, 1)), "the doctor of the box with SCI 02:00:00:00:00:02/1 is heard"),
        (Misplaced::Mkpdu(peer), "MKPDUs of this link come from 02:00:00:00:00:02"),
    ] {
        let [finding] = &told(Some(frame))[..] else { panic!() };
        assert_eq!(finding.level, Level::Problem);
        assert!(
            finding.text.contains(words) && finding.text.contains("are the ports exchanged?"),
            "{finding}"
        );
    }
    assert!(told(None).iter().all(|finding| !finding.text.contains("exchanged")));
}
