//! An etcd of one member on loopback (Debian's package `etcd-server`), with what it stores in a directory of the test.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Time that a loaded machine has to start one.
const START: Duration = Duration::from_secs(60);

/// A running etcd. It is killed when dropped.
#[derive(Debug)]
pub struct Etcd {
    child: Child,
    directory: PathBuf,
    client: u16,
    peer: u16,
    tls: Option<Tls>,
    /// Interval of notifications of watches that have nothing to tell, as its option takes it.
    notifies: Option<&'static str>,
}

/// Files in PEM for TLS: clients have to show a certificate of the same authority.
#[derive(Clone, Debug)]
pub struct Tls {
    /// The authority.
    pub ca: PathBuf,
    /// Certificate of etcd, and of its clients too.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

impl Etcd {
    /// Starts one that stores in `directory`, and waits until it answers.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn start(directory: &Path, tls: Option<Tls>) -> Self {
        Self::start_notifying(directory, tls, None)
    }

    /// The same of one that notifies watches that have nothing to tell, such as every `1s`.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn start_notifying(directory: &Path, tls: Option<Tls>, notifies: Option<&'static str>) -> Self {
        // Both at once, so that they differ.
        let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port on loopback"));
        let [client, peer] = listeners.map(|listener| listener.local_addr().expect("its address").port());
        let child = spawn(directory, client, peer, tls.as_ref(), notifies);
        let mut etcd = Self { child, directory: directory.to_owned(), client, peer, tls, notifies };
        etcd.wait();
        etcd
    }

    /// `etcd://` and where it listens.
    pub fn address(&self) -> String {
        match &self.tls {
            None => format!("etcd://127.0.0.1:{}", self.client),
            Some(Tls { ca, certificate, key }) => format!(
                "etcds://127.0.0.1:{}?ca={}&certificate={}&key={}",
                self.client,
                ca.display(),
                certificate.display(),
                key.display()
            ),
        }
    }

    /// The port that clients ask.
    pub const fn port(&self) -> u16 {
        self.client
    }

    /// Kills it (SIGKILL).
    ///
    /// # Panics
    ///
    /// If that is refused.
    pub fn kill(&mut self) {
        self.child.kill().expect("a child of this process");
        self.child.wait().expect("a child of this process");
    }

    /// Starts it again with what it stored, on the same ports.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn restart(&mut self) {
        self.child = spawn(&self.directory, self.client, self.peer, self.tls.as_ref(), self.notifies);
        self.wait();
    }

    fn wait(&mut self) {
        let since = Instant::now();
        while !self.answers() {
            let ended = self.child.try_wait().expect("a child of this process");
            let log = || std::fs::read_to_string(self.directory.join("log")).unwrap_or_default();
            assert!(ended.is_none(), "etcd ended: {ended:?}\n{}", log());
            assert!(since.elapsed() < START, "etcd does not answer\n{}", log());
            sleep(Duration::from_millis(50));
        }
    }

    /// With TLS only that it listens: whoever asks then waits for it to be ready.
    fn answers(&self) -> bool {
        match &self.tls {
            Some(_) => TcpStream::connect(("127.0.0.1", self.client)).is_ok(),
            None => self.ask("GET /health", "").is_ok_and(|answer| answer.contains(r#""health":"true""#)),
        }
    }

    /// Has it forget all changes before a revision.
    ///
    /// # Panics
    ///
    /// If it refuses.
    pub fn compact(&self, revision: u64) {
        let body = format!(r#"{{"revision":"{revision}","physical":true}}"#);
        let answer = self.ask("POST /v3/kv/compaction", &body).expect("an answer");
        assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
    }

    /// Requests for entries that it has had, as it counts them.
    ///
    /// # Panics
    ///
    /// If it does not tell.
    pub fn reads(&self) -> u64 {
        let told = self.ask("GET /metrics", "").expect("an answer");
        let is_count =
            |line: &&str| line.starts_with("grpc_server_started_total{") && line.contains("\"Range\"");
        let line = told.lines().find(is_count).expect("a count of requests");
        line.rsplit(' ').next().and_then(|count| count.parse().ok()).expect("a number")
    }

    /// Removes an entry, as whoever may write can.
    ///
    /// # Panics
    ///
    /// If it refuses.
    pub fn remove(&self, key: &str) {
        let body = format!(r#"{{"key":"{}"}}"#, STANDARD.encode(key));
        let answer = self.ask("POST /v3/kv/deleterange", &body).expect("an answer");
        assert!(answer.contains(r#""deleted":"1""#), "{answer}");
    }

    fn ask(&self, what: &str, body: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.client))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        write!(stream, "{what} HTTP/1.0\r\nContent-Length: {}\r\n\r\n{body}", body.len())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(directory: &Path, client: u16, peer: u16, tls: Option<&Tls>, notifies: Option<&str>) -> Child {
    std::fs::create_dir_all(directory).expect("a directory for etcd");
    let scheme = if tls.is_some() { "https" } else { "http" };
    let (client, peer) = (format!("{scheme}://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
    let log = std::fs::File::create(directory.join("log")).expect("a log");
    let mut command = Command::new("etcd");
    command.arg("--data-dir").arg(directory.join("data"));
    for (option, value) in [
        ("--listen-client-urls", &client),
        ("--advertise-client-urls", &client),
        ("--listen-peer-urls", &peer),
        ("--initial-advertise-peer-urls", &peer),
        ("--initial-cluster", &format!("default={peer}")),
    ] {
        command.args([option, value]);
    }
    if let Some(Tls { ca, certificate, key }) = tls {
        command.arg("--client-cert-auth").arg("--trusted-ca-file").arg(ca);
        command.arg("--cert-file").arg(certificate).arg("--key-file").arg(key);
    }
    if let Some(interval) = notifies {
        command.args(["--experimental-watch-progress-notify-interval", interval]);
    }
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("etcd; install Debian's package etcd-server: scripts/setup.sh test")
}
