//! Guard of a thread of QUIC's: after a panic nothing of it can be touched.
//!
//! QUIC's tasks share locks. A panic under one of them makes the next use of it panic, in destructors as well; and a
//! panic in a destructor while a panic is under way ends the process, and with it the frames of all links and sites.
//! Such a panic is not unwound at all: the thread reports that it has failed, and stands still for ever, with all that
//! it has. The restarts in its place bound the cost ([`super::thread`]).
//!
//! Locks that outlive the thread are let go first ([`catch_panic`]): the thread in its place needs them.
//!
//! It stands in the process's panic hook, so nobody may set another hook afterwards: that would wait for ever.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;
use std::sync::mpsc::Sender;
use std::thread::park;

thread_local! {
    /// Receiver of the notice that this thread has panicked; none: its panics are unwound as everywhere.
    static TOLD: Cell<Option<Sender<Failed>>> = const { Cell::new(None) };
}

/// A guarded thread has panicked. It stands still.
#[derive(Debug)]
pub(super) struct Failed;

/// From here on a panic of this thread is told, and the thread does not go on.
pub(super) fn guard(told: Sender<Failed>) {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        // It says what has happened, on the standard error.
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            before(panic);
            fail();
        }));
    });
    TOLD.set(Some(told));
}

/// From here on panics of this thread are unwound again.
pub(super) fn unguard() {
    TOLD.set(None);
}

/// Something that holds what others need, so that a panic in it has to be unwound. Then the thread fails.
pub(super) fn catch_panic<T>(work: impl FnOnce() -> T) -> Option<T> {
    let told = TOLD.take();
    let done = catch_unwind(AssertUnwindSafe(work));
    TOLD.set(told);
    if done.is_err() {
        fail();
    }
    done.ok()
}

/// Does not return if the thread is guarded.
fn fail() {
    // A thread that ends has lost what it could be told with.
    let told = TOLD.try_with(Cell::take).ok().flatten();
    let Some(told) = told else { return };
    // If nobody listens, nobody waits.
    let _ = told.send(Failed);
    loop {
        park();
    }
}

/// Runs a test in a process of its own: libtest sets the panic hook back at the end, which has to wait for all in it.
#[cfg(test)]
pub(super) fn alone(test: &str, scenario: impl FnOnce()) {
    const ALONE: &str = "FRAMEWARD_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        let done = catch_unwind(AssertUnwindSafe(scenario));
        std::process::exit(i32::from(done.is_err()));
    }
    let program = std::env::current_exe().expect("this program");
    let mut child = std::process::Command::new(program);
    let child = child.args(["--exact", test, "--nocapture"]).env(ALONE, "1").output().expect("it runs");
    let said = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{}: {said}", child.status);
    assert!(said.contains("as a defect would"), "the scenario has run: {said}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    /// As QUIC's handles do: uses a lock in its destructor.
    struct Handle(Arc<Mutex<usize>>);

    impl Drop for Handle {
        fn drop(&mut self) {
            *self.0.lock().expect("not poisoned") += 1;
        }
    }

    /// Without the guard this ends the process.
    #[test]
    fn a_panic_under_a_lock_that_a_destructor_needs_is_survived() {
        alone("guard::tests::a_panic_under_a_lock_that_a_destructor_needs_is_survived", survived);
    }

    fn survived() {
        let lock = Arc::new(Mutex::new(0));
        let (told, failed) = channel();
        let at_work = Arc::clone(&lock);
        std::thread::spawn(move || {
            guard(told);
            let _handles = [Handle(Arc::clone(&at_work)), Handle(Arc::clone(&at_work))];
            let _under = at_work.lock().expect("not poisoned");
            panic!("as a defect would");
        });
        failed.recv_timeout(Duration::from_secs(10)).expect("it is told");
        assert!(!lock.is_poisoned() && lock.try_lock().is_err(), "nothing was unwound");
    }

    #[test]
    fn what_others_need_is_let_go_before_the_thread_fails() {
        alone("guard::tests::what_others_need_is_let_go_before_the_thread_fails", let_go);
    }

    fn let_go() {
        let lock = Arc::new(Mutex::new(0));
        let (told, failed) = channel();
        let (at_work, reached) = (Arc::clone(&lock), Arc::new(AtomicUsize::new(0)));
        let beyond = Arc::clone(&reached);
        std::thread::spawn(move || {
            guard(told);
            assert_eq!(catch_panic(|| 7), Some(7));
            catch_panic(|| {
                let _under = at_work.lock().expect("not poisoned");
                panic!("as a defect would");
            });
            beyond.store(1, Ordering::Relaxed);
        });
        failed.recv_timeout(Duration::from_secs(10)).expect("it is told");
        assert!(lock.is_poisoned(), "let go");
        assert_eq!(reached.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn panics_of_other_threads_are_unwound() {
        let thread = std::thread::spawn(|| {
            let (told, _failed) = channel();
            guard(told);
            unguard();
            panic!("as a test would");
        });
        assert!(thread.join().is_err());
    }
}
