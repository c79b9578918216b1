//! A gateway: a KaY or static keys, its SecY, and what control does between them. Links have it, and sites that protect their LANs.

mod disk;
mod host;
mod static_keys;
mod upgrade;

use std::collections::VecDeque;
use std::time::Duration;

use mka::{Admission, Association, CakEntry, Event, Input, Kay, Report, Settings};
use pnstore::LeaseError;
use secy::{
    ConfidentialityOffset, Delivered, Frame, Incoming, NextAction, Outgoing, Protection, ReceiveSa,
    SduBuffer, SecY, TransmitSa, XpnBinding,
};
use suite::{CipherSuite, Key, Nonce, Sak, Salt};
use wire::{An, Instant, Ki, MacAddr, Mi, Pn, Sci, Ssci};

use super::judge::Used;
use super::time::instant;
use crate::kay::station::{cak, settings};
use crate::names::digest;
use disk::Disk;
pub(super) use host::Host;
use static_keys::StaticKeys;

const MTU: usize = 1532;
/// Octets around a frame, for headers and ICV.
const ROOM: usize = 64;
/// Bound of the numbers of links, and CAKs that each of them has for its changes.
const LINKS: u8 = 8;
const CAKS: u8 = 30;

/// A link's settings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) number: u8,
    pub(super) members: u8,
    pub(super) suite: CipherSuite,
    /// Keys are static, and no MKA is spoken.
    pub(super) is_static: bool,
    /// Time that a disk takes for a block of PNs.
    pub(super) disk_delay: Duration,
    pub(super) delay_protect: bool,
    pub(super) replay_window: u32,
    /// Steps of changes of the CAK: an even number of them leaves one CAK, an odd one the new CAK with the old one as fallback.
    pub(super) cak_steps: u8,
}

impl Link {
    /// Settings of a KaY.
    fn settings(&self, number: u8) -> Settings {
        settings(MacAddr([2, 0, 0, 0, self.number, number]), self.suite, self.delay_protect)
    }

    /// CAKs, the preferred one first.
    fn caks(&self) -> Vec<CakEntry> {
        let (old, is_under_way) = (self.cak_steps / 2, self.cak_steps % 2 == 1);
        let of = |count: u8| cak(self.number + LINKS * (count % CAKS));
        if is_under_way { vec![of(old + 1), of(old)] } else { vec![of(old)] }
    }
}

/// Source of a gateway's keys.
enum Keys {
    Agreed(Box<Kay>),
    Static(Box<StaticKeys>),
    /// A start was refused. It is tried again then; never, where its state cannot be trusted.
    Refused(Option<Instant>),
}

/// A SAK as this gateway has it.
struct Sas {
    /// Of static keys, which have none: that of nobody.
    ki: Ki,
    an: An,
    suite: CipherSuite,
    sak: Sak,
    xpn: Option<(Salt, Ssci)>,
    /// Digest of the key.
    key: u64,
    /// Peers that have a receive SA.
    receive: Vec<Admission>,
}

/// One start of a gateway.
pub(super) struct Gateway {
    pub(super) link: Link,
    pub(super) sci: Sci,
    number: u8,
    keys: Keys,
    disk: Disk,
    secy: SecY,
    saks: Vec<Sas>,
    scs: Vec<Sci>,
    reports: VecDeque<Report>,
    /// Polls until it is killed.
    lives: Option<u64>,
    /// Floors above all that was received are on disk.
    kept: bool,
}

impl Gateway {
    fn new(now: Instant, link: Link, number: u8, seed: &[u8; 32], disk: &Disk) -> Self {
        let sci = static_keys::sci(link.number, number);
        let secy = crate::simulation::strict_secy(MTU);
        let mut gateway = Self {
            link,
            sci,
            number,
            keys: Keys::Refused(Some(now)),
            disk: disk.clone(),
            secy: SecY::new(sci, secy),
            saks: vec![],
            scs: vec![],
            reports: VecDeque::new(),
            lives: None,
            kept: false,
        };
        if !link.is_static {
            let kay = Kay::new(now, link.settings(number), link.caks(), seed);
            gateway.keys = Keys::Agreed(Box::new(kay));
        }
        gateway
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        match &self.keys {
            Keys::Agreed(kay) => kay.poll_timeout(),
            Keys::Static(keys) => Some(keys.poll_timeout()),
            Keys::Refused(again) => *again,
        }
    }

    pub(super) fn handle_mkpdu(&mut self, now: Instant, frame: &[u8]) {
        if let Keys::Agreed(kay) = &mut self.keys {
            kay.handle_input(now, Input::Frame(frame));
        }
    }

    /// A wish for another SAK. With static keys: a restart in order.
    pub(super) fn rekey(&mut self, now: Instant) {
        match &mut self.keys {
            Keys::Agreed(kay) => drop(kay.handle_input(now, Input::Rekey)),
            Keys::Static(_) => self.stop(now),
            Keys::Refused(_) => {}
        }
    }

    /// Another configuration, of a link with key agreement.
    pub(super) fn reload(&mut self, now: Instant, link: Link) {
        self.link = link;
        if let Keys::Agreed(kay) = &mut self.keys {
            kay.change(now, link.settings(self.number), link.caks());
        }
    }

    /// It is killed after so many polls, or within so many operations on its disk.
    pub(super) fn kill_within(&mut self, count: u64) {
        if self.link.is_static { self.disk.kill_within(count) } else { self.lives = Some(count) }
    }

    pub(super) fn is_killed(&self) -> bool {
        self.lives == Some(0) || self.disk.has_killed()
    }

    /// Its state cannot be trusted, so it never starts.
    pub(super) const fn is_refused(&self) -> bool {
        matches!(self.keys, Keys::Refused(None))
    }

    /// True once after floors above all that was received were written.
    pub(super) const fn take_kept(&mut self) -> bool {
        std::mem::replace(&mut self.kept, false)
    }

    /// Handles its timer. The next PNs are reported before.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> Result<(), String> {
        match &mut self.keys {
            Keys::Agreed(kay) => {
                for sa in self.secy.transmit_sas() {
                    let ki = self.saks.iter().find(|sas| sas.an == sa.an()).map(|sas| sas.ki);
                    let next_pn = sa.pns().next().map_or(u64::MAX, Pn::number);
                    if let Some(ki) = ki {
                        kay.handle_input(now, Input::Report(Report::NextPn { ki, next_pn }));
                    }
                }
                kay.handle_input(now, Input::Timeout);
            }
            Keys::Static(keys) => {
                if let Some(last) = keys.take_block(now, &self.link) {
                    self.secy.reserve_through(STATIC_AN, last).map_err(|error| format!("{error:?}"))?;
                }
                if keys.wants_floors(now) {
                    self.keep_floors(now);
                }
            }
            Keys::Refused(_) => self.start(now)?,
        }
        Ok(())
    }

    /// Starts with static keys. A disk that fails is asked again in a second.
    fn start(&mut self, now: Instant) -> Result<(), String> {
        let keys = match StaticKeys::start(&self.disk, &self.link, self.number, now) {
            Ok(keys) => keys,
            Err(LeaseError::Write { .. } | LeaseError::Read { .. }) => {
                self.keys = Keys::Refused(Some(now + Duration::from_secs(1)));
                return Ok(());
            }
            Err(_) => {
                self.keys = Keys::Refused(None);
                return Ok(());
            }
        };
        let (sak, salt) = static_keys::key(&self.link)?;
        let key = digest(format!("{:?}", sak.octets()));
        let ki = Ki { server: Mi([0; 12]), kn: 0 };
        let xpn = salt.map(|salt| (salt, Ssci(self.number.into())));
        self.saks.push(Sas { ki, an: STATIC_AN, suite: self.link.suite, sak, xpn, key, receive: vec![] });
        for (sci, ssci, name) in &keys.peers {
            self.admit(0, Admission { sci: *sci, ssci: Some(*ssci) }, keys.floor(*name))?;
        }
        self.install_transmit(0, keys.block.first, keys.block.last)?;
        self.secy.enable_transmit(STATIC_AN).map_err(|error| format!("{error:?}"))?;
        self.keys = Keys::Static(Box::new(keys));
        Ok(())
    }

    /// Writes the PN above the highest received one of each peer.
    fn keep_floors(&mut self, now: Instant) {
        let Keys::Static(keys) = &mut self.keys else { return };
        let above = |sci: Sci| {
            let sc = self.secy.receive_scs().find(|sc| sc.sci() == sci)?;
            Pn::new(sc.sas().next()?.window().highest().saturating_add(1))
        };
        let floors: Vec<_> =
            keys.peers.iter().filter_map(|(sci, _, name)| Some((*name, above(*sci)?))).collect();
        self.kept = keys.keep_floors(&floors, now);
    }

    /// Ends in order: writes floors, and gives unused PNs back. It is to start again.
    fn stop(&mut self, now: Instant) {
        self.keep_floors(now);
        let pns = self.secy.transmit_sas().next().map(|sa| (sa.pns().next(), sa.pns().reserved()));
        if let (Keys::Static(keys), Some((Some(next), through))) = (&mut self.keys, pns) {
            keys.give_back(next, through);
        }
        self.lives = Some(0);
    }

    /// Carries out what the KaY says, and returns its MKPDUs. It may be killed between any two of these.
    pub(super) fn turn(&mut self, now: Instant) -> Result<Vec<Vec<u8>>, String> {
        let mut sent = Vec::new();
        loop {
            match &mut self.lives {
                Some(0) => return Ok(sent),
                lives => *lives = lives.map(|lives| lives - 1),
            }
            let Keys::Agreed(kay) = &mut self.keys else { return Ok(sent) };
            if let Some(event) = kay.poll_event() {
                self.handle(event)?;
            } else if let Some(report) = self.reports.pop_front() {
                kay.handle_input(now, Input::Report(report));
            } else if let Some(frame) = kay.poll_transmit(now) {
                sent.push(frame.to_vec());
            } else {
                return Ok(sent);
            }
        }
    }

    fn handle(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Install(association) => self.install(*association)?,
            Event::Admit { ki, admission } => {
                let at = self.saks.iter().position(|sas| sas.ki == ki).ok_or("a peer under no SAK")?;
                self.admit(at, admission, Pn::FIRST)?;
            }
            Event::EnableTransmit(ki) => {
                let sas = self.saks.iter().find(|sas| sas.ki == ki).ok_or("no SAK to protect with")?;
                self.secy.enable_transmit(sas.an).map_err(|error| format!("{error:?}"))?;
                self.reports.push_back(Report::Transmitting(ki));
            }
            Event::Retire(ki) => {
                let at = self.saks.iter().position(|sas| sas.ki == ki).ok_or("no SAK to retire")?;
                let Sas { an, .. } = self.saks.remove(at);
                drop(self.secy.retire_transmit(an));
                self.secy.retire_receive_everywhere(an).for_each(drop);
                self.reports.retain(
                    |report| !matches!(report, Report::Installed(of) | Report::Transmitting(of) if *of == ki),
                );
            }
            Event::Expel(sci) => {
                self.secy.retire_receive_sc(sci).ok_or("no SC to expel")?;
                self.scs.retain(|known| *known != sci);
                for sas in &mut self.saks {
                    sas.receive.retain(|admission| admission.sci != sci);
                }
            }
            Event::RaiseLowest { ki, sci, lowest_pn } => {
                let an = self.saks.iter().find(|sas| sas.ki == ki).map(|sas| sas.an);
                if let Some((an, lowest)) = an.zip(Pn::new(lowest_pn)) {
                    // The SA may be gone by now.
                    let _ = self.secy.raise_lowest(sci, an, lowest);
                }
            }
            Event::Notice(_) => {}
        }
        Ok(())
    }

    fn install(&mut self, association: Association) -> Result<(), String> {
        let Association { ki, an, suite, sak, xpn, receive, .. } = association;
        let key = digest(format!("{:?}", sak.octets()));
        self.saks.push(Sas { ki, an, suite, sak, xpn, key, receive: vec![] });
        let at = self.saks.len() - 1;
        for admission in receive {
            self.admit(at, admission, Pn::FIRST)?;
        }
        self.install_transmit(at, Pn::FIRST, Pn::LAST_64)?;
        self.reports.push_back(Report::Installed(ki));
        Ok(())
    }

    /// Installs the transmit SA of a SAK, with these PNs.
    fn install_transmit(&mut self, at: usize, next: Pn, through: Pn) -> Result<(), String> {
        let sas = &self.saks[at];
        let binding = sas.xpn.map(|(salt, ssci)| XpnBinding { ssci, salt });
        let sa = TransmitSa::new(sas.an, sas.prepare()?, binding, PROTECTION, next, through);
        let sa = Box::new(sa.map_err(|error| format!("{error:?}"))?);
        self.secy.install_transmit(sa).map_err(|(error, _)| format!("transmit SA: {error:?}"))
    }

    fn admit(&mut self, at: usize, admission: Admission, lowest: Pn) -> Result<(), String> {
        let Admission { sci, ssci } = admission;
        if !self.scs.contains(&sci) {
            self.secy.install_receive_sc(sci).map_err(|error| format!("SC {sci}: {error:?}"))?;
            self.scs.push(sci);
        }
        let sas = &self.saks[at];
        let binding = sas.xpn.zip(ssci).map(|((salt, _), ssci)| XpnBinding { ssci, salt });
        let sa = ReceiveSa::new(sas.an, sas.prepare()?, binding, PROTECTION, lowest, self.link.replay_window);
        let sa = Box::new(sa.map_err(|error| format!("{error:?}"))?);
        self.secy.install_receive(sci, sa).map_err(|(error, _)| format!("receive SA: {error:?}"))?;
        self.secy.enable_receive(sci, self.saks[at].an).map_err(|error| format!("{error:?}"))?;
        self.saks[at].receive.push(admission);
        Ok(())
    }

    /// Protects a frame. Returns it with the key and the nonce that it took, if it took any; nothing if it may not pass.
    pub(super) fn protect(&mut self, now: Instant, sdu: &[u8]) -> Option<(Vec<u8>, Option<Used>)> {
        let used = self.secy.encoding_sa().and_then(|an| {
            let pn = self.secy.transmit_sas().find(|sa| sa.an() == an)?.pns().next()?;
            let sas = self.saks.iter().find(|sas| sas.an == an)?;
            let nonce = match &sas.xpn {
                None => Nonce::new(self.sci, pn),
                Some((salt, ssci)) => Nonce::xpn(*ssci, pn, salt),
            };
            Some((sas.key, nonce.octets()))
        });
        let mut chunk = vec![0; ROOM + sdu.len() + ROOM];
        chunk[ROOM..ROOM + sdu.len()].copy_from_slice(sdu);
        let mut burst = [Outgoing::new(Frame::new(&mut chunk, ROOM, sdu.len())?)];
        let action = self.secy.protect(&mut burst);
        if let (Keys::Static(keys), NextAction::Reserve | NextAction::AwaitReservation) =
            (&mut self.keys, action)
        {
            keys.ask(now, &self.link);
        }
        let [outgoing] = burst;
        let octets = outgoing.frame().octets().to_vec();
        outgoing.into_outcome().ok()?;
        Some((octets, used))
    }

    /// The frame that a received one delivers.
    pub(super) fn verify(&mut self, now: Instant, frame: &[u8]) -> Option<Vec<u8>> {
        let mut chunk = vec![0; ROOM + frame.len() + ROOM];
        chunk[ROOM..ROOM + frame.len()].copy_from_slice(frame);
        let mut burst = [Incoming::new(Frame::new(&mut chunk, ROOM, frame.len())?)];
        self.secy.verify(now, &mut burst, &mut SduBuffer::none());
        let [incoming] = burst;
        let octets = incoming.frame().octets().to_vec();
        matches!(incoming.into_outcome(), Ok(Delivered::Whole(_))).then_some(octets)
    }
}

/// The AN of static keys.
const STATIC_AN: An = An::ALL[1];
const PROTECTION: Protection = Protection::Encrypt(ConfidentialityOffset::Zero);

impl Sas {
    fn prepare(&self) -> Result<Key, String> {
        Key::prepare(self.suite, &self.sak).map_err(|error| format!("{error:?}"))
    }
}
