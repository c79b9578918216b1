//! Writers of the directory: the operator, and somebody who writes what suits him.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fleet::directory::{Address, Directory, configuration_key};
use fleet::publish::{self, Place};
use fleet::{Draft, FileName, Files, GatewayName, Kind, Operator, PublicIdentity, Validity};
use suite::identity::Identity;
use testkit::Chance;
use zeroize::Zeroizing;

use super::{GATEWAYS, unix_seconds};

/// Changes from this number on are of nobody's operator.
pub(super) const FOREIGN: u64 = 1_000_000;
/// Time for which records are valid.
const VALID: Duration = Duration::from_secs(90_000);
/// Largest error of the operator's clock, in seconds: gateways take records of one that is ten minutes ahead.
const CLOCK: u64 = 500;

pub(super) fn operator() -> Operator {
    Operator::new(Identity::new(&[1; 32]))
}

pub(super) fn name(number: usize) -> GatewayName {
    GatewayName::new(&format!("gateway-{number}")).unwrap()
}

pub(super) fn identity(number: usize) -> Identity {
    Identity::new(&[20 + number as u8; 32])
}

/// Files of a change.
pub(super) fn files(gateway: usize, change: u64) -> Files {
    let configuration = format!(
        "# {change}\n[gateway]\nname = \"{}\"\n[[link]]\nname = \"press\"\nplain = \"a\"\nprotected = \"b\"\n[link.mka]\ncak_file = \"press.cak\"\n",
        name(gateway)
    );
    let key = format!("ckn = 01\ncak = {:032x}\n", change + 1);
    let mut files = Files::default();
    for (name, content) in [(FileName::CONFIGURATION, configuration), ("press.cak", key)] {
        files.insert(FileName::new(name).unwrap(), Zeroizing::new(content.into_bytes())).unwrap();
    }
    files
}

fn open(address: &str) -> Box<dyn Directory + Send> {
    address.parse::<Address>().unwrap().open().unwrap()
}

/// The operator with his changes.
pub(super) struct Changes {
    operator: Operator,
    directory: Box<dyn Directory + Send>,
    chance: Chance,
    /// The newest change of each gateway.
    made: [u64; GATEWAYS],
    /// The newest change of each gateway that the directory has acknowledged, and when.
    pub(super) acknowledged: BTreeMap<usize, u64>,
    at: BTreeMap<usize, Instant>,
    count: u64,
    is_clock_right: bool,
}

impl Changes {
    pub(super) fn new(address: &str, chance: Chance) -> Self {
        Self {
            operator: operator(),
            directory: open(address),
            chance,
            made: [0; GATEWAYS],
            acknowledged: BTreeMap::new(),
            at: BTreeMap::new(),
            count: 0,
            is_clock_right: true,
        }
    }

    /// True if the directory answers.
    pub(super) fn answers(&mut self) -> bool {
        self.directory.get(&configuration_key(self.operator.fleet(), &name(0))).is_ok()
    }

    /// Records that were acknowledged.
    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    /// Changes that were acknowledged since then.
    pub(super) fn since(&self, then: Instant) -> BTreeMap<usize, u64> {
        let is_later = |(at, _): &(&usize, &u64)| self.at[*at] > then;
        self.acknowledged.iter().filter(is_later).map(|(at, change)| (*at, *change)).collect()
    }

    /// A rollout to one gateway, or a rotation: all of them in one write.
    pub(super) fn take_a_turn(&mut self) {
        let only = self.chance.below(2 * GATEWAYS as u64) as usize;
        self.publish(Some(only).filter(|only| *only < GATEWAYS));
    }

    /// Publishes a change for one gateway or for all.
    pub(super) fn publish(&mut self, only: Option<usize>) {
        let numbers: Vec<usize> = (0..GATEWAYS).filter(|at| only.is_none_or(|only| only == *at)).collect();
        let now = match self.is_clock_right {
            true => unix_seconds(),
            false => unix_seconds() + self.chance.below(2 * CLOCK) - CLOCK,
        };
        let mut made = Vec::new();
        for at in &numbers {
            self.made[*at] += 1;
            made.push((name(*at), PublicIdentity::of(&identity(*at)), files(*at, self.made[*at])));
        }
        let drafts = made.iter().map(|(gateway, member, files)| Draft {
            gateway,
            member,
            kind: Kind::ConfigurationToKeep,
            files,
        });
        let mut places: Vec<(Draft<'_>, Place)> = Vec::new();
        for draft in drafts {
            let place = publish::compare(&mut *self.directory, &self.operator, draft, VALID, now);
            let Ok(place) = place else { return };
            places.push((draft, place));
        }
        let places: Vec<_> = places.iter().map(|(draft, place)| (*draft, place)).collect();
        let published = publish::publish_all(&mut *self.directory, &self.operator, &places, VALID, now);
        let Ok(Some(_)) = published else { return };
        for at in numbers {
            self.acknowledged.insert(at, self.made[at]);
            self.at.insert(at, Instant::now());
            self.count += 1;
        }
    }

    /// From here on the operator's clock jumps, if what was put back before is gone everywhere: it would lead to versions that gateways refuse.
    pub(super) fn clock_jumps(&mut self, attack_ended: Instant) {
        self.is_clock_right = self.since(attack_ended).len() < GATEWAYS;
    }
}

/// Somebody who writes the directory.
pub(super) struct Attacker {
    stranger: Operator,
    directory: Box<dyn Directory + Send>,
    chance: Chance,
    /// Records of the operator that he has seen.
    seen: Vec<Vec<Vec<u8>>>,
    /// The last one that he has written in each place.
    wrote: Vec<Vec<u8>>,
    /// Number of times that he has written something.
    pub(super) written: u64,
}

impl Attacker {
    pub(super) fn new(address: &str, chance: Chance) -> Self {
        let stranger = Operator::new(Identity::new(&[9; 32]));
        let (seen, wrote) = (vec![Vec::new(); GATEWAYS], vec![Vec::new(); GATEWAYS]);
        Self { stranger, directory: open(address), chance, seen, wrote, written: 0 }
    }

    /// Puts a record that he has signed, the half of one, a damaged one, or an old one into a gateway's place.
    pub(super) fn attack(&mut self) {
        let at = self.chance.below(GATEWAYS as u64) as usize;
        let key = configuration_key(operator().fleet(), &name(at));
        let Ok(Some(there)) = self.directory.get(&key) else { return };
        if there.value.is_empty() {
            return;
        }
        if there.value != self.wrote[at] {
            self.seen[at].push(there.value.clone());
        }
        let octets = there.value.len() as u64;
        let value = match self.chance.below(4) {
            0 => self.sign(at),
            1 => there.value[..there.value.len() / 2].to_vec(),
            2 => {
                let (mut damaged, bit) = (there.value, self.chance.below(8 * octets) as usize);
                damaged[bit / 8] ^= 1 << (bit % 8);
                damaged
            }
            _ => {
                let seen = &self.seen[at];
                let Some(old) = seen.get(self.chance.below(seen.len().max(1) as u64) as usize) else {
                    return;
                };
                old.clone()
            }
        };
        self.wrote[at].clone_from(&value);
        self.written += u64::from(self.directory.put(&key, &value, there.revision).is_ok());
    }

    /// A record for a gateway that looks like one of its operator, but for the signature.
    fn sign(&self, at: usize) -> Vec<u8> {
        let (gateway, member, files) = (name(at), PublicIdentity::of(&identity(at)), files(at, FOREIGN));
        let draft =
            Draft { gateway: &gateway, member: &member, kind: Kind::ConfigurationToKeep, files: &files };
        let validity = Validity { from: 0, until: u64::MAX };
        self.stranger.publish(draft, u64::MAX - 1, validity).unwrap()
    }
}
