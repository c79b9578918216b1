//! A station: a KaY, and a SecY that does what it is told.

use std::sync::Arc;

use mka::{Announced, CakEntry, Input, Kay, OnPeerLoss, PassedKay, Report, Settings, SuiteRule, SuiteTiming};
use suite::CipherSuite;
use suite::mka::Cak;
use wire::mkpdu::{Capability, Confidentiality};
use wire::{Ckn, Instant, MacAddr, Mi, Sci};

use super::print::{self, Token};
use super::secy::{Done, SecY};
use crate::past::Object;

/// An input of a station.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Told {
    /// An MKPDU.
    Frame(Arc<[u8]>),
    /// A report of its SecY.
    Report(Report),
    /// Time.
    Timeout,
    /// Another SAK is wanted.
    Rekey,
    /// Another program goes on in its place, with this seed of random values.
    Upgrade([u8; 32]),
}

/// Beginning of a station.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Begin {
    /// Its settings.
    pub settings: Settings,
    /// Its CAKs: each is 16 times the same octet, under the name of this octet.
    pub caks: Vec<u8>,
    /// Seed of its random values.
    pub seed: [u8; 32],
}

/// A station, alive.
pub(super) struct Station {
    kay: Kay,
    secy: SecY,
    begin: Begin,
}

/// Output of a station for an input, and its state then.
pub(super) struct Present {
    pub(super) sent: Vec<Arc<[u8]>>,
    pub(super) timeout: Option<Instant>,
    pub(super) secy: SecY,
    pub(super) done: Done,
    /// A request that the SecY could not carry out, or a state that cannot be.
    pub(super) wrong: Option<String>,
    /// Whether another program may go on in its place now.
    pub(super) passes_on: bool,
    /// Difference of a program that went on in its place from the one before.
    pub(super) differs: Option<String>,
    pub(super) mi: Mi,
    pub(super) key_server: Option<Sci>,
    pub(super) is_key_server: bool,
    pub(super) live: Vec<(Sci, Mi)>,
    /// SAKs that it says it protects with.
    pub(super) transmitted: usize,
    pub(super) tokens: Vec<Token>,
}

/// Settings of a KaY. The tests of crate `mka` have others, with fragmentation and any suite, and `testkit` does not know that crate.
pub fn settings(source: MacAddr, suite: CipherSuite, delay_protect: bool) -> Settings {
    Settings {
        sci: Sci::new(source, 1),
        source,
        destination: MacAddr([1, 0x80, 0xc2, 0, 0, 3]),
        priority: 16,
        capability: Capability::Offsets,
        confidentiality: Confidentiality::Zero,
        suite: SuiteRule::Only(suite),
        announced: Announced {
            reassembles: false,
            splits: false,
            carries_whole: true,
            in_kernel: false,
            express: false,
            takes_padded: false,
            largest_sdu: 0,
            name: None,
            suites: vec![SuiteTiming { suite, nanoseconds: 100 }],
        },
        fragment: false,
        concatenate: false,
        pad: false,
        delay_protect,
        sak_lifetime: None,
        on_peer_loss: OnPeerLoss::Block,
        peers: vec![],
        accept_integrity: false,
    }
}

/// The CAK of an octet.
pub fn cak(octet: u8) -> CakEntry {
    let ckn = Ckn::new(&[octet]).expect("invariant: one octet is a name");
    CakEntry { ckn, cak: Cak::new(&[octet; 16]).expect("invariant: 16 octets") }
}

impl Begin {
    /// A KaY that begins so.
    pub fn kay(&self, now: Instant) -> Kay {
        Kay::new(now, self.settings.clone(), self.caks(), &self.seed)
    }

    fn caks(&self) -> Vec<CakEntry> {
        self.caks.iter().map(|octet| cak(*octet)).collect()
    }
}

impl Told {
    /// As an input of a KaY; an upgrade is none.
    pub fn input(&self) -> Option<Input<'_>> {
        match self {
            Self::Frame(frame) => Some(Input::Frame(frame)),
            Self::Report(report) => Some(Input::Report(*report)),
            Self::Timeout => Some(Input::Timeout),
            Self::Rekey => Some(Input::Rekey),
            Self::Upgrade(_) => None,
        }
    }
}

impl Present {
    /// True if this MI is that of its key server.
    pub(super) fn is_led_by(&self, mi: Mi) -> bool {
        let is_peer = || self.key_server.is_some_and(|server| self.live.contains(&(server, mi)));
        if self.is_key_server { mi == self.mi } else { is_peer() }
    }
}

impl Object for Station {
    type Begin = Begin;
    type Told = Told;
    type Did = Present;

    fn begin(begin: &Begin, at: Instant) -> (Self, Present) {
        let mut station = Self { kay: begin.kay(at), secy: SecY::default(), begin: begin.clone() };
        let present = station.follow(at);
        (station, present)
    }

    fn tell(&mut self, at: Instant, told: &Told) -> Present {
        if let Told::Report(_) = told {
            self.secy.report();
        }
        let mut differs = None;
        if let Told::Upgrade(seed) = told {
            differs = self.upgrade(at, seed).err();
        } else if let Some(input) = told.input() {
            self.kay.handle_input(at, input);
        }
        let mut present = self.follow(at);
        present.differs = differs;
        if *told == Told::Timeout && present.timeout.is_some_and(|timeout| timeout <= at) {
            present.wrong.get_or_insert("a time that has come comes again".to_owned());
        }
        present
    }
}

impl Station {
    /// Puts a KaY in the place of this one, which goes on with what this one passes on.
    fn upgrade(&mut self, at: Instant, seed: &[u8; 32]) -> Result<(), String> {
        let passed = self.kay.pass_on().ok_or("something is under way")?;
        let text = serde_json::to_vec(&passed).map_err(|error| error.to_string())?;
        let passed: PassedKay = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
        let next = Kay::go_on(at, passed, self.begin.settings.clone(), self.begin.caks(), seed);
        let next = next.map_err(|error| error.to_string())?;
        let says = |kay: &Kay| (format!("{kay:?}"), kay.status(at), kay.poll_timeout());
        let before = says(&std::mem::replace(&mut self.kay, next));
        if says(&self.kay) == before { Ok(()) } else { Err("it is not as it was".to_owned()) }
    }

    /// Lets the SecY do what the KaY has asked for.
    fn follow(&mut self, at: Instant) -> Present {
        let (mut sent, mut done, mut wrong) = (Vec::new(), Done::default(), None);
        loop {
            if let Some(event) = self.kay.poll_event() {
                if let Err(error) =
                    self.secy.apply(at, self.begin.settings.sci, &self.live(at), event, &mut done)
                {
                    wrong.get_or_insert(error);
                }
            } else if let Some(frame) = self.kay.poll_transmit(at) {
                sent.push(Arc::from(&frame[..]));
            } else {
                break;
            }
        }
        let timeout = self.kay.poll_timeout();
        let mut tokens = print::tokens(&format!("{:?}{:?}", self.kay, self.secy));
        tokens.extend(timeout.map(Token::at));
        let status = self.kay.status(at);
        Present {
            sent,
            timeout,
            done,
            wrong,
            passes_on: self.secy.reports.is_empty() && self.kay.pass_on().is_some(),
            differs: None,
            mi: status.mi,
            key_server: status.key_server,
            is_key_server: status.is_key_server,
            live: self.live(at),
            transmitted: status.saks.iter().filter(|sak| sak.transmits).count(),
            tokens,
            secy: self.secy.clone(),
        }
    }

    fn live(&self, at: Instant) -> Vec<(Sci, Mi)> {
        let members = self.kay.status(at).members.into_iter().filter(|member| member.live);
        members.map(|member| (member.sci, member.mi)).collect()
    }
}
