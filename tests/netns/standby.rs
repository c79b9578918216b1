//! Two boxes on one LAN: the plants 1 and 2 have one LAN, and plant 3 is another.
//!
//! ```text
//!               +── site-1 ~~ internet ~~+
//!  machine ── LAN                        +~~ site-3 ── LAN ── machine
//!               +── site-2 ~~ internet ~~+
//! ```
//!
//! Machines send a numbered frame each millisecond. Each number is counted at its receiver: once, twice, or not at all.

mod beats;
pub(super) mod flows;

use std::time::{Duration, Instant};

use frameward::keygen::{self, KeyLength};
use lab::plants::{BARE, PROBE, SWITCH};
use lab::topology::Mac;
use lab::{Capture, PacketSocket, Plants};
use nix::sys::signal::Signal;
use perf::demo::sites::{SitesChoice, site_name};
use report::site::StandbyReport;
use tunnel::standby::DEFAULT_TAKEOVER;

use super::onebox::{MKA, OneBox};
use super::upgrade::upgraded;
use super::{DEADLINE, EXPERIMENT, counter};
use beats::Beats;
use flows::{Flow, Flows, LongLine};

const CYCLE: Duration = Duration::from_millis(1);
/// Generous: for machines that have other things to do.
const SLOW: u64 = 400;
/// Lease of a box with [`SLOW`]: one that stands still for longer does not forward any more, and lets nothing pass that is under way.
const LEASE: Duration = Duration::from_millis(SLOW * 5 / 8);
/// Rounds until enough of them count: in those a box did not stand still that should have gone on.
const ROUNDS: usize = 10;
/// Longest time without a frame if a box is killed, with the default.
const NO_FRAME: Duration = Duration::from_millis(50);
/// Time from one end of a [`LongLine`] to the other.
const FAR: Duration = Duration::from_millis(30);
/// One whose packets are under way for longer than a process takes to end.
const FARTHER: Duration = Duration::from_millis(300);
const GROUP: Mac = [0x03, 0, 0, 0, 0, 9];

/// Puts the switches of the first two plants together.
fn join_lans(plants: &Plants) {
    let [one, two] = [0, 1].map(|plant: usize| &plants.plants[plant].lan);
    one.ip(&["link", "add", "name", "joint", "type", "veth", "peer", "name", "joint", "netns", two.name()])
        .unwrap();
    for lan in [one, two] {
        lan.ip(&["link", "set", "joint", "mtu", "1500", "master", SWITCH, "up"]).unwrap();
    }
}

/// Lines of the two boxes. `sci`: of each box's SecY, with static keys.
fn share(boxes: &OneBox, takeover: u64, sci: Option<fn(u8) -> String>) {
    for (plant, other) in [(1, 2), (2, 1)] {
        let sci = sci.map_or(String::new(), |sci| format!("sci = \"{}\"\n", sci(other)));
        let lines =
            format!("[site.standby]\npeer = \"plant-{other}\"\ntakeover = {takeover}\n{sci}[[site.peer]]");
        boxes.change(plant, "[[site.peer]]", &lines);
    }
    boxes.change(3, "name = \"plant-2\"\n", "name = \"plant-2\"\nstandby_of = \"plant-1\"\n");
}

fn started(takeover: u64) -> OneBox {
    let mut boxes = OneBox::configured(3, 1, &SitesChoice { site: MKA, ..SitesChoice::default() });
    join_lans(&boxes.plants);
    share(&boxes, takeover, None);
    boxes.start();
    boxes.secured();
    ready(&boxes);
    boxes
}

fn standby(boxes: &OneBox, plant: usize) -> StandbyReport {
    boxes.sites[plant].report().unwrap().sites.remove(0).standby.unwrap()
}

/// Waits until one of the two forwards, the other one stands by, and machines reach each other. Returns the number of the first.
fn ready(boxes: &OneBox) -> usize {
    let end = Instant::now() + DEADLINE;
    loop {
        let roles = [0, 1].map(|plant| standby(boxes, plant));
        let is = |number: usize, role: &str| roles[number].role == role;
        for active in [0, 1] {
            if is(active, "active") && is(1 - active, "standby") {
                boxes.reaches(0, 2, 56);
                return active;
            }
        }
        assert!(Instant::now() < end, "{roles:#?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn until_role(boxes: &OneBox, plant: usize, role: &str) {
    boxes.until(plant, role, |report| {
        report.sites[0].standby.as_ref().is_some_and(|standby| standby.role == role)
    });
}

/// Waits until a box has begun to forward more often than so.
fn until_taken_over(boxes: &OneBox, plant: usize, before: u64) {
    boxes.until(plant, "it takes over", |report| {
        report.sites[0].standby.as_ref().is_some_and(|standby| standby.takeovers > before)
    });
}

/// Waits until one box forwards and the other one stands by. That is this one, unless it stood still while `beats` were heard. Whether it is.
fn goes_on(boxes: &OneBox, plant: usize, beats: Beats) -> bool {
    let active = ready(boxes);
    let stood_still = beats.show_stall_of(boxes, plant);
    let [one, two] = [0, 1].map(|plant| standby(boxes, plant));
    assert!(active == plant || stood_still, "box {active} takes over from the other: {one:#?} {two:#?}");
    active == plant
}

fn wait(time: Duration) {
    std::thread::sleep(time);
}

#[test]
fn a_killed_box_is_followed_by_the_other_and_comes_back_as_standby() {
    let mut boxes = started(SLOW);
    let mut complete = 0;
    for _ in 0..ROUNDS {
        let active = ready(&boxes);
        let takeovers = standby(&boxes, 1 - active).takeovers;
        let (flows, beats) = (Flows::start(&boxes), Beats::start(&boxes));
        wait(Duration::from_secs(1));
        boxes.restart(active, Signal::SIGKILL);
        until_taken_over(&boxes, 1 - active, takeovers);
        ready(&boxes);
        wait(Duration::from_secs(1));
        for flow in flows.end("kill") {
            assert!(flow.lost > 0 && flow.gap < Duration::from_secs(5), "{flow:#?}");
        }
        boxes.secured();
        // It takes nothing from the other.
        complete += usize::from(goes_on(&boxes, 1 - active, beats));
        if complete == 2 {
            break;
        }
    }
    assert_eq!(complete, 2, "kills after which the other box did not stand still");
    boxes.stop();
}

/// The time without a frame, less what this machine is late: as much as frames that pass no box, or as beats of the box that follows. One kill of
/// some has to take no longer than it does on a machine with nothing else to do. `FRAMEWARD_STANDBY_KILLS`: so many, whose times are told.
#[test]
fn by_default_frames_pass_again_50_ms_after_a_kill() {
    let asked = std::env::var("FRAMEWARD_STANDBY_KILLS").ok().map(|kills| kills.parse::<usize>().unwrap());
    let takeover = DEFAULT_TAKEOVER.as_millis() as u64;
    let mut boxes = started(takeover);
    let mut gaps = Vec::new();
    while gaps.len() < asked.unwrap_or(8) {
        let active = ready(&boxes);
        // On a busy machine it may take over before the kill.
        let other = standby(&boxes, 1 - active).takeovers;
        let (flows, beside) = (Flows::start(&boxes), Flow::beside(&boxes));
        let beats = Beats::start(&boxes);
        wait(Duration::from_secs(1));
        boxes.sites[active].program().signal(Signal::SIGKILL).unwrap();
        until_taken_over(&boxes, 1 - active, other);
        wait(Duration::from_secs(1));
        let late_beats = beats.longest_of(&boxes, 1 - active).saturating_sub(DEFAULT_TAKEOVER / 8);
        let (flows, beside) = (flows.end("kill, by default"), beside.end_alone());
        let gap = flows.iter().map(|flow| flow.gap).max().unwrap();
        assert!(gap < Duration::from_secs(5), "{flows:#?}");
        assert_eq!(beside.lost, 0, "{beside:#?}");
        let late = beside.gap.saturating_sub(CYCLE).max(late_beats);
        gaps.push((gap.saturating_sub(late), gap));
        boxes.restart(active, Signal::SIGKILL);
        boxes.secured();
        if asked.is_none() && gap < NO_FRAME + late {
            break;
        }
    }
    gaps.sort();
    println!(
        "no frame for so long, less what was late, and in all: {gaps:?}, median {:?}",
        gaps[gaps.len() / 2]
    );
    assert!(gaps[0].0 < NO_FRAME, "{gaps:?}");
    boxes.stop();
}

#[test]
fn a_box_that_loses_its_link_or_stands_still_is_followed_too() {
    let boxes = &mut started(SLOW);
    let active = ready(boxes);
    let takeovers = standby(boxes, 1 - active).takeovers;
    let lan = &boxes.plants.plants[active].lan;
    let (flows, beats) = (Flows::start(boxes), Beats::start(boxes));
    wait(Duration::from_millis(500));
    lan.ip(&["link", "set", BARE, "down"]).unwrap();
    until_taken_over(boxes, 1 - active, takeovers);
    lan.ip(&["link", "set", BARE, "up"]).unwrap();
    goes_on(boxes, 1 - active, beats);
    wait(Duration::from_millis(500));
    for flow in flows.end("no link") {
        assert!(flow.gap < Duration::from_secs(5), "{flow:#?}");
    }

    let active = ready(boxes);
    let takeovers = standby(boxes, 1 - active).takeovers;
    let (flows, beats) = (Flows::start(boxes), Beats::start(boxes));
    wait(Duration::from_millis(500));
    boxes.sites[active].program().signal(Signal::SIGSTOP).unwrap();
    until_taken_over(boxes, 1 - active, takeovers);
    wait(Duration::from_secs(2));
    boxes.sites[active].program().signal(Signal::SIGCONT).unwrap();
    goes_on(boxes, 1 - active, beats);
    wait(Duration::from_millis(500));
    for flow in flows.end("stall") {
        assert!(flow.gap < Duration::from_secs(5), "{flow:#?}");
    }
    let report = boxes.sites[active].report().unwrap();
    assert!(counter(&report.sites[0].path, "OutPktsStandby") > 0);
    boxes.sites.drain(..).for_each(|site| drop(site.stop().unwrap()));
}

#[test]
fn a_hand_over_loses_no_frame_of_one_station_to_another() {
    let boxes = started(SLOW);
    let mut line = None;
    let mut complete = 0;
    for _ in 0..ROUNDS {
        let active = ready(&boxes);
        let takeovers = standby(&boxes, active).takeovers;
        let (flows, beats) = (Flows::start(&boxes), Beats::start(&boxes));
        wait(Duration::from_millis(500));
        let said = boxes.command(&["hand-over", &format!("site-{}", active + 1)]);
        assert!(said.contains("the other box forwards"), "{said}");
        wait(Duration::from_millis(1500));
        let [there, back, group] = flows.end("hand-over");
        let (before, after) = (standby(&boxes, active), standby(&boxes, 1 - active));
        if beats.show_a_stall() {
            // Frames that a box which stood still had taken in are lost, and those under way to it: its lease was over.
            println!("a box stood still: {there:?} {back:?} {before:#?} {after:#?}");
            continue;
        }
        assert_eq!(before.takeovers, takeovers, "{before:#?} {after:#?}");
        assert_eq!(
            (before.role.as_str(), after.role.as_str()),
            ("standby", "active"),
            "{before:#?} {after:#?}"
        );
        assert_eq!((there.lost, back.lost), (0, 0), "{there:#?} {back:#?} {before:#?} {after:#?}");
        assert!(group.lost < 100, "{group:#?}");
        complete += 1;
        // The other site sends this way until it hears of the change, and what it has sent is under way.
        line.get_or_insert_with(|| LongLine::start(&boxes.plants, 2, FAR));
        if complete == 3 {
            break;
        }
    }
    assert_eq!(complete, 3, "hand-overs after which no box stood still");
    drop(line);
    boxes.stop();
}

/// Its site begins anew while the other box forwards.
#[test]
fn a_box_that_is_upgraded_hands_over_first() {
    let boxes = started(2000);
    let active = ready(&boxes);
    let line = LongLine::start(&boxes.plants, 2, FARTHER);
    let flows = Flows::start(&boxes);
    wait(Duration::from_millis(500));
    upgraded(&boxes.scratch, &site_name(active as u8 + 1));
    wait(Duration::from_millis(500));
    let after = standby(&boxes, 1 - active);
    assert!(after.role == "active" && after.cause.contains("handed over"), "{after:#?}");
    until_role(&boxes, active, "standby");
    let [there, back, _] = flows.end("upgrade");
    assert_eq!((there.lost, back.lost), (0, 0), "{there:#?} {back:#?}");
    drop(line);
    boxes.secured();
    boxes.stop();
}

/// Where it cannot be upgraded: by `systemctl restart`.
#[test]
fn a_box_that_is_stopped_hands_over_first() {
    let mut boxes = started(2000);
    let active = ready(&boxes);
    let line = LongLine::start(&boxes.plants, 2, FARTHER);
    let flows = Flows::start(&boxes);
    wait(Duration::from_millis(500));
    boxes.restart(active, Signal::SIGTERM);
    until_role(&boxes, 1 - active, "active");
    wait(Duration::from_millis(500));
    let after = standby(&boxes, 1 - active);
    assert!(after.cause.contains("handed over"), "{after:#?}");
    let [there, back, _] = flows.end("stop");
    assert_eq!((there.lost, back.lost), (0, 0), "{there:#?} {back:#?}");
    drop(line);
    boxes.stop();
}

/// The switch drops beats and nothing else: both forward, as neither can know better. No frame goes round, and the first beat that passes ends it.
#[test]
fn boxes_whose_beats_are_lost_make_no_storm_and_are_one_again() {
    let boxes = started(SLOW);
    let active = ready(&boxes);
    let lan = &boxes.plants.plants[0].lan;
    let rules = "add table bridge beats; add chain bridge beats passing { type filter hook forward priority 0; }; add rule bridge beats passing ether type 0x88b6 drop";
    lan.run(&["nft", rules]).unwrap();
    until_role(&boxes, 1 - active, "active");
    until_role(&boxes, active, "active");
    let capture = Capture::start(lan, PROBE).unwrap();
    let (a, b) = (boxes.machine(0), boxes.machine(2));
    for (from, payload) in [(a, b"from a..."), (b, b"from b...")] {
        let socket = PacketSocket::open(&from.namespace, from.ifname).unwrap();
        for number in 0..50_u8 {
            let frame =
                [&GROUP[..], &from.mac, &EXPERIMENT.0.to_be_bytes(), &payload[..], &[number; 60]].concat();
            socket.send(&frame).unwrap();
            wait(CYCLE);
        }
    }
    wait(Duration::from_secs(1));
    let capture = capture.stop().unwrap().complete().unwrap();
    let seen = |what: &[u8]| capture.frames.iter().filter(|frame| frame.contains(what)).count();
    assert_eq!(seen(b"from a..."), 50, "what a machine sends does not come back to its LAN");
    // One goes where a box forwards that has just heard their sender on its own LAN, until that is a second ago.
    assert!((1..=100).contains(&seen(b"from b...")), "{} frames", seen(b"from b..."));
    lan.run(&["nft", "delete table bridge beats"]).unwrap();
    let is_judged = (0..ROUNDS).any(|_| {
        ready(&boxes);
        let (flows, beats) = (Flows::start(&boxes), Beats::start(&boxes));
        wait(Duration::from_millis(500));
        let flows = flows.end("one again");
        let stood_still = beats.show_a_stall();
        assert!(stood_still || flows.iter().all(|flow| flow.lost == 0), "{flows:#?}");
        !stood_still
    });
    assert!(is_judged, "a box stood still each time");
    boxes.stop();
}

/// Static keys: each box has a key and an SCI of its own.
#[test]
fn with_static_keys_each_box_has_an_sc_of_its_own() {
    let mut boxes = OneBox::configured(3, 1, &SitesChoice::default());
    for plant in 1..=3_u8 {
        let file = boxes.scratch.path().join(format!("from-{plant}.key"));
        keygen::static_key(KeyLength::Bits128, &file).unwrap();
    }
    let text = std::fs::read_to_string(boxes.scratch.path().join("site-3.toml")).unwrap();
    let public = |plant: u8| {
        let (_, from_name) = text.split_once(&format!("name = \"plant-{plant}\"")).unwrap();
        from_name.split_once("public_key = \"").unwrap().1[..64].to_owned()
    };
    // The lower SCI belongs to the lower public key.
    let sci: fn(u8) -> String = if public(1) < public(2) {
        |plant| format!("02:00:00:00:dd:{plant:02x}/1")
    } else {
        |plant| format!("02:00:00:00:dd:{:02x}/1", [0, 2, 1, 3][usize::from(plant)])
    };
    let sa = |plant: u8| format!("an = 0\nsci = \"{}\"\nkey_file = \"from-{plant}.key\"\n", sci(plant));
    for plant in 1..=3_u8 {
        let mut keys = format!("protect = true\nsuite = \"gcm-aes-128\"\n[site.static]\n{}", sa(plant));
        for peer in (1..=3).filter(|peer| *peer != plant) {
            keys += &format!("[[site.static.peer]]\n{}", sa(peer));
        }
        boxes.change(plant, "[[site.peer]]", &(keys + "[[site.peer]]"));
    }
    join_lans(&boxes.plants);
    share(&boxes, SLOW, Some(sci));
    boxes.start();
    let active = ready(&boxes);
    let takeovers = standby(&boxes, 1 - active).takeovers;
    let (flows, beats) = (Flows::start(&boxes), Beats::start(&boxes));
    wait(Duration::from_millis(500));
    boxes.restart(active, Signal::SIGKILL);
    until_taken_over(&boxes, 1 - active, takeovers);
    goes_on(&boxes, 1 - active, beats);
    wait(Duration::from_millis(500));
    for flow in flows.end("kill, static keys") {
        assert!(flow.gap < Duration::from_secs(5), "{flow:#?}");
    }
    boxes.stop();
}
