use std::fmt::Write as _;
use std::time::Duration;

use proptest::prelude::*;
use secy::{ClearVlan, Protection, SciInclusion, ValidateFrames};
use wire::{Ckn, EtherType};

use suite::identity::Identity;
use suite::{CipherSuite, Sak};

use super::*;
use crate::cpus::Cpus;
use crate::key_file::{CellKey, KeyFileError, NamedCak};

/// The first letter of a file's name; of Zeros 0.
fn letter(path: &Path) -> u8 {
    let letter = path.file_name().map_or(0, |name| name.as_encoded_bytes()[0]);
    if letter == b'Z' { 0 } else { letter }
}

/// Takes the first letter of the file's name, over and over, for the key.
fn letter_key(path: &Path, suite: CipherSuite) -> Result<Sak, KeyFileError> {
    let letter = letter(path);
    Ok(Sak::new(suite, &vec![letter; suite.key_octets()]).unwrap())
}

/// Takes the first letter of the file's name for all octets of the private key.
fn letter_identity(path: &Path) -> Result<Identity, KeyFileError> {
    let letter = letter(path);
    Ok(Identity::new(&[letter; 32]))
}

/// Takes the first letter of the file's name for all octets.
fn letter_master_key(path: &Path) -> Result<CellKey, KeyFileError> {
    let letter = letter(path);
    Ok(CellKey::new(&[letter; 32]))
}

/// The CAK is the first letter of the file's name, over and over, and so is its name, of five octets; a file whose name
/// begins with C has the key of c and the name of C.
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

/// Each row: the text that is replaced in the valid configuration, its replacement, and all lines that are reported.
#[test]
fn each_mistake_has_its_line() {
    for (what, by, expected) in MISTAKES {
        assert!(VALID.contains(what), "{what}");
        let text = VALID.replacen(what, by, 1);
        let found = validated(&text).map(|_| ()).map_err(|errors| lines(&errors));
        assert_eq!(found, Err(expected.lines().map(|line| format!("gw.toml:{line}")).collect()), "{by}");
    }
}

const MISTAKES: &[(&str, &str, &str)] = &[
    (
        "mtu = \"interface\"",
        "mtuu = 1",
        "9: unknown key \"mtuu\"; did you mean mtu? Else remove it or use one of name, plain, protected, suite, encrypt, confidentiality_offset, protect_frames, validate_frames, sci, replay_protect, replay_window, mtu, fragment, concatenate, hold, clear_vlan, bypass, link_loss, allow_addresses, static, mka",
    ),
    (
        "[gateway]",
        "colour = 1\n[gateway]",
        "1: unknown key \"colour\"; remove it or use one of gateway, link, site, fieldbus",
    ),
    (
        "replay_floor",
        "floor",
        "18: unknown key \"floor\"; remove it or use one of an, sci, key_file, ssci, salt, replay_floor",
    ),
    ("\"press-line\"", "3", "2: invalid type: integer `3`, expected a string; correct this line"),
    ("name = \"press-line\"\n", "", "1: [gateway] has no name; add name = \"NAME\""),
    (
        "\"press-line\"",
        "\"Press Line\"",
        "2: name = \"Press Line\" is not a valid name; use 1 to 32 of a-z, 0-9, _ and -, a letter or digit first",
    ),
    (
        "\"press-line\"",
        "\"../x\"",
        "2: name = \"../x\" is not a valid name; use 1 to 32 of a-z, 0-9, _ and -, a letter or digit first",
    ),
    (
        "allow_experimental = false",
        "io = \"dpdk\"",
        "3: io = \"dpdk\" is no choice; use \"auto\", \"kernel\", \"af_xdp\" or \"af_packet\"",
    ),
    (
        "allow_experimental = false",
        "polling = \"lazy\"",
        "3: polling = \"lazy\" is no choice; use \"adaptive\", \"busy\" or \"interrupt\"",
    ),
    (
        "allow_experimental = false",
        "realtime = \"fifo\"",
        "3: realtime = \"fifo\" is no choice; use \"auto\", \"on\" or \"off\"",
    ),
    (
        "allow_experimental = false",
        "state = \"state\"",
        "3: state = \"state\" is no absolute path; write one, such as \"/var/lib/frameward\"",
    ),
    (
        "allow_experimental = false",
        "http = \"localhost:9464\"",
        "3: http = \"localhost:9464\" is no address with a port; write one, such as \"127.0.0.1:9464\" or \"[::1]:9464\"",
    ),
    (
        "allow_experimental = false",
        "http = \"[::1]:0\"",
        "3: http = \"[::1]:0\" has no fixed port; write one, such as 9464",
    ),
    (
        "allow_experimental = false",
        "http = 9464",
        "3: invalid type: integer `9464`, expected a string; correct this line",
    ),
    (
        "allow_experimental = false",
        "state_max_age = \"1w\"",
        "3: state_max_age = \"1w\" is not an age; use days or hours such as \"7d\" or \"12h\", or \"off\"",
    ),
    (
        "allow_experimental = false",
        "antedate = \"yes\"",
        "3: antedate = \"yes\" is no choice; use \"auto\", \"on\" or \"off\"",
    ),
    (
        "[link.static]",
        "[link.mka]\ncak_file = \"x\"\n[link.static]",
        "10: link \"press\": has [link.mka] and [link.static]; remove one of them",
    ),
    (
        "mtu = \"interface\"",
        "fragment = \"yes\"",
        "9: link \"press\": fragment = \"yes\" is no choice; use \"auto\", \"on\" or \"off\"",
    ),
    (
        "mtu = \"interface\"",
        "link_loss = \"on\"",
        "9: link \"press\": link_loss = \"on\" is no choice; use \"off\", \"forward\" or \"both\"",
    ),
    (
        "mtu = \"interface\"",
        "fragment = \"on\"\nconfidentiality_offset = 30",
        "9: link \"press\": fragment = \"on\" is not safe with these settings; set confidentiality_offset = 0",
    ),
    (
        "mtu = \"interface\"",
        "concatenate = \"on\"\nvalidate_frames = \"check\"",
        "9: link \"press\": concatenate = \"on\" is not safe with these settings; set validate_frames = \"strict\"",
    ),
    (
        "mtu = \"interface\"",
        "fragment = \"on\"\nprotect_frames = false",
        "9: link \"press\": fragment = \"on\" is not safe with these settings; remove protect_frames = false",
    ),
    (
        "mtu = \"interface\"",
        "hold = \"5us\"",
        "9: link \"press\": hold = \"5us\" does nothing without concatenation; set concatenate = \"on\"",
    ),
    (
        "mtu = \"interface\"",
        "concatenate = \"on\"\nhold = \"11ms\"",
        "10: link \"press\": hold = \"11ms\" is not a valid time; use 0us to 10000us, or ms",
    ),
    (
        "mtu = \"interface\"",
        "concatenate = \"on\"\nhold = \"soon\"",
        "10: link \"press\": hold = \"soon\" is not a valid time; use 0us to 10000us, or ms",
    ),
    (
        "replay_floor = \"off\"",
        "replay_floor = \"yes\"",
        "18: link \"press\": replay_floor = \"yes\" is no choice; use \"on\" or \"off\"",
    ),
    ("name = \"press\"\n", "", "4: link 1: name is missing; add name = \"NAME\""),
    (
        "name = \"press\"",
        "name = \"-p\"",
        "5: link \"-p\": name = \"-p\" is not a valid name; use 1 to 32 of a-z, 0-9, _ and -, a letter or digit first",
    ),
    ("plain = \"eth0\"\n", "", "4: link \"press\": plain is missing; add plain = \"INTERFACE\""),
    (
        "plain = \"eth0\"",
        "plain = \"enp1s0f0np0-long\"",
        "6: link \"press\": plain = \"enp1s0f0np0-long\" is no interface name; use 1 to 15 octets without space, / and :",
    ),
    (
        "plain = \"eth0\"",
        "plain = \"../eth0\"",
        "6: link \"press\": plain = \"../eth0\" is no interface name; use 1 to 15 octets without space, / and :",
    ),
    (
        "protected = \"eth1\"",
        "protected = \"eth0\"",
        "7: link \"press\": protected = \"eth0\" is already used on line 6; an interface serves one side of one link",
    ),
    (
        "suite = \"gcm-aes-128\"\n",
        "",
        "4: link \"press\": suite is missing; static keys need its name: gcm-aes-128, gcm-aes-256, gcm-aes-xpn-128, gcm-aes-xpn-256, chacha20-poly1305, chacha20-poly1305-xpn, aegis-128l, aegis-256, morus-640-128 or morus-1280-128",
    ),
    (
        "suite = \"gcm-aes-128\"",
        "suite = \"auto\"",
        "8: link \"press\": suite = \"auto\" needs MKA; with static keys name it: gcm-aes-128, gcm-aes-256, gcm-aes-xpn-128, gcm-aes-xpn-256, chacha20-poly1305, chacha20-poly1305-xpn, aegis-128l, aegis-256, morus-640-128 or morus-1280-128",
    ),
    (
        "suite = \"gcm-aes-128\"",
        "suite = \"des\"",
        "8: link \"press\": suite = \"des\" is unknown; use gcm-aes-128, gcm-aes-256, gcm-aes-xpn-128, gcm-aes-xpn-256, chacha20-poly1305, chacha20-poly1305-xpn, aegis-128l, aegis-256, morus-640-128 or morus-1280-128",
    ),
    (
        "suite = \"gcm-aes-128\"",
        "suite = \"morus-640-128\"",
        "8: link \"press\": suite = \"morus-640-128\" is experimental; use another, or for research set allow_experimental = true in [gateway]",
    ),
    (
        "suite = \"gcm-aes-128\"",
        "suite = \"gcm-aes-xpn-128\"",
        "10: link \"press\": ssci is missing; add ssci = 1 (each SC another)\n10: link \"press\": salt is missing; add salt = 24 hexadecimal digits (keygen static --salt prints some)\n14: link \"press\": ssci is missing; add ssci = 1 (each SC another)\n14: link \"press\": salt is missing; add salt = 24 hexadecimal digits (keygen static --salt prints some)",
    ),
    (
        "mtu = \"interface\"",
        "mtu = 575",
        "9: link \"press\": mtu is neither \"interface\" nor 576 to 9216 octets; use one of them",
    ),
    (
        "mtu = \"interface\"",
        "mtu = \"large\"",
        "9: link \"press\": mtu is neither \"interface\" nor 576 to 9216 octets; use one of them",
    ),
    (
        "mtu = \"interface\"",
        "confidentiality_offset = 20",
        "9: link \"press\": confidentiality_offset = 20 is no choice; use 0, 30 or 50",
    ),
    (
        "mtu = \"interface\"",
        "encrypt = false\nconfidentiality_offset = 50",
        "10: link \"press\": confidentiality_offset = 50 does not go with encrypt = false; remove it",
    ),
    (
        "mtu = \"interface\"",
        "sci = \"sometimes\"",
        "9: link \"press\": sci = \"sometimes\" is no choice; use \"always\", \"never\" or \"end-station\"",
    ),
    (
        "mtu = \"interface\"",
        "validate_frames = \"no\"",
        "9: link \"press\": validate_frames = \"no\" is no choice; use \"strict\", \"check\" or \"disabled\"",
    ),
    (
        "mtu = \"interface\"",
        "clear_vlan = \"keep\"",
        "9: link \"press\": clear_vlan = \"keep\" is no choice; use \"refuse\" or \"strip\"",
    ),
    (
        "mtu = \"interface\"",
        "replay_window = -1",
        "9: link \"press\": replay_window = -1 is out of range; use 0 to 1048576",
    ),
    (
        "mtu = \"interface\"",
        "replay_window = 1048577",
        "9: link \"press\": replay_window = 1048577 is out of range; use 0 to 1048576",
    ),
    (
        "mtu = \"interface\"",
        "bypass = [\n\"eapol\"]",
        "10: link \"press\": bypass \"eapol\" is not an EtherType; use lldp, ptp, mrp or four digits such as \"0x88cc\"",
    ),
    (
        "mtu = \"interface\"",
        "bypass = [\"0x888e\"]",
        "9: link \"press\": bypass \"0x888e\" is the gateway's own protocol; remove it",
    ),
    (
        "mtu = \"interface\"",
        "bypass = [\"0x88E5\"]",
        "9: link \"press\": bypass \"0x88E5\" is the gateway's own protocol; remove it",
    ),
    (
        "mtu = \"interface\"",
        "bypass = [\"0x8808\"]",
        "9: link \"press\": bypass \"0x8808\" is MAC control (PAUSE), which no bridge forwards; remove it",
    ),
    (
        "mtu = \"interface\"",
        "bypass = [\"0x8100\"]",
        "9: link \"press\": bypass \"0x8100\" would pass all that a VLAN tag covers; remove it",
    ),
    (
        "mtu = \"interface\"",
        "bypass = [\"0x0100\"]",
        "9: link \"press\": bypass \"0x0100\" is a length, not an EtherType; use 0x0600 or above",
    ),
    (
        "mtu = \"interface\"",
        "bypass = [\"lldp\", \"0x88cc\"]",
        "9: link \"press\": bypass names \"0x88cc\" twice; once is enough",
    ),
    ("an = 0\n", "", "10: link \"press\": an is missing; add an = 0"),
    ("an = 0", "an = 4", "11: link \"press\": an = 4 is out of range; use 0 to 3"),
    (
        "02:00:00:00:00:01/1",
        "02:00:00:00:00:01",
        "12: link \"press\": sci = \"02:00:00:00:00:01\" is not an SCI such as 02:00:00:00:00:01/1 (MAC address, slash, port identifier); correct it",
    ),
    ("key_file = \"a.key\"\n", "", "10: link \"press\": key_file is missing; add key_file = \"FILE\""),
    (
        "key_file = \"a.key\"",
        "key_file = \"a.key\"\nssci = 1",
        "14: link \"press\": ssci does not go with suite gcm-aes-128; remove it",
    ),
    (
        "key_file = \"a.key\"",
        "key_file = \"a.key\"\nsalt = \"\"",
        "14: link \"press\": salt does not go with suite gcm-aes-128; remove it",
    ),
    (
        "02:00:00:00:00:02/1",
        "02:00:00:00:00:01/1",
        "14: link \"press\": the peer's sci 02:00:00:00:00:01/1 is that of this end; give each end its own",
    ),
    (
        "mtu = \"interface\"",
        "sci = \"end-station\"\n[link.static]\nan = 0\nsci = \"02:00:00:00:00:01/2\"\nkey_file = \"a.key\"\n[[link.static.peer]]\nan = 0\nsci = \"02:00:00:00:00:03/1\"\nkey_file = \"c.key\"\n[[link]]\nname = \"oven\"\nplain = \"eth2\"\nprotected = \"eth3\"\nsuite = \"gcm-aes-128\"",
        "9: link \"press\": sci = \"end-station\" implies the machine's address with port 1, not 02:00:00:00:00:01/2; set sci to that in [link.static], or use \"always\"",
    ),
    (
        "[[link.static.peer]]",
        "[[link.static.peer]]\nan = 0\nsci = \"02:00:00:00:00:02/1\"\nkey_file = \"c.key\"\n[[link.static.peer]]",
        "18: link \"press\": sci 02:00:00:00:00:02/1 has AN 0 already; give its further keys other ANs",
    ),
    (
        "[[link.static.peer]]",
        "[[link.static.peer]]\nan = 1\nsci = \"02:00:00:00:00:02/1\"\nkey_file = \"b.key\"\n[[link.static.peer]]",
        "21: link \"press\": key and SCI are those of line 17; nonces would repeat: give each end its own SCI and each SA its own key",
    ),
    (
        "b.key",
        "a.key",
        "17: link \"press\": key is used for both directions, here and on line 13; make another key for one of them with: frameward keygen static --out FILE",
    ),
    (
        "a.key",
        "Zeros.key",
        "13: link \"press\": Zeros.key holds only zeros, which are no secret; make a key with: frameward keygen static --out FILE",
    ),
    (
        "b.key",
        "Zeros.key",
        "17: link \"press\": Zeros.key holds only zeros, which are no secret; make a key with: frameward keygen static --out FILE",
    ),
    (
        "mtu = \"interface\"",
        "mtu = \"a\\nb\\u001b\"\nplain = \"eth9\"",
        "10: duplicate key; correct this line",
    ),
];

#[test]
fn mistakes_that_need_more_than_one_change() {
    let double = format!("{VALID}{SECOND}");
    let cases = [
        (
            String::new(),
            "1: [gateway] is missing; add it with name = \"NAME\"\n1: no [[link]], [[site]] or [[fieldbus]] is configured; add one",
        ),
        (
            VALID.replace("[[link", "[[lonk").replace("[link", "[lonk"),
            "4: [[lonk]] is not a section; did you mean [[link]]?",
        ),
        (
            VALID.split("[link.static]").next().unwrap().to_owned(),
            "4: link \"press\": has no keys; add [link.mka] or [link.static]",
        ),
        (
            double.replace("oven", "press"),
            "20: link \"press\": name = \"press\" is already used on line 5; give each link its own",
        ),
        (
            double.replace("eth3", "eth0"),
            "22: link \"oven\": protected = \"eth0\" is already used on line 6; an interface serves one side of one link",
        ),
        (
            double.replace("00:03/1", "00:01/1").replace("c.key", "a.key"),
            "27: link \"oven\": key and SCI are those of line 13; nonces would repeat: give each end its own SCI and each SA its own key",
        ),
        // A file copied from the other end: its own SA is this end's peer.
        (
            double.replace("00:03/1", "00:02/1").replace("c.key", "b.key"),
            "27: link \"oven\": key and SCI are those of line 17; nonces would repeat: give each end its own SCI and each SA its own key",
        ),
        (
            double.replacen("suite = \"gcm-aes-128\"", "suite = \"aegis-128l\"", 1).replace("c.key", "a.key"),
            "27: link \"oven\": key is used with another suite on line 13; use each key with one suite only",
        ),
        (
            xpn().replace("0x00000002", "0x00000001").replace("b.key", "a.key"),
            "19: link \"press\": key and SSCI are those of line 13; nonces would repeat: give each SC its own ssci or its own key",
        ),
        (
            xpn().replacen("0a0b", "0a0c", 1).replace("b.key", "a.key"),
            "19: link \"press\": key has another salt than on line 13; a key has one salt, the same at all ends",
        ),
        (
            xpn().replace("ssci = 1", "ssci = 0"),
            "14: link \"press\": ssci is not an SSCI; use 1 to 4294967295, or \"0x\" and 8 digits",
        ),
        (
            xpn().replace("\"0x00000002\"", "\"2\""),
            "21: link \"press\": ssci is not an SSCI; use 1 to 4294967295, or \"0x\" and 8 digits",
        ),
        (
            xpn().replacen("0a0b", "0a", 1),
            "15: link \"press\": salt is not 24 hexadecimal digits; correct it",
        ),
        (
            xpn().replace("mtu = \"interface\"", "confidentiality_offset = 30"),
            "9: link \"press\": confidentiality_offset = 30 does not go with an XPN suite; remove it",
        ),
        (
            VALID.replace("mtu = \"interface\"", "sci = \"never\"")
                + "[[link.static.peer]]\nan = 0\nsci = \"02:00:00:00:00:03/1\"\nkey_file = \"c.key\"\n",
            "9: link \"press\": sci = \"never\" is for a single peer; use \"always\"",
        ),
    ];
    for (text, expected) in cases {
        let found = validated(&text).map(|_| ()).map_err(|errors| lines(&errors));
        let expected: Vec<_> = expected.lines().map(|line| format!("gw.toml:{line}")).collect();
        assert_eq!(found, Err(expected), "{text}");
    }
}

#[test]
fn a_syntax_error_is_one_line_too() {
    for text in ["[gateway", "x", "a = \"\n", "\u{0}", "[gateway]\nname = \"\"\"\n"] {
        let errors = validated(text).unwrap_err();
        assert_eq!(errors.len(), 1);
        assert!(!errors[0].to_string().contains('\n'), "{:?}", errors[0]);
        assert!(errors[0].to_string().starts_with("gw.toml:"), "{:?}", errors[0]);
    }
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
