//! A disk that does not answer: frames and key agreement go on, and it is said.
//!
//! ```text
//!  gateway A ══ press: MKA  ══ gateway B        A's state lies on a file system of its own, which is frozen (fsfreeze):
//!            ── oven: static ──                 whoever writes there sleeps until it is thawed. A configuration that is a
//!                                               FIFO keeps its reader until somebody writes
//! ```

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use frameward::keygen::{self, KeyLength};
use lab::topology::{LEFT, PLAIN, PROTECTED};
use lab::{Capture, Captured, Direction, Namespace, PacketSocket, Program, Shape, Topology};
use perf::demo::pair::{Choice, Scratch, Station};
use report::GatewayReport;
use wire::{EtherType, MacAddr};

use super::{DEADLINE, EXPERIMENT, MARKER, program};

/// Seconds of the disk's freeze: longer than a participant of MKA lives without a word (6 s). `FRAMEWARD_STALL_SECONDS` sets more.
const USUAL_SECONDS: u64 = 12;

/// A file system in a file. It goes when dropped.
struct Disk(PathBuf);

impl Disk {
    fn new(scratch: &Scratch) -> Self {
        let (image, mount) = (scratch.path().join("disk.img"), scratch.path().join("disk"));
        fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
        fs::create_dir(&mount).unwrap();
        let [image, path] = [&image, &mount].map(|path| path.to_str().unwrap());
        command(&["mkfs.ext4", "-q", "-F", image]);
        command(&["mount", "-o", "loop", image, path]);
        Self(mount)
    }

    fn freeze(&self) -> Frozen<'_> {
        command(&["fsfreeze", "--freeze", self.0.to_str().unwrap()]);
        Frozen(self)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // The gateway that had it may be ending yet.
        let _ = Program::spawn(&["umount", "--lazy", self.0.to_str().unwrap()])
            .map(|umount| umount.wait(DEADLINE));
    }
}

/// Thaws when dropped, also when an assertion has failed: nothing can end a process that waits for the disk.
struct Frozen<'d>(&'d Disk);

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        let path = self.0.0.to_str().unwrap();
        let _ = Program::spawn(&["fsfreeze", "--unfreeze", path]).map(|thaw| thaw.wait(DEADLINE));
    }
}

fn command(words: &[&str]) {
    let output = Program::spawn(words).unwrap().wait(DEADLINE).unwrap();
    assert!(output.status.success(), "{words:?}: {}", output.stderr);
}

/// Keys of a station's second link, oven.
#[derive(Clone, Copy, PartialEq)]
enum Oven {
    Static,
    Agreed,
}

/// A and B with both links.
fn configure(scratch: &Scratch, disk: &Disk, oven: Oven) {
    keygen::cak(KeyLength::Bits128, None, &scratch.path().join("line.cak")).unwrap();
    for (name, state, [own, peer]) in
        [("a", disk.0.join("state"), [1, 2]), ("b", scratch.path().join("state-b"), [2, 1])]
    {
        keygen::static_key(KeyLength::Bits128, &scratch.path().join(format!("{own}.key"))).unwrap();
        let keys = match oven {
            Oven::Static => format!(
                "suite = \"gcm-aes-128\"\n\
                 [link.static]\nan = 0\nsci = \"02:00:00:00:00:0{own}/1\"\nkey_file = \"{own}.key\"\n\
                 [[link.static.peer]]\nan = 0\nsci = \"02:00:00:00:00:0{peer}/1\"\nkey_file = \"{peer}.key\"\n"
            ),
            Oven::Agreed => "[link.mka]\ncak_file = \"line.cak\"\n".to_owned(),
        };
        let text = format!(
            "[gateway]\nname = \"{name}\"\nstate = \"{}\"\nrealtime = \"off\"\nio = \"af_packet\"\n\
             [[link]]\nname = \"press\"\nplain = \"{PLAIN}\"\nprotected = \"{PROTECTED}\"\n\
             [link.mka]\ncak_file = \"line.cak\"\n\
             [[link]]\nname = \"oven\"\nplain = \"oven-m\"\nprotected = \"oven-n\"\n{keys}",
            state.display(),
        );
        scratch.write(&format!("{name}.toml"), &text).unwrap();
    }
}

/// The second link's interfaces: in each gateway's namespace its machine, `oven-x`, and a cable between them.
fn lay(topology: &Topology) {
    let [a, b] = [&topology.gateway_a.namespace, &topology.gateway_b.namespace];
    for namespace in [a, b] {
        namespace.ip(&["link", "add", "oven-m", "type", "veth", "peer", "name", "oven-x"]).unwrap();
        namespace.sysctl("net/ipv6/conf/oven-x/disable_ipv6", "1").unwrap();
    }
    for namespace in [a, b] {
        namespace.ip(&["link", "set", "oven-x", "up"]).unwrap();
    }
    lay_cable(topology);
}

fn lay_cable(topology: &Topology) {
    let [a, b] = [&topology.gateway_a.namespace, &topology.gateway_b.namespace];
    let cable =
        ["link", "add", "oven-n", "mtu", "1600", "type", "veth", "peer", "name", "oven-n", "mtu", "1600"];
    a.ip(&[&cable[..], &["netns", b.name()]].concat()).unwrap();
    for namespace in [a, b] {
        namespace.ip(&["link", "set", "oven-n", "up"]).unwrap();
    }
}

/// One direction of one link.
struct Way<'t> {
    from: (&'t Namespace, &'static str),
    number: u8,
    arrived: Capture,
}

impl<'t> Way<'t> {
    fn new(number: u8, from: (&'t Namespace, &'static str), to: (&Namespace, &'static str)) -> Self {
        Self { from, number, arrived: Capture::start(to.0, to.1).unwrap() }
    }

    fn frame(&self, number: u32) -> Vec<u8> {
        let text = [&MARKER[..], &[self.number], &number.to_be_bytes(), &[0; 60]].concat();
        let [to, from] = [0x10, 0x20].map(|half| MacAddr([2, 0, 0, 0, half, self.number]));
        testkit::frames::ethernet(to, from, EXPERIMENT, &text)
    }

    /// Returns the numbers of its frames that have arrived.
    fn numbers(captured: &Captured, way: u8) -> Vec<u32> {
        let at = 14 + MARKER.len();
        let ours = captured.frames.iter().filter(|frame| {
            frame.direction == Direction::In && frame.contains(MARKER) && frame.octets[at] == way
        });
        ours.map(|frame| u32::from_be_bytes(frame.octets[at + 1..at + 5].try_into().unwrap())).collect()
    }
}

/// Waits for a state of A, and returns how long it took.
fn wait(a: &Station, what: &str, is_so: impl Fn(&GatewayReport) -> bool) {
    let end = Instant::now() + DEADLINE;
    while !is_so(&a.report().unwrap()) {
        assert!(Instant::now() < end, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn silent(report: &GatewayReport) -> bool {
    report.links[1].concerns.iter().any(|concern| concern.text.contains("disk has not answered for"))
}

fn stall_seconds() -> u64 {
    std::env::var("FRAMEWARD_STALL_SECONDS").ok().map_or(USUAL_SECONDS, |text| text.parse().unwrap())
}

/// A's service manager: it is told that A is alive every second, while it turns.
struct Manager {
    path: PathBuf,
    socket: UnixDatagram,
}

impl Manager {
    fn new(scratch: &Scratch) -> Self {
        let path = scratch.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        Self { path, socket }
    }

    /// Starts A under it.
    fn start(&self, home: &Namespace, scratch: &Scratch) -> Station {
        let socket = format!("NOTIFY_SOCKET={}", self.path.display());
        Station::start_by(&["env", &socket, "WATCHDOG_USEC=3000000"], program(), home, scratch, "a").unwrap()
    }

    /// Returns the times at which A said that it is alive, from now until `stop`, and both ends.
    fn listen(&self, stop: &AtomicBool) -> Vec<Instant> {
        let mut heard = vec![Instant::now()];
        let mut word = [0; 64];
        while !stop.load(Ordering::Relaxed) {
            match self.socket.recv(&mut word) {
                Ok(octets) if word[..octets].starts_with(b"WATCHDOG=1") => heard.push(Instant::now()),
                Ok(_) => {}
                Err(error) => assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)),
            }
        }
        heard.push(Instant::now());
        heard
    }
}

fn until_secured(gateways: [&Station; 2], link: usize) {
    for gateway in gateways {
        wait(gateway, "secured", |report| report.links[link].mka.as_ref().is_some_and(|mka| mka.secured));
    }
}

fn waits_for(report: &GatewayReport, what: &str) -> bool {
    report.links[1].waiting.as_ref().is_some_and(|waiting| waiting.why.contains(what))
}

/// A was alive, and sent its MKPDUs, all the time.
fn went_on(seconds: u64, alive: &[Instant], mkpdus: Capture) {
    let longest = |times: &[Instant]| times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
    assert!(longest(alive) < Duration::from_secs(3), "not alive for {:?}", longest(alive));
    let captured = mkpdus.stop().unwrap().complete().unwrap();
    let of_a = captured.of_ethertype(EtherType::EAPOL.0).filter(|frame| frame.direction == Direction::In);
    let times: Vec<_> = of_a.map(|frame| frame.at).collect();
    assert!(times.len() as u64 >= seconds / 3, "{} MKPDUs in {seconds} s", times.len());
    // One each two seconds; after six the peer is given up.
    assert!(longest(&times) < Duration::from_secs(4), "no MKPDU for {:?}", longest(&times));
}

/// While A's disk is silent its configuration is changed, and an interface of another link loses its carrier, vanishes and comes back. All of it is
/// done when the disk answers.
#[test]
fn neither_reload_nor_interfaces_wait_for_a_disk_on_the_thread_of_the_kays() {
    let seconds = stall_seconds();
    let topology = Topology::build(&Shape::default()).unwrap();
    lay(&topology);
    let scratch = Scratch::new().unwrap();
    let disk = Disk::new(&scratch);
    configure(&scratch, &disk, Oven::Agreed);
    let manager = Manager::new(&scratch);
    let [a_home, b_home] = [&topology.gateway_a.namespace, &topology.gateway_b.namespace];
    let a = manager.start(a_home, &scratch);
    let b = Station::start(program(), b_home, &scratch, "b").unwrap();
    (0..2).for_each(|link| until_secured([&a, &b], link));
    // Its sides have found their neighbours, so that a missing carrier is a loss.
    thread::sleep(Duration::from_secs(1));
    let config = scratch.path().join("a.toml");
    let changed = fs::read_to_string(&config)
        .unwrap()
        .replace("name = \"press\"\n", "name = \"press\"\nlink_loss = \"both\"\n");
    fs::remove_file(&config).unwrap();
    command(&["mkfifo", config.to_str().unwrap()]);
    let mkpdus = Capture::start(&topology.middle, LEFT).unwrap();
    let stop = AtomicBool::new(false);
    let (alive, answer) = thread::scope(|scope| {
        let frozen = disk.freeze();
        let begin = Instant::now();
        let listener = scope.spawn(|| manager.listen(&stop));
        let reload = scope.spawn(|| super::reload::reload(&scratch, "a"));
        let watched = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            b_home.ip(&["link", "set", "oven-n", "down"]).unwrap();
            wait(&a, "the loss is not seen", |report| waits_for(report, "oven-n has no carrier"));
            thread::sleep(Duration::from_secs(3));
            a_home.ip(&["link", "del", "oven-n"]).unwrap();
            wait(&a, "it is not gone", |report| waits_for(report, "oven-n is missing"));
            lay_cable(&topology);
            fs::write(&config, &changed).unwrap();
            // A file that the disk keeps waiting for long is read again: by now it is a file as others.
            let file = config.with_extension("new");
            fs::write(&file, &changed).unwrap();
            fs::rename(&file, &config).unwrap();
            while begin.elapsed() < Duration::from_secs(seconds) {
                let report = a.report().unwrap();
                assert!(report.reload.is_none() && report.links[0].mka.as_ref().unwrap().secured);
                assert!(report.links[1].waiting.is_some(), "an interface was changed that is not recorded");
                thread::sleep(Duration::from_millis(200));
            }
        }));
        drop(frozen);
        stop.store(true, Ordering::Relaxed);
        if let Err(panic) = watched {
            // A reader of the FIFO ends.
            drop(fs::OpenOptions::new().write(true).custom_flags(nix::libc::O_NONBLOCK).open(&config));
            std::panic::resume_unwind(panic);
        }
        (listener.join().unwrap(), reload.join().unwrap())
    });
    wait(&a, "it is not reloaded", |report| report.reload.as_ref().is_some_and(|reload| reload.done));
    match answer.status.success() {
        true => assert!(answer.stdout.contains("reloaded"), "{}", answer.stdout),
        false => assert!(answer.stderr.contains("goes on when"), "{}", answer.stderr),
    }
    until_secured([&a, &b], 1);
    went_on(seconds, &alive, mkpdus);
    let said = a.stop().unwrap();
    for words in ["has not answered for", "answers again, after", "link_loss"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(!b.stop().unwrap().contains("press: the peer"), "B has lost its peer");
}

/// A configuration that never lets its reader go. That is said, the next reload reads the file that has taken its place, and a stop waits for nobody.
#[test]
fn a_file_that_never_lets_its_reader_go_holds_up_no_other_reload() {
    let topology = Topology::build(&Shape::default()).unwrap();
    let scratch = Scratch::new().unwrap();
    perf::demo::pair::configure(&scratch, &Choice { io: "af_packet", ..Choice::default() }).unwrap();
    let a = Station::start(program(), &topology.gateway_a.namespace, &scratch, "a").unwrap();
    let config = scratch.path().join("a.toml");
    let good = fs::read_to_string(&config).unwrap();
    fs::remove_file(&config).unwrap();
    command(&["mkfifo", config.to_str().unwrap()]);
    let caught = super::reload::reload(&scratch, "a");
    assert!(caught.stderr.contains("could not be read yet"), "{}", caught.stderr);
    let waits = |report: &GatewayReport| {
        report.reload_waits.as_ref().is_some_and(|why| why.contains("could not be read yet"))
    };
    assert!(waits(&a.report().unwrap()));
    let upgrade = super::upgrade::refused(&scratch, "a");
    assert!(
        upgrade.contains("a reload is under way: ") && upgrade.contains("could not be read yet"),
        "{upgrade}"
    );
    // Whoever waits for a writer of the FIFO waits for ever: nobody can open it any more.
    fs::remove_file(&config).unwrap();
    fs::write(&config, good).unwrap();
    assert!(super::reload::reloaded(&scratch, "a").contains("reloaded"));
    let report = a.report().unwrap();
    assert!(report.reload_waits.is_none() && report.reload.is_some_and(|reload| reload.done));
    let upgrade = super::upgrade::refused(&scratch, "a");
    assert!(upgrade.contains("a thread waits for a file"), "{upgrade}");
    let said = a.stop().unwrap();
    assert!(said.contains("the reload goes on when that is over"), "{said}");
}

#[test]
fn a_disk_that_stalls_costs_no_frame_and_no_mkpdu() {
    let seconds = stall_seconds();
    let topology = Topology::build(&Shape::default()).unwrap();
    lay(&topology);
    let scratch = Scratch::new().unwrap();
    let disk = Disk::new(&scratch);
    configure(&scratch, &disk, Oven::Static);
    let manager = Manager::new(&scratch);
    let [a_home, b_home] = [&topology.gateway_a.namespace, &topology.gateway_b.namespace];
    let a = manager.start(a_home, &scratch);
    let b = Station::start(program(), b_home, &scratch, "b").unwrap();
    until_secured([&a, &b], 0);
    let (machine_a, machine_b) = (&topology.machine_a, &topology.machine_b);
    let press = [(&machine_a.namespace, machine_a.ifname), (&machine_b.namespace, machine_b.ifname)];
    let oven = [(a_home, "oven-x"), (b_home, "oven-x")];
    let ways = [(press[0], press[1]), (press[1], press[0]), (oven[0], oven[1]), (oven[1], oven[0])];
    let ways: Vec<_> = (1..).zip(ways).map(|(number, (from, to))| Way::new(number, from, to)).collect();
    let mkpdus = Capture::start(&topology.middle, LEFT).unwrap();
    let stop = AtomicBool::new(false);
    let (sent, alive) = thread::scope(|scope| {
        let frozen = disk.freeze();
        let sender = scope.spawn(|| {
            let sockets: Vec<_> =
                ways.iter().map(|way| PacketSocket::open(way.from.0, way.from.1).unwrap()).collect();
            let mut sent = 0;
            while !stop.load(Ordering::Relaxed) {
                ways.iter().zip(&sockets).for_each(|(way, socket)| socket.send(&way.frame(sent)).unwrap());
                sent += 1;
                thread::sleep(Duration::from_millis(10));
            }
            sent
        });
        let listener = scope.spawn(|| manager.listen(&stop));
        let watched = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let begin = Instant::now();
            wait(&a, "it is not said", silent);
            while begin.elapsed() < Duration::from_secs(seconds) {
                let report = a.report().unwrap();
                assert!(silent(&report) && report.links[0].mka.as_ref().unwrap().secured);
                thread::sleep(Duration::from_millis(200));
            }
        }));
        drop(frozen);
        stop.store(true, Ordering::Relaxed);
        if let Err(panic) = watched {
            std::panic::resume_unwind(panic);
        }
        (sender.join().unwrap(), listener.join().unwrap())
    });
    wait(&a, "it is not said that it answers", |report| !silent(report));
    for way in ways {
        let number = way.number;
        let captured = way.arrived.stop().unwrap().complete().unwrap();
        assert_eq!(Way::numbers(&captured, number), (0..sent).collect::<Vec<_>>(), "way {number}");
    }
    went_on(seconds, &alive, mkpdus);
    let said = a.stop().unwrap();
    for words in ["has not answered for", "answers again, after", "replay floors reached the disk"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(!b.stop().unwrap().contains("lost"), "B has lost its peer");
}
