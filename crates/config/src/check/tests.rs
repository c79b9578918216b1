use std::path::Path;

use super::*;
use crate::key_file::{CellKey, NamedCak, fingerprint};
use netdev::interface::InterfaceError;
use suite::Sak;
use wire::Ckn;

fn configured(more: &str) -> Config {
    let text = format!(
        r#"[gateway]
name = "press-line"
[[link]]
name = "press"
plain = "eth0"
protected = "eth1"
suite = "gcm-aes-128"
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

pub(super) fn parsed(text: &str) -> Config {
    let key = |path: &Path, suite| Ok(Sak::new(suite, &[path.as_os_str().len() as u8; 16]).unwrap());
    let cak = |path: &Path| {
        let length = path.as_os_str().len();
        Ok(NamedCak::new(Ckn::new(&vec![7; length]).unwrap(), &[length as u8; 16]).unwrap())
    };
    let files = crate::KeyFiles {
        key: &key,
        cak: &cak,
        identity: &crate::key_file::read_identity,
        master_key: &|_| Ok(CellKey::new(&[1; 32])),
    };
    crate::parse(Path::new("gw.toml"), text, files).unwrap().0
}

fn judged(config: &Config, plain: usize, protected: usize) -> Result<Mtus, Vec<String>> {
    link_mtus(&config.file, &config.links[0], &|name| match name {
        "eth0" if plain > 0 => Ok(plain),
        "eth1" if protected > 0 => Ok(protected),
        _ => Err(InterfaceError::Missing { name: name.into() }),
    })
    .map_err(|errors| errors.iter().map(Finding::to_string).collect())
}

#[test]
fn the_protected_side_must_take_what_the_plain_side_sends() {
    let small = |plain: usize, grow: usize, protected: usize, cure: [usize; 2]| {
        Err(vec![format!(
            "gw.toml:3: link \"press\": MTU too small: payloads of the machine have up to {plain} octets, the overhead is {grow}, and the protected side has {protected}; set the protected side's MTU to {}, the machine's to {}, or fragment = \"on\" at both ends",
            cure[0], cure[1]
        )])
    };
    let fine = |plain, protected| Ok(Mtus { plain, protected });
    for (more, plain, protected, expected) in [
        ("", 1500, 1532, fine(1500, 1532)),
        ("", 1500, 1531, small(1500, 32, 1531, [1532, 1499])),
        ("", 1500, 1500, small(1500, 32, 1500, [1532, 1468])),
        ("sci = \"never\"", 1500, 1524, fine(1500, 1524)),
        ("sci = \"never\"", 1500, 1523, small(1500, 24, 1523, [1524, 1499])),
        ("protect_frames = false", 1500, 1500, fine(1500, 1500)),
        ("mtu = 1600", 1500, 9000, fine(1500, 1600)),
        ("mtu = 1500", 1500, 9000, small(1500, 32, 1500, [1532, 1468])),
        ("mtu = 1600", 1500, 1532, Err(vec!["gw.toml:3: link \"press\": mtu = 1600 is more than the 1532 of eth1; set mtu to 1532 or less, or ip link set eth1 mtu 1600".to_owned()])),
        ("", 0, 0, Err(["eth0", "eth1"].map(|name| format!("gw.toml:3: link \"press\": interface {name} does not exist; 'ip link' lists those that do")).to_vec())),
        ("", 0, 1532, Err(vec!["gw.toml:3: link \"press\": interface eth0 does not exist; 'ip link' lists those that do".to_owned()])),
    ] {
        assert_eq!(judged(&configured(more), plain, protected), expected, "{more} {plain} {protected}");
    }
}

#[test]
fn the_plan_names_what_counts() {
    let config = configured("bypass = [\"lldp\"]");
    let mtu = |name: &str| Ok(if name == "eth0" { 1500 } else { 1534 });
    let plan = Plan::new(&config, Some(&mtu))
        .unwrap()
        .with_line_rates(&|name| (name == "eth1").then_some(100))
        .to_string();
    let keys = [5_u8, 6].map(|octet| fingerprint(&[octet; 16]));
    assert_eq!(
        plan,
        format!(
            "gateway press-line
  state      /var/lib/frameward
  io         auto, polling adaptive, realtime auto

link press
  plain      eth0, MTU 1500
  protected  eth1, MTU 1534
  suite      gcm-aes-128, encrypted
  receive    validate_frames strict, replay protection window 0
  overhead   32 octets a frame: SecTAG 16, ICV 16
  largest    payload 1500 octets; 1498 behind a VLAN tag, 1494 behind two
  link loss  forward: eth0 is down while eth1 has no carrier
  in clear   lldp (0x88cc), both ways: a stranger on the network reads what the machine tells its neighbours, and can pose as one
  own SA     SCI 02:00:00:00:00:01/1, AN 0, key {}
  peer SA    SCI 02:00:00:00:00:02/1, AN 2, key {}
  key lasts  2^32 frames: 11 hours of shortest frames at 100 Mbit/s, 49 days at 1000 frames/s; or 2047 crashes under load
",
            keys[0], keys[1]
        )
    );
    let offline = Plan::new(&config, None).unwrap().to_string();
    assert!(offline.contains("  protected  eth1, MTU at least that of eth0 plus 32\n"));
    assert!(!offline.contains("largest"));
}

#[test]
fn interfaces_that_no_gateway_can_use_are_named() {
    assert!(matches!(interface_mtu("lo"), Err(InterfaceError::NotEthernet { .. })));
    assert!(matches!(interface_mtu("no-such-if"), Err(InterfaceError::Missing { .. })));
}

#[test]
fn the_plan_tells_what_stays_whole_and_what_is_fragmented() {
    let config = configured("fragment = \"on\"\nconcatenate = \"on\"\nhold = \"250us\"");
    let plan = Plan::new(&config, Some(&|_| Ok(1500))).unwrap().to_string();
    for words in ["unsplit", "payload 1468 octets", "fragment   on, concatenate on, hold 250 us"] {
        assert!(plan.contains(words), "{words:?} is not in\n{plan}");
    }
}

/// A frame of n octets holds n - 48 of an SDU.
#[test]
fn the_plan_tells_what_padding_costs_and_refuses_sizes_that_do_not_fit() {
    let config = configured("padding = [256, 1514]");
    let plan = Plan::new(&config, Some(&|_| Ok(1500))).unwrap().to_string();
    let said = "\n  padding    to frames of 256, 1514 octets
             a payload of 46 octets: 1 frame, 164 octets more; at 1000 a second 1312 kbit/s more, and 86400000 packet numbers a day
             a payload of 512 octets: 1 frame, 956 octets more; at 1000 a second 7648 kbit/s more, and 86400000 packet numbers a day
             a payload of 1500 octets: 2 frames, 224 octets more; at 1000 a second 1792 kbit/s more, and 172800000 packet numbers a day\n";
    assert!(plan.contains(said), "{plan}");
    assert!(!plan.contains("fragment"), "{plan}");
    let [refused] = &judged(&configured("padding = [256, 1515]"), 1500, 1500).unwrap_err()[..] else {
        panic!()
    };
    assert_eq!(
        refused,
        "gw.toml:3: link \"press\": padding has 1515, and the protected side carries frames of up to 1514 octets; use sizes up to that, or raise its MTU to 1501"
    );
    assert!(judged(&config, 1500, 1500).is_ok());
}

#[test]
fn the_plan_tells_what_cover_costs_and_refuses_a_size_that_does_not_fit() {
    let plan = |more: &str| Plan::new(&configured(more), Some(&|_| Ok(1500))).unwrap().to_string();
    let said = "\n  cover      1000 frames of 1514 octets a second, whatever is sent
             on the wire 12304 kbit/s at all times, and 86400000 packet numbers a day; for the machines at most 11728 kbit/s
             a frame waits up to 1150 us for its tick; while more comes than leaves, up to 262144 octets wait, for 178 ms, and others are dropped
             its worker takes no frames for 150 us before each tick, and watches the clock: up to 15 % of a CPU\n";
    let covered = plan("cover = { rate = 1000, size = 1514 }");
    assert!(covered.contains(said), "{covered}");
    assert!(!covered.contains("padding"), "{covered}");
    for (rate, cpu) in [(10, "up to 1 % of a CPU"), (6666, "up to 100 % of"), (10_000, "up to 100 % of")] {
        let covered = plan(&format!("cover = {{ rate = {rate}, size = 1514 }}"));
        assert!(covered.contains(cpu), "{covered}");
    }
    let fits = |more: &str, plain| judged(&configured(more), plain, 1500).map(|_| ());
    assert_eq!(
        fits("cover = { rate = 10, size = 1515 }", 1500),
        Err(vec!["gw.toml:3: link \"press\": cover has 1515, and the protected side carries frames of up to 1514 octets; use sizes up to that, or raise its MTU to 1501".to_owned()])
    );
    // 32 * 282 = 9024, and 9000 octets have addresses and an EtherType before them, and up to two VLAN tags: no SDU has more than 9022.
    let [refused] = &fits("cover = { rate = 10, size = 329 }", 9000).unwrap_err()[..] else { panic!() };
    assert!(refused.contains("need more than 33 frames of that; have 330 or more"), "{refused}");
    assert_eq!(fits("cover = { rate = 10, size = 330 }", 9000), Ok(()));
}

/// Without a look at the interfaces their MTUs are taken to carry the sizes, unless the configuration says that they do not.
#[test]
fn the_plan_tells_what_padding_costs_without_interfaces_too() {
    for (more, said) in [
        ("padding = [256, 9018]", "a payload of 512 octets: 1 frame, 8460 octets more; at 1000 a second "),
        (
            "mtu = 1500\npadding = [256, 9018]",
            "padding has 9018, and the protected side carries frames of up to 1514 octets; use sizes up to that, or raise its MTU to 9004\n",
        ),
    ] {
        let config = configured(more);
        let plan = Plan::new(&config, None).unwrap().to_string();
        assert!(plan.contains(&format!("\n             {said}")), "{plan}");
        assert!(!plan.contains(" 0 frames"), "{plan}");
    }
}

/// A frame of n octets holds n - 48 of an SDU, and a receiver puts 33 together; 32 are sure where frames are shared.
#[test]
fn sizes_of_which_a_payload_needs_too_many_are_refused() {
    let fits = |more: &str, plain, protected| judged(&configured(more), plain, protected).map(|_| ());
    // 33 * 273 = 9009, and 9000 octets have an EtherType and up to two VLAN tags before them: 9010.
    for (more, least) in [("", 322), ("\nconcatenate = \"on\"", 330)] {
        for (largest, held) in [(256, false), (least - 1, false), (least, true), (1514, true)] {
            let judged = fits(&format!("padding = [128, {largest}]{more}"), 9000, 9032);
            let refused = format!(
                "gw.toml:3: link \"press\": padding has sizes up to {largest}, and payloads of 9000 octets need more than 33 frames of that; have {least} or more as the largest size, or lower the MTU of eth0"
            );
            assert_eq!(judged, if held { Ok(()) } else { Err(vec![refused]) });
        }
    }
    assert_eq!(fits("padding = [128]", 1500, 1532), Ok(()));
    // No receiver takes longer SDUs, whatever the sizes.
    assert_eq!(fits("padding = [400]", 9216, 9216), Ok(()));
    let cramped = fits("padding = [128]", 9000, 576).unwrap_err().remove(0);
    assert!(
        cramped.ends_with(
            "need more than 33 frames of that; have 322 or more as the largest size, or lower the MTU of eth0"
        ),
        "{cramped}"
    );
}

/// The queue between a site's SecY and its tunnel has room for bursts of SDUs in eight frames each.
#[test]
fn a_site_refuses_sizes_of_which_its_queue_does_not_hold_a_burst() {
    let judged = |sizes: &str, plain| {
        let mut config = configured(&format!("padding = {sizes}"));
        config.links[0].in_site = true;
        judged(&config, plain, 1500).map(|_| ())
    };
    for (plain, least) in [(1500, 237), (9000, 1175)] {
        assert_eq!(judged(&format!("[128, {least}]"), plain), Ok(()));
        let largest = least - 1;
        assert_eq!(
            judged(&format!("[128, {largest}]"), plain).unwrap_err(),
            [format!(
                "gw.toml:3: link \"press\": padding has sizes up to {largest}, and payloads of {plain} octets need more than 8 frames of that; have {least} or more as the largest size, or lower the MTU of eth0"
            )]
        );
    }
}

#[test]
fn the_plan_tells_express_classes_where_they_are_configured() {
    let plan = |line: &str| {
        let config = configured(&format!("fragment = \"on\"\n{line}"));
        Plan::new(&config, Some(&|_| Ok(1500))).unwrap().to_string()
    };
    let said = "             express frames, which precede all others: ";
    for (line, words) in [
        ("express_classes = []", "none"),
        (
            "express_classes = [\"tcp:102\", \"default\", \"udp:4840\", \"dscp:46\", \"dscp:0\", \"0x88F7\"]",
            "profinet, ethercat, goose, sv, powerlink, sercos, 0x88f7, pcp:6, pcp:7, dscp:0, dscp:46, udp:4840, tcp:102",
        ),
    ] {
        let plan = plan(line);
        assert!(plan.contains(&format!("\n{said}{words}\n")), "{plan}");
    }
    assert!(!plan("").contains(said));
}

#[test]
fn the_plan_tells_which_suite_is_faster_here() {
    use crate::suite_speed::AesInstructions::Present;
    use crate::suite_speed::tests::speeds;
    use suite::CipherSuite::{Aegis128L, GcmAes128};
    let config = configured("");
    let plan = || Plan::new(&config, None).unwrap();
    let told = plan().with_speeds(speeds(Present, &[(GcmAes128, 105), (Aegis128L, 51)])).to_string();
    for line in [
        "\n  suites     ns for 512 octets on this CPU: aegis-128l 51, gcm-aes-128 105\n",
        "\n  speed      gcm-aes-128 takes 105 ns for 512 octets on this CPU; consider aegis-128l (51 ns), if Frameward stands at both ends\n",
    ] {
        assert!(told.contains(line), "{told}");
    }
    assert!(!plan().to_string().contains("speed"));
}

#[test]
fn the_plan_tells_how_long_a_key_lasts() {
    let plan = |config: &Config| Plan::new(config, None).unwrap().to_string();
    let assumed = "  key lasts  2^32 frames: 66 minutes of shortest frames at 1000 Mbit/s (assumed), 49 days at 1000 frames/s; or 2047 crashes under load\n";
    assert!(plan(&configured("")).contains(assumed));
    assert!(plan(&configured("sci = \"never\"")).contains(" 61 minutes of shortest frames"));
    assert!(!plan(&configured("protect_frames = false")).contains("key lasts"));
    let mut config = configured("");
    let crate::Keys::Static(sas) = &mut config.links[0].keys else { panic!("static keys") };
    sas.suite = suite::CipherSuite::GcmAesXpn128;
    sas.receive[0].replay_floor = false;
    assert!(plan(&config).contains("  key lasts  64-bit packet numbers: not a concern\n"));
    assert!(plan(&config).contains("replay floor off"));
}

fn agreed(of_link: &str, of_mka: &str) -> Config {
    parsed(&format!(
        "[gateway]\nname = \"press-line\"\n[[link]]\nname = \"press\"\nplain = \"eth0\"\nprotected = \"eth1\"\n\
         {of_link}\n[link.mka]\ncak_file = \"a.cak\"\n{of_mka}\n"
    ))
}

#[test]
fn the_plan_of_a_link_with_mka_says_what_the_network_between_needs() {
    let config = agreed("", "fallback_cak_file = \"old.cak\"\nrekey = \"4h\"");
    let plan = Plan::new(&config, Some(&|_| Ok(1500))).unwrap().to_string();
    let start = plan.find("  suite").unwrap();
    assert_eq!(
        &plan[start..],
        format!(
            "  suite      auto (gcm-aes-128), encrypted
  receive    validate_frames strict, replay protection window 0
  overhead   32 octets a frame: SecTAG 16, ICV 16
  unsplit    payload 1468 octets; 1464 behind a VLAN tag, 1460 behind two
  fragment   if all peers announce it, concatenate if all peers announce it, hold 0 us; each segment but one adds 2 octets
             while a peer does not, payloads above 1468 octets are lost: if that can happen, set the machine's MTU to 1468 or the protected side's to 1532
  link loss  forward: eth0 is down while eth1 has no carrier
  SCI        the address of eth1, port 1
  CAK        ckn 0707070707, 128 bits, key {}
  fallback   ckn 07070707070707, 128 bits, key {}
  MKPDUs     to 01:80:c2:00:00:03: a switch between the boxes drops it unless it is configured to pass EAPOL (Linux bridge: group_fwd_mask 8)
  key server the member with the lowest priority, then the lowest SCI; this box has 16
  next key   every 4 hours, if this box is key server, and when a peer joins, on request, or before packet numbers run out
  no peer    block: nothing passes until a peer is back
",
            fingerprint(&[5; 16]),
            fingerprint(&[7; 16]),
        )
    );
    let other = agreed(
        "suite = \"gcm-aes-xpn-128\"\nfragment = \"off\"",
        "priority = 255\nsci = \"02:00:00:00:00:01/1\"\non_peer_loss = \"hold\"\ndelay_protect = true\ndestination = \"02:00:00:00:00:09\"",
    );
    let plan = Plan::new(&other, Some(&|name| Ok(if name == "eth0" { 1500 } else { 1532 })))
        .unwrap()
        .with_speeds(crate::suite_speed::measure())
        .to_string();
    for line in [
        "\n  suite      gcm-aes-xpn-128, encrypted\n",
        "\n  largest    payload 1500 octets",
        "\n  speed      gcm-aes-xpn-128 takes ",
        "\n  SCI        02:00:00:00:00:01/1\n",
        "\n  MKPDUs     to 02:00:00:00:00:09: switches between the boxes pass it; the peer has to be the only one\n",
        "\n  key server never this box (priority 255); another member must be\n",
        "\n  next key   every 8 hours, if this box is key server",
        "\n  no peer    hold: the last key stays in use",
        "\n  delayed    frames that somebody held back",
    ] {
        assert!(plan.contains(line), "{line} is not in\n{plan}");
    }
    assert!(!plan.contains("key lasts"));
}

#[test]
fn without_fragmentation_the_protected_side_must_take_all_with_mka_too() {
    let config = agreed("fragment = \"off\"", "");
    assert_eq!(
        judged(&config, 1500, 1500).unwrap_err(),
        [
            "gw.toml:3: link \"press\": MTU too small: payloads of the machine have up to 1500 octets, the overhead is 32, and the protected side has 1500; set the protected side's MTU to 1532, the machine's to 1468, or fragment = \"auto\" if all peers are Frameward's"
        ]
    );
}

/// The gateway's choice by the MTUs, with the reason and the cure.
#[test]
fn frames_stay_whole_where_the_protected_side_carries_them() {
    let left = agreed("suite = \"chacha20-poly1305\"", "");
    let with = |protected| judged(&left, 1500, protected).unwrap();
    assert_eq!(with(1536).keep_whole(&left.links[0]), Ok(()));
    for (protected, cure) in [(1535, 1499), (1532, 1496), (1500, 1464)] {
        let mtus = with(protected);
        assert!(!mtus.need_no_fragments(&left.links[0]));
        let why = format!(
            "the protected side's MTU of {protected} splits payloads of 1500 octets with a VLAN tag; set it to 1536, or the machine's MTU to {cure}"
        );
        assert_eq!(mtus.keep_whole(&left.links[0]), Err(why));
    }
    // Eight octets less, without SCI.
    let short = agreed("suite = \"chacha20-poly1305\"\nsci = \"never\"", "");
    assert_eq!(judged(&short, 1500, 1528).unwrap().keep_whole(&short.links[0]), Ok(()));
    // `fragment = "on"` is no question of MTUs.
    let on = agreed("suite = \"chacha20-poly1305\"\nfragment = \"on\"", "");
    assert_eq!(judged(&on, 1500, 1500).unwrap().keep_whole(&on.links[0]), Ok(()));
}

#[test]
fn the_plan_tells_whether_frames_stay_whole() {
    let text = |io: &str| {
        format!(
            "[gateway]\nname = \"press-line\"\nio = \"{io}\"\n[[link]]\nname = \"press\"\nplain = \"eth0\"\nprotected = \"eth1\"\n\
             suite = \"chacha20-poly1305\"\n[link.mka]\ncak_file = \"a.cak\"\n"
        )
    };
    let plan = |io: &str, kernel: bool| {
        let config = parsed(&text(io));
        let mtu = |name: &str| Ok(if name == "eth0" { 1500 } else { 1532 });
        let path = |_: &Link, _| LinkPath { kernel, words: "this way".into() };
        Plan::new(&config, Some(&mtu)).unwrap().with_link_places(&path).to_string()
    };
    for (io, kernel, words) in [
        ("auto", true, "\n  frames     this way\n"),
        ("auto", true, "\n  largest    payload 1500 octets; 1496 behind a VLAN tag, 1492 behind two\n"),
        (
            "auto",
            true,
            "\n  fragment   off, concatenate off, for the kernel takes whole frames alone; on in user space while a peer needs fragments\n",
        ),
        ("auto", false, "\n  unsplit    payload 1500"),
        ("auto", false, "\n  fragment   if all peers announce it"),
        ("kernel", true, "\n  fragment   off, concatenate off: io = \"kernel\" takes whole frames alone\n"),
    ] {
        let plan = plan(io, kernel);
        assert!(plan.contains(words), "{words} is not in\n{plan}");
    }
    let config = parsed(&text("kernel"));
    let too_small = judged(&config, 1500, 1500).unwrap_err();
    assert_eq!(
        too_small,
        [
            "gw.toml:4: link \"press\": MTU too small: payloads of the machine have up to 1500 octets, the overhead is 32, and the protected side has 1500; set the protected side's MTU to 1532, the machine's to 1468, or io = \"auto\" instead of \"kernel\", which splits nothing"
        ]
    );
}
