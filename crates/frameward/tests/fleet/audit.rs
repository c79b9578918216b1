//! The audit log: what commands write down, and that nobody changes it unseen.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use super::keys::{SIGNED, planted};
use super::{APPLY, Fleet, Ran};

const BUNDLE: &str =
    "bundle lathe --for serial:1 --directory fleet.redb --signing-key operator.key --identities identities";

impl Fleet {
    /// The log of this machine.
    fn audit_log(&self) -> PathBuf {
        let files = fs::read_dir(self.path("identities")).unwrap().map(|entry| entry.unwrap().path());
        let logs: Vec<_> =
            files.filter(|path| path.extension().is_some_and(|ending| ending == "audit")).collect();
        assert_eq!(logs.len(), 1, "{logs:?}");
        logs[0].clone()
    }

    /// Its lines.
    pub(super) fn audit(&self) -> Vec<Value> {
        serde_json::from_str(&self.done("audit show --identities identities --json")).unwrap()
    }

    fn verify(&self) -> String {
        let operator = fs::read_to_string(self.path("operator.pub")).unwrap();
        format!("audit verify --operator {operator} --identities identities --directory fleet.redb")
    }

    /// A command whose files may have so many blocks of 512 octets, as on a disk that is full behind them.
    fn run_limited(&self, blocks: u64, arguments: &str) -> Ran {
        let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" fleet \"$@\"");
        let Output { status, stdout, stderr } = Command::new("/bin/sh")
            .args(["-c", &script, env!("CARGO_BIN_EXE_frameward")])
            .args(arguments.split_whitespace())
            .current_dir(self.0.path())
            .output()
            .unwrap();
        (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
    }
}

/// Actions and outcomes.
fn said(lines: &[Value]) -> Vec<String> {
    let word = |line: &Value, key: &str| line[key].as_str().unwrap().to_owned();
    lines.iter().map(|line| word(line, "action") + " " + &word(line, "outcome")).collect()
}

#[test]
fn each_command_that_changes_something_is_written_down_before_and_after() {
    let fleet = Fleet::new("audit-commands");
    let mut seen = 0;
    let mut news = || {
        let lines = fleet.audit();
        let new = said(&lines[seen..]);
        seen = lines.len();
        new
    };
    let operator = fleet.operator("operator.key");
    fleet.identity("press");
    fleet.render("press", "1");
    fleet.done(&format!("{APPLY} --dry-run"));
    assert!(fleet.failed(2, "audit show --identities identities").contains("no audit log is there"));
    fleet.done(APPLY);
    assert_eq!(news(), ["apply begun", "apply done"]);
    fleet.done(APPLY);
    assert!(news().is_empty(), "nothing is changed");
    let anew = fleet.done(&format!("{APPLY} --anew"));
    let version: u64 = anew.split_once("version ").unwrap().1.split(':').next().unwrap().parse().unwrap();
    assert_eq!(news(), ["apply begun", "apply done"]);
    fleet.failed(2, &APPLY.replace("operator.key", "none.key"));
    assert_eq!(news(), ["apply refused"]);

    fleet.done(&format!("{BUNDLE} --out lathe.bundle"));
    assert_eq!(news(), ["bundle begun", "bundle done"]);
    let of_fleet = format!("--directory fleet.redb --operator {operator}");
    let asked = fleet.done(&format!("enrol {of_fleet} --name crane --identity crane.key"));
    let code = asked.trim().rsplit_once(' ').unwrap().1;
    let approve = |code| format!("approve crane {code} {of_fleet} --identities identities");
    fleet.failed(1, &approve("1234-5678-9012-3456"));
    assert_eq!(news(), ["approve refused"]);
    fleet.done(&approve(code));
    assert_eq!(news(), ["approve begun", "approve done"]);

    let lines = fleet.audit();
    let (begun, done) = (&lines[2], &lines[3]);
    assert_eq!(begun["objects"], serde_json::json!(["rendering", "--anew", "press"]));
    assert_eq!(done["begun"], begun["line"]);
    assert_eq!(done["versions"], serde_json::json!({ "press": version }));
    assert_eq!(lines[4]["reason"].as_str().unwrap().split(';').next(), Some("none.key does not exist"));
    assert_eq!(lines[4]["operator"], Value::Null, "nobody knows whose key it would have been");
    for line in &lines {
        let of = |key: &str| line[key].as_str();
        assert_eq!(of("time").unwrap().len(), "2026-07-14T08:30:00Z".len());
        assert!(!of("login").unwrap().is_empty() && !of("host").unwrap().is_empty(), "{line}");
        let signs = matches!(of("action").unwrap(), "apply" | "bundle") && of("outcome") != Some("refused");
        assert_eq!(of("signature").is_some(), signs, "{line}");
        assert!(!signs || of("operator") == Some(&*operator), "{line}");
    }
    fs::write(fleet.path("operator.pub"), operator).unwrap();
    let verified = fleet.done(&fleet.verify());
    assert!(verified.contains(": 10 lines chain; a signature of this operator covers lines 1 to 7; the directory has the head of line 4\n"), "{verified}");
}

#[test]
fn new_keys_and_revocations_are_written_down() {
    let fleet = planted("audit-keys");
    fleet.failed(2, &format!("rotate rng {SIGNED}"));
    fleet.done(&format!("rotate ring {SIGNED} --wait 0"));
    fleet.done(&format!("rotate ring {SIGNED} --finish"));
    assert_eq!(fleet.done(&format!("rotate --due {SIGNED}")), "no CAK is due\n");
    fleet.done(&format!("revoke robot {SIGNED} --now"));
    let lines = fleet.audit();
    let all = [
        "apply begun",
        "apply done",
        "rotate refused",
        "rotate begun",
        "rotate done",
        "rotate begun",
        "rotate done",
        "revoke begun",
        "revoke done",
    ];
    assert_eq!(said(&lines), all);
    assert_eq!(lines[5]["objects"], serde_json::json!(["ring", "--finish"]));
    assert_eq!(lines[7]["objects"], serde_json::json!(["robot", "--now"]));
    let revoked = lines[8]["versions"].as_object().unwrap().keys().map(String::as_str).collect::<Vec<_>>();
    assert_eq!(revoked, ["crane", "press", "robot"]);
    assert!(fleet.done(&fleet.verify()).contains("the directory has the head of line 9\n"));
    let shown = fleet.done("audit show --identities identities");
    assert_eq!(shown.lines().count(), all.len());
    let revoke = shown.lines().nth(8).unwrap();
    assert!(revoke.contains(": revoke robot --now: done, begun in line 8; crane: version "), "{revoke}");
    assert!(revoke.ends_with("; signed"), "{revoke}");
}

#[test]
fn who_changes_or_cuts_the_log_is_noticed_and_what_he_did_is_not_covered_up() {
    let fleet = planted("audit-changed");
    let (log, verify) = (fleet.audit_log(), fleet.verify());
    let whole = fs::read(&log).unwrap();
    let text = String::from_utf8(whole.clone()).unwrap();
    let first = text.split_inclusive('\n').next().unwrap();
    let anew = format!("{APPLY} --anew");
    assert!(
        fleet.done(&verify).contains(": 2 lines chain; a signature of this operator covers lines 1 to 2;")
    );

    fs::write(&log, text.replace("\"outcome\":\"done\"", "\"outcome\":\"failed\"")).unwrap();
    assert!(fleet.failed(1, &verify).contains(".audit:2: is not what was signed"));
    // Cut off: the chain alone does not tell.
    fs::write(&log, first).unwrap();
    let cut = "is missing: the directory has the signed head of line 2; lines were cut off";
    assert!(fleet.failed(1, &verify).contains(&format!(".audit:2: {cut}")));
    let alone = verify.replace(" --directory fleet.redb", "");
    assert!(fleet.done(&alone).contains("not compared with a directory"));
    // The operator does not know, and goes on: the true head stays, and tells.
    let (status, applied, told) = fleet.run(&anew);
    assert!(status == Some(1) && applied.matches(": published version ").count() == 3, "{applied}{told}");
    assert!(told.contains(".audit:2: is not the one that the directory has the signed head of"), "{told}");
    assert!(told.trim_end().ends_with("; what was published stays"), "{told}");
    assert!(fleet.failed(1, &verify).contains("is not the one that the directory has"));
    // A copy that is whole is put there.
    fs::write(&log, &whole).unwrap();
    fleet.done(&anew);
    assert!(fleet.done(&verify).contains("the directory has the head of line 4\n"));

    // A log that does not chain takes no line, and without a line nothing is done.
    let whole = fs::read(&log).unwrap();
    fs::write(&log, text.replacen("\"action\":\"apply\"", "\"action\":\"appl\"", 1)).unwrap();
    let before = fs::read(fleet.path("fleet.redb")).unwrap();
    let refused = fleet.failed(1, &anew);
    assert!(refused.contains(".audit:2: does not name the line before it"), "{refused}");
    assert!(refused.trim_end().ends_with("then a new log begins; nothing is changed"), "{refused}");
    assert_eq!(fs::read(fleet.path("fleet.redb")).unwrap(), before);

    // The whole log is taken away.
    fs::remove_file(&log).unwrap();
    assert!(fleet.failed(2, &verify).contains("no audit log is there"));
    fleet.done(&anew);
    let (status, shown, missed) = fleet.run(&verify);
    assert_eq!((status, shown.lines().count()), (Some(1), 1), "the new one is fine: {shown}");
    assert!(missed.contains("which is not here: its line 4 of "), "{missed}");
    let known = missed.trim_end().rsplit_once("--known ").unwrap().1;
    fleet.done(&format!("{verify} --known {known}"));
    // A copy of it beside the new one.
    fs::write(fleet.path("identities/copy.audit"), &whole).unwrap();
    assert_eq!(fleet.done(&verify).lines().count(), 2);
    // And the same once more.
    fs::write(fleet.path("identities/same.audit"), &whole).unwrap();
    assert_eq!(fleet.done(&verify).matches("the directory has the head of line ").count(), 3);
}

#[test]
fn a_command_that_was_killed_is_seen() {
    let fleet = planted("audit-killed");
    ["press", "crane", "robot"].iter().for_each(|name| fleet.beats(name));
    let mut rotate = Command::new(env!("CARGO_BIN_EXE_frameward"))
        .arg("fleet")
        .args(format!("rotate ring {SIGNED} --wait 600").split_whitespace())
        .current_dir(fleet.0.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut printed = BufReader::new(rotate.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(printed.any(|line| line.contains("waits up to")), "it has begun");
    rotate.kill().unwrap();
    rotate.wait().unwrap();
    let open = ".audit:3: no line says how this rotate ended: it runs still, or was cut off\n";
    assert!(fleet.done(&fleet.verify()).contains(open));
    fleet.done(&format!("rotate ring {SIGNED} --wait 0"));
    assert_eq!(said(&fleet.audit())[2..], ["rotate begun", "rotate begun", "rotate done"]);
    assert!(fleet.done(&fleet.verify()).contains(open), "it stays open");
}

#[test]
fn a_full_disk_is_told_and_a_line_that_was_cut_off_costs_no_other_one() {
    let fleet = planted("audit-full");
    let log = fleet.audit_log();
    let whole = fs::read(&log).unwrap();
    let directory = fs::read(fleet.path("fleet.redb")).unwrap();
    // Of a name that is longer than what a block has left.
    let long = "r".repeat(250);
    fs::rename(fleet.path("rendering"), fleet.path(&long)).unwrap();
    let apply = format!("{} --anew", APPLY.replace("rendering", &long));
    let blocks = whole.len() as u64 / 512;
    for blocks in [blocks, blocks + 1] {
        let (status, printed, told) = fleet.run_limited(blocks, &apply);
        assert_eq!((status, printed.as_str()), (Some(1), ""), "{told}");
        assert!(told.lines().count() == 1 && told.contains("File too large"), "{told}");
        assert!(
            told.trim_end().ends_with("free its disk, or give the file to this user; nothing is changed")
        );
        assert_eq!(fs::read(&log).unwrap(), whole, "no part of a line is left");
        assert_eq!(fs::read(fleet.path("fleet.redb")).unwrap(), directory);
    }
    // The machine stops while a line is written.
    fleet.done(&format!("{BUNDLE} --out lathe.bundle"));
    let mut octets = fs::read(&log).unwrap();
    octets.truncate(octets.len() - 20);
    fs::write(&log, &octets).unwrap();
    assert!(fleet.failed(1, &fleet.verify()).contains(".audit:4: was cut off"));
    let (status, _, told) = fleet.run(&format!("{BUNDLE} --out second.bundle"));
    assert!(status == Some(0) && told.contains(".audit:4: was cut off while it was written"), "{told}");
    assert!(fs::read(&log).unwrap().starts_with(&octets));
    let verified = fleet.done(&fleet.verify());
    assert!(
        verified.contains(".audit:4: was cut off") && verified.contains(".audit:3: no line says"),
        "{verified}"
    );
}

/// Revocation waits for no disk, and for nobody to find out who changed the log.
#[test]
fn a_gateway_is_revoked_also_if_the_log_takes_no_line() {
    let fleet = planted("audit-revoked");
    let log = fleet.audit_log();
    let whole = fs::read_to_string(&log).unwrap();
    let broken = whole.replacen("\"action\":\"apply\"", "\"action\":\"appl\"", 1);
    fs::write(&log, &broken).unwrap();
    let refused = fleet.failed(1, &format!("rotate ring {SIGNED} --wait 0"));
    assert!(refused.trim_end().ends_with("; nothing is changed"), "{refused}");
    let revoke = format!("revoke robot {SIGNED} --now");
    let (status, printed, told) = fleet.run(&revoke);
    assert!(status == Some(1) && printed.contains(": revoked\n"), "{printed}{told}");
    assert_eq!(printed.matches(": published version ").count(), 3, "{printed}");
    let [begun, ended] = told.lines().collect::<Vec<_>>().try_into().unwrap();
    assert!(begun.ends_with("; the revocation does not wait for that"), "{told}");
    assert!(ended.ends_with("; the log does not say how this ended; what was done stays"), "{told}");
    assert_eq!(fs::read_to_string(&log).unwrap(), broken);
    // A copy that is whole is put there. The same command has nothing left to do, and is written down.
    fs::write(&log, &whole).unwrap();
    assert!(fleet.done(&revoke).contains("unchanged, revoked\n"));
    assert_eq!(said(&fleet.audit())[2..], ["revoke begun", "revoke done"]);
}

/// Whoever writes the file may put anything into it.
#[test]
fn what_a_terminal_would_obey_is_not_shown() {
    let fleet = Fleet::new("audit-terminal");
    let line = r#"{"line":1,"time":"\u001b[2J","previous":"","login":"a\nb","host":"c","action":"apply","outcome":"done"}"#;
    fs::write(fleet.path("identities/c.audit"), format!("{line}\n\u{1b}[2J\n")).unwrap();
    let (status, shown, told) = fleet.run("audit show --identities identities");
    assert_eq!((status, shown.as_str()), (Some(0), "c:1  [2J a b: apply: done\n"));
    assert_eq!(told, "identities/c.audit:2: is no line of an audit log\n");
}
