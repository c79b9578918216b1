//! New CAKs for a fleet that runs: agents take them over step by step, nothing is lost, and a revoked gateway is heard by nobody.

use std::fs;
use std::time::{Duration, Instant};

use lab::program::Output;
use lab::topology::{Mac, PLAIN, PROTECTED};
use lab::{PacketSocket, Program};
use report::GatewayReport;
use report::mka::MkaReport;

use super::super::mka::{Group, discards, third};
use super::super::reload::{hear, reloaded, while_they_talk};
use super::super::{DEADLINE, EXPERIMENT, counter, marked, next, program};

/// Address of a machine behind the third gateway.
const FROM_C: Mac = [2, 0, 0, 0, 0, 0xd1];

/// An operator with an inventory, and boxes with agents, which share a directory.
pub(super) struct Plant {
    pub(super) group: Group,
    operator: String,
    /// Its address: a file, unless a test says otherwise before anything is published.
    pub(super) directory: String,
}

impl Plant {
    /// With gateways that share `press`, which is a `kind` of section. Nobody has asked for their identities yet, and nothing is published.
    pub(super) fn begun(kind: &str, names: &[&str]) -> Self {
        let group = Group::new();
        let directory = group.scratch.path().join("fleet.redb").display().to_string();
        let mut plant = Self { group, operator: String::new(), directory };
        let made = plant.done(&["fleet", "operator", "--out", &plant.path("operator.key")]);
        made.trim().strip_prefix("operator = ").unwrap().trim_matches('"').clone_into(&mut plant.operator);
        for folder in ["identities", "inventory"] {
            fs::create_dir(plant.path(folder)).unwrap();
        }
        let mut text = format!(
            "[template.box]\nstate = \"{}/state-${{gateway}}\"\nports = {{ plain = \"{PLAIN}\", protected = \"{PROTECTED}\" }}\n",
            plant.path("")
        );
        for name in names {
            text += &format!("[gateway.{name}]\ntemplate = \"box\"\n");
        }
        // Whoever is left alone goes on to send.
        text += &format!(
            "[[{kind}]]\nname = \"press\"\ngateways = {names:?}\nreplay_window = 64\nmka.on_peer_loss = \"hold\"\n"
        );
        fs::write(plant.path("inventory/plant.toml"), text).unwrap();
        plant
    }

    /// The same with all that the operator does before the boxes fetch.
    fn new(kind: &str, names: &[&str]) -> Self {
        let plant = Self::begun(kind, names);
        plant.identify(names);
        plant.publish();
        plant
    }

    /// Makes identities of boxes, and gives their public halves to the operator.
    pub(super) fn identify(&self, names: &[&str]) {
        for name in names {
            let identity = self.done(&["fleet", "identity", &self.path(&format!("{name}.key"))]);
            fs::write(self.path(&format!("identities/{name}.identity")), identity).unwrap();
        }
    }

    pub(super) fn publish(&self) {
        let plant = self;
        plant.done(&["fleet", "render", &plant.path("inventory"), "--to", &plant.path("rendering")]);
        plant.signed(&["apply", &plant.path("rendering")]);
    }

    /// Has a box ask to be taken into the fleet, and the operator take it by its code.
    pub(super) fn enrol(&self, name: &str) {
        let (directory, identity) = (self.directory.clone(), self.path(&format!("{name}.key")));
        let of_fleet = ["--directory", &directory, "--operator", &self.operator];
        let asked = self.done(
            &[
                &[
                    "fleet",
                    "enrol",
                    "--name",
                    name,
                    "--identity",
                    &identity,
                    "--state",
                    &self.path("enrolled"),
                ],
                &of_fleet[..],
            ]
            .concat(),
        );
        let is_code = |word: &&str| word.len() == 19 && word.matches('-').count() == 3;
        let code = asked.split_whitespace().find(is_code).unwrap_or_else(|| panic!("{asked}")).to_owned();
        self.done(
            &[&["fleet", "approve", name, &code, "--identities", &self.path("identities")], &of_fleet[..]]
                .concat(),
        );
    }

    /// What the operator sees of all gateways.
    pub(super) fn fleet_status(&self) -> Output {
        let (identities, directory) = (self.path("identities"), self.directory.clone());
        let of = ["--operator", &self.operator, "--identities", &identities, "--directory", &directory];
        self.group.command(&[&["fleet", "status"], &of[..]].concat())
    }

    /// Runs a gateway of a box that knows its fleet, and nothing else.
    pub(super) fn join(&self, name: &str, namespace: &lab::Namespace) -> Program {
        let file = self.path(&format!("{name}.toml"));
        let text = format!(
            "[gateway]\nname = \"{name}\"\nstate = \"{}\"\n[fleet]\ndirectory = \"{}\"\noperator = \"{}\"\nidentity = \"{name}.key\"\n",
            self.path(&format!("box-{name}")),
            self.directory,
            self.operator
        );
        fs::write(&file, text).unwrap();
        let runtime = format!("FRAMEWARD_RUNTIME_DIR={}", self.path("run"));
        namespace.spawn(&["env", &runtime, program().to_str().unwrap(), "run", "--keep-user", &file]).unwrap()
    }

    pub(super) fn path(&self, name: &str) -> String {
        self.group.scratch.path().join(name).display().to_string()
    }

    pub(super) fn done(&self, arguments: &[&str]) -> String {
        let output = self.group.command(arguments);
        assert!(output.status.success(), "{arguments:?}: {}{}", output.stdout, output.stderr);
        output.stdout
    }

    /// A command of `fleet` that the operator signs.
    pub(super) fn signed(&self, arguments: &[&str]) -> String {
        let output = self.signs(arguments);
        assert!(output.status.success(), "{arguments:?}: {}{}", output.stdout, output.stderr);
        output.stdout
    }

    /// The same, whatever comes of it.
    pub(super) fn signs(&self, arguments: &[&str]) -> Output {
        self.signs_within(DEADLINE, arguments)
    }

    pub(super) fn signs_within(&self, deadline: Duration, arguments: &[&str]) -> Output {
        let (key, identities) = (self.path("operator.key"), self.path("identities"));
        let signing = ["--signing-key", &key, "--identities", &identities, "--directory", &self.directory];
        self.group.command_within(deadline, &[&["fleet"], arguments, &signing].concat())
    }

    /// A step of `fleet rotate` or `fleet revoke`.
    pub(super) fn step(&self, command: &str, what: &str, switches: &[&str]) -> String {
        let (inventory, to) = (self.path("inventory"), self.path("rendering"));
        self.signed(&[&[command, what, &inventory, "--to", &to], switches].concat())
    }

    fn gateway(&self, command: &str, name: &str) -> Vec<String> {
        let (directory, identity) = (self.directory.clone(), self.path(&format!("{name}.key")));
        let (state, folder) = (self.path(&format!("fleet-{name}")), self.path(&format!("box-{name}")));
        let arguments =
            ["fleet", command, "--directory", &directory, "--operator", &self.operator, "--identity"];
        let arguments = arguments.into_iter().chain([&*identity, "--name", name, "--state", &state, &folder]);
        arguments.map(str::to_owned).collect()
    }

    pub(super) fn fetch(&self, name: &str) {
        let arguments = self.gateway("fetch", name);
        self.done(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    }

    /// The gateway, with what was fetched.
    pub(super) fn run(&self, name: &str, namespace: &lab::Namespace) -> Program {
        let runtime = format!("FRAMEWARD_RUNTIME_DIR={}", self.path("run"));
        let file = self.path(&format!("box-{name}/current/frameward.toml"));
        let command = ["env", &runtime, program().to_str().unwrap(), "run", "--keep-user", &file];
        let mut program = namespace.spawn(&command).unwrap();
        program.wait_for_line("is running", DEADLINE).unwrap();
        program
    }

    pub(super) fn follow(&self, name: &str) -> Program {
        let runtime = format!("FRAMEWARD_RUNTIME_DIR={}", self.path("run"));
        let arguments = self.gateway("follow", name);
        let begin = ["env", &runtime, program().to_str().unwrap()];
        let command: Vec<_> = begin.into_iter().chain(arguments.iter().map(String::as_str)).collect();
        Program::spawn(&command).unwrap()
    }

    /// CKN of a CAK in the operator's folder.
    pub(super) fn ckn(&self) -> String {
        let text = fs::read_to_string(self.path("inventory/keys/press.cak")).unwrap();
        text.lines().find_map(|line| line.strip_prefix("ckn = ")).unwrap().to_owned()
    }

    /// Has the CAK say that it was made so many days earlier.
    pub(super) fn grow_older(&self, days: u64) {
        let file = self.path("inventory/keys/press.cak");
        let text = fs::read_to_string(&file).unwrap();
        let (made, rest) = text.strip_prefix("# made ").unwrap().split_once('\n').unwrap();
        let earlier = made.parse::<u64>().unwrap() - days * 86_400;
        fs::write(file, format!("# made {earlier}\n{rest}")).unwrap();
    }

    pub(super) fn report(&self, name: &str) -> GatewayReport {
        report::parse(name, &self.done(&["status", "--json", name])).unwrap()
    }

    /// Protected frames that a gateway sent.
    fn transmitted(&self, name: &str) -> u64 {
        let report = self.report(name);
        let counters = &report.links[0].secy.transmit.counters;
        ["OutPktsEncrypted", "OutPktsProtected"].iter().map(|name| counter(counters, name)).sum()
    }

    /// Waits until the key agreement of a gateway is so.
    pub(super) fn until(&self, name: &str, what: &str, is_so: impl Fn(&MkaReport) -> bool) {
        let end = Instant::now() + DEADLINE;
        loop {
            let report = self.report(name);
            let mka = report.links.first().and_then(|link| link.mka.as_ref());
            if mka.is_some_and(&is_so) {
                return;
            }
            assert!(Instant::now() < end, "{name}: {what}: {mka:#?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until they are secured under this CAK with so many others.
    pub(super) fn under(&self, names: &[&str], ckn: &str, peers: usize) {
        let is_so =
            |mka: &MkaReport| mka.secured && mka.live_peers() == peers && mka.ckn.as_deref() == Some(ckn);
        names.iter().for_each(|name| self.until(name, "it is secured under the CAK", is_so));
    }
}

/// Frames that a link received and did not let pass.
fn refused(report: &GatewayReport) -> u64 {
    discards(report).iter().filter(|(name, _)| name.starts_with("InPkts")).map(|(_, count)| count).sum()
}

fn wait_for(agents: &mut [Program], line: &str) {
    agents.iter_mut().for_each(|agent| drop(agent.wait_for_line(line, 2 * DEADLINE).unwrap()));
}

#[test]
fn a_cak_is_rotated_in_two_steps_and_no_frame_is_lost() {
    let plant = Plant::new("link", &["a", "b"]);
    let names = ["a", "b"];
    names.iter().for_each(|name| plant.fetch(name));
    let programs = names.map(|name| plant.run(name, plant.group.namespace(name)));
    let old = plant.ckn();
    plant.under(&names, &old, 1);
    let mut agents = names.map(|name| plant.follow(name));
    let sent = while_they_talk(&plant.group.topology, || {
        let said = plant.step("rotate", "press", &["--wait", "0"]);
        assert!(said.contains("not known here: whether a, b have fetched this"), "{said}");
        let new = plant.ckn();
        assert_ne!(new, old);
        plant.under(&names, &new, 1);
        wait_for(&mut agents, " stays");
        plant.step("rotate", "press", &["--finish"]);
        plant.under(&names, &new, 1);
        names.iter().for_each(|name| plant.until(name, "one CAK is left", |mka| mka.caks.len() == 1));
    });
    println!("sent through the rotation: {sent:?}, lost 0");
    assert!(sent.iter().all(|sent| *sent > 0));
    for program in programs.into_iter().chain(agents) {
        assert!(program.terminate(DEADLINE).unwrap().status.success());
    }
}

/// C goes on with what it had. A and B have another CAK, and take nothing of it.
#[test]
fn a_revoked_gateway_is_heard_by_nobody_and_the_others_go_on() {
    let plant = Plant::new("group", &["a", "b", "c"]);
    let (names, others) = (["a", "b", "c"], ["a", "b"]);
    names.iter().for_each(|name| plant.fetch(name));
    let c = third(&plant.group.topology);
    let programs =
        names.map(|name| plant.run(name, if name == "c" { &c } else { plant.group.namespace(name) }));
    let old = plant.ckn();
    plant.under(&names, &old, 2);
    let mut agents = names.map(|name| plant.follow(name));
    let first = plant.step("revoke", "c", &["--wait", "0"]);
    assert!(first.contains("until then c can speak"), "{first}");
    agents[2].wait_for_line("the operator revoked this gateway", DEADLINE).unwrap();
    let new = plant.ckn();
    others.iter().for_each(|name| plant.until(name, "it has both CAKs", |mka| mka.caks.len() == 2));
    plant.under(&["c"], &old, 2);
    let mouth = PacketSocket::open(&c, "machine").unwrap();
    let (one, other) = (&plant.group.topology.machine_a, &plant.group.topology.machine_b);
    let frame = |number| marked([0xff; 6], FROM_C, EXPERIMENT, 100, number);
    let mut ears =
        [one, other].map(|machine| PacketSocket::open(&machine.namespace, machine.ifname).unwrap());
    mouth.send(&frame(1)).unwrap();
    ears.iter_mut().for_each(|ear| assert_eq!(next(ear), Some(frame(1)), "before, it is heard"));
    // B fetches later. It goes over with A all the same.
    let [agent_a, agent_b, agent_c] = agents;
    assert!(agent_b.terminate(DEADLINE).unwrap().status.success());
    let heard = hear(&plant.group.topology, || {
        let since = Instant::now();
        plant.step("revoke", "c", &["--finish"]);
        plant.under(&others, &new, 1);
        println!("revoked after {:?}", since.elapsed());
        plant.until("b", "it has both CAKs still", |mka| mka.caks.len() == 2);
        plant.fetch("b");
        reloaded(&plant.group.scratch, "b");
        plant.until("c", "nobody is left", |mka| mka.live_peers() == 0);
        std::thread::sleep(Duration::from_secs(2));
    });
    let lost: Vec<_> = heard.iter().map(|heard| (heard.missing.len(), heard.numbers.len())).collect();
    println!("lost and heard each way through the second step: {lost:?}");
    let refused = || others.map(|name| refused(&plant.report(name)));
    for number in 2..7 {
        // One by one: several are sent as one.
        let (before, sent, end) = (refused(), plant.transmitted("c"), Instant::now() + DEADLINE);
        mouth.send(&frame(number)).unwrap();
        let are_refused = || refused().iter().zip(before).all(|(now, before)| *now > before);
        while plant.transmitted("c") == sent || !are_refused() {
            assert!(Instant::now() < end, "{sent} sent before, {before:?} refused: {:?}", refused());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    // A frame that comes behind them is all that is heard.
    for (ear, [from, to]) in ears.iter_mut().zip([[other, one], [one, other]]) {
        let own = marked(to.mac, from.mac, EXPERIMENT, 100, 99);
        PacketSocket::open(&from.namespace, from.ifname).unwrap().send(&own).unwrap();
        loop {
            let frame = next(ear).unwrap();
            assert_ne!(frame.get(6..12), Some(&FROM_C[..]), "a frame of the revoked gateway");
            if frame == own {
                break;
            }
        }
    }
    plant.group.ping();
    let mut files = fs::read_dir(plant.path("identities")).unwrap().map(|entry| entry.unwrap().path());
    let is_revoked = |path: &std::path::PathBuf| path.extension().is_some_and(|ending| ending == "revoked");
    let identity = fs::read_to_string(files.find(is_revoked).unwrap()).unwrap();
    assert!(fs::read_to_string(plant.path("inventory/revoked.toml")).unwrap().contains("[revoked.c]"));
    // The same box under another name is the same identity.
    fs::write(plant.path("identities/a.identity"), identity).unwrap();
    let refused = plant.group.command(&[
        "fleet",
        "apply",
        &plant.path("rendering"),
        "--signing-key",
        &plant.path("operator.key"),
        "--identities",
        &plant.path("identities"),
        "--directory",
        &plant.path("fleet.redb"),
    ]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(refused.stderr.contains("this identity was revoked"), "{}", refused.stderr);
    for program in programs.into_iter().chain([agent_a, agent_c]) {
        assert!(program.terminate(DEADLINE).unwrap().status.success());
    }
}
