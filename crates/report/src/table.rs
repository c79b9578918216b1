//! The one table of all counters: their names, their names in metrics, what they mean, and which of them count discards.
//!
//! The rows stand where the counters are declared ([`wire::counters!`]). Text, JSON, metrics, the status page and
//! `status --watch` look them up here by name.

use dataplane::cell::CellCounters;
use dataplane::fragmenter::FragmenterCounters;
use dataplane::pipeline::PipelineCounters;
use dataplane::site::SitePathCounters;
use fieldbus::handshake::HelloCounters;
use fieldbus::{ReceiveCounters, TransmitCounters};
use mka::KayCounters;
use netdev::port::PortCounters;
use netdev::udp::UdpCounters;
use secy::{ReceiveSaCounters, SecYCounters, TransmitSaCounters};
use sitelink::ChannelCounters;
use tunnel::shaper::UplinkCounters;
use tunnel::{PeerCounters, SessionCounters, SiteCounters};
use wire::Counter;

/// The one counter that nobody counts: it is a sum of others, so it is no discard of its own.
pub const OVERRUN: Counter = Counter {
    name: "InPktsOverrun",
    metric: "in_pkts_overrun",
    meaning: "Lost because the gateway was too slow: the sum of `RxKernelDropped`, `RxRingFull` and `RxNoChunk` of the protected port.",
    discard: false,
};

/// The parts of sites and cells that count for themselves. Unlike those of a link some of them use one name for two things,
/// such as `InPktsTooShort` of a site and of a peer: a row is found by group and name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Group {
    /// The LAN's port.
    Lan,
    /// A UDP port.
    Udp,
    /// Between the ports.
    Path,
    /// The uplink, if it has a rate.
    Uplink,
    /// MACsec frames and packets that are no peer's.
    Tunnel,
    /// The management channel.
    Channel,
    /// A peer's frames and packets.
    Peer,
    /// The session with a peer.
    Session,
    /// A cell's frames that are of no relation, and its HELLOs on their way.
    Cell,
    /// A cell's handshakes.
    Hello,
    /// A relation's frames from the station here.
    RelationTransmit,
    /// A relation's frames from the station behind the other gateway.
    RelationReceive,
}

impl Group {
    /// All of them, in the order of a report.
    pub const ALL: [Self; 12] = [
        Self::Lan,
        Self::Udp,
        Self::Path,
        Self::Uplink,
        Self::Tunnel,
        Self::Channel,
        Self::Peer,
        Self::Session,
        Self::Cell,
        Self::Hello,
        Self::RelationTransmit,
        Self::RelationReceive,
    ];

    /// Its rows.
    pub const fn table(self) -> &'static [Counter] {
        match self {
            Self::Lan => PortCounters::TABLE,
            Self::Udp => UdpCounters::TABLE,
            Self::Path => SitePathCounters::TABLE,
            Self::Uplink => UplinkCounters::TABLE,
            Self::Tunnel => SiteCounters::TABLE,
            Self::Channel => ChannelCounters::TABLE,
            Self::Peer => PeerCounters::TABLE,
            Self::Session => SessionCounters::TABLE,
            Self::Cell => CellCounters::TABLE,
            Self::Hello => HelloCounters::TABLE,
            Self::RelationTransmit => TransmitCounters::TABLE,
            Self::RelationReceive => ReceiveCounters::TABLE,
        }
    }

    /// Name of the counting part in metrics, and in the script of the status page.
    pub const fn object(self) -> &'static str {
        match self {
            Self::Lan => "site_lan",
            Self::Udp => "site_udp",
            Self::Path => "site_path",
            Self::Uplink => "site_uplink",
            Self::Tunnel => "site",
            Self::Channel => "site_channel",
            Self::Peer => "site_peer",
            Self::Session => "site_session",
            Self::Cell => "fieldbus",
            Self::Hello => "fieldbus_hello",
            Self::RelationTransmit => "fieldbus_transmit",
            Self::RelationReceive => "fieldbus_receive",
        }
    }

    /// The row of a counter of this group. None for what only another release counts.
    pub fn counter(self, name: &str) -> Option<&'static Counter> {
        self.table().iter().find(|row| row.name == name)
    }
}

/// All rows of links, in the order of a report: ports first.
pub fn counters() -> impl Iterator<Item = &'static Counter> {
    let tables = [
        PortCounters::TABLE,
        SecYCounters::TABLE,
        &[OVERRUN],
        PipelineCounters::TABLE,
        FragmenterCounters::TABLE,
        TransmitSaCounters::TABLE,
        ReceiveSaCounters::TABLE,
        KayCounters::TABLE,
    ];
    tables.into_iter().flatten()
}

/// The row of a link's counter, by its name in a report. None for what only another release counts.
pub fn counter(name: &str) -> Option<&'static Counter> {
    counters().find(|row| row.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_name_is_used_twice() {
        let (mut names, mut metrics) = (BTreeSet::new(), BTreeSet::new());
        for row in counters() {
            assert!(names.insert(row.name) && metrics.insert(row.metric), "{}", row.name);
            assert_eq!(counter(row.name), Some(row));
        }
        let mut families = BTreeSet::new();
        for group in Group::ALL {
            for row in group.table() {
                assert!(families.insert((group.object(), row.metric)), "{group:?} {}", row.name);
                assert_eq!(group.counter(row.name), Some(row));
            }
        }
        // site_X of the tunnel and X of another object must not meet, either.
        let whole: BTreeSet<_> =
            families.iter().map(|(object, metric)| format!("{object}_{metric}")).collect();
        assert_eq!(whole.len(), families.len());
    }

    /// `InPktsNoSAError` is `in_pkts_no_sa_error`: letters and digits are the same, and nothing else is there.
    #[test]
    fn metrics_are_the_names_in_snake_case() {
        for row in counters().chain(Group::ALL.into_iter().flat_map(Group::table)) {
            let letters: String = row.metric.chars().filter(|c| *c != '_').collect();
            assert_eq!(letters, row.name.to_ascii_lowercase());
            assert!(row.metric.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{}", row.metric);
            assert!(row.meaning.ends_with('.') && !row.meaning.contains('\n'), "{}", row.meaning);
        }
    }
}
