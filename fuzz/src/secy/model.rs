//! The receiving side beside a model of it: sets of PNs where the SecY has a ring of bits.

use std::collections::HashSet;

use secy::ReceiveDiscard::{BadTag, Duplicate, Late};
use secy::{
    InstallError, ReceiveDiscard, ReceiveSa, ReceiveSaCounters, SduBuffer, SecY, Settings, ValidateFrames,
};
use wire::{An, Instant, Pn, SecTagError};

use super::Setup;
use super::secys::{self, RECEIVER, Sent, TRANSMITTER, Verdict, an};

/// State of an AN in the model.
#[derive(Default, Clone)]
struct Remembered {
    installed: bool,
    in_use: bool,
    /// The lowest PN at installation: above all that this AN has received before.
    floor: u64,
    highest: u64,
    seen: HashSet<u64>,
}

/// The receiving SecY and its model.
pub(super) struct Receiver {
    secy: SecY,
    setup: Setup,
    settings: Settings,
    ans: [Remembered; An::COUNT],
    /// The highest PNs before the burst at work: XPNs are recovered from these.
    before_burst: [u64; An::COUNT],
    received: u64,
    delivered: u64,
    buffer: SduBuffer,
}

impl Receiver {
    pub(super) fn new(setup: &Setup) -> Self {
        let settings = secys::settings(setup);
        let mut secy = SecY::new(RECEIVER, settings);
        secy.install_receive_sc(TRANSMITTER).expect("invariant: the first SC");
        let ans = Default::default();
        Self {
            secy,
            setup: *setup,
            settings,
            ans,
            before_burst: [0; 4],
            received: 0,
            delivered: 0,
            buffer: secys::buffer(setup.reassemble),
        }
    }

    pub(super) fn antedate(&mut self) {
        self.secy.antedate();
    }

    pub(super) fn install(&mut self, number: u8) {
        let remembered = &mut self.ans[an(number).index()];
        let Some(lowest) = remembered.highest.checked_add(1).and_then(Pn::new) else { return };
        let (key, xpn) = (crate::key::prepared(secys::suite(&self.setup)), secys::xpn(&self.setup));
        let sa = ReceiveSa::new(
            an(number),
            key,
            xpn,
            secys::protection(&self.setup),
            lowest,
            self.setup.window.into(),
        );
        let sa = sa.expect("invariant: the suite and its binding agree");
        match self.secy.install_receive(TRANSMITTER, Box::new(sa)) {
            Ok(()) => {
                assert!(!remembered.installed);
                (remembered.installed, remembered.floor) = (true, lowest.number());
                remembered.seen.clear();
            }
            Err((error, _)) => {
                assert!(error == InstallError::AnInUse && remembered.installed);
            }
        }
    }

    pub(super) fn enable(&mut self, number: u8) {
        let remembered = &mut self.ans[an(number).index()];
        let enabled = self.secy.enable_receive(TRANSMITTER, an(number)).is_ok();
        assert_eq!(enabled, remembered.installed);
        remembered.in_use |= enabled;
    }

    pub(super) fn retire(&mut self, number: u8) {
        let remembered = &mut self.ans[an(number).index()];
        let retired = self.secy.retire_receive(TRANSMITTER, an(number));
        assert_eq!(retired.is_some(), remembered.installed);
        (remembered.installed, remembered.in_use) = (false, false);
    }

    pub(super) fn verify(&mut self, burst: &[Vec<u8>]) -> Vec<Verdict> {
        self.before_burst = self.ans.each_ref().map(|remembered| remembered.highest);
        let outcomes = secys::verify(&mut self.secy, Instant::START, burst, &mut self.buffer);
        self.received += burst.len() as u64;
        self.delivered += outcomes.iter().filter(|outcome| outcome.is_ok()).count() as u64;
        outcomes
    }

    /// Whether what is delivered must have been sent.
    pub(super) fn is_strict(&self) -> bool {
        self.settings.validate_frames == ValidateFrames::Strict && !self.setup.strip_vlan
    }

    /// Holds the verdict on `frame` against the model. `sent` says what it was sent as, if nothing was changed.
    /// Exact for `validate_frames` strict; the other modes deliver what is not verified.
    pub(super) fn judge(&mut self, frame: &[u8], sent: Option<&Sent>, verdict: &Verdict) {
        let strict = self.settings.validate_frames == ValidateFrames::Strict;
        let Some(sent) = sent else {
            // Tags that were stripped from in front of the SecTAG leave a sent frame behind.
            if let (Ok(sdus), true, false) = (verdict, strict, self.setup.strip_vlan) {
                panic!("{frame:02x?} was never sent and came out as {sdus:02x?}");
            }
            return;
        };
        if let (Ok(sdus), Some(sdu)) = (verdict, &sent.sdu) {
            assert_eq!(sdus[..], *std::slice::from_ref(sdu));
        }
        let far = self.setup.xpn && self.before_burst[sent.an.index()].abs_diff(sent.pn) >= 1 << 31;
        if !strict || (far && verdict.is_err()) {
            return; // so far away that 32 bits need not name it
        }
        if sent.sdu.is_none() && !self.secy.settings().reassemble {
            assert_eq!(*verdict, Err(BadTag(SecTagError::ReservedBits)), "without agreement");
            return;
        }
        let expected = self.expected(sent);
        match (verdict, expected) {
            (Ok(_), Ok(())) => {}
            (Err(discard), Err(expected)) if *discard == expected => {}
            // Which of the two depends on where in a burst the window was moved.
            (Err(Late | Duplicate), Err(Late | Duplicate)) => {}
            (Ok(_), Err(expected)) => {
                panic!("PN {} of {:?} is delivered, not {expected:?}", sent.pn, sent.an)
            }
            (Err(discard), expected) => {
                panic!("PN {} of {:?} is {discard:?}, not {expected:?}", sent.pn, sent.an)
            }
        }
    }

    /// Verdict of the window's rule on a frame that is as it was sent; remembers its PN if it passes.
    fn expected(&mut self, sent: &Sent) -> Result<(), ReceiveDiscard> {
        let remembered = &mut self.ans[sent.an.index()];
        if !remembered.in_use {
            return Err(ReceiveDiscard::NoSaError);
        }
        if sent.sdu.is_none() && secys::protection(&self.setup).has_offset() {
            return Err(BadTag(SecTagError::ReservedBits));
        }
        if self.settings.replay_protect {
            let below = remembered.highest.checked_sub(sent.pn);
            if below.is_some_and(|below| below >= self.setup.window.into()) || sent.pn < remembered.floor {
                return Err(Late);
            }
            if !remembered.seen.insert(sent.pn) {
                return Err(Duplicate);
            }
        }
        remembered.highest = remembered.highest.max(sent.pn);
        Ok(())
    }

    /// Each frame is counted once, and those that were delivered as delivered.
    pub(super) fn balance(&self) {
        let secy = self.secy.counters();
        let mut sc = ReceiveSaCounters::default();
        self.secy.receive_scs().for_each(|of_sc| sc.add(&of_sc.counters()));
        let delivered = secy.in_pkts_untagged
            + secy.in_pkts_no_sa
            + sc.in_pkts_ok
            + sc.in_pkts_unchecked
            + sc.in_pkts_delayed
            + sc.in_pkts_invalid;
        let discarded = secy.in_pkts_no_tag
            + secy.in_pkts_bad_tag
            + secy.in_pkts_no_sa_error
            + secy.in_pkts_too_short
            + secy.in_pkts_clear_vlan
            + sc.in_pkts_late
            + sc.in_pkts_duplicate
            + sc.in_pkts_not_valid;
        assert_eq!(sc.in_pkts_malformed + sc.in_sdus_too_long, 0, "nothing of the kind is sent");
        assert_eq!(delivered, self.delivered, "delivered: {secy:?} {sc:?}");
        assert_eq!(delivered + discarded, self.received, "received: {secy:?} {sc:?}");
    }
}
