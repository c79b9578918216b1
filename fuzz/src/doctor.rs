//! The doctor's frames: any octets are borne; what parses is what was encoded; and an examination that is given
//! believable frames of any content, at any times, neither panics, nor sends without end, nor believes a stranger.

use std::time::Duration;

use arbitrary::{Arbitrary, Unstructured};
use diagnosis::doctor::exam::{Exam, Party, Peers, Setup};
use diagnosis::doctor::frame::{Body, Envelope, Frame, Purpose, ReceiveRecord, Status, Tag};
use diagnosis::doctor::keys::MacKey;
use wire::{MacAddr, Sci};

const OWN: Sci = Sci::new(MacAddr([2, 0, 0, 0, 0, 1]), 1);
const PEER: Sci = Sci::new(MacAddr([2, 0, 0, 0, 0, 2]), 1);
const SESSION: u64 = 7;
/// The most operations of a run.
const OPERATIONS: usize = 64;

#[derive(Arbitrary, Debug)]
enum Operation {
    Octets(Vec<u8>),
    /// From the peer, with its key.
    Peer {
        believable: bool,
        to_session: bool,
        session: u8,
        number: u32,
        kind: Kind,
    },
    Wait {
        milliseconds: u16,
    },
}

#[derive(Arbitrary, Debug)]
enum Kind {
    Status { hears_misfits: bool, saw_finish: bool, received: u32 },
    Probe(Why),
    Echo(Why, bool),
}

#[derive(Arbitrary, Debug)]
enum Why {
    Target(u8),
    Size,
    Stream,
    Tag,
}

impl Why {
    fn purpose(&self) -> Purpose {
        match self {
            Self::Target(index) => Purpose::Target(*index),
            Self::Size => Purpose::Size,
            Self::Stream => Purpose::Stream,
            Self::Tag => Purpose::Tag,
        }
    }
}

impl Kind {
    fn body(&self) -> Body {
        match self {
            Self::Status { hears_misfits, saw_finish, received } => Body::Status(Status {
                hears_misfits: *hears_misfits,
                saw_finish: *saw_finish,
                record: ReceiveRecord { received: *received, ..ReceiveRecord::default() },
                ..Status::default()
            }),
            Self::Probe(why) => Body::Probe(why.purpose()),
            Self::Echo(why, tagged) => {
                Body::Echo(why.purpose(), if *tagged { Tag::Priority } else { Tag::None })
            }
        }
    }
}

/// Reads `octets` as a frame, and as a list of operations on an examination.
///
/// # Panics
/// If one of the promises above is broken.
pub fn run(octets: &[u8]) {
    let key = MacKey::derive(&[2; 16], PEER);
    if let Ok(received) = Frame::parse(octets) {
        let again = received.frame.encode(received.octets(), None, &key);
        let parsed = Frame::parse(&again).expect("what was encoded parses");
        assert_eq!(parsed.frame, received.frame);
        assert!(parsed.fits(&key));
    }
    let mut input = Unstructured::new(octets);
    let setup = Setup {
        own: Party { sci: OWN, keys: vec![MacKey::derive(&[1; 16], OWN)] },
        peers: Peers::Known(vec![Party { sci: PEER, keys: vec![key.clone()] }]),
        mac: OWN.system(),
        session: SESSION,
        mtu: 1532,
        probes: 10,
        pause: Duration::from_millis(1),
        patience: Duration::from_secs(60),
        facts: Status::default(),
    };
    let stranger = MacKey::derive(&[3; 16], PEER);
    let (mut exam, mut now, mut answered) = (Exam::new(setup, Duration::ZERO), Duration::ZERO, false);
    for _ in 0..OPERATIONS {
        let Ok(operation) = Operation::arbitrary(&mut input) else { break };
        match operation {
            Operation::Octets(octets) => exam.handle_frame(now, &octets),
            Operation::Wait { milliseconds } => now += Duration::from_millis(milliseconds.into()),
            Operation::Peer { believable, to_session, session, number, kind } => {
                answered |= believable && to_session;
                let frame = Frame {
                    to: OWN.system(),
                    from: PEER.system(),
                    envelope: Envelope::Experiment,
                    sender: PEER,
                    session: session.into(),
                    receiver: if to_session { SESSION } else { 0 },
                    number,
                    body: kind.body(),
                };
                exam.handle_frame(now, &frame.encode(0, None, if believable { &key } else { &stranger }));
            }
        }
        // A status, an echo, a probe: at most one of each at one time.
        let sent = std::iter::from_fn(|| exam.poll_transmit(now)).take(4).count();
        assert!(sent <= 3, "{sent} frames at one time");
        assert!(answered || !exam.is_met(), "it believes a stranger");
        if exam.poll_outcome(now).is_some() {
            break;
        }
    }
}
