//! `fleet rotate` and `fleet revoke`: what is interrupted goes on, and nothing else goes along.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use inventory::{KeyFolder, Renewal};

use super::{APPLY, Fleet, fetch};

/// A fleet with an inventory of two gateways on a link, and of three in a group; applied.
pub(super) fn planted(test: &str) -> Fleet {
    let fleet = Fleet::new(test);
    fs::write(fleet.path("operator.pub"), fleet.operator("operator.key")).unwrap();
    fs::create_dir(fleet.path("inventory")).unwrap();
    let mut text =
        "[template.box]\nports = { plain = \"p\", protected = \"n\", ring = \"r\", plant = \"s\" }\n"
            .to_owned();
    for name in ["press", "crane", "robot"] {
        fleet.identity(name);
        text += &format!("[gateway.{name}]\ntemplate = \"box\"\n");
    }
    text += "[[link]]\nname = \"line\"\ngateways = [\"press\", \"crane\"]\n\
             [[group]]\nname = \"ring\"\ngateways = [\"press\", \"crane\", \"robot\"]\nplain = \"plant\"\nprotected = \"ring\"\n";
    fs::write(fleet.path("inventory/plant.toml"), text).unwrap();
    fleet.done("render inventory --to rendering");
    fleet.done(APPLY);
    fleet
}

pub(super) const SIGNED: &str =
    "inventory --to rendering --signing-key operator.key --identities identities --directory fleet.redb";

/// Names of the CAKs that a gateway gets on the ring.
pub(super) fn ring(fleet: &Fleet, name: &str) -> Vec<String> {
    let (config, _) = config::load(&fleet.path(&format!("rendering/{name}/frameward.toml"))).unwrap();
    let link = config.links.iter().find(|link| link.name == "ring").unwrap();
    link.mka().unwrap().caks().map(config::key_file::NamedCak::fingerprint).collect()
}

#[test]
fn a_rotation_goes_step_by_step_and_nothing_else_goes_along() {
    let fleet = planted("fleet-rotate");
    let old = ring(&fleet, "press");
    assert!(fleet.failed(2, &format!("rotate rng {SIGNED}")).contains("did you mean \"ring\"?"));
    // Changes that are not applied yet do not go along.
    let plant = fs::read_to_string(fleet.path("inventory/plant.toml")).unwrap();
    fs::write(fleet.path("inventory/plant.toml"), format!("{plant}replay_window = 64\n")).unwrap();
    assert!(
        fleet.failed(1, &format!("rotate ring {SIGNED}")).contains("has changes that are not in rendering")
    );
    assert!(!fleet.path("inventory/keys/ring.cak.before").exists(), "nothing has begun");
    fs::write(fleet.path("inventory/plant.toml"), &plant).unwrap();

    // Nor what is rendered and not applied.
    fs::write(fleet.path("inventory/plant.toml"), format!("{plant}replay_window = 64\n")).unwrap();
    fleet.done("render inventory --to rendering");
    let refused = fleet.failed(1, &format!("rotate ring {SIGNED}"));
    assert!(refused.contains("not in the directory, for crane, press, robot; apply them first"), "{refused}");
    fs::write(fleet.path("inventory/plant.toml"), plant).unwrap();
    fleet.done("render inventory --to rendering");
    // Nor anything while the directory is away.
    let away = format!("rotate ring {SIGNED}").replace("fleet.redb", "etcd://127.0.0.1:1");
    assert_eq!(fleet.run(&away).0, Some(1));
    assert!(!fleet.path("inventory/keys/ring.cak.before").exists(), "nothing has begun");

    // Killed when the new key was there, and when it was rendered: the same command goes on.
    KeyFolder::new(fleet.path("inventory/keys")).renew("ring.cak", Renewal::Overlapping).unwrap();
    fleet.done("render inventory --to rendering");
    let begun = ring(&fleet, "press");
    assert_eq!((begun.len(), &begun[1..]), (2, &old[..]), "a new one, and the old one beside it");
    // The second step has to wait for the first.
    let early = fleet.failed(1, &format!("rotate ring {SIGNED} --finish"));
    assert!(early.contains("does not have the first step for crane, press, robot"), "{early}");
    let done = fleet.done(&format!("rotate ring {SIGNED}"));
    assert!(done.contains("not known here: whether crane, press, robot have fetched this"), "{done}");
    for name in ["press", "crane", "robot"] {
        assert_eq!(ring(&fleet, name), begun);
    }
    // Killed when the old key had ended, and nothing was rendered.
    KeyFolder::new(fleet.path("inventory/keys")).finish("ring.cak").unwrap();
    fleet.done(&format!("rotate ring {SIGNED} --finish"));
    assert_eq!(ring(&fleet, "press"), begun[..1]);
    let again = fleet.done(&format!("rotate ring {SIGNED} --finish"));
    assert!(again.contains("press ") && !again.contains("published"), "once more changes nothing: {again}");
}

#[test]
fn a_revocation_that_was_interrupted_goes_on_and_its_keys_go_to_nobody() {
    let fleet = planted("fleet-revoke");
    let old = ring(&fleet, "press");
    assert!(fleet.failed(2, &format!("revoke cran {SIGNED}")).contains("did you mean \"crane\"?"));
    assert!(fleet.failed(2, &format!("revoke robot {SIGNED} --finish")).contains("take the first step"));
    // Interrupted before keys were exchanged: a file is in the way.
    fs::create_dir(fleet.path("inventory/keys/ring.cak.next")).unwrap();
    let (status, _, said) = fleet.run(&format!("revoke robot {SIGNED}"));
    assert!(status == Some(1) && said.contains("run the same command again"), "{said}");
    let refused = fleet.failed(1, "render inventory --to rendering");
    assert!(refused.contains("robot was revoked, and knows ring.cak"), "{refused}");
    // The second step without the first would leave gateways without a common CAK.
    let early = fleet.failed(1, &format!("revoke robot {SIGNED} --finish"));
    assert!(early.contains("ring.cak was not exchanged yet"), "{early}");
    fs::remove_dir(fleet.path("inventory/keys/ring.cak.next")).unwrap();
    let first = fleet.done(&format!("revoke robot {SIGNED}"));
    assert!(first.contains("until then robot can speak"), "{first}");
    let begun = ring(&fleet, "press");
    assert_eq!((begun.len(), &begun[1..]), (2, &old[..]));
    assert!(
        fleet.failed(1, &format!("rotate ring {SIGNED} --finish")).contains("because a gateway was revoked")
    );
    let line = fs::read(fleet.path("inventory/keys/line.cak")).unwrap();
    fleet.done(&format!("revoke robot {SIGNED} --finish"));
    assert_eq!(ring(&fleet, "press"), begun[..1]);
    assert_eq!(fs::read(fleet.path("inventory/keys/line.cak")).unwrap(), line, "it did not know this one");
    assert!(!fleet.path("rendering/robot").exists());

    // A later rotation of the same CAK is no matter of the revocation.
    fleet.done(&format!("rotate ring {SIGNED}"));
    let again = fleet.done(&format!("revoke robot {SIGNED}"));
    assert!(!again.contains("can speak"), "{again}");
    // A repeated command takes nothing else along.
    let plant = fs::read_to_string(fleet.path("inventory/plant.toml")).unwrap();
    fs::write(fleet.path("inventory/plant.toml"), format!("{plant}replay_window = 64\n")).unwrap();
    for command in [
        "revoke robot",
        "revoke robot --finish",
        "rotate ring",
        "rotate ring --finish",
        "rotate line --finish",
    ] {
        let refused = fleet.failed(1, &format!("{command} {SIGNED}"));
        assert!(refused.contains("has changes that are not in rendering"), "{command}: {refused}");
    }
    fs::write(fleet.path("inventory/plant.toml"), plant).unwrap();
    fleet.done(&format!("revoke robot {SIGNED} --finish"));
    assert_eq!(ring(&fleet, "press").len(), 2, "the rotation goes on");
    fleet.done(&format!("rotate ring {SIGNED} --finish"));
    let begun = ring(&fleet, "press");
    assert_eq!(begun.len(), 1);

    // Both steps at once, while a rotation is under way of which it knows both CAKs.
    fleet.done(&format!("rotate line {SIGNED}"));
    let refused = fleet.failed(2, &format!("revoke crane {SIGNED}"));
    assert!(refused.contains("line.cak is being renewed, and crane knows both CAKs"), "{refused}");
    let at_once = fleet.done(&format!("revoke crane {SIGNED} --now"));
    assert!(
        at_once.contains("line.cak: a new key, which crane does not get") && !at_once.contains("can speak"),
        "{at_once}"
    );
    assert!(!fleet.path("inventory/keys/line.cak.before").exists());
    assert_ne!(ring(&fleet, "press"), begun[..1]);
}

/// A revocation in a group is no matter of gateways that have nothing to do with it: they get no record, and what they have not got yet stays there.
#[test]
fn a_revocation_is_published_for_those_whom_it_concerns_alone() {
    let fleet = planted("fleet-concerned");
    let plant = fs::read_to_string(fleet.path("inventory/plant.toml")).unwrap();
    let mut text = plant.replace(
        "[[link]]",
        "[gateway.lathe]\ntemplate = \"box\"\n[gateway.mill]\ntemplate = \"box\"\n[[link]]",
    );
    for name in ["lathe", "mill"] {
        fleet.identity(name);
    }
    text += "[[link]]\nname = \"hall\"\ngateways = [\"lathe\", \"mill\"]\n";
    fs::write(fleet.path("inventory/plant.toml"), &text).unwrap();
    fleet.done("render inventory --to rendering");
    fleet.done(APPLY);
    // Rendered and not applied, for others.
    text += "replay_window = 64\n";
    fs::write(fleet.path("inventory/plant.toml"), &text).unwrap();
    fleet.done("render inventory --to rendering");
    let revoked = fleet.done(&format!("revoke robot {SIGNED} --now"));
    for name in ["press", "crane", "robot"] {
        assert_eq!(
            revoked.matches(&format!("{name} ")).count(),
            1 + usize::from(name == "robot"),
            "{revoked}"
        );
    }
    assert_eq!(revoked.matches(": published version").count(), 3, "{revoked}");
    assert!(!revoked.contains("lathe ") && !revoked.contains("mill "), "{revoked}");
    let applied = fleet.done(APPLY);
    for name in ["lathe", "mill"] {
        let line = applied.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(line.contains("changed since version") && !line.contains("without a trial"), "{applied}");
    }
    assert_eq!(applied.matches(": unchanged, version").count(), 2, "{applied}");
    // For one whom it concerns that is refused, and nothing begins.
    let text = text.replace("name = \"line\"\n", "name = \"line\"\nreplay_window = 32\n");
    fs::write(fleet.path("inventory/plant.toml"), text).unwrap();
    fleet.done("render inventory --to rendering");
    let refused = fleet.failed(1, &format!("revoke crane {SIGNED} --now"));
    assert!(refused.contains("not in the directory, for press; apply them first"), "{refused}");
    assert!(!fs::read_to_string(fleet.path("inventory/revoked.toml")).unwrap().contains("crane"));
}

/// The folder of the rendering cannot be written: its name leaves no room for that of the new one beside it. In the first step the directory says by
/// itself that the old folder is not to be applied. In the second one it does not, and takes nothing that the folder does not have.
#[test]
fn a_revocation_whose_rendering_was_not_written_is_not_taken_back_by_the_old_one() {
    let fleet = planted("fleet-revoke-unwritten");
    let aside = "r".repeat(250);
    let unwritten = |command: &str| {
        fs::rename(fleet.path("rendering"), fleet.path(&aside)).unwrap();
        let command =
            format!("revoke robot {SIGNED} {command}").replace("--to rendering", &format!("--to {aside}"));
        let (status, said, error) = fleet.run(&command);
        fs::rename(fleet.path(&aside), fleet.path("rendering")).unwrap();
        assert!(status == Some(1) && error.contains("File name too long"), "{said}{error}");
        said
    };
    let old = ring(&fleet, "press");
    let said = unwritten("");
    assert_eq!(said.matches(": published version").count(), 3, "the record of robot, and two: {said}");
    assert_eq!(ring(&fleet, "press"), old);
    let (status, said, error) = fleet.run(APPLY);
    assert!(status != Some(0) && !said.contains("published version"), "{said}{error}");
    let again = fleet.done(&format!("revoke robot {SIGNED}"));
    assert!(!again.contains("published version") && !fleet.path("rendering/robot").exists(), "{again}");
    let both = ring(&fleet, "press");
    assert_eq!((both.len(), &both[1..]), (2, &old[..]));

    let said = unwritten("--finish");
    assert!(!said.contains("published version"), "{said}");
    assert_eq!(ring(&fleet, "press"), both);
    let applied = fleet.done(APPLY);
    assert_eq!(applied.matches(": unchanged, version").count(), 2, "{applied}");
    let again = fleet.done(&format!("revoke robot {SIGNED} --finish"));
    assert_eq!(again.matches(": published version").count(), 2, "{again}");
    assert_eq!(ring(&fleet, "press"), both[..1]);
}

/// A copy of what an operator has, as another one's checkout.
fn checkout(fleet: &Fleet) -> String {
    for folder in ["inventory", "inventory/keys", "identities"] {
        fs::create_dir_all(fleet.path("other").join(folder)).unwrap();
        for entry in fs::read_dir(fleet.path(folder)).unwrap().map(Result::unwrap) {
            if entry.path().is_file() {
                fs::copy(entry.path(), fleet.path("other").join(folder).join(entry.file_name())).unwrap();
            }
        }
    }
    fleet.done("render other/inventory --to other/rendering");
    SIGNED
        .replace("inventory --to rendering", "other/inventory --to other/rendering")
        .replace("identities identities", "identities other/identities")
}

#[test]
fn what_an_operator_revoked_stays_when_another_one_goes_on_with_old_files() {
    let fleet = planted("fleet-two-operators");
    let other = checkout(&fleet);
    fleet.done(&format!("revoke robot {SIGNED} --now"));
    let apply = APPLY
        .replace("rendering", "other/rendering")
        .replace("identities identities", "identities other/identities");
    let old = fs::read(fleet.path("other/inventory/keys/ring.cak")).unwrap();
    for command in
        [&apply, &format!("{apply} --anew"), &format!("{apply} --dry-run"), &format!("rotate ring {other}")]
    {
        let refused = fleet.failed(1, command);
        assert!(refused.contains("robot ") && refused.contains("was revoked in version"), "{refused}");
        assert!(refused.contains("get the inventory with its revoked.toml"), "{refused}");
    }
    assert_eq!(fs::read(fleet.path("other/inventory/keys/ring.cak")).unwrap(), old, "nothing has begun");
    // Nothing was put there, for the others neither.
    let now = fleet.done(APPLY);
    assert_eq!(now.matches(": unchanged, version").count(), 2, "{now}");
    assert!(fleet.done(&format!("revoke robot {SIGNED} --now")).contains("unchanged, revoked"));
}

#[test]
fn a_revocation_is_on_no_trial_also_if_it_was_applied_before_and_what_follows_is_not_either() {
    let fleet = planted("fleet-no-trial");
    // Killed when it was rendered; somebody applies the rendering, on trial.
    let before = fs::read(fleet.path("fleet.redb")).unwrap();
    fleet.done(&format!("revoke robot {SIGNED}"));
    fs::write(fleet.path("fleet.redb"), before).unwrap();
    let applied = fleet.done(APPLY);
    assert!(applied.contains(": changed since version") && !applied.contains("without a trial"), "{applied}");
    let early = fleet.failed(1, &format!("revoke robot {SIGNED} --finish"));
    assert!(early.contains("does not have the first step for crane, press"), "{early}");
    let again = fleet.done(&format!("revoke robot {SIGNED}"));
    assert_eq!(again.matches(": changed since version").count(), 2, "{again}");
    fleet.done(&format!("revoke robot {SIGNED} --finish"));

    // Whoever has not fetched that yet gets what takes its place, on no trial either, until the operator knows.
    fleet.render_window(64);
    let applied = fleet.done(APPLY);
    assert_eq!(applied.matches("; without a trial, as that was\n").count(), 2, "{applied}");
    let rotated = fleet.done(&format!("rotate line {SIGNED}"));
    assert_eq!(rotated.matches("; without a trial, as that was\n").count(), 2, "{rotated}");
    fleet.done(&format!("rotate line {SIGNED} --finish"));
    fleet.render_window(65);
    let applied = fleet.done(&format!("{APPLY} --on-trial"));
    assert!(applied.contains(": changed since version") && !applied.contains("without a trial"), "{applied}");
    fleet.render_window(66);
    let applied = fleet.done(APPLY);
    assert!(applied.contains(": changed since version") && !applied.contains("without a trial"), "{applied}");
}

impl Fleet {
    /// Renders another window of the ring.
    fn render_window(&self, window: u32) {
        let file = self.path("inventory/plant.toml");
        let text = fs::read_to_string(&file).unwrap();
        let text = text.split("replay_window").next().unwrap();
        fs::write(&file, format!("{text}replay_window = {window}\n")).unwrap();
        self.done("render inventory --to rendering");
    }
}

#[test]
fn a_box_under_a_name_that_was_revoked_is_not_taken_and_does_not_hide_the_one_before() {
    let fleet = planted("fleet-replaced-name");
    let operator = fs::read_to_string(fleet.path("operator.pub")).unwrap();
    let asks = |key: &str, name: &str| {
        let shown = fleet.done(&format!(
            "enrol --directory fleet.redb --operator {operator} --name {name} --identity {key}"
        ));
        let code = shown.trim().rsplit_once(' ').unwrap().1.to_owned();
        format!("approve {name} {code} --directory fleet.redb --operator {operator} --identities identities")
    };
    fs::write(fleet.path("identities/robot.token"), "of a bundle").unwrap();
    fleet.done(&format!("revoke robot {SIGNED}"));
    assert!(!fleet.path("identities/robot.token").exists(), "its bundle has ended");
    let refused = fleet.failed(1, &asks("second.key", "robot"));
    assert!(refused.contains("a gateway of the name robot was revoked"), "{refused}");
    // People put it there all the same.
    let second = fleet.done("identity second.key");
    fs::write(fleet.path("identities/robot.identity"), &second).unwrap();
    let finished = fleet.done(&format!("revoke robot {SIGNED} --finish"));
    assert!(finished.contains("of another box than the one that was revoked"), "{finished}");
    assert_eq!(fs::read_to_string(fleet.path("identities/robot.identity")).unwrap(), second);
    let refused = fleet.failed(1, &asks("robot.key", "lathe"));
    assert!(refused.contains("an identity that was revoked"), "the stolen one is known still: {refused}");
}

#[test]
fn keys_that_a_revoked_gateway_knew_are_refused_wherever_they_are() {
    let fleet = planted("fleet-copies");
    let ring = fleet.path("inventory/keys/ring.cak");
    fs::create_dir(fleet.path("inventory/keys/press")).unwrap();
    let own = fleet.path("inventory/keys/press/ring.cak");
    let old = fs::read(&ring).unwrap();
    fs::copy(&ring, &own).unwrap();
    for switch in ["", " --now"] {
        let refused = fleet.failed(2, &format!("revoke robot {SIGNED}{switch}"));
        assert!(refused.contains("keys/press/ring.cak has a key that gateway \"robot\" knows"), "{refused}");
    }
    let refused = fleet.failed(2, &format!("rotate ring {SIGNED}"));
    assert!(refused.contains("\"press\" has ring.cak to itself"), "{refused}");
    assert!(!fleet.path("inventory/revoked.toml").exists() && fs::read(&ring).unwrap() == old);
    fs::remove_file(&own).unwrap();

    // A second CAK has the place that the first step needs.
    let plant = fs::read_to_string(fleet.path("inventory/plant.toml")).unwrap();
    fs::write(
        fleet.path("inventory/plant.toml"),
        format!("{plant}at.press.mka.fallback_cak_file = \"line.cak\"\n"),
    )
    .unwrap();
    fleet.done("render inventory --to rendering");
    fleet.done(APPLY);
    let refused = fleet.failed(2, &format!("revoke robot {SIGNED}"));
    assert!(refused.contains("names a fallback_cak_file") && refused.contains("or use --now"), "{refused}");
    assert!(!fleet.path("inventory/revoked.toml").exists() && fs::read(&ring).unwrap() == old);
    fleet.done(&format!("revoke robot {SIGNED} --now"));
    assert_ne!(fs::read(&ring).unwrap(), old);

    // It comes back later.
    fs::copy(&ring, &own).unwrap();
    fs::write(&own, &old).unwrap();
    let refused = fleet.failed(1, "render inventory --to rendering");
    assert!(
        refused.contains("robot was revoked, and knows the key in") && refused.contains("press/ring.cak"),
        "{refused}"
    );
}

/// Its own copy of a CAK is no reason to refuse: the others' is exchanged.
#[test]
fn a_gateway_with_a_copy_of_its_own_is_revoked_step_by_step() {
    let fleet = planted("fleet-own-copy");
    let old = ring(&fleet, "press");
    fs::create_dir(fleet.path("inventory/keys/robot")).unwrap();
    fs::copy(fleet.path("inventory/keys/ring.cak"), fleet.path("inventory/keys/robot/ring.cak")).unwrap();
    fleet.done(&format!("revoke robot {SIGNED}"));
    let begun = ring(&fleet, "press");
    assert_eq!((begun.len(), &begun[1..]), (2, &old[..]));
    // Killed when the old key had ended, and nothing was rendered.
    KeyFolder::new(fleet.path("inventory/keys")).finish("ring.cak").unwrap();
    fleet.done(&format!("revoke robot {SIGNED} --finish"));
    assert_eq!(ring(&fleet, "press"), begun[..1]);
}

#[test]
fn one_command_at_a_time_changes_keys() {
    let fleet = planted("fleet-lock");
    let keys = fs::File::open(fleet.path("inventory/keys")).unwrap();
    keys.lock().unwrap();
    for command in ["revoke robot", "revoke robot --now", "rotate ring", "rotate ring --finish"] {
        let refused = fleet.failed(1, &format!("{command} {SIGNED}"));
        assert!(refused.contains("another frameward fleet command is at work there"), "{command}: {refused}");
    }
    fleet.failed(1, "render inventory --to rendering");
    assert!(!fleet.path("inventory/revoked.toml").exists());
    keys.unlock().unwrap();
    fleet.done(&format!("revoke robot {SIGNED}"));
}

/// Nobody takes a version without a trial back, so a gateway that does not take it at once is asked until it does.
#[test]
fn a_revocation_is_offered_to_the_gateway_until_that_takes_it() {
    let fleet = planted("fleet-asked-again");
    let operator = fs::read_to_string(fleet.path("operator.pub")).unwrap();
    fs::create_dir_all(fleet.path("run")).unwrap();
    fleet.done(&fetch(&operator, "press"));
    let mut agent = Command::new(env!("CARGO_BIN_EXE_frameward"))
        .arg("fleet")
        .args(fetch(&operator, "press").replacen("fetch", "follow", 1).split_whitespace())
        .env("FRAMEWARD_RUNTIME_DIR", fleet.path("run"))
        .current_dir(fleet.0.path())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(agent.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(said.any(|line| line.contains("press.sock")), "no gateway runs when it starts");
    let socket = UnixListener::bind(fleet.path("run/press.sock")).unwrap();
    let (asked, requests) = mpsc::channel();
    // It hears each request, and is gone.
    std::thread::spawn(move || socket.incoming().flatten().for_each(|_| _ = asked.send(())));
    std::thread::spawn(move || said.for_each(drop));
    fleet.done(&format!("revoke robot {SIGNED} --now"));
    let heard = (0..3).all(|_| requests.recv_timeout(Duration::from_secs(60)).is_ok());
    agent.kill().unwrap();
    agent.wait().unwrap();
    assert!(heard, "it is asked again and again");
}

/// Whoever writes the directory shows the record before again, whose version all have confirmed. Nobody has confirmed the first step.
#[test]
fn a_rotation_does_not_take_an_older_version_for_its_own() {
    let fleet = planted("fleet-older-shown");
    for name in ["press", "crane", "robot"] {
        fleet.beats(name);
    }
    let before = fs::read(fleet.path("fleet.redb")).unwrap();
    let mut rotate = Command::new(env!("CARGO_BIN_EXE_frameward"))
        .arg("fleet")
        .args(format!("rotate ring {SIGNED} --wait 3").split_whitespace())
        .current_dir(fleet.0.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(rotate.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(said.any(|line| line.contains("waits up to")), "the step is published");
    fs::write(fleet.path("old.redb"), before).unwrap();
    fs::rename(fleet.path("old.redb"), fleet.path("fleet.redb")).unwrap();
    let said: Vec<String> = said.collect();
    assert!(rotate.wait().unwrap().success(), "{said:?}");
    assert!(!said.iter().any(|line| line.ends_with(": confirmed")), "{said:?}");
    assert!(said.iter().any(|line| line.contains("not known here")), "{said:?}");
    assert_eq!(ring(&fleet, "press").len(), 2, "the old CAK stays");
    let (status, shown, _) = fleet.run(&fleet.status());
    assert_eq!(status, Some(1), "{shown}");
    assert_eq!(shown.matches("was published before: somebody put an old record back").count(), 3, "{shown}");
}

impl Fleet {
    pub(super) fn status(&self) -> String {
        let operator = fs::read_to_string(self.path("operator.pub")).unwrap();
        format!("status --directory fleet.redb --operator {operator} --identities identities")
    }

    /// A box says that what is published for it is in use.
    pub(super) fn beats(&self, name: &str) {
        self.beats_with(name, None);
    }

    /// The same, with verdicts on its parts.
    pub(super) fn beats_with(&self, name: &str, parts: Option<fleet::Parts>) {
        let operator = config::key_file::read_identity(&self.path("operator.key")).unwrap().public();
        let address: fleet::directory::Address =
            self.path("fleet.redb").display().to_string().parse().unwrap();
        let mut directory = address.open().unwrap();
        let name = fleet::GatewayName::new(name).unwrap();
        let key = fleet::directory::configuration_key(operator, &name);
        let record = directory.get(&key).unwrap().unwrap().value;
        let version = fleet::Record::parse(&record).unwrap().header().version;
        let identity = config::key_file::read_identity(&self.path(&format!("{name}.key"))).unwrap();
        let member = fleet::Member { fleet: operator, name, identity };
        let said = fleet::Said {
            in_use: Some(version),
            outcome: fleet::Outcome::Confirmed,
            why: String::new(),
            unused: None,
            parts,
        };
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        let state = self.path(&format!("heart-{}", member.name));
        fs::create_dir_all(&state).unwrap();
        fleet::Heart::open(&member, &state).unwrap().beat(&mut *directory, &member, &said, now).unwrap();
    }
}
