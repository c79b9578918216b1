//! Gateways of a fleet that become another program, and boxes that need another version, or a restart, to run.

use std::fs;
use std::path::Path;

use fleet::Heartbeat;
use pnstore::own_lock;
use report::FleetState;

use super::super::DEADLINE;
use super::super::reload::while_they_talk;
use super::super::upgrade::{refused, upgraded, upgrades};
use super::joined::TRIAL;
use super::keys::Plant;

impl Plant {
    /// Changes a file of a rendering, and publishes it.
    fn apply_with(&self, file: &str, from: &str, to: &str) {
        let file = self.path(file);
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(&file, text.replacen(from, to, 1)).unwrap();
        self.signed(&["apply", &self.path("rendering")]);
    }

    /// Version that a gateway has confirmed.
    fn confirmed(&self, name: &str) -> Option<u64> {
        self.of_fleet(name, "it is confirmed", |fleet| fleet.state == FleetState::Confirmed).version
    }

    /// Newest heartbeat of a gateway that the operator believes.
    fn heartbeat(&self, name: &str) -> Heartbeat {
        self.fleet_status();
        Heartbeat::parse(&fs::read(self.path(&format!("identities/{name}.heartbeat"))).unwrap()).unwrap()
    }
}

/// Two boxes of a fleet that are secured.
fn secured(names: [&str; 2]) -> (Plant, [lab::Program; 2]) {
    let plant = Plant::begun("link", &names);
    names.iter().for_each(|name| plant.enrol(name));
    plant.publish();
    let mut programs = names.map(|name| plant.join(name, plant.group.namespace(name)));
    programs.iter_mut().for_each(|program| drop(program.wait_for_line("is running", DEADLINE).unwrap()));
    plant.under(&names, &plant.ckn(), 1);
    (plant, programs)
}

/// The agent goes on with its version and its heartbeats, and hears of the next version.
#[test]
fn gateways_of_a_fleet_are_upgraded_and_lose_no_frame() {
    let names = ["a", "b"];
    let (plant, programs) = secured(names);
    let first = names.map(|name| plant.confirmed(name));
    plant.operator_sees(0, "b: version ");
    let counters = names.map(|name| plant.heartbeat(name).counter);
    let scratch = &plant.group.scratch;
    let sent = while_they_talk(&plant.group.topology, || {
        for round in 0..upgrades() {
            // By the file of its box, as the package does.
            let file = plant.path(["a.toml", "b.toml"][(round % 2) as usize]);
            upgraded(scratch, &file);
        }
        assert_eq!(names.map(|name| plant.confirmed(name)), first);
        let inventory = plant.path("inventory/plant.toml");
        let text = fs::read_to_string(&inventory).unwrap();
        fs::write(&inventory, text.replace("replay_window = 64", "replay_window = 128")).unwrap();
        plant.publish();
        plant.of_fleet("a", "it is on trial", |fleet| fleet.state == FleetState::OnTrial);
        let why = refused(scratch, "a");
        assert!(why.contains("is on trial; ask again"), "{why}");
        plant.done(&["upgrade", "--wait", "120", "a"]);
        assert!(plant.confirmed("a") > first[0] && plant.confirmed("b") > first[1]);
    });
    println!("sent through the upgrades: {sent:?}, lost 0");
    // Another fleet, or another place of it, begins with a start: else the agent would go on with the lock of the first.
    let file = plant.path("a.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("fleet.redb", "other.redb")).unwrap();
    let why = refused(scratch, "a");
    assert!(
        why.contains("[fleet]") && why.contains("has changed since the start: restart the gateway"),
        "{why}"
    );
    fs::write(&file, text).unwrap();
    assert_eq!(plant.report("a").links[0].secy.replay_window, 128);
    plant.operator_sees(0, "b: version ");
    for (name, counter) in names.iter().zip(counters) {
        let beat = plant.heartbeat(name);
        assert!(beat.counter > counter && beat.in_use == plant.confirmed(name), "{name}: {beat:?}");
    }
    for program in programs {
        assert!(program.terminate(DEADLINE).unwrap().status.success());
    }
}

/// A change that no reload takes over is no reason to take a version back: the restart that the operator is told of is its trial.
#[test]
fn what_a_running_gateway_cannot_change_is_on_trial_when_it_is_started_again() {
    let (plant, [a, b]) = secured(["a", "b"]);
    let good = plant.confirmed("a");
    plant.apply_with("rendering/a/frameward.toml", "[gateway]", "[gateway]\npolling = \"interrupt\"");
    let waits = plant.of_fleet("a", "it waits for a restart", |fleet| fleet.state == FleetState::Refused);
    let cure = "polling in [gateway] cannot change while the gateway runs; restart it there, and it is on trial: systemctl restart frameward@a";
    assert_eq!((waits.version, waits.why.as_deref()), (good, Some(cure)));
    plant.operator_sees(1, "REFUSED: polling in [gateway] cannot change");
    plant.group.ping();
    // It would come back with another configuration than it has.
    let why = refused(&plant.group.scratch, "a");
    assert!(why.contains("(polling in [gateway])") && why.contains("restart the gateway"), "{why}");
    assert!(a.terminate(DEADLINE).unwrap().status.success());
    let mut a = plant.join("a", plant.group.namespace("a"));
    a.wait_for_line("is running", DEADLINE).unwrap();
    let trial = plant.of_fleet("a", "it is on trial", |fleet| fleet.state == FleetState::OnTrial);
    assert!(trial.version > good);
    assert_eq!(plant.confirmed("a"), trial.version);
    plant.group.ping();
    for program in [a, b] {
        assert!(program.terminate(DEADLINE).unwrap().status.success());
    }
}

/// No reload leads back from what only a start takes over: the gateway ends, and its next start has the version before.
#[test]
fn a_version_that_fails_behind_its_restart_is_left_by_another_one() {
    let (plant, [a, b]) = secured(["a", "b"]);
    let good = plant.confirmed("a");
    let (home, ckn) = (plant.group.namespace("a"), plant.ckn());
    // One end alone has another CAK, and finds nobody under it.
    let cak = plant.path("rendering/a/press.cak");
    let text = fs::read_to_string(&cak).unwrap();
    fs::write(&cak, text.replacen(&ckn, &"7".repeat(ckn.len()), 1)).unwrap();
    plant.apply_with("rendering/a/frameward.toml", "[gateway]", "[gateway]\npolling = \"interrupt\"");
    plant.of_fleet("a", "it waits for a restart", |fleet| fleet.state == FleetState::Refused);
    assert!(a.terminate(DEADLINE).unwrap().status.success());
    let ended = plant.join("a", home).wait(TRIAL).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("the gateway ends, to be started with version"), "{}", ended.stderr);
    plant.operator_sees(1, "the gateway ends, to be started with version");
    // As the service manager does.
    let mut a = plant.join("a", home);
    a.wait_for_line("is running", DEADLINE).unwrap();
    let back = plant.of_fleet("a", "it is taken back", |fleet| fleet.state == FleetState::TakenBack);
    assert_eq!(back.version, good);
    plant.under(&["a", "b"], &ckn, 1);
    plant.group.ping();
    for program in [a, b] {
        assert!(program.terminate(DEADLINE).unwrap().status.success());
    }
}

/// Another program has the state directory of the installed version. The operator hears of it, and a version with another one is taken.
#[test]
fn a_box_whose_state_directory_is_in_use_says_so_and_takes_a_version_that_cures_it() {
    let plant = Plant::begun("link", &["a", "b"]);
    ["a", "b"].iter().for_each(|name| plant.enrol(name));
    plant.publish();
    let state = plant.path("state-a");
    fs::create_dir(&state).unwrap();
    let other = own_lock::take(&Path::new(&state).join("leases.lock")).unwrap();
    assert!(other.is_some());
    let home = plant.group.namespace("a");
    let mut program = plant.join("a", home);
    program.wait_for_line("does not start with version", DEADLINE).unwrap();
    let refused = plant.of_fleet("a", "it does not start", |fleet| fleet.state == FleetState::Refused);
    assert!(
        refused.why.as_ref().is_some_and(|why| why.contains("is in use by another gateway")),
        "{refused:?}"
    );
    plant.operator_sees(1, "REFUSED: the state directory");
    let ended = program.wait(TRIAL).unwrap();
    assert!(ended.stderr.contains("to be started with this one again"), "{}", ended.stderr);
    plant.apply_with("rendering/a/frameward.toml", "state-a\"", "state-of-a\"");
    let ended = plant.join("a", home).wait(TRIAL).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("another version is there"), "{}", ended.stderr);
    // As the service manager does.
    let mut again = plant.join("a", home);
    again.wait_for_line("is running", DEADLINE).unwrap();
    plant.confirmed("a");
    assert!(again.terminate(DEADLINE).unwrap().status.success());
    drop(other);
}
