//! A run: takes over what is stored, does the rest, and stores each step when it is done.

use std::fmt::Display;
use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use bench::Row;

use crate::evidence::document::{self, Document};
use crate::evidence::machine;
use crate::evidence::outcome::Outcome;
use crate::evidence::plan::{Extent, Step, Tools};
use crate::evidence::quietness::{Quietness, Watch};
use crate::evidence::store::{Finished, Origin, Store};
use crate::programs::Programs;

/// Steps that are expected to take so long at most are measured again if they were noisy.
const REPEATED: Duration = Duration::from_secs(120);
/// Most measurements of a noisy step.
const TRIES: u32 = 3;

/// Benches that are measured now; of the others the stored results are taken. Empty: all are measured.
#[derive(Clone, Copy, Default, Debug)]
pub struct Choice<'c> {
    /// Benches.
    pub benches: &'c [String],
    /// Words of which a step's name has to have one.
    pub words: &'c [String],
}

impl Choice<'_> {
    /// Whether the steps have all that is named.
    ///
    /// # Errors
    /// Names what they do not have, and what they have.
    pub fn known_in(&self, steps: &[Step]) -> Result<(), String> {
        if let Some(unknown) =
            self.benches.iter().find(|name| !steps.iter().any(|step| step.bench == name.as_str()))
        {
            let mut known: Vec<_> = steps.iter().map(|step| step.bench).collect();
            known.dedup();
            return Err(format!("there is no bench {unknown}; choose one of: {}", known.join(", ")));
        }
        if let Some(unknown) =
            self.words.iter().find(|words| !steps.iter().any(|step| step.name.contains(words.as_str())))
        {
            let names: Vec<_> = steps.iter().map(|step| step.name.as_str()).collect();
            return Err(format!("no step has `{unknown}` in its name; these are: {}", names.join("; ")));
        }
        Ok(())
    }

    fn has(&self, step: &Step) -> bool {
        (self.benches.is_empty() || self.benches.iter().any(|name| name == step.bench))
            && (self.words.is_empty() || self.words.iter().any(|words| step.name.contains(words.as_str())))
    }
}

/// Settings of a run.
pub struct Run<'r> {
    /// The programs to be run.
    pub programs: &'r Programs,
    /// Directory in which scripts/precompute.sh has left its rows.
    pub precompute: &'r Path,
    /// Extent of the run.
    pub extent: Extent,
    /// Benches that are measured now.
    pub choice: Choice<'r>,
    /// Directory of finished steps.
    pub store: &'r Store,
    /// Told each line of progress.
    pub tell: &'r mut dyn FnMut(&dyn Display),
}

impl Run<'_> {
    /// Whether a step is to be done now, if it is not stored.
    pub fn wants(&self, step: &Step) -> bool {
        self.choice.has(step)
    }

    /// Does all of `steps` that is wanted and not stored, and returns what there is of all. A step that fails is a gap.
    ///
    /// # Errors
    /// If the program is missing, or a finished step cannot be stored.
    pub fn go(&mut self, steps: &[Step]) -> io::Result<Document> {
        let origin = self.origin()?;
        let mut done = Vec::new();
        let mut all = Outcome::default();
        let missing = |step: &&Step| self.store.finished(&step.name, &origin).is_none();
        let ahead: Vec<&Step> = steps.iter().filter(|step| self.wants(step)).filter(missing).collect();
        let mut clock = Clock::new(&ahead);
        for (number, step) in steps.iter().enumerate() {
            let stored = self.store.finished(&step.name, &origin);
            let head = format!("[{}/{}, {} left]", number + 1, steps.len(), clock.left());
            let (seconds, quietness, gap) = match stored {
                None if !self.wants(step) => {
                    (0.0, None, Some("left out of this run (--only, --step)".to_owned()))
                }
                Some(finished) => {
                    if self.wants(step) {
                        (self.tell)(&format_args!("{head} {}: stored", step.name));
                    }
                    (finished.seconds, Some(finished.quietness), add(&mut all, finished.outcome))
                }
                None => {
                    (self.tell)(&format_args!("{head} {}", step.name));
                    let begin = Instant::now();
                    let (took, quietness, outcome) = self.quietest(step);
                    clock.did(step.expected, begin.elapsed());
                    let (seconds, told) = (took.as_secs_f64(), Some(quietness));
                    match outcome {
                        Ok(outcome) => {
                            let finished = Finished { origin: origin.clone(), seconds, quietness, outcome };
                            self.store.keep(&step.name, &finished)?;
                            (seconds, told, add(&mut all, finished.outcome))
                        }
                        Err(gap) => {
                            (self.tell)(&format_args!("{head} {}: a gap: {gap}", step.name));
                            (seconds, told, Some(gap))
                        }
                    }
                }
            };
            let (bench, name) = (step.bench.into(), step.name.clone());
            done.push(document::Step { bench, name, seconds, gap, quietness });
        }
        let about = (self.extent.name(), origin.commit.as_str(), &*machine::now());
        Ok(Document::new(about, machine::here(), machine::programs(), done, all))
    }

    /// A step that is short and was noisy is measured again; the quietest one that measured anything counts.
    fn quietest(&mut self, step: &Step) -> (Duration, Quietness, Result<Outcome, String>) {
        let most = if self.extent == Extent::Full && step.expected <= REPEATED { TRIES } else { 1 };
        let mut best: Option<(Duration, Quietness, Result<Outcome, String>)> = None;
        for tries in 1..=most {
            let watch = Watch::begin();
            let (took, outcome) = self.one(step);
            let quietness = watch.end(tries);
            let rank = |quietness: &Quietness, failed| (failed, quietness.stolen, quietness.empty_loop);
            if best.as_ref().is_none_or(|(_, last, result)| {
                rank(&quietness, outcome.is_err()) < rank(last, result.is_err())
            }) {
                best = Some((took, quietness, outcome));
            }
            if let Some((_, best, _)) = &mut best {
                best.tries = tries;
            }
            if !quietness.is_noisy() {
                break;
            }
            let Quietness { stolen, empty_loop, .. } = quietness;
            (self.tell)(&format_args!(
                "    noisy: {stolen:.1} % of CPU time stolen, p99.9 of an empty loop {empty_loop:.1} times its length"
            ));
        }
        best.expect("invariant: a step is measured once at least")
    }

    /// One step, and how long it took. A panic of a bench is a gap too: the rest of the run is worth more.
    fn one(&mut self, step: &Step) -> (Duration, Result<Outcome, String>) {
        let tell = &mut self.tell;
        let mut say = |line: &dyn Display| tell(&format_args!("    {line}"));
        let mut tools = Tools { programs: self.programs, precompute: self.precompute, say: &mut say };
        let start = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| step.run(&mut tools)));
        let outcome = outcome.unwrap_or_else(|panic| {
            let words = panic.downcast_ref::<String>().map(String::as_str);
            let words = words.or_else(|| panic.downcast_ref::<&str>().copied());
            Err(format!("it broke off: {}", words.unwrap_or("without a word")))
        });
        (start.elapsed(), outcome)
    }

    fn origin(&self) -> io::Result<Origin> {
        let with_cure = |error: io::Error| {
            let place = self.programs.frameward.display();
            io::Error::new(
                error.kind(),
                format!("{place}: {error}; build it: cargo build --release --workspace"),
            )
        };
        let file = fs::metadata(&self.programs.frameward).map_err(with_cure)?;
        let Row { machine, commit, .. } = Row::new("", "", 0.0, "", 0);
        let written = file.modified()?.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let program = format!("{} octets, written at {}", file.len(), written.as_secs());
        Ok(Origin { machine, commit, program, effort: self.extent.name().into() })
    }
}

/// Adds what a step has measured, and returns what it could not.
fn add(all: &mut Outcome, outcome: Outcome) -> Option<String> {
    all.rows.extend(outcome.rows);
    all.curves.extend(outcome.curves);
    (!outcome.gaps.is_empty()).then(|| outcome.gaps.join("; "))
}

/// Estimate of the remaining time, by the duration of the steps that are done.
struct Clock {
    expected_left: Duration,
    expected_done: Duration,
    took: Duration,
}

impl Clock {
    fn new(steps: &[&Step]) -> Self {
        let expected_left = steps.iter().map(|step| step.expected).sum();
        Self { expected_left, expected_done: Duration::ZERO, took: Duration::ZERO }
    }

    fn did(&mut self, expected: Duration, took: Duration) {
        self.expected_left = self.expected_left.saturating_sub(expected);
        self.expected_done += expected;
        self.took += took;
    }

    fn left(&self) -> String {
        let done = self.expected_done.as_secs_f64();
        // Before anything was done, and for the first seconds, what is expected is all that is known.
        let pace = (self.took.as_secs_f64() + 30.0) / (done + 30.0);
        let seconds = (self.expected_left.as_secs_f64() * pace) as u64;
        if seconds < 100 { format!("{seconds} s") } else { format!("{} min", seconds.div_ceil(60)) }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use crate::demo::pair::Scratch;

    use super::*;

    fn step(name: &'static str, work: fn() -> Result<Outcome, String>) -> Step {
        Step::for_test("b", name, move |_| work())
    }

    fn measured() -> Result<Outcome, String> {
        Ok(Outcome { rows: vec![Row::new("b", "case", 1.0, "us", 1)], ..Outcome::default() })
    }

    #[test]
    fn what_is_stored_is_not_done_again_and_what_fails_is_a_gap_that_is_tried_again() {
        let scratch = Scratch::new().unwrap();
        let store = Store::open(scratch.path()).unwrap();
        let lines = RefCell::new(Vec::new());
        let own = std::env::current_exe().unwrap();
        let own = Programs { frameward: own.clone(), lab: own };
        let go_only = |steps: &[Step], choice: Choice<'_>| {
            let mut tell = |line: &dyn Display| lines.borrow_mut().push(line.to_string());
            let mut run = Run {
                programs: &own,
                precompute: scratch.path(),
                extent: Extent::Quick,
                choice,
                store: &store,
                tell: &mut tell,
            };
            run.go(steps).unwrap()
        };
        let go = |steps: &[Step]| go_only(steps, Choice::default());
        let first = go(&[
            step("works", measured),
            step("fails", || Err("no network".into())),
            step("panics", || panic!("a defect")),
        ]);
        assert_eq!(first.gaps("b"), ["no network", "it broke off: a defect"]);
        assert_eq!(first.figure("b", "case").unwrap().value, 1.0);
        lines.borrow_mut().clear();
        let second = go(&[step("works", || panic!("done twice")), step("fails", measured)]);
        assert!(second.gaps("b").is_empty());
        assert!(lines.borrow()[0].ends_with("works: stored"), "{:?}", lines.borrow());
        // Of what is not asked for there is what is stored, and the rest is said to be missing.
        let (other, words) = (["other".to_owned()], ["not".to_owned(), "els".to_owned()]);
        for choice in [Choice { benches: &other, words: &[] }, Choice { benches: &[], words: &words }] {
            let third = go_only(&[step("works", || panic!("not wanted")), step("new", measured)], choice);
            assert_eq!(third.gaps("b"), ["left out of this run (--only, --step)"]);
            assert_eq!(third.figure("b", "case").unwrap().value, 1.0);
        }
        let fourth = go_only(&[step("something else", measured)], Choice { benches: &[], words: &words });
        assert!(fourth.gaps("b").is_empty());
        let missing = Run {
            programs: &Programs { frameward: "/nowhere/frameward".into(), lab: "/nowhere/lab".into() },
            precompute: scratch.path(),
            extent: Extent::Quick,
            choice: Choice::default(),
            store: &store,
            tell: &mut |_| {},
        }
        .go(&[]);
        assert!(missing.unwrap_err().to_string().contains("build it"));
    }

    #[test]
    fn the_clock_learns_from_what_took_longer() {
        let steps = [1, 2, 3].map(|_| Step::for_test("b", "x", |_| measured()));
        let mut clock = Clock::new(&steps.each_ref());
        assert_eq!(clock.left(), "30 s");
        clock.did(Duration::from_secs(10), Duration::from_secs(90));
        assert_eq!(clock.left(), "60 s");
        clock.did(Duration::from_secs(10), Duration::from_secs(10));
        assert_eq!(clock.left(), "26 s");
    }
}
