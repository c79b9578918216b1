//! Names of stations beside their SCIs: what they call themselves, for people. Nothing is decided by a name.
//!
//! A name is a claim of whoever has the CAK, and two stations may make the same one. So it never stands without its SCI.

use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Serialize};
use wire::mkpdu::SystemName;
use wire::{Instant, Sci};

use crate::peer::LIVE;
use crate::timers::LIFE;

/// Most names: those of all live peers under two CAKs. A new one evicts the one that was unheard for longest.
const NAMES: usize = 2 * LIVE;

/// Names of the stations that are live or were of late.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Names {
    /// The one heard last is the last one.
    heard: Vec<Heard>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Heard {
    sci: Sci,
    /// None if it had one before: it stays here, for `told`.
    name: Option<SystemName>,
    /// Time at which operators heard last that it has another name.
    told: Option<Instant>,
}

/// Something to be told, with names beside the SCIs in it.
#[derive(Clone, Copy, Debug)]
pub struct Named<'n, T> {
    pub(crate) told: &'n T,
    pub(crate) names: &'n Names,
}

/// An SCI, and behind it the name in quotation marks.
#[derive(Clone, Copy, Debug)]
pub struct NamedSci<'n>(pub(crate) Sci, pub(crate) Option<&'n SystemName>);

impl Names {
    /// Returns the name of the station with this SCI.
    pub fn of(&self, sci: Sci) -> Option<&SystemName> {
        self.heard.iter().find(|heard| heard.sci == sci)?.name.as_ref()
    }

    /// The SCI with its name, if there is one.
    pub fn beside(&self, sci: Sci) -> NamedSci<'_> {
        NamedSci(sci, self.of(sci))
    }

    /// This [`crate::Reason`], [`crate::Gap`] or [`crate::Fault`] with the names of its stations.
    pub const fn within<'n, T>(&'n self, told: &'n T) -> Named<'n, T> {
        Named { told, names: self }
    }

    /// Records the name in the MKPDU of a station that hears us. Returns the previous one and the new one if operators are to hear of the
    /// change: once in a life time, so that nobody fills logs with names. To have none in between makes it no sooner.
    pub(crate) fn record(
        &mut self,
        now: Instant,
        sci: Sci,
        name: Option<SystemName>,
    ) -> Option<(SystemName, SystemName)> {
        let before = self.heard.iter().position(|heard| heard.sci == sci).map(|i| self.heard.remove(i));
        if name.is_none() && before.is_none() {
            return None;
        }
        if self.heard.len() == NAMES {
            self.heard.remove(0);
        }
        let told = before.as_ref().and_then(|before| before.told);
        let other = before.and_then(|before| before.name).zip(name).filter(|(before, name)| before != name);
        let other = other.filter(|_| told.is_none_or(|told| now >= told + LIFE));
        let told = if other.is_some() { Some(now) } else { told };
        self.heard.push(Heard { sci, name, told });
        other
    }
}

impl fmt::Display for NamedSci<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(sci, name) = self;
        sci.fmt(f)?;
        name.map_or(Ok(()), |name| write!(f, " \"{name}\""))
    }
}
