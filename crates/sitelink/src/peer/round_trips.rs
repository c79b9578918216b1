//! Round trips to a peer with one way: probes beside its channel, whose times tell delay and jitter. Each path of a peer with several has
//! probes of its own ([`PeerPaths`](crate::paths::PeerPaths)).
//!
//! Left out on purpose: probes through a relay, which sees an address of its own at either end.

use std::net::SocketAddr;
use std::time::Duration;

use dataplane::site::Place;
use netdev::udp::Source;
use quinn::Connection;
use suite::path_probe::{PROBE_OCTETS, Probe, ProbeKey};
use tunnel::PeerId;
use wire::Instant;

use crate::paths::{Meter, keys_of};
use crate::probes::ProbedPath;
use crate::random;
use crate::shared::Shared;
use crate::status::{RoundTrips, canonical};

/// Number of the one way, among those of paths, which are below.
const NUMBER: u8 = 255;
/// Interval between two requests; at the beginning that of the meter, so that there are figures soon.
const INTERVAL: Duration = Duration::from_secs(1);
/// Requests of the beginning.
const SOON: u64 = 50;

/// The probes of a connection.
#[derive(Debug)]
pub(super) struct RoundTripProbes {
    peer: PeerId,
    /// Of what goes.
    key: ProbeKey,
    meter: Meter,
    asked: Option<Instant>,
}

impl RoundTripProbes {
    /// Begins with a connection; `ours`: made by this site. `None` if it gives no keys.
    pub(super) fn begin(peer: PeerId, connection: &Connection, ours: bool, shared: &Shared) -> Option<Self> {
        let [inward, outward] = keys_of(connection, NUMBER, ours)?;
        let key = outward.clone();
        let path = ProbedPath { number: NUMBER, inward, outward, source: Source::default(), proved: false };
        shared.socket.probes().set(peer, [path].into_iter());
        Some(Self { peer, key, meter: Meter::default(), asked: None })
    }

    /// The socket is to know nothing of a peer's probes any more.
    pub(super) fn end(peer: PeerId, shared: &Shared) {
        shared.socket.probes().set(peer, [].into_iter());
    }

    /// Takes answers, and sends what is due. `at`: where the channel is.
    pub(super) fn turn(&mut self, now: Instant, at: SocketAddr, shared: &Shared) {
        for heard in shared.socket.probes().heard(self.peer).iter().filter(|heard| heard.probe.answer) {
            let Probe { seq, proved, .. } = heard.probe;
            self.meter.hear_answer(shared.moment(heard.at), heard.from, seq, proved);
        }
        if !self.is_due(now) {
            return;
        }
        self.asked = Some(now);
        for request in self.meter.requests(now, Some(canonical(at)), None) {
            let mut packet = [0; PROBE_OCTETS];
            let probe = Probe { answer: false, proved: false, seq: request.seq };
            self.key.seal(probe, random::number() as u8, &mut packet);
            shared.socket.send_probe(Place { to: request.to, source: Source::default() }, &packet);
        }
    }

    fn is_due(&self, now: Instant) -> bool {
        let rests = self.meter.last_seq() >= SOON;
        !rests || self.asked.is_none_or(|asked| now.since(asked) >= INTERVAL)
    }

    /// Those of the last probes.
    pub(super) fn round_trips(&self, now: Instant) -> Option<RoundTrips> {
        self.meter.round_trips(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Probes that it would send, from moment to moment.
    #[test]
    fn probes_come_five_times_a_second_and_after_ten_seconds_once() {
        let mut probes = RoundTripProbes {
            peer: PeerId(1),
            key: ProbeKey::new(&[7; 40]),
            meter: Meter::default(),
            asked: None,
        };
        let at: SocketAddr = "192.0.2.1:7".parse().expect("an address");
        let mut in_second = [0; 20];
        for millisecond in 0..20_000 {
            let now = Instant::after_start(Duration::from_millis(millisecond));
            if probes.is_due(now) {
                let sent = probes.meter.requests(now, Some(at), None);
                in_second[millisecond as usize / 1000] += sent.len();
                if !sent.is_empty() {
                    probes.asked = Some(now);
                }
            }
        }
        assert_eq!(in_second[..10], [5; 10]);
        assert_eq!(in_second[11..], [1; 9]);
    }
}
