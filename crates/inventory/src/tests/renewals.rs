//! A renewal that is cut off anywhere goes on, and members of both steps have a CAK in common.

use std::fs;

use config::key_file::read_cak;

use super::Place;
use crate::{Inventory, KEYS, KeyFolder, Renewal};

/// Fingerprints of the CAKs that a gateway of the rendering has on link `press`, the first one first.
fn caks(place: &Place, gateway: &str) -> Vec<String> {
    let (rendering, _) = place.rendering().unwrap();
    let link = rendering.gateways[gateway].config.links.iter().find(|link| link.name == "press").unwrap();
    link.mka().unwrap().caks().map(|cak| cak.fingerprint()).collect()
}

fn keys(place: &Place) -> KeyFolder {
    KeyFolder::new(place.inventory().join(KEYS))
}

#[test]
fn each_step_has_a_cak_in_common_with_the_one_before_wherever_it_was_cut_off() {
    let place = Place::golden("renewal");
    place.render().unwrap();
    let keys = keys(&place);
    let folder = place.inventory().join(KEYS);
    let old = keys.fingerprint("press.cak").unwrap();
    assert!(!keys.finish("press.cak").unwrap(), "nothing has begun");

    // Cut off while the new one was written: nobody has it, and another one is drawn.
    fs::write(folder.join("press.cak.next"), "ckn = 0").unwrap();
    assert_eq!(caks(&place, "press-1"), [old.as_str()]);
    // Then cut off behind the second name: nothing has begun for the gateways.
    keys.renew("press.cak", Renewal::Overlapping).unwrap();
    let new = keys.fingerprint("press.cak").unwrap();
    fs::rename(folder.join("press.cak"), folder.join("press.cak.next")).unwrap();
    fs::hard_link(folder.join("press.cak.before"), folder.join("press.cak")).unwrap();
    assert!(!keys.is_under_way("press.cak"));
    assert_eq!(caks(&place, "press-1"), [old.as_str()]);
    assert!(keys.renew("press.cak", Renewal::Overlapping).unwrap());
    assert_eq!(keys.fingerprint("press.cak").unwrap(), new, "it goes on with the same");

    for gateway in ["press-1", "cabinet-1"] {
        assert_eq!(caks(&place, gateway), [new.as_str(), &old]);
    }
    let rendered = place.rendering().unwrap().0;
    assert!(rendered.gateways["press-1"].key_files.contains_key("press.cak.before"));
    assert!(!rendered.gateways["robot-1"].key_files.contains_key("press.cak.before"), "it is no member");
    assert!(!keys.renew("press.cak", Renewal::Overlapping).unwrap(), "it is under way");
    assert_eq!(keys.fingerprint("press.cak").unwrap(), new);
    assert!(keys.finish("press.cak").unwrap());
    assert_eq!(caks(&place, "press-1"), [new.as_str()]);
    // The same length, so the suite stays; and another name.
    let length = |file: &str| read_cak(&folder.join(file)).unwrap().octets().len();
    assert_eq!(length("press.cak"), 32);

    // Cut off behind the second name, and once more when the new one had gone: both names are of one key.
    let old = keys.fingerprint("press.cak").unwrap();
    fs::hard_link(folder.join("press.cak"), folder.join("press.cak.before")).unwrap();
    assert!(!keys.is_under_way("press.cak"));
    assert!(keys.renew("press.cak", Renewal::Overlapping).unwrap());
    let new = keys.fingerprint("press.cak").unwrap();
    assert_eq!(caks(&place, "press-1"), [new.as_str(), &old]);
    assert_ne!(new, old);
    assert!(keys.finish("press.cak").unwrap());

    fs::write(folder.join("press.cak.next"), "cut off").unwrap();
    assert!(keys.renew("press.cak", Renewal::AtOnce).unwrap());
    assert_eq!(caks(&place, "press-1"), [keys.fingerprint("press.cak").unwrap()]);
    assert_ne!(keys.fingerprint("press.cak").unwrap(), new);
}

#[test]
fn a_cells_master_key_is_renewed_in_the_same_steps() {
    let place = Place::golden("renewal-cell");
    place.render().unwrap();
    let keys = keys(&place);
    let masters = |gateway: &str| {
        let (rendering, _) = place.rendering().unwrap();
        let links = &rendering.gateways[gateway].config.links;
        let cell = links.iter().find_map(|link| link.cell.as_ref()).unwrap();
        let keys = [Some(&cell.master_key), cell.fallback_master_key.as_ref()];
        keys.into_iter().flatten().map(|key| key.fingerprint()).collect::<Vec<_>>()
    };
    let (rendering, _) = place.rendering().unwrap();
    let has_cell = |one: &&crate::Rendered| one.config.links.iter().any(|link| link.cell.is_some());
    let members = rendering.gateways.iter().filter(|(_, one)| has_cell(one));
    let members: Vec<_> = members.map(|(name, _)| name.clone()).collect();
    assert_eq!(members.len(), 2);
    let old = keys.fingerprint("cell-4.key").unwrap();
    assert!(keys.renew("cell-4.key", Renewal::Overlapping).unwrap());
    let new = keys.fingerprint("cell-4.key").unwrap();
    assert_ne!(new, old);
    for gateway in &members {
        assert_eq!(masters(gateway), [new.as_str(), &old]);
        let rendered = &place.rendering().unwrap().0.gateways[gateway];
        assert!(rendered.key_files.contains_key("cell-4.key.before"));
    }
    assert!(keys.finish("cell-4.key").unwrap());
    members.iter().for_each(|gateway| assert_eq!(masters(gateway), [new.as_str()]));
    // A second key of somebody's own needs that place.
    let shared = fs::read_to_string(place.inventory().join("shared.toml")).unwrap();
    let line = "= \"cell-4\"\nfallback_master_key_file = \"x.key\"\n";
    place.put("shared.toml", &shared.replacen("= \"cell-4\"\n", line, 1));
    fs::copy(place.inventory().join(KEYS).join("cell-4.key"), place.inventory().join(KEYS).join("x.key"))
        .unwrap();
    let refused = Inventory::read(&place.inventory()).unwrap().cak_file("cell-4", &keys).unwrap_err();
    assert!(refused.contains("names a fallback_master_key_file"), "{refused}");
}

#[test]
fn what_cannot_be_renewed_is_told_with_its_reason() {
    let place = Place::golden("not-renewed");
    place.render().unwrap();
    let keys = keys(&place);
    let cak_file = |name: &str| Inventory::read(&place.inventory()).unwrap().cak_file(name, &keys);
    for name in ["press", "ring", "plants"] {
        assert_eq!(cak_file(name), Ok(format!("{name}.cak")));
    }
    assert!(cak_file("prss").unwrap_err().contains("did you mean \"press\"?"));
    assert_eq!(cak_file("cell-4"), Ok("cell-4.key".to_owned()));
    let own = place.inventory().join(KEYS).join("press-1");
    fs::create_dir(&own).unwrap();
    fs::copy(place.inventory().join(KEYS).join("press.cak"), own.join("press.cak")).unwrap();
    assert!(cak_file("press").unwrap_err().contains("\"press-1\" has press.cak to itself"));
    fs::remove_dir_all(&own).unwrap();
    let hindrance = |file: &str| {
        let (rendering, keys) = place.rendering().unwrap();
        Inventory::read(&place.inventory()).unwrap().hindrance(file, &rendering, &keys, None)
    };
    for file in ["press.cak", "ring.cak", "plants.cak"] {
        assert_eq!(hindrance(file), None);
    }
    // A gateway has it under another name, or in a section of its own.
    let folder = place.inventory().join(KEYS);
    let gateways = fs::read_to_string(place.inventory().join("gateways.toml")).unwrap();
    fs::copy(folder.join("press.cak"), folder.join("other.cak")).unwrap();
    for (file, why) in [("other.cak", "other.cak, too"), ("press.cak", "in a section of its own")] {
        let own = format!(
            "[[gateway.robot-1.box.link]]\nname = \"own\"\nplain = \"e8\"\nprotected = \"e9\"\nmka.cak_file = \"{file}\"\n"
        );
        place.put("gateways.toml", &format!("{gateways}\n{own}"));
        let refused = hindrance("press.cak").unwrap();
        assert!(refused.contains("\"robot-1\"") && refused.contains(why), "{refused}");
    }
    place.put("gateways.toml", &gateways);
    let shared = fs::read_to_string(place.inventory().join("shared.toml")).unwrap();
    let with = |line: &str| {
        let link = "at.press-1.mka.priority = 8\n";
        place.put("shared.toml", &shared.replacen(link, &format!("{link}{line}\n"), 1));
    };
    with("mka.fallback_cak_file = \"ring.cak\"");
    assert!(cak_file("press").unwrap_err().contains("names a fallback_cak_file"));
    assert!(hindrance("press.cak").unwrap().contains("names a fallback_cak_file for link \"press\""));
    keys.renew("press.cak", Renewal::Overlapping).unwrap();
    let refused = place.rendering().unwrap_err();
    assert!(refused[0].contains("its key is being renewed"), "{refused:?}");
    with("at.press-1.mka.cak_file = \"ring.cak\"");
    assert!(cak_file("press").unwrap_err().contains("name several keys"));
    with("at.press-1.mka.cak_file = \"/etc/press.cak\"");
    assert!(cak_file("press").unwrap_err().contains("to itself"));
}
