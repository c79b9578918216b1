//! `rotate_every` by a clock that the test holds.

use std::fs;

use super::Place;
use crate::{Inventory, KEYS, KeyFolder, Renewal, Rotation, State};

/// The second in which the keys are made.
const MADE: u64 = 1_800_000_000;
const DAY: u64 = 86_400;

/// The golden inventory whose link, group and tunnel have these lines, with keys that were made at [`MADE`].
fn scheduled(name: &str, lines: [&str; 3]) -> Place {
    let place = Place::golden(name);
    let mut shared = fs::read_to_string(place.inventory().join("shared.toml")).unwrap();
    for (of, line) in ["press", "ring", "plants"].into_iter().zip(lines) {
        let named = format!("name     = \"{of}\"\n");
        let at = shared.find(&named).unwrap() + named.len();
        shared.insert_str(at, &format!("{line}\n"));
    }
    place.put("shared.toml", &shared);
    place
}

fn keys(place: &Place, now: u64) -> KeyFolder {
    KeyFolder::at(place.inventory().join(KEYS), now)
}

fn make(place: &Place) {
    let mut keys = keys(place, MADE);
    Inventory::read(&place.inventory()).unwrap().render(&mut keys).unwrap();
    keys.make().unwrap();
}

fn rotations(place: &Place, now: u64) -> Vec<Rotation> {
    let rotations = Inventory::read(&place.inventory()).unwrap().rotations(&keys(place, now), now);
    assert_eq!(rotations.refused, Vec::<String>::new());
    rotations.rotations
}

/// Each group with its state, at a time.
fn states(place: &Place, now: u64) -> Vec<(String, State)> {
    rotations(place, now).into_iter().map(|one| (one.groups.join(" "), one.state)).collect()
}

#[test]
fn a_cak_is_due_when_its_time_is_over_and_not_earlier() {
    let place = scheduled("schedule", ["rotate_every = \"90d\"", "rotate_every = \"12h\"", ""]);
    make(&place);
    let (press, ring) = ("press".to_owned(), "ring".to_owned());
    let later = |due| State::Later { due };
    assert_eq!(
        states(&place, MADE + DAY / 2 - 1),
        [(press.clone(), later(MADE + 90 * DAY)), (ring.clone(), later(MADE + DAY / 2))]
    );
    let due = |since| State::Due { since: Some(since) };
    let now = MADE + 90 * DAY;
    assert_eq!(states(&place, now), [(press, due(now)), (ring, due(MADE + DAY / 2))]);

    // Begun, finished, and due again after its time: counted from the second in which it was made.
    keys(&place, now).renew("press.cak", Renewal::Overlapping).unwrap();
    assert_eq!(states(&place, now + 5)[0].1, State::UnderWay { since: Some(now) });
    keys(&place, now).finish("press.cak").unwrap();
    assert_eq!(states(&place, now + 5)[0].1, later(now + 90 * DAY));
    // One that nobody planned is shown, too.
    keys(&place, now).renew("plants.cak", Renewal::Overlapping).unwrap();
    let plants = rotations(&place, now).into_iter().find(|one| one.file == "plants.cak").unwrap();
    assert_eq!((plants.every, plants.state), (None, State::UnderWay { since: Some(now) }));
}

/// Rotates all CAKs that are due at `now`, as a timer does. Returns their number.
fn timer(place: &Place, now: u64) -> usize {
    let due = rotations(place, now).into_iter().filter(|one| matches!(one.state, State::Due { .. }));
    let due: Vec<_> = due.collect();
    for rotation in &due {
        assert!(keys(place, now).renew(&rotation.file, Renewal::Overlapping).unwrap());
        assert!(keys(place, now).finish(&rotation.file).unwrap());
    }
    due.len()
}

#[test]
fn a_clock_that_jumps_rotates_no_cak_twice() {
    let place = scheduled("schedule-jumps", ["rotate_every = \"90d\"", "", ""]);
    make(&place);
    let now = MADE + 10 * DAY;
    assert_eq!(timer(&place, now), 0);
    // It jumps ahead by a year, and back; each is seen for several runs.
    let ahead = now + 365 * DAY;
    assert_eq!([timer(&place, ahead), timer(&place, ahead + 3600)], [1, 0]);
    let made = State::Ahead { made: ahead };
    for now in [now, now + DAY, now + 100 * DAY] {
        assert_eq!((timer(&place, now), states(&place, now)[0].1), (0, made));
    }
    // It jumps behind, to 1970, and comes again.
    for now in [0, 3600, now, ahead + 89 * DAY] {
        assert_eq!(timer(&place, now), 0, "{now}");
    }
    assert_eq!([timer(&place, ahead + 90 * DAY), timer(&place, ahead + 91 * DAY)], [1, 0]);
    // By hand, under the right clock, it is on schedule again.
    let now = now + 100 * DAY;
    keys(&place, now).renew("press.cak", Renewal::AtOnce).unwrap();
    assert_eq!(states(&place, now)[0].1, State::Later { due: now + 90 * DAY });
    // Two machines' clocks differ a little.
    assert_eq!(states(&place, now - 60)[0].1, State::Later { due: now + 90 * DAY });
}

#[test]
fn a_cak_that_says_nothing_of_its_age_is_due_and_one_under_two_names_has_the_shorter_time() {
    let place = scheduled("schedule-unknown", ["rotate_every = \"4w\"", "mka.cak_file = \"press.cak\"", ""]);
    make(&place);
    let file = place.inventory().join(KEYS).join("press.cak");
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!(text.lines().next(), Some(format!("# made {MADE}").as_str()));
    let all = rotations(&place, MADE + 28 * DAY);
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].groups, ["press", "ring"]);
    assert_eq!((all[0].every, all[0].state), (Some(28 * DAY), State::Due { since: Some(MADE + 28 * DAY) }));
    for other in ["", "# made long ago\n", "# made -1\n"] {
        let rest = text.split_once('\n').unwrap().1;
        fs::write(&file, format!("{other}{rest}")).unwrap();
        assert_eq!(rotations(&place, MADE)[0].state, State::Due { since: None }, "{other}");
    }
    assert_eq!(timer(&place, MADE), 1);
    assert_eq!(timer(&place, MADE), 0);
}

#[test]
fn what_is_no_time_or_has_no_cak_is_told() {
    let wrong = [
        "\"90\"",
        "\"d\"",
        "90",
        "\"1.5d\"",
        "\"-1d\"",
        "\"0h\"",
        "\"3651d\"",
        "\"90 d\"",
        "\"99999999999999999999w\"",
        "\"90ä\"",
    ];
    for every in wrong {
        let place = scheduled("schedule-wrong", [&format!("rotate_every = {every}"), "", ""]);
        let told = place.rendering().unwrap_err();
        let [line] = &told[..] else { panic!("{every}: {told:?}") };
        assert!(line.contains("link \"press\": rotate_every is no time between two keys; use 1h"), "{line}");
        assert!(line.starts_with("shared.toml:"), "{line}");
    }
    // A CAK at an absolute path, which the box has.
    let place =
        scheduled("schedule-own", ["rotate_every = \"90d\"\nmka.cak_file = \"/etc/press.cak\"", "", ""]);
    make(&place);
    let told = Inventory::read(&place.inventory()).unwrap().rotations(&keys(&place, MADE), MADE);
    assert_eq!(told.rotations, []);
    assert!(told.refused[0].contains("has /etc/press.cak to itself"), "{told:?}");
    // One that this user cannot read, as one of another user: it is not taken for one without a time.
    let place = scheduled("schedule-hidden", ["rotate_every = \"90d\"", "", ""]);
    make(&place);
    let file = place.inventory().join(KEYS).join("press.cak");
    fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink(&file, &file).unwrap();
    let told = Inventory::read(&place.inventory()).unwrap().rotations(&keys(&place, MADE), MADE);
    assert_eq!(told.rotations, []);
    assert!(told.refused[0].starts_with("press: when its CAK is due is not known, as "), "{told:?}");
}

#[test]
fn a_cells_master_key_is_due_as_a_cak_is() {
    let place = Place::golden("schedule-cell");
    let shared = fs::read_to_string(place.inventory().join("shared.toml")).unwrap();
    place.put("shared.toml", &shared.replacen("= \"cell-4\"\n", "= \"cell-4\"\nrotate_every = \"90d\"\n", 1));
    make(&place);
    let [rotation] = &rotations(&place, MADE + 90 * DAY)[..] else { panic!("the cell's") };
    assert_eq!((rotation.file.as_str(), rotation.groups.join(" ")), ("cell-4.key", "cell-4".to_owned()));
    assert_eq!(rotation.state, State::Due { since: Some(MADE + 90 * DAY) });
    let [earlier] = &rotations(&place, MADE + 90 * DAY - 1)[..] else { panic!("the cell's") };
    assert_eq!(earlier.state, State::Later { due: MADE + 90 * DAY });
}

#[test]
fn a_rotation_that_was_cut_off_says_which_versions_there_were() {
    let place = scheduled("schedule-cut-off", ["", "", ""]);
    make(&place);
    let keys = keys(&place, MADE);
    assert_eq!(keys.cut_off().unwrap(), None);
    let versions = [("press-1".to_owned(), 7), ("robot-1".to_owned(), u64::MAX)].into();
    keys.may_be_cut_off(&versions).unwrap();
    assert_eq!(keys.cut_off().unwrap(), Some(versions));
    keys.may_be_cut_off(&[].into()).unwrap();
    assert_eq!(keys.cut_off().unwrap(), Some([].into()));
    fs::write(keys.cut_off_file(), "press-1 x\n").unwrap();
    assert!(keys.cut_off().unwrap_err().to_string().contains("damaged"));
    keys.was_not_cut_off().unwrap();
    assert_eq!(keys.cut_off().unwrap(), None);
}
