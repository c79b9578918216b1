//! Paths of a model network, on a virtual clock.

use std::net::SocketAddr;
use std::time::Duration;

use proptest::prelude::*;
use wire::Instant;

use super::choice::{AllFigures, Choice, HOLD};
use super::meter::{Answered, Figures, INTERVAL, Meter};
use super::search::PayloadSearch;
use super::{ManagerPath, ManagerPeer, PeerPaths};

const TICK_MS: u64 = 10;
const TICK: Duration = Duration::from_millis(TICK_MS);

fn at(milliseconds: u64) -> Instant {
    Instant::after_start(Duration::from_millis(milliseconds))
}

fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, last], 7787))
}

/// A path whose other end answers everything that gets through.
struct Model {
    meter: Meter,
    round_trip: Duration,
    loss_per_mille: u64,
    /// The largest payload that it carries.
    carries: u16,
    answers: Vec<(Instant, u64)>,
    dice: u64,
}

impl Model {
    fn new(round_trip_ms: u64, loss_per_mille: u64) -> Self {
        Self {
            meter: Meter::default(),
            round_trip: Duration::from_millis(round_trip_ms),
            loss_per_mille,
            carries: 1472,
            answers: Vec::new(),
            dice: 0x9e37_79b9_7f4a_7c15 ^ round_trip_ms << 20 ^ loss_per_mille,
        }
    }

    fn is_lost(&mut self) -> bool {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        (self.dice >> 11) % 1000 < self.loss_per_mille
    }

    fn turn(&mut self, now: Instant, octets: Option<u16>) {
        let due: Vec<_> = self.answers.iter().filter(|(at, _)| *at <= now).copied().collect();
        self.answers.retain(|(at, _)| *at > now);
        for (_, seq) in due {
            self.meter.hear_answer(now, address(1), seq, true);
        }
        for request in self.meter.requests(now, Some(address(1)), octets) {
            if !self.is_lost() && request.octets <= self.carries {
                self.answers.push((now + self.round_trip, request.seq));
            }
        }
    }
}

/// Lets paths be measured and chosen; returns the choice at each tick.
fn run(models: &mut [Model], choice: &mut Choice, from_ms: u64, for_ms: u64) -> Vec<Option<usize>> {
    let ticks = (0..for_ms / TICK_MS).map(|tick| at(from_ms + TICK_MS * tick));
    ticks
        .map(|now| {
            models.iter_mut().for_each(|model| model.turn(now, None));
            let all: AllFigures = models.iter().map(|model| model.meter.figures(now)).collect();
            choice.choose(now, &all)
        })
        .collect()
}

#[test]
fn the_faster_path_is_chosen_and_left_when_it_is_slower_for_a_while() {
    let (mut models, mut choice) = ([Model::new(50, 0), Model::new(10, 0)], Choice::default());
    let chosen = run(&mut models, &mut choice, 0, 20_000);
    assert_eq!(chosen.last(), Some(&Some(1)));
    // Slower for less than the time that counts, then for good.
    models[1].round_trip = Duration::from_millis(150);
    let chosen = run(&mut models, &mut choice, 20_000, 3_000);
    assert!(chosen.iter().all(|chosen| *chosen == Some(1)), "not yet");
    let chosen = run(&mut models, &mut choice, 23_000, 10_000);
    assert_eq!(chosen.last(), Some(&Some(0)));
    let changes = chosen.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert_eq!(changes, 1);
}

#[test]
fn a_path_that_loses_is_worse_than_a_slow_one() {
    let (mut models, mut choice) = ([Model::new(5, 150), Model::new(60, 0)], Choice::default());
    let chosen = run(&mut models, &mut choice, 0, 60_000);
    assert_eq!(chosen.last(), Some(&Some(1)));
    let figures = models[0].meter.figures(at(60_000)).expect("it carries packets");
    assert!((20..=400).contains(&figures.loss_per_mille), "{figures:?}");
}

/// The variation is between the extremes of the last probes, not smoothed: it bounds how late a frame is.
#[test]
fn a_path_tells_the_shortest_and_the_longest_round_trip_of_its_last_probes() {
    let mut models = [Model::new(40, 0)];
    let mut choice = Choice::default();
    let told = |model: &Model, now| {
        let its = model.meter.round_trips(at(now)).expect("answers have come");
        (its.count, its.least.as_millis(), its.most.as_millis())
    };
    assert_eq!(models[0].meter.round_trips(at(0)), None);
    run(&mut models, &mut choice, 0, 2_000);
    assert_eq!(told(&models[0], 2_000), (10, 40, 40));
    // Slow for two probes, and quick for one.
    for (from, round_trip_ms, for_ms) in [(2_000, 90, 400), (2_400, 30, 200), (2_600, 40, 1_400)] {
        models[0].round_trip = Duration::from_millis(round_trip_ms);
        run(&mut models, &mut choice, from, for_ms);
    }
    assert_eq!(told(&models[0], 4_000), (20, 30, 90));
    // A lost one has no round trip, and 250 later ones know nothing of these.
    models[0].loss_per_mille = 1000;
    run(&mut models, &mut choice, 4_000, 200);
    models[0].loss_per_mille = 0;
    run(&mut models, &mut choice, 4_200, 4_000);
    assert_eq!(told(&models[0], 8_200), (40, 30, 90));
    run(&mut models, &mut choice, 8_200, 60_000);
    assert_eq!(told(&models[0], 68_200), (250, 40, 40));
}

/// With filling a probe takes longer, and a cyclic frame has none.
#[test]
fn probes_with_filling_are_no_round_trips() {
    let mut model = Model::new(10, 0);
    for tick in 0..200 {
        let now = at(TICK_MS * tick);
        // From the second request on there is one with filling beside each.
        model.turn(now, Some(1400));
    }
    let told = model.meter.round_trips(at(2_000)).expect("answers have come");
    assert_eq!((told.count, told.least, told.most), (10, model.round_trip, model.round_trip));
}

/// Each loses one packet of a hundred: chance hardly moves their traffic.
#[test]
fn two_paths_that_lose_alike_do_not_take_turns() {
    let (mut models, mut choice) = ([Model::new(20, 10), Model::new(21, 10)], Choice::default());
    let chosen = run(&mut models, &mut choice, 0, 1_200_000);
    let changes = chosen.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!(changes <= 2, "{changes} changes");
}

#[test]
fn a_dead_path_is_left_within_two_seconds_and_comes_back_into_use_later() {
    let (mut models, mut choice) = ([Model::new(10, 0), Model::new(40, 0)], Choice::default());
    assert_eq!(run(&mut models, &mut choice, 0, 10_000).last(), Some(&Some(0)));
    models[0].loss_per_mille = 1000;
    let chosen = run(&mut models, &mut choice, 10_000, 2_000);
    assert_eq!(chosen.last(), Some(&Some(1)));
    assert_eq!(models[0].meter.figures(at(12_000)), None);
    models[0].loss_per_mille = 0;
    // Its outage counts as loss for as long as that is looked back on.
    let chosen = run(&mut models, &mut choice, 12_000, 60_000);
    let hold = usize::try_from(HOLD.as_millis() / TICK.as_millis()).expect("small");
    assert!(chosen[..hold].iter().all(|chosen| *chosen == Some(1)), "not before it has held");
    assert_eq!(chosen.last(), Some(&Some(0)));
    // All are dead: none is chosen.
    models.iter_mut().for_each(|model| model.loss_per_mille = 1000);
    assert_eq!(run(&mut models, &mut choice, 72_000, 3_000).last(), Some(&None));
}

#[test]
fn an_address_counts_once_it_has_answered_what_was_sent_there() {
    let (here, there) = (address(1), address(2));
    let mut meter = Meter::default();
    assert!(meter.requests(at(0), None, None).is_empty(), "nobody knows where");
    // The peer is heard, and is proved to be there by its answer from there.
    meter.hear_request(at(10), here, false);
    let asked = meter.requests(at(200), None, None);
    assert_eq!(asked[0].to, here);
    assert_eq!(meter.hear_answer(at(210), there, asked[0].seq, true), Answered::Nothing, "from elsewhere");
    assert_eq!(meter.proved(), None);
    assert_eq!(meter.hear_answer(at(215), here, asked[0].seq, false), Answered::Moved);
    assert_eq!(meter.hear_answer(at(216), here, asked[0].seq, true), Answered::Nothing, "twice");
    assert_eq!(
        (meter.proved(), meter.figures(at(216))),
        (Some(here), None),
        "the peer has not proved this site"
    );
    meter.hear_request(at(220), here, true);
    assert!(meter.figures(at(221)).is_some());
    // A request from elsewhere moves nothing, but has that address asked as well.
    meter.hear_request(at(300), there, true);
    assert_eq!(meter.proved(), Some(here));
    let asked = meter.requests(at(400), None, None);
    assert_eq!(asked.iter().map(|request| request.to).collect::<Vec<_>>(), [here, there]);
    assert_eq!(
        meter.hear_answer(at(410), there, asked[0].seq, true),
        Answered::Nothing,
        "that went elsewhere"
    );
    assert_eq!(meter.hear_answer(at(410), there, asked[1].seq, true), Answered::Moved);
    assert_eq!(meter.proved(), Some(there));
    assert!(meter.requests(at(400) + INTERVAL / 2, None, None).is_empty(), "not due");
}

#[test]
fn the_payload_of_a_path_is_found_to_the_octet_and_again_when_it_shrinks() {
    for (carries, most) in [(1472, 1472), (1464, 1472), (1200, 1472), (1201, 8972), (4000, 8972)] {
        let (mut model, mut search) = (Model::new(20, 0), PayloadSearch::new(most));
        let mut now = at(0);
        let mut pass = |model: &mut Model, search: &mut PayloadSearch, seconds: u32| {
            for _ in 0..100 * seconds {
                now = now + TICK;
                while let Some((octets, answered)) = model.meter.poll_filled(now) {
                    search.hear(now, octets, answered, model.meter.answers(now));
                }
                let due = model.meter.is_due(now) && model.meter.proved().is_some();
                let octets = if due { search.next(now) } else { None };
                model.turn(now, octets);
            }
        };
        model.carries = carries;
        pass(&mut model, &mut search, 90);
        assert_eq!(search.carried(), carries, "of {most}");
        if carries > 1300 {
            model.carries = 1300;
            pass(&mut model, &mut search, 90);
            assert_eq!(search.carried(), 1300, "shrunk");
        }
        model.carries = most;
        pass(&mut model, &mut search, 240);
        assert_eq!(search.carried(), most, "grown");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the figures: a path that carries packets is chosen if there is one, and none is left for one that is not better.
    #[test]
    fn a_living_path_is_chosen_and_kept_without_a_reason(
        figures in proptest::collection::vec(
            proptest::collection::vec(proptest::option::of((0..300_u64, 0..200_u16)), 3), 1..200)
    ) {
        let (mut choice, mut before) = (Choice::default(), None);
        for (tick, all) in figures.iter().enumerate() {
            let of = |figures: &Option<(u64, u16)>| figures.map(|(ms, loss_per_mille)| {
                Figures { round_trip: Duration::from_millis(ms), loss_per_mille }
            });
            let all: AllFigures = all.iter().map(of).collect();
            let chosen = choice.choose(at(500 * tick as u64), &all);
            prop_assert_eq!(chosen.is_some(), all.iter().any(Option::is_some));
            if let Some(chosen) = chosen {
                let its = all[chosen];
                prop_assert!(its.is_some());
                if let Some(was) = before.and_then(|before: usize| all[before])
                    && before != Some(chosen) {
                    let its = its.expect("it carries packets");
                    prop_assert!(its.loss_per_mille < was.loss_per_mille || its.round_trip < was.round_trip);
                }
                before = Some(chosen);
            }
        }
    }
}

/// Two paths to a peer that is called, both up.
fn paths_that_are_up() -> PeerPaths {
    let path = |last: u8| ManagerPath {
        local: Some(std::net::Ipv4Addr::new(198, 51, 100, last).into()),
        ..ManagerPath::default()
    };
    let settings = ManagerPeer {
        endpoint: None,
        public_key: None,
        via: None,
        mode: tunnel::Mode::Identifier,
        classical: false,
        paths: vec![path(1), path(2)],
        copies: dataplane::site::Copies::default(),
    };
    let mut paths = PeerPaths::new(tunnel::PeerId(1), &settings, 1472, |_, _| None).expect("it has paths");
    paths.begin(at(0), false, address(1), None);
    prove(&mut paths, 0, at(100));
    prove(&mut paths, 1, at(100));
    paths
}

/// The peer is heard on a path, and answers there.
fn prove(paths: &mut PeerPaths, number: u8, now: Instant) -> Vec<String> {
    let meter = &mut paths.paths[usize::from(number)].meter;
    meter.hear_request(now, address(1 + number), true);
    for request in meter.requests(now, None, None) {
        meter.hear_answer(now + TICK, request.to, request.seq, true);
    }
    paths.judge(now + TICK)
}

fn destinations(paths: &PeerPaths) -> Vec<SocketAddr> {
    paths.wanted.places.iter().flatten().map(|place| place.to).collect()
}

#[test]
fn on_another_connection_data_goes_over_all_paths_of_before_until_one_is_proved() {
    let mut paths = paths_that_are_up();
    let before = paths.wanted;
    assert_eq!(destinations(&paths), [address(1), address(2)]);
    // The peer has called again by one of the paths: behind the route that is there QUIC sees it at the first one.
    let route = before.places.iter().flatten().copied().collect();
    paths.begin(at(5_000), false, address(1), Some(route));
    paths.judge(at(5_001));
    assert_eq!(paths.wanted, before, "nothing has changed yet");
    assert_eq!(paths.addresses(), [address(1), address(2)], "where it was proved to be");
    let made: Vec<_> = paths.made.iter().flat_map(|made| &made.places).map(|place| place.to).collect();
    assert_eq!(made, [address(1), address(2)], "nor for QUIC");
    // One is proved; the other one stays for as long as a path that is down.
    prove(&mut paths, 1, at(5_200));
    assert_eq!((destinations(&paths), paths.wanted.preferred), (vec![address(1), address(2)], 1));
    for round in 1..100 {
        prove(&mut paths, 1, at(5_200 + 200 * round));
    }
    assert_eq!(destinations(&paths), [address(2)]);
}

#[test]
fn a_new_address_of_a_peer_is_reached_by_each_way_out_besides_those_of_before() {
    let mut paths = paths_that_are_up();
    paths.begin(at(5_000), false, address(9), None);
    paths.judge(at(5_001));
    assert_eq!(destinations(&paths), [address(1), address(2), address(9), address(9)]);
    assert_eq!(paths.addresses(), [address(1), address(2)], "the new one is not proved on any path");
    let sources = |number: usize| paths.wanted.places[number].map(|place| place.source);
    assert_eq!((sources(2), sources(3)), (sources(0), sources(1)));
    assert_eq!(paths.wanted.payload, Some(1200));
}

#[test]
fn a_reconnect_is_not_told_as_paths_that_go_down_and_come_up() {
    let mut paths = paths_that_are_up();
    let mut told = Vec::new();
    paths.begin(at(5_000), false, address(1), None);
    told.extend(paths.judge(at(5_001)));
    told.extend(prove(&mut paths, 0, at(5_200)));
    assert_eq!(told, Vec::<String>::new());
    // The other one does not come back: that is told.
    for round in 1..15 {
        told.extend(prove(&mut paths, 0, at(5_200 + 200 * round)));
    }
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("path 2 (from 198.51.100.2) is down: "), "{told:?}");
}
