//! A gateway of a cell: its data path, its handshakes, and what control does between them.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use fieldbus::handshake::{Handshake, HandshakeEvent};
use fieldbus::session::{EpochKey, SessionNumber};
use fieldbus::{
    Direction, Event, Incoming, InwardFrame, KeyChange, LiveSession, Mode, Moment, Outgoing, RelationMatch,
    Relations,
};
use suite::fieldbus::MasterKeys;
use suite::{ICV_OCTETS, Nonce, SealJob};
use testkit::Chance;
use wire::fieldbus::{Header, Seq};
use wire::{EtherType, Frame, Instant};

use super::super::judge::Used;
use super::plan::{Config, Plan};
use crate::names::digest;

/// Octets around a frame, for headers and ICV.
const ROOM: usize = 64;
/// Interval between checks whether frames have stopped.
const LOOK: Duration = Duration::from_millis(50);

/// Outcome of a frame from the network.
pub(super) enum Arrived {
    /// It is not for the machine.
    Nothing,
    /// It is delivered in clear, or after it was verified: relation and frame.
    Clear(usize, Vec<u8>),
    Verified(usize, Vec<u8>),
}

/// Outcome of a machine's frame.
pub(super) struct Departed {
    /// It goes in clear.
    pub(super) clear: bool,
    /// It goes protected, with the key and the nonce that it took.
    pub(super) protected: Option<(Vec<u8>, Used)>,
}

/// Control's part of a relation.
struct Control {
    relation: usize,
    handshake: Handshake,
    newest: SessionNumber,
    /// Keys that the data path got to protect with: their digests, and their first nonces.
    keys: HashMap<(SessionNumber, u64), Used>,
}

/// One start of a gateway.
pub(super) struct Gateway {
    pub(super) config: Config,
    cell: Relations,
    /// By the numbers that the cell has for its relations.
    controls: Vec<Control>,
    /// HELLOs that wait for control, and when it comes to them.
    hellos: VecDeque<(usize, Rc<[u8]>)>,
    due: Option<Instant>,
    /// Time that control takes to come.
    lag: Duration,
    look: Instant,
    /// Steps of control until it is killed.
    pub(super) lives: Option<u64>,
}

impl Gateway {
    pub(super) fn new(
        chance: &mut Chance,
        plan: &Plan,
        number: usize,
        config: &Config,
    ) -> Result<Self, String> {
        let of = plan.of(number, config);
        let settings: Result<Vec<_>, _> = of.iter().map(|of| plan.settings(*of, config)).collect();
        let settings = settings.map_err(|error| format!("{error:?}"))?;
        let (cell, masters) = (config.settings(), config.masters());
        let control = |(of, (relation, _)): (&fieldbus::RelationSettings, &(usize, usize))| {
            control(chance, &masters, of, *relation, cell)
        };
        Ok(Self {
            controls: settings.iter().zip(&of).map(control).collect(),
            config: config.clone(),
            cell: Relations::new(cell, &settings).map_err(|error| format!("{error:?}"))?,
            hellos: VecDeque::new(),
            due: None,
            lag: Duration::from_micros(chance.pick(&[0, 100, 5_000])),
            look: Instant::START,
            lives: None,
        })
    }

    /// Goes on with what it has in common with the gateway of the configuration before, as control does at a reload.
    pub(super) fn take_over(&mut self, now: Instant, mut before: Self) {
        if self.config.keeps_sessions(&before.config) {
            let masters = self.config.masters();
            let here = |(number, control): (usize, &Control)| {
                let there = before.controls.iter().position(|there| there.relation == control.relation)?;
                Some((number, there))
            };
            let carry_over: Vec<_> = self.controls.iter().enumerate().filter_map(here).collect();
            self.cell.take_over(&mut before.cell, &carry_over);
            for (number, there) in carry_over {
                std::mem::swap(&mut self.controls[number], &mut before.controls[there]);
                self.controls[number].handshake.change_keys(now, &masters);
            }
        }
        (self.lives, self.due) = (before.lives, Some(Instant::START));
    }

    /// Has control come at its next turn.
    pub(super) const fn hasten(&mut self) {
        self.due = Some(Instant::START);
    }

    /// The program that goes on in its place, behind a turn of control. None while a session rests on a master key that was removed.
    pub(super) fn upgraded(
        &mut self,
        chance: &mut Chance,
        plan: &Plan,
        number: usize,
    ) -> Result<Option<Self>, String> {
        let passed = self.controls.iter().enumerate();
        let passed = passed.map(|(at, control)| Some((control.handshake.pass_on()?, self.cell.pass_on(at))));
        let Some(passed) = passed.collect::<Option<Vec<_>>>() else { return Ok(None) };
        let mut next = Self::new(chance, plan, number, &self.config)?;
        let (cell, masters) = (self.config.settings(), self.config.masters());
        for (at, ((handshake, frames), of)) in passed.iter().zip(plan.of(number, &self.config)).enumerate() {
            let relation = plan.settings(of, &self.config).map_err(|error| format!("{error:?}"))?.relation;
            let (protection, ethertype, seed) = (cell.protection, cell.ethertype, chance.octets());
            let handshake = Handshake::go_on(&relation, &masters, protection, ethertype, &seed, handshake);
            let mut handshake = handshake.map_err(|error| error.to_string())?;
            next.cell.go_on(at, frames, &mut handshake).map_err(|error| error.to_string())?;
            let Control { relation, newest, keys, .. } = &mut self.controls[at];
            let keys = std::mem::take(keys);
            next.controls[at] = Control { relation: *relation, handshake, newest: *newest, keys };
        }
        (next.lives, next.due) = (self.lives, Some(Instant::START));
        Ok(Some(next))
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let handshakes = self.controls.iter().filter_map(|control| control.handshake.poll_timeout());
        let look = self.cell.is_watched().then_some(self.look);
        handshakes.chain(look).chain(self.due).min()
    }

    fn is_alive(&mut self) -> bool {
        match &mut self.lives {
            Some(0) => false,
            lives => {
                *lives = lives.map(|lives| lives - 1);
                true
            }
        }
    }

    /// Control's turn: returns its HELLOs. It may be killed between any two steps.
    pub(super) fn turn(&mut self, now: Instant) -> Vec<Vec<u8>> {
        if self.cell.is_watched() && self.look <= now {
            self.look = now + LOOK;
            self.cell.handle_timeout(moment(now));
        }
        let (mut changes, mut says) = (vec![], vec![]);
        if self.due.take_if(|due| *due <= now).is_some() {
            while let Some((number, octets)) = self.hellos.pop_front().filter(|_| self.is_alive()) {
                // The handshake has counted the fault.
                let _ = self.controls[number].handshake.handle_frame(now, &octets);
                self.controls[number].follow(number, &mut changes, &mut says);
            }
            while let Some((number, event)) = self.cell.poll_event().filter(|_| self.is_alive()) {
                let change = self.controls[number].hear(event);
                changes.push((number, change));
                self.controls[number].follow(number, &mut changes, &mut says);
            }
        }
        for (number, control) in self.controls.iter_mut().enumerate() {
            if control.handshake.poll_timeout().is_some_and(|due| due <= now) {
                control.handshake.handle_timeout(now);
                control.follow(number, &mut changes, &mut says);
            }
        }
        for (number, change) in changes {
            if self.is_alive() {
                drop(self.cell.change(number, change));
            }
        }
        // HELLOs go behind their keys.
        says.retain(|_| self.is_alive());
        self.wake(now);
        says
    }

    /// Has control come, if the data path has something for it.
    fn wake(&mut self, now: Instant) {
        if self.due.is_none() && (self.cell.has_events() || !self.hellos.is_empty()) {
            self.due = Some(now + self.lag);
        }
    }

    pub(super) fn mode(&self, relation: usize) -> Mode {
        self.config.modes[relation]
    }

    /// The relations that it has.
    pub(super) fn relations(&self) -> impl Iterator<Item = usize> {
        self.controls.iter().map(|control| control.relation)
    }

    /// A machine sends a frame.
    pub(super) fn depart(&mut self, now: Instant, sdu: &[u8]) -> Result<Departed, String> {
        let found = self.cell.find_outward(sdu).ok_or("a relation is not found")?;
        let clear = self.cell.pass_clear(found, Direction::Outward, sdu).is_some();
        let mut chunk = room_around(sdu);
        let mut burst =
            [Outgoing::new(Frame::new(&mut chunk, ROOM, sdu.len()).ok_or("a frame is too long")?, found)];
        self.cell.protect(&mut burst);
        let [outgoing] = burst;
        let (octets, mut protected) = (outgoing.frame().octets().to_vec(), None);
        if outgoing.into_outcome().is_ok() {
            let used = self.used(now, found, &octets)?;
            protected = Some((octets, used));
        }
        self.wake(now);
        Ok(Departed { clear, protected })
    }

    /// The key and the nonce that a protected frame took.
    fn used(&self, now: Instant, found: RelationMatch, octets: &[u8]) -> Result<Used, String> {
        let status = self.cell.status(found.relation(), moment(now));
        let key = status.transmit_key.ok_or("a frame is protected without a key")?;
        // Behind addresses, VLAN tag and EtherType.
        let header = octets.get(18..).and_then(|octets| Header::parse(octets).ok()).ok_or("no header")?;
        let seq = header.seq.ok_or("a frame without a Seq")?;
        if header.key_id != key.key_id {
            return Err(format!("{header:?} under {key:?}"));
        }
        let known = self.controls[found.relation()].keys.get(&(key.session, key.epoch));
        let (print, mut nonce) = *known.ok_or("a key that control has not made")?;
        nonce[8..].copy_from_slice(&seq.number().to_be_bytes());
        Ok((print, nonce))
    }

    /// A frame comes from the network.
    pub(super) fn arrive(&mut self, now: Instant, octets: &Rc<[u8]>) -> Result<Arrived, String> {
        let number = |found: &RelationMatch| self.controls[found.relation()].relation;
        match self.cell.find_inward(octets) {
            InwardFrame::Other | InwardFrame::Foreign(_) => {}
            InwardFrame::Hello(found) => self.hellos.push_back((found.relation(), Rc::clone(octets))),
            InwardFrame::Clear(found) => {
                let relation = number(&found);
                let passes = self.cell.pass_clear(found, Direction::Inward, octets);
                return Ok(passes.map_or(Arrived::Nothing, |_| Arrived::Clear(relation, octets.to_vec())));
            }
            InwardFrame::Protected(found) => {
                let relation = number(&found);
                let mut chunk = room_around(octets);
                let frame = Frame::new(&mut chunk, ROOM, octets.len()).ok_or("a frame is too long")?;
                let mut burst = [Incoming::new(frame, found)];
                self.cell.verify(moment(now), &mut burst);
                let [incoming] = burst;
                let octets = incoming.frame().octets().to_vec();
                self.wake(now);
                let verified = incoming.into_outcome().is_ok();
                return Ok(if verified { Arrived::Verified(relation, octets) } else { Arrived::Nothing });
            }
        }
        self.wake(now);
        Ok(Arrived::Nothing)
    }

    /// Whether frames with this EtherType are protected.
    pub(super) fn protects(&self, ethertype: EtherType) -> bool {
        ethertype == self.cell.settings().ethertype
    }
}

fn control(
    chance: &mut Chance,
    masters: &MasterKeys,
    of: &fieldbus::RelationSettings,
    relation: usize,
    cell: fieldbus::Settings,
) -> Control {
    let handshake = Handshake::new(&of.relation, masters, cell.protection, cell.ethertype, &chance.octets());
    Control { relation, handshake, newest: SessionNumber(0), keys: HashMap::new() }
}

impl Control {
    /// Handles an event of the data path.
    fn hear(&mut self, event: Event) -> KeyChange {
        match event {
            Event::SessionVerified(session) => self.handshake.handle_verified_frame(session),
            Event::TransmitEpoch(session, epoch) => {
                if let Some(key) = self.handshake.next_transmit(session, epoch + 1) {
                    self.note(session, &key);
                    return KeyChange::NextTransmit(session, key);
                }
            }
            Event::ReceiveEpoch(session, epoch) => {
                if let Some(key) = self.handshake.next_receive(session, epoch + 1) {
                    return KeyChange::NextReceive(session, key);
                }
            }
            Event::Alarm(_) => {}
            Event::Lost => self.handshake.request_session(),
        }
        KeyChange::Collect
    }

    /// Takes the handshake's HELLOs and key changes.
    fn follow(&mut self, number: usize, changes: &mut Vec<(usize, KeyChange)>, says: &mut Vec<Vec<u8>>) {
        while let Some(event) = self.handshake.poll_event() {
            let change = match event {
                HandshakeEvent::Enter(session) => {
                    self.newest = session.number;
                    session.transmit.iter().for_each(|key| self.note(session.number, key));
                    KeyChange::Enter(LiveSession::new(*session))
                }
                HandshakeEvent::Enable => KeyChange::Enable(self.newest),
                HandshakeEvent::End => KeyChange::Leave,
            };
            changes.push((number, change));
        }
        says.extend(std::iter::from_fn(|| self.handshake.poll_transmit()).map(|hello| hello.to_vec()));
    }

    fn note(&mut self, session: SessionNumber, key: &EpochKey) {
        let (nonce, mut icv): (Nonce, _) = (key.key.nonce(Seq::LAST), [0; ICV_OCTETS]);
        let job = SealJob { nonce, aad: b"the key's name", text: &mut [], icv: &mut icv };
        key.key.key().seal_each(std::iter::once(job));
        self.keys.insert((session, key.epoch), (digest(icv), key.key.nonce(Seq::FIRST).octets()));
    }
}

fn moment(now: Instant) -> Moment {
    Moment::after_start(now.since(Instant::START))
}

fn room_around(frame: &[u8]) -> Vec<u8> {
    let mut chunk = vec![0; ROOM + frame.len() + ROOM];
    chunk[ROOM..ROOM + frame.len()].copy_from_slice(frame);
    chunk
}
