//! Requests to reload, and what of a reload waits for a disk: a thread reads configuration and key files, and the disk's thread says
//! what keys were used for before. KaYs turn meanwhile.
//!
//! ```text
//!  asked ──▶ fw-config: config::load ──▶ fw-disk: roles of keys, a write ──▶ main: judge.rs, and all the rest
//! ```
//!
//! One reload at a time. Those that wait are one, which does what each of them would: it reads the files when it begins, and again if
//! the disk has kept it waiting meanwhile. Trials wait beside it, in the order of requests. What main itself writes afterwards comes behind a disk that has just answered
//! (interface_settings.rs).
//!
//! A file may never let its reader go: a FIFO without a writer, a mount whose server is gone. After [`ANSWER_AFTER`] the next request reads
//! anew, by another thread, and so finds the file that has taken its place. Threads that are caught in a file are few ([`MOST_CAUGHT`]).

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use pnstore::LeaseStore;
use tracing::warn;

use super::super::Running;
use config::check::keys::misused;
use config::{Config, Finding};
use report::GatewayReport;
use report::control_socket::Reply;

/// Time after which it is told that a reload waits.
const SILENT: Duration = Duration::from_secs(5);
/// Time after which whoever asked gets an answer that it waits: sooner than he gives up (control_handle.rs).
const ANSWER_AFTER: Duration = Duration::from_secs(20);
/// The most trials that wait for the reload that is under way, and the most askers of one that waits.
const MOST_WAITING: usize = 8;
/// The most threads that are left behind with files which do not let them go.
const MOST_CAUGHT: usize = 4;

/// A configuration that was read, or why it was not.
pub(in super::super) type Loaded = Result<ReadConfig, Vec<Finding>>;

/// A configuration, and what other threads found of it.
pub(in super::super) struct ReadConfig {
    pub(in super::super) config: Config,
    pub(super) warnings: Vec<Finding>,
    /// Keys that were used for something else before.
    pub(super) misused: Vec<Finding>,
}

/// Destination of the answer; none if a signal asked.
type Asker = Option<Sender<Reply<GatewayReport>>>;

/// A request to reload.
struct ReloadRequest {
    /// It is only tried.
    dry_run: bool,
    /// Askers that wait for the answer, and since when.
    askers: Vec<(Sender<Reply<GatewayReport>>, Instant)>,
}

impl ReloadRequest {
    /// Tells those who have waited for too long that it waits, and why. They get no other answer.
    fn tell_askers(&mut self, now: Instant, words: &str) {
        let has_waited = |since: Instant| now.saturating_duration_since(since) >= ANSWER_AFTER;
        for (asker, since) in self.askers.extract_if(.., |(_, since)| has_waited(*since)) {
            let seconds = now.saturating_duration_since(since).as_secs();
            let then = if self.dry_run { "ask again" } else { "the reload goes on" };
            let text = format!("{words}, for {seconds} s; {then} when that is over: look at the log");
            // The client may have gone.
            drop(asker.send(Reply::Error(text)));
        }
    }
}

/// A reload that is under way.
struct UnderWay {
    request: ReloadRequest,
    since: Instant,
    told: bool,
    /// Its files were read a second time.
    is_read_again: bool,
    stage: Stage,
}

enum Stage {
    /// With the moment when that began.
    Reading(Receiver<Loaded>, Instant),
    /// With the moment when the files had been read.
    Judging(Receiver<ReadConfig>, Instant),
}

impl Stage {
    /// Says what it waits for.
    fn words(&self, file: &Path, state: &Path) -> String {
        match self {
            Self::Reading(..) => {
                format!("{} or a key file that it names could not be read yet", file.display())
            }
            Self::Judging(..) => format!("the disk under {} does not answer", state.display()),
        }
    }
}

/// The reload that is under way, and requests behind it.
#[derive(Default)]
pub(in super::super) struct ReloadRequests {
    under_way: Option<UnderWay>,
    waiting: VecDeque<ReloadRequest>,
    /// Answers of threads that were left behind with a file: nobody waits for them.
    caught: Vec<Receiver<Loaded>>,
}

impl ReloadRequests {
    /// Whether none is under way or waits.
    pub(in super::super) fn is_idle(&self) -> bool {
        self.under_way.is_none() && self.waiting.is_empty()
    }

    /// Whether a thread that was left behind is caught in a file still.
    pub(in super::super) fn has_caught(&self) -> bool {
        self.caught.iter().any(is_open)
    }

    /// Leaves the thread behind that could not read a file for [`ANSWER_AFTER`], if another request can read anew. All askers of this one were
    /// told by then. A trial ends so; a reload is done with the one that waits, or behind the trials.
    fn leave_caught(&mut self, now: Instant) {
        self.caught.retain(is_open);
        if self.waiting.is_empty() || self.caught.len() >= MOST_CAUGHT {
            return;
        }
        let is_caught = |under_way: &mut UnderWay| match under_way.stage {
            Stage::Reading(_, since) => now.saturating_duration_since(since) >= ANSWER_AFTER,
            Stage::Judging(..) => false,
        };
        let Some(UnderWay { request, stage: Stage::Reading(answer, _), .. }) =
            self.under_way.take_if(is_caught)
        else {
            return;
        };
        self.caught.push(answer);
        if !request.dry_run && self.waiting.iter().all(|known| known.dry_run) {
            self.waiting.push_back(request);
        }
    }

    /// Adds a request. A reload joins the one that waits: none is refused that nobody would hear of.
    pub(in super::super) fn ask(&mut self, dry_run: bool, asker: Asker) {
        let askers: Vec<_> = asker.map(|asker| (asker, Instant::now())).into_iter().collect();
        let trials = self.waiting_trials();
        let waiting = self.waiting.iter_mut().find(|known| !dry_run && !known.dry_run);
        match waiting.map(|known| &mut known.askers) {
            None if !dry_run || trials < MOST_WAITING => {
                self.waiting.push_back(ReloadRequest { dry_run, askers })
            }
            Some(known) if known.len() + askers.len() <= MOST_WAITING => known.extend(askers),
            _ => {
                for (asker, _) in askers {
                    drop(asker.send(Reply::Error("other reloads wait already; look at the log".to_owned())));
                }
            }
        }
    }

    fn waiting_trials(&self) -> usize {
        self.waiting.iter().filter(|known| known.dry_run).count()
    }

    /// Tells who has waited for too long. A trial whose asker was told is of no use.
    fn tell_waiting(&mut self, now: Instant, words: &str) {
        self.waiting.iter_mut().for_each(|waiting| waiting.tell_askers(now, words));
        self.waiting.retain(|waiting| !waiting.dry_run || !waiting.askers.is_empty());
    }
}

impl Running {
    /// Begins the next reload, or does what of it can be done now. Whether one was finished that may have changed something.
    pub(in super::super) fn poll_reload(&mut self, now: Instant) -> bool {
        let Some(mut under_way) = self.reloads.under_way.take().or_else(|| self.begin_reload(now)) else {
            return false;
        };
        let loaded = match &under_way.stage {
            Stage::Reading(answer, _) => answer.try_recv(),
            Stage::Judging(answer, _) => answer.try_recv().map(Ok),
        };
        match (loaded, &under_way.stage) {
            (Ok(Ok(read)), Stage::Reading(..)) => {
                let judge = move |leases: &mut LeaseStore| read.judged_by(leases);
                under_way.stage = Stage::Judging(self.control.begin_on_disk(judge), now);
            }
            // Somebody may have changed the files while the disk did not answer, or have taken a change back.
            (Ok(_), Stage::Judging(_, read_at))
                if !under_way.is_read_again && now.saturating_duration_since(*read_at) >= SILENT =>
            {
                under_way.is_read_again = true;
                match read(self.file.clone()) {
                    Ok(answer) => under_way.stage = Stage::Reading(answer, now),
                    Err(error) => {
                        let failed = self.unread(no_thread(&error));
                        return self.finish_reload(under_way.request, Err(failed));
                    }
                }
            }
            (Ok(loaded), _) => return self.finish_reload(under_way.request, loaded),
            (Err(TryRecvError::Empty), _) => self.tell_that_it_waits(&mut under_way, now),
            (Err(TryRecvError::Disconnected), _) => {
                let failed = self.unread("a thread has ended that reads it; please report it".to_owned());
                return self.finish_reload(under_way.request, Err(failed));
            }
        }
        self.reloads.under_way = Some(under_way);
        self.reloads.leave_caught(now);
        false
    }

    fn begin_reload(&mut self, now: Instant) -> Option<UnderWay> {
        let request = self.reloads.waiting.pop_front()?;
        match read(self.file.clone()) {
            Ok(answer) => {
                let stage = Stage::Reading(answer, now);
                Some(UnderWay { request, since: now, told: false, is_read_again: false, stage })
            }
            Err(error) => {
                let failed = self.unread(no_thread(&error));
                self.finish_reload(request, Err(failed));
                None
            }
        }
    }

    fn unread(&self, text: String) -> Vec<Finding> {
        vec![Finding { file: self.file.clone(), line: None, text }]
    }

    fn finish_reload(&mut self, request: ReloadRequest, loaded: Loaded) -> bool {
        let outcome = if request.dry_run { self.try_reload(loaded) } else { self.reload(loaded) };
        let reply: Reply<GatewayReport> = outcome.into();
        for (asker, _) in request.askers {
            // The client may have gone.
            drop(asker.send(reply.clone()));
        }
        !request.dry_run
    }

    /// File or interface that a reload has been waiting for for some time.
    pub(in super::super) fn reload_waits(&self) -> Option<String> {
        let under_way = self.reloads.under_way.as_ref()?;
        let silent = under_way.since.elapsed();
        let words = under_way.stage.words(&self.file, &self.gateway.state);
        (silent >= SILENT).then(|| format!("{words}, for {} s", silent.as_secs()))
    }

    fn tell_that_it_waits(&mut self, under_way: &mut UnderWay, now: Instant) {
        let silent = now.saturating_duration_since(under_way.since);
        if silent < SILENT {
            return;
        }
        let words = under_way.stage.words(&self.file, &self.gateway.state);
        if !std::mem::replace(&mut under_way.told, true) {
            let seconds = silent.as_secs();
            let cure = match under_way.stage {
                Stage::Judging(..) => "",
                Stage::Reading(..) if self.reloads.caught.len() < MOST_CAUGHT => {
                    ". Another frameward reload reads them anew after 20 s"
                }
                Stage::Reading(..) => ". Too many threads wait for such files: restart the gateway",
            };
            warn!(event = "reload-waits", seconds, "the reload goes on when that is over: {words}{cure}");
        }
        under_way.request.tell_askers(now, &words);
        self.reloads.tell_waiting(now, &words);
    }
}

/// Whether an answer may come yet.
fn is_open(answer: &Receiver<Loaded>) -> bool {
    matches!(answer.try_recv(), Err(TryRecvError::Empty))
}

fn no_thread(error: &io::Error) -> String {
    format!("cannot be read: no thread can be started: {error}; raise the limit of tasks")
}

impl ReadConfig {
    /// To be called by the disk's thread.
    fn judged_by(mut self, leases: &mut LeaseStore) -> Self {
        let check = |role, name, key: &Path| leases.check_role(role, name, key);
        self.misused = misused(&self.config.file, &self.config.links, &check);
        // Others will write behind this. Whether it can be written is told where it has to be.
        let _ = leases.probe();
        self
    }
}

/// Has a thread read the configuration. It wakes the one that calls this.
pub(in super::super) fn read(file: PathBuf) -> io::Result<Receiver<Loaded>> {
    let (answer, loaded) = mpsc::channel();
    let main = thread::current();
    let read = move || {
        let read = config::load(&file);
        let read = read.map(|(config, warnings)| ReadConfig { config, warnings, misused: Vec::new() });
        // Nobody waits for it if the gateway ends.
        let _ = answer.send(read);
        main.unpark();
    };
    thread::Builder::new().name("fw-config".into()).spawn(read)?;
    Ok(loaded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replies(asked: &Receiver<Reply<GatewayReport>>) -> usize {
        asked.try_iter().filter(|reply| matches!(reply, Reply::Error(_))).count()
    }

    /// Reloads that wait are one, whoever asked, and a signal is never dropped. Each asker is told by his own clock.
    #[test]
    fn reloads_that_wait_are_one_and_every_asker_is_told() {
        let (asker, asked) = mpsc::channel();
        let mut requests = ReloadRequests::default();
        for _ in 0..2 * MOST_WAITING {
            requests.ask(true, Some(asker.clone()));
        }
        assert_eq!((requests.waiting.len(), replies(&asked)), (MOST_WAITING, MOST_WAITING));
        for _ in 0..3 {
            requests.ask(false, None);
            requests.ask(false, Some(asker.clone()));
        }
        assert_eq!((requests.waiting.len(), replies(&asked)), (MOST_WAITING + 1, 0));
        assert_eq!(requests.waiting.back().map(|last| (last.dry_run, last.askers.len())), Some((false, 3)));
        let now = Instant::now();
        requests.tell_waiting(now, "the disk does not answer");
        assert_eq!((requests.waiting.len(), replies(&asked)), (MOST_WAITING + 1, 0));
        requests.tell_waiting(now + ANSWER_AFTER, "the disk does not answer");
        assert_eq!(replies(&asked), MOST_WAITING + 3);
        assert_eq!(requests.waiting.len(), 1, "nobody waits for the trials; the reload is done");
        assert!(requests.waiting.iter().all(|known| !known.dry_run && known.askers.is_empty()));
    }

    /// Begins the next request, as main does; returns the thread's end.
    fn begin(requests: &mut ReloadRequests, now: Instant) -> Sender<Loaded> {
        let (file, answer) = mpsc::channel();
        let request = requests.waiting.pop_front().unwrap();
        let stage = Stage::Reading(answer, now);
        let under_way = UnderWay { request, since: now, told: true, is_read_again: false, stage };
        requests.under_way = Some(under_way);
        file
    }

    /// A file that never lets its reader go costs one thread for each request that reads anew, and a few at most. No reload is forgotten.
    #[test]
    fn a_thread_that_is_caught_in_a_file_is_left_behind() {
        let mut requests = ReloadRequests::default();
        let (mut files, mut now) = (Vec::new(), Instant::now());
        requests.ask(false, None);
        files.push(begin(&mut requests, now));
        requests.leave_caught(now + 2 * ANSWER_AFTER);
        assert!(requests.under_way.is_some(), "nobody would read anew");
        requests.ask(true, None);
        requests.leave_caught(now + ANSWER_AFTER - Duration::from_millis(1));
        assert!(requests.under_way.is_some() && !requests.has_caught(), "its askers were not told yet");
        now += ANSWER_AFTER;
        requests.leave_caught(now);
        assert!(requests.under_way.is_none() && requests.has_caught());
        assert!(
            requests.waiting.iter().map(|known| known.dry_run).eq([true, false]),
            "the reload is done yet"
        );
        files.push(begin(&mut requests, now));
        now += ANSWER_AFTER;
        requests.leave_caught(now);
        assert!(requests.waiting.iter().map(|known| known.dry_run).eq([false]), "the trial is over");
        while files.len() <= MOST_CAUGHT {
            files.push(begin(&mut requests, now));
            requests.ask(false, None);
            now += ANSWER_AFTER;
            requests.leave_caught(now);
        }
        assert_eq!((requests.caught.len(), requests.waiting.len()), (MOST_CAUGHT, 1));
        assert!(requests.under_way.is_some(), "no more threads");
        // One file lets its reader go.
        drop(files.remove(0));
        requests.leave_caught(now);
        assert_eq!((requests.caught.len(), requests.waiting.len()), (MOST_CAUGHT, 1));
        assert!(requests.under_way.is_none());
    }
}
