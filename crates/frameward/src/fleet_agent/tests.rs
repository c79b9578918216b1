use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fleet::directory::{Address, configuration_key, heartbeat_key};
use fleet::publish::{compare, publish};
use fleet::{
    Draft, GatewayName, Heartbeat, Kind, Member, Operator, Outcome, Part, PartKind, PartLevel, Parts, Peers,
    PublicIdentity, Said,
};
use report::{FleetState, GatewayReport};
use suite::identity::Identity;
use testkit::etcd::Etcd;
use testkit::{SilentProxy, TestDirectory};

use super::{
    Agent, BEAT, ConfigurationFolder, NEWS, NoGateway, NotReloaded, RunningGateway, Seen, Told, VERDICTS,
    unix_seconds,
};

const DEADLINE: Duration = Duration::from_secs(60);
const VALID: Duration = Duration::from_secs(9000);

/// A gateway that takes whatever is there, once it runs; until it is told to refuse.
#[derive(Clone, Debug, Default)]
struct Gateway {
    runs: Arc<AtomicBool>,
    refuses: Arc<AtomicBool>,
    /// It does not answer the next reload.
    is_silent: Arc<AtomicBool>,
    begins_with_agent: bool,
    /// Reason for which it was ended.
    ended: Arc<Mutex<Option<String>>>,
    report: Arc<Mutex<Option<GatewayReport>>>,
}

impl RunningGateway for Gateway {
    fn report(&self) -> Result<Option<GatewayReport>, NoGateway> {
        self.report.lock().unwrap().clone().map(Some).ok_or(NoGateway)
    }

    fn reload(&self) -> Result<report::control_socket::Outcome, NotReloaded> {
        let refusal =
            ["error: press.toml:3: no such interface", "press.toml: not reloaded"].map(String::from);
        if self.is_silent.swap(false, Ordering::Relaxed) {
            return Err(NotReloaded::Unknown("it did not answer".to_owned()));
        }
        match self.runs.load(Ordering::Relaxed) {
            true if self.refuses.load(Ordering::Relaxed) => {
                Ok(report::control_socket::Outcome { done: false, lines: refusal.to_vec() })
            }
            true => Ok(report::control_socket::Outcome { done: true, lines: Vec::new() }),
            false => Err(NotReloaded::NoGateway("no gateway runs".to_owned())),
        }
    }

    fn begins_with_agent(&self) -> bool {
        self.begins_with_agent
    }

    fn end(&self, why: &str) {
        *self.ended.lock().unwrap() = Some(why.to_owned());
    }
}

/// A fleet of one box.
struct World {
    place: TestDirectory,
    name: GatewayName,
    operator: Operator,
    directory: Address,
    /// Address of the directory, as the box has it.
    of_box: Address,
}

fn identity() -> Identity {
    Identity::new(&[7; 32])
}

impl World {
    fn new(test: &str) -> Self {
        let place = TestDirectory::new(test);
        let directory = Address::File(place.path().join("fleet.redb"));
        Self::of(place, directory.clone(), directory)
    }

    fn of(place: TestDirectory, directory: Address, of_box: Address) -> Self {
        let name = GatewayName::new("press").unwrap();
        Self { place, name, operator: Operator::new(Identity::new(&[1; 32])), directory, of_box }
    }

    fn address(&self) -> Address {
        self.directory.clone()
    }

    fn value(&self, key: &str) -> Option<Vec<u8>> {
        self.address().open().unwrap().get(key).unwrap().map(|entry| entry.value)
    }

    fn record(&self) -> Vec<u8> {
        self.value(&configuration_key(self.operator.fleet(), &self.name)).unwrap()
    }

    /// Puts a record in the place of the one that is there.
    fn put(&self, record: &[u8]) {
        let (mut directory, key) =
            (self.address().open().unwrap(), configuration_key(self.operator.fleet(), &self.name));
        let seen = directory.get(&key).unwrap().unwrap().revision;
        directory.put(&key, record, seen).unwrap();
    }

    fn publish(&self, cak: &str) -> u64 {
        self.publish_as(Kind::ConfigurationToKeep, cak)
    }

    fn publish_as(&self, kind: Kind, cak: &str) -> u64 {
        self.publish_with(kind, cak, "")
    }

    /// The same with these lines of `[gateway]`.
    fn publish_with(&self, kind: Kind, cak: &str, gateway: &str) -> u64 {
        let folder = self.place.path().join("rendering/press");
        std::fs::create_dir_all(&folder).unwrap();
        let link = "[[link]]\nname = \"press\"\nplain = \"a\"\nprotected = \"b\"\n[link.mka]\ncak_file = \"press.cak\"\n";
        let text = format!("[gateway]\nname = \"press\"\n{gateway}\n{link}");
        std::fs::write(folder.join("frameward.toml"), text).unwrap();
        let key = folder.join("press.cak");
        std::fs::write(&key, format!("ckn = 01\ncak = {}\n", cak.repeat(16))).unwrap();
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
        let rendered = fleet::rendering::read(&self.place.path().join("rendering")).unwrap();
        let (member, files) = (PublicIdentity::of(&identity()), &rendered[0].files);
        let draft = Draft { gateway: &self.name, member: &member, kind, files };
        let (mut directory, now) = (self.address().open().unwrap(), unix_seconds());
        let place = compare(&mut *directory, &self.operator, draft, VALID, now).unwrap();
        publish(&mut *directory, &self.operator, draft, &place, VALID, now).unwrap()
    }

    fn heartbeat(&self) -> Option<Heartbeat> {
        let value = self.value(&heartbeat_key(self.operator.fleet(), &self.name))?;
        Some(Heartbeat::parse(&value).unwrap())
    }

    /// An agent at work while `look` looks.
    fn follow(&self, gateway: Gateway, look: impl FnOnce(&Seen)) {
        let member = Member { fleet: self.operator.fleet(), name: self.name.clone(), identity: identity() };
        let folder = ConfigurationFolder::new(&self.place.path().join("box"));
        let mut agent =
            Agent::open(member, self.of_box.clone(), &self.place.path().join("state"), folder).unwrap();
        let (seen, stop) = (agent.seen.clone(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let working = scope.spawn(|| agent.run(&gateway, &stop));
            let looked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| look(&seen)));
            stop.store(true, Ordering::Relaxed);
            working.join().unwrap();
            looked.unwrap_or_else(|failed| std::panic::resume_unwind(failed));
        });
    }
}

fn until<T: std::fmt::Debug>(what: &str, look: impl Fn() -> T, is_it: impl Fn(&T) -> bool) -> T {
    let since = Instant::now();
    loop {
        let seen = look();
        if is_it(&seen) {
            return seen;
        }
        assert!(since.elapsed() < DEADLINE, "{what}: {seen:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The operator ends old CAKs by what is confirmed, so a gateway that nobody has asked has confirmed nothing.
#[test]
fn what_no_gateway_has_taken_is_not_confirmed() {
    let world = World::new("agent-no-gateway");
    let version = world.publish("01");
    let gateway = Gateway::default();
    let runs = Arc::clone(&gateway.runs);
    world.follow(gateway, |_| {
        let first = until(
            "it beats",
            || world.heartbeat(),
            |beat| beat.as_ref().is_some_and(|_| world.place.path().join("box/current").exists()),
        );
        let first = first.unwrap();
        assert_eq!((first.in_use, first.outcome), (None, Outcome::Waits), "no gateway runs");
        runs.store(true, Ordering::Relaxed);
        until(
            "it has it",
            || world.heartbeat().unwrap(),
            |beat| beat.in_use == Some(version) && beat.outcome == Outcome::Confirmed,
        );
    });
}

/// Whoever plays an old record back for a moment does not stop a rotation for good.
#[test]
fn a_refusal_ends_when_the_true_record_is_back() {
    let world = World::new("agent-replay");
    world.publish("01");
    let old = world.record();
    let gateway = Gateway::default();
    gateway.runs.store(true, Ordering::Relaxed);
    world.follow(gateway, |seen| {
        let in_use = |version, state| {
            until("state", || seen.report(), |now| now.version == Some(version) && now.state == state)
        };
        let version = world.publish("02");
        in_use(version, FleetState::Confirmed);
        let record = world.record();
        world.put(&old);
        let refused = in_use(version, FleetState::Refused);
        assert!(refused.why.is_some(), "an old one is refused: {refused:?}");
        world.put(&record);
        in_use(version, FleetState::Confirmed);
    });
}

/// The operator reads why, and does not have to go to the box.
#[test]
fn what_the_gateway_refuses_is_told_with_its_cause() {
    let world = World::new("agent-refuses");
    let before = world.publish("01");
    let gateway = Gateway::default();
    gateway.runs.store(true, Ordering::Relaxed);
    let refuses = Arc::clone(&gateway.refuses);
    world.follow(gateway, |seen| {
        until("it has the first one", || seen.report(), |now| now.state == FleetState::Confirmed);
        refuses.store(true, Ordering::Relaxed);
        let why = "the gateway refuses it: press.toml:3: no such interface";
        world.publish_as(Kind::Configuration, "02");
        let told = until("on trial", || seen.report(), |now| now.state == FleetState::TakenBack);
        assert_eq!((told.version, told.why.as_deref()), (Some(before), Some(why)));
        let beat = until("it beats", || world.heartbeat().unwrap(), |beat| !beat.why.is_empty());
        assert_eq!((beat.in_use, beat.why.as_str()), (Some(before), why));
        world.publish("03");
        let told = until("on no trial", || seen.report(), |now| now.state == FleetState::Refused);
        assert_eq!(told.why, Some(format!("not taken from its folder yet: {why}")));
    });
}

/// Beside a gateway nobody would judge the version when that starts: the operator is told of a way that needs no judge.
#[test]
fn what_a_gateway_beside_its_agent_cannot_change_is_taken_back_with_the_cure() {
    let world = World::new("agent-restart");
    let before = world.publish("01");
    let gateway = Gateway::default();
    let (runs, refuses) = (Arc::clone(&gateway.runs), Arc::clone(&gateway.refuses));
    runs.store(true, Ordering::Relaxed);
    world.follow(gateway, |seen| {
        until("it has the first one", || seen.report(), |now| now.state == FleetState::Confirmed);
        refuses.store(true, Ordering::Relaxed);
        let polling = "polling = \"busy\"";
        world.publish_with(Kind::Configuration, "02", polling);
        let back = until("it is back", || seen.report(), |now| now.state == FleetState::TakenBack);
        let cure = "polling in [gateway] cannot change while the gateway runs; stop the gateway, publish again with fleet apply --anew, and start it";
        assert_eq!((back.version, back.why.as_deref()), (Some(before), Some(cure)));
        // As it says.
        runs.store(false, Ordering::Relaxed);
        let anew = world.publish_with(Kind::Configuration, "03", polling);
        until("it waits for the start", || seen.report(), |now| now.state == FleetState::Waits);
        refuses.store(false, Ordering::Relaxed);
        runs.store(true, Ordering::Relaxed);
        until(
            "it has it",
            || seen.report(),
            |now| now.version == Some(anew) && now.state == FleetState::Confirmed,
        );
    });
}

/// It runs with what was taken back, which differs in what no reload changes: its next start has the version before.
#[test]
fn a_gateway_that_cannot_go_back_while_it_runs_is_ended() {
    let world = World::new("agent-ends");
    let before = world.publish("01");
    let gateway = Gateway { begins_with_agent: true, ..Gateway::default() };
    gateway.runs.store(true, Ordering::Relaxed);
    world.follow(gateway.clone(), |seen| {
        until("it has the first one", || seen.report(), |now| now.state == FleetState::Confirmed);
        gateway.refuses.store(true, Ordering::Relaxed);
        world.publish_with(Kind::Configuration, "02", "polling = \"busy\"");
        let waits = until("it waits", || seen.report(), |now| now.state == FleetState::Refused);
        assert!(waits.why.is_some_and(|why| why.contains("restart it there, and it is on trial")));
    });
    assert_eq!(*gateway.ended.lock().unwrap(), None, "it runs with the version before");
    // Started again, with the new one.
    gateway.is_silent.store(true, Ordering::Relaxed);
    let cannot = format!(
        "polling in [gateway] cannot change while the gateway runs; the gateway ends, to be started with version {before}"
    );
    world.follow(gateway.clone(), |_| {
        let ended = until("it ends", || gateway.ended.lock().unwrap().clone(), Option::is_some);
        assert!(ended.is_some_and(|why| why.ends_with(&format!("is taken back, and {cannot}"))));
    });
    let beat = world.heartbeat().unwrap();
    assert_eq!((beat.in_use, beat.outcome), (None, Outcome::TakenBack));
    assert_eq!(beat.why, format!("it did not answer; {cannot}"));
    // And again, with the one before.
    gateway.refuses.store(false, Ordering::Relaxed);
    world.follow(gateway, |_| {
        until(
            "it is taken back",
            || world.heartbeat().unwrap(),
            |beat| beat.in_use == Some(before) && beat.outcome == Outcome::TakenBack,
        );
    });
}

/// A file system that is not mounted, say. What is made in its place would hide behind it.
#[test]
fn a_directory_that_is_gone_is_away_and_is_not_made_anew() {
    let world = World::new("agent-gone");
    world.publish("01");
    let gateway = Gateway::default();
    gateway.runs.store(true, Ordering::Relaxed);
    let refuses = Arc::clone(&gateway.refuses);
    let (file, aside) = (world.place.path().join("fleet.redb"), world.place.path().join("aside.redb"));
    world.follow(gateway, |seen| {
        until(
            "it beats",
            || world.heartbeat(),
            |beat| beat.as_ref().is_some_and(|beat| beat.outcome == Outcome::Confirmed),
        );
        std::fs::rename(&file, &aside).unwrap();
        let away = until("it is away", || seen.report().directory_away, Option::is_some);
        assert!(away.unwrap().contains("there is no such file"));
        assert!(!file.exists());
        std::fs::rename(&aside, &file).unwrap();
        until("it is back", || seen.report().directory_away, Option::is_none);
        refuses.store(true, Ordering::Relaxed);
        world.publish_as(Kind::Configuration, "02");
        until("it goes on", || world.heartbeat().unwrap(), |beat| beat.outcome == Outcome::TakenBack);
    });
}

/// Nobody closes a connection when a firewall drops what goes over it. The box says that it hears nothing, and gets what is new soon after.
#[test]
fn an_etcd_that_falls_silent_is_away_and_news_come_soon_after_it_is_back() {
    let place = TestDirectory::new("agent-silent");
    let etcd = Etcd::start(&place.path().join("etcd"), None);
    let way = SilentProxy::new(etcd.port());
    let of_box = format!("etcd://127.0.0.1:{}", way.port()).parse().unwrap();
    let world = World::of(place, etcd.address().parse().unwrap(), of_box);
    world.publish("01");
    let gateway = Gateway::default();
    gateway.runs.store(true, Ordering::Relaxed);
    world.follow(gateway, |seen| {
        let confirmed = |version| {
            until(
                "it has it",
                || seen.report(),
                |now| now.version == Some(version) && now.state == FleetState::Confirmed,
            )
        };
        let version = world.publish("02");
        assert_eq!(confirmed(version).directory_away, None);
        way.fall_silent();
        let version = world.publish("03");
        let away = until("it is away", || seen.report().directory_away, Option::is_some).unwrap();
        assert!(away.contains("does not answer within"), "{away}");
        way.be_whole();
        assert_eq!(confirmed(version).directory_away, None);
    });
}

/// The operator sees within seconds that a link fell, and not only when the next heartbeat is due.
#[test]
fn a_heartbeat_has_the_verdicts_and_comes_when_one_changes() {
    let world = World::new("agent-verdicts");
    world.publish("01");
    let gateway = Gateway::default();
    gateway.runs.store(true, Ordering::Relaxed);
    let report = Arc::clone(&gateway.report);
    let told = |beat: &Option<Heartbeat>| -> Vec<Part> {
        beat.iter().filter_map(|beat| beat.parts.as_ref()).flat_map(|parts| parts.told().to_vec()).collect()
    };
    let part = |kind, name: &str, level, state: &str, peers| Part {
        kind,
        name: name.to_owned(),
        level,
        state: state.to_owned(),
        peers,
    };
    let peers = |secured: &[&str], absent: &[&str]| {
        Some(Peers::new(secured.iter().copied().map(Some), absent.iter().copied()))
    };
    world.follow(gateway, |_| {
        let without = until(
            "it beats",
            || world.heartbeat(),
            |beat| beat.as_ref().is_some_and(|beat| beat.in_use.is_some()),
        );
        assert_eq!(without.unwrap().parts, None, "no gateway tells");
        let mut now = report::samples::sample("press");
        now.links.truncate(1);
        let verdict = |state: &str, level| report::Verdict {
            state: state.to_owned(),
            level,
            protecting: false,
            text: "02:00:00:00:00:01 is silent".to_owned(),
        };
        now.links[0].verdict = verdict("protecting", report::Level::Good);
        let mka = now.links[0].mka.insert(report::samples::sample_mka());
        let heard = mka.members[0].clone();
        // A third one, and a fourth that does not hear this box.
        let named = |name: &str| Some(name.to_owned());
        mka.members.push(report::mka::MemberReport { name: named("press-c"), ..heard.clone() });
        mka.members.push(report::mka::MemberReport { name: named("press-d"), live: false, ..heard });
        let mut cell = report::samples::sample_cell();
        (cell.rest, cell.verdict) = ("link".to_owned(), verdict("idle", report::Level::Idle));
        let mut site = report::samples::sample_site();
        site.verdict = verdict("no channel", report::Level::Attention);
        let (link, cell_name, site_name) = (now.links[0].name.clone(), cell.name.clone(), site.name.clone());
        now.links[0].fieldbus = Some(cell);
        now.sites = vec![site];
        *report.lock().unwrap() = Some(now.clone());
        let expected = [
            part(PartKind::Site, &site_name, PartLevel::Attention, "no channel", peers(&["berlin"], &[])),
            part(PartKind::Cell, &cell_name, PartLevel::Idle, "idle", None),
            part(PartKind::Link, &link, PartLevel::Good, "protecting", peers(&["press-b", "press-c"], &[])),
        ];
        let first = until("it tells", || world.heartbeat(), |beat| told(beat) == expected).unwrap();
        // The sentence alone says who and where, and stays at home.
        let octets = world.value(&heartbeat_key(world.operator.fleet(), &world.name)).unwrap();
        assert!(!octets.windows(8).any(|eight| eight == b"02:00:00"));
        // Nothing new: nothing is said for a while. Another sentence is nothing new.
        now.links[0].verdict.text = "02:00:00:00:00:02 is silent".to_owned();
        *report.lock().unwrap() = Some(now.clone());
        std::thread::sleep(2 * super::VERDICTS);
        assert_eq!(world.heartbeat().unwrap().counter, first.counter);
        // One of three goes, and the verdict stays good. A site's peer goes.
        now.links[0].mka.as_mut().unwrap().members.remove(1);
        now.sites[0].peers[0].state = "connecting".to_owned();
        *report.lock().unwrap() = Some(now.clone());
        let expected = [
            part(PartKind::Site, &site_name, PartLevel::Attention, "no channel", peers(&[], &["berlin"])),
            part(PartKind::Cell, &cell_name, PartLevel::Idle, "idle", None),
            part(PartKind::Link, &link, PartLevel::Good, "protecting", peers(&["press-b"], &[])),
        ];
        let gone =
            until("it tells who is gone", || world.heartbeat(), |beat| told(beat) == expected).unwrap();
        assert!(gone.time - first.time < fleet::BEAT / 2, "{gone:?}");
        // The cell drops the rest, and its relations fall.
        now.links[0].verdict = verdict("no session", report::Level::Alarm);
        let cell = now.links[0].fieldbus.as_mut().unwrap();
        (cell.rest, cell.verdict) = ("drop".to_owned(), verdict("no session", report::Level::Alarm));
        *report.lock().unwrap() = Some(now);
        let expected = [
            part(PartKind::Cell, &cell_name, PartLevel::Alarm, "no session", None),
            part(PartKind::Site, &site_name, PartLevel::Attention, "no channel", peers(&[], &["berlin"])),
        ];
        let second =
            until("it tells of the fall", || world.heartbeat(), |beat| told(beat) == expected).unwrap();
        assert!(second.time - first.time < fleet::BEAT, "{second:?}");
    });
}

#[test]
fn verdicts_that_come_and_go_fill_no_directory() {
    let said = |in_use, level| {
        let (kind, name, state) = (PartKind::Link, "line".to_owned(), "one way".to_owned());
        let parts = Some(Parts::new(vec![Part { kind, name, level, state, peers: None }]));
        Said { in_use: Some(in_use), outcome: Outcome::Confirmed, why: String::new(), unused: None, parts }
    };
    let (mut told, begin) = (Told::default(), Instant::now());
    let mut tell = |at: Duration, said: Said| {
        let is_news = told.goes_now(&said, begin + at);
        if let Some(is_news) = is_news {
            told.has_said(said, begin + at, is_news);
            // The next one without news is not due in this test.
            told.said.as_mut().unwrap().1 = begin + 10 * BEAT;
        }
        is_news.is_some()
    };
    let levels = [PartLevel::Good, PartLevel::Alarm].into_iter().cycle();
    let looks = (0_u32..).map(|look| VERDICTS * look).take_while(|at| *at < BEAT);
    let sent = looks.zip(levels).filter(|(at, level)| tell(*at, said(1, *level))).count();
    assert_eq!(sent, NEWS as usize);
    // A version is told at once, and verdicts again when the interval is over.
    let last = BEAT - Duration::from_secs(1);
    assert!(tell(last, said(2, PartLevel::Attention)) && !tell(last, said(2, PartLevel::Idle)));
    assert!(tell(BEAT, said(2, PartLevel::Idle)));
}
