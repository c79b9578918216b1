//! Lines for people, written by a thread of their own: whoever reads standard error may stop to read (a journal whose disk
//! stalls), and the thread that turns key agreement must not wait for that.

use std::fmt::Display;
use std::io::{self, Write};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;
use std::time::Duration;

/// Lines that wait to be written. Of more, the newest are lost, and counted.
const WAITING: usize = 1024;
/// How long the end of a program waits until the last lines are written.
const PATIENCE: Duration = Duration::from_secs(2);

/// Takes lines, and never waits.
#[derive(Debug)]
pub struct LogLines {
    lines: Option<SyncSender<String>>,
    /// Ends when all is written.
    written: Receiver<()>,
    lost: u64,
}

impl LogLines {
    /// Lines go to `output` from here on.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start(mut output: impl Write + Send + 'static) -> io::Result<Self> {
        let (lines, to_write) = mpsc::sync_channel::<String>(WAITING);
        let (ends, written) = mpsc::channel();
        thread::Builder::new().name("fw-log".into()).spawn(move || {
            for line in to_write {
                // Nobody is left to hear that it is closed.
                let _ = output.write_all(line.as_bytes()).and_then(|()| output.flush());
            }
            drop(ends);
        })?;
        Ok(Self { lines: Some(lines), written, lost: 0 })
    }

    /// Takes a line.
    pub fn tell(&mut self, line: &dyn Display) {
        let Some(lines) = &self.lines else { return };
        let lost = match self.lost {
            0 => String::new(),
            lost => format!("frameward: {lost} lines are lost here: nobody read them\n"),
        };
        match lines.try_send(format!("{lost}{line}\n")) {
            Ok(()) => self.lost = 0,
            Err(_) => self.lost += 1,
        }
    }
}

impl Drop for LogLines {
    fn drop(&mut self) {
        drop(self.lines.take());
        // Never comes: it ends, or is waited for in vain.
        let _ = self.written.recv_timeout(PATIENCE);
    }
}

#[cfg(test)]
mod tests {
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
        let mut lines = LogLines::start(Held(held, Arc::clone(&text))).unwrap();
        // It would never return if one of them waited.
        (0..5000).for_each(|number| lines.tell(&number));
        // The thread may have begun just now, and taken its one line.
        while lines.lost == 0 {
            lines.tell(&"one more");
        }
        // From here on everything is taken.
        drop(go);
        while lines.lost > 0 {
            lines.tell(&"the last one");
        }
        drop(lines);
        let text = String::from_utf8(text.lock().unwrap().clone()).unwrap();
        assert!(text.starts_with("0\n1\n2\n"), "{text}");
        assert!(text.contains(" lines are lost here"), "{text}");
        assert!(text.ends_with("the last one\n"), "{text}");
    }
}
