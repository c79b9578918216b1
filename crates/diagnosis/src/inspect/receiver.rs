//! One SA's receiver: the product's own SecY, with one SC and one SA.
//!
//! A SecY for each SA and not one for all: a file of keys may hold the keys that an SA had one after the other, and
//! a frame without SCI can belong to any SC. Each has its own replay window either way, and pieces of SDUs never
//! join across SAs.

use std::collections::VecDeque;

use secy::recover;
use secy::{
    ClearVlan, Delivered, Frame, Incoming, Protection, ReceiveDiscard, ReceiveSa, ReceiveSaCounters,
    SciInclusion, SduBuffer, SecY, SecYCounters, Settings, ValidateFrames, XpnBinding,
};
use suite::{CipherSuite, Key, Sak};
use wire::{An, Instant, Pn, Sci, SecTag};

use super::anatomy::Macsec;
use super::keys::{KeyedSa, Replay};
use config::sa_file::Begins;

/// Number of high halves of an XPN that are tried for a capture that begins in the middle.
const HIGH_HALVES: u64 = 1 << 12;
/// For how many frames they are tried.
const SEARCHES: u32 = 3;
/// Number of fragmented frames that are remembered, to name the frames of an SDU.
const REMEMBERED: usize = 128;

/// Fate of a frame.
#[derive(Debug)]
pub struct Outcome {
    /// The PN, with its high half if the suite has one.
    pub pn: u64,
    /// The SDUs that it delivers.
    ///
    /// # Errors
    /// Why it delivers none.
    pub result: Result<Vec<Sdu>, ReceiveDiscard>,
    /// The lowest PN that was acceptable.
    pub lowest: u64,
    /// The counters that it moved.
    pub moved: Vec<(&'static str, u64)>,
}

/// An SDU, and the frames that it came in.
#[derive(Debug)]
pub struct Sdu {
    /// DA, SA and what is behind them.
    pub octets: Vec<u8>,
    /// The numbers of the frames, the PNs in order; only that of the last to come if the others are not known.
    pub frames: Vec<u64>,
    /// The first and the last PN.
    pub pns: (u64, u64),
}

/// A fragmented frame that was verified.
#[derive(Clone, Copy, Debug)]
struct Fragmented {
    number: u64,
    pn: u64,
    continues: bool,
    carry_over: bool,
    segments: usize,
}

/// Verifies the frames of one SA.
#[derive(Debug)]
pub struct Receiver {
    secy: Option<SecY>,
    searches: u32,
    fragmented: VecDeque<Fragmented>,
    /// Frames that it has verified.
    pub verified: u64,
    /// The number of the last of them.
    pub last: u64,
}

impl Receiver {
    /// A receiver that has seen nothing.
    pub fn new(keyed: &KeyedSa) -> Self {
        let secy = match keyed.begins {
            Begins::At(lowest) => keyed.secy(lowest),
            // A PN of 32 bits has no half to be found.
            Begins::Unknown | Begins::High(_) if !keyed.suite.is_xpn() => keyed.secy(Pn::FIRST),
            Begins::Unknown | Begins::High(_) => None,
        };
        Self { secy, searches: 0, fragmented: VecDeque::new(), verified: 0, last: 0 }
    }

    /// Verifies the frame with this number.
    pub fn verify(
        &mut self,
        keyed: &KeyedSa,
        number: u64,
        octets: &[u8],
        macsec: &Macsec,
        now: Instant,
        buffer: &mut SduBuffer,
    ) -> Outcome {
        if self.secy.is_none() {
            self.begin(keyed, octets, &macsec.tag);
        }
        // Without a beginning the frame is judged as the first one of all, or of the half that is told.
        let mut first = None;
        let secy = match &mut self.secy {
            Some(secy) => secy,
            None => {
                let lowest = match keyed.begins {
                    Begins::High(high) => with_high(high.into(), &macsec.tag).unwrap_or(Pn::FIRST),
                    Begins::Unknown | Begins::At(_) => Pn::FIRST,
                };
                first.insert(keyed.secy(lowest)).as_mut().expect("invariant: the binding fits the suite")
            }
        };
        let (highest, lowest) = window(secy);
        let pn = keyed.pn(&macsec.tag, highest);
        let before = counters(secy);
        let result = open(secy, octets, now, buffer);
        let moved = moved(&before, &counters(secy));
        let result = result.map(|sdus| {
            (self.verified, self.last) = (self.verified + 1, number);
            self.remember(number, pn, macsec);
            self.sources(sdus, pn, number, macsec)
        });
        Outcome { pn, result, lowest, moved }
    }

    /// Finds the high half of the PN that the capture begins with.
    fn begin(&mut self, keyed: &KeyedSa, octets: &[u8], tag: &SecTag) {
        let highs = match keyed.begins {
            // One trial for each frame until one opens, however many are forged.
            Begins::High(high) => u64::from(high)..u64::from(high) + 1,
            Begins::Unknown | Begins::At(_) if self.searches < SEARCHES => {
                self.searches += 1;
                0..HIGH_HALVES
            }
            Begins::Unknown | Begins::At(_) => return,
        };
        let mut pns = highs.filter_map(|high| with_high(high, tag));
        let found = pns.find(|&pn| Trial::of(keyed).opens(pn, octets));
        if let Some(pn) = found {
            // Frames that were overtaken by this one are still to come.
            let window = match keyed.replay {
                Replay::Off => 0,
                Replay::Window(window) => window,
            };
            let lowest = Pn::new(pn.number().saturating_sub(window.into())).unwrap_or(Pn::FIRST);
            self.secy = keyed.secy(lowest);
        }
    }

    fn remember(&mut self, number: u64, pn: u64, macsec: &Macsec) {
        let Ok(segments) = &macsec.segments else { return };
        if !macsec.is_fragmented() {
            return;
        }
        if self.fragmented.len() == REMEMBERED {
            self.fragmented.pop_front();
        }
        self.fragmented.push_back(Fragmented {
            number,
            pn,
            continues: segments.continues(),
            carry_over: macsec.tag.more_fragments,
            segments: segments.lengths().len(),
        });
    }

    /// Says of each SDU which frames it came in: its own one, and for those put together the chain.
    fn sources(&self, sdus: Vec<Vec<u8>>, pn: u64, number: u64, macsec: &Macsec) -> Vec<Sdu> {
        let alone = |octets| Sdu { octets, frames: vec![number], pns: (pn, pn) };
        let Ok(segments) = &macsec.segments else { return sdus.into_iter().map(alone).collect() };
        let last = segments.lengths().len() - 1;
        let mut chains = Vec::new();
        for index in 0..=last {
            let (continues, carry_over) =
                (index == 0 && segments.continues(), index == last && macsec.tag.more_fragments);
            match (continues, carry_over) {
                (false, false) => chains.push(Some(Vec::new())),
                _ => chains.extend(self.chain(pn, continues, carry_over).map(Some)),
            }
        }
        // An SDU that was too long is missing: then only the last frame is sure.
        if chains.len() != sdus.len() {
            return sdus.into_iter().map(alone).collect();
        }
        sdus.into_iter()
            .zip(chains)
            .map(|(octets, chain)| match chain.unwrap_or_default() {
                chain if chain.is_empty() => alone(octets),
                chain => Sdu {
                    octets,
                    pns: (chain[0].pn, chain[chain.len() - 1].pn),
                    frames: chain.iter().map(|fragmented| fragmented.number).collect(),
                },
            })
            .collect()
    }

    /// The frames of the SDU that has a piece in the one with `pn`, if all are there.
    fn chain(&self, pn: u64, continues: bool, carry_over: bool) -> Option<Vec<Fragmented>> {
        let with = |pn| self.fragmented.iter().rev().find(|fragmented| fragmented.pn == pn).copied();
        let mut chain = VecDeque::from([with(pn)?]);
        let (mut at, mut more) = (pn, continues);
        while more {
            at -= 1;
            let before = with(at).filter(|before| before.carry_over)?;
            chain.push_front(before);
            more = before.segments == 1 && before.continues;
        }
        (at, more) = (pn, carry_over);
        while more {
            at += 1;
            let behind = with(at).filter(|behind| behind.continues)?;
            chain.push_back(behind);
            more = behind.segments == 1 && behind.carry_over;
        }
        Some(chain.into())
    }
}

impl KeyedSa {
    /// The PN of a frame, for a receiver that has seen the PNs up to `highest`.
    fn pn(&self, tag: &SecTag, highest: u64) -> u64 {
        if self.suite.is_xpn() { recover(tag.pn, highest).map_or(0, Pn::number) } else { tag.pn.into() }
    }

    fn secy(&self, lowest: Pn) -> Option<SecY> {
        let trial = Trial {
            replay: self.replay,
            clear_vlan: self.clear_vlan,
            reassemble: self.reassemble,
            ..Trial::of(self)
        };
        trial.secy(lowest)
    }
}

/// A receiver as it could be: what would open a frame.
#[derive(Clone, Copy, Debug)]
pub struct Trial<'k> {
    /// The cipher suite.
    pub suite: CipherSuite,
    /// The key.
    pub key: &'k Sak,
    /// The SCI.
    pub sci: Sci,
    /// The AN.
    pub an: An,
    /// SSCI and salt.
    pub xpn: Option<XpnBinding>,
    /// The confidentiality offset, as the SA has it.
    pub protection: Protection,
    pub(super) replay: Replay,
    pub(super) clear_vlan: ClearVlan,
    pub(super) reassemble: bool,
}

impl<'k> Trial<'k> {
    /// The SA as it is, without replay protection and with all that can be understood.
    pub fn of(keyed: &'k KeyedSa) -> Self {
        let KeyedSa { suite, sa, offset, .. } = keyed;
        Self {
            suite: *suite,
            key: &sa.key,
            sci: sa.sci,
            an: sa.an,
            xpn: sa.xpn,
            protection: Protection::Encrypt(*offset),
            replay: Replay::Off,
            clear_vlan: ClearVlan::Strip,
            reassemble: true,
        }
    }

    /// Whether the ICV of a frame with this PN is right for it.
    pub fn opens(&self, pn: Pn, octets: &[u8]) -> bool {
        let Some(mut secy) = self.secy(pn) else { return false };
        // Its SDUs have no place; they are not what is asked for.
        let result = open(&mut secy, octets, Instant::START, &mut SduBuffer::none());
        matches!(result, Ok(_) | Err(ReceiveDiscard::Malformed(_)))
    }

    fn secy(&self, lowest: Pn) -> Option<SecY> {
        // The own SCI plays no part, but it must not be that of the SC.
        let own = Sci::from_octets(self.sci.octets().map(|octet| !octet));
        let (replay_protect, window) = match self.replay {
            Replay::Off => (false, 0),
            Replay::Window(window) => (true, window),
        };
        let settings = Settings {
            protect_frames: true,
            sci_inclusion: SciInclusion::Always,
            validate_frames: ValidateFrames::Strict,
            replay_protect,
            clear_vlan: self.clear_vlan,
            mtu: 9216,
            reassemble: self.reassemble,
        };
        let key = Key::prepare(self.suite, self.key).ok()?;
        let sa = ReceiveSa::new(self.an, key, self.xpn, self.protection, lowest, window).ok()?;
        let mut secy = SecY::new(own, settings);
        secy.install_receive_sc(self.sci).ok()?;
        secy.install_receive(self.sci, Box::new(sa)).ok()?;
        secy.enable_receive(self.sci, self.an).ok()?;
        Some(secy)
    }
}

fn open(
    secy: &mut SecY,
    octets: &[u8],
    now: Instant,
    buffer: &mut SduBuffer,
) -> Result<Vec<Vec<u8>>, ReceiveDiscard> {
    let mut chunk = octets.to_vec();
    let frame = Frame::new(&mut chunk, 0, octets.len()).expect("invariant: a frame is as long as itself");
    let mut burst = [Incoming::new(frame)];
    secy.verify(now, &mut burst, buffer);
    let [incoming] = burst;
    let start = incoming.frame().start();
    let end = start + incoming.frame().len();
    Ok(match incoming.into_outcome()? {
        Delivered::Whole(_) => vec![chunk[start..end].to_vec()],
        Delivered::Separated(numbers, _) => buffer.sdus(numbers).map(<[u8]>::to_vec).collect(),
    })
}

/// The PN of a frame whose PN has this high half.
fn with_high(high: u64, tag: &SecTag) -> Option<Pn> {
    Pn::new(high << 32 | u64::from(tag.pn))
}

/// The highest PN received, and the lowest that is acceptable.
fn window(secy: &SecY) -> (u64, u64) {
    let sa = secy.receive_scs().flat_map(|sc| sc.sas()).next();
    sa.map_or((0, 1), |sa| (sa.window().highest(), sa.window().lowest()))
}

type Counters = (SecYCounters, ReceiveSaCounters);

fn counters(secy: &SecY) -> Counters {
    (*secy.counters(), secy.receive_scs().next().map(|sc| sc.counters()).unwrap_or_default())
}

/// The names of the counters that moved, and by how much; octets are left out.
fn moved(before: &Counters, after: &Counters) -> Vec<(&'static str, u64)> {
    let of_secy = SecYCounters::NAMES.iter().zip(before.0.values().into_iter().zip(after.0.values()));
    let of_sa = ReceiveSaCounters::NAMES.iter().zip(before.1.values().into_iter().zip(after.1.values()));
    let all = of_secy.chain(of_sa).map(|(name, (before, after))| (*name, after.wrapping_sub(before)));
    all.filter(|(name, by)| *by > 0 && !name.starts_with("InOctets")).collect()
}
