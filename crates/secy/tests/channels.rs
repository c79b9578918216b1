//! Several receive SCs, four ANs in each, and the ways in which a SecTAG names its SC; what cannot be installed.

mod ends;

use ends::{
    A, B, HERE, MAC_A, MAC_B, Outcome, SETTINGS, an, protect, protected, sdu, sender, verify, verify_all,
};
use secy::{
    ConfidentialityOffset, InstallError, Protection, ReceiveDiscard, ReceiveSa, SciInclusion, SecY, Settings,
    TransmitSa,
};
use suite::CipherSuite;
use testkit::frames::{ethernet, payload};
use wire::{EtherType, MacAddr, Pn, Sci};

const SUITE: CipherSuite = CipherSuite::GcmAes128;
const NO_SA: Outcome<ReceiveDiscard> = Outcome::Discarded(ReceiveDiscard::NoSaError);

/// A SecY with all four ANs of each of `scis` in use.
fn receiver_of(scis: &[Sci]) -> SecY {
    let mut secy = SecY::new(HERE, SETTINGS);
    for &sci in scis {
        secy.install_receive_sc(sci).expect("a free SCI");
        for number in 0..4 {
            ends::start_receiving(&mut secy, sci, ends::receive_sa(SUITE, number, 1, 0));
        }
    }
    secy
}

fn station(number: u8) -> Sci {
    Sci::new(MacAddr([2, 0, 0, 0, 1, number]), 1)
}

/// 32 SCs with four ANs each, in one burst, each SA with the window and the counters of its own.
#[test]
fn all_scs_and_ans_at_once() {
    let scis: Vec<Sci> = (0..32).map(station).collect();
    let mut rx = receiver_of(&scis);
    let mut frames = Vec::new();
    let mut sent = Vec::new();
    for (index, &sci) in scis.iter().enumerate() {
        for number in 0..4 {
            let mut tx = SecY::new(sci, SETTINGS);
            ends::start_sending(&mut tx, ends::transmit_sa(SUITE, number, 1, Pn::LAST_64));
            let sdu = sdu(60, (4 * index) as u64 + u64::from(number));
            frames.push(protect(&mut tx, &sdu).passed());
            sent.push(Outcome::Passed(sdu));
        }
    }
    // An order in which neighbours have different SAs.
    let order: Vec<usize> = (0..128).map(|place| place * 37 % 128).collect();
    let shuffled: Vec<_> = order.iter().map(|&index| frames[index].clone()).collect();
    let outcomes = verify_all(&mut rx, &shuffled);
    assert!(order.iter().zip(&outcomes).all(|(&index, outcome)| *outcome == sent[index]));
    for sc in rx.receive_scs() {
        assert_eq!(sc.counters().in_pkts_ok, 4, "{}", sc.sci());
        assert!(sc.sas().all(|sa| sa.counters().in_pkts_ok == 1 && sa.window().highest() == 1));
    }
    assert_eq!(rx.install_receive_sc(station(32)), Err(InstallError::TooManyScs));
    assert!(rx.retire_receive_sc(station(0)).is_some_and(|sc| sc.counters().in_pkts_ok == 4));
    assert_eq!(rx.install_receive_sc(station(32)), Ok(()), "room again");
    assert_eq!(verify_all(&mut rx, &frames[..4]), vec![NO_SA; 4], "a retired SC is unknown");
    let late = Outcome::Discarded(ReceiveDiscard::Late);
    assert_eq!(verify(&mut rx, &frames[127]), late, "the SC that moved into its place is known");
}

/// The SC that a SecTAG names, with one receive SC and with two.
#[test]
fn which_sc_a_frame_is_of() {
    let broadcast = Sci::new(MAC_A, Sci::PORT_SINGLE_COPY_BROADCAST);
    let other_port = Sci::new(MAC_A, 2);
    let [express, of_b] = [A, B].map(|sci| sci.express().expect("a low port"));
    // (SCI of the transmitter, how it names it, receive SCs, delivered)
    let rows: [(Sci, SciInclusion, &[Sci], bool); 14] = [
        (A, SciInclusion::Always, &[A], true),
        (A, SciInclusion::Always, &[B], false),
        (A, SciInclusion::Always, &[B, A], true),
        (A, SciInclusion::Never, &[A], true),
        (A, SciInclusion::Never, &[A, B], false),
        (A, SciInclusion::Never, &[], false),
        // An express SC is its station's, too: the LAN is point to point still.
        (A, SciInclusion::Never, &[A, express], true),
        (A, SciInclusion::Never, &[express, A], true),
        (A, SciInclusion::Never, &[A, of_b], false),
        (A, SciInclusion::Never, &[A, express, B], false),
        (A, SciInclusion::EndStation, &[A], true),
        (A, SciInclusion::EndStation, &[B, A], true),
        (A, SciInclusion::EndStation, &[broadcast, B], false),
        (other_port, SciInclusion::EndStation, &[other_port], false),
    ];
    for (sci, sci_inclusion, scis, delivered) in rows {
        let mut tx = sender(sci, Settings { sci_inclusion, ..SETTINGS }, SUITE, 1);
        let frame = protect(&mut tx, &sdu(60, 0)).passed();
        let octets = if sci_inclusion == SciInclusion::Always { 16 } else { 8 };
        assert_eq!(frame.len(), 12 + octets + 60 + 16);
        let expected = if delivered { Outcome::Passed(sdu(60, 0)) } else { NO_SA };
        assert_eq!(verify(&mut receiver_of(scis), &frame), expected, "{sci_inclusion:?} {sci} at {scis:?}");
    }
}

/// ES names the source address: a frame that was bridged from another one is of no SC, for the nonce has the
/// transmitter's SCI.
#[test]
fn end_station_frames_from_another_address_are_unknown() {
    let mut tx = sender(A, Settings { sci_inclusion: SciInclusion::EndStation, ..SETTINGS }, SUITE, 1);
    let bridged = ethernet(MAC_A, MAC_B, EtherType::IPV4, &payload(60, 0));
    let frame = protect(&mut tx, &bridged).passed();
    assert_eq!(verify(&mut receiver_of(&[A]), &frame), NO_SA);
    // If that address has an SC too, the nonce differs.
    assert_eq!(verify(&mut receiver_of(&[A, B]), &frame), Outcome::Discarded(ReceiveDiscard::NotValid));
}

/// SCB names port identifier 0 of the source address, with ES or without.
#[test]
fn single_copy_broadcast() {
    use suite::{Nonce, SealJob};
    let sci = Sci::new(MAC_A, Sci::PORT_SINGLE_COPY_BROADCAST);
    for tci in [0x10, 0x50] {
        let sdu = sdu(60, 0);
        let mut frame = [&sdu[..12], &[0x88, 0xe5, tci, 0, 0, 0, 0, 1], &sdu[12..], &[0; 16]].concat();
        let end = frame.len() - 16;
        let (aad, icv) = frame.split_at_mut(end);
        let icv = icv.try_into().expect("16 octets");
        let job = SealJob { nonce: Nonce::new(sci, Pn::FIRST), aad, text: &mut [], icv };
        ends::key(SUITE, 0).seal_each(std::iter::once(job));
        assert_eq!(verify(&mut receiver_of(&[A, sci]), &frame), Outcome::Passed(sdu), "TCI {tci:#04x}");
        assert_eq!(verify(&mut receiver_of(&[A]), &frame), NO_SA, "TCI {tci:#04x}");
    }
}

#[test]
fn what_cannot_be_installed() {
    let mut secy = receiver_of(&[A]);
    assert_eq!(secy.install_receive_sc(A), Err(InstallError::SciInUse));
    assert_eq!(secy.install_receive_sc(HERE), Err(InstallError::SciInUse), "nobody receives from itself");

    let refused = secy.install_receive(A, ends::receive_sa(SUITE, 2, 1, 0));
    assert!(refused.is_err_and(|(error, sa)| error == InstallError::AnInUse && sa.an() == an(2)));
    let refused = secy.install_receive(B, ends::receive_sa(SUITE, 2, 1, 0));
    assert!(refused.is_err_and(|(error, sa)| error == InstallError::UnknownSc && sa.an() == an(2)));
    assert_eq!(secy.enable_receive(B, an(0)), Err(InstallError::UnknownSc));
    secy.retire_receive(A, an(2)).expect("installed");
    assert!(secy.retire_receive(A, an(2)).is_none(), "once");
    assert_eq!(secy.enable_receive(A, an(2)), Err(InstallError::UnknownAn));
    assert!(secy.retire_receive(B, an(2)).is_none() && secy.retire_receive_sc(B).is_none());

    secy.install_transmit(ends::transmit_sa(SUITE, 0, 1, Pn::LAST_64)).expect("a free AN");
    let refused = secy.install_transmit(ends::transmit_sa(SUITE, 0, 1, Pn::LAST_64));
    assert!(refused.is_err_and(|(error, sa)| error == InstallError::AnInUse && sa.an() == an(0)));
    assert_eq!(secy.enable_transmit(an(1)), Err(InstallError::UnknownAn));
    assert_eq!(secy.reserve_through(an(1), Pn::LAST_32), Err(InstallError::UnknownAn));
    assert!(secy.retire_transmit(an(1)).is_none());
    assert_eq!(secy.encoding_sa(), None, "a failed enabling enables nothing");
}

#[test]
fn xpn_and_its_binding_go_together() {
    for suite in CipherSuite::ALL {
        let binding = |with: bool| with.then(|| ends::xpn(CipherSuite::GcmAesXpn128).expect("XPN"));
        for with in [false, true] {
            let transmit = {
                let key = ends::key(suite, 0);
                TransmitSa::new(an(0), key, binding(with), ends::ENCRYPT, Pn::FIRST, Pn::LAST_64)
            };
            let receive =
                ReceiveSa::new(an(0), ends::key(suite, 0), binding(with), ends::ENCRYPT, Pn::FIRST, 0);
            let expected = (suite.is_xpn() != with).then_some(InstallError::XpnBinding);
            assert_eq!(transmit.err(), expected, "{suite}");
            assert_eq!(receive.err(), expected, "{suite}");
        }
    }
}

#[test]
fn xpn_excludes_an_offset() {
    use ConfidentialityOffset::{Fifty, Thirty, Zero};
    for suite in CipherSuite::ALL {
        let rows = [
            (Protection::Integrity, false),
            (Protection::Encrypt(Zero), false),
            (Protection::Encrypt(Thirty), suite.is_xpn()),
            (Protection::Encrypt(Fifty), suite.is_xpn()),
        ];
        for (protection, refused) in rows {
            let expected = refused.then_some(InstallError::OffsetWithXpn);
            let (key, xpn) = (|| ends::key(suite, 0), ends::xpn(suite));
            let transmit = TransmitSa::new(an(0), key(), xpn, protection, Pn::FIRST, Pn::LAST_64);
            assert_eq!(transmit.err(), expected, "{suite} {protection:?}");
            let receive = ReceiveSa::new(an(0), key(), xpn, protection, Pn::FIRST, 0);
            assert_eq!(receive.err(), expected, "{suite} {protection:?}");
        }
    }
}

/// Installed is not enabled, on either side; also after an SA was taken out and put back.
#[test]
fn installed_is_not_enabled() {
    let mut tx = SecY::new(A, SETTINGS);
    let none = Outcome::Discarded(secy::TransmitDiscard::NoSa);
    assert_eq!(protect(&mut tx, &sdu(60, 0)), none);
    tx.install_transmit(ends::transmit_sa(SUITE, 0, 1, Pn::LAST_64)).expect("a free AN");
    assert_eq!(protect(&mut tx, &sdu(60, 0)), none);
    assert_eq!(tx.counters().out_pkts_no_sa, 2);
    tx.enable_transmit(an(0)).expect("installed");
    let frames = protected(&mut tx, &ends::sdus(3, 60));
    let sa = tx.retire_transmit(an(0)).expect("installed");
    assert_eq!(protect(&mut tx, &sdu(60, 0)), none);
    assert_eq!(sa.counters().out_pkts_encrypted, 3);
    tx.install_transmit(sa).expect("a free AN");
    assert_eq!(protect(&mut tx, &sdu(60, 0)), none);
    tx.enable_transmit(an(0)).expect("installed");
    protect(&mut tx, &sdu(60, 3)).passed();
    assert_eq!(tx.transmit_counters().out_pkts_encrypted, 4, "each frame counts once");
    assert!(tx.transmit_sas().all(|sa| sa.pns().next() == Pn::new(5)), "the PNs go on");

    let mut rx = receiver_of(&[A]);
    assert_eq!(verify(&mut rx, &frames[0]), Outcome::Passed(sdu(60, 0)));
    let sa = rx.retire_receive(A, an(0)).expect("installed");
    assert_eq!(verify(&mut rx, &frames[1]), NO_SA);
    rx.install_receive(A, sa).expect("a free AN");
    assert_eq!(verify(&mut rx, &frames[1]), NO_SA);
    rx.enable_receive(A, an(0)).expect("installed");
    assert_eq!(verify(&mut rx, &frames[0]), Outcome::Discarded(ReceiveDiscard::Late), "the window goes on");
    assert_eq!(verify(&mut rx, &frames[1]), Outcome::Passed(sdu(60, 1)));
    assert_eq!(rx.receive_scs().map(|sc| sc.counters().in_pkts_ok).sum::<u64>(), 2, "each frame counts once");
}
