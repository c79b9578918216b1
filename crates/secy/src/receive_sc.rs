//! A receive SC: the frames of one transmitter. It has an SA for each AN, and the fragments that wait for their neighbours.

use alloc::boxed::Box;
use core::{iter, mem};
use wire::{An, Instant, Pn, Sci, Segments};

use crate::counters::ReceiveSaCounters;
use crate::reassemble::{Fragment, Reassembler};
use crate::sa::{InstallError, ReceiveSa};
use crate::sdu_buffer::{SduBuffer, TooLong};

/// A receive SC: the frames of one transmitter.
#[derive(Debug)]
pub struct ReceiveSc {
    sci: Sci,
    sas: [Option<Box<ReceiveSa>>; An::COUNT],
    retired: ReceiveSaCounters,
    /// Fragments of SDUs that wait for their neighbours.
    reassembler: Reassembler,
}

impl ReceiveSc {
    /// An SC without SAs, for a SecY with or without reassembly. Allocates, so that installing it does not.
    pub fn new(sci: Sci, reassemble: bool) -> Self {
        let retired = ReceiveSaCounters::default();
        Self { sci, sas: [const { None }; An::COUNT], retired, reassembler: Reassembler::new(reassemble) }
    }

    /// Fragments of SDUs that wait for their neighbours.
    pub const fn reassembler(&self) -> &Reassembler {
        &self.reassembler
    }

    pub(crate) const fn reassembler_mut(&mut self) -> &mut Reassembler {
        &mut self.reassembler
    }

    /// The SCI.
    pub const fn sci(&self) -> Sci {
        self.sci
    }

    /// The SAs, in the order of their ANs.
    pub fn sas(&self) -> impl Iterator<Item = &ReceiveSa> {
        self.sas.iter().flatten().map(|sa| &**sa)
    }

    pub(crate) fn sas_mut(&mut self) -> impl Iterator<Item = &mut ReceiveSa> {
        self.sas.iter_mut().flatten().map(|sa| &mut **sa)
    }

    /// The sum over all SAs, retired ones included.
    pub fn counters(&self) -> ReceiveSaCounters {
        self.sas().fold(self.retired, |mut sum, sa| {
            sum.add(&sa.counters);
            sum
        })
    }

    /// Counters of SAs that were retired.
    pub(crate) const fn retired(&self) -> &ReceiveSaCounters {
        &self.retired
    }

    pub(crate) const fn set_retired(&mut self, counters: ReceiveSaCounters) {
        self.retired = counters;
    }

    /// The SA under `an`, if it is in use.
    pub(crate) fn sa(&self, an: An) -> Option<&ReceiveSa> {
        self.sas[an.index()].as_deref().filter(|sa| sa.in_use)
    }

    /// The SA under `an`, if it is in use.
    pub(crate) fn sa_mut(&mut self, an: An) -> Option<&mut ReceiveSa> {
        self.sas[an.index()].as_deref_mut().filter(|sa| sa.in_use)
    }

    /// Installs an SA, not in use and with counters of zero.
    pub(crate) fn install(&mut self, mut sa: Box<ReceiveSa>) -> Result<(), (InstallError, Box<ReceiveSa>)> {
        let slot = &mut self.sas[sa.an.index()];
        if slot.is_some() {
            return Err((InstallError::AnInUse, sa));
        }
        (sa.in_use, sa.counters) = (false, ReceiveSaCounters::default());
        *slot = Some(sa);
        Ok(())
    }

    pub(crate) fn enable(&mut self, an: An) -> Result<(), InstallError> {
        self.sas[an.index()].as_mut().ok_or(InstallError::UnknownAn)?.in_use = true;
        Ok(())
    }

    pub(crate) fn raise_lowest(&mut self, an: An, lowest_pn: Pn) -> Result<(), InstallError> {
        self.sas[an.index()].as_mut().ok_or(InstallError::UnknownAn)?.window.raise(lowest_pn);
        Ok(())
    }

    pub(crate) fn limit(&mut self, an: An, through: Pn) -> Result<(), InstallError> {
        self.sas[an.index()].as_mut().ok_or(InstallError::UnknownAn)?.window.limit(through);
        Ok(())
    }

    pub(crate) fn retire(&mut self, an: An) -> Option<Box<ReceiveSa>> {
        let mut sa = self.sas[an.index()].take()?;
        sa.counters.in_pieces_retired += self.reassembler.retire(an);
        self.retired.add(&sa.counters);
        Some(sa)
    }

    /// Takes the SDUs of a verified frame to `buffer`, and joins its fragments to those that wait. `frame` is what they have in
    /// common, with the frame's CF and MF; `data` is divided as `segments` says. `None` without an SA under its AN.
    pub(crate) fn take_sdus(
        &mut self,
        frame: &Fragment,
        segments: &Segments,
        mut data: &[u8],
        buffer: &mut SduBuffer,
    ) -> Option<()> {
        let sa = self.sas[frame.an.index()].as_mut()?;
        let last = segments.lengths().len() - 1;
        for (index, &octets) in segments.lengths().iter().enumerate() {
            let segment;
            (segment, data) = data.split_at(octets.into());
            let continues = index == 0 && frame.continues;
            let continued = index == last && frame.continued;
            if !continues && !continued {
                match buffer.push(frame.front(), iter::once(segment)) {
                    Ok(()) => sa.counters.in_sdus_separated += 1,
                    Err(TooLong) => sa.counters.in_sdus_too_long += 1,
                }
                continue;
            }
            let fragment = Fragment { continues, continued, ..*frame };
            let outcome = self.reassembler.offer(&fragment, segment, buffer);
            sa.counters.in_sdus_reassembled += outcome.reassembled;
            sa.counters.in_sdus_too_long += outcome.too_long;
            sa.counters.in_pieces_overrun += outcome.overrun;
            sa.counters.in_pieces_mismatched += outcome.mismatched;
        }
        Some(())
    }

    /// Drops fragments past their lifetime, where no `lowest_pn` decides.
    pub(crate) fn expire_fragments(&mut self, now: Instant) {
        if self.reassembler.is_empty() {
            return;
        }
        let Self { reassembler, sas, .. } = self;
        reassembler.expire(now, |an| {
            if let Some(sa) = &mut sas[an.index()] {
                sa.counters.in_pieces_expired += 1;
            }
        });
    }

    /// Drops fragments that can no longer be completed, after `lowest_pn` of their SA has moved.
    pub(crate) fn drop_late_fragments(&mut self, an: An) {
        if self.reassembler.is_empty() {
            return;
        }
        if let Some(sa) = &mut self.sas[an.index()] {
            sa.counters.in_pieces_lost += self.reassembler.drop_below(an, sa.window.lowest());
        }
    }

    /// Takes over from the same SC of another SecY: the SAs that `stays` names, with their windows and counters, and all
    /// else that was counted. See [`SecY::take_over`](crate::SecY::take_over).
    pub(crate) fn take_over(&mut self, old: &mut Self, how: &ScHandover, stays: impl Fn(An) -> bool) {
        for an in An::ALL {
            let stays = how.all || stays(an);
            if !(stays && how.reassemble) {
                old.retired.in_pieces_retired += old.reassembler.retire(an);
            }
            let (own, before) = (&mut self.sas[an.index()], &mut old.sas[an.index()]);
            if how.all {
                *own = before.take();
                if let (false, Some(own)) = (how.marked, own) {
                    own.window.raise(Pn::new(own.window.highest().saturating_add(1)).unwrap_or(Pn::LAST_64));
                }
                continue;
            }
            let Some(before) = before else { continue };
            match (stays, own) {
                (true, Some(own)) => own.take_over(before, how.marked),
                _ => old.retired.add(&mem::take(&mut before.counters)),
            }
        }
        if how.reassemble {
            mem::swap(&mut self.reassembler, &mut old.reassembler);
        }
        self.retired.add(&mem::take(&mut old.retired));
    }
}

/// Conditions of a takeover that all SCs of a SecY share.
pub(crate) struct ScHandover {
    /// All SAs move unchanged.
    pub(crate) all: bool,
    /// PNs that were delivered are marked in the windows.
    pub(crate) marked: bool,
    /// Both ends reassemble.
    pub(crate) reassemble: bool,
}

impl ReceiveSa {
    /// Continues from `before`, with a window as wide as its own.
    fn take_over(&mut self, before: &mut Self, marked: bool) {
        self.window.take_over(&before.window, marked);
        self.counters = mem::take(&mut before.counters);
    }
}
