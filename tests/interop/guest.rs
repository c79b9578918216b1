//! A guest of a test ([`lab::guest`]), and the test's ends of its interfaces; or a namespace in its stead.
//!
//! ```text
//!   test process                 guest
//!  +-------------+  console     +--------------------------------------------------+
//!  | Guest::run  |--------------| init.sh: one command a line                      |
//!  | Wire  ------|--------------| vec0 ── macsec0 ── (ingress, both ways) ── vec1 -|--- Wire
//!  +-------------+  SEQPACKET   +--------------------------------------------------+
//! ```
//!
//! Interfaces are `vec0`, `vec1`: socket pairs whose other ends the test holds, or a packet socket on an interface of
//! the namespace in which the guest is started, or a port of a switch there. Their MTU is 1500.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lab::Namespace;
use lab::guest::{self, MACSEC, Plan};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use perf::demo::pair::Scratch;
use secy::SciInclusion;
use suite::CipherSuite;

use super::kernel::Macsec;

pub(crate) const CURE: &str = "scripts/setup.sh test installs what is missing (Debian's packages user-mode-linux, kmod, iproute2, wpasupplicant); scripts/setup.sh kernels unpacks wpasupplicant 2.11";
/// Kernel modules that join two interfaces as if by a wire.
const JOIN: [&str; 3] = ["net/sched/sch_ingress", "net/sched/cls_matchall", "net/sched/act_mirred"];
/// Time limit for a frame under way.
const FLIGHT: Duration = Duration::from_secs(10);

/// A station of the kernel's macsec: a guest, or a namespace of this machine if its kernel has what is needed. Dropping it stops it, and
/// fails the test if a guest does not end well.
#[derive(Debug)]
pub(crate) struct Guest {
    kernel: Kernel,
    /// Its port at a switch, if it has one.
    port: Option<String>,
    // A guest's control socket stands there, and in a namespace the files of wpa_supplicant.
    scratch: Scratch,
}

/// The kernel of a station.
#[derive(Debug)]
enum Kernel {
    Guest(lab::Guest),
    This(Namespace),
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
        let redirections = "exec 3<&0 4<&2 0<&1 2>&1";
        let devices = ["vec0:transport=fd,fd=3,vec=0", "vec1:transport=fd,fd=4,vec=0"];
        let guest = Guest::boot(&[], redirections, &devices, Some(vec0), Some(vec1));
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
        let tap = next_port();
        namespace.ip(&["tuntap", "add", "dev", &tap, "mode", "tap"]).unwrap();
        join(namespace, switch, &tap);
        let mut guest = Guest::boot_in(namespace, &format!("vec0:transport=tap,ifname={tap},depth=64"));
        guest.port = Some(tap);
        guest
    }

    /// A station on this machine's kernel, whose `vec0` leads to a port of its own at a bridge of a namespace. Needs root, and a kernel
    /// with macsec.
    pub(crate) fn at_switch_here(namespace: &Namespace, switch: &str) -> Guest {
        let own = Namespace::new("station").unwrap();
        let port = next_port();
        let veth = ["link", "add", &port, "type", "veth", "peer", "name", "vec0", "netns", own.name()];
        namespace.ip(&veth).unwrap();
        join(namespace, switch, &port);
        Guest { kernel: Kernel::This(own), port: Some(port), scratch: Scratch::new().unwrap() }
    }

    fn boot_in(namespace: &Namespace, device: &str) -> Guest {
        let prefix = ["ip", "netns", "exec", namespace.name()];
        Guest::boot(&prefix, Plan::CONSOLE, &[device], None, None)
    }

    fn boot(
        prefix: &[&str],
        redirections: &str,
        devices: &[&str],
        stdin: Option<OwnedFd>,
        stderr: Option<OwnedFd>,
    ) -> Guest {
        let scratch = Scratch::new().unwrap();
        let modules: Vec<&str> = MACSEC.into_iter().chain(JOIN).collect();
        let plan = Plan { prefix, redirections, modules: &modules, devices, folder: scratch.path() };
        let guest = lab::Guest::boot(&plan, stdin, stderr).unwrap_or_else(|error| panic!("{error}; {CURE}"));
        Guest { kernel: Kernel::Guest(guest), port: None, scratch }
    }

    /// Its port at the switch.
    pub(crate) fn port(&self) -> &str {
        self.port.as_deref().expect("a guest at a switch")
    }

    /// Runs a line of shell in the station, as root, and returns what it wrote; a failure fails the test. `$HOME` is a folder of its own.
    pub(crate) fn run(&mut self, line: &str) -> String {
        let output = match &mut self.kernel {
            Kernel::Guest(guest) => guest.run(line),
            Kernel::This(namespace) => {
                let home = format!("HOME={}", self.scratch.path().display());
                namespace.run(&["env", &home, "sh", "-c", line]).map(|output| output.stdout)
            }
        };
        output.unwrap_or_else(|error| panic!("{error}"))
    }
}

/// A name for a port of a switch.
fn next_port() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("guest{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Makes an interface a port of a bridge, which keeps MKPDUs to itself unless told otherwise.
fn join(namespace: &Namespace, switch: &str, port: &str) {
    namespace.ip(&["link", "set", port, "master", switch, "up"]).unwrap();
    namespace.ip(&["link", "set", port, "type", "bridge_slave", "group_fwd_mask", "8"]).unwrap();
}

impl Drop for Guest {
    fn drop(&mut self) {
        let Kernel::Guest(guest) = &mut self.kernel else { return };
        if let Err(why) = guest.end() {
            if std::thread::panicking() {
                eprintln!("{why}; its files are in {}", self.scratch.path().display());
            } else {
                panic!("{why}");
            }
        }
    }
}

#[test]
fn a_guest_leaves_no_process_behind_even_if_its_test_fails() {
    let (mut guest, _protected, _plain) = Guest::between();
    let Kernel::Guest(inner) = &guest.kernel else { panic!("a guest") };
    let name = inner.name().to_owned();
    let uml = guest::processes(&name).len();
    assert!(uml > 1, "{uml} processes: what is looked for is not what there is");
    assert!(guest.run("cat /proc/version").contains("Linux version"));
    let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        // It still runs a command when its test is gone.
        let Kernel::Guest(inner) = &mut guest.kernel else { panic!("a guest") };
        inner.begin("sleep 50").unwrap();
        panic!("a test fails beside {}", inner.name());
    }));
    assert!(failed.is_err());
    assert_eq!(guest::processes(&name), [0; 0]);
}

/// A guest is up when its cipher is: the first key of every suite is taken at once, however busy this machine is.
#[test]
fn a_guest_takes_the_first_key_of_every_suite() {
    let (mut guest, _protected, _plain) = Guest::between();
    let listed = guest.run("grep -A9 '^name *: gcm(aes)$' /proc/crypto || true");
    assert!(listed.contains("passed"), "up, and its cipher is not: {listed:?}");
    for suite in
        [CipherSuite::GcmAes128, CipherSuite::GcmAes256, CipherSuite::GcmAesXpn128, CipherSuite::GcmAesXpn256]
    {
        let macsec = Macsec { suite, encrypt: true, sci: SciInclusion::Always, replay_window: Some(0) };
        macsec.install(&mut guest, 1, 1);
    }
}

/// A kernel that does not come to its tests, as happens on a busy machine, is not waited for: other guests are started.
#[test]
fn a_guest_that_has_not_tested_its_ciphers_is_none() {
    let scratch = Scratch::new().unwrap();
    let devices = ["vec0:transport=raw,ifname=lo,depth=64", "initcall_blacklist=crypto_algapi_init"];
    let plan = Plan {
        prefix: &[],
        redirections: Plan::CONSOLE,
        modules: &MACSEC,
        devices: &devices,
        folder: scratch.path(),
    };
    let error = lab::Guest::boot(&plan, None, None).expect_err("its kernel was told not to").to_string();
    assert!(
        error.contains("of 3 guests none") && error.contains("initcall crypto_algapi_init blacklisted"),
        "{error}"
    );
}
