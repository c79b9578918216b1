use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use testkit::TestDirectory;

use super::*;

#[test]
fn an_inventory_that_was_gone_for_one_look_is_read_again() {
    let place = TestDirectory::new("cockpit-files");
    let (here, away) = (place.path().join("inventory"), place.path().join("away"));
    fs::create_dir(&here).unwrap();
    fs::write(here.join("plant.toml"), "").unwrap();
    let mut files = Files::default();
    let mut look = || files.has_other_inventory(times(&here, "toml"));
    assert!(!look() && !look(), "it was read just now");
    fs::rename(&here, &away).unwrap();
    assert!(look() && !look());
    fs::rename(&away, &here).unwrap();
    assert!(look() && !look());
}

#[test]
fn a_file_that_is_written_in_its_place_has_changed() {
    let place = TestDirectory::new("cockpit-files-in-place");
    let path = place.path().join("press.identity");
    fs::write(&path, "one").unwrap();
    let begun = times(place.path(), "identity");
    let pause = || std::thread::sleep(Duration::from_millis(50));
    pause();
    fs::write(&path, "two").unwrap();
    let written = times(place.path(), "identity");
    pause();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let allowed = times(place.path(), "identity");
    assert!(begun != written && written != allowed, "{begun:?} {written:?} {allowed:?}");
    fs::write(place.path().join("press.heartbeat"), "").unwrap();
    assert_eq!(times(place.path(), "identity"), allowed, "what is kept beside them is none");
}
