//! Links whose keys are agreed on: two of them over ports in memory, from a KaY to the wire and back.

#![allow(clippy::unwrap_used)] // a test's own set-up fails loudly

mod agreed;

use std::time::Duration;

use agreed::{NAMES, Pair, agreement, cak, garbage, kay, pipeline, plain_kay, ports, sdu};
use control::Notice;
use dataplane::fragmenter::LONGEST_HOLD;
use mka::{Fault, OnPeerLoss, Reason, SuiteRule};

/// Losses on the way, by both sides' counters.
fn discards(pair: &mut Pair) -> Vec<String> {
    let mut found = vec![];
    for (side, name) in NAMES.into_iter().enumerate() {
        let snapshot = pair.snapshot(side);
        let mut look = |table: &[wire::Counter], values: &[u64]| {
            for (counter, value) in table.iter().zip(values) {
                if counter.discard && *value > 0 {
                    found.push(format!("{name} {} {value}", counter.name));
                }
            }
        };
        look(dataplane::pipeline::PipelineCounters::TABLE, &snapshot.pipeline.values());
        look(dataplane::fragmenter::FragmenterCounters::TABLE, &snapshot.fragmenter.values());
        look(secy::SecYCounters::TABLE, &snapshot.secy.values());
        for sc in &snapshot.receive_scs {
            look(secy::ReceiveSaCounters::TABLE, &sc.counters.values());
        }
        assert_eq!((snapshot.plain.tx_dropped, snapshot.protected.tx_dropped), (0, 0));
        assert_eq!(snapshot.chunks_free, snapshot.chunks, "no chunk is lost");
    }
    found
}

#[test]
fn two_links_are_secured_and_nothing_leaves_in_clear() {
    let mut pair = Pair::new("secured", [kay(0), kay(1)]);
    // An SDU that comes before there is a SAK is discarded as an SDU, and not sent.
    assert!(pair.sides[0].machine.inject(&sdu(0, 1, 100)));
    pair.secure();
    assert_eq!(discards(&mut pair), ["left OutPktsNoSA 1"]);
    pair.exchange(1000, 100);
    assert_eq!(discards(&mut pair), ["left OutPktsNoSA 1"]);
    assert_eq!(pair.clear, 0);
    for (side, name) in NAMES.into_iter().enumerate() {
        pair.until("MKPDUs are counted alike", |pair| {
            let (pipeline, kay) = (pair.snapshot(side).pipeline, pair.status(side).counters);
            (pipeline.out_pkts_kay, pipeline.in_pkts_kay) == (kay.mkpdus_tx, kay.mkpdus_rx)
        });
        assert_eq!(pair.status(side).status.fault, None);
        let snapshot = pair.snapshot(side);
        assert_eq!(snapshot.transmit_sas.len(), 1);
        assert!(snapshot.transmit_sas[0].enabled);
        let told = |notice: &Notice| matches!(notice, Notice::KeyAgreement { link, reason: Reason::PeerLive { .. }, .. } if link == name);
        assert!(pair.notices.iter().any(told), "{:?}", pair.notices);
    }
}

/// Fifty SAKs under traffic both ways, one side antedating and the other not: not a frame is lost, by the machines and by
/// every counter.
#[test]
fn fifty_rekeys_lose_nothing() {
    let mut pair = Pair::new("rekeys", [kay(0), kay(1)]);
    let mut ki = pair.secure();
    let mut rounds = 0;
    for round in 0..50 {
        assert!(pair.gateway.rekey(NAMES[round % 2]));
        let before = ki;
        while ki == before {
            pair.exchange(100, [60, 1490, 700][round % 3]);
            rounds += 1;
            ki = pair.current().unwrap_or(before);
        }
    }
    pair.secure();
    assert_eq!(discards(&mut pair), [""; 0]);
    for side in 0..2 {
        let [sent, received] = [pair.snapshot(side), pair.snapshot(1 - side)];
        assert!(sent.transmit.out_pkts_encrypted > 0);
        assert_eq!(sent.transmit.out_pkts_encrypted, received.receive_scs[0].counters.in_pkts_ok);
        assert_eq!(sent.protected.tx_frames, sent.transmit.out_pkts_encrypted + sent.pipeline.out_pkts_kay);
        assert_eq!(sent.plain.rx_frames, rounds * 100);
        assert_eq!(sent.transmit_sas.len(), 1, "the ones before are retired");
        assert!(pair.status(side).counters.saks_installed > 50);
        let (transmit, receive) = (sent.transmit, sent.receive_scs[0].counters);
        let antedated = [
            [
                transmit.out_pkts_antedated,
                transmit.out_pkts_antedated_in_part,
                transmit.out_pkts_not_antedated,
            ],
            [receive.in_pkts_antedated, receive.in_pkts_antedated_in_part, receive.in_pkts_not_antedated],
        ];
        let frames = [transmit.out_pkts_encrypted, receive.in_pkts_ok];
        match side {
            0 => {
                assert!(antedated[0][0] > 0 && antedated[1][0] > 0, "{antedated:?}");
                assert_eq!(antedated.map(|counts| counts.iter().sum::<u64>()), frames);
            }
            _ => assert_eq!(antedated, [[0; 3]; 2]),
        }
    }
}

/// Fragmentation and concatenation come and go with what the others announce, and no frame that fits is lost by it.
#[test]
fn what_all_announce_is_used_and_no_longer_when_one_does_not() {
    let mut pair = Pair::new("fragment", [kay(0), kay(1)]);
    pair.secure();
    let fragmented = |pair: &mut Pair| {
        pair.exchange(400, 1518 - 14);
        pair.snapshot(0).fragmenter.out_sdus_fragmented + pair.snapshot(0).fragmenter.out_sdus_concatenated
    };
    let mut before = fragmented(&mut pair);
    assert!(before > 0);
    for (settings, fragments) in
        [(plain_kay(1), false), (kay(1), true), (plain_kay(1), false), (kay(1), true)]
    {
        let ki = pair.current();
        // SDUs that are held when it ends go all the same.
        let held = control::KeyAgreement { hold: LONGEST_HOLD, ..agreement(settings) };
        pair.gateway.change_key_agreement(NAMES[1], held).unwrap();
        // SDUs that fit a frame pass all the time.
        loop {
            pair.exchange(100, 1486);
            if pair.current().is_some_and(|now| Some(now) != ki) {
                break;
            }
        }
        assert_eq!(discards(&mut pair), [""; 0]);
        before = pair.snapshot(0).fragmenter.out_sdus_fragmented
            + pair.snapshot(0).fragmenter.out_sdus_concatenated;
        if fragments {
            assert!(fragmented(&mut pair) > before);
        } else {
            pair.exchange(200, 1486);
            let after = pair.snapshot(0).fragmenter.out_sdus_fragmented
                + pair.snapshot(0).fragmenter.out_sdus_concatenated;
            assert_eq!(after, before, "a frame holds one SDU");
        }
    }
    assert_eq!(discards(&mut pair), [""; 0]);
}

/// Attack: a flood of EAPOL frames. It costs no data frame and no chunk, what is too much is counted, and keys go on being
/// agreed on.
#[test]
fn a_flood_of_eapol_costs_no_data_and_no_memory() {
    let mut pair = Pair::new("flood", [kay(0), kay(1)]);
    let ki = pair.secure();
    let (mut injected, mut sent) = (0, 0);
    // As much as control looks at in time.
    for round in 0..200 {
        for _ in 0..100 {
            injected += u64::from(pair.sides[0].wire.inject(&garbage(injected)));
        }
        if round == 100 {
            assert!(pair.gateway.rekey(NAMES[0]));
        }
        pair.exchange(8, 100 + round);
        sent += 8;
    }
    pair.until("another SAK", |pair| pair.settled().is_some_and(|now| now != ki));
    // And more than the ring holds, before control looks at it.
    for _ in 0..4 {
        let until = injected + 200;
        while injected < until {
            injected += u64::from(pair.sides[0].wire.inject(&garbage(injected)));
        }
        while pair.snapshot(0).protected.rx_frames < injected {}
    }
    assert!(pair.snapshot(0).pipeline.in_pkts_kay_overrun > 0, "the ring is bounded");
    pair.exchange(100, 500);
    sent += 100;
    pair.until("each is counted once", |pair| {
        let pipeline = pair.snapshot(0).pipeline;
        let eapol = pipeline.in_pkts_kay + pipeline.in_pkts_kay_overrun + pipeline.in_pkts_kay_too_long;
        eapol == injected + pair.snapshot(1).pipeline.out_pkts_kay
    });
    let (flooded, other) = (pair.snapshot(0), pair.snapshot(1));
    assert_eq!(pair.status(0).status.fault, None);
    assert_eq!(flooded.receive_scs[0].counters.in_pkts_ok, other.transmit.out_pkts_encrypted);
    assert_eq!(flooded.plain.tx_frames, sent);
    let lost = discards(&mut pair);
    assert!(lost.iter().all(|lost| lost.starts_with("left InPktsKay")), "{lost:?}");
}

/// Without its peer a link passes nothing, unless it is to hold its SAK; and never in clear.
#[test]
fn a_lost_peer_blocks_or_not() {
    for (on_peer_loss, passes) in [(OnPeerLoss::Block, false), (OnPeerLoss::Hold, true)] {
        let name = format!("loss-{passes}");
        let mut pair = Pair::new(&name, [0, 1].map(|side| mka::Settings { on_peer_loss, ..kay(side) }));
        pair.secure();
        pair.exchange(20, 100);
        pair.sides[1].cut = true;
        pair.until("it is noticed", |pair| pair.status(0).status.members.iter().all(|member| !member.live));
        for _ in 0..20 {
            pair.turn();
        }
        let before = pair.snapshot(0);
        assert!(pair.sides[0].machine.inject(&sdu(0, 7, 100)));
        let came = pair.sides[1].came.len();
        pair.until("it is gone", |pair| {
            pair.snapshot(0).plain.rx_frames > before.plain.rx_frames
                && (!passes || pair.sides[1].came.len() > came)
        });
        let after = pair.snapshot(0);
        let sent = after.transmit.out_pkts_encrypted - before.transmit.out_pkts_encrypted;
        let refused = after.secy.out_pkts_no_sa - before.secy.out_pkts_no_sa;
        assert_eq!((sent, refused), if passes { (1, 0) } else { (0, 1) });
        assert_eq!(pair.clear, 0);
        // And back again.
        pair.sides[1].cut = false;
        pair.secure();
        pair.exchange(20, 100);
    }
}

/// Attack: a frame is held back. With delay protection it is late after a few seconds, whatever the window; without, it
/// is new as long as nothing overtakes the window.
#[test]
fn a_delayed_frame_is_late_with_delay_protection() {
    for (delay_protect, outcome) in [(true, (0, 1)), (false, (1, 0))] {
        let name = format!("delay-{delay_protect}");
        let mut pair = Pair::new(&name, [0, 1].map(|side| mka::Settings { delay_protect, ..kay(side) }));
        pair.secure();
        pair.exchange(20, 100);
        let before = pair.snapshot(1).receive_scs[0].counters;
        pair.sides[0].delayed = Some(vec![]);
        assert!(pair.sides[0].machine.inject(&sdu(0, 7, 100)));
        pair.until("it is held back", |pair| {
            pair.sides[0].delayed.as_ref().is_some_and(|held| held.len() == 1)
        });
        let held_at = pair.now;
        pair.until("time passes", |pair| pair.now - held_at > Duration::from_secs(8));
        for frame in pair.sides[0].delayed.take().unwrap() {
            assert!(pair.sides[1].wire.inject(&frame));
        }
        pair.until("it is judged", |pair| {
            let now = pair.snapshot(1).receive_scs[0].counters;
            (now.in_pkts_ok - before.in_pkts_ok, now.in_pkts_late - before.in_pkts_late) == outcome
        });
        // A frame that is sent in time passes.
        pair.sides[1].came.clear();
        pair.exchange(200, 100);
    }
}

/// Each suite of the standard, with what it brings: SSCIs and a salt, or another key length; without encryption, and with
/// an offset, under which nothing is fragmented.
#[test]
fn all_that_a_sak_can_be() {
    use suite::CipherSuite::{GcmAes128, GcmAes256, GcmAesXpn128, GcmAesXpn256};
    use wire::mkpdu::Confidentiality::{Fifty, Integrity, Zero};
    let rows = [(GcmAes128, Integrity), (GcmAes256, Fifty), (GcmAesXpn128, Zero), (GcmAesXpn256, Integrity)];
    for (number, (suite, confidentiality)) in rows.into_iter().enumerate() {
        let settings = |side| mka::Settings { suite: SuiteRule::Only(suite), confidentiality, ..kay(side) };
        let mut pair = Pair::new(&format!("sak-{number}"), [settings(0), settings(1)]);
        let ki = pair.secure();
        // The longest that a frame has room for; and, where it may be fragmented, a longer one.
        let octets = if confidentiality == Fifty { 1486 } else { 1504 };
        pair.exchange(100, octets);
        assert!(pair.gateway.rekey(NAMES[1]));
        while pair.current().is_none_or(|now| now == ki) {
            pair.exchange(100, octets);
        }
        assert_eq!(discards(&mut pair), [""; 0], "{suite}");
        assert_eq!(pair.status(0).status.saks[0].suite, suite);
        let sent = pair.snapshot(0).transmit;
        assert_eq!(sent.out_pkts_encrypted == 0, confidentiality == Integrity);
        let fragmented = pair.snapshot(0).fragmenter;
        assert_eq!(fragmented.out_sdus_fragmented == 0, confidentiality == Fifty, "{suite}");
    }
}

/// The interface goes and comes back: the KaY goes on, and so do its SAs.
#[test]
fn ports_come_and_go_and_the_sak_stays() {
    let mut pair = Pair::new("ports", [kay(0), kay(1)]);
    let ki = pair.secure();
    pair.exchange(50, 100);
    pair.gateway.close(NAMES[0]).unwrap();
    pair.until("nobody hears the KaY", |pair| pair.snapshot(0).pipeline.out_pkts_kay_no_chunk > 0);
    let (again, machine, wire) = ports();
    (pair.sides[0].machine, pair.sides[0].wire) = (machine, wire);
    pair.gateway.open(NAMES[0], again).unwrap();
    pair.exchange(50, 100);
    assert_eq!(pair.secure(), ki);
    assert!(discards(&mut pair).iter().all(|lost| lost.contains("OutPktsKayNoChunk")));
}

/// Other settings of the SecY: another pipeline takes over with all SAs, under traffic.
#[test]
fn another_path_goes_on_with_the_sak() {
    let mut pair = Pair::new("pipeline", [kay(0), kay(1)]);
    let ki = pair.secure();
    for (round, mtu) in [1532, 1400, 1532, 1460].into_iter().enumerate() {
        pair.exchange(50, 1300);
        if round == 2 {
            assert!(pair.gateway.rekey(NAMES[0]), "in the midst of a rekey");
            pair.turn();
        }
        pair.gateway.change_agreed(NAMES[0], Box::new(pipeline(0, mtu))).unwrap();
    }
    pair.exchange(50, 1300);
    pair.until("another SAK", |pair| pair.settled().is_some_and(|now| now != ki));
    assert_eq!(discards(&mut pair), [""; 0]);
    assert!(pair.gateway.change_agreed(NAMES[0], Box::new(pipeline(1, 1532))).is_err(), "another SCI");
    pair.exchange(50, 1300);
}

/// Another CAK while frames flow: both are accepted during the change.
#[test]
fn the_cak_changes_live() {
    let mut pair = Pair::new("cak", [kay(0), kay(1)]);
    let ki = pair.secure();
    for side in [0, 1] {
        let both = control::KeyAgreement { caks: vec![cak(2), cak(1)], ..agreement(kay(side)) };
        pair.gateway.change_key_agreement(NAMES[side], both).unwrap();
        pair.exchange(100, 300);
    }
    while pair.settled().is_none_or(|now| now == ki) {
        pair.exchange(100, 300);
    }
    for side in [0, 1] {
        let alone = control::KeyAgreement { caks: vec![cak(2)], ..agreement(kay(side)) };
        pair.gateway.change_key_agreement(NAMES[side], alone).unwrap();
        pair.exchange(100, 300);
    }
    for _ in 0..20 {
        pair.exchange(100, 300);
    }
    assert_eq!(discards(&mut pair), [""; 0]);
    assert_eq!(pair.status(0).status.ckn, cak(2).ckn);
    assert_eq!(pair.status(0).status.fault, None);
}

/// Stations of other groups are usual in a LAN that a site joins. Elsewhere another CKN is a fault.
#[test]
fn mkpdus_of_other_groups_are_stations_in_a_site() {
    let mut pair = Pair::new("stations", [kay(0), kay(1)]);
    for side in [0, 1] {
        let (caks, beside_stations) = (vec![cak(side as u8 + 1)], side == 0);
        let other = control::KeyAgreement { caks, beside_stations, ..agreement(kay(side)) };
        pair.gateway.change_key_agreement(NAMES[side], other).unwrap();
    }
    pair.until("each has heard the other one", |pair| {
        pair.status(1).counters.mkpdus_unknown_ckn > 2 && pair.snapshot(0).pipeline.in_pkts_kay > 2
    });
    // MKPDUs of before the change are forgotten by then.
    pair.until("one of them is alone", |pair| {
        [0, 1].map(|side| pair.status(side).status.fault) == [Some(Fault::Alone), Some(Fault::OtherCkn)]
    });
    assert_eq!(pair.status(0).counters.mkpdus_unknown_ckn, 0);
    let told = |name: &str| {
        let of = |notice: &Notice| matches!(notice, Notice::KeyAgreement { link, reason: Reason::OtherCkn { .. }, .. } if link == name);
        pair.notices.iter().any(of)
    };
    assert_eq!(NAMES.map(told), [false, true]);
    // Its own group it hears.
    pair.gateway.change_key_agreement(NAMES[1], agreement(kay(1))).unwrap();
    pair.secure();
}
