//! Ends of Seqs and epochs.

use suite::fieldbus::{KeyContext, MasterKey};
use wire::MacAddr;
use wire::fieldbus::{CellSuite, FrameId, HandshakeNonce, Protect, Protection};

use super::*;
use crate::session::Session;

fn key(epoch: u64) -> EpochKey {
    let direction = KeyContext {
        stations: [1, 2].map(|octet| (MacAddr([2, 0, 0, 0, 0, octet]), FrameId(0x8000))),
        from_higher: false,
        nonces: [HandshakeNonce([1; 16]), HandshakeNonce([2; 16])],
        protection: Protection { protect: Protect::Encrypt, suite: CellSuite::GcmAes128 },
        epoch,
    };
    EpochKey { key_id: KeyId(epoch as u8), epoch, key: MasterKey::new(&[3; 32]).direction_key(&direction) }
}

fn keys_at(next_seq: Seq) -> Keys {
    let number = SessionNumber(1);
    let session = Session { number, transmit: [key(0), key(1)], receive: [key(0), key(1)] };
    let mut keys = Keys::default();
    assert!(keys.change(KeyChange::Enter(LiveSession::new(session))).is_empty());
    keys.change(KeyChange::Enable(number));
    keys.others.entered.as_mut().unwrap().transmit.next_seq = Some(next_seq);
    keys
}

#[test]
fn no_seq_comes_after_the_last() {
    let mut keys = keys_at(Seq::LAST);
    // Without an end before the last Seq, the next epoch begins behind it.
    let taken = |keys: &mut Keys| {
        let TakenSeq { under, seq, begun, .. } = keys.take_seq(Seq::LAST)?;
        Ok((under.epoch, seq, begun.is_some()))
    };
    assert_eq!(taken(&mut keys), Ok((0, Seq::LAST, false)));
    assert_eq!(keys.transmit_status().unwrap().seq, Some(Seq::LAST));
    assert_eq!(taken(&mut keys), Ok((1, Seq::FIRST, true)));
    // The key of epoch 2 does not come.
    keys.others.entered.as_mut().unwrap().transmit.next_seq = Some(Seq::LAST);
    assert_eq!(taken(&mut keys), Ok((1, Seq::LAST, false)));
    for _ in 0..3 {
        assert_eq!(taken(&mut keys), Err(TransmitDiscard::SeqExhausted));
    }
    assert!(keys.change(KeyChange::NextTransmit(SessionNumber(1), key(2))).keys.len() == 1, "epoch 0 goes");
    assert_eq!(taken(&mut keys), Ok((2, Seq::FIRST, true)));
}

#[test]
fn the_last_seq_is_received_and_nothing_after_it() {
    let mut keys = keys_at(Seq::FIRST);
    let mut receive = |key_id: u8, number: u32| {
        let seq = Seq::new(number).unwrap();
        let (under, _) = keys.admit(KeyId(key_id), seq)?;
        keys.commit(under, seq).map(|outcome| outcome.missing)
    };
    assert_eq!(receive(0, u32::MAX), Ok(u32::MAX - 1));
    assert_eq!(receive(0, u32::MAX), Err(ReceiveDiscard::Late));
    assert_eq!(receive(1, 1), Ok(0));
    assert_eq!(receive(0, 5), Err(ReceiveDiscard::Late), "of the epoch before");
    assert_eq!(receive(2, 1), Err(ReceiveDiscard::UnknownKey), "not there yet");
}
