//! A start among HELLOs of somebody else: 200,000 of one relation a second to each gateway, twice as many as a wire of
//! 100 Mbit/s holds.

use std::time::Duration;

use wire::fieldbus::{HELLO_OCTETS, NONCE_OCTETS};

use super::*;

/// HELLOs to each gateway in each turn of its worker.
const FLOOD: u64 = 10;
/// A start takes some milliseconds without a flood; each HELLO that is lost costs 100 more.
const SOON: Duration = Duration::from_millis(400);
const HEADER: usize = 14;
/// From a HELLO's beginning to its own nonce, and to its peer's.
const OWN: usize = HEADER + 8;
const PEERS: usize = OWN + NONCE_OCTETS;

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// HELLOs that ask and name nobody.
    Asks,
    /// HELLOs that name a nonce, and not one that the gateway drew.
    NamesOthers,
    /// HELLOs that name what the gateway said last.
    NamesTheNewest,
    /// All three by turns.
    All,
    /// True HELLOs that were recorded, those that ask, again and again.
    Replays,
}

/// He floods relation 0.
pub(super) struct Attacker {
    kind: Kind,
    count: u64,
    /// The newest HELLO of each gateway.
    newest: [Vec<u8>; 2],
    /// The HELLOs of relation 0 that each gateway has sent, without those that came twice.
    recorded: [Vec<Vec<u8>>; 2],
    silent: bool,
}

impl Attacker {
    fn new(kind: Kind) -> Self {
        Self { kind, count: 0, newest: Default::default(), recorded: Default::default(), silent: true }
    }

    pub(super) fn see(&mut self, from: usize, frame: &[u8]) {
        let [(own, id), (peer, _)] = [stations(0)[from], stations(0)[1 - from]];
        let front = [&peer.0[..], &own.0, &[0x88, 0xb5], &id.0.to_be_bytes()].concat();
        if frame.len() != HEADER + HELLO_OCTETS || !frame.starts_with(&front) {
            return;
        }
        self.newest[from] = frame.to_vec();
        if !self.recorded[from].iter().any(|known| known == frame) {
            self.recorded[from].push(frame.to_vec());
        }
    }

    pub(super) fn flood(&mut self, to: usize, mut inject: impl FnMut(&[u8])) {
        for _ in 0..if self.silent { 0 } else { FLOOD } {
            self.count += 1;
            let kind = match (self.kind, self.count % 3) {
                (Kind::All, 0) => Kind::Asks,
                (Kind::All, 1) => Kind::NamesOthers,
                (Kind::All, _) => Kind::NamesTheNewest,
                (kind, _) => kind,
            };
            if let Kind::Replays = kind {
                let recorded = &self.recorded[1 - to];
                if let Some(frame) = recorded.get(self.count as usize % recorded.len().max(1)) {
                    inject(frame);
                }
                continue;
            }
            inject(&self.forged(kind, to));
        }
    }

    fn forged(&self, kind: Kind, to: usize) -> Vec<u8> {
        let [(own, _), (peer, id)] = [stations(0)[to], stations(0)[1 - to]];
        let mut frame =
            [&own.0[..], &peer.0, &[0x88, 0xb5], &id.0.to_be_bytes(), &[0; HELLO_OCTETS - 2]].concat();
        // State and mode are in one octet, which is copied from a true HELLO: a cell says itself how it protects.
        let like = [&self.newest[1 - to], &self.newest[to]].into_iter().find(|newest| !newest.is_empty());
        like.into_iter().for_each(|like| frame[OWN - 1] = like[OWN - 1]);
        frame[OWN..OWN + 8].copy_from_slice(&self.count.to_be_bytes());
        match kind {
            Kind::NamesOthers => frame[PEERS..PEERS + 8].copy_from_slice(&self.count.to_be_bytes()),
            Kind::NamesTheNewest if !self.newest[to].is_empty() => {
                let drawn = self.newest[to][OWN..PEERS].to_vec();
                frame[PEERS..PEERS + NONCE_OCTETS].copy_from_slice(&drawn);
            }
            _ => {}
        }
        frame
    }
}

impl Plant {
    /// Time until both relations' frames flow both ways; none if `limit` is over before.
    fn time_to_flow(&mut self, limit: Duration) -> Option<Duration> {
        let begun = self.now;
        while self.now - begun < limit {
            self.pass(Duration::from_millis(3));
            if self.exchange() == [2, 2] {
                return Some(self.now - begun);
            }
        }
        None
    }
}

/// Both start; then each of them again. The flood begins before the start.
fn starts_among(kind: Kind) -> Vec<Option<Duration>> {
    let now = Duration::from_secs(1);
    let mut times = Vec::new();
    for again in [None, Some(0), Some(1)] {
        let sides = [0, 1].map(|side| Side::start(side, 2, now));
        let attacker = Some(Attacker::new(kind));
        let mut plant = Plant { sides, start: Instant::now(), now, under_way: VecDeque::new(), attacker };
        if let Some(side) = again {
            // He has recorded starts when his flood begins.
            for _ in 0..5 {
                assert!(plant.time_to_flow(SOON).is_some());
                plant.pass(Duration::from_millis(333));
                plant.sides[side] = Side::start(side, 2, plant.now);
            }
            assert!(plant.time_to_flow(SOON).is_some());
        }
        plant.attacker.iter_mut().for_each(|attacker| attacker.silent = false);
        plant.pass(Duration::from_millis(100));
        for side in again.into_iter().collect::<Vec<_>>() {
            plant.sides[side] = Side::start(side, 2, plant.now);
        }
        times.push(plant.time_to_flow(Duration::from_secs(2)));
    }
    times
}

#[test]
fn a_start_among_forged_or_replayed_hellos_takes_its_usual_time() {
    let kinds = [Kind::Asks, Kind::NamesOthers, Kind::NamesTheNewest, Kind::All, Kind::Replays];
    let times: Vec<_> = kinds.map(|kind| (kind, starts_among(kind))).into();
    let late = |times: &Vec<Option<Duration>>| times.iter().any(|time| time.is_none_or(|time| time > SOON));
    assert!(!times.iter().any(|(_, times)| late(times)), "{times:#?}");
}
