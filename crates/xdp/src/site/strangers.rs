//! Strangers' packets for user space: which the programs bound, and how many they have dropped (`bpf/strangers.h`).

use std::net::{IpAddr, SocketAddr};

use aya::maps::{Array, HashMap};
use suite::tunnel::LaneKey;
use wire::EtherType;

use super::Site;
use super::layout;
use crate::error::XdpError;

/// Addresses of this box at which strangers' packets are bounded, at most.
pub const MOST_HERE: u32 = 1024;
/// Addresses of peers that the programs know, at most.
pub const MOST_KNOWN: u32 = 1024;

/// A kind of strangers' packets (`enum stranger`). Each has a part of the worker's time for itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stranger {
    /// To the data port, with an identifier that no open or watched lane has, or too short for one.
    UnknownIdentifier,
    /// QUIC with a long header, by which connections begin.
    LongHeader,
    /// QUIC with a short header: of connections that are up, if it is any.
    ShortHeader,
    /// To the port of plain mode, from an address that is no peer's.
    UnknownAddress,
    /// Frames of the LAN of a kind that sites do not carry.
    NotCarried,
}

impl Stranger {
    /// All of them, in the order of the program's.
    pub const ALL: [Self; layout::STRANGERS] = [
        Self::UnknownIdentifier,
        Self::LongHeader,
        Self::ShortHeader,
        Self::UnknownAddress,
        Self::NotCarried,
    ];
}

impl Site {
    /// Bounds packets of these kinds that come to an address of this box, as soon as the worker tells what a packet costs it
    /// ([`Site::turns`]), and no others. Until this is said, all of them go to user space.
    ///
    /// # Errors
    /// If there is no room for more addresses: [`MOST_HERE`].
    pub fn bound_strangers(&mut self, address: IpAddr, kinds: &[Stranger]) -> Result<(), XdpError> {
        self.set_here(address, kinds, 0)
    }

    /// The same for an address where the socket of the data port receives. Packets that the program opens go to the host for such an address
    /// alone: for another one, the host would answer with what they hold, or send it on.
    ///
    /// # Errors
    /// As [`Site::bound_strangers`].
    pub fn receive_at(&mut self, address: IpAddr, kinds: &[Stranger]) -> Result<(), XdpError> {
        self.set_here(address, kinds, layout::RECEIVES)
    }

    fn set_here(&mut self, address: IpAddr, kinds: &[Stranger], receives: u32) -> Result<(), XdpError> {
        let bits = kinds.iter().fold(receives, |bits, kind| bits | 1_u32 << *kind as u32);
        let here = HashMap::<_, [u8; layout::ADDRESS], u32>::try_from(self.programs.map("here")?);
        Ok(here?.insert(layout::ip_address(address), bits, 0)?)
    }

    /// Bounds nothing any more that comes to an address, and opens nothing there.
    ///
    /// # Errors
    /// If nobody had said anything of it.
    pub fn free_strangers(&mut self, address: IpAddr) -> Result<(), XdpError> {
        let here = HashMap::<_, [u8; layout::ADDRESS], u32>::try_from(self.programs.map("here")?);
        Ok(here?.remove(&layout::ip_address(address))?)
    }

    /// Sets the number of known addresses ([`Site::know`]): each has a part of that sixteenth of the worker's time which is for all of them.
    /// To be raised before an address is known, and lowered after one is forgotten.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn share_among(&mut self, knowns: u32) -> Result<(), XdpError> {
        let mut common = Array::<_, [u8; layout::SETTINGS]>::try_from(self.programs.map("settings")?)?;
        let mut settings = common.get(&0, 0)?;
        layout::set_knowns(&mut settings, knowns);
        Ok(common.set(0, settings, 0)?)
    }

    /// Says that a connected peer sends from here. Its packets of QUIC and probes have a part of their own, which this number below
    /// [`MOST_KNOWN`] stands for. `any_identifier`: identifiers from there are not bounded, since not all lanes are watched on which the
    /// peer sends.
    ///
    /// # Errors
    /// If there is no room for more addresses.
    pub fn know(&mut self, number: u32, from: SocketAddr, any_identifier: bool) -> Result<(), XdpError> {
        let known = HashMap::<_, [u8; layout::SOURCE], u32>::try_from(self.programs.map("known")?);
        Ok(known?.insert(layout::source(from), layout::known(number, any_identifier), 0)?)
    }

    /// Takes packets from an address for strangers' again.
    ///
    /// # Errors
    /// If it was not known.
    pub fn forget_known(&mut self, from: SocketAddr) -> Result<(), XdpError> {
        let known = HashMap::<_, [u8; layout::SOURCE], u32>::try_from(self.programs.map("known")?);
        Ok(known?.remove(&layout::source(from))?)
    }

    /// Says that the site carries frames with this EtherType too, of cells: they are no strangers'.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn carry_cyclic(&mut self, ether_type: Option<EtherType>) -> Result<(), XdpError> {
        let mut common = Array::<_, [u8; layout::SETTINGS]>::try_from(self.programs.map("settings")?)?;
        let mut settings = common.get(&0, 0)?;
        layout::set_cyclic(&mut settings, ether_type);
        Ok(common.set(0, settings, 0)?)
    }

    /// Opens a lane whose packets are user space's, so that the programs know them from strangers'. As with [`Site::open_receive`], it knows
    /// nothing before [`Site::fill`]; it is moved and closed as others are.
    ///
    /// # Errors
    /// If there is no such lane, or it is not closed.
    pub fn watch_receive(&mut self, lane: u32, key: &LaneKey) -> Result<(), XdpError> {
        self.command(layout::watch(lane, key).octets()).map(drop)
    }

    /// Numbers of dropped packets of each kind, on all CPUs together, in the order of [`Stranger::ALL`].
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub fn floods(&self) -> Result<[u64; layout::STRANGERS], XdpError> {
        let counted: [u64; layout::KINDS] = self.programs.sum("floods", 0)?;
        Ok(std::array::from_fn(|kind| counted[kind]))
    }

    /// Sets these counters back.
    ///
    /// # Errors
    /// If the kernel does not take it.
    pub fn clear_floods(&mut self) -> Result<(), XdpError> {
        self.programs.set_all("floods", 0, [0; layout::KINDS])
    }
}
