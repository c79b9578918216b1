//! A bundle: what an operator hands to one box on a stick, so that it asks by itself to be taken into the fleet. After RFC 8572's
//! idea: signed, for one box, once.
//!
//! ```text
//!  frameward-bundle-1:BASE64 of
//!  bundle:  array of 2:  body (octets), the operator's signature of it (64)
//!  body:    map of 8:    0 fleet: the operator's public key   1 gateway: its name     2 number: rises with each bundle
//!                        3 valid from, 4 valid until          5 machine (text)        6 directory (text)     7 token (32, secret)
//! ```
//!
//! The token is a private key that signs the box's request. The operator keeps its public half. So whoever has the stick can ask in the
//! box's place, once, and the box is refused then: that is noticed. The machine is checked by the box itself, against mistakes.

use std::fmt;
use std::io;
use std::path::Path;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ciborium_ll::Header as Head;
use pnstore::{Directory, Disk as _};
use sha2::{Digest as _, Sha256};
use suite::identity::{Identity, PublicKey, SIGNATURE_OCTETS};
use zeroize::Zeroizing;

use crate::Span;
use crate::cbor::{Malformed, Reader, push, push_octets, push_text};
use crate::name::GatewayName;
use crate::operator::Operator;
use crate::record::Validity;

const PREFIX: &str = "frameward-bundle-1:";
const SIGNED: &[u8] = b"frameward fleet bundle 1\0";
/// The longest text of a bundle.
pub const BUNDLE_OCTETS: usize = 4096;
/// The longest name of a machine, and address of a directory.
const LONGEST_TEXT: usize = 1024;

/// What a box is known by before it has an identity.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Machine {
    /// What `/etc/machine-id` has.
    Id(String),
    /// The serial number that the firmware tells (`/sys/class/dmi/id/product_serial`).
    Serial(String),
    /// The public key of an identity that it has already.
    Identity(String),
}

/// What a box knows about itself.
#[derive(Clone, Default, Debug)]
pub struct Machines {
    /// Of `/etc/machine-id`.
    pub id: Option<String>,
    /// Of the firmware.
    pub serial: Option<String>,
    /// Of its identity.
    pub identity: Option<String>,
}

/// A bundle as it was read. Nothing of it is verified.
#[derive(Clone, PartialEq, Eq)]
pub struct Bundle {
    /// The fleet: its operator's public key.
    pub fleet: PublicKey,
    /// The name that the box gets.
    pub gateway: GatewayName,
    /// One more than that of the bundle before, or the time.
    pub number: u64,
    /// When it may be used.
    pub validity: Validity,
    /// The box that it is for.
    pub machine: Machine,
    /// Address of the directory.
    pub directory: String,
    token: Zeroizing<[u8; 32]>,
    signature: [u8; SIGNATURE_OCTETS],
}

/// The bundle that a box used last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Enrolled {
    /// The fleet.
    pub fleet: PublicKey,
    number: u64,
    digest: [u8; 32],
}

/// Why a bundle is not used. Nothing changes on the box.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BundleRefusal {
    /// No bundle.
    #[error("is no bundle, or damaged; have the operator make one: frameward fleet bundle")]
    Malformed,
    /// Of another operator.
    #[error("is of operator {fleet}, and this box belongs to another one")]
    Foreign {
        /// That operator's public key.
        fleet: PublicKey,
    },
    /// Not signed by whom it names.
    #[error("is not signed by the operator whom it names: somebody changed it")]
    NotSigned,
    /// For another box.
    #[error("is for the box with {0}, which this one is not")]
    OtherMachine(Machine),
    /// Valid later, by this machine's clock.
    #[error("is valid in {0} by this box's clock; is the clock right?")]
    NotYetValid(Span),
    /// Not valid any more, by this machine's clock.
    #[error(
        "ended {0} ago by this box's clock; is the clock right? If it is, have the operator make another one"
    )]
    Expired(Span),
    /// That very one was used.
    #[error("was used on this box already, and counts once; have the operator make another one")]
    Replayed,
    /// A newer one was used.
    #[error("is older than the one that was used on this box last; have the operator make another one")]
    Older,
}

impl Machine {
    fn is_one_of(&self, machines: &Machines) -> bool {
        let (own, named) = match self {
            Self::Id(named) => (&machines.id, named),
            Self::Serial(named) => (&machines.serial, named),
            Self::Identity(named) => (&machines.identity, named),
        };
        own.as_ref() == Some(named)
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(named) => write!(f, "machine-id:{named}"),
            Self::Serial(named) => write!(f, "serial:{named}"),
            Self::Identity(named) => write!(f, "identity:{named}"),
        }
    }
}

impl FromStr for Machine {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (kind, named) = text.split_once(':').unwrap_or_default();
        let is_name = !named.is_empty() && named.len() <= LONGEST_TEXT && !named.contains(char::is_control);
        match (kind, is_name) {
            ("machine-id", true) => Ok(Self::Id(named.to_owned())),
            ("serial", true) => Ok(Self::Serial(named.to_owned())),
            ("identity", true) => Ok(Self::Identity(named.to_owned())),
            _ => Err("a box is named by machine-id:HEX (of /etc/machine-id), serial:TEXT or identity:HEX"),
        }
    }
}

impl Bundle {
    /// A new bundle.
    pub fn new(
        operator: &Operator,
        gateway: &GatewayName,
        (number, validity): (u64, Validity),
        machine: Machine,
        directory: &str,
        token: &[u8; 32],
    ) -> Self {
        let mut bundle = Self {
            fleet: operator.fleet(),
            gateway: gateway.clone(),
            number,
            validity,
            machine,
            directory: directory.to_owned(),
            token: Zeroizing::new(*token),
            signature: [0; SIGNATURE_OCTETS],
        };
        bundle.signature = operator.sign(SIGNED, &bundle.body());
        bundle
    }

    /// The token, which signs the request.
    pub fn token(&self) -> Identity {
        Identity::new(&self.token)
    }

    /// Judges it on a box. `operator`: whom the box belongs to; if nobody, whoever brings the first bundle. `used`: what it used last.
    ///
    /// # Errors
    /// [`BundleRefusal`].
    pub fn judge(
        &self,
        operator: Option<PublicKey>,
        used: Option<&Enrolled>,
        machines: &Machines,
        now: u64,
    ) -> Result<Enrolled, BundleRefusal> {
        let Validity { from, until } = self.validity;
        if operator.or_else(|| used.map(|used| used.fleet)).is_some_and(|known| known != self.fleet) {
            return Err(BundleRefusal::Foreign { fleet: self.fleet });
        }
        if !self.fleet.verifies(SIGNED, &self.body(), &self.signature) {
            return Err(BundleRefusal::NotSigned);
        }
        if !self.machine.is_one_of(machines) {
            return Err(BundleRefusal::OtherMachine(self.machine.clone()));
        }
        if now < from {
            return Err(BundleRefusal::NotYetValid(Span(from - now)));
        }
        if now >= until {
            return Err(BundleRefusal::Expired(Span(now - until)));
        }
        let digest = Sha256::digest(self.encode().as_slice()).into();
        let this = Enrolled { fleet: self.fleet, number: self.number, digest };
        match used.filter(|used| used.fleet == self.fleet) {
            Some(used) if *used == this => Err(BundleRefusal::Replayed),
            Some(used) if self.number <= used.number => Err(BundleRefusal::Older),
            _ => Ok(this),
        }
    }

    fn body(&self) -> Zeroizing<Vec<u8>> {
        // Full capacity at once: a growing vector leaves copies of the token behind.
        let mut body = Zeroizing::new(Vec::with_capacity(3 * LONGEST_TEXT));
        let key = |body: &mut Vec<u8>, key| push(body, Head::Positive(key));
        push(&mut body, Head::Map(Some(8)));
        key(&mut body, 0);
        push_octets(&mut body, &self.fleet.0);
        key(&mut body, 1);
        push_text(&mut body, self.gateway.as_str());
        for (at, number) in [(2, self.number), (3, self.validity.from), (4, self.validity.until)] {
            key(&mut body, at);
            push(&mut body, Head::Positive(number));
        }
        key(&mut body, 5);
        push_text(&mut body, &self.machine.to_string());
        key(&mut body, 6);
        push_text(&mut body, &self.directory);
        key(&mut body, 7);
        push_octets(&mut body, &*self.token);
        body
    }

    fn encode(&self) -> Zeroizing<Vec<u8>> {
        let body = self.body();
        let mut octets = Zeroizing::new(Vec::with_capacity(body.len() + 2 * SIGNATURE_OCTETS));
        push(&mut octets, Head::Array(Some(2)));
        push_octets(&mut octets, &body);
        push_octets(&mut octets, &self.signature);
        octets
    }

    /// Its text, which is a secret until it was used.
    pub fn text(&self) -> Zeroizing<String> {
        let octets = self.encode();
        let mut text = Zeroizing::new(String::with_capacity(PREFIX.len() + 2 * octets.len()));
        text.push_str(PREFIX);
        STANDARD.encode_string(octets.as_slice(), &mut text);
        text.push('\n');
        text
    }

    /// Parses the text of a bundle.
    ///
    /// # Errors
    /// `Malformed`.
    pub fn parse(text: &str) -> Result<Self, BundleRefusal> {
        let digits = text.trim_end().strip_prefix(PREFIX).filter(|digits| digits.len() <= BUNDLE_OCTETS);
        let octets = digits.and_then(|digits| STANDARD.decode(digits).ok()).map(Zeroizing::new);
        let octets = octets.ok_or(BundleRefusal::Malformed)?;
        Self::parse_whole(&octets).map_err(|Malformed| BundleRefusal::Malformed)
    }

    fn parse_whole(octets: &[u8]) -> Result<Self, Malformed> {
        let mut outer = Reader::new(octets);
        if outer.array()? != 2 {
            return Err(Malformed);
        }
        let (body, signature) = (outer.octets()?, *outer.array_of()?);
        outer.end()?;
        let mut inner = Reader::new(body);
        inner.map(8)?;
        let fleet = PublicKey(*inner.key(0)?.array_of()?);
        let gateway = GatewayName::new(inner.key(1)?.text()?).ok_or(Malformed)?;
        let number = inner.key(2)?.number()?;
        let validity = Validity { from: inner.key(3)?.number()?, until: inner.key(4)?.number()? };
        let machine = inner.key(5)?.text()?.parse().map_err(|_| Malformed)?;
        let directory = inner.key(6)?.text()?;
        let token = Zeroizing::new(*inner.key(7)?.array_of()?);
        inner.end()?;
        if directory.len() > LONGEST_TEXT || directory.contains(char::is_control) {
            return Err(Malformed);
        }
        Ok(Self {
            fleet,
            gateway,
            number,
            validity,
            machine,
            directory: directory.to_owned(),
            token,
            signature,
        })
    }
}

impl fmt::Debug for Bundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bundle")
            .field("gateway", &self.gateway)
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

impl Enrolled {
    /// The file in the state directory that has it.
    pub const FILE: &str = "enrolled";

    /// What this box used last; nothing if it used none.
    ///
    /// # Errors
    /// The system's, or if the file is damaged: taken for empty it would let a bundle count twice.
    pub fn recall(state: &Path) -> io::Result<Option<Self>> {
        let kept = Directory::open(state)?.read(Self::FILE)?;
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, "it is damaged");
        kept.map(|octets| Self::parse(&octets).ok_or_else(damaged)).transpose()
    }

    /// Has this box remember it. Durable at return.
    ///
    /// # Errors
    /// The system's.
    pub fn remember(&self, state: &Path) -> io::Result<()> {
        pnstore::replace(&mut Directory::open(state)?, Self::FILE, &self.encode())
    }

    /// As it is kept: array of 4: fleet, number, SHA-256 of the bundle, SHA-256 of these.
    pub fn encode(&self) -> Vec<u8> {
        let mut octets = Vec::new();
        push(&mut octets, Head::Array(Some(4)));
        push_octets(&mut octets, &self.fleet.0);
        push(&mut octets, Head::Positive(self.number));
        push_octets(&mut octets, &self.digest);
        push_octets(&mut octets, &self.check());
        octets
    }

    /// `None` if it is damaged.
    pub fn parse(octets: &[u8]) -> Option<Self> {
        Self::parse_whole(octets).ok()
    }

    fn parse_whole(octets: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(octets);
        let items = reader.array()?;
        let (fleet, number) = (PublicKey(*reader.array_of()?), reader.number()?);
        let read = Self { fleet, number, digest: *reader.array_of()? };
        let check: &[u8; 32] = reader.array_of()?;
        reader.end()?;
        if items == 4 && *check == read.check() { Ok(read) } else { Err(Malformed) }
    }

    /// Tells damage, not malice.
    fn check(&self) -> [u8; 32] {
        let hash = Sha256::new().chain_update(self.fleet.0).chain_update(self.number.to_be_bytes());
        hash.chain_update(self.digest).finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: u64 = 1_800_000_000;

    fn operator(seed: u8) -> Operator {
        Operator::new(Identity::new(&[seed; 32]))
    }

    fn bundle(operator: &Operator, number: u64) -> Bundle {
        let validity = Validity { from: NOW - 10, until: NOW + 100 };
        let name = GatewayName::new("press").unwrap();
        let machine = Machine::Serial("SN 1/a".to_owned());
        Bundle::new(operator, &name, (number, validity), machine, "etcd://10.0.0.1", &[5; 32])
    }

    #[test]
    fn each_bundle_that_is_not_for_this_box_now_is_refused_for_its_reason() {
        let machines = Machines { serial: Some("SN 1/a".to_owned()), ..Machines::default() };
        let (ours, theirs) = (operator(1), operator(2));
        let fleet = ours.fleet();
        let good = bundle(&ours, 7);
        assert_eq!(Bundle::parse(&good.text()), Ok(good.clone()));
        let used = good.judge(None, None, &machines, NOW).unwrap();
        assert_eq!(good.judge(Some(fleet), None, &machines, NOW), Ok(used));
        let judge = |bundle: &Bundle, used, now| bundle.judge(None, used, &machines, now);
        let foreign = BundleRefusal::Foreign { fleet: theirs.fleet() };
        assert_eq!(bundle(&theirs, 9).judge(Some(fleet), None, &machines, NOW), Err(foreign.clone()));
        assert_eq!(
            judge(&bundle(&theirs, 9), Some(&used), NOW),
            Err(foreign),
            "whom it belongs to is remembered"
        );
        let changed = Bundle { directory: "etcd://10.6.6.6".to_owned(), ..good.clone() };
        assert_eq!(judge(&changed, None, NOW), Err(BundleRefusal::NotSigned));
        let renamed = Bundle { fleet: theirs.fleet(), ..good.clone() };
        assert_eq!(judge(&renamed, None, NOW), Err(BundleRefusal::NotSigned));
        let other =
            good.judge(None, None, &Machines { id: machines.serial.clone(), ..Machines::default() }, NOW);
        assert_eq!(other, Err(BundleRefusal::OtherMachine(good.machine.clone())));
        assert_eq!(judge(&good, None, NOW - 11), Err(BundleRefusal::NotYetValid(Span(1))));
        assert_eq!(judge(&good, None, NOW + 101), Err(BundleRefusal::Expired(Span(1))));
        assert_eq!(judge(&good, Some(&used), NOW), Err(BundleRefusal::Replayed));
        assert_eq!(judge(&bundle(&ours, 6), Some(&used), NOW), Err(BundleRefusal::Older));
        assert!(judge(&bundle(&ours, 8), Some(&used), NOW).is_ok());
        assert_eq!(
            format!("{good:?}"),
            "Bundle { gateway: GatewayName(\"press\"), number: 7, .. }",
            "no token"
        );
    }

    #[test]
    fn other_texts_are_no_bundle_and_a_damaged_memory_is_none() {
        let text = bundle(&operator(1), 7).text();
        for bad in [
            "",
            PREFIX,
            "frameward-bundle-2:AAAA",
            &text[..text.len() - 3],
            &format!("{PREFIX}{}", "A".repeat(1 << 20)),
        ] {
            assert_eq!(Bundle::parse(bad), Err(BundleRefusal::Malformed), "{bad:.40}");
        }
        let machines = Machines { serial: Some("SN 1/a".to_owned()), ..Machines::default() };
        let octets = bundle(&operator(1), 7).judge(None, None, &machines, NOW).unwrap().encode();
        assert!(Enrolled::parse(&octets).is_some());
        for i in 0..octets.len() {
            let mut changed = octets.clone();
            changed[i] ^= 1;
            assert_eq!(Enrolled::parse(&changed), None, "octet {i}");
        }
        for text in ["serial:", "mac:02", "serial", "serial:a\nb", &format!("serial:{}", "a".repeat(2000))] {
            assert!(text.parse::<Machine>().is_err(), "{text:.20}");
        }
    }

    proptest! {
        // The signature is judged later, so most changes are read.
        #[test]
        fn what_is_read_encodes_to_itself(at in any::<prop::sample::Index>(), octet: u8, cut in 0..3_usize) {
            let valid = bundle(&operator(1), 7).encode().to_vec();
            prop_assert!(Bundle::parse_whole(&valid).is_ok());
            let mut octets = valid.clone();
            octets.truncate(valid.len() - cut);
            let at = at.index(octets.len());
            octets[at] = octet;
            match Bundle::parse_whole(&octets) {
                Ok(bundle) => prop_assert_eq!(bundle.encode().to_vec(), octets),
                Err(_) => prop_assert_ne!(octets, valid),
            }
        }
    }
}
