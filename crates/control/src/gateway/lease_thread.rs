//! Requests of a gateway to its thread for leases and floors, and the answers.

use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use pnstore::{LeaseError, LeaseStore, UnusedPns};

use super::Gateway;
use crate::Notice;
use crate::floors::Floor;
use crate::lease_thread::{Answer, DiskProbe, FIRST_PATIENCE, LAST_PATIENCE, PATIENCE, SILENT};

impl Gateway {
    /// Has the disk's thread work on leases and floors, and waits for it, for two seconds at most.
    ///
    /// # Errors
    /// [`LeaseError::Silent`]: the disk does not answer. It may be done later all the same.
    pub fn on_disk<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut LeaseStore) -> T + Send + 'static,
    ) -> Result<T, LeaseError> {
        self.lease_thread.ask(work, PATIENCE)
    }

    /// The same for what is to be undone if it is done too late, for nobody would know of it.
    ///
    /// # Errors
    /// [`LeaseError::Silent`]: it is as if it had not been done, or will be before anything else is.
    pub fn on_disk_or_undo<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut LeaseStore) -> T + Send + 'static,
        undo: impl FnOnce(&mut LeaseStore, T) + Send + 'static,
    ) -> Result<T, LeaseError> {
        self.lease_thread.ask_or_undo(work, undo, PATIENCE)
    }

    /// The same for a gateway whose links are not there yet, so that nobody else waits: for a minute at most.
    ///
    /// # Errors
    /// As [`Gateway::on_disk`].
    pub fn on_disk_at_start<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut LeaseStore) -> T + Send + 'static,
    ) -> Result<T, LeaseError> {
        self.lease_thread.ask(work, FIRST_PATIENCE)
    }

    /// Has the disk's thread work on leases and floors, and does not wait: the thread that made this gateway is woken when the
    /// answer is there. None comes if the disk's thread has ended.
    pub fn begin_on_disk<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut LeaseStore) -> T + Send + 'static,
    ) -> Receiver<T> {
        self.lease_thread.begin(work)
    }

    /// Whether the state directory could be written within the last two seconds: to be asked before the thread that turns KaYs waits
    /// for something there. None: it is being asked; [`Gateway::disk_has_just_answered`] says when to ask again. Never waits.
    ///
    /// # Errors
    /// [`LeaseError::Silent`], or why it cannot be written.
    pub fn probe_disk(&mut self, now: Instant) -> Option<Result<(), LeaseError>> {
        self.disk_has_just_answered(now);
        match std::mem::take(&mut self.disk_probe) {
            DiskProbe::Answered(at, Ok(())) if now.saturating_duration_since(at) < PATIENCE => {
                self.disk_probe = DiskProbe::Answered(at, Ok(()));
                return Some(Ok(()));
            }
            DiskProbe::Answered(_, Err(error)) => return Some(Err(error)),
            DiskProbe::UnderWay(answer) => self.disk_probe = DiskProbe::UnderWay(answer),
            DiskProbe::Unknown | DiskProbe::Answered(..) => {
                self.disk_probe = DiskProbe::UnderWay(self.lease_thread.begin(LeaseStore::probe));
            }
        }
        self.lease_thread.silent(now).map(|_| Err(self.lease_thread.silence(SILENT)))
    }

    /// Whether the disk's answer to [`Gateway::probe_disk`] has come since the last call.
    pub fn disk_has_just_answered(&mut self, now: Instant) -> bool {
        let DiskProbe::UnderWay(answer) = &self.disk_probe else { return false };
        match answer.try_recv() {
            Ok(answer) => {
                self.disk_probe = DiskProbe::Answered(now, answer);
                true
            }
            // Its thread has ended: it counts as a silent disk.
            Err(_) => false,
        }
    }

    /// Duration of the silence of the state directory's disk, if it does not answer.
    pub fn disk_silent(&self) -> Option<Duration> {
        self.lease_thread.silent(Instant::now())
    }

    /// Handles the answers of the disk.
    pub(super) fn handle_disk_replies(&mut self, now: Instant) {
        while let Some(answer) = self.lease_thread.next_answer() {
            match answer {
                Answer::Reserved { ticket, reservation } => self.reserved(ticket, reservation, now),
                Answer::Floors { read: Some(read), took, written } => {
                    self.notices.extend(self.floor_keeper.write_notice(read, took, written));
                }
                Answer::Floors { read: None, written, .. } => {
                    self.notices.extend(written.err().map(|error| Notice::FloorsFailed { error }));
                }
                Answer::Other => {}
            }
        }
        self.notices.extend(self.lease_thread.silence_notice(now));
    }

    /// Waits until all requests are done.
    pub(super) fn drain_disk(&mut self) {
        if self.lease_thread.ask(|_| (), LAST_PATIENCE).is_ok() {
            self.handle_disk_replies(Instant::now());
        }
    }

    /// Brings the last floors to disk and gives back unused PNs.
    pub(super) fn close_disk(mut self, floors: Vec<Floor>, unused: Vec<UnusedPns>) -> Result<(), LeaseError> {
        let last = move |leases: &mut LeaseStore| {
            let kept = leases.keep_floors(&floors).map(drop);
            kept.and(leases.give_back(&unused))
        };
        let done = self.lease_thread.ask(last, LAST_PATIENCE).and_then(|done| done);
        self.lease_thread.end();
        done
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;
    use dataplane::worker::Polling;
    use netdev::scheduling::Scheduling;
    use pnstore::{FIRST_BLOCK_PNS, LeaseName, PnBlock, Reservation};
    use wire::Pn;

    /// Whoever asks again and again, as a reload does, takes no answers meanwhile.
    #[test]
    fn an_answer_that_was_not_taken_is_no_silence() {
        let path = std::env::temp_dir().join(format!("frameward-disk-taken-{}", std::process::id()));
        let leases = LeaseStore::open(&path, None).unwrap();
        let mut gateway = Gateway::new(leases, Polling::Interrupt, Scheduling::Ordinary).unwrap();
        gateway.on_disk(|_| ()).unwrap();
        thread::sleep(SILENT + Duration::from_millis(100));
        assert_eq!(gateway.disk_silent(), None);
        gateway.on_disk(|_| ()).unwrap();
        gateway.turn(Instant::now());
        gateway.on_disk(|_| ()).unwrap();
        gateway.stop().unwrap();
        std::fs::remove_dir_all(&path).unwrap();
    }

    /// A disk that is held up: control turns, whoever needs an answer is refused, it is said, and later all is done.
    #[test]
    fn control_never_waits_for_a_disk() {
        let path = std::env::temp_dir().join(format!("frameward-disk-{}", std::process::id()));
        let leases = LeaseStore::open(&path, None).unwrap();
        let mut gateway = Gateway::new(leases, Polling::Interrupt, Scheduling::Ordinary).unwrap();
        assert!(gateway.on_disk(|_| 7).is_ok_and(|answer| answer == 7));
        answers(&mut gateway);
        let (go, held) = channel::<()>();
        let held_up = gateway.lease_thread.ask(move |_| held.recv(), Duration::ZERO);
        assert!(matches!(held_up, Err(LeaseError::Silent { .. })));
        gateway.lease_thread.keep_floors(Vec::new(), None);
        assert!(gateway.disk_silent().is_none(), "nobody knows yet");
        // An answer of two seconds ago counts no more; and nobody waits for the next one.
        let later = Instant::now() + PATIENCE;
        assert!(gateway.probe_disk(later - Duration::from_secs(1)).is_some_and(|known| known.is_ok()));
        assert!(!matches!(gateway.probe_disk(later), Some(Ok(()))));
        // Waits for what it may, and not again.
        assert!(matches!(gateway.on_disk(|_| ()), Err(LeaseError::Silent { .. })));
        let before = Instant::now();
        for _ in 0..100 {
            assert!(matches!(gateway.on_disk(|_| ()), Err(LeaseError::Silent { .. })));
            assert!(matches!(gateway.probe_disk(Instant::now()), Some(Err(LeaseError::Silent { .. }))));
        }
        assert!(before.elapsed() < PATIENCE && gateway.disk_silent().is_some());
        let mut notices = Vec::new();
        let now = Instant::now();
        for seconds in 0..130 {
            notices.extend(gateway.turn(now + Duration::from_secs(seconds)));
        }
        let silent = notices.iter().filter(|notice| matches!(notice, Notice::DiskSilent { .. })).count();
        assert_eq!((silent, notices.len()), (3, 3), "at once and every minute: {notices:?}");
        drop(go);
        while gateway.disk_silent().is_some() {
            notices.extend(gateway.turn(Instant::now()));
        }
        notices.extend(gateway.turn(Instant::now()));
        assert!(notices.iter().any(|notice| matches!(notice, Notice::DiskAnswers { .. })), "{notices:?}");
        answers(&mut gateway);
        gateway.stop().unwrap();
        std::fs::remove_dir_all(&path).unwrap();
    }

    /// A block that was reserved too late is given back before anything else is done: the next one is behind what its SA has.
    #[test]
    fn what_nobody_receives_is_undone_at_once() {
        let path = std::env::temp_dir().join(format!("frameward-disk-undone-{}", std::process::id()));
        let leases = LeaseStore::open(&path, None).unwrap();
        let mut gateway = Gateway::new(leases, Polling::Interrupt, Scheduling::Ordinary).unwrap();
        let name = LeaseName::xpn(b"key", wire::Ssci(1));
        let reserve = move |leases: &mut LeaseStore| {
            let reserved = leases.reserve(name, Pn::LAST_32, FIRST_BLOCK_PNS);
            let Ok(Reservation::Block(block)) = reserved else { panic!("{reserved:?}") };
            block
        };
        let back = move |leases: &mut LeaseStore, PnBlock { first: next, last: through }: PnBlock| {
            leases.give_back(&[UnusedPns { name, next, through }]).unwrap();
        };
        let first = gateway.on_disk(reserve).unwrap();
        // It is given up while it is under way, and before it begins.
        let (go, held) = channel::<()>();
        let (begun, has_begun) = channel::<()>();
        let slow = move |leases: &mut LeaseStore| {
            drop(begun);
            while held.recv().is_ok() {}
            reserve(leases)
        };
        let late = gateway.lease_thread.ask_or_undo(slow, back, Duration::from_millis(100));
        assert!(matches!(late, Err(LeaseError::Silent { .. })));
        while has_begun.recv().is_ok() {}
        let given_up = gateway.lease_thread.ask_or_undo(reserve, back, Duration::ZERO);
        assert!(matches!(given_up, Err(LeaseError::Silent { .. })));
        let next = gateway.begin_on_disk(reserve);
        drop(go);
        let next = next.recv_timeout(FIRST_PATIENCE).unwrap();
        assert_eq!(next.first.number(), first.last.number() + 1);
        // In time it is the caller's.
        let taken = gateway.on_disk_or_undo(reserve, back).unwrap();
        assert_eq!(taken.first.number(), next.last.number() + 1);
        assert_eq!(gateway.on_disk(reserve).unwrap().first.number(), taken.last.number() + 1);
        gateway.stop().unwrap();
        std::fs::remove_dir_all(&path).unwrap();
    }

    /// Whoever tries again every second says so once.
    #[test]
    fn a_silence_has_the_same_words_all_the_time() {
        let path = std::env::temp_dir().join(format!("frameward-disk-words-{}", std::process::id()));
        let leases = LeaseStore::open(&path, None).unwrap();
        let mut gateway = Gateway::new(leases, Polling::Interrupt, Scheduling::Ordinary).unwrap();
        let (go, held) = channel::<()>();
        drop(gateway.begin_on_disk(move |_| while held.recv().is_ok() {}));
        let now = Instant::now();
        let words = |gateway: &mut Gateway, seconds| {
            let known = gateway.probe_disk(now + Duration::from_secs(seconds));
            known.map(|known| known.unwrap_err().to_string())
        };
        assert_eq!(words(&mut gateway, 0), None);
        let first = words(&mut gateway, 10).unwrap();
        assert_eq!(words(&mut gateway, 90), Some(first));
        drop(go);
        gateway.stop().unwrap();
        std::fs::remove_dir_all(&path).unwrap();
    }

    fn answers(gateway: &mut Gateway) {
        let end = Instant::now() + FIRST_PATIENCE;
        loop {
            match gateway.probe_disk(Instant::now()) {
                Some(known) => return known.unwrap(),
                None => assert!(Instant::now() < end),
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}
