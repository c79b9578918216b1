//! A Linux kernel of its own, with drivers that this machine's kernel may not have: User-Mode Linux as a child of this
//! process, without root.
//!
//! ```text
//!   this process                 guest (linux.uml, Debian's package; its root is the host's file tree, read only)
//!  +-------------+  console     +--------------------------------------------------+
//!  | Guest::run  |--------------| init.sh: one command a line                      |
//!  +-------------+              | vec0, vec1: interfaces, as [`Plan::devices`] says |
//!                               +--------------------------------------------------+
//! ```
//!
//! Every wait is bounded. A guest ends by itself when its console is closed (its owner is gone, however) and after
//! [`LIFE`]; it is asked to by SIGTERM and never killed: its helper processes would stay. When it is stopped, none of its
//! processes may be left. A guest in a namespace that is removed goes with it, helpers included.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::Error;

/// The program, and where its package has the modules.
pub const PROGRAM: &str = "linux.uml";
const MODULES: &str = "/usr/lib/uml/modules";
/// The first process inside.
const INIT: &str = include_str!("guest/init.sh");
/// Limit on the time of a boot, on a busy machine.
const BOOT: Duration = Duration::from_secs(60);
/// Limit on the time of one command, and of a guest's end.
const COMMAND: Duration = Duration::from_secs(60);
const END: Duration = Duration::from_secs(15);
/// After so many seconds a guest that nobody stopped is asked to end.
const LIFE: &str = "600";

/// MACsec and its ciphers, in the order in which they need each other.
pub const MACSEC: [&str; 5] = ["crypto/ctr", "crypto/gf128mul", "crypto/ghash-generic", "crypto/gcm", DRIVER];
const DRIVER: &str = "drivers/net/macsec";
/// The cipher of all of its suites, whatever the length of the key, as `/proc/crypto` names it.
const AEAD: &str = "gcm(aes)";
/// The block cipher under it, as the kernel itself has it.
const BLOCK_CIPHER: &str = "aes";
/// Limit on the guests that are started until one has a tested block cipher.
const STARTS: usize = 3;

/// Settings of a guest's start.
#[derive(Debug)]
pub struct Plan<'p> {
    /// Beginning of the command, such as `ip netns exec NAME`.
    pub prefix: &'p [&'p str],
    /// Shell that puts the descriptors in their places before the guest is started: its console comes as standard
    /// output, and has to be 0, 1 and 2.
    pub redirections: &'p str,
    /// Modules below the kernel's folder, without their ending, in the order in which they need each other.
    pub modules: &'p [&'p str],
    /// Devices, as the kernel's command line spells them: `vec0:transport=tap,ifname=tap0,depth=64`. With MACsec there is a `vec0`.
    pub devices: &'p [&'p str],
    /// A folder that outlives the guest: its control socket stands there.
    pub folder: &'p Path,
}

impl Plan<'_> {
    /// A console and nothing else.
    pub const CONSOLE: &'static str = "exec 0<&1 2>&1";
}

/// A running guest. Dropping it stops it.
#[derive(Debug)]
pub struct Guest {
    child: Child,
    console: UnixStream,
    /// Output that nobody has read yet.
    said: Vec<u8>,
    /// Tells its processes from all others.
    name: String,
}

impl Guest {
    /// Boots a guest and waits until it listens, and with [`MACSEC`] until it takes keys; `stdin` and `stderr` are for
    /// [`Plan::places`], `/dev/null` where there is none.
    ///
    /// The kernel tests the ciphers that are built into it while it boots. On a busy machine a guest comes up now and then whose
    /// tests never ran; it answers every key with ENOENT, for good. Such a guest is ended and another one started.
    ///
    /// # Errors
    /// If there is no User-Mode Linux, it lacks a module, or it does not boot.
    pub fn boot(plan: &Plan<'_>, stdin: Option<OwnedFd>, stderr: Option<OwnedFd>) -> Result<Self, Error> {
        let again = |descriptor: &Option<OwnedFd>| {
            let copy = descriptor.as_ref().map(OwnedFd::try_clone).transpose();
            copy.map(|copy| copy.map_or_else(Stdio::null, Stdio::from))
                .map_err(Error::system("copy a descriptor"))
        };
        let mut said = String::new();
        for _ in 0..STARTS {
            let mut guest = Self::start(plan, again(&stdin)?, again(&stderr)?)?;
            if !plan.modules.contains(&DRIVER) {
                return Ok(guest);
            }
            if is_tested(&guest.run("cat /proc/crypto || true")?, BLOCK_CIPHER) {
                guest.await_cipher()?;
                return Ok(guest);
            }
            said = guest.run("dmesg")?;
            eprintln!("guest {} has not tested its own {BLOCK_CIPHER}; its kernel said:\n{said}", guest.name);
            guest.end()?;
        }
        Err(Error::Unexpected(format!("of {STARTS} guests none has tested its own {BLOCK_CIPHER}: {said}")))
    }

    /// Starts a guest and waits until it listens.
    fn start(plan: &Plan<'_>, stdin: Stdio, stderr: Stdio) -> Result<Self, Error> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("frameward-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let program = program()
            .ok_or_else(|| Error::Unexpected(format!("there is no User-Mode Linux here ({PROGRAM})")))?;
        let init = plan.folder.join("init.sh");
        write_program(&init).map_err(Error::system(format!("write {}", init.display())))?;
        let (console, other) = UnixStream::pair().map_err(Error::system("make a console"))?;
        console
            .set_read_timeout(Some(Duration::from_millis(100)))
            .map_err(Error::system("set up a console"))?;
        let shell = format!("{}; exec timeout \"$@\"", plan.redirections);
        let start = ["sh", "-c", &shell, "sh", LIFE];
        let words: Vec<_> = plan.prefix.iter().copied().chain(start).collect();
        let child = Command::new(words[0])
            .args(&words[1..])
            .arg(program)
            .args(["mem=96M", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro"])
            .args(["con=null", "con0=fd:0,fd:1", "ssl=null", "quiet", "loglevel=3"])
            .arg(format!("init={}", init.display()))
            .args([format!("MODULES={MODULES}"), format!("LOAD={}", plan.modules.join(","))])
            .arg(format!("LIMIT={}", COMMAND.as_secs()))
            .args([format!("umid={name}"), format!("uml_dir={}", plan.folder.display())])
            .args(plan.devices)
            .stdin(stdin)
            .stdout(OwnedFd::from(other))
            .stderr(stderr)
            .spawn()
            .map_err(|source| Error::Start { command: words[0].into(), source })?;
        let mut guest = Self { child, console, said: Vec::new(), name };
        let boot = guest.until("@@READY\n", BOOT)?;
        if boot.contains("@@LACKS") {
            return Err(Error::Unexpected(format!("the guest's kernel lacks something: {}", boot.trim())));
        }
        Ok(guest)
    }

    /// Waits until the kernel lists the AEAD of all its suites as tested: it is put together and tested in the background when
    /// a first key asks for it. Nothing but that list tells that it is there; once there, it stays.
    fn await_cipher(&mut self) -> Result<(), Error> {
        let begin = Instant::now();
        self.run("ip link add link vec0 first0 type macsec")?;
        let key = "00".repeat(16);
        let ask = format!("ip macsec add first0 tx sa 0 pn 1 off key 00 {key} || true");
        loop {
            let asked = self.run(&ask)?;
            let listed = self.run("cat /proc/crypto")?;
            if is_tested(&listed, AEAD) {
                break;
            }
            if begin.elapsed() > BOOT {
                return Err(Error::Unexpected(format!(
                    "the guest's kernel has no tested {AEAD} after {BOOT:?}; a first key was answered with {asked:?}; it lists: {listed}"
                )));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        self.run("ip link delete first0").map(drop)
    }

    /// The name in the command line of all of its processes, as `umid=NAME`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its processes now: the kernel's, and one or more for those inside.
    pub fn processes(&self) -> Vec<u32> {
        processes(&self.name)
    }

    /// Begins a line of shell in the guest, as root, and does not wait for its end.
    ///
    /// # Errors
    /// If it has ended.
    pub fn begin(&mut self, line: &str) -> Result<(), Error> {
        if line.contains('\n') {
            return Err(Error::Unexpected(format!("one line at a time: {line}")));
        }
        self.console
            .write_all(format!("{line}\n").as_bytes())
            .map_err(Error::system("write to a guest's console"))
    }

    /// Runs a line of shell in the guest, as root, and returns what it wrote.
    ///
    /// # Errors
    /// If it fails or does not end.
    pub fn run(&mut self, line: &str) -> Result<String, Error> {
        self.begin(line)?;
        let mut output = self.until("\n@@RC ", COMMAND + END)?;
        let status = self.until("\n", COMMAND)?;
        if status != "0" {
            return Err(Error::Unexpected(format!("in the guest, `{line}` failed: {}", output.trim())));
        }
        output.truncate(output.trim_end().len());
        Ok(output)
    }

    /// All that it says up to `mark`, without it.
    fn until(&mut self, mark: &str, limit: Duration) -> Result<String, Error> {
        let end = Instant::now() + limit;
        loop {
            if let Some(at) = self.said.windows(mark.len()).position(|window| window == mark.as_bytes()) {
                let text = String::from_utf8_lossy(&self.said[..at]).into_owned();
                self.said.drain(..at + mark.len());
                return Ok(text);
            }
            let mut piece = [0; 4096];
            match self.console.read(&mut piece) {
                Ok(0) => {
                    return Err(Error::Unexpected(format!("the guest has ended; it said: {}", self.text())));
                }
                Ok(octets) => self.said.extend_from_slice(&piece[..octets]),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(source) => return Err(Error::System { what: "the guest's console".into(), source }),
            }
            if Instant::now() >= end {
                let what = format!("the guest to say {mark:?} behind {:?}", self.text());
                return Err(Error::Deadline { what, limit });
            }
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.said).trim().to_owned()
    }

    /// Ends it, and says what is wrong if it does not end well: it powers itself off when its console closes.
    ///
    /// # Errors
    /// If it does not end, or leaves processes behind.
    pub fn end(&mut self) -> Result<(), Error> {
        // Fails if it has ended already, which is as well.
        let _ = self.console.shutdown(Shutdown::Both);
        let mut begin = Instant::now();
        let mut asked = false;
        while !matches!(self.child.try_wait(), Ok(Some(_))) {
            if begin.elapsed() > END && asked {
                let why =
                    format!("guest {} does not end; end process {} by hand", self.name, self.child.id());
                return Err(Error::Unexpected(why));
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
        while !self.processes().is_empty() {
            if begin.elapsed() > 2 * END {
                let count = self.processes().len();
                return Err(Error::Unexpected(format!("guest {} has left {count} processes", self.name)));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if let Err(why) = self.end() {
            eprintln!("{why}");
        }
    }
}

/// Path of the program.
pub fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(PROGRAM)).find(|program| program.is_file())
}

/// The processes that belong to the guest of that name.
pub fn processes(name: &str) -> Vec<u32> {
    let mark = format!("umid={name}");
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    // A process may end while we look.
    let ours = |pid: &u32| {
        std::fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| line.split(|&octet| octet == 0).any(|word| word == mark.as_bytes()))
    };
    pids.filter(ours).collect()
}

/// Whether `/proc/crypto` lists a cipher whose self-test has passed. Its entries are apart by an empty line.
fn is_tested(listed: &str, cipher: &str) -> bool {
    let field = |entry: &str, wanted: &str, is: &str| {
        let mut fields = entry.lines().filter_map(|line| line.split_once(':'));
        fields.any(|(name, value)| (name.trim(), value.trim()) == (wanted, is))
    };
    listed.split("\n\n").any(|entry| field(entry, "name", cipher) && field(entry, "selftest", "passed"))
}

fn write_program(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::write(path, INIT)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cipher_is_there_when_its_own_test_has_passed() {
        let entry = |name: &str, selftest: &str| {
            format!("name         : {name}\ndriver       : d\nselftest     : {selftest}\ntype : aead\n\n")
        };
        let others = entry("ctr(aes)", "passed");
        for (listed, is) in [
            (others.clone(), false),
            (others.clone() + &entry(AEAD, "unknown"), false),
            (entry(AEAD, "unknown") + &others, false),
            (others.clone() + &entry("rfc4106(gcm(aes))", "passed"), false),
            (others + &entry(AEAD, "passed"), true),
        ] {
            assert_eq!(is_tested(&listed, AEAD), is, "{listed}");
        }
    }
}
