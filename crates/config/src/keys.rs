//! Sources of a link's keys: files with static keys, or agreement under a CAK.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use mka::{OnPeerLoss, SuiteRule};
use pnstore::LeaseName;
use secy::XpnBinding;
use suite::{CipherSuite, Sak};
use wire::mkpdu::SystemName;
use wire::{An, MacAddr, Sci};

use crate::Origin;
use crate::key_file::NamedCak;

/// A group has at most so many others.
pub(crate) const MOST_PEERS: usize = 32;

/// Source of a link's keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Keys {
    /// `[link.static]`
    Static(StaticSas),
    /// `[link.mka]`
    Agreed(Box<Mka>),
    /// Nowhere: nothing but a cell's frames passes, and these have keys of their own.
    None,
}

/// SAs with static keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StaticSas {
    /// The cipher suite of all of them.
    pub suite: CipherSuite,
    /// The own SA. Its key and SCI (XPN: SSCI) are no other SA's.
    pub transmit: StaticSa,
    /// The peers' SAs: up to four of an SCI, with different ANs.
    pub receive: Vec<StaticSa>,
}

/// An SA with a static key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StaticSa {
    /// Its AN.
    pub an: An,
    /// The SCI of its SC.
    pub sci: Sci,
    /// The key; of the right length for the link's suite.
    pub key: Sak,
    /// The file it came from; empty if it stood in the text itself, as it may for `inspect`.
    pub key_file: Origin<PathBuf>,
    /// The line of the configuration that names it.
    pub line: Origin<usize>,
    /// With XPN suites, and only with them.
    pub xpn: Option<XpnBinding>,
    /// Of a peer's SA: whether what was received before a restart is refused after it.
    pub replay_floor: bool,
}

/// Settings of a link's key agreement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mka {
    /// The cipher suite of the SAKs.
    pub suite: SuiteRule,
    /// The CAK, and its name.
    pub cak: NamedCak,
    /// Another one, with another name, that is spoken under as well and takes over if the group is not under the first.
    pub fallback: Option<NamedCak>,
    /// End of the fallback's time, by the clock of the box.
    pub fallback_until: Option<SystemTime>,
    /// The key server priority: the lowest wins, 255 never does.
    pub priority: u8,
    /// Destination address of MKPDUs.
    pub destination: MacAddr,
    /// Rule for the SAK when all peers have vanished.
    pub on_peer_loss: OnPeerLoss,
    /// A SAK is followed by another after this time, if this box is key server.
    pub rekey: Option<Duration>,
    /// Whether peers are held to the lowest PNs that they announce.
    pub delay_protect: bool,
    /// The SCI; none: the protected interface's address, port 1.
    pub sci: Option<Sci>,
    /// Name that this box announces, as `[gateway]` says.
    pub announced_name: Option<SystemName>,
    /// The SCIs of all other boxes of the link; empty if they are not named.
    pub peers: Vec<Sci>,
    /// Keys are taken that hide less than the link's `encrypt` asks for.
    pub accept_integrity: bool,
    /// File for the log of the key agreement, if it is kept (`frameward inspect --replay`).
    pub record: Option<PathBuf>,
    /// Functions that were asked for by name: worth a word where the peers do not understand them.
    pub expects: Expected,
}

/// Functions that the configuration calls "on" rather than "auto".
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Expected {
    /// `fragment`
    pub fragment: bool,
    /// `concatenate`
    pub concatenate: bool,
}

impl StaticSas {
    /// The SAs of the express SCs beside these: under keys that are derived from theirs. `None` for a suite without express SCs, or if an
    /// SCI leaves no room for one.
    pub fn express(&self) -> Option<Self> {
        let express = |sa: &StaticSa| {
            Some(StaticSa { sci: sa.sci.express()?, key: sa.key.express(self.suite)?, ..sa.clone() })
        };
        let receive = self.receive.iter().map(express).collect::<Option<_>>()?;
        Some(Self { suite: self.suite, transmit: express(&self.transmit)?, receive })
    }
}

impl StaticSa {
    /// Whether both have the same key and the same names, so that one can go on as the other.
    pub fn goes_on_as(&self, other: &Self) -> bool {
        (self.an, self.sci, self.xpn) == (other.an, other.sci, other.xpn) && self.key == other.key
    }

    /// The name under which the PNs of a transmit SA are leased, and the floor of a receive SA is kept.
    pub fn lease_name(&self) -> LeaseName {
        match self.xpn {
            None => LeaseName::new(self.key.octets(), self.sci),
            Some(binding) => LeaseName::xpn(self.key.octets(), binding.ssci),
        }
    }
}

impl Mka {
    /// All CAKs, the preferred one first.
    pub fn caks(&self) -> impl Iterator<Item = &NamedCak> {
        std::iter::once(&self.cak).chain(&self.fallback)
    }

    /// The SCI on a box whose protected interface has this address.
    pub fn sci_on(&self, interface: MacAddr) -> Sci {
        self.sci.unwrap_or(Sci::new(interface, Sci::PORT_END_STATION))
    }
}
