//! Three etcds on loopback that are one directory (Debian's package `etcd-server`), and what happens to them.
//!
//! ```text
//!  clients ──▶ a way that can fall silent ──▶ member ◀── a way that can fall silent ◀── the other members
//! ```
//!
//! Messages of a member to the others go over connections that they have opened to it, so a silent way between them loses these, and requests to it. What it
//! hears of the others goes on. A member that is stopped neither hears nor says anything, and knows nothing of the time that passes.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::SilentProxy;

/// Number of members: one may be away.
pub const MEMBERS: usize = 3;

/// A running cluster. Its members are killed when it is dropped.
#[derive(Debug)]
pub struct Cluster {
    directory: PathBuf,
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    child: Option<Child>,
    client: u16,
    peer: u16,
    to_clients: SilentProxy,
    to_peers: SilentProxy,
}

impl Cluster {
    /// Starts the members, which store in folders of `directory`. They answer a moment later.
    ///
    /// # Panics
    ///
    /// If they cannot be started.
    pub fn start(directory: &Path) -> Self {
        let mut listeners = Vec::new();
        let mut port = || {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port on loopback");
            let port = listener.local_addr().expect("its address").port();
            // All stay until each has its own.
            listeners.push(listener);
            port
        };
        let ports: Vec<_> = (0..MEMBERS).map(|_| (port(), port())).collect();
        let members = ports.into_iter().map(|(client, peer)| Member {
            child: None,
            client,
            peer,
            to_clients: SilentProxy::new(client),
            to_peers: SilentProxy::new(peer),
        });
        let mut cluster = Self { directory: directory.to_owned(), members: members.collect() };
        drop(listeners);
        (0..MEMBERS).for_each(|at| cluster.begin(at));
        cluster
    }

    /// `etcd://` and where the members listen.
    pub fn address(&self) -> String {
        let all = self.members.iter().map(|member| format!("127.0.0.1:{}", member.to_clients.port()));
        format!("etcd://{}", all.collect::<Vec<_>>().join(","))
    }

    /// Starts a member that does not run, with what it stored.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn begin(&mut self, at: usize) {
        let ended = |child: &mut Child| child.try_wait().expect("a child of this process").is_some();
        if self.members[at].child.as_mut().is_some_and(|child| !ended(child)) {
            return;
        }
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let all = self.members.iter().enumerate();
        let all = all.map(|(at, member)| format!("m{at}={}", url(member.to_peers.port())));
        let all = all.collect::<Vec<_>>().join(",");
        let member = &mut self.members[at];
        let place = self.directory.join(format!("m{at}"));
        fs::create_dir_all(&place).expect("a directory for etcd");
        let mut command = Command::new("etcd");
        command.arg("--data-dir").arg(place.join("data"));
        for (option, value) in [
            ("--name", format!("m{at}")),
            ("--listen-client-urls", url(member.client)),
            ("--advertise-client-urls", url(member.to_clients.port())),
            ("--listen-peer-urls", url(member.peer)),
            ("--initial-advertise-peer-urls", url(member.to_peers.port())),
            ("--initial-cluster", all),
        ] {
            command.args([option, &value]);
        }
        let log = File::options().create(true).append(true).open(place.join("log")).expect("a log");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let spawned = command.spawn();
        member.child =
            Some(spawned.expect("etcd; install Debian's package etcd-server: scripts/setup.sh test"));
    }

    /// Kills a member (SIGKILL).
    pub fn kill(&mut self, at: usize) {
        if let Some(mut child) = self.members[at].child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Stops a member (SIGSTOP), as of a machine that is suspended.
    pub fn stop(&self, at: usize) {
        self.signal(at, "-STOP");
    }

    /// Lets a member go on that was stopped.
    pub fn go_on(&self, at: usize) {
        self.signal(at, "-CONT");
    }

    fn signal(&self, at: usize, signal: &str) {
        if let Some(child) = &self.members[at].child {
            // One that has ended meanwhile takes none.
            let _ =
                Command::new("kill").args([signal, &child.id().to_string()]).stderr(Stdio::null()).status();
        }
    }

    /// A member can write nothing more to its files, as if its disk was full: it ends with its next write.
    ///
    /// # Panics
    ///
    /// If the program `prlimit` (Debian's `util-linux`) is missing.
    pub fn fill_disk(&self, at: usize) {
        if let Some(child) = &self.members[at].child {
            let pid = child.id().to_string();
            let limited = Command::new("prlimit").args(["--fsize=1:", "--pid", &pid]).output();
            limited.expect("prlimit, of util-linux");
        }
    }

    /// True if a member does not run any more.
    pub fn has_ended(&mut self, at: usize) -> bool {
        let child = self.members[at].child.as_mut();
        child.is_none_or(|child| child.try_wait().expect("a child of this process").is_some())
    }

    /// All that a member sends to the others is lost, and so are their requests.
    pub fn cut_off_from_members(&self, at: usize) {
        self.members[at].to_peers.fall_silent();
    }

    /// No client reaches a member, and it reaches none.
    pub fn cut_off_from_clients(&self, at: usize) {
        self.members[at].to_clients.fall_silent();
    }

    /// All members run, and all ways are whole.
    pub fn heal(&mut self) {
        for at in 0..MEMBERS {
            self.go_on(at);
            self.members[at].to_peers.be_whole();
            self.members[at].to_clients.be_whole();
            self.begin(at);
        }
    }

    /// The last lines of the members' logs.
    pub fn logs(&self) -> String {
        let log = |at| fs::read_to_string(self.directory.join(format!("m{at}/log"))).unwrap_or_default();
        let last = |at| log(at).lines().rev().take(3).map(str::to_owned).collect::<Vec<_>>().join("\n");
        (0..MEMBERS).map(last).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        (0..MEMBERS).for_each(|at| self.kill(at));
    }
}
