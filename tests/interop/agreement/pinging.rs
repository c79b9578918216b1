//! Echo requests that go on while keys change.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use lab::{Machine, Program};
use nix::sys::signal::Signal;

use super::super::DEADLINE;

/// From one request to the next.
const INTERVAL: &str = "0.01";

/// A running `ping`.
pub(super) struct Pinging(Program);

/// Results of its requests.
#[derive(Debug)]
pub(super) struct Answers {
    /// Answered ones.
    pub(super) answered: usize,
    /// The numbers of those that no answer came to; the last ones may still be under way, and are left out.
    pub(super) missing: Vec<u64>,
    /// The numbers of those that more than one answer came to.
    pub(super) doubled: Vec<u64>,
}

impl Pinging {
    /// Begins. `octets`: of each IP packet.
    pub(super) fn start(from: &Machine, to: &str, octets: usize) -> Pinging {
        let payload = (octets - 28).to_string();
        // An answer that is late was not lost; nothing is sent a second time.
        let words = ["ping", "-n", "-i", INTERVAL, "-W", "5", "-M", "do", "-s", &payload, to];
        Pinging(from.namespace.spawn(&words).unwrap())
    }

    /// Waits until so many requests more have been answered.
    pub(super) fn wait_for(&self, answers: usize) {
        let end = Instant::now() + DEADLINE;
        let before = self.answered();
        while self.answered() < before + answers {
            assert!(Instant::now() < end, "{answers} answers, but not within {DEADLINE:?}: {}", self.last());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Number of requests answered so far.
    fn answered(&self) -> usize {
        self.0.stdout().matches("icmp_seq=").count()
    }

    fn last(&self) -> String {
        self.0.stdout().lines().last().unwrap_or_default().to_owned()
    }

    /// Ends it.
    pub(super) fn stop(self) -> Answers {
        self.0.signal(Signal::SIGINT).unwrap();
        Answers::of(&self.0.wait(DEADLINE).unwrap().stdout)
    }
}

impl Answers {
    fn of(text: &str) -> Answers {
        let mut answers = BTreeMap::<u64, usize>::new();
        let number = |line: &str| line.split_once("icmp_seq=")?.1.split_once(' ')?.0.parse().ok();
        for number in text.lines().filter(|line| line.contains("time=")).filter_map(number) {
            *answers.entry(number).or_default() += 1;
        }
        let last = answers.keys().last().copied().unwrap_or_default();
        Answers {
            answered: answers.len(),
            missing: (1..=last).filter(|number| !answers.contains_key(number)).collect(),
            doubled: answers.iter().filter(|(_, count)| **count > 1).map(|(number, _)| *number).collect(),
        }
    }

    /// Not one is missing, and none came twice.
    pub(super) fn are_complete(&self) {
        self.are_complete_but(0);
    }

    /// No more than so many are missing, and none came twice.
    pub(super) fn are_complete_but(&self, missing: usize) {
        assert!(self.answered > 0, "nothing was answered");
        assert!(self.missing.len() <= missing && self.doubled.is_empty(), "{self:?}");
    }
}

#[test]
fn a_missing_answer_is_seen() {
    let text = "64 bytes from 10.77.0.3: icmp_seq=1 ttl=64 time=0.1 ms\n\
                From 10.77.0.1 icmp_seq=2 Destination Host Unreachable\n\
                64 bytes from 10.77.0.3: icmp_seq=3 ttl=64 time=0.1 ms\n\
                64 bytes from 10.77.0.3: icmp_seq=3 ttl=64 time=0.2 ms (DUP!)\n";
    let Answers { answered, missing, doubled } = Answers::of(text);
    assert_eq!((answered, missing, doubled), (2, vec![2], vec![3]));
}
