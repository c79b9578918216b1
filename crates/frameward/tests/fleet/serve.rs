//! `fleet serve`: the program with a real directory, real agents and heartbeats, over HTTP and TLS.

use std::fs;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use fleet::install::ConfigurationFolder;
use fleet::{GatewayName, Member, Part, PartKind, PartLevel, Parts};
use frameward::fleet_agent::{Agent, NoGateway, NotReloaded, RunningGateway};
use report::control_socket::Outcome;
use report::{GatewayReport, Level};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::Value;
use testkit::etcd::Etcd;

use super::keys::planted;
use super::{APPLY, Fleet};

pub(super) const DEADLINE: Duration = Duration::from_secs(60);

/// A running `fleet serve`. It is ended as a service is, when dropped.
pub(super) struct Served {
    child: Child,
    pub(super) port: u16,
    pub(super) tls: Option<Arc<ClientConfig>>,
}

impl Fleet {
    pub(super) fn serve(&self, directory: &str, more: &str) -> Served {
        self.serve_as(&fs::read_to_string(self.path("operator.pub")).unwrap(), directory, more)
    }

    fn serve_as(&self, operator: &str, directory: &str, more: &str) -> Served {
        let arguments = format!(
            "fleet serve inventory --operator {operator} --identities identities --directory {directory} --listen 127.0.0.1:0 {more}"
        );
        let mut child = Command::new(env!("CARGO_BIN_EXE_frameward"))
            .args(arguments.split_whitespace())
            .current_dir(self.path(""))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().trim_end_matches('/').rsplit(':').next().unwrap().parse();
        Served { port: port.unwrap_or_else(|_| panic!("{line:?}")), child, tls: None }
    }
}

impl Served {
    /// The answer to a request: its status and its body.
    pub(super) fn ask(&self, path: &str, fields: &str) -> (u16, String) {
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\n{fields}\r\n",
            self.port
        );
        self.try_ask(&request).unwrap()
    }

    pub(super) fn try_ask(&self, request: &str) -> std::io::Result<(u16, String)> {
        let stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(DEADLINE))?;
        let answer = match &self.tls {
            None => exchanged(stream, request)?,
            Some(config) => {
                let name = ServerName::try_from("127.0.0.1").unwrap();
                let connection = ClientConnection::new(Arc::clone(config), name).unwrap();
                exchanged(StreamOwned::new(connection, stream), request)?
            }
        };
        let (head, body) = answer.split_once("\r\n\r\n").ok_or(std::io::ErrorKind::UnexpectedEof)?;
        Ok((head[9..12].parse().unwrap(), body.to_owned()))
    }

    fn json(&self, path: &str) -> Value {
        let (status, body) = self.ask(path, "");
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap()
    }

    /// The overview, once it is so.
    fn until(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let since = Instant::now();
        loop {
            let (status, body) = self.ask("/api/overview", "");
            let seen = serde_json::from_str(&body).unwrap();
            if status == 200 && is_so(&seen) {
                return seen;
            }
            assert!(since.elapsed() < DEADLINE, "{what}: {body}");
            thread::sleep(Duration::from_millis(200));
        }
    }

    /// Ends it by SIGTERM: its exit status.
    fn end(mut self) -> Option<i32> {
        self.terminate();
        self.child.wait().unwrap().code()
    }

    fn terminate(&self) {
        let id = nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        let _ = nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGTERM);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            self.terminate();
            let _ = self.child.wait();
        }
    }
}

fn exchanged(mut stream: impl Read + Write, request: &str) -> std::io::Result<String> {
    stream.write_all(request.as_bytes())?;
    stream.flush()?;
    let mut answer = Vec::new();
    // A refused client may find the connection reset.
    let read = stream.read_to_end(&mut answer);
    if answer.is_empty() { read.map(|_| String::new()) } else { Ok(String::from_utf8(answer).unwrap()) }
}

fn of<'v>(seen: &'v Value, list: &str, name: &str) -> &'v Value {
    seen[list].as_array().unwrap().iter().find(|one| one["name"] == name).unwrap_or(&Value::Null)
}

/// A gateway that takes whatever is there, and reports what the test says.
#[derive(Clone, Debug, Default)]
struct Running(Arc<Mutex<Option<GatewayReport>>>);

impl Running {
    /// Its links have these verdicts.
    fn has(&self, links: &[(&str, &str, Level)]) {
        let mut report = report::samples::sample("press");
        let first = report.links[0].clone();
        let link = |(name, state, level): &(&str, &str, Level)| {
            let mut link = first.clone();
            link.name = (*name).to_owned();
            link.fieldbus = None;
            (link.verdict.state, link.verdict.level, link.verdict.protecting) =
                ((*state).to_owned(), *level, *level == Level::Good);
            link
        };
        report.links = links.iter().map(link).collect();
        report.sites.clear();
        *self.0.lock().unwrap() = Some(report);
    }
}

impl RunningGateway for Running {
    fn report(&self) -> Result<Option<GatewayReport>, NoGateway> {
        self.0.lock().unwrap().clone().map(Some).ok_or(NoGateway)
    }

    fn reload(&self) -> Result<Outcome, NotReloaded> {
        Ok(Outcome { done: true, lines: Vec::new() })
    }
}

/// An agent of a box at work, while `look` looks.
fn with_agent(fleet: &Fleet, directory: &str, name: &str, gateway: &Running, look: impl FnOnce()) {
    let operator = config::key_file::read_identity(&fleet.path("operator.key")).unwrap().public();
    let identity = config::key_file::read_identity(&fleet.path(&format!("{name}.key"))).unwrap();
    let member = Member { fleet: operator, name: GatewayName::new(name).unwrap(), identity };
    let folder = ConfigurationFolder::new(&fleet.path(&format!("box-{name}")));
    let state = fleet.path(&format!("state-{name}"));
    let mut agent = Agent::open(member, directory.parse().unwrap(), &state, folder).unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let working = scope.spawn(|| agent.run(gateway, &stop));
        let looked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(look));
        stop.store(true, Ordering::Relaxed);
        working.join().unwrap();
        looked.unwrap_or_else(|failed| std::panic::resume_unwind(failed));
    });
}

fn a_change_is_seen(fleet: &Fleet, directory: &str) {
    let mut served = fleet.serve(directory, "");
    let seen = served.until("it has read", |seen| seen["directory"]["answered"].is_u64());
    assert_eq!((&seen["whole"], &seen["verdict"]), (&Value::Bool(true), &"unknown".into()));
    let press = of(&seen, "gateways", "press");
    assert_eq!((&press["state"], &press["in_use"]), (&"never heard".into(), &Value::Null), "{press}");
    assert!(
        press["published"].is_u64() && press["cause"].as_str().unwrap().ends_with("it was never heard"),
        "{press}"
    );
    assert_eq!(of(&seen, "connections", "line")["verdict"], "unknown");
    let first = seen["revision"].as_u64().unwrap();

    let gateway = Running::default();
    gateway.has(&[("line", "protecting", Level::Good), ("ring", "idle", Level::Idle)]);
    // A path would be taken for one beside this test's own directory.
    let absolute = if directory.contains(':') {
        directory.to_owned()
    } else {
        fleet.path(directory).display().to_string()
    };
    with_agent(fleet, &absolute, "press", &gateway, || {
        let seen = served.until("it is confirmed", |seen| {
            let press = of(seen, "gateways", "press");
            press["state"] == "confirmed" && press["parts"].as_array().unwrap().len() == 2
        });
        let press = of(&seen, "gateways", "press");
        assert_eq!((&press["verdict"], &press["cause"]), (&"idle".into(), &"link ring: idle".into()));
        assert_eq!(press["in_use"], press["published"]);
        // The other end says nothing: the line is not known to be well.
        let line = of(&seen, "connections", "line");
        assert_eq!(
            (&line["verdict"], &line["words"]),
            (&"unknown".into(), &"crane: says nothing of it".into())
        );
        let parts = Parts::new(vec![Part {
            kind: PartKind::Link,
            name: "line".into(),
            level: PartLevel::Good,
            state: "protecting".into(),
            peers: None,
        }]);
        if directory == "fleet.redb" {
            fleet.beats_with("crane", Some(parts));
            let seen = served.until("both ends", |seen| of(seen, "connections", "line")["verdict"] == "good");
            assert_eq!(of(&seen, "connections", "line")["words"], "");
        }
        // It falls, and who has seen all gets that alone.
        let before = served.json("/api/overview")["revision"].as_u64().unwrap();
        gateway.has(&[("line", "keys differ", Level::Alarm), ("ring", "idle", Level::Idle)]);
        let seen = served.until("it falls", |seen| seen["verdict"] == "alarm");
        assert_eq!(of(&seen, "connections", "line")["words"], "press: keys differ");
        let since = served.json(&format!("/api/overview?since={before}"));
        assert_eq!(
            (&since["whole"], since["gateways"].as_array().unwrap().len()),
            (&Value::Bool(false), 1),
            "{since}"
        );
        assert_eq!(of(&since, "gateways", "press")["cause"], "link line: keys differ");
        assert_eq!(of(&since, "connections", "ring"), &Value::Null);
    });
    let history = served.json("/api/history");
    let events = history["events"].as_array().unwrap();
    let of_press: Vec<_> = events.iter().filter(|event| event["gateway"] == "press").collect();
    assert_eq!(of_press.first().unwrap()["before"]["state"], "never heard", "{history}");
    assert_eq!(of_press.last().unwrap()["after"]["verdict"], "alarm", "{history}");
    let minute = history["minutes"].as_array().unwrap().last().unwrap();
    assert_eq!(minute["states"].as_array().unwrap().iter().filter_map(Value::as_u64).sum::<u64>(), 3);
    let audit = served.json("/api/audit");
    let actions: Vec<_> = audit["entries"].as_array().unwrap().iter().map(|line| &line["action"]).collect();
    assert!(!actions.is_empty() && actions.iter().all(|action| **action == "apply"), "{audit}");

    // A client with a revision of this controller gets all from the next one.
    served = {
        assert_eq!(served.end(), Some(0), "SIGTERM ends it in order");
        fleet.serve(directory, "")
    };
    let seen = served.until("it has read again", |seen| seen["directory"]["answered"].is_u64());
    assert!(seen["revision"].as_u64().unwrap() > first);
    assert_eq!(served.json(&format!("/api/overview?since={first}"))["whole"], true);
}

#[test]
fn the_controller_shows_what_agents_say_as_it_changes() {
    let fleet = planted("fleet-serve");
    a_change_is_seen(&fleet, "fleet.redb");
    let audit = fleet.serve("fleet.redb", "").json("/api/audit");
    assert_eq!((&audit["verified"], audit["signed"].is_boolean()), (&Value::Bool(true), true));
    let told = audit["told"].as_array().unwrap();
    assert!(
        told.iter().any(|line| line.as_str().unwrap().contains("a signature of this operator covers")),
        "{audit}"
    );
}

#[test]
fn the_same_with_etcd_which_may_go_and_come() {
    let fleet = planted("fleet-serve-etcd");
    let mut etcd = Etcd::start(&fleet.path("etcd"), None);
    fleet.done(&APPLY.replace("fleet.redb", &etcd.address()));
    a_change_is_seen(&fleet, &etcd.address());
    let served = fleet.serve(&etcd.address(), "");
    served.until("it has read", |seen| of(seen, "gateways", "press")["state"] == "confirmed");
    etcd.kill();
    let seen = served.until("it is away", |seen| seen["directory"]["away"].is_string());
    assert_eq!(of(&seen, "gateways", "press")["state"], "confirmed", "what was heard stays");
    etcd.restart();
    served.until("it is back", |seen| seen["directory"]["away"].is_null());
    // Somebody with access to the directory removes a heartbeat.
    let operator = fs::read_to_string(fleet.path("operator.pub")).unwrap();
    etcd.remove(&format!("/frameward/{operator}/heartbeat/press"));
    let seen = served.until("it is missed", |seen| of(seen, "gateways", "press")["verdict"] == "attention");
    let cause = of(&seen, "gateways", "press")["cause"].as_str().unwrap();
    assert!(cause.contains("no heartbeat of it any more"), "{cause}");
}

#[test]
fn inventory_identities_and_audit_logs_are_read_again_when_they_change() {
    let fleet = planted("fleet-serve-files");
    let served = fleet.serve("fleet.redb", "");
    let names = |seen: &Value| seen["gateways"].as_array().unwrap().len();
    served.until("three", |seen| names(seen) == 3);
    let plant = fs::read_to_string(fleet.path("inventory/plant.toml")).unwrap();
    let write = |text: &str| fs::write(fleet.path("inventory/plant.toml"), text).unwrap();
    write(&format!("{plant}[gateway.saw]\ntemplate = \"box\"\nsite = \"wood\"\n"));
    let seen = served.until("four", |seen| names(seen) == 4);
    let cause = of(&seen, "gateways", "saw")["cause"].as_str().unwrap();
    assert_eq!(
        (cause, &of(&seen, "plants", "wood")["gateways"]),
        ("no identity of saw is known here", &1.into())
    );
    // One with a mistake is none: the one before is shown, and why.
    write(&format!("{plant}[gateway.saw]\ntemplat = \"box\"\n"));
    let seen = served.until("a mistake", |seen| !seen["problems"].as_array().unwrap().is_empty());
    let problem = seen["problems"][0].as_str().unwrap();
    assert!(
        problem.contains("plant.toml:") && problem.ends_with("the inventory before is shown"),
        "{problem}"
    );
    assert_eq!(names(&seen), 4);
    write(&format!("{plant}[gateway.saw]\ntemplate = \"box\"\nsite = \"wood\"\n"));
    served.until("put right", |seen| seen["problems"].as_array().unwrap().is_empty());
    // It is gone for a moment, as a folder that is mounted anew.
    fs::rename(fleet.path("inventory"), fleet.path("away")).unwrap();
    served.until("it is gone", |seen| !seen["problems"].as_array().unwrap().is_empty());
    fs::rename(fleet.path("away"), fleet.path("inventory")).unwrap();
    served.until("it is back", |seen| seen["problems"].as_array().unwrap().is_empty());
    fleet.identity("saw");
    served.until("it is known", |seen| {
        let cause = of(seen, "gateways", "saw")["cause"].as_str().unwrap();
        cause == "nothing is published for its identity; it was never heard"
    });
    // A log that was changed is told.
    assert_eq!(served.json("/api/audit")["verified"], true);
    let mut files = fs::read_dir(fleet.path("identities")).unwrap().map(|entry| entry.unwrap().path());
    let log = files.find(|path| path.extension().is_some_and(|ending| ending == "audit")).unwrap();
    let text = fs::read_to_string(&log).unwrap();
    fs::write(&log, text.replacen("\"login\":\"", "\"login\":\"x", 1)).unwrap();
    let since = Instant::now();
    let audit = loop {
        let audit = served.json("/api/audit");
        if audit["verified"] == false {
            break audit;
        }
        assert!(since.elapsed() < DEADLINE, "{audit}");
        thread::sleep(Duration::from_millis(200));
    };
    assert!(audit["problems"][0].as_str().unwrap().contains("was changed"), "{audit}");
}

/// An old directory that is put back is noticed, as `fleet status` notices it.
#[test]
fn what_was_seen_before_counts() {
    let fleet = planted("fleet-serve-seen");
    fleet.beats("press");
    fs::copy(fleet.path("fleet.redb"), fleet.path("old.redb")).unwrap();
    fleet.beats("press");
    let (status, _, _) = fleet.run(&fleet.status());
    assert_eq!(status, Some(1), "the others were never heard");
    fs::rename(fleet.path("old.redb"), fleet.path("fleet.redb")).unwrap();
    let served = fleet.serve("fleet.redb", "");
    let seen = served.until("it has read", |seen| of(seen, "gateways", "press")["verdict"] == "attention");
    let cause = of(&seen, "gateways", "press")["cause"].as_str().unwrap();
    assert!(cause.contains("somebody put an old one back"), "{cause}");
}

pub(super) fn openssl(folder: &Path, arguments: &str) {
    let made = Command::new("openssl").args(arguments.split(' ')).current_dir(folder).output().unwrap();
    assert!(made.status.success(), "{made:?}");
}

/// Trust in one authority, and a certificate to show, if it is given.
pub(super) fn client(folder: &Path, client: Option<&str>) -> Arc<ClientConfig> {
    let certificates = |name: &str| {
        CertificateDer::pem_file_iter(folder.join(name)).unwrap().map(Result::unwrap).collect::<Vec<_>>()
    };
    let mut roots = RootCertStore::empty();
    certificates("ca.pem").into_iter().for_each(|one| roots.add(one).unwrap());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots);
    Arc::new(match client {
        None => builder.with_no_client_auth(),
        Some(name) => {
            let key = PrivateKeyDer::from_pem_file(folder.join(format!("{name}.key"))).unwrap();
            builder.with_client_auth_cert(certificates(&format!("{name}.pem")), key).unwrap()
        }
    })
}

#[test]
fn over_tls_a_token_or_a_certificate_is_needed() {
    let fleet = planted("fleet-serve-tls");
    let folder = fleet.path("");
    let curve = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2";
    for ca in ["ca", "other-ca"] {
        openssl(&folder, &format!("req -x509 {curve} -keyout {ca}.key -out {ca}.pem -subj /CN={ca}"));
    }
    for (ca, name) in [("ca", "cockpit"), ("ca", "anna"), ("other-ca", "mallory")] {
        openssl(
            &folder,
            &format!(
                "req -x509 {curve} -CA {ca}.pem -CAkey {ca}.key -keyout {name}.key -out {name}.pem -subj /CN={name} -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE"
            ),
        );
    }
    let tls = "--tls-cert cockpit.pem --tls-key cockpit.key";
    let token = fleet.done("token anna --to viewers");
    let token = format!("Authorization: Bearer {}\r\n", token.trim());

    let mut served = fleet.serve("fleet.redb", &format!("{tls} --tokens viewers"));
    served.tls = Some(client(&folder, None));
    let since = Instant::now();
    while served.ask("/api/overview", &token).0 == 503 && since.elapsed() < DEADLINE {
        thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(served.ask("/api/overview", &token).0, 200);
    for wrong in [
        String::new(),
        token.replace("Bearer ", "Bearer 0"),
        format!("Authorization: Bearer {}\r\n", "0".repeat(64)),
    ] {
        let (status, body) = served.ask("/api/overview", &wrong);
        assert_eq!(status, 401, "{wrong}");
        assert!(!body.contains("press") && body.contains("frameward fleet token"), "{body}");
    }
    let rebound =
        format!("GET /api/overview HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n{token}\r\n");
    assert_eq!(served.try_ask(&rebound).unwrap().0, 421);
    // Without TLS nothing is answered.
    served.tls = None;
    let plain = served.try_ask("GET /api/overview HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    assert!(plain.is_err(), "{plain:?}");
    drop(served);

    let mut served = fleet.serve("fleet.redb", &format!("{tls} --client-ca ca.pem"));
    let request = "GET /api/openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
    served.tls = Some(client(&folder, Some("anna")));
    assert_eq!(served.try_ask(request).unwrap().0, 200);
    for nobody in [None, Some("mallory")] {
        served.tls = Some(client(&folder, nobody));
        let refused = served.try_ask(request);
        assert!(refused.is_err(), "{nobody:?}: {refused:?}");
    }
}

/// A mistyped operator is no attack.
#[test]
fn with_another_operator_nobody_is_accused() {
    let fleet = planted("fleet-serve-operator");
    let other = fleet.operator("other.key");
    // Published versions are kept beside the identities.
    assert!(fleet.path("identities/press.published").exists());
    let served = fleet.serve_as(&other, "fleet.redb", "");
    let since = Instant::now();
    let body = loop {
        let (status, body) = served.ask("/api/overview", "");
        assert_eq!(status, 503, "{body}");
        if !body.contains("has just started") {
            break body;
        }
        assert!(since.elapsed() < DEADLINE);
        thread::sleep(Duration::from_millis(100));
    };
    let operator = fs::read_to_string(fleet.path("operator.pub")).unwrap();
    let said: Value = serde_json::from_str(&body).unwrap();
    let cause = format!("the directory has nothing of operator {other}, but of {operator}");
    assert_eq!(said["cause"], cause.as_str());
    assert!(said["cure"].as_str().unwrap().contains("start with the --operator whose fleet this is"));
    // Versions that he then publishes are shown.
    fleet.done(&APPLY.replace("operator.key", "other.key"));
    served.until("it is his", |seen| of(seen, "gateways", "press")["published"].is_u64());
}

#[test]
fn mistakes_are_one_line_each() {
    let fleet = planted("fleet-serve-mistakes");
    let operator = fs::read_to_string(fleet.path("operator.pub")).unwrap();
    let serve = format!("serve inventory --operator {operator} --directory fleet.redb --identities");
    let open = fleet.failed(2, &format!("{serve} identities --listen 0.0.0.0:9480"));
    assert!(open.contains("add --tls-cert FILE --tls-key FILE, or listen on 127.0.0.1"), "{open}");
    assert!(
        fleet.failed(2, &format!("{serve} none")).contains("none: is no folder; name the folder in which")
    );
    let said = fleet.failed(2, &format!("{serve} identities --tokens viewers"));
    assert!(said.contains("viewers: there is no such file; make a token: frameward fleet token"), "{said}");
    let said = fleet.failed(3, &format!("{serve} identities").replace("fleet.redb", "nosuch"));
    assert!(said.contains("nosuch: there is no such file; mount its file system"), "{said}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let said = fleet.failed(1, &format!("{serve} identities --listen {}", taken.local_addr().unwrap()));
    assert!(said.contains("stop the program that uses it"), "{said}");
    assert_eq!(fleet.run(&format!("{serve} identities --signing-key operator.key")).0, Some(2));
    fs::write(fleet.path("inventory/plant.toml"), "[gateway.press]\nsit = \"x\"\n").unwrap();
    assert!(fleet.failed(2, &format!("{serve} identities")).contains("plant.toml:2: "));
    assert_eq!(fleet.run("token Anna --to viewers").0, Some(2));
    assert!(!fleet.path("viewers").exists());
    assert!(fleet.failed(1, "token anna --to none/viewers").contains("name a file that this user can write"));
}
