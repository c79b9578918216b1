//! `fleet top` on a terminal, which `script` makes, with a real directory; and without one.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::Fleet;
use super::keys::planted;
use super::terminal::Terminal;

impl Terminal {
    fn of_fleet(fleet: &Fleet, arguments: &str) -> Self {
        let commands = format!(
            "tty; stty rows 30 cols 120; '{}' fleet {arguments}; echo \"status $?\"",
            env!("CARGO_BIN_EXE_frameward")
        );
        Self::start(fleet.0.path(), "xterm-256color", &commands)
    }

    /// Waits for words in what was shown since `from`; says how much was shown then.
    fn wait_for_since(&self, from: usize, words: &str) -> usize {
        let condition = format!("no {words:?} after octet {from}");
        self.wait_until(&condition, |shown| shown.get(from..).is_some_and(|since| since.contains(words)))
    }

    /// Waits until a screen that is drawn from nothing has these words: otherwise letters that stay are not written again.
    fn wait_for_screen(&self, words: &str) {
        let tty = self.shown().lines().next().unwrap().trim().to_owned();
        let end = Instant::now() + Duration::from_secs(60);
        // Another size than before each time, also than the last one here: the same one is no reason to draw.
        let size = Command::new("stty").args(["-F", &tty, "size"]).output().unwrap();
        let is_small = String::from_utf8(size.stdout).unwrap().starts_with("30 ");
        for rows in [31, 30].into_iter().cycle().skip((!is_small).into()) {
            let before = self.shown().len();
            self.resize(&tty, rows, 120);
            let drawn = self.wait_for_since(before, "HEARD");
            std::thread::sleep(Duration::from_millis(200));
            if self.shown().get(before..).is_some_and(|screen| screen.contains(words)) {
                return;
            }
            assert!(Instant::now() < end, "no {words:?} after octet {drawn}: {:?}", self.shown());
        }
    }

    fn resize(&self, tty: &str, rows: u16, columns: u16) {
        let (rows, columns) = (rows.to_string(), columns.to_string());
        let resized = Command::new("stty").args(["-F", tty, "rows", &rows, "cols", &columns]).status();
        assert!(resized.unwrap().success());
    }
}

#[test]
fn a_fleet_is_followed_on_a_terminal() {
    let fleet = planted("fleet-top");
    let operator = fs::read_to_string(fleet.path("operator.pub")).unwrap();
    let command =
        format!("top inventory --directory fleet.redb --operator {operator} --identities identities");
    let mut terminal = Terminal::of_fleet(&fleet, &command);
    // The whole screen, and the fleet on it.
    terminal.wait_for("\u{1b}[?1049h", 1);
    terminal.wait_for("crane", 1);
    terminal.wait_for("unknown", 1);
    // A heartbeat comes, and is shown without a key.
    fleet.beats("crane");
    terminal.wait_for_screen("confirmed");
    terminal.press("/robot\r\r");
    terminal.wait_for_screen("group ring");
    // A smaller window is drawn anew.
    let tty = terminal.shown().lines().next().unwrap().trim().to_owned();
    let before = terminal.shown().len();
    terminal.resize(&tty, 12, 60);
    terminal.wait_for_since(before, "robot");
    terminal.press("q");
    terminal.wait_for("status 0\r\n", 1);
    let shown = terminal.shown();
    let (left, ended) = (shown.rfind("\u{1b}[?1049l").unwrap(), shown.rfind("status 0").unwrap());
    assert!(left < ended, "the terminal is given back: {shown:?}");
}

/// Both wait when it looks: neither may hide the other, and it must not turn without a pause until the next key.
#[test]
fn a_key_and_another_size_at_once_are_both_heeded() {
    let fleet = planted("fleet-top-both");
    let operator = fs::read_to_string(fleet.path("operator.pub")).unwrap();
    let command =
        format!("top inventory --directory fleet.redb --operator {operator} --identities identities");
    let mut terminal = Terminal::of_fleet(&fleet, &command);
    terminal.wait_for("crane", 1);
    let tty = terminal.shown().lines().next().unwrap().trim().to_owned();
    // A terminal that takes nothing: the program hangs in its drawing when the new size and the key come, in this order.
    let script = Pid::from_raw(terminal.script.id().try_into().unwrap());
    kill(script, Signal::SIGSTOP).unwrap();
    for rows in [12, 30].into_iter().cycle().take(100) {
        terminal.resize(&tty, rows, 60);
        std::thread::sleep(Duration::from_millis(10));
    }
    terminal.press("q");
    kill(script, Signal::SIGCONT).unwrap();
    terminal.wait_for("status 0\r\n", 1);
}

/// A window that is closed, or a connection that breaks.
#[test]
fn it_ends_with_its_terminal() {
    let fleet = planted("fleet-top-gone");
    let operator = fs::read_to_string(fleet.path("operator.pub")).unwrap();
    let command =
        format!("top inventory --directory fleet.redb --operator {operator} --identities identities");
    let mut terminal = Terminal::of_fleet(&fleet, &command);
    terminal.wait_for("crane", 1);
    let program = fs::canonicalize(env!("CARGO_BIN_EXE_frameward")).unwrap();
    let folder = fs::canonicalize(fleet.0.path()).unwrap();
    let is_there = || {
        fs::read_dir("/proc").unwrap().any(|entry| {
            let process = entry.unwrap().path();
            let link = |name: &str| fs::read_link(process.join(name)).ok();
            link("exe").as_ref() == Some(&program) && link("cwd").as_ref() == Some(&folder)
        })
    };
    assert!(is_there());
    terminal.script.kill().unwrap();
    let end = Instant::now() + Duration::from_secs(30);
    while is_there() {
        assert!(Instant::now() < end, "it runs on without a terminal");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn without_a_terminal_it_says_what_to_use() {
    let fleet = planted("fleet-top-pipe");
    let operator = fs::read_to_string(fleet.path("operator.pub")).unwrap();
    let command =
        format!("top inventory --directory fleet.redb --operator {operator} --identities identities");
    assert_eq!(
        fleet.failed(2, &command),
        "frameward: fleet top needs a terminal; for a pipe or a file: frameward fleet status\n"
    );
}
