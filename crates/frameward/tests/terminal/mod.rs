//! A terminal for commands under test, made by `script`; all that they show is collected.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A terminal in which a shell runs commands.
pub(crate) struct Terminal {
    pub(crate) script: Child,
    shown: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    /// Runs `commands` in a directory, on a terminal of this kind (`TERM`).
    pub(crate) fn start(directory: &Path, kind: &str, commands: &str) -> Self {
        // The test's parent may ignore the signal of Ctrl-C.
        let mut script = Command::new("env")
            .args(["--default-signal=INT", "script"])
            .args(["-qefc", commands, "/dev/null"])
            .current_dir(directory)
            .env("SHELL", "/bin/sh")
            .env("TERM", kind)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let shown = Arc::new(Mutex::new(Vec::new()));
        let (mut output, sink) = (script.stdout.take().unwrap(), Arc::clone(&shown));
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(octets @ 1..) = output.read(&mut piece) {
                sink.lock().unwrap().extend_from_slice(&piece[..octets]);
            }
        });
        Self { script, shown }
    }

    /// All that was shown so far.
    pub(crate) fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned()
    }

    /// Waits until words were shown so many times.
    pub(crate) fn wait_for(&self, words: &str, times: usize) {
        let condition = format!("{words:?} not {times} times");
        self.wait_until(&condition, |shown| shown.matches(words).count() >= times);
    }

    /// Waits until `is_met` by all that was shown; the answer is the number of its octets. `condition` says in words why it is not met.
    pub(crate) fn wait_until(&self, condition: &str, is_met: impl Fn(&str) -> bool) -> usize {
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            let shown = self.shown();
            if is_met(&shown) {
                return shown.len();
            }
            assert!(Instant::now() < end, "{condition}: {shown:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn press(&mut self, keys: impl AsRef<[u8]>) {
        self.script.stdin.as_mut().unwrap().write_all(keys.as_ref()).unwrap();
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        drop(self.script.stdin.take());
        let _ = self.script.kill();
        let _ = self.script.wait();
    }
}
