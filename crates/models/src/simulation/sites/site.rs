//! A site: its forwarding half, its sessions, and what its engine does between them.

use std::cell::Cell;
use std::collections::VecDeque;
use std::time::Duration;

use suite::tunnel::EpochSecret;
use testkit::Chance;
use tunnel::{
    Command, Event, Forwarding, FrameKinds, Generation, Instance, Limits, Message, Mode, Packet, PeerId,
    PeerSettings, Session, SessionSettings, SiteName, Stream,
};

use super::super::network::CALM;
use super::super::time::{instant, micros};

const LAN_FRAME: usize = 1532;
/// Octets of a packet's payload on a path, so that long frames take two; and of one that may be relayed.
const PATH_PAYLOAD: usize = 1200;
const RELAYED_PAYLOAD: usize = 1100;

thread_local! {
    /// Chance of the secrets of this thread's world: a session draws by a function without a state.
    static SECRETS: Cell<u64> = const { Cell::new(0) };
}

fn draw() -> EpochSecret {
    let mut chance = Chance::new(SECRETS.get());
    let octets = chance.octets();
    SECRETS.set(chance.draw());
    EpochSecret::new(&octets)
}

/// All secrets from here on follow from this number.
pub(super) fn seed_secrets(seed: u64) {
    SECRETS.set(seed);
}

/// The settings of all sites of a world.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) sites: usize,
    /// By the site that is not in the pair; with two sites, the third one.
    pub(super) modes: [Mode; 3],
    /// Sites 0 and 2 reach each other through site 1 alone.
    pub(super) is_relayed: bool,
    /// Sites expect packets twice, as over two paths.
    pub(super) expects_copies: bool,
    pub(super) window: u64,
    pub(super) epoch_life: Duration,
    pub(super) limits: Limits,
}

impl Plan {
    pub(super) fn new(chance: &mut Chance) -> Self {
        let sites = 2 + chance.below(2) as usize;
        let is_relayed = sites == 3 && chance.happens(300);
        let mut modes = [(); 3].map(|()| match chance.below(4) {
            0 => Mode::HeaderEncryption,
            _ => Mode::Identifier,
        });
        if is_relayed {
            // A relay takes packets for others in this mode alone.
            (modes[0], modes[2]) = (Mode::Identifier, Mode::Identifier);
        }
        let limits = Limits {
            flows: 64,
            stations: 64,
            flow_age: Duration::from_secs(chance.pick(&[3, 300])),
            station_age: Duration::from_secs(chance.pick(&[5, 300])),
            ..Limits::default()
        };
        Self {
            sites,
            modes,
            is_relayed,
            expects_copies: chance.happens(333),
            window: chance.pick(&[64, 256, 1024]),
            epoch_life: Duration::from_secs(chance.pick(&[2, 5, 3600])),
            limits,
        }
    }

    pub(super) fn mode(&self, site: usize, other: usize) -> Mode {
        self.modes[3 - site - other]
    }

    /// Another mode for a pair that may have each. The site that is not in it.
    pub(super) fn change(&mut self, chance: &mut Chance) -> usize {
        let out = match (self.sites, self.is_relayed) {
            (2, _) => 2,
            (_, true) => 1,
            _ => chance.below(3) as usize,
        };
        self.modes[out] = match self.modes[out] {
            Mode::Identifier => Mode::HeaderEncryption,
            _ => Mode::Identifier,
        };
        out
    }

    /// Whether packets of these two go through the third site.
    pub(super) const fn is_relayed(&self, site: usize, other: usize) -> bool {
        self.is_relayed && site + other == 2 && site != other
    }
}

/// The number that a site has for another one.
pub(super) fn peer(site: usize, other: usize) -> PeerId {
    PeerId(if other < site { other } else { other - 1 } as u16)
}

/// The site that has a number at another one.
pub(super) fn site_of(site: usize, peer: PeerId) -> usize {
    if peer.index() < site { peer.index() } else { peer.index() + 1 }
}

/// The name under which a site is known to a relay, and whose name that is.
pub(super) fn name(site: usize) -> SiteName {
    [site as u8 + 1; 20]
}

pub(super) fn named(name: SiteName) -> usize {
    usize::from(name[0]) - 1
}

/// Packets for a site: receiver, octets.
pub(super) type Packets = Vec<(usize, Vec<u8>)>;

/// One start of a site.
pub(super) struct Site {
    number: usize,
    /// As it was configured when it began.
    pub(super) plan: Plan,
    pub(super) forwarding: Forwarding,
    /// By peer.
    sessions: Vec<Session>,
    /// On their way between the halves: when they arrive.
    commands: VecDeque<(u64, Command)>,
    events: VecDeque<(u64, Event)>,
    lag: u64,
}

impl Site {
    pub(super) fn new(chance: &mut Chance, now: u64, plan: &Plan, number: usize) -> Self {
        let others: Vec<usize> = (0..plan.sites).filter(|other| *other != number).collect();
        let peer = |other: &usize| {
            let is_relayed = plan.is_relayed(number, *other);
            let path_payload = if is_relayed { RELAYED_PAYLOAD } else { PATH_PAYLOAD };
            PeerSettings { mode: plan.mode(number, *other), path_payload }
        };
        let mut forwarding = Forwarding::new(tunnel::Settings {
            peers: others.iter().map(peer).collect(),
            lan_frame: LAN_FRAME,
            limits: plan.limits,
            window: plan.window,
            table_seed: halved(chance.octets()),
        });
        if plan.is_relayed && number == 1 {
            forwarding.relay_for_peers();
        }
        for other in others.iter().filter(|_| plan.expects_copies) {
            let peer = self::peer(number, *other);
            forwarding.handle_command(instant(now), Command::ExpectCopies { peer });
        }
        let sessions = others.iter().map(|other| session(chance, now, plan, number, *other)).collect();
        let (commands, events) = (VecDeque::new(), VecDeque::new());
        let (plan, lag) = (plan.clone(), chance.pick(&[0, 1_000, 50_000]));
        Self { number, plan, forwarding, sessions, commands, events, lag }
    }

    /// The manager begins anew, and the forwarding half goes on.
    pub(super) fn restart_manager(&mut self, chance: &mut Chance, now: u64) {
        for at in 0..self.sessions.len() {
            let before: Generation = self.sessions[at].state().generation;
            let other = site_of(self.number, PeerId(at as u16));
            self.sessions[at] = session(chance, now, &self.plan, self.number, other);
            self.sessions[at].continue_after(before);
        }
    }

    pub(super) fn session(&mut self, other: usize) -> &mut Session {
        &mut self.sessions[peer(self.number, other).index()]
    }

    /// A message of another site.
    pub(super) fn hear(&mut self, now: u64, other: usize, octets: &[u8]) -> Result<(), String> {
        match Message::parse(octets) {
            Ok(Some(message)) => {
                let heard = self.session(other).handle_message(instant(now), message);
                heard.map_err(|fault| format!("site {other} is taken for a faulty one: {fault}"))
            }
            other => Err(format!("{other:?} from an honest peer")),
        }
    }

    /// The next message to another site: stream, octets.
    pub(super) fn say(&mut self, other: usize) -> Option<(usize, Vec<u8>)> {
        let (stream, message) = self.session(other).poll_message()?;
        Some((usize::from(stream == Stream::Announcements), message.encode().to_vec()))
    }

    pub(super) fn poll_timeout(&self) -> Option<u64> {
        let sessions = self.sessions.iter().filter_map(Session::poll_timeout);
        let timers = sessions.chain(self.forwarding.poll_timeout()).map(micros);
        let rings = [self.commands.front().map(|(at, _)| *at), self.events.front().map(|(at, _)| *at)];
        timers.chain(rings.into_iter().flatten()).min()
    }

    /// Does what is due, and carries what the halves have for each other. Returns frames that waited, as packets.
    pub(super) fn turn(&mut self, now: u64) -> Packets {
        let moment = instant(now);
        for session in &mut self.sessions {
            if session.poll_timeout().is_some_and(|due| due <= moment) {
                session.handle_timeout(moment);
            }
        }
        if self.forwarding.poll_timeout().is_some_and(|due| due <= moment) {
            self.forwarding.handle_timeout(moment);
        }
        let mut packets = Vec::new();
        // A worker is in time when there are no faults: frames wait for flows.
        let lag = if now < CALM { self.lag } else { self.lag.min(1_000) };
        loop {
            for session in &mut self.sessions {
                let commands = std::iter::from_fn(|| session.poll_command());
                self.commands.extend(commands.map(|command| (now + lag, command)));
            }
            let events = std::iter::from_fn(|| self.forwarding.poll_event());
            self.events.extend(events.map(|event| (now + lag, event)));
            let mut moved = false;
            while let Some((_, command)) = self.commands.pop_front_if(|(at, _)| *at <= now) {
                self.forwarding.handle_command(moment, command);
                while let Some(released) = self.forwarding.poll_released(moment) {
                    let to = site_of(self.number, released.peer);
                    packets
                        .extend(released.packets.iter().map(|packet| (to, octets(packet, released.frame))));
                }
                moved = true;
            }
            while let Some((_, event)) = self.events.pop_front_if(|(at, _)| *at <= now) {
                self.sessions[event.subject().0.index()].handle_event(moment, event);
                moved = true;
            }
            if !moved {
                return packets;
            }
        }
    }
}

/// The octets of a packet.
pub(super) fn octets(packet: &Packet, frame: &[u8]) -> Vec<u8> {
    [&packet.header[..], &frame[packet.body.clone()]].concat()
}

fn session(chance: &mut Chance, now: u64, plan: &Plan, number: usize, other: usize) -> Session {
    let relays = plan.is_relayed && number == 1;
    let settings = SessionSettings {
        peer: peer(number, other),
        instance: Instance(halved(chance.octets())),
        mode: plan.mode(number, other),
        lanes: 1,
        window: plan.window,
        frames: if relays { FrameKinds::ALWAYS.and(FrameKinds::TO_SITES) } else { FrameKinds::ALWAYS },
        epoch_life: plan.epoch_life,
        draw,
    };
    Session::new(settings, instant(now))
}

fn halved(octets: [u8; 32]) -> [u8; 16] {
    let mut half = [0; 16];
    half.copy_from_slice(&octets[..16]);
    half
}
