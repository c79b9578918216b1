//! Whether packets of a site arrive: the channel between sites stands, and says nothing of that.
//!
//! ```text
//!  probe 1 ── [site 1] ── line ── internet ── line ── [site 2] ── probe 2      probe 1 sends, and nothing is answered
//!                                  drops packets of site 1, and lets QUIC pass
//! ```

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lab::plants::{BARE, PROBE};
use lab::topology::{LEFT, RIGHT};
use lab::{PacketSocket, Plants, PlantsShape};
use perf::demo::pair::Station;
use perf::demo::sites::{PORT, Sites, SitesChoice};
use report::Level;
use report::site::SiteReport;

use super::fieldbus::takes_redirected_frames;
use super::program;
use super::sites::{all_up, site_when};

/// Longer than a verdict waits for an arrival.
const LONG: Duration = Duration::from_secs(15);

fn mac(plant: u8) -> [u8; 6] {
    [2, 0, 0, 8, plant, 1]
}

/// An encrypted MACsec frame with an SCI, of a station of one plant to that of the other.
fn frame(from: u8, to: u8, pn: u32) -> Vec<u8> {
    let head = [&mac(to)[..], &mac(from), &[0x88, 0xe5, 0x2c, 0], &pn.to_be_bytes(), &mac(from), &[0, 1]];
    let mut frame = head.concat();
    frame.resize(120, pn as u8);
    frame
}

/// Has the internet drop packets of plant 1 with these properties.
fn drops(plants: &Plants, packets: &str) {
    for command in [
        "add table ip deaf",
        "add chain ip deaf ears { type filter hook forward priority 0 ; }",
        &format!("add rule ip deaf ears iifname \"to1\" {packets} drop"),
    ] {
        plants.internet.run(&["nft", command]).unwrap();
    }
}

fn is_well(site: &SiteReport) -> bool {
    site.verdict.state == "protecting" && site.verdict.level == Level::Good && site.concerns.is_empty()
}

/// Whether a site says, with these words, that nothing passes.
fn is_alarmed(site: &SiteReport, words: [&str; 2]) -> bool {
    site.verdict.state == "one way"
        && site.verdict.level == Level::Alarm
        && !site.verdict.protecting
        && words.iter().all(|words| site.verdict.text.contains(words))
}

/// `path`: what is said of the way of plant 1's frames.
fn what_does_not_arrive_is_told(mode: &'static str, io: &'static str, path: Option<&str>, packets: &str) {
    let plants = Plants::build(&PlantsShape { stations: 0, ..PlantsShape::default() }).unwrap();
    for plant in &plants.plants {
        takes_redirected_frames(&plant.lan, &[BARE]);
        takes_redirected_frames(plant.line.as_ref().unwrap(), &[LEFT, RIGHT]);
    }
    let sites =
        Sites::start(program(), &plants, &SitesChoice { mode, io, ..SitesChoice::default() }).unwrap();
    all_up(&sites);
    let [one, two] = &sites.sites[..] else { panic!("two sites") };
    let probes = [0, 1].map(|at: usize| PacketSocket::open(&plants.plants[at].lan, PROBE).unwrap());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            // Both stations are known from here on, and only one of them speaks.
            (1..5).for_each(|pn| probes[1].send(&frame(2, 1, pn)).unwrap());
            for pn in 1.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                probes[0].send(&frame(1, 2, pn)).unwrap();
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let words = |site: &Station| site.report().unwrap().sites.remove(0);
            site_when(one, "it takes its way", |site| {
                path.is_none_or(|path| site.peers[0].path.as_ref().is_some_and(|is| is.starts_with(path)))
            });
            let end = Instant::now() + LONG;
            while Instant::now() < end {
                for site in [one, two] {
                    let report = words(site);
                    assert!(is_well(&report), "one-way traffic is no alarm: {:?}", report.concerns);
                }
                std::thread::sleep(Duration::from_millis(500));
            }
            drops(&plants, packets);
            site_when(one, "its packets are lost", |site| {
                is_alarmed(site, ["plant-2 is connected, but it got none", "Check whether"])
            });
            site_when(two, "it hears that", |site| {
                is_alarmed(site, ["plant-1 is connected, but none", "Check whether"])
            });
            plants.internet.run(&["nft", "delete table ip deaf"]).unwrap();
            for site in [one, two] {
                site_when(site, "packets pass again", is_well);
            }
        }));
        stop.store(true, Ordering::Relaxed);
        sender.join().unwrap();
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    sites.stop().unwrap();
}

/// Octet 8 of UDP is the first of its payload: QUIC has bit 0x40 there, and identifiers do not.
fn identifiers() -> String {
    format!("udp dport {PORT} @th,64,8 & 0x40 == 0")
}

#[test]
fn packets_of_identifier_mode_that_do_not_arrive_are_told() {
    let path = Some("user space");
    what_does_not_arrive_is_told("identifier", "af_packet", path, &identifiers());
}

#[test]
fn packets_of_the_kernel_that_do_not_arrive_are_told() {
    what_does_not_arrive_is_told("identifier", "auto", Some("kernel"), &identifiers());
}

#[test]
fn packets_of_header_encryption_that_do_not_arrive_are_told() {
    what_does_not_arrive_is_told("header-encryption", "auto", None, &format!("udp dport {}", PORT + 1));
}
