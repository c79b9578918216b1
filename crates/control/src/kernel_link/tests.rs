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

/// An express frame, through the programs to the peer and back: both keys are the same, which the programs do not know.
fn pass(kernel: &mut KernelLink, sak: &Sak, peer: Sci, pn: u64) {
    let protection = Protection::Encrypt(ConfidentialityOffset::Zero);
    let key = SaKey { suite: SUITE, sak, xpn: None, protection };
    let first = Pn::new(pn).unwrap();
    kernel.install_transmit(AN, &key, first, Pn::LAST_32).unwrap();
    kernel.enable_transmit(AN).unwrap();
    let frame = [&[2; 12][..], &[0x88, 0x92], &[7; 46]].concat();
    kernel.programs.run_outward(&frame, 1).unwrap();
    // A frame of the peer is made by a SecY of its own.
    let mut secy = xdp::Link::load(0).unwrap();
    let of_peer = settings(false).secy;
    secy.configure(peer, &of_peer, &[], Unclaimed::Drop).unwrap();
    secy.install_transmit(AN, &key, first, Pn::LAST_32).unwrap();
    secy.enable_transmit(AN).unwrap();
    let protected = secy.run_outward(&frame, 1).unwrap().frame;
    kernel.install_receive(peer, AN, &key, first).unwrap();
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
