//! One frame through a SecY, for tests that look at frames one by one.
#![allow(dead_code, unreachable_pub, missing_docs)] // each test binary uses its part

use secy::{Frame, Incoming, Outgoing, ReceiveDiscard, SecY, TransmitDiscard};

/// Room in front of and behind a frame.
const ROOM: usize = 64;

#[derive(Debug, PartialEq, Eq)]
pub enum Outcome<D> {
    Passed(Vec<u8>),
    Discarded(D),
}

impl<D: std::fmt::Debug> Outcome<D> {
    pub fn passed(self) -> Vec<u8> {
        match self {
            Self::Passed(octets) => octets,
            Self::Discarded(reason) => panic!("discarded: {reason:?}"),
        }
    }
}

pub fn chunk(octets: &[u8]) -> Vec<u8> {
    [&[0xaa; ROOM][..], octets, &[0xaa; ROOM]].concat()
}

pub fn protect(secy: &mut SecY, sdu: &[u8]) -> Outcome<TransmitDiscard> {
    protect_all(secy, &[sdu]).remove(0)
}

pub fn verify(secy: &mut SecY, frame: &[u8]) -> Outcome<ReceiveDiscard> {
    verify_all(secy, &[frame]).remove(0)
}

pub fn protect_all(secy: &mut SecY, sdus: &[&[u8]]) -> Vec<Outcome<TransmitDiscard>> {
    let mut chunks: Vec<_> = sdus.iter().map(|sdu| chunk(sdu)).collect();
    let mut burst: Vec<_> = chunks
        .iter_mut()
        .zip(sdus)
        .map(|(chunk, sdu)| Outgoing::new(Frame::new(chunk, ROOM, sdu.len()).expect("inside")))
        .collect();
    secy.protect(&mut burst);
    let done = |outgoing: Outgoing<'_>| {
        let octets = outgoing.frame().octets().to_vec();
        match outgoing.into_outcome() {
            Ok(_) => Outcome::Passed(octets),
            Err(discard) => Outcome::Discarded(discard),
        }
    };
    burst.into_iter().map(done).collect()
}

pub fn verify_all(secy: &mut SecY, frames: &[&[u8]]) -> Vec<Outcome<ReceiveDiscard>> {
    let mut chunks: Vec<_> = frames.iter().map(|frame| chunk(frame)).collect();
    let mut burst: Vec<_> = chunks
        .iter_mut()
        .zip(frames)
        .map(|(chunk, frame)| Incoming::new(Frame::new(chunk, ROOM, frame.len()).expect("inside")))
        .collect();
    secy.verify(&mut burst);
    let done = |incoming: Incoming<'_>| {
        let octets = incoming.frame().octets().to_vec();
        match incoming.into_outcome() {
            Ok(_) => Outcome::Passed(octets),
            Err(discard) => Outcome::Discarded(discard),
        }
    };
    burst.into_iter().map(done).collect()
}
