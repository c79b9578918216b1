//! A Linux kernel of its own, with the macsec driver: User-Mode Linux as a child of the test, without root.
//!
//! ```text
//!   test process                 guest (linux.uml, Debian's package; its root is the host's file tree, read only)
//!  +-------------+  console     +--------------------------------------------------+
//!  | Guest::run  |--------------| init.sh: one command a line                      |
//!  | Wire  ------|--------------| vec0 ── macsec0 ── (ingress, both ways) ── vec1 -|--- Wire
//!  +-------------+  SEQPACKET   +--------------------------------------------------+
//! ```
//!
//! Interfaces are `vec0`, `vec1`: socket pairs whose other ends the test holds, or a packet socket on an interface of
//! the namespace in which the guest is started, or a port of a switch there. Their MTU is 1500 and cannot be raised.
//!
//! Every wait is bounded. A guest ends by itself when its console is closed (its test is gone, however) and after
//! [`LIFE`]; it is asked to by SIGTERM and never killed: its helper processes would stay. When it is stopped, none of its
//! processes may be left.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use frameward::demo::pair::Scratch;
use lab::Namespace;
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use nix::unistd::Pid;

/// The program, and where its package has the modules.
const PROGRAM: &str = "linux.uml";
const MODULES: &str = "/usr/lib/uml/modules";
const CURE: &str = "scripts/setup.sh test installs what is missing (Debian's packages user-mode-linux, kmod, iproute2, wpasupplicant)";
/// How long it may take to boot, on a busy machine.
const BOOT: Duration = Duration::from_secs(60);
/// How long one command may take, and a guest's end.
const COMMAND: Duration = Duration::from_secs(60);
const END: Duration = Duration::from_secs(15);
/// After so many seconds a guest that nobody stopped is asked to end.
const LIFE: &str = "600";
/// How long a frame may be under way.
const FLIGHT: Duration = Duration::from_secs(10);

/// A running guest. Dropping it stops it.
#[derive(Debug)]
pub(crate) struct Guest {
    child: Child,
    console: UnixStream,
    /// What it has said and nobody has read.
    said: Vec<u8>,
    /// Tells its processes from all others.
    name: String,
    /// Its port at a switch, if it has one.
    port: Option<String>,
    // Its control socket and process identifier stand there.
    scratch: Scratch,
}

/// The test's end of one of the guest's interfaces.
#[derive(Debug)]
pub(crate) struct Wire(UnixDatagram);

impl Wire {
    /// Sends a frame into the guest.
    pub(crate) fn send(&self, frame: &[u8]) {
        assert_eq!(self.0.send(frame).unwrap(), frame.len());
    }

    /// The next frame that the guest sends.
    pub(crate) fn receive(&self) -> Vec<u8> {
        let mut octets = [0; 2048];
        match self.0.recv(&mut octets) {
            Ok(0) => panic!("the guest has ended"),
            Ok(length) => octets[..length].to_vec(),
            Err(error) => panic!("no frame from the guest within {FLIGHT:?}: {error}"),
        }
    }

    /// A frame that the guest has sent already.
    pub(crate) fn waiting(&self) -> Option<Vec<u8>> {
        let mut octets = [0; 2048];
        self.0.set_nonblocking(true).unwrap();
        let received = self.0.recv(&mut octets);
        self.0.set_nonblocking(false).unwrap();
        received.ok().map(|length| octets[..length].to_vec())
    }

    /// The pair (test's end, guest's end).
    fn pair() -> (Wire, OwnedFd) {
        let (own, other) =
            socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC).unwrap();
        // A datagram socket of the standard library speaks the same calls.
        let own = UnixDatagram::from(own);
        own.set_read_timeout(Some(FLIGHT)).unwrap();
        own.set_write_timeout(Some(FLIGHT)).unwrap();
        (Wire(own), other)
    }
}

impl Guest {
    /// A guest whose `vec0` and `vec1` the test holds.
    pub(crate) fn between() -> (Guest, Wire, Wire) {
        let ((protected, vec0), (plain, vec1)) = (Wire::pair(), Wire::pair());
        // Descriptors are passed as standard streams and put in their places by the shell: so no other child of this
        // process inherits them.
        let places = "exec 3<&0 4<&2 0<&1 2>&1";
        let devices = ["vec0:transport=fd,fd=3,vec=0", "vec1:transport=fd,fd=4,vec=0"];
        let guest = Guest::boot(&[], places, &devices, vec0.into(), vec1.into());
        (guest, protected, plain)
    }

    /// A guest whose `vec0` is a packet socket on an interface of a namespace. Needs root.
    ///
    /// It hears what it sends itself, too, for its driver has a socket for each way. MACsec drops that, MKA does not:
    /// wpa_supplicant takes it for a peer that uses its own identifier, and chooses another, without end.
    pub(crate) fn inside(namespace: &Namespace, ifname: &str) -> Guest {
        Guest::boot_in(namespace, &format!("vec0:transport=raw,ifname={ifname},depth=64"))
    }

    /// A guest whose `vec0` is a port of its own at a bridge of a namespace; the port goes with the namespace. Needs root.
    pub(crate) fn at_switch(namespace: &Namespace, switch: &str) -> Guest {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let tap = format!("guest{}", NEXT.fetch_add(1, Ordering::Relaxed));
        namespace.ip(&["tuntap", "add", "dev", &tap, "mode", "tap"]).unwrap();
        namespace.ip(&["link", "set", &tap, "master", switch, "up"]).unwrap();
        // A bridge keeps MKPDUs to itself unless told otherwise.
        namespace.ip(&["link", "set", &tap, "type", "bridge_slave", "group_fwd_mask", "8"]).unwrap();
        let mut guest = Guest::boot_in(namespace, &format!("vec0:transport=tap,ifname={tap},depth=64"));
        guest.port = Some(tap);
        guest
    }

    fn boot_in(namespace: &Namespace, device: &str) -> Guest {
        let prefix = ["ip", "netns", "exec", namespace.name()];
        Guest::boot(&prefix, "exec 0<&1 2>&1", &[device], Stdio::null(), Stdio::null())
    }

    fn boot(prefix: &[&str], places: &str, devices: &[&str], stdin: Stdio, stderr: Stdio) -> Guest {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("frameward-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let program =
            program().unwrap_or_else(|| panic!("there is no User-Mode Linux here ({PROGRAM}); {CURE}"));
        let scratch = Scratch::new().unwrap();
        let init = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/interop/init.sh");
        let init = init.canonicalize().unwrap();
        let (console, other) = UnixStream::pair().unwrap();
        console.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let shell = format!("{places}; exec timeout \"$@\"");
        let start = ["sh", "-c", &shell, "sh", LIFE];
        let words: Vec<_> = prefix.iter().copied().chain(start).collect();
        let child = Command::new(words[0])
            .args(&words[1..])
            .arg(program)
            .args(["mem=96M", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro"])
            .args(["con=null", "con0=fd:0,fd:1", "ssl=null", "quiet", "loglevel=3"])
            .arg(format!("init={}", init.display()))
            .args([format!("MODULES={MODULES}"), format!("LIMIT={}", COMMAND.as_secs())])
            .args([format!("umid={name}"), format!("uml_dir={}", scratch.path().display())])
            .args(devices)
            .stdin(stdin)
            .stdout(OwnedFd::from(other))
            .stderr(stderr)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {}: {error}; {CURE}", words[0]));
        let mut guest = Guest { child, console, said: Vec::new(), name, port: None, scratch };
        let boot = guest.until("@@READY\n", BOOT);
        assert!(!boot.contains("@@LACKS"), "the guest's kernel lacks something; {CURE}:\n{boot}");
        guest
    }

    /// Its port at the switch.
    pub(crate) fn port(&self) -> &str {
        self.port.as_deref().expect("a guest at a switch")
    }

    /// Runs a line of shell in the guest, as root, and returns what it wrote; a failure fails the test.
    pub(crate) fn run(&mut self, line: &str) -> String {
        assert!(!line.contains('\n'), "one line at a time: {line}");
        self.console.write_all(format!("{line}\n").as_bytes()).unwrap();
        let mut output = self.until("\n@@RC ", COMMAND + END);
        let status = self.until("\n", COMMAND);
        assert_eq!(status, "0", "in the guest, `{line}` failed:\n{output}");
        output.truncate(output.trim_end().len());
        output
    }

    /// All that it says up to `mark`, without it.
    fn until(&mut self, mark: &str, limit: Duration) -> String {
        let end = Instant::now() + limit;
        loop {
            if let Some(at) = self.said.windows(mark.len()).position(|window| window == mark.as_bytes()) {
                let text = String::from_utf8_lossy(&self.said[..at]).into_owned();
                self.said.drain(..at + mark.len());
                return text;
            }
            let mut piece = [0; 4096];
            match self.console.read(&mut piece) {
                Ok(0) => panic!("the guest has ended; {CURE}; it said:\n{}", self.text()),
                Ok(octets) => self.said.extend_from_slice(&piece[..octets]),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(error) => panic!("the guest's console: {error}"),
            }
            assert!(
                Instant::now() < end,
                "the guest did not say {mark:?} within {limit:?}:\n{}",
                self.text()
            );
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.said).into_owned()
    }

    /// Ends it, and says what is wrong if it does not end well: it powers itself off when its console closes.
    fn end(&mut self) -> Result<(), String> {
        // Fails if it has ended already, which is as well.
        let _ = self.console.shutdown(std::net::Shutdown::Both);
        let mut begin = Instant::now();
        let mut asked = false;
        while !matches!(self.child.try_wait(), Ok(Some(_))) {
            if begin.elapsed() > END && asked {
                return Err(format!(
                    "guest {} does not end; end process {} by hand",
                    self.name,
                    self.child.id()
                ));
            }
            if begin.elapsed() > END {
                let pid =
                    i32::try_from(self.child.id()).expect("invariant: Linux process identifiers fit in i32");
                // It may have ended just now.
                let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
                (asked, begin) = (true, Instant::now());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        while processes(&self.name) > 0 {
            if begin.elapsed() > 2 * END {
                return Err(format!("guest {} has left {} processes", self.name, processes(&self.name)));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if let Err(why) = self.end() {
            if std::thread::panicking() {
                eprintln!("{why}; its files are in {}", self.scratch.path().display());
            } else {
                panic!("{why}");
            }
        }
    }
}

/// Where the program is.
fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(PROGRAM)).find(|program| program.is_file())
}

/// How many processes belong to the guest of that name.
fn processes(name: &str) -> usize {
    let mark = format!("umid={name}");
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    // A process may end while we look.
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| line.split(|&octet| octet == 0).any(|word| word == mark.as_bytes())).count()
}

#[test]
fn a_guest_leaves_no_process_behind_even_if_its_test_fails() {
    let (mut guest, _protected, _plain) = Guest::between();
    let name = guest.name.clone();
    let uml = processes(&name);
    assert!(uml > 1, "{uml} processes: what is looked for is not what there is");
    assert!(guest.run("cat /proc/version").contains("Linux version"));
    let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        // It still runs a command when its test is gone.
        guest.console.write_all(b"sleep 50\n").unwrap();
        let guest = guest;
        panic!("a test fails beside {}", guest.name);
    }));
    assert!(failed.is_err());
    assert_eq!(processes(&name), 0);
}
