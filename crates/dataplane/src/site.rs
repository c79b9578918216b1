//! A site: a LAN port and UDP ports, with the tunnel's forwarding half between them, beside links in a worker.
//!
//! ```text
//!   LAN port ◀──▶ Site { Forwarding } ◀──▶ UDP ports       one worker's thread
//!                      ▲     │
//!        commands, EAPOL    events, EAPOL, QUIC            mailboxes ([`mailbox`])
//!                      │     ▼
//!                     manager                               a thread of its own
//! ```
//!
//! The forwarding half lives as long as the site does; the LAN port comes and goes with its interface. Without one the
//! UDP ports go on: the management channel does not notice, and windows move on.
//!
//! A site that protects its LAN has a SecY between LAN port and forwarding half ([`secured`]).

mod copies;
mod counters;
mod datagrams;
mod endpoints;
mod entry;
pub mod handed_frames;
mod inward;
mod lan;
mod mailbox;
mod marking;
mod outward;
mod peers;
mod relay;
mod secured;
mod senders;
mod sending_worker;
mod snapshot;
mod standby;
mod turns;
mod uplink;
mod uplinks;
mod vlans;
mod wan;

use std::io;
use std::os::fd::RawFd;
use std::time;

use secy::{ExpressClasses, NextAction};
use tunnel::shaper::ShaperSettings;
use tunnel::{Command, Forwarding, LaneShare, Mode, Settings};
use wire::{EtherType, Instant};

use crate::link::Link;
use crate::worker::Polling;
use endpoints::{Endpoints, WanPort};
use lan::LanPort;
use netdev::burst::{BURST_FRAMES, Burst};
use netdev::scheduling::Scheduling;
use outward::Outward;
use relay::Relays;
use sending_worker::{SendingWorker, ToSending};
use standby::Standby;

pub use copies::Copies;
pub use counters::SitePathCounters;
pub use datagrams::{DATAGRAM_OCTETS, DatagramConsumer, DatagramProducer, Full, datagrams};
pub use endpoints::{PATHS, Place};
pub use lan::Lan;
pub use mailbox::{LanFrame, ManagerMailbox, PACKET_OCTETS, ToWorker, WorkerMailbox, pair as mailboxes};
pub use marking::Dscp;
pub use peers::PeerChange;
pub use relay::{RelayedDatagram, relay_address, relayed_peer};
pub use senders::{Admission, KNOWN as KNOWN_SENDERS, SenderId, Senders, sender_of};
pub use sending_worker::SENDING_WORKERS;
pub use snapshot::{SHOWN, SitePeerSnapshot, SiteSnapshot};
pub use standby::{StandbySettings, StandbySnapshot};
pub use turns::Turns;
pub use uplink::{ChannelOctets, UplinkSnapshot};
pub use uplinks::{UPLINKS, WayOut, WaysOut};
pub use vlans::{UNTAGGED, VLANS, VlanList, vlan_of};
pub use wan::{VXLAN_PORT, Wan};

/// Limit on commands of the manager that are carried out in a turn, and on events that leave.
const WORDS_A_TURN: usize = 64;

/// A tunnel gateway's frame path.
pub struct Site {
    forwarding: Forwarding,
    mailbox: WorkerMailbox,
    /// QUIC packets for the manager.
    datagrams: DatagramProducer,
    senders: Senders,
    wan: Wan,
    lan: LanPort,
    endpoints: Endpoints,
    relays: Relays,
    /// Of the LAN; empty between turns.
    arrived: Burst,
    outward: Outward,
    /// The other box of the LAN, if there is one.
    standby: Option<Box<Standby>>,
    /// A worker that sends too, if there is one.
    sending: Option<Box<SendingWorker>>,
    counters: SitePathCounters,
    /// Of the last turn.
    now: Instant,
    /// There are QUIC packets for the manager.
    wake: bool,
}

impl Site {
    /// A site without a LAN port. Its peers are nowhere until the manager says where, also those of plain mode. `dscp`
    /// says what goes on data packets.
    pub fn new(
        settings: Settings,
        wan: Wan,
        mailbox: WorkerMailbox,
        datagrams: DatagramProducer,
        dscp: Dscp,
    ) -> Self {
        Self::on_lane((settings, LaneShare::WHOLE), wan, mailbox, datagrams, dscp)
    }

    /// The same for a site that sends from [`SENDING_WORKERS`] workers, to peers in identifier mode alone. The thread of the further
    /// worker begins with [`Self::start_sending`]; until then its share of the frames waits.
    ///
    /// # Errors
    /// If a descriptor cannot be had.
    pub fn with_sending_worker(
        settings: Settings,
        wan: Wan,
        mailbox: WorkerMailbox,
        datagrams: DatagramProducer,
        dscp: Dscp,
    ) -> io::Result<Self> {
        let sender = wan.sender()?.ok_or_else(|| io::Error::other("no peer has a management channel"))?;
        let sending = SendingWorker::new(settings.clone(), sender)?;
        let share = LaneShare::new(0, SENDING_WORKERS).expect("invariant: there are two workers");
        let mut site = Self::on_lane((settings, share), wan, mailbox, datagrams, dscp);
        site.sending = Some(Box::new(sending));
        Ok(site)
    }

    fn on_lane(
        (settings, share): (Settings, LaneShare),
        wan: Wan,
        mailbox: WorkerMailbox,
        datagrams: DatagramProducer,
        dscp: Dscp,
    ) -> Self {
        let modes: Vec<Mode> = settings.peers.iter().map(|peer| peer.mode).collect();
        Self {
            relays: Relays::new(settings.limits.relayed_per_second, modes.len()),
            forwarding: Forwarding::on_lane(settings, share),
            mailbox,
            datagrams,
            senders: Senders::default(),
            wan,
            lan: LanPort::default(),
            endpoints: Endpoints::new(modes.iter().copied()),
            arrived: Burst::new(),
            outward: Outward::new(&modes, dscp),
            standby: None,
            sending: None,
            counters: SitePathCounters::default(),
            now: Instant::START,
            wake: false,
        }
    }

    /// Whether it sends from a further worker.
    pub const fn has_sending_worker(&self) -> bool {
        self.sending.is_some()
    }

    /// Starts the thread of its further worker, if it has one that does not run. It ends with the site, and a drop of the site waits for it.
    ///
    /// # Errors
    /// If it cannot be started, or not be scheduled so, or not run on `cpu` alone.
    pub fn start_sending(
        &mut self,
        name: String,
        polling: Polling,
        scheduling: Scheduling,
        cpu: Option<usize>,
    ) -> io::Result<()> {
        match &mut self.sending {
            Some(sending) => sending.start(name, polling, scheduling, cpu),
            None => Ok(()),
        }
    }

    /// Sends no faster than the uplink carries, express packets first: see [`tunnel::shaper`]. This is about packets that are of no
    /// uplink of their own ([`Self::shape_path`]).
    pub fn shape(&mut self, settings: ShaperSettings) {
        self.wan.uplinks.shape_rest(settings, self.forwarding.most_late(), self.mailbox.channel.clone());
    }

    /// The same for one more uplink, which paths have. Its number is the next one, from 1 on; which packets are its own is said later
    /// ([`ToWorker::WayOut`]). To be called before the first turn, at most [`UPLINKS`] times.
    pub fn shape_path(&mut self, settings: ShaperSettings) {
        self.wan.uplinks.shape_next(settings, self.forwarding.most_late(), self.mailbox.channel.clone());
    }

    /// Lets frames of these VLANs alone cross, both ways; of all without a list. Returns the list before.
    pub const fn set_vlans(&mut self, vlans: Option<Box<VlanList>>) -> Option<Box<VlanList>> {
        self.forwarding.hear_later(vlans.is_some());
        self.lan.set_vlans(vlans)
    }

    /// Takes frames of these classes for express, and no others: they go first at an uplink with a rate, and over all paths of a peer with
    /// [`Copies::Express`]. Without a SecY the site sees what is in front of a frame's SecTAG alone.
    pub const fn set_express_classes(&mut self, classes: ExpressClasses) {
        self.outward.marking.express = classes;
    }

    /// Carries cells' cyclic frames with this EtherType too: [`Forwarding::carry_cyclic`]. They are express if that is a class.
    pub const fn carry_cyclic(&mut self, ether_type: EtherType) {
        self.forwarding.carry_cyclic(ether_type);
    }

    /// Relays packets between peers: [`Forwarding::relay_for_peers`].
    pub const fn relay_for_peers(&mut self) {
        self.forwarding.relay_for_peers();
    }

    /// Gives the site a LAN port; the one before, if there was one, is returned.
    pub fn open(&mut self, lan: Box<Lan>) -> Option<Box<Lan>> {
        self.lan.open(lan)
    }

    /// Takes the LAN port away.
    pub fn close(&mut self) -> Option<Box<Lan>> {
        self.lan.close()
    }

    /// Puts a SecY between LAN and tunnel: `link`, whose plain port is the LAN's and whose protected one is a
    /// [`netdev::queue_port::QueuePort`]. Its ports come and go with the link.
    pub fn secure(&mut self, link: Box<Link>) {
        self.lan.secure(link);
    }

    /// Takes the SecY away, with its ports.
    pub fn take_link(&mut self) -> Option<Box<Link>> {
        self.lan.take_link()
    }

    /// The SecY of a site that protects its LAN.
    pub const fn link(&self) -> Option<&Link> {
        self.lan.link()
    }

    /// The same, for management between turns.
    pub const fn link_mut(&mut self) -> Option<&mut Link> {
        self.lan.link_mut()
    }

    /// One turn: what the manager said, at most one burst of the LAN and of each UDP port, and what there is to tell the
    /// manager. `now` is protocol time, and `read` the OS instant it was taken from. Returns how many frames, packets and
    /// words came, and the need of the SecY's transmit SA.
    pub fn turn(&mut self, now: Instant, read: time::Instant) -> (usize, NextAction) {
        self.now = now;
        if let Some(turns) = self.lan.turns() {
            turns.begin(now);
        }
        let mut received = self.handle_messages(now);
        // Before what comes now: nothing is overtaken.
        self.release(now);
        self.begin_turn(now, read);
        let marks = self.outward.marks(!self.wan.uplinks.is_empty(), self.endpoints.has_express_copies());
        let standby = self.standby.as_deref_mut();
        let (taken_in, next) = self.lan.take_in(now, read, marks, standby, &mut self.counters);
        self.beat(taken_in < BURST_FRAMES, marks);
        let began = self.clock_for_programs();
        let outward = self.outward(now);
        self.tell_programs(turns::Place::Lan, outward, began);
        received += taken_in + outward;
        // A SecY may make several bursts of one; what it made goes in this turn, and its queue is soon empty.
        while self.lan.link().is_some() && self.outward(now) > 0 {}
        self.wan.depart(now);
        for wan_port in WanPort::ALL {
            self.close_gate();
            let began = self.clock_for_programs();
            let inward = self.inward(now, wan_port);
            match wan_port {
                WanPort::Data => self.tell_programs(turns::Place::DataPort, inward, began),
                WanPort::Plain => self.tell_programs(turns::Place::PlainPort, inward, began),
                WanPort::Header => {}
            }
            received += inward;
        }
        received += self.eapol_inward(now) + self.relay_datagrams(now);
        self.wan.depart(now);
        self.close_gate();
        self.lan.flush(now, &mut self.forwarding, &mut self.counters);
        self.forwarding.handle_timeout(now);
        self.tell();
        self.lan.housekeep();
        (received, next)
    }

    /// The present, if programs in the kernel ask what packets cost.
    fn clock_for_programs(&mut self) -> Option<time::Instant> {
        self.lan.turns().map(|_| time::Instant::now())
    }

    /// Tells programs in the kernel if nothing came, or what it cost.
    fn tell_programs(&mut self, place: turns::Place, came: usize, began: Option<time::Instant>) {
        let Some((turns, began)) = self.lan.turns().zip(began) else { return };
        match came {
            0 => turns.find_none(place),
            _ => turns.spend(began.elapsed(), came),
        }
    }

    /// Does what the manager says; what voids or fills tables as a whole, once a turn: when many peers restart at once,
    /// frames of the others pass between.
    fn handle_messages(&mut self, now: Instant) -> usize {
        for heeded in 0..WORDS_A_TURN {
            if self.sending.as_ref().is_some_and(|sending| !sending.has_room()) {
                return heeded;
            }
            match self.mailbox.messages.receive() {
                Some(ToWorker::Tunnel(command)) => {
                    let whole = command.rebuilds_tables();
                    if let Some(sending) = self.sending.as_mut().filter(|_| command.goes_to_all_lanes()) {
                        sending.tell(ToSending::Tunnel(command.clone()));
                    }
                    if let (Command::InstallTransmit { .. }, Some(standby)) = (&command, &mut self.standby) {
                        standby.announce_again(now);
                    }
                    self.forwarding.handle_command(now, command);
                    if whole {
                        return heeded + 1;
                    }
                }
                Some(ToWorker::Endpoint { peer, address }) => {
                    self.endpoints.set(peer, address);
                    if let Some(sending) = &mut self.sending {
                        sending.tell(ToSending::Endpoint(peer, address));
                    }
                }
                Some(ToWorker::Path { peer, number, place }) => self.endpoints.set_path(peer, number, place),
                Some(ToWorker::Prefer { peer, number }) => self.endpoints.prefer(peer, number),
                Some(ToWorker::WayOut { uplink, way }) => self.wan.uplinks.set_way(uplink, way),
                Some(ToWorker::Copies { peer, copies }) => self.endpoints.set_copies(peer, copies),
                Some(ToWorker::Relay { peer, name, hub }) => self.relays.set(peer, name, hub),
                None => return heeded,
            }
        }
        WORDS_A_TURN
    }

    /// Tells the manager what there is, as far as there is room: the rest is told in later turns.
    fn tell(&mut self) {
        for _ in 0..WORDS_A_TURN {
            if !self.mailbox.messages.has_room() {
                break;
            }
            let of_sending = || self.sending.as_mut()?.event();
            let Some(event) = self.forwarding.poll_event().or_else(of_sending) else { break };
            self.mailbox.messages.send(event);
        }
        if let Some(sending) = &mut self.sending {
            sending.wake();
        }
        if self.mailbox.take_wake_flag() | std::mem::take(&mut self.wake) {
            self.mailbox.wake();
        }
    }

    /// Moment at which the next turn is due even if nothing comes.
    pub fn due(&self) -> Option<Instant> {
        let standby = self.standby.as_ref().and_then(|standby| standby.due());
        let due = [self.forwarding.poll_timeout(), self.link().and_then(Link::due), self.wan.due(), standby];
        due.into_iter().flatten().min()
    }

    /// To be called when [`Self::bell`] was readable.
    pub fn woken(&self) {
        self.mailbox.woken();
    }

    /// Readable when the manager has something to say.
    pub fn bell(&self) -> RawFd {
        self.mailbox.descriptor()
    }

    /// Descriptors to poll for readability when there is nothing to do.
    pub fn poll_descriptors(&self) -> impl Iterator<Item = RawFd> {
        self.lan.descriptors().chain(self.wan.descriptors()).chain([self.bell()])
    }

    /// Its UDP ports.
    pub const fn wan(&self) -> &Wan {
        &self.wan
    }

    /// Number of peers since its start: their numbers are below it.
    pub const fn peers(&self) -> usize {
        self.forwarding.peers()
    }
}
