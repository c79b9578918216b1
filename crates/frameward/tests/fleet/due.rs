//! `fleet rotate --due`: what a timer does, beside people and other operators.

use std::fs;

use inventory::{CutOff, KeyFolder, Renewal};

use super::keys::{SIGNED, planted, ring};
use super::{APPLY, Fleet};

const ALL: [&str; 3] = ["press", "crane", "robot"];
const DAY: u64 = 86_400;

/// The planted fleet, whose ring and line get a new CAK every 90 days. All gateways are heard.
fn scheduled(test: &str) -> Fleet {
    let fleet = planted(test);
    let plant = fs::read_to_string(fleet.path("inventory/plant.toml")).unwrap();
    let every = "rotate_every = \"90d\"\n";
    let plant = plant.replace("name = \"line\"\n", &format!("name = \"line\"\n{every}"));
    fs::write(fleet.path("inventory/plant.toml"), plant + every).unwrap();
    fleet.all_beat();
    fleet
}

fn due() -> String {
    format!("rotate --due {SIGNED}")
}

impl Fleet {
    fn all_beat(&self) {
        ALL.iter().for_each(|name| self.beats(name));
    }

    fn keys(&self) -> KeyFolder {
        KeyFolder::new(self.path("inventory/keys"))
    }

    /// Has a CAK be made at another time, so many seconds from what its file says.
    fn shift(&self, file: &str, by: i64) {
        let path = self.path(&format!("inventory/keys/{file}"));
        let made = self.keys().made(file).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let other = made.checked_add_signed(by).unwrap();
        fs::write(&path, text.replace(&format!("# made {made}\n"), &format!("# made {other}\n"))).unwrap();
        self.done("render inventory --to rendering");
        self.done(APPLY);
        self.all_beat();
    }

    fn grow_older(&self, file: &str, days: i64) {
        self.shift(file, -days * DAY as i64);
    }

    /// Both steps of all that is due.
    fn through(&self) {
        let (code, said, told) = self.run(&format!("{} --wait 0", due()));
        assert_eq!(code, Some(1), "{said}{told}");
        self.all_beat();
        self.done(&due());
        self.all_beat();
    }

    /// Returns the versions in the directory, once all is applied.
    fn versions(&self) -> CutOff {
        let shown = self.done(&format!("{APPLY} --dry-run"));
        let version = |line: &str| {
            let (name, rest) = line.split_once(' ').unwrap();
            let version = rest.rsplit_once("version ").unwrap().1.parse().unwrap();
            (name.to_owned(), version)
        };
        shown.lines().map(version).collect()
    }

    fn made(&self, file: &str) -> u64 {
        self.keys().made(file).unwrap()
    }
}

#[test]
fn what_is_due_is_rotated_all_at_once_and_once_only() {
    let fleet = scheduled("fleet-due");
    let plan = "plan inventory --against rendering";
    let status = format!("{} --inventory inventory", fleet.status());
    assert_eq!(fleet.done(&due()), "no CAK is due\n");
    assert!(!fleet.done(plan).contains(" is due "));
    fleet.grow_older("ring.cak", 93);
    let told = "ring: a new CAK is due since 3 days ago: frameward fleet rotate --due\n";
    assert!(fleet.done(plan).ends_with(told));
    assert!(fleet.done(&status).ends_with(told));
    fleet.grow_older("line.cak", 90);
    let (old, line) = (ring(&fleet, "press"), fleet.made("line.cak"));

    // Nobody confirms in time: what was begun is shown, and the old ones stay.
    let (code, said, told) = fleet.run(&format!("{} --wait 0", due()));
    assert_eq!(code, Some(1), "{said}{told}");
    for group in ["ring", "line"] {
        assert!(said.contains(&format!("{group}: a new CAK begins")), "{said}");
        assert!(told.contains(&format!("{group}: the old CAK stays until ")), "{told}");
    }
    let begun = ring(&fleet, "press");
    assert_eq!((begun.len(), &begun[1..]), (2, &old[..]));
    let made = fleet.made("ring.cak");
    for shown in [fleet.done(plan), fleet.run(&status).1] {
        assert_eq!(shown.matches(" a new CAK has begun ").count(), 2, "{shown}");
        assert!(!shown.contains(" is due "), "{shown}");
    }
    // The next time those of the line have confirmed, and the robot has not.
    ["press", "crane"].iter().for_each(|name| fleet.beats(name));
    let (code, said, told) = fleet.run(&format!("{} --wait 1", due()));
    assert_eq!(code, Some(1), "{said}{told}");
    assert!(said.contains("line: the old CAK ends\n") && !said.contains("ring: the old CAK ends"), "{said}");
    assert!(told.contains("ring: the old CAK stays until robot have confirmed"), "{told}");
    assert_eq!(ring(&fleet, "press"), begun, "the ring has both still");
    fleet.all_beat();
    let said = fleet.done(&due());
    assert!(said.contains("ring: the old CAK ends\n"), "{said}");
    assert_eq!(ring(&fleet, "press"), begun[..1]);
    assert_eq!(fleet.made("ring.cak"), made, "it was rolled once");
    assert!(fleet.made("line.cak") >= line + 90 * DAY);
    fleet.all_beat();
    // Once more changes nothing.
    assert_eq!(fleet.done(&due()), "no CAK is due\n");
    assert!(!fleet.path("inventory/keys/.rotating").exists());
    assert!(!fleet.done(APPLY).contains("published"));
}

#[test]
fn nothing_begins_where_a_gateway_is_not_heard_or_the_clock_is_wrong() {
    let fleet = scheduled("fleet-due-waits");
    fleet.grow_older("ring.cak", 93);
    fleet.grow_older("line.cak", 93);
    // The robot is heard and has not confirmed what is published, so the ring waits; the line does not.
    fleet.done(&format!("{APPLY} --anew"));
    ["press", "crane"].iter().for_each(|name| fleet.beats(name));
    let (old, ring_made) = (ring(&fleet, "press"), fleet.made("ring.cak"));
    let (code, said, told) = fleet.run(&format!("{} --wait 0", due()));
    assert_eq!(code, Some(1), "{said}");
    assert!(
        told.contains("ring: a new CAK is due, and waits until all its gateways confirm; robot: "),
        "{told}"
    );
    assert!(said.contains("line: a new CAK begins") && !said.contains("ring: a new"), "{said}");
    assert_eq!((ring(&fleet, "press"), fleet.made("ring.cak")), (old, ring_made));
    fleet.all_beat();
    fleet.through();

    // Its CAK was made when a clock was ahead: it is not rotated before somebody looks.
    fleet.shift("ring.cak", 200 * DAY as i64);
    let refused = fleet.run(&due());
    assert_eq!((refused.0, refused.1.as_str()), (Some(1), "no CAK is due\n"));
    assert!(
        refused.2.contains("ring: its CAK was made ") && refused.2.contains(" from now by this clock"),
        "{refused:?}"
    );
    assert!(fleet.done("plan inventory --against rendering").contains("so it is not rotated; set the clock"));
    // By hand it is.
    fleet.done(&format!("rotate ring {SIGNED} --wait 0"));
    fleet.done(&format!("rotate ring {SIGNED} --finish"));
    fleet.all_beat();
    assert_eq!(fleet.done(&due()), "no CAK is due\n");
}

/// Killed at any place: the same command goes on, with the same keys.
#[test]
fn what_was_cut_off_goes_on() {
    let fleet = scheduled("fleet-due-cut-off");
    fleet.grow_older("ring.cak", 93);
    fleet.grow_older("line.cak", 93);
    let versions = || fleet.versions();
    // One of two CAKs is there, and nothing was rendered.
    fleet.keys().may_be_cut_off(&versions()).unwrap();
    fleet.keys().renew("ring.cak", Renewal::Overlapping).unwrap();
    let new = fleet.keys().fingerprint("ring.cak").unwrap();
    let (code, said, _) = fleet.run(&format!("{} --wait 0", due()));
    assert!(code == Some(1) && said.contains("line: a new CAK begins"), "{said}");
    assert_eq!(ring(&fleet, "robot")[0], new, "the same goes on");
    fleet.all_beat();
    // The old one has ended, and nothing was rendered.
    fleet.keys().may_be_cut_off(&versions()).unwrap();
    fleet.keys().finish("ring.cak").unwrap();
    let refused = fleet.failed(1, &format!("rotate line {SIGNED} --finish"));
    assert!(refused.contains("has changes that are not in rendering"), "{refused}");
    fleet.through();
    assert_eq!(ring(&fleet, "robot"), [new]);
    assert_eq!(fleet.done(&due()), "no CAK is due\n");
    // Rendered, and not published.
    fleet.grow_older("ring.cak", 93);
    fleet.keys().may_be_cut_off(&versions()).unwrap();
    fleet.keys().renew("ring.cak", Renewal::Overlapping).unwrap();
    fleet.done("render inventory --to rendering");
    let (code, said, told) = fleet.run(&format!("{} --wait 0", due()));
    assert!(code == Some(1) && said.matches(": changed since version").count() == 3, "{said}{told}");
    // Other changes in the inventory do not go along.
    fleet.keys().may_be_cut_off(&versions()).unwrap();
    let plant = fs::read_to_string(fleet.path("inventory/plant.toml")).unwrap();
    fs::write(fleet.path("inventory/plant.toml"), format!("{plant}replay_window = 64\n")).unwrap();
    assert!(fleet.failed(1, &due()).contains("has changes that are not in rendering"));
}

#[test]
fn nothing_is_put_over_what_somebody_else_published() {
    let fleet = scheduled("fleet-due-overtaken");
    fleet.grow_older("ring.cak", 93);
    fleet.keys().may_be_cut_off(&[("press".to_owned(), 1), ("crane".to_owned(), 1)].into()).unwrap();
    fleet.keys().renew("ring.cak", Renewal::Overlapping).unwrap();
    fleet.done("render inventory --to rendering");
    let before = fs::read(fleet.path("fleet.redb")).unwrap();
    let refused = fleet.failed(1, &due());
    assert!(refused.contains("somebody else has published for crane, press, robot since"), "{refused}");
    assert!(refused.contains("inventory/keys/.rotating"), "{refused}");
    assert_eq!(fs::read(fleet.path("fleet.redb")).unwrap(), before);
    // People put it right.
    fs::remove_file(fleet.path("inventory/keys/.rotating")).unwrap();
    fleet.done(&format!("rotate ring {SIGNED} --wait 0"));
    fleet.all_beat();
    assert!(fleet.done(&due()).contains("ring: the old CAK ends\n"));
    // A command that is at work has the keys to itself.
    let keys = fs::File::open(fleet.path("inventory/keys")).unwrap();
    keys.lock().unwrap();
    assert!(fleet.failed(1, &due()).contains("another frameward fleet command is at work there"));
    // Keys of a revocation are left to the operator.
    keys.unlock().unwrap();
    fleet.all_beat();
    fleet.done(&format!("revoke robot {SIGNED} --wait 0"));
    let (code, said, told) = fleet.run(&due());
    assert_eq!((code, said.as_str()), (Some(1), "no CAK is due\n"), "{told}");
    assert!(told.contains("ring: a gateway was revoked, and the old CAK stays"), "{told}");
}

/// Versions that it published itself before it was cut off are not taken for somebody else's, also if it is cut off again.
#[test]
fn what_is_cut_off_twice_goes_on() {
    let fleet = scheduled("fleet-due-twice");
    fleet.grow_older("ring.cak", 93);
    fleet.grow_older("line.cak", 93);
    // Cut off after it published a CAK of the ring.
    fleet.keys().may_be_cut_off(&fleet.versions()).unwrap();
    fleet.keys().renew("ring.cak", Renewal::Overlapping).unwrap();
    fleet.done("render inventory --to rendering");
    fleet.done(APPLY);
    fleet.all_beat();
    // Cut off again before it published one of the line: its new key cannot be written.
    let published = fleet.versions();
    let hindrance = fleet.path("inventory/keys/line.cak.next");
    fs::create_dir(&hindrance).unwrap();
    fleet.run(&due());
    assert_eq!(fleet.keys().cut_off().unwrap(), Some(published));
    fs::remove_dir(&hindrance).unwrap();
    fleet.keys().renew("line.cak", Renewal::Overlapping).unwrap();
    fleet.done("render inventory --to rendering");
    let (code, said, told) = fleet.run(&format!("{} --wait 0", due()));
    assert!(code == Some(1) && said.matches(": changed since version").count() == 2, "{said}{told}");
    fleet.all_beat();
    fleet.done(&due());
    fleet.all_beat();
    assert_eq!(fleet.done(&due()), "no CAK is due\n");
}

/// A person renders a change to look at it, and the timer comes.
#[test]
fn what_was_rendered_and_not_applied_does_not_go_along_with_what_was_cut_off() {
    let fleet = scheduled("fleet-due-rendered");
    fleet.keys().may_be_cut_off(&fleet.versions()).unwrap();
    let before = fs::read(fleet.path("fleet.redb")).unwrap();
    let plant = fs::read_to_string(fleet.path("inventory/plant.toml")).unwrap();
    fs::write(fleet.path("inventory/plant.toml"), format!("{plant}replay_window = 64\n")).unwrap();
    let refused = fleet.failed(1, "render inventory --to rendering");
    assert!(refused.contains("a rotation of what is due was cut off") && refused.contains("keys/.rotating"));
    assert!(fleet.failed(1, &due()).contains("has changes that are not in rendering"));
    assert_eq!(fs::read(fleet.path("fleet.redb")).unwrap(), before);
    // People put it right.
    fs::remove_file(fleet.path("inventory/keys/.rotating")).unwrap();
    fleet.done("render inventory --to rendering");
    assert!(fleet.failed(1, &due()).contains("apply them first"));
    fleet.done(APPLY);
    assert_eq!(fleet.done(&due()), "no CAK is due\n");
}
