//! Peers of a site that come and go while frames pass between others: nothing of theirs is lost.
//!
//! ```text
//!  probe 1 ── [site 1] ~~~ internet ~~~ [site 2] ── probe 2      talk all the time
//!                             └~~~~~~~~~ [site 3] ── probe 3     comes, goes, changes
//! ```

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use frameward::keygen::{self, KeyLength};
use lab::macsec::{Port, round_trips};
use lab::plants::{BARE, PROBE};
use lab::topology::{LEFT, RIGHT};
use lab::{Plants, PlantsShape};
use perf::demo::pair::{Scratch, Station};
use perf::demo::sites::{Sites, SitesChoice, configure, site_name};
use report::site::SiteReport;

use super::fieldbus::takes_redirected_frames;
use super::mka::{all, secured_with};
use super::reload::reloaded;
use super::sites::{all_up, is_up, site_when};
use super::steps::frameward;
use super::{DEADLINE, counter, program};

/// Frames of the two who talk, one after the other.
const PAUSE: Duration = Duration::from_millis(2);
const FRAMES: u64 = 16;

/// Ends the talk, also when an assertion fails.
struct Stop<'s>(&'s AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn probe(plants: &Plants, index: usize) -> Port<'_> {
    let plant = &plants.plants[index];
    Port { namespace: &plant.lan, ifname: PROBE, mac: [2, 0, 0, 0, plant.number, 0x51] }
}

/// A configuration without the peer of this name.
fn without(text: &str, peer: &str) -> String {
    let (head, peers) = text.split_once("[[site.peer]]").unwrap();
    let kept = peers.split("[[site.peer]]").filter(|text| !text.contains(&format!("name = \"{peer}\"")));
    kept.fold(head.to_owned(), |text, peer| text + "[[site.peer]]" + peer)
}

/// Frames from the first plant to another one until they come back.
fn meet(plants: &Plants, other: usize, pn: &mut u32) {
    let end = Instant::now() + DEADLINE;
    loop {
        let (from, to) = (probe(plants, 0), probe(plants, other));
        let trips = round_trips(Port { mac: [2, 0, 0, 0, 1, 0x52], ..from }, to, 100, *pn, 4, PAUSE).unwrap();
        *pn += 4;
        if trips.lost() == 0 {
            return;
        }
        assert!(Instant::now() < end, "no frame crosses to plant {}", other + 1);
    }
}

/// Settings of sites between which peers come and go.
#[derive(Clone, Copy, Default)]
struct Case {
    mode: &'static str,
    /// A mode that a peer changes to, and back.
    other_mode: Option<&'static str>,
    /// Further lines of [[site]].
    site: &'static str,
    /// Known flows go through the kernel.
    in_kernel: bool,
}

/// The gateways run, and all reach each other as far as they can tell.
fn start(plants: &Plants, case: Case) -> Sites {
    if case.in_kernel {
        for plant in &plants.plants {
            takes_redirected_frames(&plant.lan, &[BARE]);
            takes_redirected_frames(plant.line.as_ref().unwrap(), &[LEFT, RIGHT]);
        }
    }
    let scratch = Scratch::new().unwrap();
    keygen::cak(KeyLength::Bits128, None, &scratch.path().join("line.cak")).unwrap();
    let choice = SitesChoice { mode: case.mode, site: case.site, ..SitesChoice::default() };
    configure(&scratch, plants, &choice).unwrap();
    let run = |plant: &lab::Plant| {
        Station::start(program(), &plant.site, &scratch, &site_name(plant.number)).unwrap()
    };
    let sites = plants.plants.iter().map(run).collect();
    let sites = Sites { sites, stations: Vec::new(), scratch };
    if case.mode != "plain" {
        all_up(&sites);
    }
    if case.site.contains("protect") {
        all([&sites.sites[0], &sites.sites[1], &sites.sites[2]], "all have keys", secured_with(2));
    }
    sites
}

fn peers_come_and_go(case: Case) {
    let Case { mode, other_mode, in_kernel, .. } = case;
    let shape = PlantsShape { plants: 3, stations: 0, lan_mtu: 1500, ..PlantsShape::default() };
    let plants = Plants::build(&shape).unwrap();
    let mut sites = start(&plants, case);
    let has_channel = mode != "plain";
    let way = |site: &SiteReport| site.peers[0].path.clone().unwrap_or_default();
    let mut pn = 1;
    meet(&plants, 1, &mut pn);
    meet(&plants, 2, &mut pn);
    let name = site_name(1);
    let file = sites.scratch.path().join(format!("{name}.toml"));
    let text = std::fs::read_to_string(&file).unwrap();
    let third = sites.scratch.path().join(format!("{}.toml", site_name(3)));
    let third_text = std::fs::read_to_string(&third).unwrap();
    let sessions = |site: &SiteReport| {
        site.peers[0].session.as_ref().map_or(0, |session| counter(session, "Connections"))
    };
    let before = site_when(&sites.sites[0], "it takes its way", |site| !in_kernel || way(site) == "kernel");

    let (stop, sent, lost) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let stop_at_end = Stop(&stop);
        let talking = scope.spawn(|| {
            let mut pn = 1_000_000;
            while !stop.load(Ordering::Relaxed) {
                let (from, to) = (probe(&plants, 0), probe(&plants, 1));
                let trips = round_trips(from, to, 200, pn, FRAMES, PAUSE).unwrap();
                pn += FRAMES as u32;
                sent.fetch_add(trips.sent, Ordering::Relaxed);
                lost.fetch_add(trips.lost(), Ordering::Relaxed);
            }
        });
        let talked = || {
            let (end, from) = (Instant::now() + DEADLINE, sent.load(Ordering::Relaxed));
            while sent.load(Ordering::Relaxed) < from + 2 * FRAMES && Instant::now() < end {
                std::thread::sleep(PAUSE);
            }
        };
        let changed = |file: &std::path::Path, name: &str, text: &str, words: &str| {
            talked();
            std::fs::write(file, text).unwrap();
            let tried = frameward(&sites.scratch, &["reload", "--dry-run", name]).stdout;
            assert!(tried.contains(": its peers change\n") && !tried.contains("restarted"), "{tried}");
            let told = reloaded(&sites.scratch, name);
            assert!(told.contains(words) && !told.contains("restarted"), "{told}");
            talked();
        };
        changed(&file, &name, &without(&text, "plant-3"), "site \"plant-1\": peer \"plant-3\" has left");
        site_when(&sites.sites[0], "one peer is left", |site| site.peers.len() == 1);
        if has_channel {
            site_when(&sites.sites[2], "the other end is told", |site| {
                site.peers[0].state == "refused"
                    && site.peers[0].reason.contains("does not know this site's public key")
            });
        }
        changed(&file, &name, &text, "site \"plant-1\": peer \"plant-3\" has come");
        site_when(&sites.sites[0], "it is back", |site| {
            site.peers.len() == 2 && (!has_channel || site.peers.iter().all(is_up))
        });
        meet(&plants, 2, &mut pn);
        if let Some(other_mode) = other_mode {
            // In another mode, which needs another port; at its own end it has the same name, and is another peer.
            let other = |text: &str, peer: &str| {
                let (head, tail) = text.split_once(&format!("name = \"{peer}\"")).unwrap();
                let tail =
                    tail.replacen(&format!("mode = \"{mode}\""), &format!("mode = \"{other_mode}\""), 1);
                format!("{head}name = \"{peer}\"{tail}")
            };
            changed(&file, &name, &other(&text, "plant-3"), "site \"plant-1\": peer \"plant-3\" begins anew");
            changed(
                &third,
                &site_name(3),
                &other(&third_text, "plant-1"),
                "site \"plant-3\": peer \"plant-1\" begins anew",
            );
            site_when(&sites.sites[0], "it is up in its new mode", |site| {
                site.peers.iter().all(is_up) && site.peers[1].mode == other_mode
            });
            meet(&plants, 2, &mut pn);
        }
        drop(stop_at_end);
        talking.join().unwrap();
    });
    let (sent, lost) = (sent.load(Ordering::Relaxed), lost.load(Ordering::Relaxed));
    assert!(sent > 100, "{sent}");
    assert_eq!(lost, 0, "of {sent} frames of others");
    let after = sites.sites[0].report().unwrap().sites.remove(0);
    assert_eq!(after.peers[0].name, "plant-2");
    assert_eq!(way(&after), way(&before));
    // On an overloaded machine an end may hear nothing for so long that it begins a connection anew, and says so.
    let mut silent = |at: usize, peer: u8| {
        let log = sites.sites[at].program().stderr();
        let peer = site_name(peer);
        log.lines().filter(|line| line.contains(&peer) && line.contains("lost: nothing heard for")).count()
    };
    let begun = sessions(&after) - sessions(&before);
    assert!(
        begun <= (silent(0, 2) + silent(1, 1)) as u64,
        "its connection is not the one of before: {begun} new"
    );
    assert!(counter(&after.peers[0].counters, "OutPktsTunnelled") >= sent, "its counters go on");
    sites.stop().unwrap();
}

#[test]
fn a_peer_in_identifier_mode_comes_and_goes_and_no_other_loses_a_frame() {
    let other_mode = Some("header-encryption");
    peers_come_and_go(Case { mode: "identifier", other_mode, ..Case::default() });
}

#[test]
fn a_peer_in_header_encryption_comes_and_goes_and_no_other_loses_a_frame() {
    let other_mode = Some("identifier");
    peers_come_and_go(Case { mode: "header-encryption", other_mode, ..Case::default() });
}

#[test]
fn a_peer_comes_and_goes_and_no_flow_in_the_kernel_loses_a_frame() {
    let other_mode = Some("header-encryption");
    peers_come_and_go(Case { mode: "identifier", other_mode, in_kernel: true, ..Case::default() });
}

#[test]
fn a_plain_peer_comes_and_goes_and_no_other_loses_a_frame() {
    peers_come_and_go(Case { mode: "plain", ..Case::default() });
}

#[test]
fn a_plain_peer_comes_and_goes_and_no_flow_in_the_kernel_loses_a_frame() {
    peers_come_and_go(Case { mode: "plain", in_kernel: true, ..Case::default() });
}

/// The group of those who agree on keys gets smaller and larger, too.
#[test]
fn a_peer_of_a_site_that_protects_comes_and_goes_and_no_other_loses_a_frame() {
    let site = "protect = true\n[site.mka]\ncak_file = \"line.cak\"";
    peers_come_and_go(Case { mode: "identifier", site, ..Case::default() });
}
