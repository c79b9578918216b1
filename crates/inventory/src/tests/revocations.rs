//! A revoked gateway is in no rendering, and nobody has a key or a peer of it.

use std::fs;

use testkit::TestDirectory;

use super::Place;
use crate::{Inventory, KEYS, KeyFolder, Renewal, Revocation};

/// Revokes a gateway as `fleet revoke` does before anything is published.
fn revoke(place: &Place, name: &str) -> Result<Revocation, String> {
    let (rendering, keys) = place.rendering().unwrap();
    let inventory = Inventory::read(&place.inventory()).unwrap();
    let revocation = inventory.revocation(name, &rendering, &keys)?;
    let revoking = Inventory::revoking(&place.inventory(), name, &revocation)
        .map_err(|findings| findings[0].to_string())?;
    revoking.write().map_err(|(_, error)| error.to_string())?;
    Ok(revocation)
}

#[test]
fn nobody_has_a_key_or_a_peer_of_a_revoked_gateway() {
    let place = Place::golden("revocation");
    place.render().unwrap();
    let revocation = revoke(&place, "cabinet-1").unwrap();
    let files: Vec<_> = revocation.keys.keys().map(String::as_str).collect();
    assert_eq!(files, ["cell-4.key", "press-2.cak", "press.cak", "ring.cak"]);

    let inventory = Inventory::read(&place.inventory()).unwrap();
    assert_eq!(inventory.revoked()["cabinet-1"], revocation);
    assert!(inventory.gateways().all(|name| name != "cabinet-1"));
    let (rendering, keys) = place.rendering().unwrap();
    assert_eq!(revocation.keys_in_use(&rendering, &keys), files, "others go on with all of them");
    for file in files {
        keys.renew(file, Renewal::AtOnce).unwrap();
    }
    let (rendering, keys) = place.rendering().unwrap();
    assert!(revocation.keys_in_use(&rendering, &keys).is_empty());
    // The link of two is closed, and not open to anybody.
    let press = rendering.gateways["press-1"].config.links.iter().find(|link| link.name == "press").unwrap();
    assert_eq!(press.mka().unwrap().caks().count(), 1);
    // Once more: it is none any more.
    assert!(revoke(&place, "cabinet-1").unwrap_err().contains("there is no gateway \"cabinet-1\""));
}

#[test]
fn peers_of_a_tunnel_go_and_the_public_key_does_not_come_back() {
    let place = Place::golden("revocation-tunnel");
    place.render().unwrap();
    let before = fs::read_dir(place.inventory()).unwrap().count();
    // The hub is needed: people have to name another one, and nothing is written.
    let refused = revoke(&place, "dresden").unwrap_err();
    assert!(refused.contains("hub = \"dresden\" was revoked; name another hub"), "{refused}");
    assert_eq!(fs::read_dir(place.inventory()).unwrap().count(), before);

    // Lines about the one that goes may stay.
    let shared = fs::read_to_string(place.inventory().join("shared.toml")).unwrap();
    place.put("shared.toml", &shared.replacen("hub ", "at.dresden.peer.berlin.path_mtu = 1300\nhub ", 1));
    place.rendering().unwrap();
    let revocation = revoke(&place, "berlin").unwrap();
    assert_eq!(revocation.public_keys.len(), 1, "{revocation:?}");
    let (rendering, _) = place.rendering().unwrap();
    for name in ["dresden", "leipzig"] {
        assert!(!rendering.gateways[name].text.contains(&revocation.public_keys[0]), "{name}");
        assert_eq!(rendering.gateways[name].config.sites[0].peers.len(), 1);
    }
    // The box under another name is the same box.
    let gateways = fs::read_to_string(place.inventory().join("gateways.toml")).unwrap();
    place.put("gateways.toml", &gateways.replace("[gateway.berlin", "[gateway.potsdam"));
    let shared = fs::read_to_string(place.inventory().join("shared.toml")).unwrap();
    place.put("shared.toml", &shared.replace("\"berlin\"", "\"potsdam\""));
    let refused = place.rendering().unwrap_err();
    assert!(
        refused.iter().any(|line| line.contains("is a public key of gateway \"berlin\", which was revoked")),
        "{refused:?}"
    );
}

/// Of two boxes on one LAN, what stands in the inventory about the pair stays there: the one that is left forwards alone.
#[test]
fn of_a_pair_of_boxes_either_can_be_revoked() {
    let gateway = |name: &str, more: &str| {
        let key =
            config::keygen::site(&TestDirectory::new("revocation-pair-key").path().join("site.key")).unwrap();
        format!("[gateway.{name}]\nports.lan = \"enp1s0\"\npublic_key = \"{key}\"\n{more}")
    };
    let gateways = ["dresden", "dresden-2"]
        .map(|name| gateway(name, &format!("endpoint = \"{name}.example.net:7787\"\n")))
        .concat()
        + &gateway("berlin", "");
    let tunnel = "[[tunnel]]\nname = \"plants\"\ngateways = [\"dresden\", \"dresden-2\", \"berlin\"]\nprotect = true\n\
        at.dresden.standby = { peer = \"dresden-2\", preferred = true }\n\
        at.dresden-2.standby.peer = \"dresden\"\n\
        at.berlin.peer.dresden-2.standby_of = \"dresden\"\n";
    // A gateway may have a name of its own for a peer.
    let renamed = tunnel.replace("standby_of = \"dresden\"", "standby_of = \"hall\"").replace(
        "at.dresden.standby = { peer = \"dresden-2\"",
        "at.berlin.peer.dresden.name = \"hall\"\nat.dresden.peer.dresden-2.name = \"twin\"\nat.dresden.standby = { peer = \"twin\"",
    );
    for (row, tunnel) in [tunnel, &renamed].into_iter().enumerate() {
        for (gone, left) in [("dresden-2", "dresden"), ("dresden", "dresden-2")] {
            let place = Place::of(
                &format!("revocation-pair-{row}-{gone}"),
                &[("gateways.toml", &gateways), ("shared.toml", tunnel)],
            );
            place.render().unwrap();
            let (before, _) = place.rendering().unwrap();
            assert!(before.gateways[left].config.sites[0].standby.is_some());
            revoke(&place, gone).unwrap();
            let (rendering, _) = place.rendering().unwrap();
            let site = |name: &str| &rendering.gateways[name].config.sites[0];
            assert_eq!(site(left).standby, None, "{left} forwards alone");
            assert_eq!(site(left).peers.len(), 1, "berlin");
            let [peer] = &site("berlin").peers[..] else { panic!("{:?}", site("berlin").peers) };
            assert_eq!(peer.standby_of, None);
        }
    }
    // A name that nobody has is a mistake still.
    let place =
        Place::of("revocation-pair-mistake", &[("gateways.toml", &gateways), ("shared.toml", tunnel)]);
    place.render().unwrap();
    revoke(&place, "dresden-2").unwrap();
    place.put("shared.toml", &tunnel.replace("peer = \"dresden-2\"", "peer = \"dresden-3\""));
    let refused = place.rendering().unwrap_err();
    assert!(refused[0].contains("no peer of the site has that name"), "{refused:?}");
}

#[test]
fn a_tunnel_with_one_gateway_left_ends() {
    let place = Place::golden("revocation-last");
    place.render().unwrap();
    revoke(&place, "berlin").unwrap();
    revoke(&place, "leipzig").unwrap();
    // Dresden has nothing else: people take it out of the inventory.
    assert!(place.rendering().is_err());
    let revoked = fs::read_to_string(place.inventory().join("revoked.toml")).unwrap();
    assert!(revoked.contains("[revoked.berlin]") && revoked.contains("[revoked.leipzig]"), "{revoked}");
    place.put("revoked.toml", "[revoked.berlin]\npublic_key = \"x\"\n");
    let refused = place.rendering().unwrap_err();
    assert!(
        refused[0].starts_with(
            "revoked.toml:2: revoked \"berlin\": public_key is not what frameward fleet revoke writes"
        ),
        "{refused:?}"
    );
    let keys = KeyFolder::new(place.inventory().join(KEYS));
    assert!(keys.fingerprint("plants.cak").is_ok());
}

#[test]
fn keys_that_it_knew_are_found_under_other_names_and_refused_where_nobody_can_exchange_them() {
    let place = Place::golden("revocation-copies");
    place.render().unwrap();
    let keys = place.inventory().join(KEYS);
    let own = |gateway: &str| {
        fs::create_dir_all(keys.join(gateway)).unwrap();
        fs::copy(keys.join("press.cak"), keys.join(gateway).join("press.cak")).unwrap();
    };
    // A peer's own copy would stay as it is.
    own("press-1");
    let refused = revoke(&place, "cabinet-1").unwrap_err();
    assert!(refused.contains("press-1/press.cak has a key that gateway \"cabinet-1\" knows"), "{refused}");
    fs::remove_dir_all(keys.join("press-1")).unwrap();
    // Nor would two files of one key have one key any more.
    let gateways = fs::read_to_string(place.inventory().join("gateways.toml")).unwrap();
    fs::copy(keys.join("press.cak"), keys.join("other.cak")).unwrap();
    place.put(
        "gateways.toml",
        &format!("{gateways}\n[[gateway.robot-1.box.link]]\nname = \"own\"\nplain = \"e8\"\nprotected = \"e9\"\nmka.cak_file = \"other.cak\"\n"),
    );
    let refused = revoke(&place, "cabinet-1").unwrap_err();
    assert!(refused.contains("press.cak and other.cak are the same key"), "{refused}");
    place.put("gateways.toml", &gateways);
    // At an absolute path it is not known who else has it.
    let shared = fs::read_to_string(place.inventory().join("shared.toml")).unwrap();
    let line = "at.press-1.mka.priority = 8\n";
    place.put(
        "shared.toml",
        &shared.replacen(line, &format!("{line}at.cabinet-1.mka.cak_file = \"/etc/press.cak\"\n"), 1),
    );
    let refused = revoke(&place, "cabinet-1").unwrap_err();
    assert!(refused.contains("has a key of link \"press\" at an absolute path"), "{refused}");
    place.put("shared.toml", &shared);
    assert!(!place.inventory().join("revoked.toml").exists());

    // Its own copy of the common one: that is exchanged.
    own("cabinet-1");
    let revocation = revoke(&place, "cabinet-1").unwrap();
    let (rendering, folder) = place.rendering().unwrap();
    assert!(revocation.keys_in_use(&rendering, &folder).contains(&"press.cak"), "{revocation:?}");
    assert!(revocation.copies(&rendering, &folder).is_empty());
    // A copy that comes later is found, also when the common one was exchanged.
    own("press-1");
    folder.renew("press.cak", Renewal::AtOnce).unwrap();
    let (rendering, folder) = place.rendering().unwrap();
    assert_eq!(revocation.copies(&rendering, &folder), ["press-1/press.cak"]);
}

/// By what they share with it, by a key, and by its public key in a section of their own.
#[test]
fn those_concerned_by_a_revocation_are_found_before_and_after_it() {
    let place = Place::golden("revocation-concerned");
    place.render().unwrap();
    let (before, keys) = place.rendering().unwrap();
    let revocation = revoke(&place, "cabinet-1").unwrap();
    let inventory = Inventory::read(&place.inventory()).unwrap();
    let concerned = inventory.concerned("cabinet-1", &revocation, &before, &keys);
    assert!(!concerned.is_empty() && concerned.len() < before.gateways.len() - 1, "{concerned:?}");
    for file in revocation.keys_in_use(&before, &keys) {
        keys.renew(file, Renewal::Overlapping).unwrap();
    }
    let (after, mut keys) = place.rendering().unwrap();
    assert_eq!(inventory.concerned("cabinet-1", &revocation, &after, &keys), concerned);
    // Whoever gets something else is among them, and rendering them alone is the same.
    let changed = after.gateways.iter().filter(|(name, one)| {
        let old = &before.gateways[*name];
        old.text != one.text || old.key_files != one.key_files
    });
    let changed: std::collections::BTreeSet<String> = changed.map(|(name, _)| name.clone()).collect();
    assert_eq!(changed, concerned);
    let some = inventory.render_some(&mut keys, &concerned).unwrap();
    assert!(some.gateways.keys().eq(concerned.iter()));
    for (name, one) in &some.gateways {
        assert_eq!(
            (&one.text, &one.key_files),
            (&after.gateways[name].text, &after.gateways[name].key_files)
        );
    }
}
