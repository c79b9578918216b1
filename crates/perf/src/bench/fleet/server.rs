//! An etcd of one member on loopback, with TLS on both sides, and what it counts of itself.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{FleetError, failed};

/// Limit on the time that it takes to answer.
const START: Duration = Duration::from_secs(60);
/// The longest wait for its counts.
const PATIENCE: Duration = Duration::from_secs(30);
/// Debian's package.
const MISSING: &str = "etcd cannot be started; install Debian's package etcd-server: scripts/setup.sh test";

/// Runs a program that may have as many files open as the system allows, and ends it with standard input: also where the bench is interrupted.
const ENDING: &str =
    "ulimit -n \"$(ulimit -Hn)\"; \"$0\" \"$@\" & etcd=$!; read -r end; kill -KILL $etcd; wait $etcd";

/// A running etcd. It is killed when dropped.
#[derive(Debug)]
pub(super) struct Server {
    /// The shell that ends it.
    child: Child,
    place: PathBuf,
    client: u16,
    counts: u16,
}

/// Its counters of itself, from its start on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counts {
    /// Changes of entries that it told watches.
    pub(super) events: f64,
    /// Entries or lists that were read.
    pub(super) reads: f64,
    /// Transactions: records and heartbeats.
    pub(super) writes: f64,
    /// Seconds of CPU time.
    pub(super) cpu: f64,
    /// Octets of resident memory.
    pub(super) memory: f64,
}

impl Server {
    /// Makes certificates in `place`, starts an etcd that stores there, and waits until it answers.
    pub(super) fn start(place: &Path) -> Result<Self, FleetError> {
        fs::create_dir_all(place).map_err(|error| failed("a directory for etcd", &error))?;
        certificates(place)?;
        // All at once, so that they differ.
        let mut listeners = Vec::new();
        for _ in 0..3 {
            listeners.push(TcpListener::bind("127.0.0.1:0").map_err(|error| failed("loopback", &error))?);
        }
        let mut ports = [0; 3];
        for (port, listener) in ports.iter_mut().zip(&listeners) {
            *port = listener.local_addr().map_err(|error| failed("loopback", &error))?.port();
        }
        drop(listeners);
        let [client, peer, counts] = ports;
        let child = spawn(place, client, peer, counts)?;
        let server = Self { child, place: place.to_owned(), client, counts };
        let since = Instant::now();
        while !server.ask("/health").is_ok_and(|answer| answer.contains("\"health\":\"true\"")) {
            if since.elapsed() > START {
                let log = fs::read_to_string(place.join("log")).unwrap_or_default();
                let last = log.lines().last().unwrap_or_default().to_owned();
                return Err(FleetError::Unexpected(format!("etcd does not answer: {last}")));
            }
            sleep(Duration::from_millis(50));
        }
        Ok(server)
    }

    /// Address of the directory.
    pub(super) fn address(&self) -> String {
        let file = |name: &str| self.place.join(name).display().to_string();
        format!(
            "etcds://127.0.0.1:{}?ca={}&certificate={}&key={}",
            self.client,
            file("ca.pem"),
            file("client.pem"),
            file("client.key")
        )
    }

    /// Its counters now.
    pub(super) fn counts(&self) -> Result<Counts, FleetError> {
        let told = self.ask("/metrics").map_err(|error| failed("the counts of etcd", &error))?;
        let sum = |name: &str, label: &str| {
            let lines = told.lines().filter(|line| line.starts_with(name) && line.contains(label));
            let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
            let values: Vec<_> = values.collect();
            // A counter that is not told would count as nothing for ever.
            if values.is_empty() {
                return Err(FleetError::Unexpected(format!(
                    "etcd does not tell {name}; is it 3.4 or later?"
                )));
            }
            Ok(values.into_iter().sum())
        };
        let requests = "grpc_server_started_total{";
        Ok(Counts {
            events: sum("etcd_debugging_mvcc_events_total", "")?,
            reads: sum(requests, "\"Range\"")?,
            writes: sum(requests, "\"Txn\"")?,
            cpu: sum("process_cpu_seconds_total", "")?,
            memory: sum("process_resident_memory_bytes", "")?,
        })
    }

    fn ask(&self, path: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.counts))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

fn spawn(place: &Path, client: u16, peer: u16, counts: u16) -> Result<Child, FleetError> {
    let (client, peer) = (format!("https://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
    let log = File::create(place.join("log")).map_err(|error| failed("the log of etcd", &error))?;
    let version = Command::new("etcd").arg("--version").output();
    version.map_err(|error| FleetError::Unexpected(format!("{MISSING}: {error}")))?;
    let mut command = Command::new("sh");
    command.args(["-c", ENDING, "etcd", "--data-dir"]).arg(place.join("data"));
    for (option, value) in [
        ("--listen-client-urls", client.as_str()),
        ("--advertise-client-urls", &client),
        ("--listen-peer-urls", &peer),
        ("--initial-advertise-peer-urls", &peer),
        ("--initial-cluster", &format!("default={peer}")),
        ("--listen-metrics-urls", &format!("http://127.0.0.1:{counts}")),
        // As the book says. Agents then read nothing while nothing changes.
        ("--experimental-watch-progress-notify-interval", "10s"),
    ] {
        command.args([option, value]);
    }
    command.arg("--client-cert-auth").arg("--trusted-ca-file").arg(place.join("ca.pem"));
    command.arg("--cert-file").arg(place.join("etcd.pem")).arg("--key-file").arg(place.join("etcd.key"));
    let spawned = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log).spawn();
    spawned.map_err(|error| failed("etcd", &error))
}

/// An authority, and a certificate each for etcd and for those that ask it.
fn certificates(place: &Path) -> Result<(), FleetError> {
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2";
    openssl(place, &format!("req -x509 {key} -keyout ca.key -out ca.pem -subj /CN=ca"))?;
    for name in ["etcd", "client"] {
        openssl(
            place,
            &format!(
                "req -x509 {key} -CA ca.pem -CAkey ca.key -keyout {name}.key -out {name}.pem -subj /CN={name} -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE"
            ),
        )?;
    }
    Ok(())
}

fn openssl(place: &Path, arguments: &str) -> Result<(), FleetError> {
    let made = Command::new("openssl").args(arguments.split(' ')).current_dir(place).output();
    let made = made.map_err(|error| failed("openssl", &error))?;
    if made.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&made.stderr);
    Err(FleetError::Unexpected(format!("openssl: {}", why.lines().last().unwrap_or_default())))
}
