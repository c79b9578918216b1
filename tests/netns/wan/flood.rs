//! Floods, from the internet and from inside a LAN: memory stays what it was, and known flows go on.

use std::fs;

use lab::PacketSocket;
use lab::plants::PROBE;
use testkit::frames::payload;

use super::{PROTECTED, Wan};

/// Octets of memory that a process has.
fn resident(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[test]
fn random_macsec_frames_from_inside_open_no_more_flows_than_the_quota() {
    for mode in PROTECTED {
        let mut wan = Wan::new(mode);
        let process = wan.sites.sites[0].program().id();
        let before = resident(process);
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
        let grown = resident(process).saturating_sub(before);
        assert!(grown < 32 << 20, "{grown} octets more after the flood");
        // A known flow loses nothing, though it was silent during the flood.
        wan.cross(200, 64);
        wan.stop();
    }
}
