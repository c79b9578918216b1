//! Counters and reception of a SecY, as words: for a SecY with the same SAs in the program that follows this one.
//!
//! ```text
//!  SecYCounters | TransmitSaCounters of retired SAs | number of transmit SAs | each: AN | TransmitSaCounters
//!  number of SCs | each: SCI | ReceiveSaCounters of retired SAs | number of SAs
//!                        | each: AN | highest PN | floor | window in PNs | its blocks | ReceiveSaCounters
//!                        | number of fragments that wait
//!                        | each: AN | PN | 1 if CF, 2 if MF, 4 if addresses are inside | DA, SA and zeros (2 words) | octets | these, and zeros
//! ```
//!
//! Left out on purpose: keys; the next PN of a transmit SA, which whoever makes the SA gives it; the age of fragments, which begins anew.

use alloc::vec::Vec;

use wire::{An, Instant, Sci};

use crate::counters::{ReceiveSaCounters, SecYCounters, TransmitSaCounters};
use crate::reassemble::{Fragment, Reassembler};
use crate::replay_window::ReplayWindow;
use crate::table::SecY;

/// Reason why words are not those of this SecY. It is unfit for use then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PassedOnError {
    /// There are fewer than they say.
    Short,
    /// There are more.
    Long,
    /// They name an SC, or a number of SCs, that the SecY does not have.
    Sc,
    /// They name an SA, or a number of SAs, that the SC does not have.
    Sa,
    /// Its replay window is of another width.
    Window,
    /// It has no room for fragments that wait, or they are none.
    Fragments,
}

impl core::fmt::Display for PassedOnError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Short => "its state is cut short",
            Self::Long => "its state is too long",
            Self::Sc => "its state is that of other SCs",
            Self::Sa => "its state is that of other SAs",
            Self::Window => "its state has a replay window of another width",
            Self::Fragments => "its state has fragments for which there is no room",
        })
    }
}

impl core::error::Error for PassedOnError {}

/// The words that are left to be read.
#[derive(Clone, Copy, Debug)]
pub struct Words<'w>(&'w [u64]);

impl<'w> Words<'w> {
    /// All of them.
    pub const fn new(words: &'w [u64]) -> Self {
        Self(words)
    }

    /// The next ones.
    ///
    /// # Errors
    /// [`PassedOnError::Short`].
    pub fn take<const N: usize>(&mut self) -> Result<[u64; N], PassedOnError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(PassedOnError::Short)?;
        self.0 = rest;
        Ok(*taken)
    }

    /// The next one.
    fn one(&mut self) -> Result<u64, PassedOnError> {
        self.take().map(|[word]| word)
    }

    /// The next `count` ones.
    ///
    /// # Errors
    /// [`PassedOnError::Short`].
    pub fn many(&mut self, count: usize) -> Result<&'w [u64], PassedOnError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(PassedOnError::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    /// Nothing is left.
    ///
    /// # Errors
    /// [`PassedOnError::Long`].
    pub const fn end(self) -> Result<(), PassedOnError> {
        if self.0.is_empty() { Ok(()) } else { Err(PassedOnError::Long) }
    }
}

impl SecY {
    /// Appends what it has counted and received.
    pub fn pass_on(&self, into: &mut Vec<u64>) {
        into.extend(self.counters.values());
        into.extend(self.transmit_retired.values());
        into.push(self.transmit_sas().count() as u64);
        for sa in self.transmit_sas() {
            into.push(sa.an.index() as u64);
            into.extend(sa.counters.values());
        }
        into.push(self.receive.len() as u64);
        for sc in &self.receive {
            into.push(u64::from_be_bytes(sc.sci().octets()));
            into.extend(sc.retired().values());
            into.push(sc.sas().count() as u64);
            for sa in sc.sas() {
                into.push(sa.an.index() as u64);
                sa.window.pass_on(into);
                into.extend(sa.counters.values());
            }
            sc.reassembler().pass_on(into);
        }
    }

    /// Goes on where another SecY with the same receive SAs was. PNs that it received are fresh never again.
    ///
    /// # Errors
    /// [`PassedOnError`].
    pub fn go_on(&mut self, words: &mut Words<'_>) -> Result<(), PassedOnError> {
        self.counters = SecYCounters::from_values(words.take()?);
        self.transmit_retired = TransmitSaCounters::from_values(words.take()?);
        if words.one()? != self.transmit_sas().count() as u64 {
            return Err(PassedOnError::Sa);
        }
        for _ in 0..self.transmit_sas().count() {
            let an = words.one()?;
            let mut sas = self.transmit.iter_mut().flatten();
            let sa = sas.find(|sa| sa.an.index() as u64 == an).ok_or(PassedOnError::Sa)?;
            sa.counters = TransmitSaCounters::from_values(words.take()?);
        }
        if words.one()? != self.receive.len() as u64 {
            return Err(PassedOnError::Sc);
        }
        for _ in 0..self.receive.len() {
            let sci = words.one()?;
            let is_meant = |sci_of: Sci| u64::from_be_bytes(sci_of.octets()) == sci;
            let sc = self.receive.iter_mut().find(|sc| is_meant(sc.sci())).ok_or(PassedOnError::Sc)?;
            sc.set_retired(ReceiveSaCounters::from_values(words.take()?));
            if words.one()? != sc.sas().count() as u64 {
                return Err(PassedOnError::Sa);
            }
            for _ in 0..sc.sas().count() {
                let an = words.one()?;
                let is_meant = |an_of: An| an_of.index() as u64 == an;
                let sa = sc.sas_mut().find(|sa| is_meant(sa.an)).ok_or(PassedOnError::Sa)?;
                sa.window.go_on(words)?;
                sa.counters = ReceiveSaCounters::from_values(words.take()?);
            }
            sc.reassembler_mut().go_on(words)?;
        }
        Ok(())
    }
}

const CONTINUES: u64 = 1;
const CONTINUED: u64 = 2;
const WITH_ADDRESSES: u64 = 4;

impl Reassembler {
    fn pass_on(&self, into: &mut Vec<u64>) {
        into.push(self.len() as u64);
        for (fragment, octets) in self.fragments() {
            let Fragment { an, pn, addresses, with_addresses, continues, continued, at: _ } = fragment;
            let flags = if *continues { CONTINUES } else { 0 }
                | if *continued { CONTINUED } else { 0 }
                | if *with_addresses { WITH_ADDRESSES } else { 0 };
            into.extend([an.index() as u64, *pn, flags]);
            into.extend(in_words(addresses));
            into.push(octets.len() as u64);
            into.extend(in_words(octets));
        }
    }

    fn go_on(&mut self, words: &mut Words<'_>) -> Result<(), PassedOnError> {
        let mut octets = Vec::new();
        for _ in 0..words.one()? {
            let [an, pn, flags] = words.take()?;
            let an = u8::try_from(an).ok().and_then(An::new).ok_or(PassedOnError::Fragments)?;
            let [first, second] = words.take()?.map(u64::to_be_bytes);
            let mut addresses = [0; 12];
            addresses.iter_mut().zip(first.into_iter().chain(second)).for_each(|(to, from)| *to = from);
            let len = usize::try_from(words.one()?).map_err(|_| PassedOnError::Fragments)?;
            octets.clear();
            octets.extend(words.many(len.div_ceil(8))?.iter().flat_map(|word| word.to_be_bytes()).take(len));
            let (continues, continued) = (flags & CONTINUES != 0, flags & CONTINUED != 0);
            let fragment = Fragment {
                an,
                pn,
                addresses,
                with_addresses: flags & WITH_ADDRESSES != 0,
                continues,
                continued,
                at: Instant::START,
            };
            if self.hold(&fragment, &octets) > 0 {
                return Err(PassedOnError::Fragments);
            }
        }
        Ok(())
    }
}

/// Octets, eight in a word, with zeros behind the last one.
pub fn in_words(octets: &[u8]) -> impl Iterator<Item = u64> {
    octets.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
        u64::from_be_bytes(word)
    })
}

impl ReplayWindow {
    fn pass_on(&self, into: &mut Vec<u64>) {
        let [highest, floor, window] = self.edges();
        into.extend([highest, floor, window]);
        into.extend(self.blocks());
    }

    fn go_on(&mut self, words: &mut Words<'_>) -> Result<(), PassedOnError> {
        let edges = words.take()?;
        let [_, _, window] = self.edges();
        if edges[2] != window {
            return Err(PassedOnError::Window);
        }
        self.set(edges, words.many(self.blocks().len())?);
        Ok(())
    }
}
