//! The SecY's table of SCs and SAs (IEEE 802.1AE-2018 clause 10.7).
//!
//! ```text
//!  SecY ─┬─ TransmitSc ── SA by AN 0..3, one of them enabled (encodingSA)
//!        └─ ReceiveSc (several) ── SA by AN 0..3, each enabled or not (inUse)
//! ```
//!
//! A rekey loses no frame. The new SA is *installed* and *enabled* on the receivers, then enabled on the
//! sender. The old one is *retired* when frames in flight under it have arrived. The caller decides when:
//! there is no clock here.

use crate::counters::{SecYCounters, TransmitSaCounters};
use crate::receive_sc::ReceiveSc;
use crate::sa::{InstallError, ReceiveSa, TransmitSa};
use crate::settings::{Settings, ValidateFrames};
use crate::transmit_pns::NextAction;
use alloc::boxed::Box;
use alloc::vec::Vec;
use wire::{An, Pn, Sci};

/// One MAC Security Entity.
#[derive(Debug)]
pub struct SecY {
    pub(crate) sci: Sci,
    pub(crate) settings: Settings,
    pub(crate) counters: SecYCounters,
    pub(crate) transmit: [Option<Box<TransmitSa>>; An::COUNT],
    pub(crate) encoding_sa: Option<An>,
    pub(crate) transmit_retired: TransmitSaCounters,
    pub(crate) receive: Vec<ReceiveSc>,
    pub(crate) last_unmatched: Option<UnmatchedFrame>,
}

/// A received frame without an SA.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnmatchedFrame {
    /// SCI that it claims explicitly or by its source address; `None` if it claims none.
    pub sci: Option<Sci>,
    /// Its AN.
    pub an: An,
}

impl SecY {
    /// Most receive SCs of a SecY. The SC of a frame is searched among them.
    pub const RECEIVE_SCS: usize = 32;

    /// A SecY that transmits as `sci`. Without an SA it discards every SDU and every protected frame.
    pub fn new(sci: Sci, settings: Settings) -> Self {
        // Unverified data must not be joined to verified data.
        let strict = settings.validate_frames == ValidateFrames::Strict;
        let settings = Settings { reassemble: settings.reassemble && strict, ..settings };
        Self {
            sci,
            settings,
            counters: SecYCounters::default(),
            transmit: [const { None }; An::COUNT],
            encoding_sa: None,
            transmit_retired: TransmitSaCounters::default(),
            receive: Vec::with_capacity(Self::RECEIVE_SCS),
            last_unmatched: None,
        }
    }

    /// The SCI of the transmit SC.
    pub const fn sci(&self) -> Sci {
        self.sci
    }

    /// The management variables.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The counters that belong to no SC.
    pub const fn counters(&self) -> &SecYCounters {
        &self.counters
    }

    /// The last frame that was discarded for lack of an SA.
    pub const fn last_unmatched(&self) -> Option<UnmatchedFrame> {
        self.last_unmatched
    }

    /// Installs a transmit SA. It protects nothing before it is enabled. A retired SA continues with its PNs;
    /// its counters start at zero, since the SC's sum has the old ones.
    ///
    /// # Errors
    /// With the SA, which is not installed.
    pub fn install_transmit(
        &mut self,
        mut sa: Box<TransmitSa>,
    ) -> Result<(), (InstallError, Box<TransmitSa>)> {
        let slot = &mut self.transmit[sa.an.index()];
        if slot.is_some() {
            return Err((InstallError::AnInUse, sa));
        }
        sa.counters = TransmitSaCounters::default();
        *slot = Some(sa);
        Ok(())
    }

    /// Makes the SA under `an` the one that protects frames (`encodingSA`). The previous one stays installed.
    ///
    /// # Errors
    /// [`InstallError::UnknownAn`].
    pub fn enable_transmit(&mut self, an: An) -> Result<(), InstallError> {
        self.transmit[an.index()].as_ref().ok_or(InstallError::UnknownAn)?;
        self.encoding_sa = Some(an);
        Ok(())
    }

    /// Removes the transmit SA under `an`. If it was the enabled one, SDUs are discarded from now on.
    pub fn retire_transmit(&mut self, an: An) -> Option<Box<TransmitSa>> {
        let sa = self.transmit[an.index()].take()?;
        self.transmit_retired.add(&sa.counters);
        self.encoding_sa = self.encoding_sa.filter(|&encoding| encoding != an);
        Some(sa)
    }

    /// Permits the transmit SA under `an` the PNs up to and including `reserved`.
    ///
    /// # Errors
    /// [`InstallError::UnknownAn`].
    pub fn reserve_through(&mut self, an: An, reserved: Pn) -> Result<(), InstallError> {
        let sa = self.transmit[an.index()].as_mut().ok_or(InstallError::UnknownAn)?;
        sa.pns.reserve_through(reserved);
        Ok(())
    }

    /// Takes no PN above `through` under `an` from here on, whatever was reserved: another SecY with this SA takes them.
    ///
    /// # Errors
    /// [`InstallError::UnknownAn`].
    pub fn limit_transmit(&mut self, an: An, through: Pn) -> Result<(), InstallError> {
        self.transmit[an.index()].as_mut().ok_or(InstallError::UnknownAn)?.pns.limit(through);
        Ok(())
    }

    /// Creates a receive SC.
    ///
    /// # Errors
    /// [`InstallError::SciInUse`], [`InstallError::TooManyScs`].
    pub fn install_receive_sc(&mut self, sci: Sci) -> Result<(), InstallError> {
        let mut sc = Some(ReceiveSc::new(sci, self.settings.reassemble));
        self.install_prepared_sc(&mut sc)
    }

    /// Installs a receive SC that was prepared where time does not matter. A refused SC stays in `prepared`.
    ///
    /// # Errors
    /// [`InstallError::SciInUse`], [`InstallError::TooManyScs`].
    pub fn install_prepared_sc(&mut self, prepared: &mut Option<ReceiveSc>) -> Result<(), InstallError> {
        let taken = |sci| sci == self.sci || self.receive.iter().any(|sc| sc.sci() == sci);
        if prepared.as_ref().is_some_and(|sc| taken(sc.sci())) {
            return Err(InstallError::SciInUse);
        }
        if self.receive.len() == Self::RECEIVE_SCS {
            return Err(InstallError::TooManyScs);
        }
        self.receive.extend(prepared.take());
        Ok(())
    }

    /// Removes a receive SC with its SAs.
    pub fn retire_receive_sc(&mut self, sci: Sci) -> Option<ReceiveSc> {
        let index = self.receive.iter().position(|sc| sc.sci() == sci)?;
        Some(self.receive.swap_remove(index))
    }

    /// Installs a receive SA. It verifies nothing before it is enabled. A retired SA continues with its
    /// replay window; its counters start at zero, since the SC's sum has the old ones.
    ///
    /// # Errors
    /// With the SA, which is not installed.
    pub fn install_receive(
        &mut self,
        sci: Sci,
        sa: Box<ReceiveSa>,
    ) -> Result<(), (InstallError, Box<ReceiveSa>)> {
        match self.receive_sc(sci) {
            Ok(sc) => sc.install(sa),
            Err(unknown) => Err((unknown, sa)),
        }
    }

    /// Lets the SA under `an` verify frames (`inUse`). The SC's other SAs stay in use.
    ///
    /// # Errors
    /// [`InstallError::UnknownSc`], [`InstallError::UnknownAn`].
    pub fn enable_receive(&mut self, sci: Sci, an: An) -> Result<(), InstallError> {
        self.receive_sc(sci)?.enable(an)
    }

    /// Rejects PNs below `lowest_pn` under `an`: they were delayed (delay protection, IEEE 802.1X-2020 clause
    /// 9.10.1). Never permits a rejected PN again. At most one step for each 64 PNs of the window.
    ///
    /// # Errors
    /// [`InstallError::UnknownSc`], [`InstallError::UnknownAn`].
    pub fn raise_lowest(&mut self, sci: Sci, an: An, lowest_pn: Pn) -> Result<(), InstallError> {
        let replay_protect = self.settings.replay_protect;
        let sc = self.receive_sc(sci)?;
        sc.raise_lowest(an, lowest_pn)?;
        if replay_protect {
            sc.drop_late_fragments(an);
        }
        Ok(())
    }

    /// Rejects PNs above `through` under `an` as late: another SecY with this SA accepts them. Never permits a rejected PN again.
    ///
    /// # Errors
    /// [`InstallError::UnknownSc`], [`InstallError::UnknownAn`].
    pub fn limit_receive(&mut self, sci: Sci, an: An, through: Pn) -> Result<(), InstallError> {
        self.receive_sc(sci)?.limit(an, through)
    }

    /// Removes the receive SA under `an`: frames under it are discarded from now on.
    pub fn retire_receive(&mut self, sci: Sci, an: An) -> Option<Box<ReceiveSa>> {
        self.receive_sc(sci).ok()?.retire(an)
    }

    /// Removes the receive SAs under `an` from all SCs, while the iterator runs.
    pub fn retire_receive_everywhere(&mut self, an: An) -> impl Iterator<Item = Box<ReceiveSa>> + '_ {
        self.receive.iter_mut().filter_map(move |sc| sc.retire(an))
    }

    fn receive_sc(&mut self, sci: Sci) -> Result<&mut ReceiveSc, InstallError> {
        self.receive.iter_mut().find(|sc| sc.sci() == sci).ok_or(InstallError::UnknownSc)
    }

    /// The AN of the enabled transmit SA.
    pub const fn encoding_sa(&self) -> Option<An> {
        self.encoding_sa
    }

    /// The enabled transmit SA, and the PN of its next frame; `None` if there is none.
    pub fn next_pn(&self) -> Option<(An, Pn)> {
        let sa = self.enabled_sa()?;
        Some((sa.an(), sa.pns.next()?))
    }

    /// Whether the enabled transmit SA has a PN for the next frame, and for `more` others behind it.
    pub fn has_pns(&self, more: u16) -> bool {
        self.enabled_sa().is_some_and(|sa| sa.pns.first_of(more.into()).is_ok())
    }

    /// Action that the PNs of the enabled transmit SA need.
    pub fn next_action(&self) -> NextAction {
        self.enabled_sa().map_or(NextAction::Continue, |sa| sa.pns.next_action())
    }

    fn enabled_sa(&self) -> Option<&TransmitSa> {
        self.transmit[self.encoding_sa?.index()].as_deref()
    }

    /// The transmit SAs, in the order of their ANs.
    pub fn transmit_sas(&self) -> impl Iterator<Item = &TransmitSa> {
        self.transmit.iter().flatten().map(|sa| &**sa)
    }

    /// The sum over all transmit SAs, retired ones included.
    pub fn transmit_counters(&self) -> TransmitSaCounters {
        self.transmit_sas().fold(self.transmit_retired, |mut sum, sa| {
            sum.add(&sa.counters);
            sum
        })
    }

    /// The receive SCs.
    pub fn receive_scs(&self) -> impl Iterator<Item = &ReceiveSc> {
        self.receive.iter()
    }

    /// Fields that pass 1 of transmission needs, borrowed separately.
    pub(crate) fn transmitter(&mut self) -> (Sci, &Settings, &mut SecYCounters, Option<&mut TransmitSa>) {
        let sa = self.encoding_sa.and_then(|an| self.transmit[an.index()].as_deref_mut());
        (self.sci, &self.settings, &mut self.counters, sa)
    }
}
