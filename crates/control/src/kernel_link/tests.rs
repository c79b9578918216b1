//! Counters of a link whose programs become other SCs. Root, as all that loads programs.
#![allow(clippy::unwrap_used)]

use secy::{ClearVlan, ConfidentialityOffset, ExpressClasses, Protection, SciInclusion, ValidateFrames};
use suite::Sak;
use wire::MacAddr;

use super::*;
use dataplane::snapshot::{LinkSnapshot, ReceiveScSnapshot};

const SUITE: CipherSuite = CipherSuite::ChaCha20Poly1305;
const OWN: Sci = Sci::new(MacAddr([2, 0, 0, 0, 0, 1]), 1);
const PEER: Sci = Sci::new(MacAddr([2, 0, 0, 0, 0, 2]), 1);
const AN: An = An::ALL[0];

fn settings(express: bool) -> LinkPlaceSettings {
    let secy = Settings {
        protect_frames: true,
        sci_inclusion: SciInclusion::Always,
        validate_frames: ValidateFrames::Strict,
        replay_protect: true,
        clear_vlan: ClearVlan::Refuse,
        reassemble: express,
        mtu: 1500,
    };
    LinkPlaceSettings {
        wanted: PlaceWanted::Auto,
        suite: SUITE,
        sci: OWN,
        refused: None,
        secy,
        express: express.then_some(ExpressClasses::DEFAULT),
        bypass: vec![],
        replay_window: 0,
        saks: None,
    }
}

/// An express frame.
fn frame() -> Vec<u8> {
    [&[2; 12][..], &[0x88, 0x92], &[7; 46]].concat()
}

fn key(sak: &Sak) -> SaKey<'_> {
    SaKey { suite: SUITE, sak, xpn: None, protection: Protection::Encrypt(ConfidentialityOffset::Zero) }
}

/// Frames of the peer from this PN on, made by a SecY of its own.
fn frames_of(peer: Sci, sak: &Sak, first: Pn, frames: usize) -> Vec<Vec<u8>> {
    let mut secy = xdp::Link::load(0).unwrap();
    secy.configure(peer, &settings(false).secy, &[], Unclaimed::Drop).unwrap();
    secy.install_transmit(AN, &key(sak), first, Pn::LAST_32).unwrap();
    secy.enable_transmit(AN).unwrap();
    (0..frames).map(|_| secy.run_outward(&frame(), 1).unwrap().frame).collect()
}

/// An express frame, through the programs to the peer and back: both keys are the same, which the programs do not know.
fn pass(kernel: &mut KernelLink, sak: &Sak, peer: Sci, pn: u64) {
    let first = Pn::new(pn).unwrap();
    kernel.install_transmit(AN, &key(sak), first, Pn::LAST_32).unwrap();
    kernel.enable_transmit(AN).unwrap();
    kernel.programs.run_outward(&frame(), 1).unwrap();
    let protected = frames_of(peer, sak, first, 1).remove(0);
    kernel.install_receive(peer, AN, &key(sak), first).unwrap();
    kernel.programs.run_inward(&protected, 1).unwrap();
    kernel.retire(AN, &[peer]).unwrap();
}

/// Frames of the own transmit SC, of the express SC, and those received from the peer, as a snapshot has them.
fn counted(kernel: &KernelLink) -> [u64; 4] {
    let mut snapshot = LinkSnapshot::default();
    for sci in [PEER, PEER.express().unwrap()] {
        let (counters, sas) = Default::default();
        snapshot.receive_scs.push(ReceiveScSnapshot { sci, counters, sas });
    }
    kernel.complete(&mut snapshot).unwrap();
    let received = |at: usize| snapshot.receive_scs[at].counters.in_pkts_ok;
    let express = snapshot.express.map_or(0, |express| express.counters.out_pkts_encrypted);
    [snapshot.transmit.out_pkts_encrypted, express, received(0), received(1)]
}

#[test]
fn counters_stay_with_their_scs_when_the_programs_become_others() {
    let sak = Sak::new(SUITE, &[9; 32]).unwrap();
    let mut kernel = KernelLink::new(xdp::Link::load(0).unwrap());
    let scs = [PEER, PEER.express().unwrap()];
    kernel.configure(&settings(false), &scs[..1], false).unwrap();
    (1..=3).for_each(|pn| pass(&mut kernel, &sak, PEER, pn));
    assert_eq!(counted(&kernel), [3, 0, 3, 0]);
    kernel.configure(&settings(true), &scs[1..], true).unwrap();
    assert_eq!(counted(&kernel), [3, 0, 3, 0]);
    pass(&mut kernel, &sak, scs[1], 1);
    assert_eq!(counted(&kernel), [3, 1, 3, 1]);
    kernel.configure(&settings(false), &scs[..1], false).unwrap();
    assert_eq!(counted(&kernel), [3, 0, 3, 1], "there is no express SC now");
    (4..=5).for_each(|pn| pass(&mut kernel, &sak, PEER, pn));
    kernel.configure(&settings(true), &scs[1..], true).unwrap();
    assert_eq!(counted(&kernel), [5, 1, 5, 1]);
    // One that the link has lost begins anew.
    kernel.retire_sc(PEER).unwrap();
    assert_eq!(counted(&kernel)[2], 0);
}

/// Without replay protection no PN is marked: when it begins, all that was delivered is late, whatever the window. An attempt that fails
/// in between changes nothing about that.
#[test]
fn replay_protection_that_begins_refuses_what_was_delivered_unmarked() {
    let sak = Sak::new(SUITE, &[9; 32]).unwrap();
    for express in [false, true] {
        let peer = if express { PEER.express().unwrap() } else { PEER };
        let of = |replay_protect| {
            let mut of = LinkPlaceSettings { replay_window: 64, ..settings(express) };
            of.secy.replay_protect = replay_protect;
            of
        };
        let mut kernel = KernelLink::new(xdp::Link::load(64).unwrap());
        let frames = frames_of(peer, &sak, Pn::FIRST, 9);
        let (recorded, new) = frames.split_at(5);
        let received = |kernel: &mut KernelLink, frames: &[Vec<u8>]| {
            frames.iter().for_each(|frame| drop(kernel.programs.run_inward(frame, 1).unwrap()));
            counted(kernel)[2 + usize::from(express)]
        };
        kernel.configure(&of(false), &[peer], express).unwrap();
        kernel.install_receive(peer, AN, &key(&sak), Pn::FIRST).unwrap();
        assert_eq!(received(&mut kernel, recorded), 5);
        if express {
            let no_express = LinkPlaceSettings { sci: Sci::new(MacAddr([2; 6]), 0x8000), ..of(true) };
            kernel.configure(&no_express, &[peer], true).unwrap_err();
        }
        kernel.configure(&of(true), &[peer], express).unwrap();
        assert_eq!(received(&mut kernel, recorded), 5, "frames came twice");
        assert_eq!(received(&mut kernel, &new[1..3]), 7);
        // A window that has marks goes on with them: what is late may still come, once.
        kernel.configure(&of(true), &[peer], express).unwrap();
        assert_eq!(received(&mut kernel, &new[..3]), 8);
        // Off and on again.
        kernel.configure(&of(false), &[peer], express).unwrap();
        assert_eq!(received(&mut kernel, &new[3..]), 9);
        kernel.configure(&of(true), &[peer], express).unwrap();
        assert_eq!(received(&mut kernel, &frames), 9, "frames came twice");
    }
}
