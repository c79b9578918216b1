//! Boxes as an operator names them.

use std::fmt;
use std::str::FromStr;

use super::LONGEST_TEXT;

/// Mark of a box, by which an operator knows it before it has an identity.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Machine {
    /// Of `/etc/machine-id`.
    Id(String),
    /// The serial number that the firmware tells (`/sys/class/dmi/id/product_serial`).
    Serial(String),
    /// The public key of an identity that it has already.
    Identity(String),
}

/// Marks that a box has.
#[derive(Clone, Default, Debug)]
pub struct Machines {
    /// Of `/etc/machine-id`.
    pub id: Option<String>,
    /// Of the firmware.
    pub serial: Option<String>,
    /// Of its identity.
    pub identity: Option<String>,
}

impl Machine {
    pub(super) fn is_one_of(&self, machines: &Machines) -> bool {
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
