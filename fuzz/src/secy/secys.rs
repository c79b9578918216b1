//! The sending side, and what both sides share: settings, the key, bursts, and plans carried out.

use std::collections::{HashMap, HashSet};

use secy::fragment::{Plan, Rules, Sdu};
use secy::{
    ClearVlan, ConfidentialityOffset, Delivered, ExpressClasses, Frame, FrameLayout, Incoming, InstallError,
    Outgoing, Protection, ReceiveDiscard, SciInclusion, SduBuffer, SecY, Settings, TransmitDiscard,
    TransmitSa, ValidateFrames, XpnBinding,
};
use suite::{CipherSuite, Salt};
use wire::{An, Instant, MacAddr, Pn, Sci, SecTag, Ssci, extension};

use super::{Gap, Setup};

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xa]);
/// The transmitter's SCI, also by ES.
pub(crate) const TRANSMITTER: Sci = Sci::new(MAC, Sci::PORT_END_STATION);
/// The receiver's own SCI.
pub(crate) const RECEIVER: Sci = Sci::new(MacAddr([2, 0, 0, 0, 0, 0xb]), 1);
/// DA and SA of what the transmitter sends.
pub(super) const ADDRESSES: [u8; 12] = [2, 0, 0, 0, 0, 0xb, 2, 0, 0, 0, 0, 0xa];
const MTU: usize = 300;
/// In front of a frame and behind it: a SecTAG and all extension headers.
const ROOM: usize = 96;

pub(super) const fn suite(setup: &Setup) -> CipherSuite {
    if setup.xpn { CipherSuite::GcmAesXpn128 } else { CipherSuite::GcmAes128 }
}

pub(super) fn xpn(setup: &Setup) -> Option<XpnBinding> {
    setup.xpn.then_some(XpnBinding { ssci: Ssci(1), salt: Salt([9; 12]) })
}

pub(super) fn an(number: u8) -> An {
    An::from_tci(number)
}

pub(super) const fn protection(setup: &Setup) -> Protection {
    use ConfidentialityOffset::{Fifty, Thirty, Zero};
    match (setup.protection % 4, setup.xpn) {
        (0, _) => Protection::Integrity,
        (1, _) | (_, true) => Protection::Encrypt(Zero),
        (2, _) => Protection::Encrypt(Thirty),
        _ => Protection::Encrypt(Fifty),
    }
}

pub(super) fn settings(setup: &Setup) -> Settings {
    Settings {
        protect_frames: setup.protect_frames,
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
        reassemble: setup.reassemble,
        clear_vlan: if setup.strip_vlan { ClearVlan::Strip } else { ClearVlan::Refuse },
        mtu: MTU,
    }
}

/// Verdict of the receiver on a frame: the SDUs that came of it, or why none may.
pub(super) type Verdict = Result<Vec<Vec<u8>>, ReceiveDiscard>;

/// A buffer for what is on the wire, if anything is going to be in it.
pub(super) fn buffer(reassemble: bool) -> SduBuffer {
    if reassemble { SduBuffer::new(super::WIRE, MTU + 14) } else { SduBuffer::none() }
}

/// One burst through `SecY::verify`.
pub(crate) fn verify(
    secy: &mut SecY,
    now: Instant,
    frames: &[Vec<u8>],
    buffer: &mut SduBuffer,
) -> Vec<Result<Vec<Vec<u8>>, ReceiveDiscard>> {
    let mut chunks = frames.to_vec();
    let mut burst: Vec<_> = chunks.iter_mut().map(|chunk| Incoming::new(whole(chunk))).collect();
    secy.verify(now, &mut burst, buffer);
    let done = |incoming: Incoming<'_>| {
        let octets = incoming.frame().octets().to_vec();
        Ok(match incoming.into_outcome()? {
            Delivered::Whole(_) => vec![octets],
            Delivered::Separated(numbers, _) => buffer.sdus(numbers).map(<[u8]>::to_vec).collect(),
        })
    };
    burst.into_iter().map(done).collect()
}

/// A frame before it is protected, and its layout.
pub(crate) type Assembled = (Vec<u8>, Option<FrameLayout>);

/// Copies SDUs together as planned.
pub(crate) fn carry_out(plan: &Plan, sdus: &[Vec<u8>]) -> Vec<Assembled> {
    let assemble = |frame| {
        let parts = plan.fragments(frame);
        let mut octets = sdus[parts[0].sdu][..12].to_vec();
        for part in parts {
            assert_eq!(octets[..12], sdus[part.sdu][..12], "SDUs of a frame share DA and SA");
            octets.extend(&sdus[part.sdu][12..][part.octets.clone()]);
        }
        octets
    };
    plan.frames().iter().map(|frame| (assemble(frame), frame.layout)).collect()
}

/// One burst through `SecY::protect`.
pub(crate) fn protect(secy: &mut SecY, frames: &[Assembled]) -> Vec<Result<Vec<u8>, TransmitDiscard>> {
    let room = |(octets, layout): &Assembled| {
        let padding = layout.and_then(|layout| layout.padding).map_or(0, usize::from);
        [&[0; ROOM], &octets[..], &[0; ROOM], &vec![0x77; padding][..]].concat()
    };
    let mut chunks: Vec<_> = frames.iter().map(room).collect();
    let outgoing = |(chunk, (octets, layout)): (_, &Assembled)| {
        let frame = Frame::new(chunk, ROOM, octets.len()).expect("invariant: inside");
        match layout {
            Some(layout) => Outgoing::with_layout(frame, *layout),
            None => Outgoing::new(frame),
        }
    };
    let mut burst: Vec<_> = chunks.iter_mut().map(Vec::as_mut_slice).zip(frames).map(outgoing).collect();
    secy.protect(&mut burst);
    burst
        .into_iter()
        .map(|outgoing| {
            let octets = outgoing.frame().octets().to_vec();
            outgoing.into_outcome().map(|_| octets)
        })
        .collect()
}

fn whole(chunk: &mut [u8]) -> Frame<'_> {
    let len = chunk.len();
    Frame::new(chunk, 0, len).expect("invariant: the frame lies inside its chunk")
}

/// A frame that was sent.
#[derive(Clone)]
pub(super) struct Sent {
    /// The SDU, if the frame is one.
    pub(super) sdu: Option<Vec<u8>>,
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
    /// SDUs that were sent in fragmented frames, and with replay protection not delivered yet.
    fragmented: HashSet<Vec<u8>>,
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
            fragmented: HashSet::new(),
            given: 0,
            number: 0,
        }
    }

    pub(super) fn antedate(&mut self) {
        self.secy.antedate();
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
            protection(&self.setup),
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
        if !self.setup.protect_frames || self.setup.fragment & 3 == 0 {
            return self.send(sdus.into_iter().map(|sdu| (sdu, None)).collect());
        }
        let settings = settings(&self.setup);
        let rules = Rules::new(&settings, self.setup.fragment & 1 != 0, self.setup.fragment & 2 != 0);
        let mut plan = Plan::new(sdus.len(), &rules);
        let described: Vec<_> = sdus
            .iter()
            .map(|sdu| Sdu::of(sdu, &ExpressClasses::default()).expect("invariant: a header"))
            .collect();
        plan.make(&rules, &described);
        let frames = carry_out(&plan, &sdus);
        let whole = |sdu: &Vec<u8>| frames.iter().any(|(octets, layout)| layout.is_none() && octets == sdu);
        self.fragmented.extend(sdus.into_iter().filter(|sdu| !whole(sdu)));
        self.send(frames)
    }

    /// One SDU of any octets.
    pub(super) fn protect_raw(&mut self, octets: Vec<u8>) -> Vec<Vec<u8>> {
        self.send(vec![(octets, None)])
    }

    /// Whether `sdu` was sent in fragmented frames; with replay protection it says so once.
    pub(super) fn take_fragmented(&mut self, sdu: &[u8]) -> bool {
        if self.setup.replay_protect { self.fragmented.remove(sdu) } else { self.fragmented.contains(sdu) }
    }

    fn send(&mut self, frames: Vec<Assembled>) -> Vec<Vec<u8>> {
        let sa = self.secy.encoding_sa().and_then(|an| self.secy.transmit_sas().find(|sa| sa.an() == an));
        let sa = sa.map(|sa| (sa.an(), sa.pns().next(), sa.pns().reserved().number()));
        let outcomes = protect(&mut self.secy, &frames);
        self.given += frames.len() as u64;
        let (mut out, mut taken) = (Vec::new(), 0);
        for ((sdu, layout), outcome) in frames.into_iter().zip(outcomes) {
            let Ok(frame) = outcome else { continue };
            assert!(frame.len() <= MTU + 14, "no frame exceeds the MTU");
            if self.setup.protect_frames {
                let (an, next, reserved) = sa.expect("without an SA nothing is sent");
                let pn = next.expect("without a PN nothing is sent").number() + taken;
                taken += 1;
                assert!(pn <= reserved && pn <= suite(&self.setup).last_pn().number());
                self.note(layout.is_none().then_some(sdu), &frame, an, pn);
            } else {
                assert_eq!(frame, sdu);
            }
            out.push(frame);
        }
        self.balance();
        out
    }

    fn note(&mut self, sdu: Option<Vec<u8>>, frame: &[u8], an: An, pn: u64) {
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

    /// Record of `frame` as it was sent, if it is a sent frame, or a short one with padding behind it.
    pub(super) fn sent_as(&self, frame: &[u8]) -> Option<&Sent> {
        self.sent.get(frame).or_else(|| {
            let tag = SecTag::parse(frame.get(12..)?).ok()?;
            let headers =
                if tag.extended { extension::count(&frame[12 + tag.octets()..]).ok()? * 2 } else { 0 };
            let octets = 12 + tag.octets() + headers + tag.short_length?.octets() + 16;
            let sent = self.sent.get(frame.get(..octets)?)?;
            (sent.short && sent.octets == octets).then_some(sent)
        })
    }

    /// Each SDU, or fragmented frame, is counted once.
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
