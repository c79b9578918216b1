//! Lines for people and programs, written by a thread of their own: whoever reads standard error may stop to read (a journal
//! whose disk stalls), and the thread that turns key agreement must not wait for that.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

/// Lines that wait to be written. Of more, the newest are lost, and counted.
const WAITING: usize = 1024;
/// Time the end of a program waits for the last lines to be written.
const PATIENCE: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(10);

enum Order {
    Write(String),
    /// To say when all before is written.
    Say(Sender<()>),
}

/// Takes lines, and never waits.
#[derive(Debug)]
pub(super) struct LogLines {
    orders: SyncSender<Order>,
    lost: AtomicU64,
}

impl LogLines {
    /// Lines go to `output` from here on.
    pub(super) fn start(mut output: impl Write + Send + 'static) -> io::Result<Self> {
        let (orders, to_do) = mpsc::sync_channel::<Order>(WAITING);
        thread::Builder::new().name("fw-log".into()).spawn(move || {
            for order in to_do {
                match order {
                    // Nobody is left to hear that it is closed.
                    Order::Write(line) => {
                        let _ = output.write_all(line.as_bytes()).and_then(|()| output.flush());
                    }
                    Order::Say(written) => drop(written.send(())),
                }
            }
        })?;
        Ok(Self { orders, lost: AtomicU64::new(0) })
    }

    /// Takes a line. If some before it are lost, `gap` makes the line that says how many.
    pub(super) fn tell(&self, line: &str, gap: impl FnOnce(u64) -> String) {
        let lost = self.lost.swap(0, Ordering::Relaxed);
        let text = if lost == 0 { format!("{line}\n") } else { format!("{}\n{line}\n", gap(lost)) };
        if self.orders.try_send(Order::Write(text)).is_err() {
            self.lost.fetch_add(lost + 1, Ordering::Relaxed);
        }
    }

    /// Waits until all that was taken is written, but not for a reader that has stopped.
    pub(super) fn flush(&self) {
        let end = Instant::now() + PATIENCE;
        let (say, written) = mpsc::channel();
        while self.orders.try_send(Order::Say(say.clone())).is_err() {
            if Instant::now() >= end {
                return;
            }
            thread::sleep(LOOK);
        }
        let _ = written.recv_timeout(end.saturating_duration_since(Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::Receiver;
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Takes a line for each word that it gets.
    struct Held(Receiver<()>, Arc<Mutex<Vec<u8>>>);

    impl Write for Held {
        fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            self.1.lock().unwrap().extend_from_slice(octets);
            Ok(octets.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_stops_costs_lines_and_no_time() {
        let (go, held) = mpsc::channel();
        let text = Arc::new(Mutex::new(Vec::new()));
        let lines = LogLines::start(Held(held, Arc::clone(&text))).unwrap();
        let tell = |line: &str| lines.tell(line, |lost| format!("{lost} lines are lost here"));
        // It would never return if one of them waited.
        (0..5000).for_each(|number| tell(&number.to_string()));
        // The thread may have begun just now, and taken its one line.
        while lines.lost.load(Ordering::Relaxed) == 0 {
            tell("one more");
        }
        let began = Instant::now();
        lines.flush();
        assert!((PATIENCE..2 * PATIENCE).contains(&began.elapsed()), "the end waits, and not for ever");
        // From here on everything is taken.
        drop(go);
        tell("the last one");
        while lines.lost.load(Ordering::Relaxed) > 0 {
            tell("the last one");
        }
        lines.flush();
        let text = String::from_utf8(text.lock().unwrap().clone()).unwrap();
        assert!(text.starts_with("0\n1\n2\n"), "{text}");
        assert!(text.ends_with("the last one\n"), "{text}");
        // The thread took its one line at any moment, and another one had room behind it: then there are two gaps.
        let gaps = text.lines().filter_map(|line| line.strip_suffix(" lines are lost here"));
        let lost: usize = gaps.map(|count| count.parse::<usize>().unwrap()).sum();
        assert!(lost >= 5000 - WAITING - 2, "{lost}");
    }
}
