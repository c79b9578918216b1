//! New flows of stations that are live in a key agreement, beside a flood of others.

mod ends;

use std::time::Duration;

use ends::{Sites, frame, settings};
use tunnel::{Command, Limits, PeerId};
use wire::{MacAddr, Sci};

const P0: PeerId = PeerId(0);

/// Sites with little room, and a live station 200 if it is told.
fn sites(is_told: bool) -> Sites {
    let mut settings = settings(1);
    settings.limits = Limits { flows: 16, new_flows_per_second: 12, ..Limits::default() };
    let mut sites = Sites::new(2, &settings);
    if is_told {
        let sci = Sci::new(MacAddr([2, 0, 0, 0, 0, 200]), 1);
        sites.command(0, Command::StationLive { sci });
    }
    sites
}

/// Flows that a hundred stations get, which send once each.
fn flood(sites: &mut Sites) -> usize {
    for station in 1..=100 {
        sites.send(0, &frame(station, 210, 1, 100));
    }
    sites.sites[0].forwarding.flows(P0).count()
}

/// A live station's flows have half of the room, and a limit on new ones, for themselves. So has its express SC.
#[test]
fn no_flood_takes_the_room_of_live_stations() {
    let mut sites = sites(true);
    assert_eq!(flood(&mut sites), 8);
    let counters = |sites: &Sites| sites.sites[0].forwarding.peer_counters(P0);
    assert_eq!(counters(&sites).out_pkts_flow_quota, 92);
    sites.take_sent(0);
    for to in 220..227 {
        sites.send(0, &frame(200, to, 1, 100));
    }
    let mut express = frame(200, 227, 1, 100);
    express[26] = 0x80;
    sites.send(0, &express);
    assert_eq!(sites.take_sent(0).len(), 8);
    assert_eq!(sites.sites[0].forwarding.flows(P0).count(), 16);
    sites.send(0, &frame(200, 228, 1, 100));
    assert_eq!((sites.take_sent(0).len(), counters(&sites).out_pkts_flow_quota), (0, 93));
}

/// Who has static keys has all of the room where nobody is told to be live, and again when nobody is any more.
#[test]
fn without_live_stations_all_have_all_of_the_room() {
    assert_eq!(flood(&mut sites(false)), 12, "so many in a second");
    let mut sites = sites(true);
    assert_eq!(flood(&mut sites), 8);
    sites.now = sites.now + Duration::from_secs(20);
    assert_eq!(flood(&mut sites), 16);
}
