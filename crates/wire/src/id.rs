//! Identifiers of the standards, one newtype each: an SCI cannot stand in for an SSCI.
//!
//! ```text
//! SCI (8 octets)   System Identifier 6 (a MAC address) | Port Identifier 2      IEEE 802.1AE clause 8.2.1
//! AN  (2 bits)     Association Number, numbers the SAs of an SC                 clause 8.2.1
//! PN  (32 or 64)   Packet Number; only its low 32 bits are on the wire          clause 9.8
//! SSCI (4 octets)  Short SCI of the XPN suites                                  clause 10.7.13
//! ```

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

/// A 48-bit MAC address, in wire order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// True for group addresses (multicast and broadcast): the low bit of the first octet.
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Error of a text that is no identifier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParseIdError {
    /// Not six colon-separated pairs of hexadecimal digits.
    MacAddr,
    /// Not `MAC/port`, with a decimal port from 0 to 65535.
    Sci,
}

impl fmt::Display for ParseIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MacAddr => "not a MAC address such as 02:00:00:00:00:01",
            Self::Sci => "not an SCI such as 02:00:00:00:00:01/1 (MAC address, slash, port identifier)",
        })
    }
}

impl core::error::Error for ParseIdError {}

impl FromStr for MacAddr {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let mut octets = [0; 6];
        let mut parts = text.split(':');
        for octet in &mut octets {
            let part = parts.next().ok_or(ParseIdError::MacAddr)?;
            if part.len() != 2 || !part.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(ParseIdError::MacAddr);
            }
            *octet = u8::from_str_radix(part, 16).map_err(|_| ParseIdError::MacAddr)?;
        }
        if parts.next().is_some() { Err(ParseIdError::MacAddr) } else { Ok(Self(octets)) }
    }
}

/// Secure Channel Identifier: a System Identifier (MAC address) and a Port Identifier, 8 octets
/// (IEEE 802.1AE clause 8.2.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Sci([u8; 8]);

impl Sci {
    /// Port identifier of an end station's SCI, when the SecTAG omits the SCI (clause 9.5).
    pub const PORT_END_STATION: u16 = 1;
    /// The reserved port identifier of EPON's Single Copy Broadcast channel (clause 9.5).
    pub const PORT_SINGLE_COPY_BROADCAST: u16 = 0;

    /// The bit of a port identifier that an express SC has, and no other SC of its station.
    const PORT_EXPRESS: u16 = 0x8000;

    /// Builds an SCI from its two parts.
    pub const fn new(system: MacAddr, port: u16) -> Self {
        let [a, b, c, d, e, f] = system.0;
        let [g, h] = port.to_be_bytes();
        Self([a, b, c, d, e, f, g, h])
    }

    /// An SCI from its wire encoding.
    pub const fn from_octets(octets: [u8; 8]) -> Self {
        Self(octets)
    }

    /// The eight octets, as on the wire and in the nonce.
    pub const fn octets(self) -> [u8; 8] {
        self.0
    }

    /// The System Identifier.
    pub const fn system(self) -> MacAddr {
        let [a, b, c, d, e, f, _, _] = self.0;
        MacAddr([a, b, c, d, e, f])
    }

    /// The Port Identifier.
    pub const fn port(self) -> u16 {
        u16::from_be_bytes([self.0[6], self.0[7]])
    }

    /// SCI of the express SC of the station whose other frames have this SCI: the highest bit of the port identifier is set. `None`
    /// if it is set here already: such a station has no express SC.
    pub const fn express(self) -> Option<Self> {
        if self.port() & Self::PORT_EXPRESS != 0 {
            return None;
        }
        Some(Self::new(self.system(), self.port() | Self::PORT_EXPRESS))
    }
}

impl fmt::Display for Sci {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.system(), self.port())
    }
}

impl fmt::Debug for Sci {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Sci {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let (system, port) = text.split_once('/').ok_or(ParseIdError::Sci)?;
        let system = system.parse().map_err(|_| ParseIdError::Sci)?;
        if !port.bytes().all(|b| b.is_ascii_digit()) {
            return Err(ParseIdError::Sci);
        }
        Ok(Self::new(system, port.parse().map_err(|_| ParseIdError::Sci)?))
    }
}

/// Association Number: 0 to 3, numbers the SAs of one SC (clause 8.2.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct An(u8);

impl An {
    /// Number of ANs.
    pub const COUNT: usize = 4;
    /// All ANs, in order.
    pub const ALL: [Self; Self::COUNT] = [Self(0), Self(1), Self(2), Self(3)];

    /// An AN, if `number` is 0 to 3.
    pub const fn new(number: u8) -> Option<Self> {
        if number < 4 { Some(Self(number)) } else { None }
    }

    /// The AN in the two low bits of a TCI octet (clause 9.5).
    pub const fn from_tci(octet: u8) -> Self {
        Self(octet & 0x03)
    }

    /// The number, 0 to 3.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// The number as an index into a table of [`An::COUNT`] entries.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for An {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Packet Number of a frame in an SA, never 0: 32 bits, or 64 with an XPN suite (clauses 9.8, 10.6.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pn(core::num::NonZeroU64);

impl Pn {
    /// The first PN of an SA.
    pub const FIRST: Self = Self(core::num::NonZeroU64::MIN);
    /// The last PN of a 32-bit suite, 2^32 - 1.
    pub const LAST_32: Self = match Self::new(u32::MAX as u64) {
        Some(pn) => pn,
        None => Self::FIRST,
    };
    /// The last PN of an XPN suite, 2^64 - 1.
    pub const LAST_64: Self = Self(core::num::NonZeroU64::MAX);

    /// A PN, unless `number` is 0.
    pub const fn new(number: u64) -> Option<Self> {
        match core::num::NonZeroU64::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// The number.
    pub const fn number(self) -> u64 {
        self.0.get()
    }

    /// The low 32 bits, which the SecTAG carries.
    pub const fn low(self) -> u32 {
        self.0.get() as u32
    }
}

impl fmt::Display for Pn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Debug for Pn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Short Secure Channel Identifier: replaces the SCI in the nonce of the XPN suites (clause 10.7.13).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Ssci(pub u32);

/// Member Identifier: 96 random bits, drawn at each start of a participant (IEEE 802.1X-2020 clause 9.4.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Mi(pub [u8; 12]);

/// Key Identifier: the key server's MI and its number of the SAK (IEEE 802.1X-2020 clause 9.8).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Ki {
    /// The key server's MI at the time it distributed the SAK.
    pub server: Mi,
    /// The Key Number, from 1.
    pub kn: u32,
}

/// Connectivity Association Key Name: 1 to 32 octets that name a CAK. Not secret (IEEE 802.1X-2020 clause
/// 9.3.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "CknOctets", into = "CknOctets")]
pub struct Ckn {
    octets: [u8; Self::LONGEST],
    length: u8,
}

impl Ckn {
    /// The most octets of a name.
    pub const LONGEST: usize = 32;

    /// A name of 1 to 32 octets.
    pub fn new(name: &[u8]) -> Option<Self> {
        let length = u8::try_from(name.len()).ok().filter(|length| (1..=32).contains(length))?;
        let mut octets = [0; Self::LONGEST];
        octets[..name.len()].copy_from_slice(name);
        Some(Self { octets, length })
    }

    /// The octets.
    pub fn octets(&self) -> &[u8] {
        &self.octets[..usize::from(self.length)]
    }
}

/// A name as it is passed on: its octets, and zeros behind them.
#[derive(Serialize, Deserialize)]
struct CknOctets {
    octets: [u8; Ckn::LONGEST],
    length: u8,
}

impl From<Ckn> for CknOctets {
    fn from(Ckn { octets, length }: Ckn) -> Self {
        Self { octets, length }
    }
}

impl TryFrom<CknOctets> for Ckn {
    type Error = &'static str;

    fn try_from(CknOctets { octets, length }: CknOctets) -> Result<Self, Self::Error> {
        octets.get(..usize::from(length)).and_then(Self::new).ok_or("no CKN")
    }
}

impl From<An> for u8 {
    fn from(an: An) -> Self {
        an.number()
    }
}

impl TryFrom<u8> for An {
    type Error = &'static str;

    fn try_from(number: u8) -> Result<Self, Self::Error> {
        Self::new(number).ok_or("no AN")
    }
}

impl fmt::Display for Mi {
    /// As 24 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

impl fmt::Display for Ki {
    /// As `MI/KN`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.server, self.kn)
    }
}

impl fmt::Display for Ckn {
    /// As hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.octets().iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

impl fmt::Debug for Ckn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn identifiers_print_as_they_parse() {
        for text in ["02:00:00:00:00:01/1", "00:1b:1b:ff:00:a0/0", "ff:ff:ff:ff:ff:ff/65535"] {
            let sci: Sci = text.parse().expect(text);
            assert_eq!(sci.to_string(), text);
            assert_eq!(Sci::from_octets(sci.octets()), sci);
            assert_eq!(Sci::new(sci.system(), sci.port()), sci);
        }
    }

    #[test]
    fn an_express_sc_has_a_port_that_no_other_sc_has() {
        for (text, express) in [("02:00:00:00:00:01/1", 32769), ("02:00:00:00:00:01/32767", 65535)] {
            let sci: Sci = text.parse().expect(text);
            let of = sci.express().expect("a port below 32768");
            assert_eq!((of.system(), of.port()), (sci.system(), express));
            assert_eq!(of.express(), None);
        }
    }

    #[test]
    fn malformed_identifiers_are_refused() {
        for text in [
            "",
            "/",
            "02:00:00:00:00:01",
            "02:00:00:00:00:01/",
            "02:00:00:00:00:01/65536",
            "02:00:00:00:00/1",
            "02:00:00:00:00:01:02/1",
            "+2:00:00:00:00:01/1",
            "02:00:00:00:00:01/+1",
            "2:0:0:0:0:1/1",
            "02-00-00-00-00-01/1",
        ] {
            assert_eq!(text.parse::<Sci>(), Err(ParseIdError::Sci), "{text:?}");
        }
    }

    #[test]
    fn a_pn_is_never_zero_and_an_an_never_above_three() {
        assert_eq!(Pn::new(0), None);
        assert_eq!(Pn::LAST_32.number(), 4_294_967_295);
        assert_eq!(Pn::new(1 << 32).map(Pn::low), Some(0));
        assert_eq!(An::new(4), None);
        assert_eq!(An::from_tci(0xff), An::ALL[3]);
    }
}
