//! A communication relation (CR): two stations, and the FrameID that each of them sends (paper, section IV).
//!
//! That is PROFINET. Frames of another protocol have its identification in the place of the FrameID ([`Protocol`]), may go to a group
//! instead of the other station, and may go one way only ([`Target`]). A relation still has two stations: HELLOs are sent between their
//! addresses. So a group's frames reach the machines behind one other gateway, and no second one.
//!
//! Both gateways configure the same relations, in any order. They differ in the *local* station, the one
//! behind them. That cannot be learned: two gateways that both took a station for theirs would protect
//! different frames under one key and one Seq.

use core::fmt;
use core::time::Duration;

use suite::fieldbus::Stations;
use wire::MacAddr;
use wire::fieldbus::{Binding, FrameId, Protocol, Target};

use crate::direction::Direction;
use crate::settings::VlanTag;

/// The local one of a relation's two stations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Local {
    /// The one with the lower address.
    Lower,
    /// The one with the higher address.
    Higher,
}

/// Destination, source and identification of frames: by these a gateway finds their relation.
pub type FrameAddress = (MacAddr, MacAddr, FrameId);

/// Addresses that a relation has in one direction. A cell gives each of them to one relation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RelationAddresses {
    /// That of cyclic frames, if the station sends some.
    pub frames: Option<FrameAddress>,
    /// That of HELLOs, between the stations themselves. Frames may have it too.
    pub hellos: FrameAddress,
}

impl RelationAddresses {
    /// That of HELLOs, if frames do not have it too.
    pub fn hellos_alone(&self) -> Option<FrameAddress> {
        (self.frames != Some(self.hellos)).then_some(self.hellos)
    }

    /// All of them, each once.
    pub fn all(&self) -> impl Iterator<Item = FrameAddress> + use<> {
        self.frames.into_iter().chain(self.hellos_alone())
    }
}

/// Identity of a relation: stations, FrameIDs and binding of its keys, with the local station.
pub type RelationIdentity = (Stations, MacAddr, Option<Binding>);

/// One relation as one gateway sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Relation {
    stations: Stations,
    local: Local,
    /// Sending interval of each station.
    pub cycle: Duration,
    protocol: Protocol,
    /// By station, the lower address first.
    targets: [Target; 2],
    delivered_tag: DeliveredTag,
}

/// The VLAN tag of frames that are delivered to the machine.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum DeliveredTag {
    /// That of the cell.
    #[default]
    OfCell,
    /// This one, or none.
    Is(Option<VlanTag>),
}

/// Error of two ends that are no relation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RelationError {
    /// Both stations have the same address.
    SameStation,
    /// A station has a group address.
    Group(MacAddr),
    /// Frames would go to this address as a group's, and it is none.
    NoGroup(MacAddr),
    /// Neither station sends.
    Silent,
    /// No frame of the protocol has this identification.
    Impossible(FrameId),
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
        let (protocol, targets) = (Protocol::Profinet, [Target::Peer; 2]);
        Ok(Self { stations, local, cycle, protocol, targets, delivered_tag: DeliveredTag::OfCell })
    }

    /// The same relation with frames of this protocol, to where the local and the remote station send them.
    ///
    /// # Errors
    /// [`RelationError`].
    pub fn of(mut self, protocol: Protocol, own: Target, peer: Target) -> Result<Self, RelationError> {
        for target in [own, peer] {
            if let Target::Group(address) = target
                && !address.is_group()
            {
                return Err(RelationError::NoGroup(address));
            }
        }
        if let Some((_, id)) = self.stations.iter().find(|(_, id)| !protocol.can_be(*id)) {
            return Err(RelationError::Impossible(*id));
        }
        if [own, peer] == [Target::Nobody; 2] {
            return Err(RelationError::Silent);
        }
        self.protocol = protocol;
        self.targets = match self.local {
            Local::Lower => [own, peer],
            Local::Higher => [peer, own],
        };
        Ok(self)
    }

    /// The same relation with this tag of delivered frames.
    #[must_use]
    pub const fn delivered_with(mut self, tag: DeliveredTag) -> Self {
        self.delivered_tag = tag;
        self
    }

    /// Protocol of its frames.
    pub const fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Destinations of the local and the remote station.
    pub const fn targets(&self) -> (Target, Target) {
        match self.local {
            Local::Lower => (self.targets[0], self.targets[1]),
            Local::Higher => (self.targets[1], self.targets[0]),
        }
    }

    /// The tag of delivered frames, with that of the cell.
    pub const fn delivered_tag(&self, of_cell: Option<VlanTag>) -> Option<VlanTag> {
        match self.delivered_tag {
            DeliveredTag::OfCell => of_cell,
            DeliveredTag::Is(tag) => tag,
        }
    }

    /// Binding of its keys besides the stations.
    pub fn binding(&self) -> Option<Binding> {
        Binding::new(self.protocol, self.targets)
    }

    /// Identity that a session belongs to.
    pub fn identity(&self) -> RelationIdentity {
        (self.stations, self.own().0, self.binding())
    }

    /// Addresses that it has in one direction.
    pub fn addresses(&self, direction: Direction) -> RelationAddresses {
        let (own, peer, (from_own, from_peer)) = (self.own(), self.peer(), self.targets());
        let ((source, id), other, target) = match direction {
            Direction::Outward => (own, peer.0, from_own),
            Direction::Inward => (peer, own.0, from_peer),
        };
        let hellos = (other, source, id);
        let frames = match target {
            Target::Peer => Some(hellos),
            Target::Group(group) => Some((group, source, id)),
            Target::Nobody => None,
        };
        RelationAddresses { frames, hellos }
    }

    /// Frames of the local station, in words: `0x8001`; `goose 0x0003 to 01:0c:cd:01:00:01`; `nothing`.
    pub const fn sends(&self) -> Stream {
        Stream { protocol: self.protocol, target: self.targets().0, id: self.own().1 }
    }

    /// Frames of the remote station, in words.
    pub const fn receives(&self) -> Stream {
        Stream { protocol: self.protocol, target: self.targets().1, id: self.peer().1 }
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
        let ((own, _), (peer, _)) = (self.own(), self.peer());
        write!(f, "{own} ({}) and {peer} ({})", self.sends(), self.receives())
    }
}

/// Frames of one station of a relation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stream {
    protocol: Protocol,
    target: Target,
    id: FrameId,
}

impl Stream {
    /// The words for a station that sends no cyclic frames.
    pub const NOTHING: &'static str = "nothing";
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.target == Target::Nobody {
            return f.write_str(Self::NOTHING);
        }
        match (self.protocol, self.protocol.only_identification()) {
            (Protocol::Profinet, _) => write!(f, "{}", self.id)?,
            (protocol, Some(_)) => f.write_str(protocol.name())?,
            (protocol, None) => write!(f, "{} {}", protocol.name(), self.id)?,
        }
        if let Target::Group(group) = self.target {
            write!(f, " to {group}")?;
        }
        Ok(())
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
    #[test]
    fn both_ends_mean_the_same_streams_of_another_protocol() {
        let (publisher, subscriber) =
            ((MacAddr([2, 0, 0, 0, 1, 1]), FrameId(3)), (MacAddr([2, 0, 0, 0, 0, 9]), FrameId(3)));
        let (address, cycle) = (MacAddr([1, 0x0c, 0xcd, 1, 0, 1]), Duration::from_millis(1));
        let group = Target::Group(address);
        let one = Relation::new(publisher, subscriber, cycle).unwrap();
        let other = Relation::new(subscriber, publisher, cycle).unwrap();
        let sender = one.of(Protocol::Goose, group, Target::Nobody).unwrap();
        let receiver = other.of(Protocol::Goose, Target::Nobody, group).unwrap();
        assert_eq!((sender.binding(), sender.stations()), (receiver.binding(), receiver.stations()));
        assert_ne!(one.identity(), sender.identity());
        let (frames, id) = ((address, publisher.0, FrameId(3)), FrameId(3));
        let hellos = [(subscriber.0, publisher.0, id), (publisher.0, subscriber.0, id)];
        let (outward, inward) = (Direction::Outward, Direction::Inward);
        for (relation, published, silent) in [(sender, outward, inward), (receiver, inward, outward)] {
            let addresses = relation.addresses(published);
            assert_eq!((addresses.frames, addresses.hellos_alone()), (Some(frames), Some(hellos[0])));
            let addresses = relation.addresses(silent);
            assert_eq!((addresses.frames, addresses.hellos_alone()), (None, Some(hellos[1])));
        }
        // Between the stations themselves HELLOs go as frames do.
        let addresses = one.addresses(Direction::Outward);
        assert_eq!((addresses.frames, addresses.hellos_alone()), (Some(hellos[0]), None));
        assert!(addresses.all().eq([hellos[0]]));
        assert_eq!(
            std::format!("{sender}"),
            "02:00:00:00:01:01 (goose 0x0003 to 01:0c:cd:01:00:01) and 02:00:00:00:00:09 (nothing)"
        );
        let refused = |protocol, own, peer| one.of(protocol, own, peer).unwrap_err();
        let of_group = Target::Group(publisher.0);
        assert_eq!(refused(Protocol::Goose, of_group, Target::Peer), RelationError::NoGroup(publisher.0));
        assert_eq!(refused(Protocol::Goose, Target::Nobody, Target::Nobody), RelationError::Silent);
        assert_eq!(
            refused(Protocol::ModbusTcp, Target::Peer, Target::Peer),
            RelationError::Impossible(FrameId(3))
        );
    }
}
