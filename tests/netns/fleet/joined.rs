//! Gateways that know their fleet and nothing else: from enrolment to traffic, a bad change, and a directory that is away.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use fleet::{Heartbeat, Part, PartKind, PartLevel, Peers};
use frameward::keygen;
use lab::topology::{PLAIN, PROTECTED};
use report::{FleetReport, FleetState};

use super::super::DEADLINE;
use super::super::reload::while_they_talk;
use super::keys::Plant;

/// Time for a change, its trial, and the end of that.
pub(super) const TRIAL: Duration = Duration::from_secs(120);

impl Plant {
    /// Waits until a gateway says this of its fleet.
    pub(super) fn of_fleet(
        &self,
        name: &str,
        what: &str,
        is_so: impl Fn(&FleetReport) -> bool,
    ) -> FleetReport {
        let end = Instant::now() + TRIAL;
        loop {
            // None while the gateway starts, or goes from waiting to that.
            let output = self.group.command(&["status", "--json", name]);
            let report = report::parse(name, &output.stdout).ok().and_then(|report| report.fleet);
            if let Some(report) = report.clone().filter(|report| is_so(report)) {
                return report;
            }
            assert!(Instant::now() < end, "{name}: {what}: {report:#?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until `fleet status` ends so, and says this.
    pub(super) fn operator_sees(&self, status: i32, what: &str) -> String {
        let end = Instant::now() + TRIAL;
        loop {
            let output = self.fleet_status();
            if output.status.code() == Some(status) && output.stdout.contains(what) {
                return output.stdout;
            }
            assert!(Instant::now() < end, "{}{}", output.stdout, output.stderr);
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

impl Plant {
    /// Waits until a gateway's heartbeat says that its link protects, and with whom.
    fn operator_hears_of_the_link(&self, name: &str, peer: &str) {
        let end = Instant::now() + DEADLINE;
        let well = Part {
            kind: PartKind::Link,
            name: "press".to_owned(),
            level: PartLevel::Good,
            state: "protecting".to_owned(),
            peers: Some(Peers::new([Some(peer)], [])),
        };
        loop {
            self.fleet_status();
            let kept = fs::read(self.path(&format!("identities/{name}.heartbeat"))).unwrap();
            let parts = Heartbeat::parse(&kept).unwrap().parts;
            if parts.as_ref().is_some_and(|parts| parts.told() == [well.clone()] && parts.left_out() == 0) {
                return;
            }
            assert!(Instant::now() < end, "{name}: {parts:?}");
            std::thread::sleep(Duration::from_millis(500));
        }
    }
}

/// Effective capabilities of a process's threads of this name.
fn capabilities(process: u32, thread: &str) -> Vec<u64> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap().map(|task| task.unwrap().path());
    let named =
        tasks.filter(|task| fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == thread));
    let sets = named.map(|task| {
        let status = fs::read_to_string(task.join("status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("CapEff:\t")).unwrap().to_owned();
        u64::from_str_radix(&line, 16).unwrap()
    });
    sets.collect()
}

#[test]
fn boxes_come_from_enrolment_to_traffic_and_keep_what_stands() {
    let names = ["a", "b"];
    let plant = Plant::begun("link", &names);
    // Whoever is alone stands no more.
    let inventory = plant.path("inventory/plant.toml");
    let text = fs::read_to_string(&inventory).unwrap();
    fs::write(&inventory, text.replace("mka.on_peer_loss = \"hold\"\n", "")).unwrap();
    names.iter().for_each(|name| plant.enrol(name));
    let mut programs = names.map(|name| plant.join(name, plant.group.namespace(name)));
    for (name, program) in names.iter().zip(&mut programs) {
        program.wait_for_line("waits for a version of its fleet", DEADLINE).unwrap();
        let waits = plant.of_fleet(name, "it waits", |fleet| fleet.directory_answered_seconds.is_some());
        assert_eq!((waits.state, waits.version), (FleetState::Waits, None));
        let report = plant.report(name);
        assert!(report.links.is_empty() && report.uptime_ms > 0);
    }
    plant.publish();
    programs.iter_mut().for_each(|program| drop(program.wait_for_line("is running", DEADLINE).unwrap()));
    let ckn = plant.ckn();
    plant.under(&names, &ckn, 1);
    plant.group.ping();
    let first =
        names.map(|name| plant.of_fleet(name, "it is there", |fleet| fleet.state == FleetState::Confirmed));
    for program in &programs {
        // CAP_IPC_LOCK, 14: all memory is locked, also what this thread asks for.
        assert_eq!(capabilities(program.id(), "fw-fleet"), [1 << 14]);
    }

    // A change that both take: a window of another size.
    let text = fs::read_to_string(&inventory).unwrap();
    fs::write(&inventory, text.replace("replay_window = 64", "replay_window = 128")).unwrap();
    while_they_talk(&plant.group.topology, || {
        plant.publish();
        for (name, first) in names.iter().zip(&first) {
            let on_trial = plant.of_fleet(name, "it is on trial", |fleet| fleet.state == FleetState::OnTrial);
            assert!(on_trial.version > first.version);
        }
        names.iter().for_each(|name| {
            plant.of_fleet(name, "it stays", |fleet| fleet.state == FleetState::Confirmed);
        });
    });
    assert_eq!(plant.report("a").links[0].secy.replay_window, 128);

    let seen = plant.operator_sees(0, "b: version ");
    assert_eq!(seen.matches(", confirmed; heard ").count(), 2, "{seen}");
    plant.operator_hears_of_the_link(names[0], names[1]);
    plant.operator_hears_of_the_link(names[1], names[0]);

    // Nothing of the directory is there for a while, and nothing falls.
    let directory = plant.path("fleet.redb");
    let aside = plant.path("aside.redb");
    while_they_talk(&plant.group.topology, || {
        fs::rename(&directory, &aside).unwrap();
        fs::write(&directory, "no directory").unwrap();
        for name in names {
            let away = plant.of_fleet(name, "the directory is away", |fleet| fleet.directory_away.is_some());
            assert_eq!(away.state, FleetState::Confirmed, "{away:?}");
        }
        let status = plant.done(&["status", "a"]);
        assert!(status.contains("stale since"), "{status}");
        fs::rename(&aside, &directory).unwrap();
        for name in names {
            plant.of_fleet(name, "the directory is back", |fleet| fleet.directory_away.is_none());
        }
    });

    // A CAK is rotated in both steps by one command, which waits for what the gateways confirm.
    let old = plant.ckn();
    let sent = while_they_talk(&plant.group.topology, || {
        let said = plant.step("rotate", "press", &["--wait", "300"]);
        assert!(said.contains("a, b: confirmed") && said.contains("the old CAK ends"), "{said}");
        let new = plant.ckn();
        assert_ne!(new, old);
        plant.under(&names, &new, 1);
        names.iter().for_each(|name| plant.until(name, "one CAK is left", |mka| mka.caks.len() == 1));
        plant.operator_sees(0, "b: version ");
    });
    println!("sent through the rotation: {sent:?}, lost 0");
    assert!(sent.iter().all(|sent| *sent > 0));

    // And by its schedule, as a timer does it: once, however often that comes.
    let text = fs::read_to_string(&inventory).unwrap();
    fs::write(&inventory, text + "rotate_every = \"90d\"\n").unwrap();
    let timer = || plant.step("rotate", "--due", &["--wait", "300"]);
    assert_eq!(timer(), "no CAK is due\n");
    let old = plant.ckn();
    plant.grow_older(91);
    let seen =
        plant.done(&["fleet", "plan", &plant.path("inventory"), "--against", &plant.path("rendering")]);
    assert!(seen.contains("press: a new CAK is due since 24 hours ago"), "{seen}");
    let sent = while_they_talk(&plant.group.topology, || {
        let said = timer();
        assert!(said.contains("press: the old CAK ends\n"), "{said}");
        let new = plant.ckn();
        assert_ne!(new, old);
        plant.under(&names, &new, 1);
        names.iter().for_each(|name| plant.until(name, "one CAK is left", |mka| mka.caks.len() == 1));
        assert_eq!(timer(), "no CAK is due\n");
        assert_eq!(plant.ckn(), new);
        plant.operator_sees(0, "b: version ");
    });
    println!("sent through the rotation by schedule: {sent:?}, lost 0");
    assert!(sent.iter().all(|sent| *sent > 0));
    let good = names.map(|name| plant.report(name).fleet.unwrap().version);

    // One gateway alone gets another CAK, and finds nobody under it: it takes that back by itself.
    let rendering = plant.path("rendering/a");
    let cak = fs::read_to_string(format!("{rendering}/press.cak")).unwrap();
    let other = cak.replacen(&plant.ckn(), &"7".repeat(plant.ckn().len()), 1);
    assert_ne!(other, cak);
    fs::write(format!("{rendering}/press.cak"), other).unwrap();
    plant.signed(&["apply", &plant.path("rendering")]);
    programs[0].wait_for_line("is taken back", TRIAL).unwrap();
    let back = plant.of_fleet("a", "it is taken back", |fleet| fleet.state == FleetState::TakenBack);
    assert_eq!(back.version, good[0]);
    assert_eq!(back.why.unwrap(), "member b of link press does not stand any more");
    let seen = plant.operator_sees(1, "TAKEN BACK: member b of link press");
    assert!(
        seen.lines().any(|line| line.starts_with("b: ") && line.contains(", confirmed; heard ")),
        "{seen}"
    );
    plant.under(&names, &plant.ckn(), 1);
    plant.group.ping();
    for program in programs {
        assert!(program.terminate(DEADLINE).unwrap().status.success());
    }
}

/// A site and the key agreement inside of it have one name, and each can fall alone: a channel needs no CAK, and a site without peers is
/// no alarm.
#[test]
fn an_end_of_a_tunnel_that_is_alone_after_a_change_takes_it_back() {
    let names = ["a", "b"];
    let plant = Plant::begun("link", &names);
    let inventory = plant.path("inventory/plant.toml");
    let text = fs::read_to_string(&inventory).unwrap();
    let mut text = text.split("[[link]]").next().unwrap().replace("{ plain =", "{ lan =");
    for (name, address) in [("a", "10.9.0.1/24"), ("b", "10.9.0.2/24")] {
        plant.group.namespace(name).ip(&["addr", "add", address, "dev", PROTECTED]).unwrap();
        let key = keygen::site(Path::new(&plant.path(&format!("site-{name}.key")))).unwrap();
        let gateway = format!("[gateway.{name}]\npublic_key = \"{key}\"\n");
        text = text.replace(&format!("[gateway.{name}]\n"), &gateway);
    }
    // One calls the other, and is not called.
    text = text.replace("[gateway.b]\n", "[gateway.b]\nendpoint = \"10.9.0.2:7787\"\n");
    text += &format!(
        "[[tunnel]]\nname = \"press\"\ngateways = {names:?}\nprotect = true\nidentity = \"{}/site-${{gateway}}.key\"\n",
        plant.path("")
    );
    assert!(text.contains(&format!("lan = \"{PLAIN}\"")), "{text}");
    fs::write(&inventory, text).unwrap();
    names.iter().for_each(|name| plant.enrol(name));
    plant.publish();
    let mut programs = names.map(|name| plant.join(name, plant.group.namespace(name)));
    programs.iter_mut().for_each(|program| drop(program.wait_for_line("is running", DEADLINE).unwrap()));
    plant.under(&names, &plant.ckn(), 1);
    plant.group.ping();
    let good = plant.of_fleet("a", "it is there", |fleet| fleet.state == FleetState::Confirmed).version;

    let (cak, toml) = (plant.path("rendering/a/press.cak"), plant.path("rendering/a/frameward.toml"));
    let other_cak = (cak, plant.ckn(), "7".repeat(plant.ckn().len()));
    let other_port = (toml, "10.9.0.2:7787".to_owned(), "10.9.0.2:7788".to_owned());
    for ((file, from, to), why) in [
        (other_cak, "member b of link press does not stand any more"),
        (other_port, "member b of link press, peer b of site press do not stand any more"),
    ] {
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains(&from), "{file}: {text}");
        fs::write(&file, text.replace(&from, &to)).unwrap();
        plant.signed(&["apply", &plant.path("rendering")]);
        // Else it is the trial before whose end is seen.
        plant.of_fleet("a", "it is on trial", |fleet| fleet.state == FleetState::OnTrial);
        let back = plant.of_fleet("a", "it is taken back", |fleet| fleet.state == FleetState::TakenBack);
        assert_eq!(back.version, good);
        assert_eq!(back.why.as_deref(), Some(why));
        plant.operator_sees(1, "TAKEN BACK: ");
        fs::write(&file, text).unwrap();
        plant.under(&names, &plant.ckn(), 1);
        plant.group.ping();
    }
    for program in programs {
        assert!(program.terminate(DEADLINE).unwrap().status.success());
    }
}

/// Nobody comes to a box that does not start: it says so, and waits for something better.
#[test]
fn a_version_that_a_box_does_not_start_with_is_told_and_the_next_one_is_started() {
    let plant = Plant::begun("link", &["a", "b"]);
    ["a", "b"].iter().for_each(|name| plant.enrol(name));
    plant.publish();
    let file = plant.path("rendering/a/frameward.toml");
    let good = fs::read_to_string(&file).unwrap();
    // No box has such a CPU, which its own look at it alone tells.
    fs::write(&file, good.replacen("[gateway]", "[gateway]\ncpus = \"900\"", 1)).unwrap();
    plant.signed(&["apply", &plant.path("rendering")]);
    let home = plant.group.namespace("a");
    let mut program = plant.join("a", home);
    program.wait_for_line("waits for a version of its fleet", DEADLINE).unwrap();
    let refused = plant.of_fleet("a", "it does not start", |fleet| fleet.state == FleetState::Refused);
    assert!(refused.why.as_ref().is_some_and(|why| why.contains("900")), "{refused:?}");
    plant.operator_sees(1, "REFUSED: ");
    // Resources of a box may be others soon, so the service manager has it start again.
    let ended = program.wait(TRIAL).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("to be started with this one again"), "{}", ended.stderr);
    fs::write(&file, good).unwrap();
    plant.signed(&["apply", &plant.path("rendering")]);
    let program = plant.join("a", home);
    let ended = program.wait(TRIAL).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("another version is there"), "{}", ended.stderr);
    // As the service manager does.
    let mut again = plant.join("a", home);
    again.wait_for_line("is running", DEADLINE).unwrap();
    plant.operator_sees(1, "a: version ");
    let seen = plant.operator_sees(1, ", confirmed; heard ");
    assert!(seen.contains("b: version") && seen.contains("never heard"), "{seen}");
    assert!(again.terminate(DEADLINE).unwrap().status.success());
}
