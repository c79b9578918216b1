//! The real program on one side, the real kernel on the other: machines that talk to each other through both.
//!
//! ```text
//!  machine A        gateway A             middle             gateway B's box
//! +---------+    +-------------+    +----------------+    +-----------------------------+
//! |      a0 |----| plain  prot |----| left     right |----| prot ─ [guest] vec0 macsec0 |
//! +---------+    +-------------+    +----------------+    +-----------------------------+
//!  10.77.0.1      frameward run                                              10.77.0.2
//! ```
//!
//! Needs root, for the namespaces.

use lab::topology::{LEFT, PLAIN, PROTECTED};
use lab::traffic::{self, Ip};
use lab::{Capture, Shape, Topology};
use perf::demo::pair::{Scratch, Station};
use secy::SciInclusion;
use suite::CipherSuite;
use wire::EtherType;

use super::echo;
use super::guest::Guest;
use super::kernel::{self, ITS, ITS_SEED, ITS_SSCI, MACSEC_MTU, MTU, Macsec, OUR_SEED, OUR_SSCI, OURS, SALT};

/// Octets of a TCP transfer, each way.
const TRANSFER: u64 = 4_000_000;

/// Keys and configuration of the gateway.
fn configure(scratch: &Scratch, macsec: &Macsec, io: &str) {
    for (name, seed) in [("own.key", OUR_SEED), ("peer.key", ITS_SEED)] {
        let path = scratch.write(name, &hex::encode(vec![seed; macsec.suite.key_octets()])).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(path, mode).unwrap();
    }
    let xpn = |ssci: u32| match macsec.suite.is_xpn() {
        true => format!("ssci = {ssci}\nsalt = \"{}\"\n", hex::encode(SALT)),
        false => String::new(),
    };
    let sci = match macsec.sci {
        SciInclusion::Always => "always",
        SciInclusion::Never => "never",
        SciInclusion::EndStation => "end-station",
    };
    let text = format!(
        "[gateway]\nname = \"a\"\nstate = \"{state}\"\nio = \"{io}\"\n\
         [[link]]\nname = \"press\"\nplain = \"{PLAIN}\"\nprotected = \"{PROTECTED}\"\n\
         suite = \"{suite}\"\nencrypt = {encrypt}\nsci = \"{sci}\"\nreplay_window = {window}\n\
         [link.static]\nan = 0\nsci = \"{OURS}\"\nkey_file = \"own.key\"\n{own}\
         [[link.static.peer]]\nan = 0\nsci = \"{ITS}\"\nkey_file = \"peer.key\"\nreplay_floor = \"off\"\n{peer}",
        state = scratch.path().join("state").display(),
        suite = macsec.suite,
        encrypt = macsec.encrypt,
        window = macsec.replay_window.unwrap_or(0),
        own = xpn(OUR_SSCI),
        peer = xpn(ITS_SSCI),
    );
    scratch.write("a.toml", &text).unwrap();
}

/// The lines of a laboratory: machine A and the guest, the gateway between them not yet running.
fn lab() -> (Topology, Guest) {
    // Nothing on the guest's wire can be longer than 1500 octets.
    let shape = Shape { plain_mtu: MACSEC_MTU as u32, protected_mtu: MTU as u32, ..Shape::default() };
    let topology = Topology::build(&shape).unwrap();
    let mut guest = Guest::inside(&topology.gateway_b.namespace, PROTECTED);
    kernel::prepare(&mut guest);
    (topology, guest)
}

/// Machines ping each other, transfer over TCP both ways, and exchange datagrams of every size.
fn talk(topology: &Topology, guest: &mut Guest) {
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    let largest = u16::try_from(MACSEC_MTU - 28).unwrap();
    traffic::ping(a, b, Ip::V4, 3, largest).unwrap();
    // Without a deadline the last answer has two round trips of time, which a busy machine may exceed.
    let answer = guest.run(&format!("ping -n -i 0.05 -w 5 -c 3 -s {largest} -M do {}", a.ipv4));
    assert!((1..=3).all(|number| answer.contains(&format!("icmp_seq={number} ttl="))), "{answer}");
    let again = echo::every_size(a, b, MACSEC_MTU);
    assert!(again < MACSEC_MTU / 20, "{again} echo requests had to be sent again");
    for direction in ["", "-R"] {
        let server = a.namespace.spawn(&["iperf3", "-s", "-1", "-B", &a.ipv4.to_string(), "--forceflush"]);
        let mut server = server.unwrap();
        server.wait_for_line("Server listening", super::DEADLINE).unwrap();
        let report = guest.run(&format!("iperf3 -J -c {} -n {TRANSFER} {direction}", a.ipv4));
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        let received = report["end"]["sum_received"]["bytes"].as_u64().unwrap();
        // The client ends when all is sent: what is then still in the sockets' buffers is not in its report.
        assert!(received >= TRANSFER / 2, "{received} octets of {TRANSFER} arrived: {report:#}");
        assert!(server.wait(super::DEADLINE).unwrap().status.success());
    }
}

/// One way to set both ends.
struct Row {
    suite: CipherSuite,
    encrypt: bool,
    sci: SciInclusion,
    /// Of both ends; the kernel's default is none.
    replay_window: Option<u32>,
    io: &'static str,
}

impl Row {
    fn run(&self, topology: &Topology, guest: &mut Guest) {
        let Row { suite, encrypt, sci, replay_window, io } = *self;
        let macsec = Macsec { suite, encrypt, sci, replay_window };
        let scratch = Scratch::new().unwrap();
        configure(&scratch, &macsec, io);
        macsec.install(guest, 1, 1);
        guest.run(&format!("ip addr add {}/24 dev macsec0", topology.machine_b.ipv4));
        let station = Station::start(super::program(), &topology.gateway_a.namespace, &scratch, "a").unwrap();
        let wire = Capture::start(&topology.middle, LEFT).unwrap();
        talk(topology, guest);
        let wire = wire.stop().unwrap().complete().unwrap();
        assert!(wire.all_ethertype(EtherType::MACSEC.0), "something that is not MACsec is on the network");
        let report = station.report().unwrap();
        let secy = &report.links[0].secy;
        let counters = secy.receive[0].counters.iter();
        for (name, value) in counters.chain(secy.counters.iter()) {
            assert!(!name.starts_with("InPkts") || name == "InPktsOK" || value == 0, "{name} {value}");
        }
        station.stop().unwrap();
    }
}

fn run(rows: &[Row]) {
    let (topology, mut guest) = lab();
    rows.iter().for_each(|row| row.run(&topology, &mut guest));
}

#[test]
fn gcm_aes_128() {
    use SciInclusion::{Always, EndStation, Never};
    let row = |encrypt, sci, replay_window, io| {
        let suite = CipherSuite::GcmAes128;
        Row { suite, encrypt, sci, replay_window, io }
    };
    run(&[
        row(true, Always, None, "af_xdp"),
        row(false, Always, Some(0), "af_packet"),
        row(true, EndStation, Some(64), "af_packet"),
        row(true, Never, Some(64), "af_xdp"),
    ]);
}

fn encrypted_and_not(suite: CipherSuite) {
    let row = |encrypt, sci, replay_window, io| Row { suite, encrypt, sci, replay_window, io };
    run(&[
        row(true, SciInclusion::Always, Some(0), "af_packet"),
        row(false, SciInclusion::Never, Some(32), "af_xdp"),
    ]);
}

#[test]
fn gcm_aes_256() {
    encrypted_and_not(CipherSuite::GcmAes256);
}

#[test]
fn gcm_aes_xpn_128() {
    encrypted_and_not(CipherSuite::GcmAesXpn128);
}

#[test]
fn gcm_aes_xpn_256() {
    encrypted_and_not(CipherSuite::GcmAesXpn256);
}
