//! Configurations as a whole: defaults, every key, and text that is none.

mod mistakes;

use std::fmt::Write as _;
use std::time::Duration;

use proptest::prelude::*;
use secy::{ClearVlan, Protection, SciInclusion, ValidateFrames};
use suite::identity::Identity;
use suite::{CipherSuite, Sak};
use wire::{Ckn, EtherType};

use super::*;
use crate::cpus::Cpus;
use crate::key_file::{CellKey, KeyFileError, NamedCak};

/// The first letter of a file's name, which makes its key; 0 for the file Zeros.
fn letter(path: &Path) -> u8 {
    let letter = path.file_name().map_or(0, |name| name.as_encoded_bytes()[0]);
    if letter == b'Z' { 0 } else { letter }
}

/// A key of the file's first letter, repeated.
fn letter_key(path: &Path, suite: CipherSuite) -> Result<Sak, KeyFileError> {
    let letter = letter(path);
    Ok(Sak::new(suite, &vec![letter; suite.key_octets()]).unwrap())
}

/// An identity whose private key is the file's first letter, repeated.
fn letter_identity(path: &Path) -> Result<Identity, KeyFileError> {
    let letter = letter(path);
    Ok(Identity::new(&[letter; 32]))
}

/// A master key of the file's first letter, repeated.
fn letter_master_key(path: &Path) -> Result<CellKey, KeyFileError> {
    let letter = letter(path);
    Ok(CellKey::new(&[letter; 32]))
}

/// A CAK of the file's first letter in lower case, repeated. Its name is five times the letter as it is written: so files c and C
/// hold one key under two names.
fn letter_cak(path: &Path) -> Result<NamedCak, KeyFileError> {
    let name = path.file_name().map_or(&[0][..], |name| name.as_encoded_bytes());
    let length = if name.ends_with(b"256") { 32 } else { 16 };
    let ckn = Ckn::new(&[name[0]; 5]).unwrap();
    Ok(NamedCak::new(ckn, &vec![letter(path).to_ascii_lowercase(); length]).unwrap())
}

fn sas(link: &Link) -> &StaticSas {
    link.static_sas().unwrap()
}

pub(super) fn validated(text: &str) -> Result<(Config, Vec<Finding>), Vec<Finding>> {
    parse(
        Path::new("gw.toml"),
        text,
        KeyFiles {
            key: &letter_key,
            cak: &letter_cak,
            identity: &letter_identity,
            master_key: &letter_master_key,
        },
    )
}

pub(super) fn lines(findings: &[Finding]) -> Vec<String> {
    findings.iter().map(Finding::to_string).collect()
}

/// A valid configuration; its line numbers stand in the table below.
const VALID: &str = r#"[gateway]
name = "press-line"
allow_experimental = false
[[link]]
name = "press"
plain = "eth0"
protected = "eth1"
suite = "gcm-aes-128"
mtu = "interface"
[link.static]
an = 0
sci = "02:00:00:00:00:01/1"
key_file = "a.key"
[[link.static.peer]]
an = 0
sci = "02:00:00:00:00:02/1"
key_file = "b.key"
replay_floor = "off"
"#;

/// The valid configuration with XPN: ssci and salt on lines 14, 15 and 21, 22.
fn xpn() -> String {
    VALID
        .replace("gcm-aes-128", "gcm-aes-xpn-256")
        .replace(
            "key_file = \"a.key\"\n",
            "key_file = \"a.key\"\nssci = 1\nsalt = \"000102030405060708090a0b\"\n",
        )
        .replace(
            "replay_floor = \"off\"\n",
            "replay_floor = \"off\"\nssci = \"0x00000002\"\nsalt = \"000102030405060708090a0b\"\n",
        )
}

/// A second link, its first line the 19th, its keys on lines 27 and 31.
const SECOND: &str = r#"[[link]]
name = "oven"
plain = "eth2"
protected = "eth3"
suite = "gcm-aes-128"
[link.static]
an = 0
sci = "02:00:00:00:00:03/1"
key_file = "c.key"
[[link.static.peer]]
an = 1
sci = "02:00:00:00:00:04/1"
key_file = "d.key"
replay_floor = "off"
"#;

#[test]
fn the_defaults_are_the_contract() {
    let (config, warnings) = validated(VALID).unwrap();
    assert_eq!(lines(&warnings), [NO_FLOOR_WARNING]);
    assert_eq!(config.gateway.name, "press-line");
    assert_eq!(config.gateway.state, Path::new("/var/lib/frameward"));
    assert_eq!((config.gateway.io, config.gateway.polling), (Io::Auto, Polling::Adaptive));
    assert_eq!((config.gateway.realtime, &config.gateway.cpus), (Realtime::Auto, &None));
    let [link] = config.links.as_slice() else { panic!("one link") };
    assert_eq!((link.name.as_str(), link.line.0), ("press", 4));
    assert_eq!((link.plain.as_str(), link.protected.as_str()), ("eth0", "eth1"));
    assert!(link.protect_frames && link.replay_protect);
    assert_eq!(link.protection, Protection::Encrypt(secy::ConfidentialityOffset::Zero));
    assert_eq!(link.sci_inclusion, SciInclusion::Always);
    assert_eq!(link.validate_frames, ValidateFrames::Strict);
    assert_eq!((link.replay_window, link.mtu, link.clear_vlan), (0, Mtu::Interface, ClearVlan::Refuse));
    assert!(link.bypass.is_empty());
    assert_eq!(sas(link).transmit.key.octets(), [b'a'; 16]);
    assert_eq!(sas(link).receive[0].key.octets(), [b'b'; 16]);
    assert!(sas(link).transmit.lease_name() != sas(link).receive[0].lease_name());
}

const NO_FLOOR_WARNING: &str = "gw.toml:18: link \"press\": replay_floor = \"off\": frames recorded before a restart of this gateway can be sent again after it";

#[test]
fn every_key_is_understood() {
    let text = VALID
        .replace(
            "[[link]]\n",
            "io = \"af_packet\"\npolling = \"busy\"\nrealtime = \"on\"\ncpus = \"2-3\"\nstate = \"/s\"\nantedate = \"on\"\n[[link]]\n",
        )
        .replace(
            "mtu = \"interface\"\n",
            r#"mtu = 1536
encrypt = true
confidentiality_offset = 30
sci = "end-station"
validate_frames = "check"
replay_protect = false
replay_window = 1048576
clear_vlan = "strip"
bypass = ["lldp", "0x88f7"]
protect_frames = false
fragment = "off"
concatenate = "auto"
hold = "0us"
"#,
        );
    let (config, warnings) = validated(&text).unwrap();
    assert_eq!(config.links[0].fragmentation, None, "with static keys auto is off");
    assert_eq!((config.gateway.io, config.gateway.polling), (Io::AfPacket, Polling::Busy));
    assert_eq!(config.gateway.realtime, Realtime::On);
    assert_eq!(config.gateway.cpus, Cpus::parse("2,3"));
    assert_eq!(config.gateway.state, Path::new("/s"));
    let link = &config.links[0];
    assert_eq!(link.protection, Protection::Encrypt(secy::ConfidentialityOffset::Thirty));
    assert_eq!((link.sci_inclusion, link.validate_frames), (SciInclusion::EndStation, ValidateFrames::Check));
    assert_eq!((link.replay_window, link.mtu), (1_048_576, Mtu::Octets(1536)));
    assert_eq!((link.clear_vlan, link.protect_frames, link.replay_protect), (ClearVlan::Strip, false, false));
    assert_eq!(link.bypass, [EtherType::LLDP, EtherType(0x88f7)]);
    let warned: Vec<_> = warnings.iter().filter_map(|warning| warning.line).collect();
    assert_eq!(warned, [18, 19, 20, 23, 23, 24, 36]);
    let ptp = warnings.iter().find(|warning| warning.text.contains("0x88f7")).unwrap();
    assert!(
        ptp.text.ends_with(
            "can set the machine's clock; the measured delay includes forwarding times in any case"
        )
    );
    let (config, _) = validated(&xpn()).unwrap();
    let sas = [&sas(&config.links[0]).transmit, &sas(&config.links[0]).receive[0]];
    assert_eq!(sas.map(|sa| sa.xpn.unwrap().ssci.0), [1, 2]);
    assert_eq!(sas.map(|sa| sa.xpn.unwrap().salt.0[11]), [11, 11]);
}

#[test]
fn where_a_link_and_its_keys_stand_is_no_difference() {
    let link = |text: &str| validated(text).unwrap().0.links.remove(0);
    let one = link(VALID);
    assert_eq!(one, link(&format!("# a line more\n{VALID}")));
    assert_eq!(
        one,
        link(&VALID.replace("a.key", "also-a.key").replace("b.key", "by-b.key")),
        "the same keys"
    );
    for (what, by, of_keys) in [
        ("\"a.key\"", "\"c.key\"", true),
        ("\"b.key\"", "\"c.key\"", true),
        ("replay_floor = \"off\"", "replay_floor = \"on\"", true),
        ("suite =", "link_loss = \"both\"\nsuite =", false),
        ("suite =", "bypass = [\"lldp\"]\nsuite =", false),
    ] {
        let other = link(&VALID.replacen(what, by, 1));
        assert_ne!(one, other, "{by}");
        assert_eq!((one.keys != other.keys, one.is_like_but_for_keys(&other)), (of_keys, of_keys), "{by}");
    }
}

#[test]
fn the_floor_is_kept_unless_it_is_switched_off() {
    for (text, kept, warned) in [
        (VALID.to_owned(), false, 1),
        (VALID.replace("replay_floor = \"off\"", ""), true, 0),
        (VALID.replace("replay_floor = \"off\"", "replay_floor = \"on\""), true, 0),
    ] {
        let (config, warnings) = validated(&text).unwrap();
        assert_eq!((sas(&config.links[0]).receive[0].replay_floor, warnings.len()), (kept, warned));
        assert_eq!(sas(&config.links[0]).transmit.key_file.0, Path::new("a.key"));
    }
}

#[test]
fn the_age_of_state_is_in_days_or_hours() {
    for (age, hours) in [("7d", Some(168)), ("12h", Some(12)), ("off", None)] {
        let text = VALID.replace("allow_experimental = false", &format!("state_max_age = \"{age}\""));
        let expected = hours.map(|hours| Duration::from_secs(hours * 3600));
        assert_eq!(validated(&text).unwrap().0.gateway.state_max_age, expected);
    }
    for wrong in ["", "d", "0d", "7", "7m", "-1d", "1.5h", "99999999999d", "7 d"] {
        let text = VALID.replace("allow_experimental = false", &format!("state_max_age = \"{wrong}\""));
        assert_eq!(validated(&text).unwrap_err().len(), 1, "{wrong}");
    }
}

#[test]
fn keys_may_change_and_links_may_be_several() {
    let four_sas = (1..4).fold(VALID.to_owned(), |mut text, an| {
        let _ = write!(
            text,
            "[[link.static.peer]]\nan = {an}\nsci = \"02:00:00:00:00:02/1\"\nkey_file = \"{an}.key\"\nreplay_floor = \"off\"\n"
        );
        text
    });
    assert_eq!(sas(&validated(&four_sas).unwrap().0.links[0]).receive.len(), 4);
    assert_eq!(validated(&format!("{VALID}{SECOND}")).unwrap().0.links.len(), 2);
    // Peers may share a key under different SCIs; the own one is no peer's.
    let group = "[[link.static.peer]]\nan = 0\nsci = \"02:00:00:00:00:05/1\"\nkey_file = \"b.key\"\n";
    assert!(validated(&format!("{VALID}{group}")).is_ok());
    let both_ways = lines(&validated(&xpn().replace("b.key", "a.key")).unwrap_err());
    assert!(both_ways.len() == 1 && both_ways[0].contains("for both directions"), "{both_ways:?}");
}

#[test]
fn an_http_address_that_others_reach_is_warned_about() {
    for (address, warned) in [
        ("127.0.0.1:9464", false),
        ("127.1.2.3:1", false),
        ("[::1]:9464", false),
        ("[::ffff:127.0.0.1]:9464", false),
        ("0.0.0.0:9464", true),
        ("[::]:9464", true),
        ("192.0.2.7:9464", true),
    ] {
        let text = VALID.replacen("allow_experimental = false", &format!("http = \"{address}\""), 1);
        let (config, warnings) = validated(&text).unwrap();
        assert_eq!(config.gateway.http, Some(Http { address: address.parse().unwrap(), line: Origin(3) }));
        let warnings: Vec<_> = lines(&warnings).into_iter().filter(|line| line.contains("http")).collect();
        let expected = format!(
            "gw.toml:3: http = \"{address}\" lets other machines read the gateway's status without a password; use 127.0.0.1 unless every machine that reaches this address may read it"
        );
        assert_eq!(warnings, Vec::from_iter(warned.then_some(expected)));
    }
    assert_eq!(validated(VALID).unwrap().0.gateway.http, None);
}

#[test]
fn weak_settings_are_warned() {
    let morus =
        VALID.replace("gcm-aes-128", "morus-1280-128").replace("experimental = false", "experimental = true");
    let (_, warnings) = validated(&morus).unwrap();
    assert_eq!(
        warnings[0].to_string(),
        "gw.toml:8: link \"press\": suite = \"morus-1280-128\" is broken in theory: for research, not for protection"
    );
    let (_, warnings) = validated(&VALID.replace("mtu = \"interface\"", "protect_frames = false")).unwrap();
    assert_eq!(
        warnings[0].to_string(),
        "gw.toml:9: link \"press\": protect_frames = false: frames leave in CLEAR, without encryption and without ICV"
    );
    let (_, warnings) = validated(VALID.split("[[link.static.peer]]").next().unwrap()).unwrap();
    assert_eq!(
        warnings[0].to_string(),
        "gw.toml:10: link \"press\": has no peer, so it delivers nothing; add [[link.static.peer]]"
    );
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text: String) {
        let _ = validated(&text);
    }

    /// Lines of valid configurations, shuffled, cut and with other values.
    #[test]
    fn no_mixture_of_lines_makes_it_panic(
        picks in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), "[-a-z0-9\"\\[\\]{}.=é\\\\]{0,3}"), 0..40),
    ) {
        let all = format!("{VALID}{SECOND}{}", xpn());
        let lines: Vec<_> = all.lines().collect();
        let mut text = String::new();
        for (line, cut, more) in picks {
            let line = lines[line.index(lines.len())];
            text.push_str(&line[..cut.index(line.len() + 1)]);
            text.push_str(&more);
            text.push('\n');
        }
        if let Err(errors) = validated(&text) {
            prop_assert!(errors.iter().all(|error| !error.to_string().contains('\n')));
        }
    }

    #[test]
    fn a_valid_file_with_one_octet_changed_does_not_panic(at: prop::sample::Index, with in "[ -~\n]") {
        let mut text = VALID.to_owned();
        let at = at.index(text.len());
        text.replace_range(at..=at, &with);
        let _ = validated(&text);
    }
}

/// Express SCs with static keys: SAs of their own, under keys, SCIs and names on disk that no other SA has.
#[test]
fn express_scs_with_static_keys_have_sas_of_their_own() {
    let chacha =
        |suite: &str, lines: &str| VALID.replace("gcm-aes-128", suite).replace("mtu = \"interface\"", lines);
    let on = "express = true\nfragment = \"on\"";
    let (config, _) = validated(&chacha("chacha20-poly1305", on)).unwrap();
    let link = &config.links[0];
    let (others, express) = (sas(link), link.express_sas().unwrap());
    let pairs = std::iter::once((&others.transmit, &express.transmit))
        .chain(others.receive.iter().zip(&express.receive));
    let mut names = std::collections::BTreeSet::new();
    for (other, of) in pairs {
        assert_eq!(Some(of.sci), other.sci.express());
        assert_eq!((of.an, &of.key_file, of.replay_floor), (other.an, &other.key_file, other.replay_floor));
        assert!(of.key != other.key && Some(&of.key) == other.key.express(others.suite).as_ref());
        assert!(names.insert(of.lease_name()) && names.insert(other.lease_name()));
    }
    let off = validated(&chacha("chacha20-poly1305", "fragment = \"on\"")).unwrap().0;
    assert!(off.links[0].express_sas().is_none());
    let never = format!("{on}\nsci = \"never\"");
    for (suite, lines, port, why) in [
        ("chacha20-poly1305", "express = true", 1, "set fragment = \"on\" at both ends, or remove express"),
        ("chacha20-poly1305", never.as_str(), 1, "remove sci = \"never\""),
        ("chacha20-poly1305", on, 32_768, "needs SCIs whose port numbers are below 32768, at both ends"),
        ("gcm-aes-256", on, 1, "needs suite = \"chacha20-poly1305\" or \"chacha20-poly1305-xpn\""),
    ] {
        let text = chacha(suite, lines).replace("00:00:02/1\"", &format!("00:00:02/{port}\""));
        let said = lines_of(validated(&text));
        let [one] = &said[..] else { panic!("{said:?}") };
        assert!(one.starts_with("gw.toml:9: link \"press\": express = true ") && one.ends_with(why), "{one}");
    }
}

fn lines_of(judged: Result<(Config, Vec<Finding>), Vec<Finding>>) -> Vec<String> {
    lines(&judged.map(|_| ()).unwrap_err())
}

#[test]
fn the_plan_names_express_scs_with_static_keys() {
    let text = VALID.replace("gcm-aes-128", "chacha20-poly1305");
    let on = text.replace("mtu = \"interface\"", "express = true\nfragment = \"on\"");
    let off = text.replace("mtu = \"interface\"", "fragment = \"on\"");
    let plan = |text: &str| check::Plan::new(&validated(text).unwrap().0, None).unwrap().to_string();
    let link = &validated(&on).unwrap().0.links[0];
    let [own, peer] = [&sas(link).transmit, &sas(link).receive[0]].map(|sa| sa.sci.express().unwrap());
    let said = format!("  express    own SCI {own}; of the peer {peer}; keys derived from those above");
    assert!(plan(&on).contains(&said), "{}", plan(&on));
    assert!(!plan(&off).contains("  express "), "{}", plan(&off));
}

/// Records of express SCs in the state directory count as much: ends that were exchanged, or a lost directory.
#[test]
fn names_of_express_scs_are_judged_too() {
    use pnstore::{LeaseError, Role};
    let text = VALID.replace("gcm-aes-128", "chacha20-poly1305");
    let text = text.replace("mtu = \"interface\"", "express = true\nfragment = \"on\"");
    let (config, _) = validated(&text).unwrap();
    let express = config.links[0].express_sas().unwrap();
    for (role, of) in [(Role::Send, &express.transmit), (Role::Receive, &express.receive[0])] {
        let refused = of.lease_name();
        let judge = |asked: Role, name, _: &Path| {
            if (asked, name) != (role, refused) {
                return Ok(());
            }
            let record = PathBuf::from("state");
            Err(if asked == Role::Send {
                LeaseError::Received { record }
            } else {
                LeaseError::Sent { record }
            })
        };
        let found = check::keys::misused(Path::new("gw.toml"), &config.links, &judge);
        assert_eq!((found.len(), found[0].line), (1, Some(of.line.0)));
    }
}
