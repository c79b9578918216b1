use std::fs;

use config::key_file;

use super::*;
use crate::{CONFIGURATION, rendered_gateways};

/// Rendered configurations are those that a person would put on each box: `config` reads them from the disk, and they say what the inventory does.
#[test]
fn the_golden_inventory_gives_each_gateway_what_it_needs() {
    let place = Place::golden("inventory-golden");
    assert_eq!(place.render(), Ok(Written::Changed));
    let names = ["berlin", "cabinet-1", "dresden", "leipzig", "press-1", "robot-1"];
    assert_eq!(rendered_gateways(&place.out()).unwrap(), names);
    for (path, _, mode) in contents(&place.out()) {
        assert_eq!(mode, 0o600, "{}", path.display());
    }
    let load = |name: &str| config::load(&place.out().join(name).join(CONFIGURATION)).unwrap().0;
    let (press, cabinet, robot) = (load("press-1"), load("cabinet-1"), load("robot-1"));
    assert_eq!(press.gateway.state, Path::new("/var/lib/frameward/press-1"));
    let link = |config: &config::Config, name: &str| {
        config.links.iter().find(|link| link.name == name).unwrap_or_else(|| panic!("{name}")).clone()
    };
    let (one, other) = (link(&press, "press"), link(&cabinet, "press"));
    assert_eq!(one.mka().unwrap().cak, other.mka().unwrap().cak);
    assert_eq!((one.mka().unwrap().priority, other.mka().unwrap().priority), (8, 16));
    assert_eq!(one.mka().unwrap().rekey, Some(std::time::Duration::from_secs(4 * 3600)));
    assert_ne!(one.mka().unwrap().cak, link(&press, "ring").mka().unwrap().cak);
    let interfaces = |config: &config::Config, name: &str| {
        let link = link(config, name);
        (link.plain, link.protected)
    };
    let pair = |one: &str, other: &str| (one.to_owned(), other.to_owned());
    assert_eq!(interfaces(&cabinet, "press-2"), pair("enp3s0", "enp4s0"));
    assert_eq!(interfaces(&robot, "press-2"), pair("eth0", "eth1"));
    assert_eq!(interfaces(&robot, "ring"), pair("eth2", "eth3"));
    let cell = |config: &config::Config| link(config, "press-2").cell.unwrap();
    assert_eq!(cell(&robot).master_key, cell(&cabinet).master_key);
    let own = |config: &config::Config| {
        cell(config).relations.iter().map(|one| one.relation.own()).collect::<Vec<_>>()
    };
    assert_ne!(own(&robot), own(&cabinet), "each has its own stations");
}

/// In MKPDUs each has the name of the inventory, whatever its host and the operator's are called, unless the inventory says otherwise.
#[test]
fn the_others_see_the_inventorys_names() {
    let place = Place::golden("inventory-names");
    let announced = |place: &Place, name: &str| {
        let (rendering, _) = place.rendering().unwrap();
        let config = &rendering.gateways[name].config;
        let mka = config.links.iter().find_map(|link| link.mka()).unwrap();
        assert_eq!(mka.announced_name, config.gateway.announced_name);
        mka.announced_name.map(|name| name.to_string())
    };
    assert_eq!(announced(&place, "press-1").as_deref(), Some("press-1"));
    let text = GOLDEN[0].1;
    let line = "[gateway.press-1]\n";
    assert!(text.contains(line));
    place.put("gateways.toml", &text.replacen(line, &format!("{line}announce_name = \"off\"\n"), 1));
    assert_eq!(announced(&place, "press-1"), None);
    // A gateway called `off` has not switched its name off.
    for (file, text) in GOLDEN {
        place.put(file, &text.replace("press-1", "off"));
    }
    assert!(announced(&place, "off").is_some());
}

#[test]
fn a_hub_relays_and_spokes_reach_each_other_by_it() {
    let place = Place::golden("inventory-hub");
    let (rendering, _) = place.rendering().unwrap();
    let site = |name: &str| rendering.gateways[name].config.sites[0].clone();
    let hub = site("dresden");
    assert!(hub.relay && hub.protect && !site("berlin").relay);
    assert_eq!(hub.peers.iter().map(|peer| peer.name.as_str()).collect::<Vec<_>>(), ["berlin", "leipzig"]);
    assert!(hub.peers.iter().all(|peer| peer.endpoint.is_none() && peer.path_mtu == 1400));
    let berlin = site("berlin");
    let [to_hub, to_leipzig] = &berlin.peers[..] else { panic!("{:?}", berlin.peers) };
    assert!(to_hub.endpoint.is_some() && to_hub.via.is_none());
    assert_eq!(to_leipzig.via.as_ref().map(|hub| hub.name.as_str()), Some("dresden"));
    assert_eq!(to_leipzig.public_key, hub.peers[1].public_key);
    // Without a relay each spoke has the hub alone, and without a hub each has all others.
    let text = GOLDEN[1].1;
    place.put("shared.toml", &text.replace("relay    = true\n", ""));
    let (rendering, _) = place.rendering().unwrap();
    assert_eq!(rendering.gateways["berlin"].config.sites[0].peers.len(), 1);
    let mesh = text
        .replace("relay    = true\n", "")
        .replace("hub      = \"dresden\"\n", "at.leipzig.endpoint = \"192.0.2.3:7787\"\n");
    place.put("shared.toml", &mesh);
    let (rendering, _) = place.rendering().unwrap();
    for gateway in ["dresden", "berlin", "leipzig"] {
        let peers = &rendering.gateways[gateway].config.sites[0].peers;
        assert!(peers.len() == 2 && peers.iter().all(|peer| peer.via.is_none()), "{gateway}");
    }
}

#[test]
fn the_same_inventory_gives_the_same_octets_and_a_second_rendering_touches_nothing() {
    let place = Place::golden("inventory-same");
    place.render().unwrap();
    let (before, inode) =
        (contents(&place.out()), std::os::unix::fs::MetadataExt::ino(&fs::metadata(place.out()).unwrap()));
    assert_eq!(place.render(), Ok(Written::Unchanged));
    assert_eq!(std::os::unix::fs::MetadataExt::ino(&fs::metadata(place.out()).unwrap()), inode);
    fs::remove_dir_all(place.out()).unwrap();
    assert_eq!(place.render(), Ok(Written::Changed));
    assert_eq!(contents(&place.out()), before);
    // Files that somebody changed, added or opened to others are put right.
    let own = place.out().join("press-1");
    fs::write(own.join("more"), "x").unwrap();
    assert_eq!((place.render(), contents(&place.out()) == before), (Ok(Written::Changed), true));
    std::fs::set_permissions(own.join("press.cak"), std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .unwrap();
    assert_eq!((place.render(), contents(&place.out()) == before), (Ok(Written::Changed), true));
    let left: Vec<_> =
        fs::read_dir(place.0.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn keys_are_made_once_and_never_overwritten() {
    let place = Place::golden("inventory-keys");
    let keys = place.inventory().join(KEYS);
    place.rendering().unwrap();
    assert!(!keys.exists(), "a rendering in memory makes nothing");
    place.render().unwrap();
    let made = contents(&keys);
    let names: Vec<_> = made.iter().map(|(path, ..)| path.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, [".gitignore", "cell-4.key", "plants.cak", "press-2.cak", "press.cak", "ring.cak"]);
    assert!(made.iter().skip(1).all(|(_, _, mode)| *mode == 0o600));
    fs::remove_file(keys.join("ring.cak")).unwrap();
    let ring = key_file::read_cak(&place.out().join("press-1/ring.cak")).unwrap();
    place.render().unwrap();
    assert_ne!(key_file::read_cak(&place.out().join("press-1/ring.cak")).unwrap(), ring);
    let after = contents(&keys);
    assert!(made.iter().zip(&after).all(|(one, other)| one == other || one.0.ends_with("ring.cak")));
    // No secret is in what people keep in git, nor in the configurations.
    let secret = hex::encode(key_file::read_cak(&keys.join("press.cak")).unwrap().octets());
    for (path, octets, _) in
        contents(&place.out()).into_iter().filter(|(path, ..)| path.ends_with(CONFIGURATION))
    {
        assert!(!String::from_utf8(octets).unwrap().contains(&secret[..16]), "{}", path.display());
    }
    // A key of one gateway alone comes before the one that all have.
    fs::create_dir(keys.join("press-1")).unwrap();
    fs::rename(keys.join("ring.cak"), keys.join("press-1/ring.cak")).unwrap();
    place.render().unwrap();
    let of = |gateway: &str| key_file::read_cak(&place.out().join(gateway).join("ring.cak")).unwrap();
    assert!(of("press-1") != of("robot-1") && of("robot-1") == of("cabinet-1"));
}

#[test]
fn nothing_is_replaced_that_is_no_rendering() {
    let place = Place::golden("inventory-foreign");
    let (rendering, _) = place.rendering().unwrap();
    for (file, text, expected) in [
        (
            "press/frameward.toml",
            "[gateway]\nname = \"press\"\n",
            "press/frameward.toml was not made by frameward fleet render",
        ),
        ("press/other", "", "press has no frameward.toml"),
        ("Notes", "", "it has files of other names"),
    ] {
        let path = place.out().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        let before = contents(&place.out());
        let error = write(&rendering, &place.out()).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("; name a new folder"), "{error}");
        assert_eq!(contents(&place.out()), before);
        fs::remove_dir_all(place.out()).unwrap();
    }
    fs::create_dir(place.out()).unwrap();
    assert_eq!(write(&rendering, &place.out()).unwrap(), Written::Changed);
}

#[test]
fn an_identity_among_the_keys_tells_its_public_key() {
    let text = "[gateway.a]\nports.lan = \"eth0\"\nendpoint = \"192.0.2.1:7787\"\n[gateway.b]\nports.lan = \"eth0\"\n\
                [[tunnel]]\nname = \"t\"\ngateways = [\"a\", \"b\"]\nidentity = \"site.key\"\n";
    let place = Place::of("inventory-identity", &[("all.toml", text)]);
    let mut publics = Vec::new();
    for gateway in ["a", "b"] {
        let folder = place.inventory().join(KEYS).join(gateway);
        fs::create_dir_all(&folder).unwrap();
        publics.push(config::keygen::site(&folder.join("site.key")).unwrap());
    }
    place.render().unwrap();
    for (own, other) in [("a", 1), ("b", 0)] {
        let (config, _) = config::load(&place.out().join(own).join(CONFIGURATION)).unwrap();
        assert_eq!(config.sites[0].peers[0].public_key, Some(publics[other]));
        assert_eq!(config.sites[0].identity.as_ref().map(|own| own.public()), Some(publics[1 - other]));
    }
}
