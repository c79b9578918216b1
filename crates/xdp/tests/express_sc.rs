//! Programs that are a link's express SCs: they take the frames that crate secy calls express, and those of the peers' express SCs. All
//! others are user space's, as they came. Root, as all that loads programs.
#![allow(clippy::unwrap_used)]

mod stations;

use secy::fragment::Sdu;
use secy::{ClearVlan, SciInclusion, Settings};
use stations::{ENCRYPT, MTU, SETTINGS, an, load, payload, pn, sci, sdu};
use suite::{CipherSuite, Sak};
use wire::{EtherType, Sci};
use xdp::link::SaKey;
use xdp::{Link, Unclaimed, Verdict, XdpError};

const SUITE: CipherSuite = CipherSuite::ChaCha20Poly1305;
/// Loopback, as both ports.
const LOOPBACK: u32 = 1;
/// SECTAG with SCI, and ICV.
const OVERHEAD: usize = 32;

fn express(station: usize) -> Sci {
    sci(station).express().unwrap()
}

/// Programs of two stations, with an SA each way; `settings` as of links that split frames.
fn ends(settings: Settings) -> [Link; 2] {
    let sak = Sak::new(SUITE, &[7; 32]).unwrap();
    let key = SaKey { suite: SUITE, sak: &sak, xpn: None, protection: ENCRYPT };
    [0, 1].map(|station| {
        let mut link = load();
        let settings = Settings { reassemble: true, ..settings };
        link.configure_express(express(station), &settings, &[EtherType::LLDP], Unclaimed::Pass).unwrap();
        link.set_ports(LOOPBACK, LOOPBACK).unwrap();
        link.install_receive_sc(express(1 - station)).unwrap();
        link.install_receive(express(1 - station), an(0), &key, pn(1), 0).unwrap();
        link.enable_receive(express(1 - station), an(0)).unwrap();
        link.install_transmit(an(0), &key, pn(1), pn(1 << 20)).unwrap();
        link.enable_transmit(an(0)).unwrap();
        link
    })
}

/// A frame with VLAN tags of these PCPs, and this EtherType behind them.
fn frame(pcps: &[u8], ethertype: EtherType, octets: usize) -> Vec<u8> {
    let mut frame = sdu(0, ethertype.0.to_be_bytes(), &payload(octets));
    for pcp in pcps.iter().rev() {
        frame.splice(12..12, [0x81, 0, pcp << 5, 5]);
    }
    frame
}

#[test]
fn frames_are_express_by_the_rules_of_user_space() {
    let [sender, receiver] = ends(SETTINGS);
    let ethertypes = [
        EtherType::PROFINET,
        EtherType::ETHERCAT,
        EtherType::GOOSE,
        EtherType::IPV4,
        EtherType::SERVICE_VLAN,
    ];
    let tags: [&[u8]; 9] = [&[], &[0], &[5], &[6], &[7], &[0, 7], &[6, 0], &[3, 0], &[0, 0, 7]];
    let (mut sealed, mut left) = (0, 0);
    for ethertype in ethertypes {
        for pcps in tags {
            let whole = frame(pcps, ethertype, 40);
            for octets in 14..=whole.len() {
                let frame = &whole[..octets];
                let ran = sender.run_outward(frame, 1).unwrap();
                if Sdu::of(frame).is_some_and(|sdu| sdu.is_express()) {
                    assert_eq!(ran.verdict, Verdict::Redirect, "{pcps:?} {ethertype:?} {octets}");
                    assert_eq!(
                        (&ran.frame[12..14], &ran.frame[20..28]),
                        (&[0x88, 0xe5][..], &express(0).octets()[..])
                    );
                    let came = receiver.run_inward(&ran.frame, 1).unwrap();
                    assert_eq!((came.verdict, &came.frame[..]), (Verdict::Redirect, frame));
                    sealed += 1;
                } else {
                    assert_eq!(
                        (ran.verdict, &ran.frame[..]),
                        (Verdict::Pass, frame),
                        "{pcps:?} {ethertype:?}"
                    );
                    left += 1;
                }
            }
        }
    }
    assert!(sealed > 500 && left > 500, "{sealed} {left}");
    let (counters, around) = sender.counters().unwrap();
    assert_eq!((counters, around), Default::default(), "what is user space's is counted there");
    assert_eq!(sender.transmit_counters().unwrap().out_pkts_encrypted, sealed);
}

#[test]
fn express_frames_that_fit_no_frame_are_user_spaces_to_split() {
    let [sender, _] = ends(Settings { sci_inclusion: SciInclusion::EndStation, ..SETTINGS });
    let longest = MTU - OVERHEAD;
    let fits = frame(&[], EtherType::PROFINET, longest);
    assert_eq!(sender.run_outward(&fits, 1).unwrap().verdict, Verdict::Redirect);
    for octets in [longest + 1, 1600, 3000] {
        let frame = frame(&[], EtherType::PROFINET, octets);
        let ran = sender.run_outward(&frame, 1).unwrap();
        assert_eq!((ran.verdict, ran.frame), (Verdict::Pass, frame));
    }
}

/// Without an SA, user space protects express frames as all others. What goes past a SecY does so here.
#[test]
fn without_an_sa_all_frames_are_user_spaces() {
    let [mut sender, receiver] = ends(SETTINGS);
    let express = frame(&[], EtherType::GOOSE, 60);
    let protected = sender.run_outward(&express, 1).unwrap().frame;
    sender.disable_transmit(an(0)).unwrap();
    let ran = sender.run_outward(&express, 1).unwrap();
    assert_eq!((ran.verdict, &ran.frame), (Verdict::Pass, &express));
    sender.retire_transmit(an(0)).unwrap();
    let ran = sender.run_outward(&express, 1).unwrap();
    assert_eq!((ran.verdict, ran.frame), (Verdict::Pass, express));
    let lldp = frame(&[], EtherType::LLDP, 60);
    assert_eq!(sender.run_outward(&lldp, 1).unwrap().verdict, Verdict::Redirect);
    let pause = frame(&[], EtherType::MAC_CONTROL, 60);
    assert_eq!(sender.run_outward(&pause, 1).unwrap().verdict, Verdict::Drop);
    // Neither has the SA that this frame names.
    let mut other = protected.clone();
    other[14] |= 3;
    let ran = receiver.run_inward(&other, 1).unwrap();
    assert_eq!((ran.verdict, ran.frame), (Verdict::Pass, other));
}

#[test]
fn frames_of_other_scs_are_user_spaces_as_they_came() {
    let [sender, receiver] = ends(Settings { clear_vlan: ClearVlan::Strip, ..SETTINGS });
    let sent = frame(&[], EtherType::PROFINET, 60);
    let protected = sender.run_outward(&sent, 1).unwrap().frame;
    let changed = |change: fn(&mut Vec<u8>)| {
        let mut frame = protected.clone();
        change(&mut frame);
        frame
    };
    let others = [
        changed(|frame| frame[26] &= 0x7f),
        // SDUs that share a frame, and parts of one, on the peer's other SC.
        changed(|frame| (frame[15], frame[26]) = (frame[15] | 0xc0, 0)),
        // No SCI in it; end station.
        changed(|frame| frame[14] &= !0x20),
        changed(|frame| frame[14] = frame[14] & !0x20 | 0x40),
        changed(|frame| frame.truncate(27)),
        changed(|frame| drop(frame.splice(12..12, [0x81, 0, 0, 7, 0x81, 0, 0, 7, 0x81, 0, 0, 7]))),
        frame(&[], EtherType::EAPOL, 60),
        frame(&[7], EtherType::PROFINET, 60),
        frame(&[], EtherType::PROFINET, 60),
    ];
    for other in others {
        let ran = receiver.run_inward(&other, 1).unwrap();
        assert_eq!((ran.verdict, &ran.frame), (Verdict::Pass, &other), "{:02x?}", &other[12..20]);
    }
    // Parts of SDUs on this SC: user space has no SA of it, and discards them.
    let parts = changed(|frame| frame[15] |= 0x40);
    let ran = receiver.run_inward(&parts, 1).unwrap();
    assert_eq!((ran.verdict, ran.frame), (Verdict::Pass, parts));
    assert_eq!(receiver.counters().unwrap().0, Default::default());
    // Rules are those of any SC: tags in front are taken off, and nothing comes twice.
    let tagged = changed(|frame| drop(frame.splice(12..12, [0x81, 0, 0, 7, 0x88, 0xa8, 0, 7])));
    let ran = receiver.run_inward(&tagged, 1).unwrap();
    assert_eq!((ran.verdict, ran.frame), (Verdict::Redirect, sent));
    assert_eq!(receiver.run_inward(&protected, 1).unwrap().verdict, Verdict::Drop);
}

#[test]
fn what_express_scs_cannot_have_is_refused() {
    for (settings, suite, why) in [
        (SETTINGS, CipherSuite::GcmAes256, "the suite is gcm-aes-256"),
        (Settings { validate_frames: secy::ValidateFrames::Check, ..SETTINGS }, SUITE, "validate_frames"),
    ] {
        let refused = Link::suits_express(&settings, suite).map_err(|error: XdpError| error.to_string());
        assert!(refused.as_ref().is_err_and(|said| said.contains(why)), "{refused:?}");
    }
    let splits = Settings { reassemble: true, ..SETTINGS };
    assert!(Link::suits(&splits, SUITE).is_err() && Link::suits_express(&splits, SUITE).is_ok());
}
