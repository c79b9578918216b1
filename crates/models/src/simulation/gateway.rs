//! A gateway: a KaY, its SecY, and what control does between them.

use std::collections::VecDeque;

use mka::{Admission, Announced, Association, Event, Input, Kay, OnPeerLoss, Report, SuiteRule, SuiteTiming};
use secy::{
    ClearVlan, ConfidentialityOffset, Delivered, Frame, Incoming, Outgoing, Protection, ReceiveSa,
    SciInclusion, SduBuffer, SecY, TransmitSa, ValidateFrames, XpnBinding,
};
use suite::{CipherSuite, Key, Nonce, Sak, Salt};
use wire::mkpdu::{Capability, Confidentiality};
use wire::{An, Instant, Ki, MacAddr, Pn, Sci, Ssci};

use crate::kay::station::cak;
use crate::names::digest;

const MTU: usize = 1532;
/// Octets around a frame, for headers and ICV.
const ROOM: usize = 64;

/// Digest of a key, and a nonce.
pub(super) type Used = (u64, [u8; Nonce::OCTETS]);

/// A link's settings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) number: u8,
    pub(super) suite: CipherSuite,
    pub(super) delay_protect: bool,
    pub(super) replay_window: u32,
}

/// A SAK as this gateway has it.
struct Sas {
    ki: Ki,
    an: An,
    suite: CipherSuite,
    sak: Sak,
    xpn: Option<(Salt, Ssci)>,
    /// Digest of the key.
    key: u64,
}

/// One start of a gateway.
pub(super) struct Gateway {
    pub(super) link: Link,
    pub(super) sci: Sci,
    kay: Kay,
    secy: SecY,
    saks: Vec<Sas>,
    scs: Vec<Sci>,
    reports: VecDeque<Report>,
    /// Polls until it is killed.
    pub(super) lives: Option<u64>,
}

impl Gateway {
    pub(super) fn new(now: Instant, link: Link, number: u8, seed: &[u8; 32]) -> Self {
        let source = MacAddr([2, 0, 0, 0, link.number, number]);
        let sci = Sci::new(source, 1);
        let suite = link.suite;
        let timing = SuiteTiming { suite, nanoseconds: 100 };
        let settings = mka::Settings {
            sci,
            source,
            destination: MacAddr([1, 0x80, 0xc2, 0, 0, 3]),
            priority: 16,
            capability: Capability::Offsets,
            confidentiality: Confidentiality::Zero,
            suite: SuiteRule::Only(suite),
            announced: Announced {
                reassembles: false,
                splits: false,
                express: false,
                largest_sdu: 0,
                suites: vec![timing],
            },
            fragment: false,
            concatenate: false,
            delay_protect: link.delay_protect,
            sak_lifetime: None,
            on_peer_loss: OnPeerLoss::Block,
            peers: vec![],
            accept_integrity: false,
        };
        let secy = secy::Settings {
            protect_frames: true,
            sci_inclusion: SciInclusion::Always,
            validate_frames: ValidateFrames::Strict,
            replay_protect: true,
            clear_vlan: ClearVlan::Refuse,
            mtu: MTU,
            reassemble: false,
        };
        Self {
            link,
            sci,
            kay: Kay::new(now, settings, vec![cak(link.number)], seed),
            secy: SecY::new(sci, secy),
            saks: vec![],
            scs: vec![],
            reports: VecDeque::new(),
            lives: None,
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.kay.poll_timeout()
    }

    pub(super) fn handle_mkpdu(&mut self, now: Instant, frame: &[u8]) {
        self.kay.handle_input(now, Input::Frame(frame));
    }

    pub(super) fn rekey(&mut self, now: Instant) {
        self.kay.handle_input(now, Input::Rekey);
    }

    /// Handles its timer. The next PNs are reported before.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        for sa in self.secy.transmit_sas() {
            let ki = self.saks.iter().find(|sas| sas.an == sa.an()).map(|sas| sas.ki);
            let next_pn = sa.pns().next().map_or(u64::MAX, Pn::number);
            if let Some(ki) = ki {
                self.kay.handle_input(now, Input::Report(Report::NextPn { ki, next_pn }));
            }
        }
        self.kay.handle_input(now, Input::Timeout);
    }

    /// Carries out what the KaY says, and returns its MKPDUs. It may be killed between any two of these.
    pub(super) fn turn(&mut self, now: Instant) -> Result<Vec<Vec<u8>>, String> {
        let mut sent = Vec::new();
        loop {
            match &mut self.lives {
                Some(0) => return Ok(sent),
                lives => *lives = lives.map(|lives| lives - 1),
            }
            if let Some(event) = self.kay.poll_event() {
                self.handle(event)?;
            } else if let Some(report) = self.reports.pop_front() {
                self.kay.handle_input(now, Input::Report(report));
            } else if let Some(frame) = self.kay.poll_transmit(now) {
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
                self.admit(at, admission)?;
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
        self.saks.push(Sas { ki, an, suite, sak, xpn, key });
        let at = self.saks.len() - 1;
        for admission in receive {
            self.admit(at, admission)?;
        }
        let binding = xpn.map(|(salt, ssci)| XpnBinding { ssci, salt });
        let prepared = self.saks[at].prepare()?;
        let sa = TransmitSa::new(an, prepared, binding, PROTECTION, Pn::FIRST, Pn::LAST_64);
        let sa = Box::new(sa.map_err(|error| format!("{error:?}"))?);
        self.secy.install_transmit(sa).map_err(|(error, _)| format!("transmit SA: {error:?}"))?;
        self.reports.push_back(Report::Installed(ki));
        Ok(())
    }

    fn admit(&mut self, at: usize, Admission { sci, ssci }: Admission) -> Result<(), String> {
        if !self.scs.contains(&sci) {
            self.secy.install_receive_sc(sci).map_err(|error| format!("SC {sci}: {error:?}"))?;
            self.scs.push(sci);
        }
        let sas = &self.saks[at];
        let binding = sas.xpn.zip(ssci).map(|((salt, _), ssci)| XpnBinding { ssci, salt });
        let sa =
            ReceiveSa::new(sas.an, sas.prepare()?, binding, PROTECTION, Pn::FIRST, self.link.replay_window);
        let sa = Box::new(sa.map_err(|error| format!("{error:?}"))?);
        self.secy.install_receive(sci, sa).map_err(|(error, _)| format!("receive SA: {error:?}"))?;
        self.secy.enable_receive(sci, self.saks[at].an).map_err(|error| format!("{error:?}"))
    }

    /// Protects a frame. Returns it with the key and the nonce that it took, if it took any; nothing if it may not pass.
    pub(super) fn protect(&mut self, sdu: &[u8]) -> Option<(Vec<u8>, Option<Used>)> {
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
        self.secy.protect(&mut burst);
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

const PROTECTION: Protection = Protection::Encrypt(ConfidentialityOffset::Zero);

impl Sas {
    fn prepare(&self) -> Result<Key, String> {
        Key::prepare(self.suite, &self.sak).map_err(|error| format!("{error:?}"))
    }
}
