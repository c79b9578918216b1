//! A thread that does, one after the other, what may take long, for a main thread that turns KaYs and cannot wait.
//!
//! Main waits for an answer as long as it has patience, once: while an earlier question is open for longer, all others are refused
//! unasked. What nobody waits for any more is not begun, and a late value is dropped by the thread, never by main.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

type Work = Box<dyn FnOnce() + Send>;

/// Main's hold on the thread, which ends when the last one is dropped.
#[derive(Clone)]
pub(super) struct AskedThread {
    work: Sender<Work>,
    /// Times at which work that is not done yet was handed over, the oldest in front.
    open: Arc<Mutex<VecDeque<Instant>>>,
}

impl AskedThread {
    /// Starts a thread of this name.
    ///
    /// # Errors
    /// If there can be no thread.
    pub(super) fn start(name: &str) -> io::Result<Self> {
        let (work, to_do) = mpsc::channel::<Work>();
        let open = Arc::<Mutex<VecDeque<Instant>>>::default();
        let done = Arc::clone(&open);
        let serve = move || {
            for work in to_do {
                // The next one is done all the same. The hook has said what happened.
                let _ = catch_unwind(AssertUnwindSafe(work));
                lock(&done).pop_front();
            }
        };
        thread::Builder::new().name(name.to_owned()).spawn(serve)?;
        Ok(Self { work, open })
    }

    /// Time for which the oldest of what is not done yet has been open.
    pub(super) fn open_for(&self) -> Duration {
        lock(&self.open).front().map_or(Duration::ZERO, Instant::elapsed)
    }

    /// Hands over what is done whether anybody waits or not.
    pub(super) fn begin(&self, work: impl FnOnce() + Send + 'static) {
        lock(&self.open).push_back(Instant::now());
        // A thread that has ended does not answer.
        let _ = self.work.send(Box::new(work));
    }

    /// Asks a question, which is not begun if it was left before.
    pub(super) fn ask<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Question<T> {
        let question = Question(Arc::new((Mutex::new(Answer::Open), Condvar::new())));
        let open = Open(Question(Arc::clone(&question.0)));
        self.begin(move || {
            if open.0.is_open() {
                open.0.answer(work());
            }
        });
        question
    }

    /// The same for what is done whether anybody waits or not, the answer being of less use.
    pub(super) fn insist<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Question<T> {
        let question = Question(Arc::new((Mutex::new(Answer::Open), Condvar::new())));
        let open = Open(Question(Arc::clone(&question.0)));
        self.begin(move || open.0.answer(work()));
        question
    }
}

/// A question, and its answer when that has come.
pub(super) struct Question<T>(Arc<(Mutex<Answer<T>>, Condvar)>);

/// The thread's side of a question. Dropped without an answer, by a panic, it is open no more.
struct Open<T>(Question<T>);

impl<T> Drop for Open<T> {
    fn drop(&mut self) {
        let (answer, given) = &*self.0.0;
        let mut answer = lock(answer);
        if matches!(*answer, Answer::Open) {
            *answer = Answer::Left;
            given.notify_one();
        }
    }
}

enum Answer<T> {
    Open,
    Given(T),
    /// Nobody waits for it any more, or none comes.
    Left,
}

impl<T> Question<T> {
    /// Whether its answer is there, or may come.
    pub(super) fn is_open(&self) -> bool {
        !matches!(*lock(&self.0.0), Answer::Left)
    }

    fn answer(&self, value: T) {
        let (answer, given) = &*self.0;
        let mut answer = lock(answer);
        if matches!(*answer, Answer::Left) {
            drop(answer);
            // A late value: what its drop does is done here.
            return drop(value);
        }
        *answer = Answer::Given(value);
        drop(answer);
        given.notify_one();
    }

    /// Waits for the answer for so long. It may be asked for again; it is given once.
    pub(super) fn wait(&self, patience: Duration) -> Option<T> {
        let (answer, given) = &*self.0;
        let is_open = |answer: &mut Answer<T>| matches!(answer, Answer::Open);
        let waited = given.wait_timeout_while(lock(answer), patience, is_open);
        let mut answer = waited.unwrap_or_else(PoisonError::into_inner).0;
        if is_open(&mut answer) { None } else { take(&mut answer) }
    }

    /// Leaves the question, and returns the answer if it is there.
    pub(super) fn leave(self) -> Option<T> {
        take(&mut lock(&self.0.0))
    }
}

fn take<T>(answer: &mut Answer<T>) -> Option<T> {
    match std::mem::replace(answer, Answer::Left) {
        Answer::Given(value) => Some(value),
        Answer::Open | Answer::Left => None,
    }
}

/// A panic under the lock leaves nothing half-done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    struct DropsOn(Sender<Option<String>>);

    impl Drop for DropsOn {
        fn drop(&mut self) {
            let _ = self.0.send(thread::current().name().map(str::to_owned));
        }
    }

    #[test]
    fn what_nobody_waits_for_is_not_begun_and_late_values_stay_there() {
        let thread = AskedThread::start("asked").unwrap();
        let (go, held) = channel::<()>();
        let (says, dropped) = channel();
        let late = thread.ask(move || {
            let _ = held.recv();
            DropsOn(says)
        });
        assert!(late.wait(Duration::from_millis(20)).is_none() && thread.open_for() > Duration::ZERO);
        let (begun, was_begun) = channel();
        let given_up = {
            let begun = begun.clone();
            thread.ask(move || begun.send("asked"))
        };
        let insisted = thread.insist(move || begun.send("insisted"));
        assert!(given_up.leave().is_none() && insisted.leave().is_none() && late.leave().is_none());
        drop(go);
        assert_eq!(dropped.recv().unwrap().as_deref(), Some("asked"));
        assert_eq!(was_begun.iter().collect::<Vec<_>>(), ["insisted"]);
        // A question that is not left has its answer however late, and a panic ends nothing.
        let ended = thread.ask(|| panic!("expected by the test"));
        let question = thread.ask(|| 7);
        let end = Instant::now() + Duration::from_secs(60);
        let answer = loop {
            match question.wait(Duration::from_millis(1)) {
                None => assert!(Instant::now() < end),
                answer => break answer,
            }
        };
        assert_eq!((answer, question.leave(), ended.is_open()), (Some(7), None, false));
    }
}
