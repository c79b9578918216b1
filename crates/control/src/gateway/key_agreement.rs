//! Links whose keys are agreed on: what their KaYs are given.

use std::io;
use std::time::Instant;

use dataplane::link::Link;
use dataplane::pipeline::Pipeline;
use zeroize::Zeroizing;

use super::Gateway;
use crate::WorkerUnresponsive;
use crate::key_agreement::{Agreement, Context, KeyAgreement, KeyAgreementStatus, PassedAgreement};
use crate::link::Keys;
use crate::sa_changes::{NextPns, SaChanges};
use crate::workers::WorkerSlot;

/// Reason for which a link does not go on with the state passed on.
#[derive(Debug, thiserror::Error)]
pub enum NotGoneOn {
    /// There is no thread, or there are no random values.
    #[error(transparent)]
    System(#[from] io::Error),
    /// It is the state of another link, or of another program.
    #[error("{0}")]
    State(String),
}

impl Gateway {
    /// Adds a link whose keys are agreed on, and whose name no other has. Its SecY has no SA and no receive SC: nothing
    /// passes before there is a SAK. Otherwise as [`Gateway::add`].
    ///
    /// # Errors
    /// If a thread cannot be started, or not be scheduled as it should; if there are no random values.
    pub fn add_agreed(&mut self, name: String, mut link: Link, agreement: KeyAgreement) -> io::Result<()> {
        let (now, seed) = (Instant::now(), seed()?);
        let agreement = Agreement::begin(now, self.moment(now), &mut link, agreement, &seed);
        self.give_to_worker(name, link, Keys::Agreed(Box::new(agreement)))?;
        // The first MKPDU goes out at once, or with the first ports.
        self.speak(self.links.len() - 1, now);
        Ok(())
    }

    /// As [`Gateway::add_agreed`], but the link goes on where one of the program before was: with its SAs, PNs and windows (`words`:
    /// [`Link::pass_on`]), and as the same member of its group.
    ///
    /// # Errors
    /// [`NotGoneOn`].
    pub fn go_on_agreed(
        &mut self,
        name: String,
        mut link: Link,
        agreement: KeyAgreement,
        passed: PassedAgreement,
        words: &[u64],
    ) -> Result<(), NotGoneOn> {
        let (now, seed) = (Instant::now(), seed()?);
        let agreement = Agreement::go_on(now, self.moment(now), &mut link, agreement, passed, &seed);
        let agreement = agreement.map_err(NotGoneOn::State)?;
        link.go_on(words).map_err(|error| NotGoneOn::State(error.to_string()))?;
        Ok(self.give_to_worker(name, link, Keys::Agreed(Box::new(agreement)))?)
    }

    /// Puts another pipeline in the place of such a link's own between two turns, for other settings of its SecY. All SAs
    /// go on; the new pipeline's SecY has the same SCI, no SA and no receive SC. A change of `reassemble` or of the MTU
    /// wants [`Gateway::change_key_agreement`] too, so that the others hear of it.
    ///
    /// # Errors
    /// [`WorkerUnresponsive`]; also if there is no such link with key agreement, or the SCI is another one: such a link is
    /// removed and added.
    pub fn change_agreed(
        &mut self,
        name: &str,
        mut pipeline: Box<Pipeline>,
    ) -> Result<(), WorkerUnresponsive> {
        let number = self.number(name).ok_or(WorkerUnresponsive)?;
        let at = self.links[number].at();
        let agreement = self.links[number].agreement_mut().ok_or(WorkerUnresponsive)?;
        agreement.prepare(&mut pipeline, self.workers.handle_mut(at.worker), at.slot)?;
        let settings = *pipeline.secy.settings();
        let changed = self.exchange(number, pipeline, secy::CarryOver { all: true, ..Default::default() });
        if changed.is_ok()
            && let Some(agreement) = self.links[number].agreement_mut()
        {
            agreement.follow_pipeline(settings);
        }
        self.handle_held_events();
        changed.map(drop)
    }

    /// Gives such a link's KaY other settings and CAKs while it runs; the SCI must be the same. SAs that are installed
    /// stay as they are: the replay window is that of those to come.
    ///
    /// # Errors
    /// [`WorkerUnresponsive`]: there is no such link.
    pub fn change_key_agreement(
        &mut self,
        name: &str,
        agreement: KeyAgreement,
    ) -> Result<(), WorkerUnresponsive> {
        let number = self.number(name).ok_or(WorkerUnresponsive)?;
        let (kept, mut around) = self.agreement(number, Instant::now()).ok_or(WorkerUnresponsive)?;
        kept.change(agreement, &mut around);
        Ok(())
    }

    /// Asks for another SAK. False if there is no such link with key agreement.
    pub fn rekey(&mut self, name: &str) -> bool {
        let number = self.number(name);
        let Some((agreement, mut around)) = number.and_then(|number| self.agreement(number, Instant::now()))
        else {
            return false;
        };
        agreement.rekey(&mut around);
        true
    }

    /// The SAs of a link are the worker's from here on, in the kernel no more.
    ///
    /// # Errors
    /// [`WorkerUnresponsive`]: they are where they were.
    pub(super) fn leave_agreed(&mut self, number: usize) -> Result<(), WorkerUnresponsive> {
        if self.links[number].agreed_parts().is_none_or(|(agreement, ..)| !agreement.is_in_kernel()) {
            return Ok(());
        }
        self.while_held(number, |gateway| {
            if let Some((agreement, mut around)) = gateway.agreement(number, Instant::now()) {
                agreement.leave_kernel(&mut around);
            }
        })
    }

    /// The state of a link's key agreement; `None` if it has none.
    pub fn key_agreement_status(&self, name: &str) -> Option<KeyAgreementStatus> {
        let Keys::Agreed(agreement) = self.links[self.number(name)?].keys() else { return None };
        Some(agreement.status(self.moment(Instant::now())))
    }

    /// Gives a link's key agreement its turn.
    pub(super) fn turn_agreement(&mut self, number: usize, now: Instant) {
        if let Some((agreement, mut around)) = self.agreement(number, now) {
            agreement.turn(now, &mut around);
        }
    }

    /// Handles changes of SAs that were made. Keys that they took out are freed here.
    pub(super) fn sas_changed(&mut self, at: WorkerSlot, changes: SaChanges, now: Instant) {
        let number = self.number_at(at);
        let Some((agreement, mut around)) = number.and_then(|number| self.agreement(number, now)) else {
            return;
        };
        agreement.sas_changed(changes, &mut around);
    }

    /// Handles the next PNs.
    pub(super) fn next_pns(&mut self, at: WorkerSlot, pns: &NextPns, now: Instant) {
        let number = self.number_at(at);
        let Some((agreement, mut around)) = number.and_then(|number| self.agreement(number, now)) else {
            return;
        };
        agreement.next_pns(pns, &mut around);
    }

    /// The moment on the protocols' clock.
    pub(super) fn moment(&self, now: Instant) -> wire::Instant {
        wire::Instant::after_start(now.saturating_duration_since(self.start))
    }

    /// A link's key agreement, and its surroundings.
    fn agreement(&mut self, number: usize, now: Instant) -> Option<(&mut Agreement, Context<'_>)> {
        let now = self.moment(now);
        let at = self.links[number].at();
        let (agreement, kernel, link) = self.links[number].agreed_parts()?;
        let worker = self.workers.handle_mut(at.worker);
        Some((agreement, Context { now, worker, slot: at.slot, link, kernel, notices: &mut self.notices }))
    }
}

/// Seed of a KaY's random values.
fn seed() -> io::Result<Zeroizing<[u8; 32]>> {
    let mut seed = Zeroizing::new([0; 32]);
    getrandom::fill(&mut *seed).map_err(io::Error::from)?;
    Ok(seed)
}
