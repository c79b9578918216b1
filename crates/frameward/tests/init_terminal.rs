//! `init` on a terminal, which `script` makes: it asks for what is missing, whatever is typed.
#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests too")]

mod terminal;

use std::fs;
use std::path::Path;

use terminal::Terminal;
use testkit::TestDirectory;

impl Terminal {
    fn of_init(directory: &Path, arguments: &str) -> Self {
        // The shell outlives ^C, to say how init ended.
        let commands = format!(
            "trap : INT; '{}' init {arguments} --dir . --state state --user \"$(id -un)\"; echo \"status $?\"",
            env!("CARGO_BIN_EXE_frameward")
        );
        Self::start(directory, "xterm", &commands)
    }

    /// The files, once it has ended with this status.
    fn ended(&self, directory: &Path, status: u8) -> Vec<String> {
        self.wait_for(&format!("status {status}\r\n"), 1);
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

const PLAIN: &str = "The interface towards the machine";
const PROTECTED: &str = "The interface towards the insecure network";
/// Public keys of sites.
const A: &str = "4a3807d064d077181cc070989e76891d20dc5559548dc2c77c1a50273882b38d";
const B: &str = "8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c";
/// No file but those that say so.
const NOTHING: [&str; 0] = [];

#[test]
fn what_is_missing_is_asked_for() {
    let directory = TestDirectory::new("init-asks");
    let mut terminal = Terminal::of_init(directory.path(), "link --offline --name press");
    terminal.wait_for(PLAIN, 1);
    terminal.press("plain0\n");
    terminal.wait_for(PROTECTED, 1);
    terminal.press("  prot0 \n");
    assert_eq!(terminal.ended(directory.path(), 0), ["press.bundle", "press.cak", "press.toml"]);
    let text = fs::read_to_string(directory.path().join("press.toml")).unwrap();
    assert!(text.contains("\"plain0\"") && text.contains("\"prot0\""), "{text}");
}

#[test]
fn a_peer_that_nobody_reaches_is_asked_about() {
    let directory = TestDirectory::new("init-asks-via");
    let site = |name: &str, endpoint: &str| {
        let text = format!(
            "init = site\nname = {name}\npublic_key = {}\n{endpoint}",
            if endpoint.is_empty() { A } else { B }
        );
        fs::write(directory.path().join(format!("{name}.site")), text).unwrap();
    };
    site("celle", "");
    site("dresden", "endpoint = dresden.example.net:7787\n");
    let arguments = "site --offline --name berlin --lan lan0 --peer dresden.site --peer celle.site";
    let mut terminal = Terminal::of_init(directory.path(), arguments);
    terminal.wait_for("The peer that relays to celle", 1);
    terminal.press("dresden\n");
    terminal.wait_for("status 0\r\n", 1);
    let text = fs::read_to_string(directory.path().join("berlin.toml")).unwrap();
    assert!(text.contains("name       = \"celle\"\nvia        = \"dresden\"\n"), "{text}");
}

#[test]
fn garbage_is_asked_for_again_and_comes_into_no_file() {
    let directory = TestDirectory::new("init-garbage");
    let mut terminal = Terminal::of_init(directory.path(), "link --protected lo --name press");
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
    assert_eq!(terminal.ended(directory.path(), 130), NOTHING);
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
            "init cell: --local MAC and --relation [PROTOCOL,]MAC,MAC[,ID[,ID]],CYCLE missing",
        ),
    ] {
        let directory = TestDirectory::new(&format!("init-{test}"));
        let mut terminal = Terminal::of_init(directory.path(), command);
        terminal.wait_for(question, 1);
        terminal.press("\u{4}");
        assert_eq!(terminal.ended(directory.path(), 2), NOTHING, "{test}");
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
        let directory = TestDirectory::new(&format!("init-{test}"));
        let mut terminal = Terminal::of_init(directory.path(), command);
        let (before, last) = keys.rsplit_once('\n').map_or(("", keys), |(before, last)| (before, last));
        terminal.wait_for(":\r\n", 1);
        if !before.is_empty() {
            terminal.press(format!("{before}\n"));
            terminal.wait_for(":\r\n", 2);
        }
        terminal.press(last);
        assert_eq!(terminal.ended(directory.path(), 130), NOTHING, "{test}");
    }
}
