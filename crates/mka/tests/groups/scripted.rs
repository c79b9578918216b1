//! A member that is written by hand: it says what the test wants, under the right CAK. So does whoever has the CAK and is
//! broken, or old, or hostile; and so do recordings.

use mka::{CakEntry, Event, Frame, Kay, Report, Settings};
use suite::mka::Cak;
use suite::{CipherSuite, Sak};
use wire::mkpdu::{
    ALGORITHM_AGILITY, BasicParameters, Capability, CapableSuite, Confidentiality, DistributedSak,
    Extensions, KeyUse, PeerEntry, TimingEntry,
};
use wire::mkpdu::{Mkpdu, ParameterSet, PeerList, SakUse, TlvWriter, Writer};
use wire::{An, Ckn, Instant, Ki, MacAddr, Mi, Sci};

use crate::station::cak;

/// A SAK that a member hands out.
#[derive(Clone)]
pub(crate) struct HandedOut {
    pub(crate) kn: u32,
    pub(crate) an: An,
    /// The suite as it is named.
    pub(crate) named: Option<[u8; 8]>,
    pub(crate) suite: CipherSuite,
    pub(crate) key: Vec<u8>,
}

/// A member written by hand.
pub(crate) struct Scripted {
    pub(crate) ckn: Ckn,
    pub(crate) cak: Cak,
    pub(crate) basic: BasicParameters,
    pub(crate) live: Vec<PeerEntry>,
    pub(crate) potential: Vec<PeerEntry>,
    pub(crate) sak_use: Option<SakUse>,
    pub(crate) hands_out: Option<HandedOut>,
    pub(crate) confidentiality: Confidentiality,
    /// A suite that it announces, and measured.
    pub(crate) suite: Option<CipherSuite>,
    /// Octets of its name.
    pub(crate) name: Option<Vec<u8>>,
}

impl Scripted {
    /// One with this number: it is its MI and its SCI.
    pub(crate) fn new(number: u8) -> Self {
        Self::under(number, cak(1))
    }

    /// The same under this CAK.
    pub(crate) fn under(number: u8, CakEntry { ckn, cak }: CakEntry) -> Self {
        let basic = BasicParameters {
            version: 1,
            priority: 0,
            key_server: true,
            macsec_desired: true,
            capability: Capability::Confidentiality,
            sci: Sci::new(MacAddr([2, 0, 0, 0, 1, number]), 1),
            mi: Mi([number; 12]),
            mn: 0,
            agility: ALGORITHM_AGILITY,
            ckn,
        };
        Self {
            ckn,
            cak,
            basic,
            live: vec![],
            potential: vec![],
            sak_use: None,
            hands_out: None,
            confidentiality: Confidentiality::Zero,
            suite: None,
            name: None,
        }
    }

    /// Its next MKPDU.
    pub(crate) fn mkpdu(&mut self) -> Vec<u8> {
        self.basic.mn += 1;
        self.same_mn()
    }

    /// An MKPDU with the MN before.
    pub(crate) fn same_mn(&self) -> Vec<u8> {
        let (mut buffer, mut room, mut other_room) = ([0; 1514], [0; 1024], [0; 1024]);
        let (to, from) = (MacAddr([1, 0x80, 0xc2, 0, 0, 3]), self.basic.sci.system());
        let mut writer = Writer::new(&mut buffer, to, from, 3, &self.basic).expect("room");
        let peers = PeerList::write(self.live.iter().copied(), &mut room);
        if !peers.is_empty() {
            writer.push(&ParameterSet::LivePeers { key_server_ssci: 0, peers }).expect("room");
        }
        let peers = PeerList::write(self.potential.iter().copied(), &mut other_room);
        if !peers.is_empty() {
            writer.push(&ParameterSet::PotentialPeers(peers)).expect("room");
        }
        if let Some(sak_use) = &self.sak_use {
            writer.push(&ParameterSet::SakUse(*sak_use)).expect("room");
        }
        if let Some(HandedOut { kn, an, named, suite, key }) = &self.hands_out {
            let sak = Sak::new(*suite, key).expect("a key of that length");
            let (wrapped, octets) = self.cak.kek(&self.ckn).wrap(&sak);
            let handed_out = DistributedSak {
                an: *an,
                confidentiality: self.confidentiality,
                kn: *kn,
                suite: *named,
                wrapped: &wrapped[..octets],
            };
            writer.push(&ParameterSet::DistributedSak(Some(handed_out))).expect("room");
        }
        if self.suite.is_some() || self.name.is_some() {
            let mut room = [0; 600];
            let mut tlvs = TlvWriter::new(&mut room);
            if let Some(identifier) = self.suite.map(|suite| suite.identifier()) {
                let suites = [CapableSuite { identifier, capability: self.basic.capability }];
                tlvs.cipher_suites(suites.into_iter()).expect("room");
                let figures = [TimingEntry { identifier, nanoseconds: 1 }];
                let extensions = Extensions {
                    reassembles: false,
                    splits: false,
                    misses: false,
                    carries_whole: true,
                    in_kernel: false,
                    express: false,
                    takes_padded: false,
                    largest_sdu: 1500,
                };
                tlvs.extensions(&extensions, figures.into_iter()).expect("room");
            }
            if let Some(name) = &self.name {
                tlvs.other(127, &[b"\xf2\x46\x57\x02FWRD", &name[..]].concat()).expect("room");
            }
            writer.push(&ParameterSet::Announcement(tlvs.finish())).expect("room");
        }
        writer.finish(false, |octets| self.cak.ick(&self.ckn).icv(octets)).expect("room").to_vec()
    }

    /// It has heard this MKPDU, and has who sent it live.
    pub(crate) fn hears(&mut self, frame: &[u8]) {
        let basic = Mkpdu::parse(frame).expect("an MKPDU of ours").basic;
        self.live.retain(|heard| heard.mi != basic.mi);
        self.live.push(PeerEntry { mi: basic.mi, mn: basic.mn });
    }

    /// It hands out a SAK of GCM-AES-128 whose octets are all the same.
    pub(crate) fn hand_out(&mut self, kn: u32, an: u8, octet: u8) {
        let an = An::new(an).expect("0 to 3");
        self.hands_out =
            Some(HandedOut { kn, an, named: None, suite: CipherSuite::GcmAes128, key: vec![octet; 16] });
    }

    /// It uses this SAK.
    pub(crate) fn uses(&mut self, ki: Ki, an: An, tx: bool, rx: bool) {
        let latest = Some(KeyUse { ki, an, tx, rx, lowest_pn: 1 });
        self.sak_use =
            Some(SakUse { latest, old: None, plain_tx: false, plain_rx: false, delay_protect: false });
    }
}

/// A KaY alone with scripted members, on its own clock.
pub(crate) struct Alone {
    pub(crate) kay: Kay,
    pub(crate) now: Instant,
    /// Operations on its SecY.
    pub(crate) events: Vec<Event>,
    /// The MKPDUs that it sent.
    pub(crate) sent: Vec<Frame>,
}

impl Alone {
    pub(crate) fn new(settings: Settings) -> Self {
        Self::with(settings, vec![cak(1)])
    }

    pub(crate) fn with(settings: Settings, caks: Vec<CakEntry>) -> Self {
        let now = Instant::after_start(std::time::Duration::from_secs(5));
        let kay = Kay::new(now, settings, caks, &[7; 32]);
        let mut alone = Self { kay, now, events: vec![], sent: vec![] };
        alone.pump();
        alone
    }

    /// Fetches what it wants; the SecY does everything at once.
    pub(crate) fn pump(&mut self) {
        loop {
            if let Some(event) = self.kay.poll_event() {
                match &event {
                    Event::Install(association) => {
                        self.kay.handle_report(self.now, Report::Installed(association.ki));
                    }
                    Event::EnableTransmit(ki) => self.kay.handle_report(self.now, Report::Transmitting(*ki)),
                    _ => {}
                }
                self.events.push(event);
            } else if let Some(frame) = self.kay.poll_transmit(self.now) {
                self.sent.push(frame);
            } else {
                return;
            }
        }
    }

    pub(crate) fn hears(&mut self, frame: &[u8]) {
        self.kay.handle_frame(self.now, frame);
        self.pump();
    }

    /// Lets time pass, as its timeouts want it.
    pub(crate) fn pass(&mut self, time: std::time::Duration) {
        let end = self.now + time;
        while let Some(at) = self.kay.poll_timeout().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.kay.handle_timeout(self.now);
            self.pump();
        }
        self.now = end;
    }

    pub(crate) fn last_sent(&self) -> &[u8] {
        self.sent.last().expect("it has spoken")
    }

    pub(crate) fn installed(&self) -> Vec<Ki> {
        let installed = |event: &Event| match event {
            Event::Install(association) => Some(association.ki),
            _ => None,
        };
        self.events.iter().filter_map(installed).collect()
    }

    pub(crate) fn told(&self, word: &str) -> usize {
        let told =
            |event: &&Event| matches!(event, Event::Notice(reason) if reason.to_string().contains(word));
        self.events.iter().filter(told).count()
    }

    /// This member and the KaY hear each other.
    pub(crate) fn meets(&mut self, member: &mut Scripted) {
        self.hears(&member.mkpdu());
        self.pass(std::time::Duration::from_millis(10));
        member.hears(self.last_sent());
        self.hears(&member.mkpdu());
        self.pass(std::time::Duration::from_millis(10));
        assert!(self.kay.status(self.now).members.iter().any(|peer| peer.mi == member.basic.mi && peer.live));
    }
}
