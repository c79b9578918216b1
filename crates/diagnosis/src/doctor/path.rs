//! The protected port of a link, an examination, and real time.

use std::fmt;
use std::time::{Duration, Instant};

use dataplane::open::{OpenError, open_observer};
use netdev::af_packet::AfPacket;
use netdev::burst::Burst;
use netdev::pool::Pool;
use netdev::port::Port;
use suite::CipherSuite;
use wire::{MacAddr, Sci};

use super::exam::{Exam, Outcome, Party, Peers, Setup};
use super::frame::Status;
use super::keys::MacKey;
use super::machine::{Machine, Misplaced, Recogniser};
use super::{Finding, Options};
use config::check::Mtus;
use config::{Keys, Link, Site, StaticSa, StaticSas};

/// Longest pause between two looks at the port.
const LOOK: Duration = Duration::from_millis(1);
/// Time a peer may take to answer where the path leads into a site of this very doctor.
const ITSELF: Duration = Duration::from_secs(10);
/// Interval between progress lines.
const PROGRESS: Duration = Duration::from_secs(5);

/// Result of an examination.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) outcome: Outcome,
    /// The own SCI.
    pub(super) own: Sci,
    /// Frames that this box itself lost while it looked.
    pub(super) lost_here: u64,
    /// Frames of the machine whose checksum the kernel says is left to hardware.
    pub(super) unfilled: u64,
    /// The first frame at the plain port that belongs on the protected side.
    pub(super) misplaced: Option<Misplaced>,
}

/// Examines the path of a link until both ends are through, or nobody answers. The port is closed at the end, and the
/// interface as it was.
pub(super) fn examine(
    link: &Link,
    sites: &[Site],
    mtus: Mtus,
    options: &Options,
    tell: &(dyn Fn(&dyn fmt::Display) + Sync),
) -> Result<Seen, Finding> {
    let refused = |error: OpenError| Finding::problem("path", format!("cannot be tested: {error}"));
    let (mut pool, mut port) = open_observer(&link.protected).map_err(refused)?;
    let setup = setup(link, mtus, options).map_err(|error| {
        Finding::problem(
            "path",
            format!("cannot be tested: the system gives no random numbers: {error}; try again"),
        )
    })?;
    let own = setup.own.sci;
    let mut lans = OwnLans::open(sites, setup.mac);
    let recogniser = Recogniser::new(link, setup.peers.clone(), own, setup.mac);
    let mut machine = Machine::open(&link.plain, recogniser);
    let start = Instant::now();
    let (mut received, mut out) = (Burst::new(), Burst::new());
    let mut exam = Exam::new(setup, Duration::ZERO);
    let mut progress = Progress { next: Duration::ZERO, last: "" };
    loop {
        let now = start.elapsed();
        port.receive(&mut pool, &mut received);
        let busy = received.is_full();
        for slot in received.drain() {
            exam.handle_frame(now, pool.frame(&slot));
            pool.give(slot);
        }
        while !out.is_full()
            && let Some(frame) = exam.poll_transmit(now)
        {
            let Some(mut slot) = pool.take() else { break };
            // A frame that does not fit a chunk fits no frame of the interface either.
            if pool.append(&mut slot, &frame) {
                out.push(slot).expect("invariant: there is room");
            } else {
                pool.give(slot);
            }
        }
        port.transmit(&mut pool, &mut out);
        if let Some(outcome) = exam.poll_outcome(now) {
            let counters = port.counters();
            let lost_here = counters.rx_kernel_dropped + counters.rx_no_chunk + counters.rx_super_frames;
            let unfilled = machine.as_mut().map_or(0, Machine::unfilled);
            let misplaced = machine.and_then(|machine| machine.misplaced());
            return Ok(Seen { outcome, own, lost_here, unfilled, misplaced });
        }
        if !exam.is_met()
            && let Some(site) = lans.hear(now)
        {
            return Err(into_itself(site));
        }
        if let Some(machine) = &mut machine {
            machine.hear();
        }
        progress.tell(&link.name, now, &exam, options, tell);
        if !busy {
            std::thread::sleep(exam.poll_timeout().saturating_sub(start.elapsed()).min(LOOK));
        }
    }
}

/// The LANs of this configuration's sites, listened to: does the path lead into one?
///
/// A doctor's site forwards nothing, so no doctor beyond it can answer.
struct OwnLans<'s> {
    lans: Vec<(&'s str, Pool, AfPacket)>,
    mac: MacAddr,
    heard: Option<&'s str>,
}

impl<'s> OwnLans<'s> {
    /// Those that can be opened: what is wrong with the others is told where the site is examined.
    fn open(sites: &'s [Site], mac: MacAddr) -> Self {
        let open = |site: &'s Site| {
            let (pool, port) = open_observer(&site.lan).ok()?;
            Some((site.name.as_str(), pool, port))
        };
        Self { lans: sites.iter().filter_map(open).collect(), mac, heard: None }
    }

    /// The site whose LAN hears this doctor, if nobody has answered for a while: a peer in that LAN itself would have.
    fn hear(&mut self, now: Duration) -> Option<&'s str> {
        let mut burst = Burst::new();
        for (name, pool, port) in &mut self.lans {
            port.receive(pool, &mut burst);
            for slot in burst.drain() {
                if pool.frame(&slot).get(6..12) == Some(&self.mac.0) {
                    self.heard = Some(name);
                }
                pool.give(slot);
            }
        }
        self.heard.filter(|_| now >= ITSELF)
    }
}

fn into_itself(site: &str) -> Finding {
    Finding::note(
        "path",
        format!(
            "leads into site {site:?} of this box, which carries nothing during the test, and nobody in its LAN answered. If the peers are beyond the site, start the gateways at both ends: doctor then reads their counters. If they are in the LAN, start doctor there first"
        ),
    )
}

struct Progress {
    next: Duration,
    last: &'static str,
}

impl Progress {
    fn tell(
        &mut self,
        link: &str,
        now: Duration,
        exam: &Exam,
        options: &Options,
        tell: &(dyn Fn(&dyn fmt::Display) + Sync),
    ) {
        let phase = exam.phase();
        if now < self.next && phase == self.last {
            return;
        }
        (self.next, self.last) = (now + PROGRESS, phase);
        match options.patience {
            Some(patience) if !exam.is_met() => {
                let left = patience.saturating_sub(now).as_secs();
                tell(&format_args!("link {link}: {phase}: start doctor there within {left} s"));
            }
            _ => tell(&format_args!("link {link}: {phase}")),
        }
    }
}

fn setup(link: &Link, mtus: Mtus, options: &Options) -> Result<Setup, getrandom::Error> {
    let mut session = [0; 8];
    getrandom::fill(&mut session)?;
    let mac = MacAddr(interface_mac(&link.protected));
    let (own, peers) = match &link.keys {
        Keys::Static(sas) => of_static_keys(sas),
        Keys::Agreed(mka) => {
            let sci = mka.sci_on(mac);
            // As the gateway does: it speaks under all of them, and prefers the first.
            let keys = mka.caks().map(|cak| MacKey::derive(cak.octets(), sci)).collect();
            (Party { sci, keys }, Peers::Group(mka.caks().cloned().collect()))
        }
        Keys::None => {
            let sci = Sci::new(mac, Sci::PORT_END_STATION);
            let keys: Vec<_> = link.cell.iter().map(|cell| cell.master_key.as_cak()).collect();
            let own = keys.iter().map(|key| MacKey::derive(key.octets(), sci)).collect();
            (Party { sci, keys: own }, Peers::Group(keys))
        }
    };
    let octets = |mtu: usize| u16::try_from(mtu).unwrap_or(u16::MAX);
    Ok(Setup {
        own,
        peers,
        mac,
        // Never 0, which means unknown.
        session: u64::from_be_bytes(session) | 1,
        mtu: octets(mtus.protected),
        probes: options.probes,
        pause: Duration::from_secs(1) / options.rate.max(1),
        patience: options.patience.unwrap_or_default(),
        facts: facts(link, mtus),
    })
}

fn of_static_keys(sas: &StaticSas) -> (Party, Peers) {
    let own = Party { sci: sas.transmit.sci, keys: vec![mac_key(&sas.transmit)] };
    let mut peers: Vec<Party> = Vec::new();
    for sa in &sas.receive {
        match peers.iter_mut().find(|peer| peer.sci == sa.sci) {
            Some(peer) => peer.keys.push(mac_key(sa)),
            None => peers.push(Party { sci: sa.sci, keys: vec![mac_key(sa)] }),
        }
    }
    (own, Peers::Known(peers))
}

fn mac_key(sa: &StaticSa) -> MacKey {
    MacKey::derive(sa.key.octets(), sa.sci)
}

/// Zeros for an interface that has just vanished: sending will tell.
fn interface_mac(name: &str) -> [u8; 6] {
    netdev::interface::InterfaceInfo::of(name).map(|info| info.mac).unwrap_or_default()
}

/// Bits of fragments and of shared frames.
pub(super) const DIVIDES: u8 = 3;
/// Bit of express SCs among those of fragments.
pub(super) const EXPRESS: u8 = 4;
/// Bit of padding among those of fragments.
pub(super) const PADS: u8 = 8;

/// Settings that both ends must share, for the peer to compare.
pub(super) fn facts(link: &Link, mtus: Mtus) -> Status {
    let octets = |mtu: usize| u16::try_from(mtu).unwrap_or(u16::MAX);
    let fragmentation =
        link.fragmentation.map_or(0, |how| u8::from(how.fragment) | u8::from(how.concatenate) << 1)
            | if link.express { EXPRESS } else { 0 }
            | if link.padding().is_none() { 0 } else { PADS };
    Status {
        fragmentation,
        // Zeros: the key server chooses.
        suite: link.suite().map_or([0; 8], CipherSuite::identifier),
        plain_mtu: octets(mtus.plain),
        protected_mtu: octets(mtus.protected),
        ..Status::default()
    }
}
