//! Floods, from the internet and from inside a LAN: memory stays what it was, and known flows go on.

use lab::PacketSocket;
use lab::cpu::resident;
use lab::plants::PROBE;
use testkit::frames::payload;

use super::{PROTECTED, Wan};

#[test]
fn random_macsec_frames_from_inside_open_no_more_flows_than_the_quota() {
    for mode in PROTECTED {
        let mut wan = Wan::new(mode);
        let process = wan.sites.sites[0].program().id();
        let before = resident(process).unwrap();
        let attacker = PacketSocket::open(wan.probe(0).namespace, PROBE).unwrap();
        for seed in 0..40_000 {
            let mut frame = payload(80, seed);
            // Stations' addresses, an encrypted frame with SCI.
            frame[0] &= 0xfe;
            frame[6] &= 0xfe;
            frame[12..16].copy_from_slice(&[0x88, 0xe5, 0x2c, 36]);
            attacker.send(&frame).unwrap();
        }
        let refused = wan.wait_for_count(0, "OutPktsFlowRate", 1);
        let flows = wan.peer(0).flows_announced + wan.peer(0).flows_acknowledged;
        assert!(flows <= 4096, "{flows} flows, {refused} refused");
        wan.wait_until_idle(0);
        let grown = resident(process).unwrap().saturating_sub(before);
        assert!(grown < 32 << 20, "{grown} octets more after the flood");
        // A known flow loses nothing, though it was silent during the flood.
        wan.cross(200, 64);
        wan.stop();
    }
}
