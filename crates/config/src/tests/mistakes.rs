//! Mistakes in a configuration: each is told with its line and its cure, and all of them at once.

use super::{SECOND, VALID, lines, validated, xpn};

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
        "9: unknown key \"mtuu\"; did you mean mtu? Else remove it or use one of name, plain, protected, suite, encrypt, confidentiality_offset, protect_frames, validate_frames, sci, replay_protect, replay_window, mtu, fragment, concatenate, hold, padding, express, express_classes, clear_vlan, bypass, link_loss, allow_addresses, static, mka, cover",
    ),
    (
        "[gateway]",
        "colour = 1\n[gateway]",
        "1: unknown key \"colour\"; remove it or use one of gateway, fleet, link, site, fieldbus",
    ),
    (
        "replay_floor",
        "floor",
        "18: unknown key \"floor\"; remove it or use one of an, sci, key_file, ssci, salt, replay_floor",
    ),
    (
        "\"press-line\"",
        "3",
        "2: name takes text in quotes: 1 to 32 of a-z, 0-9, _ and -, a letter or digit first; correct this line",
    ),
    ("\"press-line\"", "net0 # unquoted", "2: text stands in quotes: name = \"net0\""),
    ("\"press-line\"", "1eth", "2: text stands in quotes: name = \"1eth\""),
    ("\"press-line\"", "/dev/x", "2: text stands in quotes: name = \"/dev/x\""),
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
        "announce_name = \"a\\u001b[2J\"",
        "3: announce_name = \"a\\u{1b}[2J\" has '\\u{1b}'; write 1 to 63 characters of printable ASCII without quotation mark, apostrophe and backslash, no space at an end, or \"off\"",
    ),
    (
        "allow_experimental = false",
        "announce_name = \"Süd-1\"",
        "3: announce_name = \"Süd-1\" has 'ü'; write 1 to 63 characters of printable ASCII without quotation mark, apostrophe and backslash, no space at an end, or \"off\"",
    ),
    (
        "allow_experimental = false",
        "announce_name = \"O'Brien 2\"",
        "3: announce_name = \"O'Brien 2\" has '\\''; write 1 to 63 characters of printable ASCII without quotation mark, apostrophe and backslash, no space at an end, or \"off\"",
    ),
    (
        "allow_experimental = false",
        "announce_name = \"press 1 \"",
        "3: announce_name = \"press 1 \" has a space at an end; write 1 to 63 characters of printable ASCII without quotation mark, apostrophe and backslash, no space at an end, or \"off\"",
    ),
    (
        "allow_experimental = false",
        "announce_name = \"\"",
        "3: announce_name = \"\" has 0 octets; write 1 to 63 characters of printable ASCII without quotation mark, apostrophe and backslash, no space at an end, or \"off\"",
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
        "3: http takes text in quotes: IP address and port; correct this line",
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
        "express = true",
        "9: link \"press\": express = true needs suite = \"chacha20-poly1305\" or \"chacha20-poly1305-xpn\"",
    ),
    (
        "mtu = \"interface\"",
        "fragment = \"on\"\nexpress_classes = [\"profinett\"]",
        "10: link \"press\": express_classes \"profinett\" is no class; use default, profinet, ethercat, goose, sv, powerlink, sercos, four digits such as \"0x88cc\", or \"pcp:6\", \"dscp:46\", \"udp:4840\", \"tcp:102\"",
    ),
    (
        "mtu = \"interface\"",
        "fragment = \"on\"\nexpress_classes = [\"pcp:8\"]",
        "10: link \"press\": express_classes \"pcp:8\" is out of range; use a number from 0 to 7",
    ),
    (
        "mtu = \"interface\"",
        "fragment = \"on\"\nexpress_classes = [\"dscp:64\"]",
        "10: link \"press\": express_classes \"dscp:64\" is out of range; use a number from 0 to 63",
    ),
    (
        "mtu = \"interface\"",
        "fragment = \"on\"\nexpress_classes = [\"udp:0\"]",
        "10: link \"press\": express_classes \"udp:0\" is out of range; use a number from 1 to 65535",
    ),
    (
        "mtu = \"interface\"",
        "fragment = \"on\"\nexpress_classes = [\"tcp:65536\"]",
        "10: link \"press\": express_classes \"tcp:65536\" is out of range; use a number from 1 to 65535",
    ),
    (
        "mtu = \"interface\"",
        "fragment = \"on\"\nexpress_classes = [\"tcp:+1\"]",
        "10: link \"press\": express_classes \"tcp:+1\" is out of range; use a number from 1 to 65535",
    ),
    (
        "mtu = \"interface\"",
        "fragment = \"on\"\nexpress_classes = [\"default\",\n\"goose\"]",
        "11: link \"press\": express_classes \"goose\" is named twice; once is enough",
    ),
    (
        "mtu = \"interface\"",
        "fragment = \"on\"\nexpress_classes = [\"0x8100\"]",
        "10: link \"press\": express_classes \"0x8100\" is a VLAN tag, behind which an EtherType is looked for; use \"pcp:6\", or the EtherType behind",
    ),
    (
        "mtu = \"interface\"",
        "fragment = \"on\"\nexpress_classes = [\"0x0026\"]",
        "10: link \"press\": express_classes \"0x0026\" is a length, not an EtherType; use 0x0600 or above",
    ),
    (
        "mtu = \"interface\"",
        "fragment = \"on\"\nexpress_classes = [\"0x8808\"]",
        "10: link \"press\": express_classes \"0x8808\" is MAC control (PAUSE), which no bridge forwards; remove it",
    ),
    (
        "mtu = \"interface\"",
        "fragment = \"on\"\nexpress_classes = [\"udp:1\", \"udp:2\", \"udp:3\", \"udp:4\", \"udp:5\", \"udp:6\", \"udp:7\", \"udp:8\", \"udp:9\", \"udp:10\", \"udp:11\", \"udp:12\", \"udp:13\", \"udp:14\", \"udp:15\", \"udp:16\", \"udp:17\"]",
        "10: link \"press\": express_classes \"udp:17\" is one too many: there is room for 16 EtherTypes, 16 UDP and 16 TCP ports; remove some",
    ),
    (
        "mtu = \"interface\"",
        "express_classes = [\"default\"]",
        "9: link \"press\": express_classes does nothing where frames are not split; set fragment = \"on\", or remove express_classes",
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
        // Nobody has said that they are static, so no suite is missing.
        (
            VALID
                .split("[link.static]")
                .next()
                .unwrap()
                .lines()
                .filter(|line| !line.starts_with("suite"))
                .fold(String::new(), |text, line| text + line + "\n"),
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
fn a_fleet_takes_the_place_of_links_and_has_all_three_keys() {
    let key = "ab".repeat(32);
    let text = |more: &str| format!("[gateway]\nname = \"a\"\n[fleet]\n{more}");
    let whole =
        format!("directory = \"etcd://10.0.0.1\"\noperator = \"{key}\"\nidentity = \"press/fleet.key\"\n");
    let config = validated(&text(&whole)).unwrap().0;
    let fleet = config.fleet.unwrap();
    assert_eq!((fleet.directory.as_str(), fleet.line.0), ("etcd://10.0.0.1", 3));
    assert_eq!((fleet.operator.0, fleet.identity.to_str()), ([0xab; 32], Some("press/fleet.key")));
    let found = |text: &str| lines(&validated(text).map(|_| ()).unwrap_err()).join("\n");
    let missing =
        |what: &str| format!("gw.toml:3: [fleet] {what} is missing; see frameward fleet enrol --help");
    assert_eq!(found(&text("")), ["directory", "operator", "identity"].map(missing).join("\n"));
    for bad in ["", "zz", &"ab".repeat(31), &"ab".repeat(33)] {
        let said = found(&text(&whole.replace(&key, bad)));
        assert!(said.starts_with("gw.toml:5: [fleet] operator is no public key; write the 64"), "{said}");
    }
}
