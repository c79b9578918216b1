//! The log of what a KaY was told: one JSON object a line, so that a fault in the field can be looked at again offline
//! (`frameward inspect --replay`).
//!
//! ```text
//!  {"t":0,"begin":{"link":"press","unix":1792000000,"settings":{...},"ckns":["31323334"],"seed":"..."}}
//!  {"t":1520,"frame":"0180c2000003..."}       {"t":2000000,"timeout":null}      {"t":...,"installed":"MI/KN"}
//! ```
//!
//! A frame whose ICV no CAK verifies is a `stranger` instead of a `frame`; of these a small part of the log is kept, so that
//! nobody without the CAK can fill it. Lines are written by a thread of its own: a disk that stands still costs entries,
//! which are counted (`lost`), and no MKPDU.
//!
//! `t` counts microseconds on the KaY's clock. There is no key in it, and nothing that a key could be made of without a
//! CAK; who has both the log and the CAK has the SAKs, as who has a capture and the CAK.

mod settings;
#[cfg(test)]
mod tests;
mod writer;

use mka::Report;
use serde::{Deserialize, Serialize};
use wire::{Ckn, Ki, Mi};

pub use settings::LoggedSettings;
pub use writer::KayLog;

/// A line.
#[derive(Serialize, Deserialize, Debug)]
pub struct Line {
    /// Microseconds on the KaY's clock.
    pub t: u64,
    /// The input.
    #[serde(flatten)]
    pub entry: Entry,
}

/// Input of a KaY.
#[derive(Serialize, Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// It began.
    Begin {
        /// The link's name.
        link: String,
        /// Seconds since 1970 at that moment.
        unix: u64,
        /// Its settings.
        settings: Box<LoggedSettings>,
        /// The names of its CAKs.
        ckns: Vec<String>,
        /// Seed of its random values.
        #[serde(with = "hex::serde")]
        seed: [u8; 32],
    },
    /// It was given other settings or CAKs.
    Change {
        /// Its settings.
        settings: Box<LoggedSettings>,
        /// The names of its CAKs.
        ckns: Vec<String>,
    },
    /// A frame of a member: its ICV was right.
    Frame(#[serde(with = "hex::serde")] Vec<u8>),
    /// A frame that anybody may have sent.
    Stranger(#[serde(with = "hex::serde")] Vec<u8>),
    /// There were as many of these as may be: those that came afterwards are not in the log.
    StrangersFull(()),
    /// Time.
    Timeout(()),
    /// The SecY has installed this SAK.
    Installed(String),
    /// The SecY protects with this SAK.
    Transmitting(String),
    /// The next PN of this SAK's transmit SA.
    NextPn(String, u64),
    /// Another SAK was asked for.
    Rekey(()),
    /// The log is as long as it may be: what the KaY was told afterwards is not in it.
    Full(()),
    /// Number of entries missing before this one, since the disk was too slow.
    Lost(u64),
}

impl Entry {
    /// A report of the SecY.
    pub fn of_report(report: Report) -> Self {
        match report {
            Report::Installed(ki) => Self::Installed(ki.to_string()),
            Report::Transmitting(ki) => Self::Transmitting(ki.to_string()),
            Report::NextPn { ki, next_pn } => Self::NextPn(ki.to_string(), next_pn),
        }
    }
}

/// A KI as it stands in a line: `MI/KN`.
pub fn ki(text: &str) -> Option<Ki> {
    let (server, kn) = text.split_once('/')?;
    let mut mi = [0; 12];
    hex::decode_to_slice(server, &mut mi).ok()?;
    Some(Ki { server: Mi(mi), kn: kn.parse().ok()? })
}

/// A CKN as it stands in a line.
pub fn ckn(text: &str) -> Option<Ckn> {
    Ckn::new(&hex::decode(text).ok()?)
}
