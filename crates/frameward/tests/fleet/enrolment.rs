//! `fleet enrol`, `fleet approve` and `fleet bundle`: a box comes into the fleet by its code or by its bundle, and nobody else does.

use std::fs;

use super::{APPLY, Fleet, fetch, mode};

const DIRECTORY: &str = "--directory fleet.redb";

fn enrol(operator: &str, key: &str, name: &str) -> String {
    format!("enrol {DIRECTORY} --operator {operator} --name {name} --identity {key}")
}

fn approve(operator: &str, what: &str) -> String {
    format!("approve {what} {DIRECTORY} --operator {operator} --identities identities")
}

/// The code in what a box prints.
fn code(printed: &str) -> String {
    printed.trim().rsplit_once(' ').unwrap().1.to_owned()
}

#[test]
fn a_box_is_taken_by_the_code_that_it_shows_and_nobody_in_its_place() {
    let fleet = Fleet::new("enrol-code");
    let operator = fleet.operator("operator.key");
    assert!(
        fleet
            .failed(3, &approve(&operator, "press 1234-5678-9012-3456"))
            .contains("nobody asks under the name press")
    );
    let made = format!(
        "bundle press --for serial:1 {DIRECTORY} --signing-key operator.key --identities identities --out press.bundle"
    );
    // The operator's record of it cannot be written: then there is no bundle, and the same command makes it.
    fs::create_dir(fleet.path("identities/press.new")).unwrap();
    assert!(fleet.failed(1, &made).contains("cannot write identities/press.token"));
    fs::remove_dir(fleet.path("identities/press.new")).unwrap();
    fleet.done(&made);
    let bundle = fs::read_to_string(fleet.path("press.bundle")).unwrap();
    let directory = fleet::Bundle::parse(&bundle).unwrap().directory;
    assert_eq!(directory, fleet.path("fleet.redb").display().to_string(), "the box is in another folder");
    let shown = code(&fleet.done(&enrol(&operator, "press.key", "press")));
    assert_eq!(mode(&fleet.path("press.key")), 0o600);
    assert_eq!(code(&fleet.done(&enrol(&operator, "press.key", "press"))), shown, "the same each time");
    assert!(fleet.done(&approve(&operator, "")).starts_with("press asks; take it with the code"));
    assert!(!fleet.done(&approve(&operator, "")).contains(&shown), "the code is read on the box");
    assert!(fleet.failed(2, &approve(&operator, "press")).contains("type the code that press shows"));
    assert_eq!(fleet.run(&approve(&operator, "press 1234")).0, Some(2));

    // An attacker who writes the directory puts himself into the place.
    let theirs = code(&fleet.done(&enrol(&operator, "attacker.key", "press")));
    assert_ne!(theirs, shown);
    let refused = fleet.failed(1, &approve(&operator, &format!("press {shown}")));
    assert!(refused.contains("somebody put another box into the place of this one"), "{refused}");
    // Or gives the box the directory of another fleet: its code is of that.
    let other = fleet.operator("other.key");
    assert_ne!(code(&fleet.done(&enrol(&other, "press.key", "press"))), shown);
    assert!(fleet.failed(1, &approve(&operator, &format!("press {shown}"))).contains("another code"));
    assert!(!fleet.path("identities/press.identity").exists(), "nobody was taken");

    fleet.done(&enrol(&operator, "press.key", "press"));
    assert!(fleet.done(&approve(&operator, &format!("press {shown}"))).contains(": taken"));
    assert!(!fleet.path("identities/press.token").exists(), "the bundle that was not needed has ended");
    let printed = fleet.done("identity press.key");
    assert_eq!(fs::read_to_string(fleet.path("identities/press.identity")).unwrap(), printed);
    assert_eq!(fleet.done(&approve(&operator, "")), "", "nobody asks any more");
    // From there on it is as if people had carried the identity.
    fleet.render("press", "1");
    fleet.done(APPLY);
    assert!(fleet.done(&fetch(&operator, "press")).ends_with(" installed\n"));
    // Another box under that name is not taken for it, even with the right code; nor a revoked one.
    let second = code(&fleet.done(&enrol(&operator, "second.key", "press")));
    let refused = fleet.failed(1, &approve(&operator, &format!("press {second}")));
    assert!(refused.contains("has an identity already"), "{refused}");
    fs::rename(fleet.path("identities/press.identity"), fleet.path("identities/press.revoked")).unwrap();
    fs::remove_file(fleet.path("press.bundle")).unwrap();
    assert!(fleet.failed(1, &made).contains("a gateway of the name press was revoked"));
    assert!(!fleet.path("press.bundle").exists(), "nobody is taken by it");
    fleet.done(&enrol(&operator, "press.key", "crane"));
    let again = code(&fleet.done(&enrol(&operator, "press.key", "crane")));
    assert!(fleet.failed(1, &approve(&operator, &format!("crane {again}"))).contains("was revoked"));
}

#[test]
fn a_bundle_counts_once_on_its_box_and_each_other_one_is_refused_for_its_reason() {
    let fleet = Fleet::new("enrol-bundle");
    let operator = fleet.operator("operator.key");
    fleet.operator("other.key");
    let key = |name: &str| {
        let printed = fleet.done(&format!("identity {name}.key"));
        printed.split_once("# ").unwrap().1.trim().to_owned()
    };
    let (press, crane) = (key("press"), key("crane"));
    let bundle = |signed: &str, machine: &str, out: &str| {
        fleet.done(&format!(
            "bundle press --for identity:{machine} {DIRECTORY} --signing-key {signed} --identities identities --out {out}"
        ))
    };
    let use_it = |file: &str| {
        format!("enrol --bundle {file} --operator {operator} --identity press.key --state state")
    };
    let refused = |file: &str, why: &str| {
        let said = fleet.failed(1, &use_it(file));
        assert!(said.starts_with(&format!("frameward: {file}: ")) || said.starts_with(file), "{said}");
        assert!(said.contains(why), "{said}");
    };
    bundle("other.key", &press, "foreign.bundle");
    bundle("operator.key", &crane, "crane.bundle");
    refused("foreign.bundle", "this box belongs to another one");
    refused("crane.bundle", "is for the box with identity:");
    fs::write(fleet.path("damaged.bundle"), "frameward-bundle-1:AAAA").unwrap();
    refused("damaged.bundle", "is no bundle, or damaged");
    refused("none.bundle", "cannot be read");
    assert!(
        bundle("operator.key", &press, "older.bundle")
            .contains("a SECRET until the operator has taken the box")
    );
    assert_eq!(mode(&fleet.path("older.bundle")), 0o600);
    // The number is the second.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    bundle("operator.key", &press, "press.bundle");
    assert!(!fleet.path("fleet.redb").exists(), "nobody has asked");

    // While the directory is away the bundle is not used up.
    fs::write(fleet.path("fleet.redb"), "no directory").unwrap();
    fleet.failed(3, &use_it("press.bundle"));
    fs::remove_file(fleet.path("fleet.redb")).unwrap();
    let printed = fleet.done(&use_it("press.bundle"));
    let directory = fleet.path("fleet.redb");
    let directory = directory.display();
    assert_eq!(printed, format!("DIRECTORY={directory}\nOPERATOR={operator}\nNAME=press\n"));
    refused("press.bundle", "was used on this box already");
    refused("older.bundle", "is older than the one that was used");
    // Whom the box belongs to is remembered.
    let untold = use_it("foreign.bundle").replace(&format!("--operator {operator} "), "");
    assert!(fleet.failed(1, &untold).contains("this box belongs to another one"));
    fs::write(fleet.path("state/enrolled"), "x").unwrap();
    assert!(fleet.failed(1, &use_it("press.bundle")).contains("it is damaged"));

    // An attacker who writes the directory has no token.
    let asked = fs::read(fleet.path("fleet.redb")).unwrap();
    fleet.done(&enrol(&operator, "attacker.key", "press"));
    let said = fleet.failed(1, &approve(&operator, "press --bundle"));
    assert!(said.contains("asks without the token of its last bundle"), "{said}");
    // Nor does somebody who has the bundle have its identity, if it names one.
    let token = fs::read_to_string(fleet.path("identities/press.token")).unwrap();
    fs::write(fleet.path("fleet.redb"), asked).unwrap();
    fs::write(fleet.path("identities/press.token"), token.replace(&press, &crane)).unwrap();
    let said = fleet.failed(1, &approve(&operator, "press --bundle"));
    assert!(said.contains("asks with the identity") && said.contains("somebody else has used it"), "{said}");
    let until = token.lines().nth(1).unwrap();
    fs::write(fleet.path("identities/press.token"), token.replace(until, "1")).unwrap();
    let said = fleet.failed(1, &approve(&operator, "press --bundle"));
    assert!(said.contains("the bundle for press has ended"), "{said}");
    fs::write(fleet.path("identities/press.token"), token.lines().next().unwrap()).unwrap();
    assert!(fleet.failed(1, &approve(&operator, "press --bundle")).contains("is damaged"));
    fs::write(fleet.path("identities/press.token"), token).unwrap();
    assert_eq!(
        fleet.done(&approve(&operator, "press --bundle")),
        format!("press {press}: taken; it gets its configuration with: frameward fleet apply\n")
    );
    assert!(fleet.path("identities/press.identity").exists());
    let said = fleet.failed(1, &approve(&operator, "press --bundle"));
    assert!(said.contains("no bundle was made for press, or it was used"), "{said}");
}
