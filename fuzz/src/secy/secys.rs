//! The sending side, and what both sides share: settings, the key, bursts.

use std::collections::{HashMap, HashSet};

use secy::{
    ClearVlan, ConfidentialityOffset, Frame, Incoming, InstallError, Outbox, Outgoing, Protection,
    ReceiveDiscard, SciInclusion, SecY, Settings, TransmitDiscard, TransmitSa, ValidateFrames, XpnBinding,
};
use suite::{CipherSuite, Salt};
use wire::{An, Instant, MacAddr, Pn, Sci, SecTag, Ssci};

use super::{Gap, Setup};

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xa]);
/// The transmitter's SCI, also by ES.
pub(super) const TRANSMITTER: Sci = Sci::new(MAC, Sci::PORT_END_STATION);
/// The receiver's own SCI.
pub(super) const RECEIVER: Sci = Sci::new(MacAddr([2, 0, 0, 0, 0, 0xb]), 1);
/// DA and SA of what the transmitter sends.
pub(super) const ADDRESSES: [u8; 12] = [2, 0, 0, 0, 0, 0xb, 2, 0, 0, 0, 0, 0xa];
const MTU: usize = 300;
const ROOM: usize = 40;

pub(super) const fn suite(setup: &Setup) -> CipherSuite {
    if setup.xpn { CipherSuite::GcmAesXpn128 } else { CipherSuite::GcmAes128 }
}

pub(super) fn xpn(setup: &Setup) -> Option<XpnBinding> {
    setup.xpn.then_some(XpnBinding { ssci: Ssci(1), salt: Salt([9; 12]) })
}

pub(super) fn an(number: u8) -> An {
    An::from_tci(number)
}

pub(super) fn settings(setup: &Setup) -> Settings {
    use ConfidentialityOffset::{Fifty, Thirty, Zero};
    Settings {
        protect_frames: setup.protect_frames,
        protection: match (setup.protection % 4, setup.xpn) {
            (0, _) => Protection::Integrity,
            (1, _) | (_, true) => Protection::Encrypt(Zero),
            (2, _) => Protection::Encrypt(Thirty),
            _ => Protection::Encrypt(Fifty),
        },
        sci_inclusion: match setup.sci_inclusion % 3 {
            0 => SciInclusion::Always,
            1 => SciInclusion::Never,
            _ => SciInclusion::EndStation,
        },
        validate_frames: match setup.validate_frames % 4 {
            0 | 1 => ValidateFrames::Strict,
            2 => ValidateFrames::Check,
            _ => ValidateFrames::Disabled,
        },
        replay_protect: setup.replay_protect,
        reassemble: false,
        clear_vlan: if setup.strip_vlan { ClearVlan::Strip } else { ClearVlan::Refuse },
        mtu: MTU,
    }
}

/// What the receiver said of a frame.
pub(super) enum Verdict {
    Delivered(Vec<u8>),
    Discarded(ReceiveDiscard),
}

impl From<Result<Vec<u8>, ReceiveDiscard>> for Verdict {
    fn from(outcome: Result<Vec<u8>, ReceiveDiscard>) -> Self {
        outcome.map_or_else(Self::Discarded, Self::Delivered)
    }
}

/// One burst through `SecY::verify`.
pub(super) fn verify(secy: &mut SecY, frames: &[Vec<u8>]) -> Vec<Result<Vec<u8>, ReceiveDiscard>> {
    let mut chunks = frames.to_vec();
    let mut burst: Vec<_> = chunks.iter_mut().map(|chunk| Incoming::new(whole(chunk, 0))).collect();
    secy.verify(Instant::START, &mut burst, &mut Outbox::none());
    burst
        .into_iter()
        .map(|incoming| {
            let octets = incoming.frame().octets().to_vec();
            incoming.into_outcome().map(|_| octets)
        })
        .collect()
}

fn protect(secy: &mut SecY, sdus: &[Vec<u8>]) -> Vec<Result<Vec<u8>, TransmitDiscard>> {
    let mut chunks: Vec<_> = sdus.iter().map(|sdu| [&[0; ROOM][..], sdu, &[0; ROOM]].concat()).collect();
    let mut burst: Vec<_> = chunks.iter_mut().map(|chunk| Outgoing::new(whole(chunk, ROOM))).collect();
    secy.protect(&mut burst);
    burst
        .into_iter()
        .map(|outgoing| {
            let octets = outgoing.frame().octets().to_vec();
            outgoing.into_outcome().map(|_| octets)
        })
        .collect()
}

fn whole(chunk: &mut [u8], room: usize) -> Frame<'_> {
    let len = chunk.len() - 2 * room;
    Frame::new(chunk, room, len).expect("invariant: the frame lies inside its chunk")
}

/// A frame that was sent.
#[derive(Clone)]
pub(super) struct Sent {
    pub(super) sdu: Vec<u8>,
    pub(super) an: An,
    pub(super) pn: u64,
    octets: usize,
    short: bool,
}

/// The transmitting SecY, and all that it has sent.
pub(super) struct Transmitter {
    secy: SecY,
    setup: Setup,
    retired: Vec<TransmitSa>,
    /// The end of the topmost block, and the AN that has it.
    top: (u64, Option<An>),
    used: HashSet<u64>,
    /// By the octets on the wire, which no two frames share.
    sent: HashMap<Vec<u8>, Sent>,
    given: u64,
    number: u64,
}

impl Transmitter {
    pub(super) fn new(setup: &Setup) -> Self {
        Self {
            secy: SecY::new(TRANSMITTER, settings(setup)),
            setup: *setup,
            retired: Vec::new(),
            top: (0, None),
            used: HashSet::new(),
            sent: HashMap::new(),
            given: 0,
            number: 0,
        }
    }

    /// Installs an SA with a block of PNs above all before. There is none behind PN 2^64 - 1, and one behind the
    /// suite's last PN must send nothing.
    pub(super) fn install(&mut self, number: u8, gap: Gap, block: u64) {
        let lowest = self.top.0.checked_add(1);
        let first = lowest.and_then(|lowest| match gap {
            Gap::None => Some(lowest),
            Gap::Some(gap) => lowest.checked_add(gap.into()),
            Gap::Below32(below) => Some(lowest.max((1 << 32) - u64::from(below))),
            Gap::Below64(below) => Some(lowest.max(u64::MAX - u64::from(below))),
        });
        let Some(first) = first.and_then(Pn::new) else { return };
        let end = Pn::new(first.number().saturating_add(block)).unwrap_or(first);
        let sa = TransmitSa::new(
            an(number),
            crate::key::prepared(suite(&self.setup)),
            xpn(&self.setup),
            first,
            end,
        );
        let sa = sa.expect("invariant: the suite and its binding agree");
        match self.secy.install_transmit(Box::new(sa)) {
            Ok(()) => self.top = (end.number(), Some(an(number))),
            Err((error, _)) => assert_eq!(error, InstallError::AnInUse),
        }
    }

    pub(super) fn reinstall(&mut self) {
        if let Some(sa) = self.retired.pop()
            && let Err((error, sa)) = self.secy.install_transmit(Box::new(sa))
        {
            assert_eq!(error, InstallError::AnInUse);
            self.retired.push(*sa);
        }
    }

    pub(super) fn enable(&mut self, number: u8) {
        let installed = self.secy.transmit_sas().any(|sa| sa.an() == an(number));
        assert_eq!(self.secy.enable_transmit(an(number)).is_ok(), installed);
    }

    pub(super) fn retire(&mut self, number: u8) {
        let taken = self.secy.retire_transmit(an(number));
        if taken.is_some() && self.top.1 == Some(an(number)) {
            self.top.1 = None;
        }
        self.retired.extend(taken.map(|sa| *sa));
        assert_ne!(self.secy.encoding_sa(), Some(an(number)));
    }

    pub(super) fn reserve(&mut self, number: u8, more: u64) {
        let an = an(number);
        let Some(sa) = self.secy.transmit_sas().find(|sa| sa.an() == an) else {
            assert_eq!(self.secy.reserve_through(an, Pn::LAST_64), Err(InstallError::UnknownAn));
            return;
        };
        let before = sa.pns().reserved();
        if self.top.1 == Some(an) {
            self.top.0 = self.top.0.saturating_add(more);
        }
        let through = if self.top.1 == Some(an) { self.top.0 } else { before.number().saturating_sub(more) };
        let Some(through) = Pn::new(through) else { return };
        self.secy.reserve_through(an, through).expect("invariant: it is installed");
        let after = self.secy.transmit_sas().find(|sa| sa.an() == an).map(|sa| sa.pns().reserved());
        assert!(after >= Some(before), "a reservation never shrinks");
    }

    /// A burst of SDUs that no other has; what goes to the wire.
    pub(super) fn protect(&mut self, count: u8, octets: usize) -> Vec<Vec<u8>> {
        let sdus: Vec<_> = (0..count)
            .map(|_| {
                self.number += 1;
                let body = (8..octets.max(8)).map(|at| (at as u64 ^ self.number) as u8);
                let number = self.number.to_be_bytes();
                ADDRESSES.into_iter().chain([0x08, 0x00]).chain(number).chain(body).collect()
            })
            .collect();
        self.send(sdus)
    }

    /// One SDU of any octets.
    pub(super) fn protect_raw(&mut self, octets: Vec<u8>) -> Vec<Vec<u8>> {
        self.send(vec![octets])
    }

    fn send(&mut self, sdus: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        let sa = self.secy.encoding_sa().and_then(|an| self.secy.transmit_sas().find(|sa| sa.an() == an));
        let sa = sa.map(|sa| (sa.an(), sa.pns().next(), sa.pns().reserved().number()));
        let outcomes = protect(&mut self.secy, &sdus);
        self.given += sdus.len() as u64;
        let (mut out, mut taken) = (Vec::new(), 0);
        for (sdu, outcome) in sdus.into_iter().zip(outcomes) {
            let Ok(frame) = outcome else { continue };
            assert!(frame.len() <= MTU + 14, "no frame exceeds the MTU");
            if self.setup.protect_frames {
                let (an, next, reserved) = sa.expect("without an SA nothing is sent");
                let pn = next.expect("without a PN nothing is sent").number() + taken;
                taken += 1;
                assert!(pn <= reserved && pn <= suite(&self.setup).last_pn().number());
                self.note(sdu, &frame, an, pn);
            } else {
                assert_eq!(frame, sdu);
            }
            out.push(frame);
        }
        self.balance();
        out
    }

    fn note(&mut self, sdu: Vec<u8>, frame: &[u8], an: An, pn: u64) {
        let tag = SecTag::parse(&frame[12..]).expect("what is sent has a valid SecTAG");
        assert_eq!((tag.an, tag.pn), (an, pn as u32));
        assert!(self.used.insert(pn), "PN {pn} is used twice");
        if self.setup.sci_inclusion % 3 == 2 && frame[6..12] != MAC.0 {
            return; // ES from another source address names an SC that nobody has
        }
        let short = tag.short_length.is_some();
        let sent = Sent { sdu, an, pn, octets: frame.len(), short };
        self.sent.insert(frame.to_vec(), sent);
    }

    /// What `frame` was sent as, if it is a sent frame, or a short one with padding behind it.
    pub(super) fn sent_as(&self, frame: &[u8]) -> Option<&Sent> {
        self.sent.get(frame).or_else(|| {
            let tag = SecTag::parse(frame.get(12..)?).ok()?;
            let octets = 12 + tag.octets() + tag.short_length?.octets() + 16;
            let sent = self.sent.get(frame.get(..octets)?)?;
            (sent.short && sent.octets == octets).then_some(sent)
        })
    }

    /// Each SDU is counted once.
    fn balance(&self) {
        let (secy, sc) = (self.secy.counters(), self.secy.transmit_counters());
        let of_secy = [
            secy.out_pkts_untagged,
            secy.out_pkts_too_long,
            secy.out_pkts_too_short,
            secy.out_pkts_no_sa,
            secy.out_pkts_pn_exhausted,
            secy.out_pkts_pn_unreserved,
        ];
        let all = of_secy.iter().sum::<u64>() + sc.out_pkts_protected + sc.out_pkts_encrypted;
        assert_eq!(all, self.given, "SDUs in and counted: {secy:?} {sc:?}");
    }
}
