use std::fs;

use proptest::prelude::*;

use super::*;
use crate::import::{ImportError, import};
use crate::{CONFIGURATION, read_rendered, rendered_gateways};

/// Whether the inventory says for each gateway what its configuration in `boxes` does.
fn assert_same(boxes: &Path, inventory: &Path) {
    let mut keys = KeyFolder::new(inventory.join(KEYS));
    let rendering = Inventory::read(inventory).unwrap().render(&mut keys).unwrap();
    assert_eq!(keys.missing().count(), 0, "no key is made anew");
    for (name, rendered) in &rendering.gateways {
        let (_, before) = read_rendered(boxes, name, CONFIGURATION).unwrap();
        assert!(rendered.config.says_the_same(&before), "{name}:\n{}", rendered.text);
    }
}

#[test]
fn what_was_rendered_is_imported_whole() {
    let place = Place::golden("inventory-import");
    place.render().unwrap();
    let to = place.0.path().join("imported");
    let imported = import(&place.out(), &to).unwrap();
    assert_eq!((imported.gateways, imported.as_they_are), (6, Vec::<String>::new()));
    assert_same(&place.out(), &to);
    let text = fs::read_to_string(to.join("fleet.toml")).unwrap();
    for section in
        ["[[link]]", "[[group]]", "[[fieldbus]]", "[[tunnel]]", "hub = \"dresden\"", "relay = true"]
    {
        assert!(text.contains(section), "{section}: {text}");
    }
    // The same names, so the same octets but for the order of what nobody orders.
    assert_eq!(rendered_gateways(&place.out()).unwrap().len(), 6);
    assert!(matches!(import(&place.out(), &to), Err(ImportError::Exists(_))));
}

/// As people write them: other names at both ends, static keys, a peer that is not here, an identity that stayed on its box.
#[test]
fn what_cannot_be_put_together_stays_as_it_is_and_is_named() {
    let boxes = testkit::TestDirectory::new("inventory-import-hand");
    let put = |file: &str, text: &str| {
        let path = boxes.path().join("boxes").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        config::keygen::write_new_text(&path, text.as_bytes()).unwrap();
    };
    let cak = |digit: &str| format!("ckn = {0}{0}\ncak = {1}\n", digit, digit.repeat(32));
    put(
        "hall-a/press.toml",
        "[gateway]\nname = \"a\"\nhttp = \"127.0.0.1:9464\"\n[[link]]\nname = \"press\"\nplain = \"eth0\"\nprotected = \"eth1\"\nreplay_window = 64\n[link.mka]\ncak_file = \"line.cak\"\n[[link]]\nname = \"alone\"\nplain = \"eth2\"\nprotected = \"eth3\"\nmka = { cak_file = \"keys/alone.cak\", record = \"/var/${x}\" }\n",
    );
    put("hall-a/line.cak", &cak("1"));
    put("hall-a/keys/alone.cak", &cak("2"));
    put(
        "hall-b/b.toml",
        "[gateway]\nname = \"b\"\n[[link]]\nname = \"cabinet\"\nplain = \"eth1\"\nprotected = \"eth0\"\nmka.cak_file = \"b.cak\"\n[[link]]\nname = \"old\"\nplain = \"eth4\"\nprotected = \"eth5\"\nsuite = \"gcm-aes-128\"\n[link.static]\nan = 0\nsci = \"02:00:00:00:00:0b/1\"\nkey_file = \"from-b.key\"\n[[link.static.peer]]\nan = 0\nsci = \"02:00:00:00:00:0a/1\"\nkey_file = \"from-a.key\"\n",
    );
    put("hall-b/b.cak", &format!("# the same key\n{}", cak("1")));
    put("hall-b/from-b.key", &format!("{}\n", "3".repeat(32)));
    put("hall-b/from-a.key", &format!("{}\n", "4".repeat(32)));
    let site = |name: &str, peer: &str, key: &str| {
        format!(
            "[gateway]\nname = \"{name}\"\n[[site]]\nname = \"{name}\"\nlan = \"eth2\"\nbind = \"0.0.0.0:7787\"\nidentity = \"{name}.key\"\n[[site.peer]]\nname = \"{peer}\"\nendpoint = \"{peer}.example.net:7787\"\npublic_key = \"{key}\"\n"
        )
    };
    put("c/c.toml", &site("c", "d", "4a3807d064d077181cc070989e76891d20dc5559548dc2c77c1a50273882b38d"));
    put("d/d.toml", &site("d", "c", "3b6a27bcceb6a42d62a3a8d02a6f0d73653215771de243a63ac048a18b59da29"));
    let to = boxes.path().join("inventory");
    let imported = import(&boxes.path().join("boxes"), &to).unwrap();
    assert_eq!(
        imported.as_they_are,
        [
            "gateway \"b\": link \"old\" stays as it is: its keys are static",
            "gateway \"a\": link \"alone\" stays as it is: no other gateway here has its key",
        ]
    );
    let text = fs::read_to_string(to.join("fleet.toml")).unwrap();
    for part in [
        "[[gateway.a.box.link]]\nname = \"alone\"",
        "gateways = [\"a\", \"b\"]",
        "[link.at.b]\nname = \"cabinet\"\n",
        "[link.at.a]\nreplay_window = 64\n",
        "record = \"/var/$${x}\"",
        "gateways = [\"c\", \"d\"]",
        "public_key = \"3b6a27bcceb6a42d62a3a8d02a6f0d73653215771de243a63ac048a18b59da29\"",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let names: Vec<_> = contents(&to.join(KEYS))
        .into_iter()
        .map(|(path, ..)| path.strip_prefix(to.join(KEYS)).unwrap().display().to_string())
        .collect();
    assert_eq!(names, [".gitignore", "a/keys/alone.cak", "b/from-a.key", "b/from-b.key", "press.cak"]);
    // And once more, from what it renders.
    let out = boxes.path().join("rendering");
    let rendering = Inventory::read(&to).unwrap().render(&mut KeyFolder::new(to.join(KEYS))).unwrap();
    write(&rendering, &out).unwrap();
    import(&out, &boxes.path().join("again")).unwrap();
    assert_same(&out, &boxes.path().join("again"));
}

#[test]
fn a_configuration_with_mistakes_is_refused_by_file_and_line() {
    let boxes = testkit::TestDirectory::new("inventory-import-wrong");
    let put = |file: &str, text: &str| {
        let path = boxes.path().join("boxes").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
    };
    put("a/a.toml", "[gateway]\nname = \"a\"\n\n[[link]]\nname = \"x\"\nplain = \"eth0\"\n");
    put("b/b.toml", "[gateway]\nname = \"b\"\nx = = 1\n");
    put("c/c.toml", "[gateway]\nname = \"c\"\n[links]\n");
    put("d/one.toml", "");
    put("d/two.toml", "");
    let to = boxes.path().join("inventory");
    let error = import(&boxes.path().join("boxes"), &to).unwrap_err().to_string();
    let folder = boxes.path().join("boxes").display().to_string();
    for part in [
        "/a/a.toml:4: link \"x\": protected is missing",
        "/b/b.toml:3: extra `=`",
        "/c/c.toml:3: \"links\" is no section of a configuration; remove it",
        "/d: has 2 configurations; keep one *.toml in it, or call it frameward.toml",
    ] {
        assert!(error.contains(&format!("{folder}{part}")), "{part}\n{error}");
    }
    assert!(!to.exists() && fs::read_dir(boxes.path()).unwrap().count() == 1);
}

/// An inventory of `seed`: links, a group, a cell and a tunnel of some gateways, with options of all kinds.
fn random(mut seed: u64) -> String {
    let mut draw = |most: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % most
    };
    let count = 3 + draw(3);
    let mut text = String::new();
    for gateway in 0..count {
        text += &format!("[gateway.g{gateway}]\npublic_key = \"{:064x}\"\n", 0x1000 + gateway);
        if draw(2) == 0 {
            text += "log = \"json\"\n";
        }
        if gateway == 0 || draw(2) == 0 {
            text += &format!("endpoint = \"g{gateway}.example.net:7787\"\n");
        }
        text += &format!("[gateway.g{gateway}.ports]\nlan = \"lan\"\n");
        for port in 0..8 {
            text += &format!("p{port} = \"eth{port}\"\nn{port} = \"wan{port}\"\n");
        }
    }
    let option = |number: u64| match number {
        0 => "replay_window = 64\n",
        1 => "bypass = [\"lldp\", \"0x88f7\"]\n",
        2 => "mka.rekey = \"1h\"\n",
        3 => "mka = { priority = 7, delay_protect = true }\n",
        4 => "suite = \"gcm-aes-256\"\n",
        5 => "link_loss = \"both\"\n",
        _ => "",
    };
    for link in 0..1 + draw(4) {
        let (one, step) = (draw(count), 1 + draw(count - 1));
        let other = (one + step) % count;
        text += &format!(
            "[[link]]\nname = \"l{link}\"\ngateways = [\"g{one}\", \"g{other}\"]\nplain = \"p{link}\"\nprotected = \"n{link}\"\n{}",
            option(draw(7))
        );
        if draw(2) == 0 {
            text += &format!("[link.at.g{one}]\nname = \"own-{link}\"\n{}", option(draw(7)));
        }
    }
    if draw(2) == 0 {
        text += &format!(
            "[[group]]\nname = \"ring\"\ngateways = [\"g0\", \"g1\", \"g2\"]\nplain = \"p5\"\nprotected = \"n5\"\n{}",
            option(draw(7))
        );
    }
    if draw(2) == 0 {
        text += "[[fieldbus]]\nname = \"cell\"\ngateways = [\"g1\", \"g2\"]\nrest = \"drop\"\nplain = \"p6\"\nprotected = \"n6\"\nat.g1.local = [\"02:00:00:00:01:01\"]\n[[fieldbus.relation]]\nstations = [\"02:00:00:00:01:01\", \"02:00:00:00:02:01\"]\nframe_ids = [0x8001, 32770]\ncycle = \"1ms\"\n";
    }
    let hub = ["", "hub = \"g0\"\n", "hub = \"g0\"\nrelay = true\n"][draw(3) as usize];
    let members =
        if hub.is_empty() { "[\"g0\", \"g1\"]".to_owned() } else { "[\"g0\", \"g1\", \"g2\"]".to_owned() };
    text += &format!("[[tunnel]]\nname = \"plants\"\ngateways = {members}\n{hub}");
    text += ["", "protect = true\n", "cells = 0x88b5\n", "window = 1024\npeer.path_mtu = 1400\n"]
        [draw(4) as usize];
    if draw(2) == 0 {
        text += "at.g1 = { dscp = 46, peer.g0.classical = \"allow\" }\n";
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Import, then render: the configurations say what they said, and nothing of it had to stay as it was.
    #[test]
    fn what_is_imported_renders_to_what_it_was(seed: u64) {
        let text = random(seed);
        let place = Place::of("inventory-import-random", &[("all.toml", &text)]);
        let rendered = place.render();
        // A gateway of nothing shared has no configuration.
        let unused = |lines: &Vec<String>| lines.iter().all(|line| line.contains("is configured; add one"));
        prop_assume!(!rendered.as_ref().is_err_and(unused));
        prop_assert!(rendered.is_ok(), "{rendered:?}\n{text}");
        let to = place.0.path().join("imported");
        let imported = import(&place.out(), &to).unwrap();
        assert_same(&place.out(), &to);
        // Links of one pair may have come out as they are.
        prop_assert!(imported.as_they_are.iter().all(|line| !line.contains("all of its gateway stays")), "{imported:?}\n{text}");
        prop_assert_eq!(imported.as_they_are, Vec::<String>::new(), "{}", text);
    }
}
