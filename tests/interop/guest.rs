//! A guest of a test ([`lab::guest`]), and the test's ends of its interfaces.
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

const CURE: &str = "scripts/setup.sh test installs what is missing (Debian's packages user-mode-linux, kmod, iproute2, wpasupplicant)";
/// Kernel modules that join two interfaces as if by a wire.
const JOIN: [&str; 3] = ["net/sched/sch_ingress", "net/sched/cls_matchall", "net/sched/act_mirred"];
/// Time limit for a frame under way.
const FLIGHT: Duration = Duration::from_secs(10);

/// A running guest. Dropping it stops it, and fails the test if it does not end well.
#[derive(Debug)]
pub(crate) struct Guest {
    guest: lab::Guest,
    /// Its port at a switch, if it has one.
    port: Option<String>,
    // Its control socket stands there.
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
        Guest { guest, port: None, scratch }
    }

    /// Its port at the switch.
    pub(crate) fn port(&self) -> &str {
        self.port.as_deref().expect("a guest at a switch")
    }

    /// Runs a line of shell in the guest, as root, and returns what it wrote; a failure fails the test.
    pub(crate) fn run(&mut self, line: &str) -> String {
        self.guest.run(line).unwrap_or_else(|error| panic!("{error}"))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if let Err(why) = self.guest.end() {
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
    let name = guest.guest.name().to_owned();
    let uml = guest::processes(&name).len();
    assert!(uml > 1, "{uml} processes: what is looked for is not what there is");
    assert!(guest.run("cat /proc/version").contains("Linux version"));
    let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        // It still runs a command when its test is gone.
        guest.guest.begin("sleep 50").unwrap();
        let guest = guest;
        panic!("a test fails beside {}", guest.guest.name());
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
