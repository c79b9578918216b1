//! A site in the kernel: the known flows of peers in identifier mode and in plain mode, sent and received by `bpf/site.bpf.c`, frame by frame
//! as `tunnel::Forwarding` does it.
//!
//! The programs decide nothing that lasts. User space says which flows they may send, what peers have announced, where stations are,
//! and on which lanes; those lanes are the kernel's alone, in both directions. What the programs do not know is user space's: outward
//! by the AF_XDP socket of the queue, inward by the host's stack. Peers, lanes, paths, stations and the flows of each direction are numbers
//! that the caller gives, each below its room. One that is given up is another's only after a rest: a program may be at work with it.
//!
//! Work for a frame: outward a look-up in a hash map and one SipHash; inward a look-up in a table of identifiers, a lock, a look-up in
//! a hash map, and one SipHash for the identifier that enters the window. In plain mode two look-ups in hash maps, and no SipHash.

mod flow_path;
mod lanes;
mod layout;
mod report;
mod settings;
mod strangers;
mod udp_path;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use aya::maps::{Array, DevMap, HashMap, XskMap};
use aya::programs::xdp::XdpLinkId;
use netdev::shared::SharedWords;
use tunnel::{Location, PeerCounters};
use wire::MacAddr;
use wire::tunnel::{Flow, FlowIndex};

use crate::error::XdpError;
use crate::programs::{Programs, Unclaimed, shared};
use crate::run::Ran;
pub use flow_path::FlowPath;
pub use report::{FlowUse, KernelTime, LaneReport};
pub use settings::{Room, Settings};
pub use strangers::{MOST_HERE, MOST_KNOWN, Stranger};
pub use udp_path::{UdpPath, Vxlan};

/// Object file that a pinned clang makes of `bpf/site.bpf.c`.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../bpf/site.bpf.o");
const PROGRAMS: [&str; 3] = ["outward", "inward", "change"];
const LAN_PORT: u32 = 0;
/// Interfaces towards the network, at most.
const WAN_PORTS: u32 = 3;
/// Identifiers of all lanes, at most: 20 bits of one choose its bucket.
const IDENTIFIERS: u64 = 1 << 20;

/// The programs, loaded once, and their maps. Dropping it wipes the keys, detaches the programs and frees the maps.
pub struct Site {
    programs: Programs,
    settings: Settings,
    lanes: u32,
    watched: u32,
    /// By port.
    attached: BTreeMap<u32, XdpLinkId>,
}

impl Site {
    /// Loads the programs. This alone needs CAP_PERFMON. No frame passes yet.
    ///
    /// # Errors
    /// If the kernel does not take them.
    pub fn load(room: &Room, settings: &Settings, unclaimed: Unclaimed) -> Result<Self, XdpError> {
        Self::load_object(OBJECT, room, settings, unclaimed)
    }

    /// [`Site::load`] with programs that another compiler has made, or that are broken on purpose: for tests.
    ///
    /// # Errors
    /// As [`Site::load`]. Or if the window is no power of two from 64 to 2^20, or room for identifiers is not to be had.
    pub fn load_object(
        object: &[u8],
        room: &Room,
        settings: &Settings,
        unclaimed: Unclaimed,
    ) -> Result<Self, XdpError> {
        let Settings { window, .. } = *settings;
        if !window.is_power_of_two() || !(64..=1 << 20).contains(&window) || room.peers > 1 << 16 {
            return Err(XdpError::Malformed);
        }
        let identifiers = u64::from(room.lanes) * layout::places(window);
        // A bucket of four places for each, and half as many for those of watched lanes: one that finds no room is only a stranger's.
        let watched = u64::from(room.watched) * layout::places(window);
        let buckets = [identifiers, watched.div_ceil(2)].map(|places| places.next_power_of_two() as u32);
        if identifiers > IDENTIFIERS {
            return Err(XdpError::Lanes { wanted: room.lanes, most: IDENTIFIERS / layout::places(window) });
        }
        let rooms = [
            ("identifiers", buckets.iter().sum()),
            ("rings", (identifiers + watched) as u32),
            ("receive_lanes", room.lanes + room.watched),
            ("transmit_lanes", room.lanes),
            ("paths", room.paths),
            ("peers", room.peers),
            ("counters", room.peers),
            ("plain_peers", room.peers),
            ("flows", room.flows),
            ("outward_flows", room.flows),
            ("announced", room.flows),
            ("announced_flows", room.flows),
            ("stations", room.stations),
            ("addresses", room.stations),
            ("here", MOST_HERE),
            ("known", MOST_KNOWN),
            ("known_parts", MOST_KNOWN),
        ];
        let mut programs = Programs::load(object, &PROGRAMS, &rooms)?;
        let mut common = Array::<_, [u8; layout::SETTINGS]>::try_from(programs.map("settings")?)?;
        common.set(0, layout::settings(settings, buckets, unclaimed.verdict()), 0)?;
        let turns = programs.map("turns")?;
        Array::<_, [u8; layout::TURNS]>::try_from(turns)?.set(0, layout::no_turns(), 0)?;
        Ok(Self {
            programs,
            settings: settings.clone(),
            lanes: room.lanes,
            watched: room.watched,
            attached: BTreeMap::new(),
        })
    }

    /// Sets the octets of the longest frame that the LAN takes.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn set_lan_frame(&mut self, lan_frame: usize) -> Result<(), XdpError> {
        let mut common = Array::<_, [u8; layout::SETTINGS]>::try_from(self.programs.map("settings")?)?;
        let mut settings = common.get(&0, 0)?;
        layout::set_lan_frame(&mut settings, lan_frame);
        self.settings.lan_frame = lan_frame;
        Ok(common.set(0, settings, 0)?)
    }

    /// Sets the UDP port of plain mode. Until then there is none.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn set_plain_port(&mut self, port: u16) -> Result<(), XdpError> {
        let mut common = Array::<_, [u8; layout::SETTINGS]>::try_from(self.programs.map("settings")?)?;
        let mut settings = common.get(&0, 0)?;
        layout::set_plain_port(&mut settings, port);
        Ok(common.set(0, settings, 0)?)
    }

    /// Says whose packets in plain mode come from an address. Its path says the rest.
    ///
    /// # Errors
    /// If there is no room.
    pub fn set_plain_peer(&mut self, address: IpAddr, peer: u32) -> Result<(), XdpError> {
        let peers = HashMap::<_, [u8; layout::ADDRESS], u32>::try_from(self.programs.map("plain_peers")?);
        Ok(peers?.insert(layout::ip_address(address), peer, 0)?)
    }

    /// Returns the peer whose packets in plain mode come from an address.
    #[must_use]
    pub fn plain_peer(&self, address: IpAddr) -> Option<u32> {
        let peers =
            HashMap::<_, [u8; layout::ADDRESS], u32>::try_from(self.programs.map_ref("plain_peers").ok()?);
        peers.ok()?.get(&layout::ip_address(address), 0).ok()
    }

    /// Forgets whose packets come from an address.
    ///
    /// # Errors
    /// If nobody's do.
    pub fn remove_plain_peer(&mut self, address: IpAddr) -> Result<(), XdpError> {
        let peers = HashMap::<_, [u8; layout::ADDRESS], u32>::try_from(self.programs.map("plain_peers")?);
        Ok(peers?.remove(&layout::ip_address(address))?)
    }

    /// Says where rebuilt frames leave.
    ///
    /// # Errors
    /// If there is no such interface.
    pub fn set_lan(&mut self, interface: u32) -> Result<(), XdpError> {
        Ok(DevMap::try_from(self.programs.map("ports")?)?.set(LAN_PORT, interface, None, 0)?)
    }

    /// Says which interface a path's `port` is: 1 to 3.
    ///
    /// # Errors
    /// If there is no such interface.
    pub fn set_wan(&mut self, port: u32, interface: u32) -> Result<(), XdpError> {
        if !(1..=WAN_PORTS).contains(&port) {
            return Err(XdpError::Malformed);
        }
        Ok(DevMap::try_from(self.programs.map("ports")?)?.set(port, interface, None, 0)?)
    }

    /// Says which interface a port is, as [`Site::set_lan`] for 0 and [`Site::set_wan`] for others, and has its frames come to its
    /// program, in its driver: where no port of somebody else's stands. It ends with this.
    ///
    /// # Errors
    /// If the interface is gone, has a program already, or its driver takes none.
    pub fn attach(&mut self, port: u32, interface: u32) -> Result<(), XdpError> {
        let program = if port == LAN_PORT { "outward" } else { "inward" };
        if port == LAN_PORT {
            self.set_lan(interface)?
        } else {
            self.set_wan(port, interface)?
        }
        let link = self.programs.attach_one(program, interface)?;
        self.attached.insert(port, link);
        Ok(())
    }

    /// Takes a program away again that [`Self::attach`] put to work.
    pub fn detach(&mut self, port: u32) {
        if let Some(link) = self.attached.remove(&port) {
            self.programs.detach_one(if port == LAN_PORT { "outward" } else { "inward" }, link);
        }
    }

    /// Has the LAN's frames for user space that come to this receive queue go to a socket.
    ///
    /// # Errors
    /// If it is no AF_XDP socket of that queue.
    pub fn set_socket(&mut self, queue: u32, socket: impl AsRawFd) -> Result<(), XdpError> {
        Ok(XskMap::try_from(self.programs.map("sockets")?)?.set(queue, socket, 0)?)
    }

    /// Memory in which the worker tells how far it is: how many turns it has begun, the last one that found no frame of the LAN, the last
    /// one that found no packet at the data port, that of plain mode, the nanoseconds that a packet costs it, and the period of tokens. Until
    /// somebody writes it, user space is taken to be done with all.
    ///
    /// # Errors
    /// If the kernel does not share it.
    pub fn turns(&self) -> Result<SharedWords, XdpError> {
        shared(self.programs.map_ref("turns")?, layout::TURNS / size_of::<u64>())
    }

    /// The programs, for links of somebody else's: that of the LAN, and that of WAN interfaces.
    ///
    /// # Errors
    /// If a file descriptor cannot be had.
    pub fn programs(&mut self) -> Result<[OwnedFd; 2], XdpError> {
        self.programs.descriptors()
    }

    /// Writes a path that no peer has.
    ///
    /// # Errors
    /// If there is no such path, or it is none.
    pub fn set_path(&mut self, number: u32, path: &UdpPath) -> Result<(), XdpError> {
        if !path.is_possible() {
            return Err(XdpError::Malformed);
        }
        let paths = self.programs.map("paths")?;
        Ok(Array::<_, [u8; layout::PATH]>::try_from(paths)?.set(number, layout::path(path), 0)?)
    }

    /// Says on which lane and which path a peer is sent to. Both change at once.
    ///
    /// # Errors
    /// If there is no such peer.
    pub fn set_peer(&mut self, peer: u32, lane: u32, path: u32) -> Result<(), XdpError> {
        let peers = self.programs.map("peers")?;
        Ok(Array::<_, [u8; layout::PEER]>::try_from(peers)?.set(peer, layout::peer(lane, path), 0)?)
    }

    /// Sends a flow's frames to a peer, or sends them anew after one of them was user space's: once the worker is done with those before
    /// ([`Site::turns`]), from the flow's next pause on. `number` is the flow's own.
    ///
    /// # Errors
    /// If there is no room.
    pub fn add_flow(&mut self, number: u32, flow: &Flow, path: &FlowPath) -> Result<(), XdpError> {
        let turns = Array::<_, [u8; layout::TURNS]>::try_from(self.programs.map_ref("turns")?)?.get(&0, 0)?;
        let octets = layout::outward_flow(flow, path, self.now()?.0, layout::begun(&turns));
        let flows = self.programs.map("outward_flows")?;
        Array::<_, [u8; layout::OUTWARD_FLOW]>::try_from(flows)?.set(number, octets, 0)?;
        // Last: now the program finds it.
        let mut numbers = HashMap::<_, [u8; Flow::OCTETS], u32>::try_from(self.programs.map("flows")?)?;
        Ok(numbers.insert(flow.encode(), number, 0)?)
    }

    /// Leaves a flow's frames to user space.
    ///
    /// # Errors
    /// If it is not there.
    pub fn remove_flow(&mut self, flow: &Flow) -> Result<(), XdpError> {
        let mut numbers = HashMap::<_, [u8; Flow::OCTETS], u32>::try_from(self.programs.map("flows")?)?;
        Ok(numbers.remove(&flow.encode())?)
    }

    /// Use of a flow until now.
    ///
    /// # Errors
    /// If there is no such number.
    pub fn flow_use(&self, number: u32, now: KernelTime) -> Result<FlowUse, XdpError> {
        let flows = self.programs.map_ref("outward_flows")?;
        let octets = Array::<_, [u8; layout::OUTWARD_FLOW]>::try_from(flows)?.get(&number, 0)?;
        let (used, in_user_space) = layout::flow_use(&octets);
        Ok(FlowUse { idle: (used != 0).then(|| now.since(used)), in_user_space })
    }

    /// Delivers the frames of a flow that a peer has announced; `station` is its source address, and `number` its own.
    ///
    /// # Errors
    /// If there is no room.
    pub fn announce(
        &mut self,
        number: u32,
        (peer, index): (u32, FlowIndex),
        flow: &Flow,
        station: u32,
    ) -> Result<(), XdpError> {
        let key = layout::announced_key(peer, index);
        let flows = self.programs.map("announced_flows")?;
        let octets = layout::announced_flow(key, flow, station);
        Array::<_, [u8; layout::ANNOUNCED_FLOW]>::try_from(flows)?.set(number, octets, 0)?;
        let mut numbers = HashMap::<_, u32, u32>::try_from(self.programs.map("announced")?)?;
        Ok(numbers.insert(key, number, 0)?)
    }

    /// Forgets a flow that a peer has withdrawn.
    ///
    /// # Errors
    /// If it is not there.
    pub fn withdraw(&mut self, peer: u32, index: FlowIndex) -> Result<(), XdpError> {
        let mut numbers = HashMap::<_, u32, u32>::try_from(self.programs.map("announced")?)?;
        Ok(numbers.remove(&layout::announced_key(peer, index))?)
    }

    /// Has a station, whose number and address [`Site::set_station`] has told, be heard on this LAN in frames of unknown flows too.
    ///
    /// # Errors
    /// If there is no room.
    pub fn set_address(&mut self, address: MacAddr, number: u32) -> Result<(), XdpError> {
        let addresses = HashMap::<_, u64, u32>::try_from(self.programs.map("addresses")?);
        Ok(addresses?.insert(layout::address(address), number, 0)?)
    }

    /// Forgets an address.
    ///
    /// # Errors
    /// If it is not there.
    pub fn remove_address(&mut self, address: MacAddr) -> Result<(), XdpError> {
        let addresses = HashMap::<_, u64, u32>::try_from(self.programs.map("addresses")?);
        Ok(addresses?.remove(&layout::address(address))?)
    }

    /// Says which station a number is, where it is and that it was heard there now, or that nobody knows where.
    ///
    /// # Errors
    /// If there is no such number.
    pub fn set_station(
        &mut self,
        number: u32,
        address: MacAddr,
        location: Option<Location>,
    ) -> Result<(), XdpError> {
        let octets = layout::station(address, location, self.now()?.0);
        let stations = self.programs.map("stations")?;
        Ok(Array::<_, [u8; layout::STATION]>::try_from(stations)?.set(number, octets, 0)?)
    }

    /// Returns the place of a station, as frames have told since, and the time since it was heard there.
    ///
    /// # Errors
    /// If there is no such number.
    pub fn station(&self, number: u32, now: KernelTime) -> Result<(Option<Location>, Duration), XdpError> {
        let stations = self.programs.map_ref("stations")?;
        let octets = Array::<_, [u8; layout::STATION]>::try_from(stations)?.get(&number, 0)?;
        let (location, heard) = layout::parse_station(&octets);
        Ok((location, now.since(heard)))
    }

    fn command(&self, command: &[u8]) -> Result<[u8; layout::COMMAND], XdpError> {
        self.programs.ask("change", command)
    }

    /// The kernel's clock. It costs a run of a program: who looks at many flows or stations reads it once.
    ///
    /// # Errors
    /// If the kernel does not run it.
    pub fn now(&self) -> Result<KernelTime, XdpError> {
        // A command that changes nothing, for a lane that there always is.
        let now = layout::now(&self.command(layout::clear(0, u32::MAX / 2).octets())?);
        Ok(KernelTime(now))
    }

    /// Counters of a peer on all CPUs together, and how often stations moved behind it.
    ///
    /// # Errors
    /// If there is no such peer.
    pub fn counters(&self, peer: u32) -> Result<(PeerCounters, u64), XdpError> {
        Ok(layout::counters(self.programs.sum("counters", peer)?))
    }

    /// Sets the counters of a peer back: its number is another's from now on.
    ///
    /// # Errors
    /// If there is no such peer.
    pub fn clear_counters(&mut self, peer: u32) -> Result<(), XdpError> {
        self.programs.set_all("counters", peer, [0; layout::COUNTERS])
    }

    /// Number of lanes in each direction.
    pub const fn lanes(&self) -> u32 {
        self.lanes
    }

    /// Has a frame of the LAN go through the program as if it had come, `repeat` times: for tests and benches. It takes a seq, and is
    /// counted. At least 14 octets.
    ///
    /// # Errors
    /// If the kernel does not run it.
    pub fn run_outward(&self, frame: &[u8], repeat: u32) -> Result<Ran, XdpError> {
        self.programs.run_frame("outward", frame, repeat)
    }

    /// The same for a packet of the network, headers included.
    ///
    /// # Errors
    /// If the kernel does not run it.
    pub fn run_inward(&self, frame: &[u8], repeat: u32) -> Result<Ran, XdpError> {
        self.programs.run_frame("inward", frame, repeat)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // The maps live on with programs that somebody else has. Lanes of which one cannot be wiped are no reason to leave others.
        for lane in 0..self.lanes {
            let _ = self.close_transmit(lane);
        }
        for lane in 0..self.lanes + self.watched {
            let _ = self.shut_receive(lane);
        }
    }
}

impl std::fmt::Debug for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Site").field("settings", &self.settings).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
