//! `frameward fleet`: exit statuses, outputs, and that mistakes are one line each and change nothing.
#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests too")]

mod audit;
mod chaos;
mod cockpit_actions;
mod due;
mod enrolment;
mod keys;
mod metrics;
mod serve;
#[path = "../terminal/mod.rs"]
mod terminal;
mod token;
mod top;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use testkit::TestDirectory;

struct Fleet(TestDirectory);

type Ran = (Option<i32>, String, String);

impl Fleet {
    fn new(test: &str) -> Self {
        let fleet = Self(TestDirectory::new(test));
        fs::create_dir_all(fleet.path("identities")).unwrap();
        fleet
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, arguments: &str) -> Ran {
        let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_frameward"))
            .arg("fleet")
            .args(arguments.split_whitespace())
            .current_dir(self.0.path())
            .output()
            .unwrap();
        (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
    }

    /// Standard output of a command that succeeds.
    fn done(&self, arguments: &str) -> String {
        let (status, stdout, stderr) = self.run(arguments);
        assert_eq!((status, stderr.as_str()), (Some(0), ""), "{arguments}");
        stdout
    }

    /// The one line of a command that fails.
    fn failed(&self, status: i32, arguments: &str) -> String {
        let (code, stdout, stderr) = self.run(arguments);
        assert_eq!((code, stdout.as_str()), (Some(status), ""), "{arguments}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        stderr
    }

    /// The operator's key; its public part.
    fn operator(&self, file: &str) -> String {
        let printed = self.done(&format!("operator --out {file}"));
        printed.trim().strip_prefix("operator = \"").unwrap().trim_end_matches('"').to_owned()
    }

    /// The identity of a box.
    fn identity(&self, name: &str) {
        let line = self.done(&format!("identity {name}.key"));
        fs::write(self.path(&format!("identities/{name}.identity")), line).unwrap();
    }

    fn render(&self, name: &str, cak: &str) {
        let folder = self.path("rendering").join(name);
        fs::create_dir_all(&folder).unwrap();
        let text = format!(
            "[gateway]\nname = \"{name}\"\n[[link]]\nname = \"press\"\nplain = \"p\"\nprotected = \"n\"\n[link.mka]\ncak_file = \"line.cak\"\n"
        );
        fs::write(folder.join("frameward.toml"), text).unwrap();
        let key = folder.join("line.cak");
        fs::write(&key, format!("ckn = 01\ncak = {}\n", cak.repeat(32))).unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    }

    /// A rendering with static keys; its own one is of this digit.
    fn static_keys(&self, name: &str, own: &str) {
        let folder = self.path("rendering").join(name);
        fs::create_dir_all(&folder).unwrap();
        let text = format!(
            "[gateway]\nname = \"{name}\"\n[[link]]\nname = \"press\"\nplain = \"p\"\nprotected = \"n\"\nsuite = \"gcm-aes-128\"\n\
             [link.static]\nan = 0\nsci = \"02:00:00:00:00:0a/1\"\nkey_file = \"a.key\"\n\
             [[link.static.peer]]\nan = 0\nsci = \"02:00:00:00:00:0b/1\"\nkey_file = \"b.key\"\n"
        );
        fs::write(folder.join("frameward.toml"), text).unwrap();
        for (key, digit) in [("a.key", own), ("b.key", "2")] {
            let path = folder.join(key);
            fs::write(&path, format!("{}\n", digit.repeat(32))).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        }
    }
}

const APPLY: &str =
    "apply rendering --signing-key operator.key --identities identities --directory fleet.redb";

fn fetch(operator: &str, name: &str) -> String {
    format!(
        "fetch --directory fleet.redb --operator {operator} --identity {name}.key --name {name} --state state-{name} box-{name}"
    )
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn from_keys_to_a_configuration_on_each_box() {
    let fleet = Fleet::new("fleet-command");
    let operator = fleet.operator("operator.key");
    assert_eq!(mode(&fleet.path("operator.key")), 0o600);
    assert!(fleet.failed(1, "operator --out operator.key").contains("already exists"));
    for name in ["press", "crane"] {
        fleet.identity(name);
        assert_eq!(mode(&fleet.path(&format!("{name}.key"))), 0o600);
        fleet.render(name, "1");
    }
    let printed = fleet.done("identity press.key");
    assert_eq!(
        printed,
        fs::read_to_string(fleet.path("identities/press.identity")).unwrap(),
        "the same each time"
    );

    let key = |name: &str| {
        let printed = fs::read_to_string(fleet.path(&format!("identities/{name}.identity"))).unwrap();
        printed.split_once("# ").unwrap().1.trim().to_owned()
    };
    let dry = fleet.done(&format!("{APPLY} --dry-run"));
    assert_eq!(dry, format!("crane {}: new\npress {}: new\n", key("crane"), key("press")));
    assert!(!fleet.path("fleet.redb").exists(), "nothing is published");
    let applied = fleet.done(APPLY);
    assert_eq!(applied.lines().filter(|line| line.ends_with(": new")).count(), 2, "{applied}");
    let version = |line: &str| line.split_once("version ").unwrap().1.split(':').next().unwrap().to_owned();
    let first = version(applied.lines().next().unwrap());
    let again = fleet.done(APPLY);
    assert!(again.contains(&format!(": unchanged, version {first}\n")), "{again}");
    assert!(!again.contains("published"), "{again}");
    let anew = fleet.done(&format!("{APPLY} --anew"));
    assert_eq!(anew.lines().filter(|line| line.contains(": published version ")).count(), 2, "{anew}");
    let first = version(anew.lines().next().unwrap());
    for name in ["press", "crane"] {
        assert!(fleet.done(&fetch(&operator, name)).ends_with(" installed\n"));
        let installed = fleet.path(&format!("box-{name}/current/line.cak"));
        assert_eq!(
            fs::read(&installed).unwrap(),
            fs::read(fleet.path(&format!("rendering/{name}/line.cak"))).unwrap()
        );
        assert_eq!(mode(&installed), 0o600);
    }
    // One changes. The other one is left alone.
    fleet.render("press", "2");
    let applied = fleet.done(APPLY);
    assert!(applied.contains(&format!("crane {}: unchanged, version {first}\n", key("crane"))), "{applied}");
    assert!(applied.contains(&format!(": changed since version {first}\n")), "{applied}");
    assert!(fleet.done(&fetch(&operator, "press")).ends_with(" installed\n"));
    assert!(fleet.done(&fetch(&operator, "crane")).ends_with(" unchanged\n"));
    assert!(fs::read_to_string(fleet.path("box-press/current/line.cak")).unwrap().contains("2222"));
    // A gateway that is in the rendering no more goes on.
    fs::remove_dir_all(fleet.path("rendering/crane")).unwrap();
    assert!(fleet.done(APPLY).ends_with("crane: is in the directory, and not in rendering; left as it is\n"));
}

#[test]
fn what_is_wrong_is_told_and_changes_nothing() {
    let fleet = Fleet::new("fleet-mistakes");
    let operator = fleet.operator("operator.key");
    let other = fleet.operator("other.key");
    fleet.render("press", "1");
    fleet.render("crane", "1");
    let said = fleet.failed(2, &fetch(&operator, "press"));
    assert!(said.contains("make this box's identity with: frameward fleet identity press.key"), "{said}");
    let status = format!("status --operator {operator} --identities identities --directory fleet.redb");
    assert!(
        fleet.failed(2, &status).contains("identities: no gateway's identity is there"),
        "nothing is looked at"
    );
    fleet.identity("press");
    assert!(fleet.failed(3, &status).contains("fleet.redb: there is no such file"));
    fs::write(fleet.path("fleet.redb"), "no directory").unwrap();
    let said = fleet.failed(3, &fetch(&operator, "press"));
    assert!(said.contains("name the file that frameward fleet apply has written"), "{said}");
    fs::remove_file(fleet.path("fleet.redb")).unwrap();
    // One gateway's identity is missing: the other one is not published either.
    assert!(fleet.failed(2, APPLY).contains("identities/crane.identity: cannot be read"));
    fs::write(fleet.path("identities/crane.identity"), "not an identity").unwrap();
    assert!(fleet.failed(2, APPLY).contains("is not a gateway's public identity"));
    // Keys of somebody else above the line that people compare.
    fleet.identity("crane");
    let crane = fs::read_to_string(fleet.path("identities/crane.identity")).unwrap();
    let foreign = fleet.done("identity foreign.key");
    let (keys, told) = (foreign.lines().next().unwrap(), crane.lines().nth(1).unwrap());
    fs::write(fleet.path("identities/crane.identity"), format!("{keys}\n{told}\n")).unwrap();
    assert!(fleet.failed(2, APPLY).contains("somebody exchanged one of the lines"));
    fs::write(fleet.path("identities/crane.identity"), crane).unwrap();
    assert!(
        fleet.failed(2, &APPLY.replace("operator.key", "none.key")).contains("fleet operator --out FILE")
    );
    fs::write(fleet.path("rendering/crane/frameward.toml"), "[gateway]\nname = \"crane\"\nmut = 1\n")
        .unwrap();
    assert!(fleet.failed(2, APPLY).starts_with("rendering/crane/frameward.toml:3: "));
    assert!(!fleet.path("fleet.redb").exists(), "nothing is published");
    fleet.render("crane", "1");
    fleet.done(APPLY);
    fleet.done(&fetch(&operator, "press"));

    // Exit status 3: it could not be judged. 1: it was refused. 2: usage.
    assert!(fleet.failed(3, &fetch(&other, "press")).contains("has nothing for press of this operator"));
    let away = fetch(&operator, "press").replace("fleet.redb", "etcd://127.0.0.1:1");
    assert!(fleet.failed(3, &away).contains("is etcd running there?"));
    let stranger =
        fetch(&operator, "press").replace("press.key", "crane.key").replace("state-press", "state-x");
    assert!(fleet.failed(1, &stranger).contains("is for the identity"));
    assert_eq!(fleet.run("fetch --directory ftp://x --operator 00 --identity a --name b c").0, Some(2));
    // The old directory is put back.
    fs::copy(fleet.path("fleet.redb"), fleet.path("old.redb")).unwrap();
    fleet.render("press", "2");
    fleet.done(APPLY);
    assert!(fleet.done(&fetch(&operator, "press")).ends_with(" installed\n"));
    fs::copy(fleet.path("old.redb"), fleet.path("fleet.redb")).unwrap();
    assert!(fleet.failed(1, &fetch(&operator, "press")).contains("somebody put an old one back"));
    assert!(
        fs::read_to_string(fleet.path("box-press/current/line.cak")).unwrap().contains("2222"),
        "it stays"
    );
    // Another operator may publish into the same directory: it is another fleet.
    fleet.done(&APPLY.replace("operator.key", "other.key"));
    assert!(fleet.failed(1, &fetch(&operator, "press")).contains("somebody put an old one back"));
}

#[test]
fn static_keys_of_a_replaced_box_go_to_no_other_one() {
    let fleet = Fleet::new("fleet-replaced");
    fleet.operator("operator.key");
    fleet.identity("press");
    fleet.static_keys("press", "1");
    fleet.done(APPLY);
    // The same box may have it again; another one may not.
    fleet.done(&format!("{APPLY} --anew"));
    fs::remove_file(fleet.path("press.key")).unwrap();
    fleet.identity("press");
    for switches in ["", " --anew", " --static-keys-are-new", " --dry-run"] {
        let refused = fleet.failed(1, &format!("{APPLY}{switches}"));
        assert!(refused.contains("its box is another one"), "{refused}");
    }
    // Published static keys are sealed, so the operator has to say that they have changed.
    fleet.static_keys("press", "3");
    fleet.failed(1, APPLY);
    let applied = fleet.done(&format!("{APPLY} --static-keys-are-new"));
    assert!(applied.contains(": has another identity than in version "), "{applied}");
}

/// Root would follow links in a folder of somebody else, and its files would be nobody's whose gateway reads them.
#[test]
fn a_folder_of_another_user_is_left_to_its_owner() {
    if !nix::unistd::Uid::effective().is_root() {
        return;
    }
    let fleet = Fleet::new("fleet-owner");
    let operator = fleet.operator("operator.key");
    fleet.identity("press");
    for folder in ["box-press", "state-press"] {
        fs::create_dir(fleet.path(folder)).unwrap();
        std::os::unix::fs::chown(fleet.path(folder), Some(12_345), None).unwrap();
        let refused = fleet.failed(2, &fetch(&operator, "press"));
        assert!(refused.contains(folder) && refused.contains("sudo -u '#12345'"), "{refused}");
        fs::remove_dir(fleet.path(folder)).unwrap();
    }
    fs::create_dir(fleet.path("theirs")).unwrap();
    std::os::unix::fs::chown(fleet.path("theirs"), Some(12_345), None).unwrap();
    assert!(fleet.failed(2, "identity theirs/fleet.key").contains("belongs to another user"));
}

/// `fleet follow` of a box whose directory has a newer version than its folder, until it says how that ended.
fn followed(fleet: &Fleet, operator: &str, ending: &str) -> String {
    let mut child = Command::new(env!("CARGO_BIN_EXE_frameward"))
        .arg("fleet")
        .args(fetch(operator, "press").replacen("fetch", "follow", 1).split_whitespace())
        .env("FRAMEWARD_RUNTIME_DIR", fleet.path("run"))
        .current_dir(fleet.0.path())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    for line in BufReader::new(child.stderr.take().unwrap()).lines() {
        said += &(line.unwrap() + "\n");
        if [" stays", " is taken back"].iter().any(|end| said.contains(end)) {
            break;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(said.contains(ending), "{said}");
    said
}

/// The gateway reads the version at its start; one that does not answer may go on with the one before.
#[test]
fn a_change_stays_where_no_gateway_runs_and_is_taken_back_where_none_answers() {
    let fleet = Fleet::new("fleet-follow");
    let operator = fleet.operator("operator.key");
    fleet.identity("press");
    fs::create_dir_all(fleet.path("run")).unwrap();
    let publish = |cak| {
        fleet.render("press", cak);
        fleet.done(APPLY);
    };
    let in_use = || fs::read_link(fleet.path("box-press/current")).unwrap();
    publish("1");
    fleet.done(&fetch(&operator, "press"));
    let first = in_use();
    publish("2");
    followed(&fleet, &operator, " stays");
    let second = in_use();
    assert_ne!(second, first);

    let socket = UnixListener::bind(fleet.path("run/press.sock")).unwrap();
    // It hears the request, and is gone.
    let answers = std::thread::spawn(move || socket.incoming().flatten().for_each(drop));
    publish("3");
    followed(&fleet, &operator, " is taken back");
    assert_eq!(in_use(), second);
    assert!(!answers.is_finished(), "the socket was there all the time");
    // Nor is it tried again by the next one.
    assert!(fleet.failed(1, &fetch(&operator, "press")).contains("was taken back before"));
}
