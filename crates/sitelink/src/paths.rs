//! Several paths to a peer: measured by probes, the better one preferred, others in reserve or with copies.
//!
//! ```text
//!  socket ── probes heard ──▶ Meter of each path ── figures ─▶ Choice ── places, preferred ─▶ worker
//!         ◀─ requests ───────────┘        │                           └─ ways of QUIC's packets ─▶ socket
//!                                 PayloadSearch ── least payload ─▶ worker
//! ```
//!
//! Keys of probes come from the connection with the peer, so that each connection proves all paths anew. Until one is proved, data
//! goes where the connection was made, and where it went before. Without a connection everything stays as it was.

mod before_proof;
mod choice;
mod meter;
mod orders;
mod path;
mod search;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::time::Duration;

use dataplane::site::{PATHS, Place, ToWorker, WayOut};
use netdev::udp::Source;
use quinn::Connection;
use suite::path_probe::{PROBE_OCTETS, Probe, ProbeKey};
use tokio::task::AbortHandle;
use tunnel::PeerId;
use wire::Instant;

use super::error::DisconnectReason;
use super::probes::ProbedPath;
use super::random;
use super::routes::Route;
use super::settings::{ManagerPath, ManagerPeer};
use super::shared::Shared;
use super::status::{PathStatus, canonical};
use super::transport::FLOOR;
pub(super) use before_proof::reaches;
use before_proof::{made_at, places_before_proof};
use choice::{AllFigures, Choice};
use meter::Answered;
pub(super) use meter::Meter;
use orders::{Told, Wanted};
use path::PeerPath;
pub(super) use path::{is_of_version, keys_of, source_of};

/// Time after a connection in which a path that was up before is not told to be down: it is being proved.
const PROVING: Duration = Duration::from_secs(2);
/// Interval at which interfaces are looked for.
const INTERFACES: Duration = Duration::from_secs(1);

/// The paths of one peer.
#[derive(Debug)]
pub(super) struct PeerPaths {
    peer: PeerId,
    paths: Vec<PeerPath>,
    most_payload: u16,
    choice: Choice,
    preferred: Option<usize>,
    /// Where the connection was made, and its moment.
    made: Option<Made>,
    /// Keys of the connection, inward and outward, by number of the path.
    keys: Vec<[ProbeKey; 2]>,
    /// Numbers of the last requests under these keys.
    seqs: [u64; PATHS],
    /// Whether a path was up on this connection.
    proved: bool,
    /// What the socket knows of the probed paths.
    probed: Vec<(Source, bool)>,
    looked: Option<Instant>,
    wanted: Wanted,
    told: Told,
}

/// How a connection was made.
#[derive(Debug)]
struct Made {
    at: Instant,
    /// Where QUIC saw the peer.
    address: SocketAddr,
    /// Where QUIC's packets go until a path is proved.
    places: Vec<Place>,
    /// Whether these are known to carry packets, and so better than the path that was preferred before.
    is_sure: bool,
}

impl PeerPaths {
    /// Paths of a peer that has some. `follow` has an endpoint looked up.
    pub(super) fn new(
        peer: PeerId,
        settings: &ManagerPeer,
        most_payload: u16,
        follow: impl Fn(u8, &ManagerPath) -> Option<AbortHandle>,
    ) -> Option<Self> {
        if settings.paths.is_empty() {
            return None;
        }
        let mut paths = Self {
            peer,
            paths: Vec::new(),
            most_payload,
            choice: Choice::default(),
            preferred: None,
            made: None,
            keys: Vec::new(),
            seqs: [0; PATHS],
            proved: false,
            probed: Vec::new(),
            looked: None,
            wanted: Wanted::default(),
            told: Told::default(),
        };
        paths.change(settings, follow);
        Some(paths)
    }

    /// Takes other settings; a path that is as before goes on.
    pub(super) fn change(
        &mut self,
        settings: &ManagerPeer,
        follow: impl Fn(u8, &ManagerPath) -> Option<AbortHandle>,
    ) {
        self.wanted.copies = settings.copies;
        for (seq, path) in self.seqs.iter_mut().zip(&self.paths) {
            *seq = path.meter.last_seq();
        }
        self.paths.truncate(settings.paths.len());
        for (number, path) in settings.paths.iter().take(PATHS).enumerate() {
            match self.paths.get_mut(number) {
                Some(known) if known.settings == *path => {}
                known => {
                    let mut fresh =
                        PeerPath::new(path.clone(), follow(number as u8, path), self.most_payload);
                    fresh.meter = Meter::after(self.seqs[number]);
                    match known {
                        Some(known) => *known = fresh,
                        None => self.paths.push(fresh),
                    }
                }
            }
        }
    }

    /// Whether the settings say the same paths, and copies of the same frames.
    pub(super) fn are_as(&self, settings: &ManagerPeer) -> bool {
        let paths = self.paths.iter().map(|path| &path.settings);
        paths.eq(&settings.paths) && self.wanted.copies == settings.copies
    }

    /// An endpoint was looked up.
    pub(super) fn resolved(&mut self, number: u8, found: Result<Vec<SocketAddr>, DisconnectReason>) {
        let Some(path) = self.paths.get_mut(usize::from(number)) else { return };
        path.endpoint = match found {
            Ok(addresses) => Ok(addresses.first().copied()),
            Err(why) => Err(why.text),
        };
    }

    /// There is another connection, made with this address; `ours`: by this site.
    pub(super) fn connected(
        &mut self,
        connection: &Connection,
        ours: bool,
        address: SocketAddr,
        shared: &Shared,
    ) {
        let route = shared.socket.routes().of(address).map(<[Place]>::to_vec);
        // What was heard under keys before proves nothing.
        self.forget(shared);
        self.begin(shared.now(), ours, address, route);
        let places = self.made.iter().flat_map(|made| made.places.clone()).collect();
        shared.socket.routes().set(self.peer, Some(Route { seen: address, places }));
        self.keys = (0..PATHS as u8).map_while(|number| keys_of(connection, number, ours)).collect();
    }

    /// Has all paths proved anew. `route`: how QUIC's packets went to this address.
    fn begin(&mut self, now: Instant, ours: bool, address: SocketAddr, route: Option<Vec<Place>>) {
        // Behind a route that is there still, the peer may have called by any of its paths.
        let is_sure = ours || route.is_none();
        let places = route.unwrap_or_else(|| made_at(address, &self.wanted.places, &self.sources()));
        self.made = Some(Made { at: now, address, places, is_sure });
        for (path, place) in self.paths.iter_mut().zip(self.wanted.places) {
            path.begin(now, place.is_some());
        }
        (self.choice, self.proved, self.probed, self.seqs) =
            (Choice::default(), false, Vec::new(), [0; PATHS]);
    }

    /// The connection is gone, and with it its keys.
    pub(super) fn disconnected(&mut self, shared: &Shared) {
        self.keys.clear();
        self.forget(shared);
    }

    /// It is a peer no more.
    pub(super) fn leave(&self, shared: &Shared) {
        self.forget(shared);
        shared.socket.routes().set_sources(self.peer, Vec::new());
    }

    /// The socket is to know nothing of the connection any more.
    fn forget(&self, shared: &Shared) {
        shared.socket.probes().set(self.peer, [].into_iter());
        shared.socket.routes().set(self.peer, None);
    }

    /// Ways out of this box.
    fn sources(&self) -> Vec<Source> {
        self.paths.iter().filter_map(|path| path.source.as_ref().ok().copied()).collect()
    }

    /// Looks for the interfaces, with a connection or without.
    pub(super) fn look_for_interfaces(&mut self, now: Instant, shared: &Shared) {
        if self.looked.is_none_or(|looked| now.since(looked) >= INTERFACES) {
            self.looked = Some(now);
            for (path, way) in self.paths.iter_mut().zip(&mut self.wanted.ways) {
                path.source = source_of(&path.settings);
                let out = path.source.as_ref().ok().and_then(WayOut::of);
                // An interface that is away keeps its uplink.
                if let Some((uplink, out)) = path.settings.uplink.zip(out) {
                    *way = Some((uplink, out));
                    shared.socket.set_way_out(uplink, out);
                }
            }
            shared.socket.routes().set_sources(self.peer, self.sources());
        }
    }

    /// Takes what was heard, sends what is due, and chooses. Returns what a person should know.
    pub(super) fn look(&mut self, now: Instant, seen: SocketAddr, shared: &Shared) -> Vec<String> {
        let mut notices = self.hear(shared);
        self.ask(now, shared);
        notices.extend(self.judge(now));
        self.tell_socket(now, seen, shared);
        notices
    }

    /// Chooses by what was heard, and settles what the worker is to know. Returns what a person should know.
    fn judge(&mut self, now: Instant) -> Vec<String> {
        let all: AllFigures = self.paths.iter().map(|path| path.figures(now)).collect();
        self.preferred = self.choice.choose(now, &all);
        let notices = self.note_changes(now, &all);
        self.settle(now, &all);
        notices
    }

    fn hear(&mut self, shared: &Shared) -> Vec<String> {
        let mut notices = Vec::new();
        for heard in shared.socket.probes().heard(self.peer) {
            let Some(path) = self.paths.get_mut(usize::from(heard.number)) else { continue };
            let (at, from, Probe { answer, proved, seq }) =
                (shared.moment(heard.at), heard.from, heard.probe);
            if !answer {
                path.meter.hear_request(at, from, proved);
                continue;
            }
            let before = path.meter.proved();
            if path.meter.hear_answer(at, from, seq, proved) == Answered::Moved
                && let Some(before) = before
            {
                let number = heard.number + 1;
                notices.push(format!(
                    "on path {number} it is now at {from}, {before} before: a NAT on the way or an address has changed"
                ));
            }
        }
        notices
    }

    /// Sends requests that are due.
    fn ask(&mut self, now: Instant, shared: &Shared) {
        let most = self.most_payload.max(FLOOR);
        let mut packet = vec![0; usize::from(most)];
        for (path, [_, key]) in self.paths.iter_mut().zip(&self.keys) {
            while let Some((octets, answered)) = path.meter.poll_filled(now) {
                path.search.hear(now, octets, answered, path.meter.answers(now));
            }
            let Ok(source) = path.source else { continue };
            if !path.meter.is_due(now) {
                continue;
            }
            let octets = if path.meter.answers(now) { path.search.next(now) } else { None };
            let proved = path.meter.answers(now);
            let endpoint = path.endpoint.as_ref().ok().copied().flatten().map(canonical);
            for request in path.meter.requests(now, endpoint, octets) {
                let length = usize::from(request.octets).max(PROBE_OCTETS).min(packet.len());
                let probe = Probe { answer: false, proved, seq: request.seq };
                key.seal(probe, random::number() as u8, &mut packet[..length]);
                shared.socket.send_probe(Place { to: request.to, source }, &packet[..length]);
            }
        }
    }

    fn note_changes(&mut self, now: Instant, all: &AllFigures) -> Vec<String> {
        let mut notices = Vec::new();
        let is_proving = self.made.as_ref().is_some_and(|made| now.since(made.at) < PROVING);
        for (number, path) in self.paths.iter_mut().enumerate() {
            let figures = all.get(number).copied().flatten();
            if path.up == figures.is_some() || (path.up && is_proving) {
                continue;
            }
            path.up = figures.is_some();
            let name = format!("path {} ({})", number + 1, path.settings);
            notices.push(match figures {
                Some(figures) => {
                    format!("{name} is up, round trip {} us", figures.round_trip.as_micros())
                }
                None => match self.preferred {
                    Some(other) => {
                        format!("{name} is down: {}; frames go over path {}", path.reason(now), other + 1)
                    }
                    None => format!("{name} is down: {}; no other path is up", path.reason(now)),
                },
            });
        }
        notices
    }

    /// Settles what the worker is to know. If no path carries packets, it stays as it was.
    fn settle(&mut self, now: Instant, all: &AllFigures) {
        for (path, _) in self.paths.iter_mut().zip(all).filter(|(_, figures)| figures.is_some()) {
            path.was_up = Some(now);
        }
        match self.preferred {
            Some(preferred) => {
                self.proved = true;
                self.wanted.places = self.used_places(now);
                self.wanted.preferred = preferred as u8;
                self.wanted.payload = self.used_payload(now);
            }
            None if !self.proved => {
                let Some(Made { places, is_sure, .. }) = &self.made else { return };
                let kept = self.used_places(now);
                let preferred = self.wanted.preferred;
                let all = places_before_proof(kept, places, preferred, *is_sure);
                // What carries packets besides the paths of before is not measured yet.
                let payload = if all.places == kept { self.used_payload(now) } else { Some(FLOOR) };
                (self.wanted.places, self.wanted.preferred, self.wanted.payload) =
                    (all.places, all.preferred, payload);
            }
            None => {}
        }
    }

    fn used_places(&self, now: Instant) -> [Option<Place>; PATHS] {
        std::array::from_fn(|number| {
            self.paths.get(number).filter(|path| path.is_used(now)).and_then(PeerPath::place)
        })
    }

    fn used_payload(&self, now: Instant) -> Option<u16> {
        self.paths.iter().filter(|path| path.is_used(now)).map(|path| path.search.carried()).min()
    }

    /// Tells the socket how QUIC's packets go and what answers say.
    fn tell_socket(&mut self, now: Instant, seen: SocketAddr, shared: &Shared) {
        let preferred = usize::from(self.wanted.preferred);
        let places = self.wanted.places.iter().flatten().copied();
        let first = self.wanted.places[preferred];
        let mut ordered: Vec<Place> = first.into_iter().collect();
        ordered.extend(places.filter(|place| Some(*place) != first));
        if !self.proved {
            // QUIC itself looks where the peer is.
            let Some(Made { address, places, .. }) = &self.made else { return };
            let follow = |place: &Place| match canonical(place.to) == canonical(*address) {
                true => Place { to: seen, ..*place },
                false => *place,
            };
            ordered = places.iter().map(follow).collect();
        }
        shared.socket.routes().set(self.peer, Some(Route { seen, places: ordered }));
        let of =
            |path: &PeerPath| (*path.source.as_ref().unwrap_or(&Source::default()), path.meter.answers(now));
        let probed: Vec<_> = self.paths.iter().map(of).collect();
        if probed != self.probed {
            let paths = probed.iter().zip(&self.keys).zip(0..).map(|((&(source, proved), keys), number)| {
                let [inward, outward] = keys.clone();
                ProbedPath { number, inward, outward, source, proved }
            });
            shared.socket.probes().set(self.peer, paths);
            self.probed = probed;
        }
    }

    /// The next command for the worker.
    pub(super) fn next_command(&mut self) -> Option<ToWorker> {
        self.told.next_command(self.peer, self.wanted)
    }

    /// Where data goes that goes over one path.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.wanted.places[usize::from(self.wanted.preferred)].map(|place| place.to)
    }

    /// Addresses at which the peer was proved to be, one for each path, on this connection or, where it is not proved yet, on the one before.
    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        self.paths.iter().filter_map(PeerPath::proved).collect()
    }

    /// Octets of the largest UDP payload that all paths in use carry.
    pub(super) const fn payload(&self) -> Option<u16> {
        self.wanted.payload
    }

    /// Round trip of the preferred path.
    pub(super) fn round_trip(&self, now: Instant) -> Option<Duration> {
        Some(self.paths.get(self.preferred?)?.figures(now)?.round_trip)
    }

    /// The state of each.
    pub(super) fn statuses(&self, now: Instant) -> Vec<PathStatus> {
        let of = |(number, path): (usize, &PeerPath)| {
            let figures = path.figures(now).filter(|_| !self.keys.is_empty());
            let reason = match figures {
                Some(_) => String::new(),
                None if self.keys.is_empty() => "there is no management channel".to_owned(),
                None => path.reason(now),
            };
            PathStatus {
                settings: path.settings.to_string(),
                reason,
                preferred: figures.is_some() && self.preferred == Some(number),
                address: path.meter.proved(),
                round_trip: figures.map(|figures| figures.round_trip),
                round_trips: figures.and_then(|_| path.meter.round_trips(now)),
                loss_per_mille: figures.map(|figures| figures.loss_per_mille),
                payload: figures.map(|_| path.search.carried()),
            }
        };
        self.paths.iter().enumerate().map(of).collect()
    }
}
