//! Reports, however many ask: one is made every [`FRESH`] at most.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::spawn_blocking;

use report::CountedReport;

/// Time for which a report serves all who ask. Making one costs a worker some microseconds between two turns.
pub(super) const FRESH: Duration = Duration::from_millis(100);

type Ask = Box<dyn FnMut() -> Option<CountedReport> + Send>;

/// The gateway's client, with its last answer. Never locked by anybody who moves frames.
pub(super) struct Figures(Arc<Mutex<Last>>);

struct Last {
    ask: Ask,
    /// The report and when it came; also that none came.
    answer: Option<(Instant, Option<Arc<CountedReport>>)>,
}

impl Figures {
    pub(super) fn new(ask: impl FnMut() -> Option<CountedReport> + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Last { ask: Box::new(ask), answer: None })))
    }

    /// A report not older than [`FRESH`]; none if the gateway does not answer.
    pub(super) async fn latest(&self) -> Option<Arc<CountedReport>> {
        let last = Arc::clone(&self.0);
        // Judged there and not here: a client that goes away meanwhile must not make another ask once more.
        spawn_blocking(move || last.lock().unwrap_or_else(PoisonError::into_inner).latest()).await.ok()?
    }
}

impl Last {
    fn latest(&mut self) -> Option<Arc<CountedReport>> {
        if let Some((at, report)) = &self.answer
            && at.elapsed() < FRESH
        {
            return report.clone();
        }
        let report = (self.ask)().map(Arc::new);
        self.answer = Some((Instant::now(), report.clone()));
        report
    }
}
