//! From a rendering to a gateway's folder, by way of a directory in a file, and what goes wrong on the way.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fleet::directory::{Address, Directory, Put, configuration_key};
use fleet::install::{ConfigurationFolder, InstallError};
use fleet::publish::{self, Difference, Place, PublishError, compare};
use fleet::rendering::{self, RenderingError};
use fleet::{
    AcceptError, Acceptor, Draft, Files, GatewayName, Kind, Member, Operator, PublicIdentity, Refusal,
};
use suite::identity::Identity;
use testkit::TestDirectory;

const NOW: u64 = 1_800_000_000;
const VALID: Duration = Duration::from_secs(9000);

fn operator() -> Operator {
    Operator::new(Identity::new(&[1; 32]))
}

fn name(text: &str) -> GatewayName {
    GatewayName::new(text).expect("a name")
}

/// A fleet in a directory of its own.
struct World {
    place: TestDirectory,
    directory: Box<dyn Directory + Send>,
}

impl World {
    fn new(test: &str) -> Self {
        let place = TestDirectory::new(test);
        let address = Address::File(place.path().join("fleet.redb"));
        Self { directory: address.open().expect("a file"), place }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// Writes a gateway's folder of the rendering, as a person would.
    fn render(&self, gateway: &str, cak: u8) {
        let folder = self.path("rendering").join(gateway);
        fs::create_dir_all(&folder).expect("a folder");
        let configuration = format!(
            "[gateway]\nname = \"{gateway}\"\n[[link]]\nname = \"press\"\nplain = \"a\"\nprotected = \"b\"\n[link.mka]\ncak_file = \"press.cak\"\n"
        );
        fs::write(folder.join("frameward.toml"), configuration).expect("a file");
        let key = folder.join("press.cak");
        fs::write(&key, format!("ckn = 01\ncak = {}\n", format!("{cak:02x}").repeat(16))).expect("a file");
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("a mode");
    }

    fn files(&self, gateway: &str) -> Files {
        let gateways = rendering::read(&self.path("rendering")).expect("a rendering");
        let found = gateways.into_iter().find(|rendered| rendered.name.as_str() == gateway);
        found.expect("a gateway of the rendering").files
    }

    /// Compares and, if there is a difference, publishes. With the difference, and the version if there is a new one.
    fn apply(&mut self, gateway: &str, now: u64) -> (Difference, Option<u64>) {
        let (files, member) = (self.files(gateway), PublicIdentity::of(&identity(gateway)));
        let draft =
            Draft { gateway: &name(gateway), member: &member, kind: Kind::Configuration, files: &files };
        let place = compare(&mut *self.directory, &operator(), draft, VALID, now).expect("a directory");
        if matches!(place.difference, Difference::Same { .. }) {
            return (place.difference, None);
        }
        let version = publish::publish(&mut *self.directory, &operator(), draft, &place, VALID, now)
            .expect("a directory");
        (place.difference, Some(version))
    }

    fn record(&mut self, gateway: &str) -> Vec<u8> {
        let key = configuration_key(operator().fleet(), &name(gateway));
        self.directory.get(&key).expect("a directory").expect("a record").value
    }

    fn acceptor(&self, gateway: &str) -> Acceptor {
        let member = Member { fleet: operator().fleet(), name: name(gateway), identity: identity(gateway) };
        Acceptor::open(member, &self.path(&format!("state-{gateway}"))).expect("a state directory")
    }

    fn folder(&self, gateway: &str) -> ConfigurationFolder {
        ConfigurationFolder::new(&self.path(&format!("box-{gateway}")))
    }
}

/// A gateway's place in the directory, beside what is rendered.
fn place_of(world: &mut World, gateway: &str, kind: Kind) -> publish::Place {
    let (files, member) = (world.files(gateway), PublicIdentity::of(&identity(gateway)));
    let draft = Draft { gateway: &name(gateway), member: &member, kind, files: &files };
    compare(&mut *world.directory, &operator(), draft, VALID, NOW + 4).expect("a directory")
}

/// Identity of the gateway of this name.
fn identity(gateway: &str) -> Identity {
    Identity::new(&[gateway.len() as u8; 32])
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("a file").permissions().mode() & 0o7777
}

#[test]
fn what_a_person_rendered_stands_on_the_box() {
    let mut world = World::new("rollout");
    world.render("press", 1);
    world.render("crane-a", 2);
    assert_eq!(world.apply("press", NOW), (Difference::New, Some(NOW)));
    assert_eq!(world.apply("crane-a", NOW), (Difference::New, Some(NOW)));
    for gateway in ["press", "crane-a"] {
        let record = world.record(gateway);
        let accepted = world.acceptor(gateway).accept(&record, NOW).unwrap();
        let folder = world.folder(gateway);
        assert!(folder.install(&accepted).unwrap());
        assert!(!folder.install(&accepted).unwrap(), "it is there");
        assert_eq!(folder.version(), Some(NOW));
        for file in ["frameward.toml", "press.cak"] {
            let rendered = world.path("rendering").join(gateway).join(file);
            let installed = folder.configuration().with_file_name(file);
            assert_eq!(fs::read(&installed).unwrap(), fs::read(rendered).unwrap());
            assert_eq!(mode(&installed), 0o600);
        }
        assert_eq!(mode(&world.path(&format!("box-{gateway}"))), 0o700);
        assert!(config::load(&folder.configuration()).is_ok());
    }
    // Nothing of a key stands in the directory's file.
    let octets = fs::read(world.path("fleet.redb")).unwrap();
    let key = b"01010101010101";
    assert!(!octets.windows(key.len()).any(|window| window == key));
    // One gateway's record opens with no other's identity, also where the directory mixes them up.
    let record = world.record("press");
    let refused = world.acceptor("crane-a").accept(&record, NOW).unwrap_err();
    assert!(matches!(refused, AcceptError::Refused(Refusal::OtherGateway { .. })));
}

#[test]
fn only_what_changed_is_published() {
    let mut world = World::new("rollout-changed");
    world.render("press", 1);
    assert_eq!(world.apply("press", NOW), (Difference::New, Some(NOW)));
    assert_eq!(world.apply("press", NOW + 1), (Difference::Same { version: NOW }, None));
    world.render("press", 2);
    assert_eq!(world.apply("press", NOW + 1), (Difference::Changed { version: NOW }, Some(NOW + 1)));
    // Twice in one second, and by a clock that went back: newer all the same.
    world.render("press", 3);
    assert_eq!(world.apply("press", NOW - 9), (Difference::Changed { version: NOW + 1 }, Some(NOW + 2)));
    // Two thirds of its time are over.
    assert_eq!(world.apply("press", NOW - 9 + 5999), (Difference::Same { version: NOW + 2 }, None));
    assert_eq!(world.apply("press", NOW + 7000), (Difference::Ending { version: NOW + 2 }, Some(NOW + 7000)));
    // A clock that was far ahead, and is right again: its record is not valid yet.
    assert_eq!(world.apply("press", NOW), (Difference::Ending { version: NOW + 7000 }, Some(NOW + 7001)));
    // Somebody wrote into the directory.
    let key = configuration_key(operator().fleet(), &name("press"));
    let seen = world.directory.get(&key).unwrap().unwrap().revision;
    assert!(matches!(world.directory.put(&key, b"nonsense", seen).unwrap(), Put::Done(_)));
    assert_eq!(world.apply("press", NOW + 7001), (Difference::Foreign, Some(NOW + 7001)));
    // Its box was replaced.
    let (files, member) = (world.files("press"), PublicIdentity::of(&identity("another")));
    let draft = Draft { gateway: &name("press"), member: &member, kind: Kind::Configuration, files: &files };
    let place = compare(&mut *world.directory, &operator(), draft, VALID, NOW + 7001).unwrap();
    let expected = Difference::OtherIdentity { version: NOW + 7001, same_files: true };
    assert_eq!(place.difference, expected);
    world.render("press", 4);
    let files = world.files("press");
    let place =
        compare(&mut *world.directory, &operator(), Draft { files: &files, ..draft }, VALID, NOW).unwrap();
    let expected = Difference::OtherIdentity { version: NOW + 7001, same_files: false };
    assert_eq!(place.difference, expected);
}

/// A directory that was lost, or shows the operator an old record, leads to no version that gateways refuse.
#[test]
fn a_directory_that_went_back_does_not_stop_the_fleet() {
    let mut world = World::new("rollout-back");
    world.render("press", 1);
    world.apply("press", NOW);
    let old = world.record("press");
    world.render("press", 2);
    world.apply("press", NOW + 5);
    let record = world.record("press");
    let mut acceptor = world.acceptor("press");
    acceptor.accept(&record, NOW + 5).unwrap();
    let key = configuration_key(operator().fleet(), &name("press"));
    let seen = world.directory.get(&key).unwrap().unwrap().revision;
    world.directory.put(&key, &old, seen).unwrap();
    let replayed = acceptor.accept(&world.record("press"), NOW + 6).unwrap_err();
    assert!(matches!(replayed, AcceptError::Refused(Refusal::Older { version: NOW, .. })));
    assert_eq!(world.apply("press", NOW + 7), (Difference::Changed { version: NOW }, Some(NOW + 7)));
    let accepted = acceptor.accept(&world.record("press"), NOW + 8).unwrap();
    assert!(accepted.is_new);
    // A box that lost its memory, and not what is in use.
    let folder = world.folder("press");
    assert!(folder.install(&accepted).unwrap());
    drop(acceptor);
    fs::remove_dir_all(world.path("state-press")).unwrap();
    let replayed = world.acceptor("press").accept(&old, NOW + 8).unwrap();
    let refused = folder.install(&replayed).unwrap_err();
    assert!(
        matches!(refused, InstallError::Older { version: NOW, in_use } if in_use == NOW + 7),
        "{refused}"
    );
    assert_eq!(folder.version(), Some(NOW + 7));
}

/// Whoever makes links fall cannot have a revocation taken back; and the revoked one is told.
#[test]
fn a_revoked_gateway_gets_nothing_more_and_the_others_keep_what_they_get() {
    let mut world = World::new("rollout-revoked");
    for gateway in ["press", "crane"] {
        world.render(gateway, 1);
        world.apply(gateway, NOW);
        let accepted = world.acceptor(gateway).accept(&world.record(gateway), NOW).unwrap();
        assert!(accepted.on_trial);
        world.folder(gateway).install(&accepted).unwrap();
    }
    let member = PublicIdentity::of(&identity("crane"));
    let mut revoke = |now| {
        publish::revoke(&mut *world.directory, &operator(), &name("crane"), &member, VALID, now).unwrap()
    };
    assert_eq!(revoke(NOW + 1), Some(NOW + 1));
    assert_eq!(revoke(NOW + 2), None, "it is there");
    let refused = world.acceptor("crane").accept(&world.record("crane"), NOW + 2).unwrap_err();
    assert!(matches!(refused, AcceptError::Refused(Refusal::Revoked)), "{refused}");
    assert_eq!(world.folder("crane").version(), Some(NOW), "it goes on alone");

    world.render("press", 2);
    let (files, member) = (world.files("press"), PublicIdentity::of(&identity("press")));
    let draft =
        Draft { gateway: &name("press"), member: &member, kind: Kind::ConfigurationToKeep, files: &files };
    let place = compare(&mut *world.directory, &operator(), draft, VALID, NOW + 1).unwrap();
    assert_eq!(place.difference, Difference::Changed { version: NOW });
    publish::publish(&mut *world.directory, &operator(), draft, &place, VALID, NOW + 1).unwrap();
    assert_eq!(world.apply("press", NOW + 2).0, Difference::Same { version: NOW + 1 });
    assert!(
        place_of(&mut world, "press", Kind::Configuration).is_without_trial,
        "what comes next is on none"
    );
    // What was published on trial is not the same.
    world.render("press", 3);
    world.apply("press", NOW + 3);
    let same = place_of(&mut world, "press", Kind::Configuration);
    assert_eq!((same.difference, same.is_without_trial), (Difference::Same { version: NOW + 3 }, false));
    let other = place_of(&mut world, "press", Kind::ConfigurationToKeep);
    assert_eq!(other.difference, Difference::Changed { version: NOW + 3 });
    world.render("press", 2);
    let draft = Draft { kind: Kind::ConfigurationToKeep, ..draft };
    let place = compare(&mut *world.directory, &operator(), draft, VALID, NOW + 4).unwrap();
    publish::publish(&mut *world.directory, &operator(), draft, &place, VALID, NOW + 4).unwrap();

    // Nothing takes the place of a revocation, whatever an operator with old files publishes.
    let there = world.record("crane");
    for kind in [Kind::Configuration, Kind::ConfigurationToKeep] {
        let place = place_of(&mut world, "crane", kind);
        assert_eq!(place.difference, Difference::Revoked { version: NOW + 1 });
        let (files, member) = (world.files("crane"), PublicIdentity::of(&identity("crane")));
        let draft = Draft { gateway: &name("crane"), member: &member, kind, files: &files };
        let refused = publish::publish(&mut *world.directory, &operator(), draft, &place, VALID, NOW + 5);
        assert!(
            matches!(refused, Err(PublishError::Revoked { version }) if version == NOW + 1),
            "{refused:?}"
        );
    }
    assert_eq!(world.record("crane"), there);
    let accepted = world.acceptor("press").accept(&world.record("press"), NOW + 1).unwrap();
    let folder = world.folder("press");
    assert!(folder.install_on_trial(&accepted, vec!["press".to_owned()]).unwrap());
    assert_eq!((folder.version(), folder.trial()), (Some(NOW + 4), None));
}

#[test]
fn of_two_operators_at_once_the_second_hears_of_the_first() {
    let mut world = World::new("rollout-two");
    world.render("press", 1);
    world.apply("press", NOW);
    let member = PublicIdentity::of(&identity("press"));
    let looked = |world: &mut World| -> (Files, Place) {
        let files = world.files("press");
        let draft =
            Draft { gateway: &name("press"), member: &member, kind: Kind::Configuration, files: &files };
        let place = compare(&mut *world.directory, &operator(), draft, VALID, NOW).unwrap();
        (files, place)
    };
    world.render("press", 2);
    let (first, first_place) = looked(&mut world);
    world.render("press", 3);
    let (second, second_place) = looked(&mut world);
    let put = |world: &mut World, files, place| {
        let draft = Draft { gateway: &name("press"), member: &member, kind: Kind::Configuration, files };
        publish::publish(&mut *world.directory, &operator(), draft, place, VALID, NOW)
    };
    assert_eq!(put(&mut world, &first, &first_place).unwrap(), NOW + 1);
    let overtaken = put(&mut world, &second, &second_place).unwrap_err();
    assert!(matches!(overtaken, PublishError::Overtaken { version: Some(version) } if version == NOW + 1));
    assert_eq!(
        overtaken.to_string(),
        format!("somebody else published version {} meanwhile; look at it, and apply again", NOW + 1)
    );
    let accepted = world.acceptor("press").accept(&world.record("press"), NOW).unwrap();
    assert_eq!(accepted.files, first);
}

#[test]
fn a_configuration_that_would_be_refused_never_gets_in_the_place_of_one_in_use() {
    let mut world = World::new("rollout-refused");
    world.render("press", 1);
    world.apply("press", NOW);
    let folder = world.folder("press");
    let good = world.acceptor("press").accept(&world.record("press"), NOW).unwrap();
    folder.install(&good).unwrap();
    // An operator whose release is another one, say: signed, and wrong.
    let mut files = Files::default();
    let wrong = zeroize::Zeroizing::new(b"[gateway]\nnme = \"press\"\n".to_vec());
    files.insert(fleet::FileName::new("frameward.toml").unwrap(), wrong).unwrap();
    let member = PublicIdentity::of(&identity("press"));
    let draft = Draft { gateway: &name("press"), member: &member, kind: Kind::Configuration, files: &files };
    let validity = fleet::Validity { from: NOW, until: NOW + 10 };
    let accepted =
        world.acceptor("press").accept(&operator().publish(draft, NOW + 1, validity).unwrap(), NOW).unwrap();
    let refused = folder.install(&accepted).unwrap_err();
    assert!(
        matches!(&refused, InstallError::Refused { version, findings } if *version == NOW + 1 && findings.len() == 1)
    );
    assert_eq!(folder.version(), Some(NOW));
    assert!(config::load(&folder.configuration()).is_ok());
    let left: Vec<_> =
        fs::read_dir(world.path("box-press")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "current, used and one version: {left:?}");
}

#[test]
fn an_installation_that_was_cut_off_is_done_again_and_marks_of_used_keys_stay() {
    let mut world = World::new("rollout-cut");
    world.render("press", 1);
    world.apply("press", NOW);
    let folder = world.folder("press");
    let box_press = world.path("box-press");
    let first = world.acceptor("press").accept(&world.record("press"), NOW).unwrap();
    folder.install(&first).unwrap();
    // What a gateway writes beside its key files.
    fs::write(folder.configuration().with_file_name("used").join("press.key"), "sent").unwrap();
    for (version, cak) in [(1, 2), (2, 3)] {
        world.render("press", cak);
        world.apply("press", NOW + version);
        // Accepted and remembered; switched off while it was written.
        let accepted = world.acceptor("press").accept(&world.record("press"), NOW).unwrap();
        assert!(accepted.is_new);
        fs::create_dir(box_press.join(format!("version-{}", NOW + version))).unwrap();
        fs::create_dir(box_press.join(".staged")).unwrap();
        fs::write(box_press.join(".staged/frameward.toml"), "[gate").unwrap();
        std::os::unix::fs::symlink("nowhere", box_press.join(".current.new")).unwrap();
        assert_eq!(folder.version(), Some(NOW + version - 1), "the one before is in use, whole");
        assert!(config::load(&folder.configuration()).is_ok());
        let again = world.acceptor("press").accept(&world.record("press"), NOW).unwrap();
        assert!(!again.is_new);
        assert!(folder.install(&again).unwrap());
        assert_eq!(folder.version(), Some(NOW + version));
        assert!(config::load(&folder.configuration()).is_ok());
        assert_eq!(
            fs::read(folder.configuration().with_file_name("used").join("press.key")).unwrap(),
            b"sent"
        );
    }
    let versions = fs::read_dir(&box_press)
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("version-"));
    assert_eq!(versions.count(), 2, "the one in use and the one before");
}

#[test]
fn a_rendering_with_mistakes_is_refused_as_a_whole() {
    let world = World::new("rollout-mistakes");
    let rendering = world.path("rendering");
    let told = || match rendering::read(&rendering) {
        Ok(gateways) => vec![format!("{} gateways", gateways.len())],
        Err(errors) => errors
            .iter()
            .map(|error| error.to_string().replace(&format!("{}/", world.place.path().display()), ""))
            .collect(),
    };
    assert!(told()[0].starts_with("rendering: cannot be read: "));
    fs::create_dir(&rendering).unwrap();
    assert!(matches!(rendering::read(&rendering).unwrap_err()[..], [RenderingError::Empty(_)]));
    world.render("press", 1);
    world.render("crane", 2);
    fs::write(rendering.join("README"), "beside").unwrap();
    fs::create_dir(rendering.join(".git")).unwrap();
    assert_eq!(told(), ["2 gateways"]);
    // Several mistakes at once; each is told.
    fs::create_dir(rendering.join("Press 2")).unwrap();
    fs::create_dir(rendering.join("crane/keys")).unwrap();
    fs::write(rendering.join("press/frameward.toml"), "[gateway]\nname = \"press\"\nmut = 1\n").unwrap();
    let mistakes = told();
    assert_eq!(mistakes.len(), 3, "{mistakes:?}");
    assert!(mistakes[0].starts_with("rendering/Press 2: is not the name of a gateway"), "{mistakes:?}");
    assert!(mistakes[1].starts_with("rendering/crane/keys: is no file of a gateway"), "{mistakes:?}");
    assert!(mistakes[2].starts_with("rendering/press/frameward.toml:3: "), "{mistakes:?}");
    // A key that others can read is one that is not kept secret.
    fs::remove_dir(rendering.join("Press 2")).unwrap();
    fs::remove_dir(rendering.join("crane/keys")).unwrap();
    world.render("press", 1);
    fs::set_permissions(rendering.join("press/press.cak"), fs::Permissions::from_mode(0o644)).unwrap();
    assert!(told()[0].contains("can be read by others"));
    fs::set_permissions(rendering.join("press/press.cak"), fs::Permissions::from_mode(0o600)).unwrap();
    let long = fs::File::create(rendering.join("press/notes.txt")).unwrap();
    long.set_len(1 << 30).unwrap();
    assert_eq!(told().len(), 1, "no gigabyte is read");
    assert!(told()[0].starts_with("rendering/press: has more than 256 KiB"));
}

#[test]
fn a_trial_is_confirmed_or_taken_back_also_by_the_next_process() {
    let mut world = World::new("rollout-trial");
    let folder = world.folder("press");
    let stood = vec!["press".to_owned(), "oven".to_owned()];
    let mut next = |cak: u8, now: u64| {
        world.render("press", cak);
        world.apply("press", now);
        let accepted = world.acceptor("press").accept(&world.record("press"), now).unwrap();
        folder.install_on_trial(&accepted, stood.clone()).unwrap();
        accepted
    };
    next(1, NOW);
    assert_eq!(folder.trial(), None, "there is nothing to go back to");
    next(2, NOW + 1);
    let trial = folder.trial().unwrap();
    assert_eq!((trial.version, trial.before, &trial.stood), (NOW + 1, NOW, &stood));
    assert_eq!([folder.count_start(&trial).unwrap(), folder.count_start(&trial).unwrap()], [1, 2]);
    folder.confirm().unwrap();
    assert_eq!((folder.trial(), folder.version()), (None, Some(NOW + 1)));
    let third = next(3, NOW + 2);
    let trial = folder.trial().unwrap();
    assert_eq!(folder.count_start(&trial).unwrap(), 1, "each version counts for itself");
    folder.take_back(&trial).unwrap();
    assert_eq!((folder.trial(), folder.version()), (None, Some(NOW + 1)));
    assert!(fs::read_to_string(folder.configuration().with_file_name("press.cak")).unwrap().contains("0202"));
    assert!(matches!(folder.install(&third), Err(InstallError::TakenBack { version }) if version == NOW + 2));
    // The next one is another one. Taken back, too, it does not make the one before come again, whose memory is lost.
    next(4, NOW + 3);
    assert_eq!(folder.version(), Some(NOW + 3));
    folder.take_back(&folder.trial().unwrap()).unwrap();
    let older = folder.install(&third);
    assert!(
        matches!(older, Err(InstallError::Older { version, in_use }) if (version, in_use) == (NOW + 2, NOW + 3))
    );
    next(5, NOW + 4);
    assert_eq!(folder.version(), Some(NOW + 4));
    // A trial of a version that is not in use any more is nobody's.
    std::os::unix::fs::symlink(format!("version-{}", NOW + 1), world.path("box-press/.other")).unwrap();
    fs::rename(world.path("box-press/.other"), world.path("box-press/current")).unwrap();
    assert_eq!(folder.trial(), None);
}

/// Nothing but a restart takes it, and then it is on trial still. The next version is tried against what runs.
#[test]
fn a_version_that_waits_for_a_restart_is_nothing_to_go_back_to() {
    let mut world = World::new("rollout-restart");
    let folder = world.folder("press");
    let mut next = |polling: &str, now: u64| {
        world.render("press", 1);
        let file = world.path("rendering/press/frameward.toml");
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, text.replace("[[link]]", &format!("{polling}\n[[link]]"))).unwrap();
        world.apply("press", now);
        let accepted = world.acceptor("press").accept(&world.record("press"), now).unwrap();
        folder.install_on_trial(&accepted, vec!["link\tpress".to_owned()]).unwrap();
        folder.trial()
    };
    assert_eq!(next("", NOW), None);
    let waits = next("polling = \"busy\"", NOW + 1).unwrap();
    assert_eq!((waits.version, waits.before), (NOW + 1, NOW));
    assert_eq!(folder.wants_restart(&waits), ["polling"]);
    let trial = next("http = \"127.0.0.1:9464\"", NOW + 2).unwrap();
    assert_eq!((trial.version, trial.before), (NOW + 2, NOW));
    assert_eq!(folder.wants_restart(&trial), [""; 0]);
    folder.take_back(&trial).unwrap();
    assert_eq!(folder.version(), Some(NOW));
    assert!(folder.load("press").is_ok());
}
