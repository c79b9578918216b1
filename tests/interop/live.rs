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

use frameward::demo::pair::{Scratch, Station};
use lab::topology::{PLAIN, PROTECTED};
use lab::traffic::{self, Ip};
use lab::{Shape, Topology};
use secy::SciInclusion;
use suite::CipherSuite;

use super::guest::Guest;
use super::kernel::{self, ITS, ITS_SEED, ITS_SSCI, MACSEC_MTU, MTU, Macsec, OUR_SEED, OUR_SSCI, OURS, SALT};

/// Keys and configuration of the gateway.
fn configure(scratch: &Scratch, macsec: &Macsec, io: &str, link: &str) {
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
         suite = \"{suite}\"\nencrypt = {encrypt}\nsci = \"{sci}\"\n{link}\n\
         [link.static]\nan = 0\nsci = \"{OURS}\"\nkey_file = \"own.key\"\n{own}\
         [[link.static.peer]]\nan = 0\nsci = \"{ITS}\"\nkey_file = \"peer.key\"\nreplay_floor = \"off\"\n{peer}",
        state = scratch.path().join("state").display(),
        suite = macsec.suite,
        encrypt = macsec.encrypt,
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

/// Pings, both ways.
fn ping(topology: &Topology, guest: &mut Guest) {
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    let largest = u16::try_from(MACSEC_MTU - 28).unwrap();
    traffic::ping(a, b, Ip::V4, 3, largest).unwrap();
    let answer = guest.run(&format!("ping -n -i 0.05 -W 2 -c 3 -s {largest} -M do {}", a.ipv4));
    assert!(answer.contains(" 0% packet loss"), "{answer}");
}

fn machines_talk(macsec: &Macsec, io: &str, link: &str) {
    let (topology, mut guest) = lab();
    talk(&topology, &mut guest, macsec, io, link);
}

fn talk(topology: &Topology, guest: &mut Guest, macsec: &Macsec, io: &str, link: &str) {
    let scratch = Scratch::new().unwrap();
    configure(&scratch, macsec, io, link);
    macsec.install(guest, 1, 1);
    guest.run(&format!("ip addr add {}/24 dev macsec0", topology.machine_b.ipv4));
    let station = Station::start(super::program(), &topology.gateway_a.namespace, &scratch, "a").unwrap();
    ping(topology, guest);
    station.stop().unwrap();
}

#[test]
fn gcm_aes_128() {
    let macsec = Macsec {
        suite: CipherSuite::GcmAes128,
        encrypt: true,
        sci: SciInclusion::Always,
        replay_window: None,
    };
    machines_talk(&macsec, "auto", "");
}
