//! All orders of the threads of control and a worker, and all values that the memory model lets a load see.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use threads::control::Control;
use threads::mailbox;

/// Searches the orders of `run`. Up to `preemptions` times a thread is stopped where it could go on; `None`: as often as can be.
fn search(what: &str, preemptions: Option<usize>, run: impl Fn() + Sync + Send + 'static) {
    let orders = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&orders);
    let mut model = loom::model::Builder::new();
    model.preemption_bound = preemptions;
    model.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        run();
    });
    println!("{what}: {} orders", orders.load(Ordering::Relaxed));
}

#[test]
fn messages_arrive_once_and_in_order_and_places_are_not_shared() {
    for room in [1, 2] {
        search(&format!("mailbox for {room}"), None, move || {
            let (mut sender, mut receiver) = mailbox::pair::<u64, u64>(room, 1);
            let thread = loom::thread::spawn(move || {
                let mut sent = 0;
                for _ in 0..3 {
                    sent += u64::from(sender.send(sent + 1));
                }
                sent
            });
            let mut last = 0;
            for _ in 0..3 {
                if let Some(message) = receiver.receive() {
                    assert_eq!(message, last + 1);
                    last = message;
                }
            }
            let sent = thread.join().unwrap();
            // The other end is gone, and what it sent is here.
            assert!(receiver.is_abandoned());
            while let Some(message) = receiver.receive() {
                assert_eq!(message, last + 1);
                last = message;
            }
            assert_eq!(last, sent);
        });
    }
}

#[test]
fn snapshots_come_back_filled_and_nobody_sleeps_over_one() {
    for turns in [1, 2] {
        search(&format!("a snapshot of {turns} turns"), Some(3), move || {
            let mut control = Control::start(1);
            assert!(control.submit(turns));
            assert_eq!(control.await_jobs(1), turns);
            assert_eq!(control.stop(), 1);
        });
    }
    search("two snapshots", Some(3), || {
        let mut control = Control::start(2);
        assert!(control.submit(1) && control.submit(1));
        assert_eq!(control.await_jobs(2), 2);
        assert_eq!(control.stop(), 2);
    });
}

#[test]
fn frames_of_key_agreement_wake_whoever_they_are_for() {
    search("a frame each way", Some(3), || {
        let mut control = Control::start(1);
        assert!(control.send(1));
        control.await_frames(1);
        assert_eq!(control.stop(), 1);
    });
    search("two frames each way", Some(3), || {
        let mut control = Control::start(2);
        assert!(control.send(1) && control.send(2));
        control.await_frames(2);
        assert_eq!(control.stop(), 2);
    });
}

#[test]
fn a_worker_ends_after_the_jobs_that_it_has() {
    search("an end", Some(3), || {
        let mut control = Control::start(1);
        assert!(control.submit(2));
        assert_eq!(control.stop(), 1);
    });
}
