use std::path::Path;

use config::Config;
use config::keygen::{self, KeyLength};
use report::mka::{MemberReport, MkaReport};
use report::samples::{agreed, sample, sample_cell, sample_site};
use report::verdict::State;
use report::{GatewayReport, Level, Verdict};
use testkit::TestDirectory;

use super::{Part, Stood, fallen};

/// A gateway with a site that protects its LAN, and a link with a cell.
const TEXT: &str = r#"
[gateway]
name = "dresden"
[[site]]
name = "plants"
lan = "c"
bind = "0.0.0.0:7787"
identity = "site.key"
protect = true
[site.mka]
cak_file = "line.cak"
[[site.peer]]
name = "berlin"
endpoint = "berlin.example.net:7787"
public_key = "BERLIN"
[[site.peer]]
name = "leipzig"
public_key = "LEIPZIG"
[[link]]
name = "press"
plain = "a"
protected = "b"
[link.mka]
cak_file = "line.cak"
[[fieldbus]]
name = "cell-4"
rest = "press"
suite = "gcm-aes-128"
protect = "encrypt"
master_key_file = "cell.key"
local = ["02:00:00:00:01:01"]
[[fieldbus.relation]]
stations = ["02:00:00:00:01:01", "02:00:00:00:01:02"]
frame_ids = [0x8001, 0x8002]
cycle = "1ms"
"#;

struct World {
    place: TestDirectory,
    text: String,
}

impl World {
    fn new(name: &str) -> Self {
        let place = TestDirectory::new(name);
        let key = |name: &str| place.path().join(name);
        keygen::cak(KeyLength::Bits128, None, &key("line.cak")).unwrap();
        keygen::fieldbus(&key("cell.key")).unwrap();
        let public = |name: &str| keygen::site(&key(name)).unwrap().to_string();
        public("site.key");
        let text = TEXT.replace("BERLIN", &public("berlin.key")).replace("LEIPZIG", &public("leipzig.key"));
        Self { place, text }
    }

    fn configuration(&self, text: &str) -> Config {
        write(&self.place.path().join("dresden.toml"), text)
    }

    /// Returns the words of an agent that has seen the one before a change, and sees the other behind it. The configuration is as it was.
    fn fell(&self, before: &GatewayReport, after: &GatewayReport) -> String {
        self.fell_with(&self.text, before, after)
    }

    /// The same with another configuration.
    fn fell_with(&self, text: &str, before: &GatewayReport, after: &GatewayReport) -> String {
        let lines: Vec<_> = Part::standing(before).iter().map(Part::line).collect();
        judged(&lines, &self.configuration(text), after)
    }
}

fn write(file: &Path, text: &str) -> Config {
    std::fs::write(file, text).unwrap();
    config::load(file).unwrap().0
}

/// Nothing, if all that a trial's record names stands.
fn judged(lines: &[String], config: &Config, after: &GatewayReport) -> String {
    let stood: Vec<_> = lines.iter().filter_map(|line| Part::parse(line)).collect();
    let standing = Part::standing(after);
    let fell: Vec<_> = stood
        .iter()
        .filter(|part| part.is_of(config, &stood) && !part.is_among(&standing))
        .cloned()
        .collect();
    if fell.is_empty() { String::new() } else { fallen(&fell) }
}

/// All is well there.
fn well() -> GatewayReport {
    let mut report = agreed("dresden");
    report.links[0].fieldbus = Some(sample_cell());
    let mut inner = agreed("dresden").links.remove(0);
    "plants".clone_into(&mut inner.name);
    let mka = inner.mka.as_mut().unwrap();
    mka.members = vec![member(1, Some("berlin")), member(2, Some("leipzig"))];
    report.links.push(inner);
    let mut site = sample_site();
    "plants".clone_into(&mut site.name);
    site.peers.push(site.peers[0].clone());
    "leipzig".clone_into(&mut site.peers[1].name);
    report.sites.push(site);
    report
}

fn member(last: u8, name: Option<&str>) -> MemberReport {
    let mka = agreed("x").links[0].mka.clone().unwrap();
    MemberReport {
        sci: format!("02:00:00:00:09:{last:02x}/1"),
        name: name.map(str::to_owned),
        ..mka.members[0].clone()
    }
}

/// Key agreement inside of the site.
fn inner(report: &mut GatewayReport) -> &mut MkaReport {
    report.links[1].mka.as_mut().unwrap()
}

fn alarm(verdict: &mut Verdict) {
    (verdict.level, verdict.protecting) = (Level::Alarm, false);
}

/// A change to what was well, in words and as it is, and what is said of it.
type Row<'r> = (&'r str, &'r dyn Fn(&mut GatewayReport), &'r str);

fn each(rows: &[Row<'_>], fell: impl Fn(&GatewayReport) -> String) {
    for (what, change, words) in rows {
        let mut after = well();
        change(&mut after);
        assert_eq!(fell(&after), *words, "{what}");
    }
}

#[test]
fn each_part_that_stood_has_to_stand_again() {
    let world = World::new("standing-parts");
    each(
        &[
            ("nothing changes", &|_| (), ""),
            // As with another endpoint or public key: the site's verdict stays as it is.
            (
                "a peer has no channel",
                &|report| "connecting".clone_into(&mut report.sites[0].peers[0].state),
                "peer berlin of site plants does not stand any more",
            ),
            (
                "no peer has a channel",
                &|report| {
                    report.sites[0].peers.iter_mut().for_each(|peer| "waiting".clone_into(&mut peer.state));
                },
                "peer berlin of site plants, peer leipzig of site plants do not stand any more",
            ),
            // As with another CAK: the site of the same name protects, and has all its channels.
            (
                "one member is lost",
                &|report| inner(report).members[1].live = false,
                "member leipzig of link plants does not stand any more",
            ),
            (
                "all members are lost",
                &|report| {
                    inner(report).members.clear();
                    alarm(&mut report.links[1].verdict);
                },
                "member berlin of link plants, member leipzig of link plants do not stand any more",
            ),
            (
                "a link is closed",
                &|report| alarm(&mut report.links[1].verdict),
                "link plants does not stand any more",
            ),
            (
                "the LAN is missing",
                &|report| alarm(&mut report.sites[0].verdict),
                "site plants does not stand any more",
            ),
            (
                "a relation has no session",
                &|report| {
                    let cell = report.links[0].fieldbus.as_mut().unwrap();
                    "no session".clone_into(&mut cell.relations[0].state);
                },
                "relation 0x8001 from 02:00:00:00:01:01, 0x8002 from 02:00:00:00:01:02 of link press does not stand any more",
            ),
            (
                "a site and a link are gone",
                &|report| (report.links, report.sites) = (Vec::new(), Vec::new()),
                "member press-b of link press, relation 0x8001 from 02:00:00:00:01:01, 0x8002 from 02:00:00:00:01:02 of link press, member berlin of link plants and 3 more do not stand any more",
            ),
        ],
        |after| world.fell(&well(), after),
    );
}

/// A link whose cell is in shadow mode is an alarm as long as it is.
#[test]
fn what_was_bad_before_for_another_reason_does_not_hide_what_falls() {
    let world = World::new("standing-shadow");
    let shadow = |report: &mut GatewayReport| {
        let link = &mut report.links[0];
        "shadow".clone_into(&mut link.fieldbus.as_mut().unwrap().relations[0].mode);
        alarm(&mut link.verdict);
    };
    let mut before = well();
    shadow(&mut before);
    before.sites[0].peers[1].state = "refused".into();
    alarm(&mut before.sites[0].verdict);
    each(
        &[
            ("nothing changes", &|_| (), ""),
            (
                "its member falls",
                &|report| report.links[0].mka.as_mut().unwrap().members.clear(),
                "member press-b of link press does not stand any more",
            ),
            (
                "its session falls",
                &|report| {
                    let cell = report.links[0].fieldbus.as_mut().unwrap();
                    "no session".clone_into(&mut cell.relations[0].state);
                },
                "relation 0x8001 from 02:00:00:00:01:01, 0x8002 from 02:00:00:00:01:02 of link press does not stand any more",
            ),
            (
                "the other peer falls",
                &|report| "connecting".clone_into(&mut report.sites[0].peers[0].state),
                "peer berlin of site plants does not stand any more",
            ),
        ],
        |after| {
            let mut after = after.clone();
            shadow(&mut after);
            world.fell(&before, &after)
        },
    );
    // Its machine is off: nothing of it was there to fall.
    let mut idle = well();
    idle.links[0].fieldbus.as_mut().unwrap().relations[0].silent_ns = Some(u64::MAX);
    assert_eq!(world.fell(&idle, &idle), "");
    assert!(world.fell(&well(), &idle).starts_with("relation 0x8001"));
}

/// Machines pause, and strangers send: neither takes a version back where the keys are known to fit.
#[test]
fn a_pause_and_a_stranger_take_no_version_back() {
    use Level::{Alarm, Attention};
    use State as S;
    let world = World::new("standing-traffic");
    let fell = "link press does not stand any more";
    // With key agreement: whether the link stands. With static keys: the same if a valid frame came during the trial, and if none did.
    for (state, level, agreed_on, valid, never) in [
        (S::OneWay, Attention, true, false, false),
        (S::Silent, Attention, true, true, false),
        (S::ClearFrames, Alarm, true, true, false),
        (S::KeysDiffer, Alarm, true, false, false),
        (S::LateFrames, Alarm, true, false, false),
        (S::SciDiffers, Alarm, true, false, false),
        (S::AnDiffers, Alarm, true, false, false),
        (S::PeerAbsent, Attention, false, false, false),
        (S::NoKeys, Alarm, false, false, false),
        (S::SendsInClear, Alarm, false, false, false),
        (S::PnsUsedUp, Alarm, false, false, false),
        (S::NoSession, Alarm, false, false, false),
        (S::WrongCak, Alarm, false, false, false),
        (S::Cut, Alarm, false, false, false),
        (S::Waiting, Alarm, false, false, false),
    ] {
        let see = |report: &mut GatewayReport, last_valid: Option<u64>| {
            let link = &mut report.links[0];
            link.last_valid_seconds = last_valid;
            let (state, text) = (state.word().to_owned(), "Said.".to_owned());
            link.verdict = Verdict { state, level, protecting: false, text };
        };
        let says = |stands| if stands { "" } else { fell };
        let mut after = well();
        see(&mut after, None);
        assert_eq!(world.fell(&well(), &after), says(agreed_on), "{state:?}, agreed on");
        // A peer that is gone, and a SAK that is not there.
        let mut gone = after.clone();
        gone.links[0].mka.as_mut().unwrap().members.clear();
        assert!(world.fell(&well(), &gone).starts_with("member press-b"), "{state:?}");
        after.links[0].mka.as_mut().unwrap().secured = false;
        assert_eq!(world.fell(&well(), &after), fell, "{state:?}, not secured");
        let mut before = sample("dresden");
        before.links[0].verdict.protecting = true;
        for (last_valid, stands) in [(Some(29), valid), (Some(30), never), (None, never)] {
            let mut after = before.clone();
            see(&mut after, last_valid);
            assert_eq!(world.fell(&before, &after), says(stands), "{state:?}, static, {last_valid:?}");
        }
    }
}

#[test]
fn a_member_that_has_another_sci_or_another_name_is_the_same_one() {
    let world = World::new("standing-members");
    let sci = |report: &mut GatewayReport| inner(report).members[0].sci = "02:00:00:00:09:77/1".into();
    let nameless = |report: &mut GatewayReport| inner(report).members[0].name = None;
    let renamed = |report: &mut GatewayReport| inner(report).members[0].name = Some("potsdam".into());
    each(
        &[
            ("its port was exchanged", &sci, ""),
            ("it announces no name", &nameless, ""),
            ("it has another name", &renamed, ""),
            (
                "both",
                &|report| {
                    sci(report);
                    renamed(report);
                },
                "member berlin of link plants does not stand any more",
            ),
        ],
        |after| world.fell(&well(), after),
    );
    // Of two with one name neither stands for the other.
    let mut before = well();
    inner(&mut before).members[1].name = Some("berlin".into());
    let mut after = before.clone();
    inner(&mut after).members.pop();
    assert_eq!(
        world.fell(&before, &after),
        "member 02:00:00:00:09:02/1 of link plants does not stand any more"
    );
}

#[test]
fn what_the_new_configuration_has_no_more_does_not_count() {
    let world = World::new("standing-less");
    let (before, mut after) = (well(), well());
    (after.links, after.sites) = (Vec::new(), Vec::new());
    let bare = "[gateway]\nname = \"dresden\"\n[[link]]\nname = \"other\"\nplain = \"a\"\nprotected = \"b\"\nmka.cak_file = \"line.cak\"\n";
    assert_eq!(world.fell_with(bare, &before, &after), "");
    // One peer less, which was a member of the link inside, too.
    let (start, end) =
        (world.text.find("[[site.peer]]").unwrap(), world.text.rfind("[[site.peer]]").unwrap());
    let without_berlin = format!("{}{}", &world.text[..start], &world.text[end..]);
    let mut after = well();
    after.sites[0].peers.remove(0);
    inner(&mut after).members.remove(0);
    assert_eq!(world.fell_with(&without_berlin, &before, &after), "");
    assert!(
        world.fell(&before, &after).starts_with("member berlin of link plants, peer berlin of site plants")
    );
    // Its peer is plain from now on, and has no channel.
    let key = world.text[start..end].split("public_key = ").nth(1).unwrap().lines().next().unwrap();
    let plain = world.text.replace(&format!("public_key = {key}"), "mode = \"plain\"\nvni = 7");
    let plain = plain.replace("berlin.example.net:7787", "berlin.example.net:4789");
    let mut after = well();
    "plain".clone_into(&mut after.sites[0].peers[0].state);
    inner(&mut after).members.remove(0);
    assert_eq!(world.fell_with(&plain, &before, &after), "");
    // A link whose members are named, and one of them is not any more.
    let named = |sci: &str| world.text.replacen("[link.mka]", &format!("[link.mka]\npeers = [\"{sci}\"]"), 1);
    let mut alone = well();
    alone.links[0].mka.as_mut().unwrap().members.clear();
    assert_eq!(world.fell_with(&named("02:00:00:00:00:77/1"), &before, &alone), "");
    assert!(world.fell_with(&named("02:00:00:00:00:02/1"), &before, &alone).starts_with("member press-b"));
    // A relation of another pair of FrameIDs is another one.
    let mut moved = well();
    moved.links[0].fieldbus.as_mut().unwrap().relations[0].sends = "0x8003".into();
    assert_eq!(world.fell_with(&world.text.replace("0x8001", "0x8003"), &before, &moved), "");
    assert!(world.fell(&before, &moved).starts_with("relation 0x8001"));
}

/// All that a gateway has to have if it did not tell what stood.
#[test]
fn what_a_configuration_asks_for_is_what_a_gateway_shows() {
    let world = World::new("standing-configured");
    let config = world.configuration(&world.text);
    let mut silent = Stood::new(Some(&config));
    assert!(!silent.look(None));
    let (all, shown) = (silent.parts(), Part::standing(&well()));
    assert_eq!(all.len(), 3, "{all:?}");
    assert!(all.iter().all(|part| part.is_among(&shown)), "{all:?} {shown:?}");
    assert!(shown.iter().all(|part| part.is_of(&config, &shown)), "{shown:?}");
}

/// The other end of a change does not wait, so neither does this one for a peer that is off.
#[test]
fn a_peer_that_is_off_is_not_waited_for() {
    let world = World::new("standing-off");
    let config = world.configuration(&world.text);
    let mut report = well();
    "connecting".clone_into(&mut report.sites[0].peers[1].state);
    inner(&mut report).members.pop();
    let mut stood = Stood::new(Some(&config));
    assert!(stood.look(Some(Part::standing(&report))), "the site and the links are there");
    assert!(!stood.parts().iter().any(|part| part.to_string().contains("leipzig")));
}

/// A link is waited for. Meanwhile a peer has changed over, and waits for this end to do so.
#[test]
fn what_fell_while_a_link_was_waited_for_has_stood() {
    let world = World::new("standing-union");
    let config = world.configuration(&world.text);
    let mut starts = well();
    alarm(&mut starts.links[0].verdict);
    let mut later = well();
    "connecting".clone_into(&mut later.sites[0].peers[0].state);
    let mut stood = Stood::new(Some(&config));
    assert!(!stood.look(None));
    assert!(!stood.look(Some(Part::standing(&starts))), "a link is waited for");
    assert!(stood.look(Some(Part::standing(&later))));
    let lines: Vec<_> = stood.parts().iter().map(Part::line).collect();
    assert_eq!(judged(&lines, &config, &later), "peer berlin of site plants does not stand any more");
    assert_eq!(judged(&lines, &config, &well()), "");
    // Once each.
    assert_eq!(lines.len(), Part::standing(&well()).len(), "{lines:?}");
}

/// A box is upgraded while a version is on trial.
#[test]
fn the_record_of_an_earlier_release_is_judged_as_that_release_did() {
    let world = World::new("standing-earlier");
    let config = world.configuration(&world.text);
    let mut after = well();
    alarm(&mut after.links[0].verdict);
    alarm(&mut after.links[1].verdict);
    let said = |name: &str| judged(&[name.to_owned()], &config, &after);
    assert_eq!(said("press"), "press does not stand any more");
    assert_eq!(said("plants"), "", "the site of that name stands");
    assert_eq!(said("gone"), "", "no such thing is configured");
    for part in Part::standing(&well()) {
        assert_eq!(Part::parse(&part.line()), Some(part));
    }
    assert_eq!(Part::parse("lamp\tof a later release"), None);
}
