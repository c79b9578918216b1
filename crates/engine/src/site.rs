//! A site: a LAN port and UDP ports, with the tunnel's forwarding half between them, beside links in a worker.

mod ends;

pub use ends::{Datagram, LanFrame, ManagerEnd, PACKET_OCTETS, SiteEnd, ToManager, ToWorker, ends};
