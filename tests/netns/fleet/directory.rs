//! A fleet end to end: two gateways get their configurations out of an etcd, change over while machines talk, and go on while etcd
//! is away.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use frameward::keygen::{self, KeyLength};
use lab::program::Output;
use lab::topology::{PLAIN, PROTECTED};
use testkit::etcd::Etcd;
use wire::Ckn;

use super::super::mka::Group;
use super::super::reload::{reloaded, while_they_talk};
use super::super::{DEADLINE, program};

/// An operator and two boxes, with their files in the group's directory.
struct Fleet {
    group: Group,
    etcd: Etcd,
    operator: String,
}

impl Fleet {
    fn new() -> Self {
        let group = Group::new();
        let etcd = Etcd::start(&group.scratch.path().join("etcd"), None);
        let mut fleet = Self { group, etcd, operator: String::new() };
        let made = fleet.done(&["fleet", "operator", "--out", &fleet.path("operator.key")]);
        made.trim().strip_prefix("operator = ").unwrap().trim_matches('"').clone_into(&mut fleet.operator);
        fs::create_dir(fleet.path("identities")).unwrap();
        for name in ["a", "b"] {
            let identity = fleet.done(&["fleet", "identity", &fleet.path(&format!("{name}.key"))]);
            fs::write(fleet.path(&format!("identities/{name}.identity")), identity).unwrap();
        }
        fleet
    }

    fn path(&self, name: &str) -> String {
        self.group.scratch.path().join(name).display().to_string()
    }

    fn done(&self, arguments: &[&str]) -> String {
        let output = self.group.command(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", output.stderr);
        output.stdout
    }

    /// Renders both gateways with a CAK, and another one to fall back on.
    fn render(&self, cak: &str, fallback: Option<&str>) {
        for name in ["a", "b"] {
            let folder = PathBuf::from(self.path(&format!("rendering/{name}")));
            fs::create_dir_all(&folder).unwrap();
            for entry in fs::read_dir(&folder).unwrap() {
                fs::remove_file(entry.unwrap().path()).unwrap();
            }
            for file in [Some(cak), fallback].into_iter().flatten() {
                fs::copy(self.path(file), folder.join(file)).unwrap();
            }
            let fallback =
                fallback.map_or_else(String::new, |file| format!("fallback_cak_file = \"{file}\"\n"));
            let text = format!(
                "[gateway]\nname = \"{name}\"\nstate = \"{}\"\n[[link]]\nname = \"press\"\nplain = \"{PLAIN}\"\n\
                 protected = \"{PROTECTED}\"\nreplay_window = 64\n[link.mka]\ncak_file = \"{cak}\"\n{fallback}",
                self.path(&format!("state-{name}"))
            );
            fs::write(folder.join("frameward.toml"), text).unwrap();
        }
    }

    fn cak(&self, file: &str, ckn: &str) {
        let ckn = Ckn::new(ckn.as_bytes());
        keygen::cak(KeyLength::Bits128, ckn, self.path(file).as_ref()).unwrap();
    }

    fn apply(&self) -> String {
        self.done(&[
            "fleet",
            "apply",
            &self.path("rendering"),
            "--signing-key",
            &self.path("operator.key"),
            "--identities",
            &self.path("identities"),
            "--directory",
            &self.etcd.address(),
        ])
    }

    /// `fleet fetch` or `fleet follow` of a gateway.
    fn of(&self, command: &str, name: &str) -> Vec<String> {
        [
            "fleet",
            command,
            "--directory",
            &self.etcd.address(),
            "--operator",
            &self.operator,
            "--identity",
            &self.path(&format!("{name}.key")),
            "--name",
            name,
            "--state",
            &self.path(&format!("fleet-{name}")),
            &self.path(&format!("box-{name}")),
        ]
        .map(str::to_owned)
        .to_vec()
    }

    fn fetch(&self, name: &str) -> Output {
        let arguments = self.of("fetch", name);
        self.group.command(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// The agent of a gateway.
    fn follow(&self, name: &str) -> lab::Program {
        let runtime = format!("FRAMEWARD_RUNTIME_DIR={}", self.path("run"));
        let arguments = self.of("follow", name);
        let begin = ["env", &runtime, program().to_str().unwrap()];
        let command: Vec<_> = begin.into_iter().chain(arguments.iter().map(String::as_str)).collect();
        lab::Program::spawn(&command).unwrap()
    }

    fn fetched(&self, name: &str) -> String {
        let output = self.fetch(name);
        assert!(output.status.success(), "{}", output.stderr);
        output.stdout
    }

    /// Runs a gateway with what was fetched.
    fn run(&self, name: &str) -> lab::Program {
        let runtime = format!("FRAMEWARD_RUNTIME_DIR={}", self.path("run"));
        let file = self.path(&format!("box-{name}/current/frameward.toml"));
        let command = ["env", &runtime, program().to_str().unwrap(), "run", "--keep-user", &file];
        let mut program = self.group.namespace(name).spawn(&command).unwrap();
        program.wait_for_line("is running", DEADLINE).unwrap();
        program
    }

    /// Waits until both are secured under the CAK of this name.
    fn under(&self, ckn: &str) {
        let ckn: String = ckn.bytes().map(|octet| format!("{octet:02x}")).collect();
        let end = Instant::now() + DEADLINE;
        for name in ["a", "b"] {
            loop {
                let status = self.done(&["status", "--json", name]);
                let report = report::parse(name, &status).unwrap();
                let mka = report.links.first().and_then(|link| link.mka.as_ref());
                let is_so = |mka: &report::mka::MkaReport| {
                    mka.secured && mka.live_peers() == 1 && mka.ckn.as_deref() == Some(ckn.as_str())
                };
                if mka.is_some_and(is_so) {
                    break;
                }
                assert!(Instant::now() < end, "{name}: {mka:#?}");
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }
}

#[test]
fn two_gateways_change_over_by_way_of_etcd_and_lose_no_frame() {
    let mut fleet = Fleet::new();
    fleet.cak("line.cak", "line");
    fleet.cak("next.cak", "next");
    fleet.render("line.cak", None);
    // Nothing is there yet: told apart from what is refused.
    assert_eq!(fleet.fetch("a").status.code(), Some(3));
    let applied = fleet.apply();
    assert_eq!(applied.lines().filter(|line| line.ends_with(": new")).count(), 2, "{applied}");
    let applied = fleet.apply();
    assert_eq!(applied.lines().filter(|line| line.contains(": unchanged, version ")).count(), 2, "{applied}");
    for name in ["a", "b"] {
        assert!(fleet.fetched(name).ends_with(" installed\n"));
        assert!(fleet.fetched(name).ends_with(" unchanged\n"));
    }
    let programs = ["a", "b"].map(|name| fleet.run(name));
    fleet.under("line");
    fleet.group.ping();

    fleet.render("next.cak", Some("line.cak"));
    let applied = fleet.apply();
    assert_eq!(
        applied.lines().filter(|line| line.contains(": changed since version ")).count(),
        2,
        "{applied}"
    );
    fleet.etcd.kill();
    let topology = &fleet.group.topology;
    let sent = while_they_talk(topology, || {
        // Nothing changes while etcd is away.
        let away = fleet.fetch("a");
        assert_eq!(away.status.code(), Some(3), "{}", away.stderr);
        assert!(away.stderr.contains("is etcd running there?"), "{}", away.stderr);
        fleet.under("line");
    });
    assert!(sent.iter().all(|sent| *sent > 0));
    fleet.etcd.restart();
    while_they_talk(&fleet.group.topology, || {
        for name in ["a", "b"] {
            assert!(fleet.fetched(name).ends_with(" installed\n"));
            assert!(reloaded(&fleet.group.scratch, name).contains("\"press\": changed"));
        }
        fleet.under("next");
    });
    fleet.group.ping();
    // One gateway's record under another one's name is refused, and what is in use stays.
    let arguments = fleet.of("fetch", "a").into_iter().map(|argument| {
        argument.replace("a.key", "b.key").replace("fleet-a", "fleet-c").replace("box-a", "box-c")
    });
    let arguments: Vec<_> = arguments.collect();
    let refused = fleet.group.command(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(refused.status.code(), Some(1));
    assert!(refused.stderr.contains("is for the identity"), "{}", refused.stderr);
    assert!(!PathBuf::from(fleet.path("box-c")).exists());
    for program in programs {
        assert!(program.terminate(DEADLINE).unwrap().status.success());
    }
}

#[test]
fn agents_change_over_and_take_back_what_makes_a_link_fall() {
    let mut fleet = Fleet::new();
    fleet.cak("line.cak", "line");
    fleet.cak("next.cak", "next");
    fleet.cak("other.cak", "other");
    fleet.render("line.cak", None);
    fleet.apply();
    ["a", "b"].iter().for_each(|name| drop(fleet.fetched(name)));
    let programs = ["a", "b"].map(|name| fleet.run(name));
    fleet.under("line");
    let mut agents = ["a", "b"].map(|name| fleet.follow(name));

    // A change that both take, with etcd killed while agents watch.
    fleet.etcd.kill();
    agents.iter_mut().for_each(|agent| drop(agent.wait_for_line("the gateway runs on", DEADLINE).unwrap()));
    fleet.etcd.restart();
    fleet.render("next.cak", Some("line.cak"));
    fleet.apply();
    let topology = &fleet.group.topology;
    while_they_talk(topology, || fleet.under("next"));
    agents.iter_mut().for_each(|agent| drop(agent.wait_for_line(" stays", DEADLINE).unwrap()));
    let good = fs::read_link(fleet.path("box-a/current")).unwrap();

    // One that B does not get, since its agent is away: A finds nobody under it.
    let [agent, other] = agents;
    assert!(other.terminate(DEADLINE).unwrap().status.success());
    fleet.render("other.cak", None);
    fleet.apply();
    let mut agent = agent;
    let end = Instant::now() + DEADLINE;
    while fs::read_link(fleet.path("box-a/current")).unwrap() == good {
        assert!(Instant::now() < end, "{}", agent.stderr());
        std::thread::sleep(Duration::from_millis(10));
    }
    agent.wait_for_line("is taken back", 2 * DEADLINE).unwrap();
    fleet.under("next");
    fleet.group.ping();
    assert_eq!(fs::read_link(fleet.path("box-a/current")).unwrap(), good);
    // Nor does it come again with the next agent.
    assert!(agent.terminate(DEADLINE).unwrap().status.success());
    let refused = fleet.fetch("a");
    assert_eq!(refused.status.code(), Some(1));
    assert!(refused.stderr.contains("was taken back before"), "{}", refused.stderr);
    for program in programs {
        assert!(program.terminate(DEADLINE).unwrap().status.success());
    }
}
