//! A site: a LAN port and UDP ports, with the tunnel's forwarding half between them, beside links in a worker.

mod datagrams;
mod ends;

pub use datagrams::{DATAGRAM_OCTETS, DatagramConsumer, DatagramProducer, Full};
pub use ends::{LanFrame, ManagerEnd, PACKET_OCTETS, SiteEnd, ToManager, ToWorker, ends};
