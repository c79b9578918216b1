//! Key agreement that is overheard: with its CAK each MKPDU is judged as a KaY would, and SAKs become SAs.
//!
//! ```text
//!  MKPDU ── CKN, ICV ──▶ who has which MI and SCI ─────┐
//!             └── Distributed SAK ── KEK ──▶ SAK, members ──▶ an SA for each SC that has the SAK, and for its express SC
//! ```
//!
//! SSCIs of an XPN suite are places in the order of the members' SCIs (IEEE 802.1AE-2018 clause 10.7.13). So its SAs are
//! made when all members have been heard.
//!
//! A SAK is taken from whoever hands it out: whose word counts, of several key servers, is for those to know who take part.
//! The memory is bounded, and the oldest entry goes first; a sender without a CAK adds nothing to it.

use std::collections::VecDeque;
use std::path::PathBuf;

use secy::{ConfidentialityOffset, XpnBinding};
use suite::mka::{self, Cak, Ick, Kek};
use suite::{CipherSuite, Sak};
use wire::mkpdu::{ALGORITHM_AGILITY, Confidentiality, DistributedSak, KeyUse, Mkpdu, ParameterSet, Tlv};
use wire::{An, Ckn, Ki, Mi, Sci, Ssci};

use super::keys::{KeyedCak, KeyedSa};
use config::sa_file::Begins;
use config::{Origin, StaticSa};

/// Participants that are remembered.
const ACTORS: usize = 256;
/// SAKs that are remembered.
const SAKS: usize = 32;
/// MKPDUs that no CAK verifies for which others are tried.
const DIAGNOSES: u32 = 256;

/// Why a KaY would discard an MKPDU, or its SAK.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Its algorithms are none of the standard's.
    OtherAgility([u8; 4]),
    /// There is no CAK of this name.
    UnknownCkn(Ckn),
    /// The ICV is wrong; so many MKPDUs of its sender were right.
    WrongIcv(u64),
    /// Its MN is not above the last one of its sender, this one.
    OldMn(u32),
    /// The SAK is not wrapped under this CAK's KEK.
    Unwrap,
    /// The SAK is for a suite with this identifier, which is not known.
    UnknownSuite([u8; 8]),
    /// The confidentiality offset does not go with the suite.
    Offset(CipherSuite),
}

impl Refusal {
    /// The KaY's counter for it.
    pub const fn counter(self) -> &'static str {
        match self {
            Self::OtherAgility(_) => "MkpdusOtherAgility",
            Self::UnknownCkn(_) => "MkpdusUnknownCkn",
            Self::WrongIcv(_) => "MkpdusWrongIcv",
            Self::OldMn(_) => "MkpdusOldMn",
            Self::Unwrap | Self::UnknownSuite(_) | Self::Offset(_) => "SaksRefused",
        }
    }
}

/// News of an MKPDU.
#[derive(Debug, Default)]
pub struct PeerEntry {
    /// Why it is bad.
    pub refusal: Option<Refusal>,
    /// The mistake that explains it.
    pub note: Option<String>,
    /// The SAK that it hands out, if it was not known.
    pub new_sak: Option<AgreedSak>,
    /// SAs that can be verified from here on.
    pub sas: Vec<KeyedSa>,
}

/// A SAK, as far as it is told of.
#[derive(Clone, Copy, Debug)]
pub struct AgreedSak {
    /// Its KI.
    pub ki: Ki,
    /// Its CAK's name.
    pub ckn: Ckn,
    /// Its AN.
    pub an: An,
    /// Its suite.
    pub suite: CipherSuite,
}

/// Key agreement under some CAKs, as a bystander knows it.
#[derive(Debug)]
pub struct Overheard {
    caks: Vec<Known>,
    actors: VecDeque<Actor>,
    saks: VecDeque<HandedOut>,
    diagnoses: u32,
}

/// A CAK, and the keys that are derived from it.
#[derive(Debug)]
struct Known {
    keyed: KeyedCak,
    cak: Cak,
    ick: Ick,
    kek: Kek,
}

/// A participant, as one capture interface hears it.
#[derive(Debug)]
struct Actor {
    interface: usize,
    cak: usize,
    mi: Mi,
    sci: Sci,
    mn: u32,
    verified: u64,
    /// The keys that it uses.
    uses: [Option<KeyUse>; 2],
    /// It announced express SCs, so it may have one.
    express: bool,
}

/// A SAK that was handed out.
#[derive(Debug)]
struct HandedOut {
    cak: usize,
    ki: Ki,
    an: An,
    suite: CipherSuite,
    offset: ConfidentialityOffset,
    key: Sak,
    /// Live members of the key server then, itself included.
    members: Vec<Mi>,
    /// The SCs that have an SA.
    scis: Vec<Sci>,
}

impl Overheard {
    /// Nothing was heard yet.
    pub fn new(caks: Vec<KeyedCak>) -> Self {
        let known = |keyed: KeyedCak| {
            let cak = Cak::new(keyed.cak.octets()).expect("invariant: 16 or 32 octets, by its file");
            let ckn = keyed.cak.ckn();
            Known { ick: cak.ick(&ckn), kek: cak.kek(&ckn), cak, keyed }
        };
        Self {
            caks: caks.into_iter().map(known).collect(),
            actors: VecDeque::new(),
            saks: VecDeque::new(),
            diagnoses: 0,
        }
    }

    /// Whether there is a CAK at all.
    pub fn has_caks(&self) -> bool {
        !self.caks.is_empty()
    }

    /// Judges an MKPDU. Costs one AES-CMAC for each CAK of its name.
    pub fn hear(&mut self, interface: usize, mkpdu: &Mkpdu<'_>) -> PeerEntry {
        let cak = match self.verify(mkpdu) {
            Ok(cak) => cak,
            Err(refusal) => {
                let note = self.diagnose(mkpdu, refusal);
                return PeerEntry { refusal: Some(refusal), note, ..PeerEntry::default() };
            }
        };
        let mut heard = PeerEntry::default();
        if let Err(last) = self.note_actor(interface, cak, mkpdu) {
            return PeerEntry { refusal: Some(Refusal::OldMn(last)), ..heard };
        }
        for set in mkpdu.sets() {
            if let ParameterSet::DistributedSak(Some(offered)) = set {
                match self.take(cak, mkpdu, &offered) {
                    Ok(new) => heard.new_sak = new,
                    Err(refusal) => heard.refusal = Some(refusal),
                }
            }
        }
        heard.sas = self.new_sas();
        heard
    }

    fn verify(&self, mkpdu: &Mkpdu<'_>) -> Result<usize, Refusal> {
        let basic = &mkpdu.basic;
        if basic.agility != ALGORITHM_AGILITY {
            return Err(Refusal::OtherAgility(basic.agility));
        }
        let mut named =
            self.caks.iter().enumerate().filter(|(_, known)| known.keyed.cak.ckn() == basic.ckn).peekable();
        if named.peek().is_none() {
            return Err(Refusal::UnknownCkn(basic.ckn));
        }
        let found = named.find(|(_, known)| known.ick.verifies(mkpdu.authenticated(), mkpdu.icv()));
        let verified = || {
            let same =
                |actor: &&Actor| actor.sci == basic.sci && self.caks[actor.cak].keyed.cak.ckn() == basic.ckn;
            self.actors.iter().filter(same).map(|actor| actor.verified).sum()
        };
        found.map(|(index, _)| index).ok_or_else(|| Refusal::WrongIcv(verified()))
    }

    /// Another CAK, or another name, that would have verified the MKPDU.
    fn diagnose(&mut self, mkpdu: &Mkpdu<'_>, refusal: Refusal) -> Option<String> {
        let ckn = mkpdu.basic.ckn;
        if !matches!(refusal, Refusal::UnknownCkn(_) | Refusal::WrongIcv(_)) || self.diagnoses == DIAGNOSES {
            return None;
        }
        self.diagnoses += 1;
        let opens = |known: &&Known| {
            known.keyed.cak.ckn() != ckn && known.cak.ick(&ckn).verifies(mkpdu.authenticated(), mkpdu.icv())
        };
        let known = self.caks.iter().find(opens)?;
        let (own, from) = (known.keyed.cak.ckn(), &known.keyed.from);
        Some(format!(
            "it verifies with the CAK of {from}, which has CKN {own} there: set one CKN at both ends"
        ))
    }

    /// Remembers who speaks.
    ///
    /// # Errors
    /// The last MN, if that of the MKPDU is not above it.
    fn note_actor(&mut self, interface: usize, cak: usize, mkpdu: &Mkpdu<'_>) -> Result<(), u32> {
        let (mi, sci, mn) = (mkpdu.basic.mi, mkpdu.basic.sci, mkpdu.basic.mn);
        let is_known = |actor: &Actor| (actor.interface, actor.cak, actor.mi) == (interface, cak, mi);
        let mut actor = match self.actors.iter().position(is_known) {
            Some(index) if self.actors[index].mn >= mn => return Err(self.actors[index].mn),
            // It goes to the end: who speaks is not the oldest.
            Some(index) => self.actors.remove(index).expect("invariant: it was found there"),
            None => Actor { interface, cak, mi, sci, mn, verified: 0, uses: [None; 2], express: false },
        };
        (actor.sci, actor.mn, actor.verified, actor.uses) = (sci, mn, actor.verified + 1, [None; 2]);
        for set in mkpdu.sets() {
            match set {
                ParameterSet::SakUse(sak_use) => actor.uses = [sak_use.latest, sak_use.old],
                ParameterSet::Announcement(tlvs) => {
                    let express = |tlv| matches!(tlv, Tlv::Extensions(extensions, _) if extensions.express);
                    actor.express = tlvs.iter().any(express);
                }
                _ => {}
            }
        }
        if self.actors.len() == ACTORS {
            self.actors.pop_front();
        }
        self.actors.push_back(actor);
        Ok(())
    }

    /// Unwraps a SAK that was not known.
    fn take(
        &mut self,
        cak: usize,
        mkpdu: &Mkpdu<'_>,
        offered: &DistributedSak<'_>,
    ) -> Result<Option<AgreedSak>, Refusal> {
        let ki = Ki { server: mkpdu.basic.mi, kn: offered.kn };
        if self.saks.iter().any(|sak| (sak.cak, sak.ki) == (cak, ki)) {
            return Ok(None);
        }
        let suite = match offered.suite {
            None => CipherSuite::GcmAes128,
            Some(identifier) => {
                CipherSuite::from_identifier(identifier).ok_or(Refusal::UnknownSuite(identifier))?
            }
        };
        let offset = match offered.confidentiality {
            Confidentiality::Integrity | Confidentiality::Zero => ConfidentialityOffset::Zero,
            _ if !suite.allows_confidentiality_offset() => return Err(Refusal::Offset(suite)),
            Confidentiality::Thirty => ConfidentialityOffset::Thirty,
            Confidentiality::Fifty => ConfidentialityOffset::Fifty,
        };
        let known = &self.caks[cak];
        let key = known.kek.unwrap(suite, offered.wrapped).map_err(|_| Refusal::Unwrap)?;
        let live = mkpdu.sets().filter_map(|set| match set {
            ParameterSet::LivePeers { peers, .. } => Some(peers),
            _ => None,
        });
        let members = live.flat_map(|peers| peers.iter()).map(|heard| heard.mi).chain([ki.server]).collect();
        let an = offered.an;
        if self.saks.len() == SAKS {
            self.saks.pop_front();
        }
        self.saks.push_back(HandedOut { cak, ki, an, suite, offset, key, members, scis: Vec::new() });
        Ok(Some(AgreedSak { ki, ckn: known.keyed.cak.ckn(), an, suite }))
    }

    /// SAs of SCs whose SCI, and with XPN whose SSCI, is known since the last MKPDU.
    fn new_sas(&mut self) -> Vec<KeyedSa> {
        let Self { caks, actors, saks, .. } = self;
        let mut sas = Vec::new();
        for sak in saks {
            let of_cak = || actors.iter().filter(|actor| actor.cak == sak.cak);
            let sci = |mi: &Mi| of_cak().find(|actor| actor.mi == *mi).map(|actor| actor.sci);
            let mut scis: Vec<Sci> = sak.members.iter().filter_map(sci).collect();
            if sak.suite.is_xpn() {
                // Each has an SSCI when all have one.
                if scis.len() < sak.members.len() || !sak.scis.is_empty() {
                    continue;
                }
            } else {
                // A member admitted under it later says so.
                let uses = |actor: &&Actor| actor.uses.iter().flatten().any(|key| key.ki == sak.ki);
                scis.extend(of_cak().filter(uses).map(|actor| actor.sci));
            }
            // The highest SCI has SSCI 1.
            scis.sort_unstable_by(|one, other| other.cmp(one));
            scis.dedup();
            for (ssci, sci) in (1..).zip(scis) {
                if !sak.scis.contains(&sci) {
                    sak.scis.push(sci);
                    let keyed = &caks[sak.cak].keyed;
                    sas.push(sak.sa(keyed, sci, Ssci(ssci), sak.key.clone()));
                    // An express SC has the SSCI of the other one, and another key.
                    if of_cak().any(|actor| actor.sci == sci && actor.express) {
                        let express = sci.express().zip(sak.key.express(sak.suite));
                        sas.extend(express.map(|(sci, key)| sak.sa(keyed, sci, Ssci(ssci), key)));
                    }
                }
            }
        }
        sas
    }

    /// Why there is no key for a frame: its sender's SAK was not handed out in this capture, or not to all that is needed.
    pub fn missing(&self, an: An, sci: Option<Sci>) -> Option<String> {
        let sci = sci?;
        let senders = self.actors.iter().rev().filter(|actor| actor.sci == sci);
        let (actor, ki) = senders
            .flat_map(|actor| actor.uses.iter().flatten().map(move |key| (actor, key)))
            .find(|(_, key)| key.an == an && key.tx)
            .map(|(actor, key)| (actor, key.ki))?;
        let Some(sak) = self.saks.iter().find(|sak| (sak.cak, sak.ki) == (actor.cak, ki)) else {
            return Some(format!(
                "its sender uses SAK {ki}, which no MKPDU of this capture distributes: capture from the start, or over a rekey (frameward rekey)"
            ));
        };
        let heard = |mi: &&Mi| self.actors.iter().any(|actor| (actor.cak, actor.mi) == (sak.cak, **mi));
        let missing = sak.members.iter().find(|mi| !heard(mi)).filter(|_| sak.suite.is_xpn())?;
        Some(format!(
            "its sender uses SAK {ki}, whose SSCIs depend on the SCI of member {missing}, of which the capture has no MKPDU"
        ))
    }
}

impl HandedOut {
    fn sa(&self, cak: &KeyedCak, sci: Sci, ssci: Ssci, key: Sak) -> KeyedSa {
        let xpn = self.suite.is_xpn().then(|| XpnBinding { ssci, salt: mka::salt(&self.ki) });
        KeyedSa {
            from: format!("SAK {}", self.ki),
            ki: Some(self.ki),
            suite: self.suite,
            sa: StaticSa {
                an: self.an,
                sci,
                key,
                key_file: Origin(PathBuf::new()),
                line: Origin(0),
                xpn,
                replay_floor: true,
            },
            offset: self.offset,
            replay: cak.replay,
            clear_vlan: cak.clear_vlan,
            reassemble: cak.reassemble,
            // The PNs of a new SAK begin at 1.
            begins: Begins::High(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_counted_as_a_kay_counts_them() {
        let ckn = Ckn::new(b"line").unwrap();
        for refusal in [
            Refusal::OtherAgility([0; 4]),
            Refusal::UnknownCkn(ckn),
            Refusal::WrongIcv(0),
            Refusal::OldMn(1),
            Refusal::Unwrap,
        ] {
            assert!(::mka::KayCounters::NAMES.contains(&refusal.counter()), "{refusal:?}");
        }
    }
}
