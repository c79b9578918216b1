//! A communication relation (CR): two stations, and the FrameID that each of them sends (paper, section IV).
//!
//! Both gateways configure the same relations, in any order. They differ in the *local* station, the one
//! behind them. That cannot be learned: two gateways that both took a station for theirs would protect
//! different frames under one key and one Seq.

use core::fmt;
use core::time::Duration;

use suite::fieldbus::Stations;
use wire::MacAddr;
use wire::fieldbus::FrameId;

/// The local one of a relation's two stations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Local {
    /// The one with the lower address.
    Lower,
    /// The one with the higher address.
    Higher,
}

/// One relation as one gateway sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Relation {
    stations: Stations,
    local: Local,
    /// Sending interval of each station.
    pub cycle: Duration,
}

/// Error of two ends that are no relation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RelationError {
    /// Both stations have the same address.
    SameStation,
    /// A station has a group address.
    Group(MacAddr),
}

impl Relation {
    /// Relation between the station behind this gateway and one behind another, each with the FrameID that it
    /// sends.
    ///
    /// # Errors
    /// [`RelationError`].
    pub fn new(
        local: (MacAddr, FrameId),
        remote: (MacAddr, FrameId),
        cycle: Duration,
    ) -> Result<Self, RelationError> {
        if local.0 == remote.0 {
            return Err(RelationError::SameStation);
        }
        if let Some((group, _)) = [local, remote].into_iter().find(|(station, _)| station.is_group()) {
            return Err(RelationError::Group(group));
        }
        let (stations, local) = if local.0 < remote.0 {
            ([local, remote], Local::Lower)
        } else {
            ([remote, local], Local::Higher)
        };
        Ok(Self { stations, local, cycle })
    }

    /// The stations, the lower address first, each with the FrameID that it sends.
    pub const fn stations(&self) -> &Stations {
        &self.stations
    }

    /// Local station.
    pub const fn local(&self) -> Local {
        self.local
    }

    /// Local station, and the FrameID that it sends.
    pub const fn own(&self) -> (MacAddr, FrameId) {
        match self.local {
            Local::Lower => self.stations[0],
            Local::Higher => self.stations[1],
        }
    }

    /// Remote station, and the FrameID that it sends.
    pub const fn peer(&self) -> (MacAddr, FrameId) {
        match self.local {
            Local::Lower => self.stations[1],
            Local::Higher => self.stations[0],
        }
    }
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((own, sends), (peer, receives)) = (self.own(), self.peer());
        write!(f, "{own} ({sends}) and {peer} ({receives})")
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    #[test]
    fn both_ends_name_a_relation_alike() {
        let (plc, device) =
            ((MacAddr([2, 0, 0, 0, 1, 1]), FrameId(0x8001)), (MacAddr([2, 0, 0, 0, 0, 9]), FrameId(0x8002)));
        let cycle = Duration::from_millis(1);
        let (one, other) =
            (Relation::new(plc, device, cycle).unwrap(), Relation::new(device, plc, cycle).unwrap());
        assert_eq!(one.stations(), other.stations());
        assert_eq!((one.local(), one.own(), one.peer()), (Local::Higher, plc, device));
        assert_eq!((other.local(), other.own(), other.peer()), (Local::Lower, device, plc));
        assert_eq!(Relation::new(plc, (plc.0, device.1), cycle), Err(RelationError::SameStation));
        assert_eq!(std::format!("{one}"), "02:00:00:00:01:01 (0x8001) and 02:00:00:00:00:09 (0x8002)");
        let group = MacAddr([1, 0, 0, 0, 0, 1]);
        assert_eq!(Relation::new((group, plc.1), device, cycle), Err(RelationError::Group(group)));
    }
}
