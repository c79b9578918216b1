//! `init` on a terminal, which `script` makes: it asks for what is missing, whatever is typed.
#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests too")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A terminal in which `init` runs, and a directory for its files.
struct Terminal {
    directory: PathBuf,
    script: Child,
    shown: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    fn start(test: &str, arguments: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("frameward-init-{test}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        // The shell outlives ^C, to say how init ended.
        let commands = format!(
            "trap : INT; '{}' init {arguments} --dir . --state \"$PWD/state\" --user \"$(id -un)\"; echo \"status $?\"",
            env!("CARGO_BIN_EXE_frameward")
        );
        // Whoever starts the tests may ignore the signal that Ctrl-C is.
        let mut script = Command::new("env")
            .args(["--default-signal=INT", "script"])
            .args(["-qefc", &commands, "/dev/null"])
            .current_dir(&directory)
            .env("SHELL", "/bin/sh")
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
        Self { directory, script, shown }
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned()
    }

    fn wait_for(&self, what: &str, times: usize) {
        let end = Instant::now() + Duration::from_secs(30);
        while self.shown().matches(what).count() < times {
            assert!(Instant::now() < end, "{what:?} not {times} times: {:?}", self.shown());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn press(&mut self, keys: impl AsRef<[u8]>) {
        self.script.stdin.as_mut().unwrap().write_all(keys.as_ref()).unwrap();
    }

    /// The files, once it has ended with this status.
    fn ended(&mut self, status: u8) -> Vec<String> {
        self.wait_for(&format!("status {status}\r\n"), 1);
        let entries = fs::read_dir(&self.directory).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Without input it ends by itself.
        drop(self.script.stdin.take());
        let _ = self.script.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

const PLAIN: &str = "The interface towards the machine";
const PROTECTED: &str = "The interface towards the insecure network";
/// No file but those that say so.
const NOTHING: [&str; 0] = [];

#[test]
fn what_is_missing_is_asked_for() {
    let mut terminal = Terminal::start("asks", "link --offline --name press");
    terminal.wait_for(PLAIN, 1);
    terminal.press("plain0\n");
    terminal.wait_for(PROTECTED, 1);
    terminal.press("  prot0 \n");
    assert_eq!(terminal.ended(0), ["press.bundle", "press.cak", "press.toml"]);
    let text = fs::read_to_string(terminal.directory.join("press.toml")).unwrap();
    assert!(text.contains("\"plain0\"") && text.contains("\"prot0\""), "{text}");
}

#[test]
fn garbage_is_asked_for_again_and_comes_into_no_file() {
    let mut terminal = Terminal::start("garbage", "link --protected lo --name press");
    let long = [&[b'x'; 3000][..], b"\n"].concat();
    let garbage: [&[u8]; 7] =
        [b"\n", b"   \n", b"no such interface\n", b"../../etc\n", b"\xff\xfe\xc3\n", b"\x1b[2J\"\n", &long];
    for (before, keys) in garbage.iter().enumerate() {
        terminal.wait_for(PLAIN, before + 1);
        terminal.press(keys);
    }
    terminal.wait_for(PLAIN, garbage.len() + 1);
    assert!(terminal.shown().contains("\"no such interface\" is not an interface of this box\r\n"));
    // A sequence that would clear the screen is shown escaped.
    assert!(
        terminal.shown().contains("\"\\u{1b}[2J\\\"\" is not an interface of this box"),
        "{:?}",
        terminal.shown()
    );
    terminal.press("\u{3}");
    assert_eq!(terminal.ended(130), NOTHING);
}

#[test]
fn the_end_of_input_is_an_end() {
    for (test, command, question, missing) in [
        ("eof-link", "link", PLAIN, "init link: --plain IF and --protected IF missing; this box has "),
        ("eof-site", "site", "The site's name", "init site: --name NAME missing; this box has "),
        (
            "eof-cell",
            "cell --plain a --protected b",
            "A station behind this box",
            "init cell: --local MAC and --relation MAC,MAC,ID,ID,CYCLE missing",
        ),
    ] {
        let mut terminal = Terminal::start(test, command);
        terminal.wait_for(question, 1);
        terminal.press("\u{4}");
        assert_eq!(terminal.ended(2), NOTHING, "{test}");
        let shown = terminal.shown();
        assert!(shown.contains(missing), "{shown}");
        assert_eq!(shown.matches(question).count(), 1, "nobody is asked again: {shown}");
    }
}

#[test]
fn an_interrupt_leaves_nothing() {
    for (test, command, keys) in [
        ("interrupt-first", "link --offline", "\u{3}"),
        ("interrupt-half", "link --offline", "plain0\n\u{3}"),
        ("interrupt-list", "cell --offline --plain a --protected b", "02:00:00:00:01:01\n\u{3}"),
    ] {
        let mut terminal = Terminal::start(test, command);
        let (before, last) = keys.rsplit_once('\n').map_or(("", keys), |(before, last)| (before, last));
        terminal.wait_for(":\r\n", 1);
        if !before.is_empty() {
            terminal.press(format!("{before}\n"));
            terminal.wait_for(":\r\n", 2);
        }
        terminal.press(last);
        assert_eq!(terminal.ended(130), NOTHING, "{test}");
    }
}
