//! Gateways at the other ends of a part, by the names that a fleet has for them: with whom it has keys, and with whom it has none.
//!
//! ```text
//!  secured: array of names    absent: array of names    others: a number
//! ```
//!
//! A member of a group says by its MKPDUs which others it hears, so a member that is gone is noticed by those that are left, and not only when
//! its own heartbeats stay away. Who is absent is known where a configuration names the peers; a group has those that are heard.

use ciborium_ll::Header as Head;

use crate::cbor::{Malformed, Reader, push, push_text};

/// Names of peers in a heartbeat, at most, of all its parts together.
pub const MOST_PEERS: usize = 128;

/// Gateways at the other ends of a part. Names are sorted, each once.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Peers {
    secured: Vec<String>,
    absent: Vec<String>,
    others: u64,
}

impl Peers {
    /// Peers with keys, each by the name that it says, if it says one; and names of those that are known to have none. A name that no gateway of a
    /// fleet can have is counted among the others.
    pub fn new<'n>(
        secured: impl IntoIterator<Item = Option<&'n str>>,
        absent: impl IntoIterator<Item = &'n str>,
    ) -> Self {
        let (mut names, mut others) = (Vec::new(), 0);
        for name in secured {
            match name.filter(|name| config::is_name(name)) {
                Some(name) => names.push(name.to_owned()),
                None => others += 1,
            }
        }
        let mut absent: Vec<String> =
            absent.into_iter().filter(|name| config::is_name(name)).map(str::to_owned).collect();
        for names in [&mut names, &mut absent] {
            names.sort();
            names.dedup();
        }
        Self { secured: names, absent, others }
    }

    /// Those with whom it has keys.
    pub fn secured(&self) -> &[String] {
        &self.secured
    }

    /// Those with whom it has none, though it should.
    pub fn absent(&self) -> &[String] {
        &self.absent
    }

    /// The number of peers that are not named: they say no name of a fleet, or there was no room. Unless it is 0, who is not named is not known to
    /// be absent.
    pub const fn others(&self) -> u64 {
        self.others
    }

    /// As many names as there is room for; the others are counted.
    pub(super) fn within(mut self, room: &mut usize) -> Self {
        for names in [&mut self.absent, &mut self.secured] {
            let left_out = names.len().saturating_sub(*room);
            names.truncate(*room);
            *room -= names.len();
            self.others = self.others.saturating_add(left_out as u64);
        }
        self
    }

    pub(super) fn push(&self, body: &mut Vec<u8>) {
        for names in [&self.secured, &self.absent] {
            push(body, Head::Array(Some(names.len())));
            names.iter().for_each(|name| push_text(body, name));
        }
        push(body, Head::Positive(self.others));
    }

    /// Reads as many names as there is room for.
    pub(super) fn parse(reader: &mut Reader<'_>, room: &mut usize) -> Result<Self, Malformed> {
        Ok(Self { secured: names(reader, room)?, absent: names(reader, room)?, others: reader.number()? })
    }
}

/// Names in ascending order.
fn names(reader: &mut Reader<'_>, room: &mut usize) -> Result<Vec<String>, Malformed> {
    let count = reader.array()?;
    *room = room.checked_sub(count).ok_or(Malformed)?;
    let mut names: Vec<String> = Vec::with_capacity(count);
    for _ in 0..count {
        let name = reader.text()?;
        if !config::is_name(name) || names.last().is_some_and(|before| before.as_str() >= name) {
            return Err(Malformed);
        }
        names.push(name.to_owned());
    }
    Ok(names)
}
