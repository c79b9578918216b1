//! SAs: a key, its protection, and its PNs or its replay window.

use suite::{Key, Nonce, Salt};
use wire::{An, Pn, Sci, Ssci};

use alloc::boxed::Box;

use crate::antedated::Antedated;
use crate::counters::{ReceiveSaCounters, TransmitSaCounters};
use crate::discard::TransmitDiscard;
use crate::replay_window::ReplayWindow;
use crate::settings::Protection;
use crate::transmit_pns::TransmitPns;

/// Reason why an SA or SC cannot be installed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InstallError {
    /// The AN already holds an SA: retire it first.
    AnInUse,
    /// The suite is XPN without SSCI and salt, or not XPN with them.
    XpnBinding,
    /// XPN suites have no confidentiality offset (clause 14.7).
    OffsetWithXpn,
    /// There is no receive SC with this SCI.
    UnknownSc,
    /// There is a receive SC with this SCI already, or it is the SCI of the transmit SC.
    SciInUse,
    /// There are as many receive SCs as a SecY holds.
    TooManyScs,
    /// No SA is installed under this AN.
    UnknownAn,
}

/// Replacement of the SCI in the nonce of an XPN suite (clause 10.7.13).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct XpnBinding {
    /// The short SCI, different for each SC that uses the key.
    pub ssci: Ssci,
    /// The salt, common to all of them.
    pub salt: Salt,
}

/// Key of an SA, with the inputs of its nonces and its protection.
#[derive(Debug)]
pub(crate) struct SaKey {
    pub(crate) key: Key,
    pub(crate) protection: Protection,
    xpn: Option<XpnBinding>,
}

impl SaKey {
    fn new(key: Key, xpn: Option<XpnBinding>, protection: Protection) -> Result<Self, InstallError> {
        if key.suite().is_xpn() != xpn.is_some() {
            Err(InstallError::XpnBinding)
        } else if xpn.is_some() && protection.has_offset() {
            Err(InstallError::OffsetWithXpn)
        } else {
            Ok(Self { key, protection, xpn })
        }
    }

    pub(crate) const fn is_xpn(&self) -> bool {
        self.xpn.is_some()
    }

    /// Nonce of the frame with `pn` in the SC `sci` (clauses 14.5 to 14.8).
    pub(crate) const fn nonce(&self, sci: Sci, pn: Pn) -> Nonce {
        match &self.xpn {
            None => Nonce::new(sci, pn),
            Some(XpnBinding { ssci, salt }) => Nonce::xpn(*ssci, pn, salt),
        }
    }
}

/// An SA that protects frames.
#[derive(Debug)]
pub struct TransmitSa {
    pub(crate) an: An,
    pub(crate) key: SaKey,
    pub(crate) pns: TransmitPns,
    pub(crate) counters: TransmitSaCounters,
    /// Reason why the previous frame of a chain was discarded: its continuation must not be sent.
    pub(crate) broken_chain: Option<TransmitDiscard>,
    /// Prepared keystreams of its next frames, if its key antedates.
    pub(crate) antedated: Option<Box<Antedated>>,
}

impl TransmitSa {
    /// An SA whose first frame gets `next_pn`. It may use the PNs up to `reserved` until
    /// [`SecY::reserve_through`](crate::SecY::reserve_through) permits more. Without PN leases `reserved` is [`Pn::LAST_64`].
    ///
    /// # Errors
    /// [`InstallError::XpnBinding`], [`InstallError::OffsetWithXpn`].
    pub fn new(
        an: An,
        key: Key,
        xpn: Option<XpnBinding>,
        protection: Protection,
        next_pn: Pn,
        reserved: Pn,
    ) -> Result<Self, InstallError> {
        let pns = TransmitPns::new(next_pn, reserved, key.suite().last_pn());
        let counters = TransmitSaCounters::default();
        let key = SaKey::new(key, xpn, protection)?;
        let antedated = Antedated::new(&key.key);
        Ok(Self { an, key, pns, counters, broken_chain: None, antedated })
    }

    /// The AN.
    pub const fn an(&self) -> An {
        self.an
    }

    /// Its protection.
    pub const fn protection(&self) -> Protection {
        self.key.protection
    }

    /// The remaining PNs.
    pub const fn pns(&self) -> &TransmitPns {
        &self.pns
    }

    /// Counters of frames sent under this SA.
    pub const fn counters(&self) -> &TransmitSaCounters {
        &self.counters
    }
}

/// An SA that verifies frames.
#[derive(Debug)]
pub struct ReceiveSa {
    pub(crate) an: An,
    pub(crate) in_use: bool,
    pub(crate) key: SaKey,
    pub(crate) window: ReplayWindow,
    pub(crate) counters: ReceiveSaCounters,
    /// Prepared keystreams of expected frames, if its key antedates.
    pub(crate) antedated: Option<Box<Antedated>>,
}

impl ReceiveSa {
    /// An SA that accepts no PN below `lowest_pn`, with a replay window of `replay_window` PNs (at most
    /// [`ReplayWindow::WIDEST`]).
    ///
    /// # Errors
    /// [`InstallError::XpnBinding`], [`InstallError::OffsetWithXpn`].
    pub fn new(
        an: An,
        key: Key,
        xpn: Option<XpnBinding>,
        protection: Protection,
        lowest_pn: Pn,
        replay_window: u32,
    ) -> Result<Self, InstallError> {
        let (window, counters) = (ReplayWindow::new(lowest_pn, replay_window), ReceiveSaCounters::default());
        let key = SaKey::new(key, xpn, protection)?;
        let antedated = Antedated::new(&key.key);
        Ok(Self { an, in_use: false, key, window, counters, antedated })
    }

    /// The AN.
    pub const fn an(&self) -> An {
        self.an
    }

    /// True once enabled.
    pub const fn in_use(&self) -> bool {
        self.in_use
    }

    /// The replay window.
    pub const fn window(&self) -> &ReplayWindow {
        &self.window
    }

    /// Counters of frames received under this SA.
    pub const fn counters(&self) -> &ReceiveSaCounters {
        &self.counters
    }
}
