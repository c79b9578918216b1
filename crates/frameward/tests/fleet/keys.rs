//! `fleet rotate` and `fleet revoke`: what is interrupted goes on, and nothing else goes along.

use std::fs;

use super::{APPLY, Fleet};

/// A fleet with an inventory of two gateways on a link, and of three in a group; applied.
fn planted(test: &str) -> Fleet {
    let fleet = Fleet::new(test);
    fleet.operator("operator.key");
    fs::create_dir(fleet.path("inventory")).unwrap();
    let mut text =
        "[template.box]\nports = { plain = \"p\", protected = \"n\", ring = \"r\", plant = \"s\" }\n"
            .to_owned();
    for name in ["press", "crane", "robot"] {
        fleet.identity(name);
        text += &format!("[gateway.{name}]\ntemplate = \"box\"\n");
    }
    text += "[[link]]\nname = \"line\"\ngateways = [\"press\", \"crane\"]\n\
             [[group]]\nname = \"ring\"\ngateways = [\"press\", \"crane\", \"robot\"]\nplain = \"plant\"\nprotected = \"ring\"\n";
    fs::write(fleet.path("inventory/plant.toml"), text).unwrap();
    fleet.done("render inventory --to rendering");
    fleet.done(APPLY);
    fleet
}

const SIGNED: &str =
    "inventory --to rendering --signing-key operator.key --identities identities --directory fleet.redb";

/// Names of the CAKs that a gateway gets on the ring.
fn ring(fleet: &Fleet, name: &str) -> Vec<String> {
    let (config, _) = config::load(&fleet.path(&format!("rendering/{name}/frameward.toml"))).unwrap();
    let link = config.links.iter().find(|link| link.name == "ring").unwrap();
    link.mka().unwrap().caks().map(config::key_file::NamedCak::fingerprint).collect()
}

#[test]
fn a_rotation_goes_step_by_step_and_nothing_else_goes_along() {
    let fleet = planted("fleet-rotate");
    let old = ring(&fleet, "press");
    assert!(fleet.failed(2, &format!("rotate rng {SIGNED}")).contains("did you mean \"ring\"?"));
    // What is not applied yet does not go along.
    let plant = fs::read_to_string(fleet.path("inventory/plant.toml")).unwrap();
    fs::write(fleet.path("inventory/plant.toml"), format!("{plant}replay_window = 64\n")).unwrap();
    assert!(
        fleet.failed(1, &format!("rotate ring {SIGNED}")).contains("has changes that are not in rendering")
    );
    assert!(!fleet.path("inventory/keys/ring.cak.before").exists(), "nothing has begun");
    fs::write(fleet.path("inventory/plant.toml"), plant).unwrap();

    // The directory is away when it comes to apply: the same command goes on.
    let away = format!("rotate ring {SIGNED}").replace("fleet.redb", "etcd://127.0.0.1:1");
    assert_eq!(fleet.run(&away).0, Some(1));
    let begun = ring(&fleet, "press");
    assert_eq!((begun.len(), &begun[1..]), (2, &old[..]), "a new one, and the old one beside it");
    // The second step has to wait for the first.
    let early = fleet.failed(1, &format!("rotate ring {SIGNED} --finish"));
    assert!(early.contains("does not have the first step for crane, press, robot"), "{early}");
    let done = fleet.done(&format!("rotate ring {SIGNED}"));
    assert!(done.contains("not known here: whether crane, press, robot have fetched this"), "{done}");
    for name in ["press", "crane", "robot"] {
        assert_eq!(ring(&fleet, name), begun);
    }
    fleet.done(&format!("rotate ring {SIGNED} --finish"));
    assert_eq!(ring(&fleet, "press"), begun[..1]);
    let again = fleet.done(&format!("rotate ring {SIGNED} --finish"));
    assert!(again.contains("press ") && !again.contains("published"), "once more changes nothing: {again}");
}

#[test]
fn a_revocation_that_was_interrupted_goes_on_and_its_keys_go_to_nobody() {
    let fleet = planted("fleet-revoke");
    let old = ring(&fleet, "press");
    assert!(fleet.failed(2, &format!("revoke cran {SIGNED}")).contains("did you mean \"crane\"?"));
    assert!(fleet.failed(2, &format!("revoke robot {SIGNED} --finish")).contains("take the first step"));
    // Interrupted before keys were exchanged: a file is in the way.
    fs::create_dir(fleet.path("inventory/keys/ring.cak.next")).unwrap();
    let (status, _, said) = fleet.run(&format!("revoke robot {SIGNED}"));
    assert!(status == Some(1) && said.contains("run the same command again"), "{said}");
    let refused = fleet.failed(1, "render inventory --to rendering");
    assert!(refused.contains("robot was revoked, and knows ring.cak"), "{refused}");
    fs::remove_dir(fleet.path("inventory/keys/ring.cak.next")).unwrap();
    let first = fleet.done(&format!("revoke robot {SIGNED}"));
    assert!(first.contains("until then robot can speak"), "{first}");
    let begun = ring(&fleet, "press");
    assert_eq!((begun.len(), &begun[1..]), (2, &old[..]));
    assert!(
        fleet.failed(1, &format!("rotate ring {SIGNED} --finish")).contains("because a gateway was revoked")
    );
    let line = fs::read(fleet.path("inventory/keys/line.cak")).unwrap();
    fleet.done(&format!("revoke robot {SIGNED} --finish"));
    assert_eq!(ring(&fleet, "press"), begun[..1]);
    assert_eq!(fs::read(fleet.path("inventory/keys/line.cak")).unwrap(), line, "it did not know this one");
    assert!(!fleet.path("rendering/robot").exists());

    // A later rotation of the same CAK is no matter of the revocation.
    fleet.done(&format!("rotate ring {SIGNED}"));
    let again = fleet.done(&format!("revoke robot {SIGNED}"));
    assert!(!again.contains("can speak"), "{again}");
    fleet.done(&format!("revoke robot {SIGNED} --finish"));
    assert_eq!(ring(&fleet, "press").len(), 2, "the rotation goes on");
    fleet.done(&format!("rotate ring {SIGNED} --finish"));
    let begun = ring(&fleet, "press");
    assert_eq!(begun.len(), 1);

    // Both steps at once, while a rotation is under way of which it knows both CAKs.
    fleet.done(&format!("rotate line {SIGNED}"));
    let refused = fleet.failed(2, &format!("revoke crane {SIGNED}"));
    assert!(refused.contains("line.cak is being renewed, and crane knows both CAKs"), "{refused}");
    let at_once = fleet.done(&format!("revoke crane {SIGNED} --now"));
    assert!(
        at_once.contains("line.cak: a new key, which crane does not get") && !at_once.contains("can speak"),
        "{at_once}"
    );
    assert!(!fleet.path("inventory/keys/line.cak.before").exists());
    assert_ne!(ring(&fleet, "press"), begun[..1]);
}
