//! Key agreement of a link for the next program of its process: its KaY, its SAs, and the frames that wait for the KaY.

use std::collections::VecDeque;
use std::time::Instant;

use mka::{CakEntry, Kay, PassedKay};
use secy::SecY;
use serde::{Deserialize, Serialize};

use super::{Agreement, KeyAgreement, names};
use crate::sa_table::{PassedSas, SaTable};
use dataplane::link::Link;

/// State of a link's key agreement for the next program. No secret is in it.
#[derive(Debug, Serialize, Deserialize)]
pub struct PassedAgreement {
    kay: PassedKay,
    sas: PassedSas,
    /// Frames from the wire that the KaY has not heard yet.
    waiting: Vec<Vec<u8>>,
}

impl PassedAgreement {
    /// Form of it. Another form of what is in it is another number here; that of the KaY's state has a number of its own
    /// ([`mka::PASSED_KAY_FORM`]).
    pub const FORM: u32 = 2;

    /// Takes it as [`Gateway::go_on_agreed`](crate::Gateway::go_on_agreed) does, into a link that nobody has, and lets it go. `clock_start` is zero of
    /// the KaYs' clock.
    ///
    /// # Errors
    /// Why no link can go on with it, in words.
    pub fn try_to_go_on(
        self,
        mut link: Link,
        agreement: KeyAgreement,
        clock_start: Instant,
    ) -> Result<(), String> {
        let now = Instant::now();
        let moment = wire::Instant::after_start(now.saturating_duration_since(clock_start));
        // No random value of this KaY is ever used.
        Agreement::go_on(now, moment, &mut link, agreement, self, &[0; 32]).map(drop)
    }

    /// Checks that these are its CAKs, the preferred one first.
    ///
    /// # Errors
    /// In words.
    pub fn check_caks(&self, caks: &[CakEntry]) -> Result<(), String> {
        self.kay.check_caks(caks).map_err(|error| error.to_string())
    }
}

impl Agreement {
    /// True if nothing is under way between KaY and SecY.
    pub(crate) fn is_settled(&self) -> bool {
        self.pass_on_to_be_judged().is_some()
    }

    /// State for the next program, as far as a program can be judged by it: without PNs, windows and frames that wait.
    pub(crate) fn pass_on_to_be_judged(&self) -> Option<PassedAgreement> {
        Some(PassedAgreement {
            kay: self.kay.pass_on()?,
            sas: self.table.pass_on(&self.kay, None)?,
            waiting: Vec::new(),
        })
    }

    /// State for the next program. `secy` is that of its link, which has left its worker. Nothing is lost if it is not used.
    /// None while something is under way.
    pub(crate) fn pass_on(&mut self, secy: &SecY) -> Option<PassedAgreement> {
        if self.record.is_some() {
            return None;
        }
        self.waiting.extend(std::iter::from_fn(|| self.mailbox.receive()));
        Some(PassedAgreement {
            kay: self.kay.pass_on()?,
            sas: self.table.pass_on(&self.kay, Some(secy))?,
            waiting: self.waiting.iter().map(|frame| frame.to_vec()).collect(),
        })
    }

    /// Goes on in a link whose SecY has no SC and no SA, and which gets those that were passed on. `seed`: of new random values.
    ///
    /// # Errors
    /// In words.
    pub(crate) fn go_on(
        now: Instant,
        moment: wire::Instant,
        link: &mut Link,
        agreement: KeyAgreement,
        passed: PassedAgreement,
        seed: &[u8; 32],
    ) -> Result<Self, String> {
        let fragmenters = agreement.fragmenters();
        let KeyAgreement { settings, caks, replay_window, antedate, beside_stations, .. } = agreement;
        let PassedAgreement { kay, sas, waiting } = passed;
        let own_ckns = beside_stations.then(|| names(&caks));
        let express = settings.announced.express;
        let kay = Kay::go_on(moment, kay, settings, caks, seed).map_err(|error| error.to_string())?;
        let mut table = SaTable::new(&link.pipeline().secy, replay_window, fragmenters, antedate, express);
        table.go_on(sas, &kay, link)?;
        let mailbox = link.pipeline_mut().connect_kay();
        let waiting: Option<VecDeque<_>> =
            waiting.iter().map(|frame| mka::Frame::try_from(&frame[..]).ok()).collect();
        let waiting = waiting.ok_or("a frame is too long")?;
        Ok(Self { kay, mailbox, waiting, table, pns_due: now, own_ckns, record: None })
    }
}
