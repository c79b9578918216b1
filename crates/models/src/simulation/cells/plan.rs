//! The relations of a cell, and their configuration.

use std::time::Duration;

use fieldbus::relation::{Relation, RelationError};
use fieldbus::{Mode, RelationSettings, Settings};
use suite::fieldbus::{MasterKey, MasterKeys};
use testkit::Chance;
use wire::MacAddr;
use wire::fieldbus::{CellSuite, FrameId, Protect, Protection, Seq};

/// Plaintext that no network may see.
pub(super) const MARK: &[u8] = b"of the machine alone";
const MTU: usize = 1532;
/// Time without a frame that is an alarm.
const ALARM: Duration = Duration::from_millis(150);
/// Sending interval of a machine, as configured.
const CYCLE: Duration = Duration::from_millis(50);
/// Octets of a frame in front of its payload: addresses, VLAN tag, EtherType, FrameID.
const FRONT: usize = 20;

/// An end of a relation: the gateway, the station behind it, and the FrameID that this sends.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub(super) gateway: usize,
    station: (MacAddr, FrameId),
}

/// A cell: a controller behind its first gateway, which has relations with devices behind the others. Devices talk to each other, too.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    cell: u8,
    pub(super) gateways: usize,
    pub(super) relations: Vec<[End; 2]>,
}

/// The configuration of a gateway's cell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Config {
    master: [u8; 32],
    /// The master key in the second place.
    fallback: Option<[u8; 32]>,
    pub(super) protection: Protection,
    /// By relation of the plan.
    pub(super) modes: Vec<Mode>,
    /// Frames in an epoch.
    epoch: u32,
    /// The relations stand in the opposite order.
    is_reversed: bool,
}

impl Plan {
    pub(super) fn new(chance: &mut Chance, cell: u8) -> Self {
        let gateways = 2 + chance.below(3) as usize;
        let mut relations = Vec::new();
        for device in 1..gateways {
            // Relations of one pair of stations differ in their FrameIDs alone.
            for number in 0..1 + chance.below(2) as u16 {
                relations.push([(0, 0x8000 + number), (device, 0x8000 + number)]);
            }
        }
        if gateways > 2 {
            relations.push([(1, 0x8000), (2, 0x8000)]);
        }
        let end = |(gateway, frame_id): (usize, u16)| {
            // The controller's address lies between those of its devices.
            let side = [0x80, 0, 0xff, 1][gateway];
            End { gateway, station: (MacAddr([2, 0, 0, cell, side, gateway as u8]), FrameId(frame_id)) }
        };
        Self { cell, gateways, relations: relations.into_iter().map(|ends| ends.map(end)).collect() }
    }

    /// The relations of a gateway, each with the end that it has, in the order of a configuration.
    pub(super) fn of(&self, gateway: usize, config: &Config) -> Vec<(usize, usize)> {
        let ends = self.relations.iter().enumerate().filter_map(|(relation, ends)| {
            Some((relation, ends.iter().position(|end| end.gateway == gateway)?))
        });
        let mut all: Vec<_> = ends.collect();
        if config.is_reversed {
            all.reverse();
        }
        all
    }

    pub(super) fn settings(
        &self,
        (relation, end): (usize, usize),
        config: &Config,
    ) -> Result<RelationSettings, RelationError> {
        let ends = &self.relations[relation];
        let relation_of = Relation::new(ends[end].station, ends[1 - end].station, CYCLE)?;
        Ok(RelationSettings { relation: relation_of, mode: config.modes[relation], alarm: ALARM })
    }

    /// The frame with this number of the machine at an end of a relation.
    pub(super) fn sdu(&self, relation: usize, end: usize, count: u64) -> Vec<u8> {
        let ends = &self.relations[relation];
        let (to, (from, frame_id)) = (ends[1 - end].station.0, ends[end].station);
        let mut frame = [&to.0[..], &from.0, &[0x81, 0, 0xc0, 0, 0x88, 0x92]].concat();
        frame.extend(frame_id.0.to_be_bytes());
        frame.extend([self.cell, relation as u8, end as u8]);
        frame.extend(count.to_be_bytes());
        frame.extend(MARK);
        frame
    }

    /// The number that a machine's frame says that it has.
    pub(super) fn count(sdu: &[u8]) -> Option<u64> {
        Some(u64::from_be_bytes(*sdu.get(FRONT + 3..)?.first_chunk()?))
    }
}

impl Config {
    pub(super) fn new(chance: &mut Chance, relations: usize) -> Self {
        let mut config = Self {
            master: chance.octets(),
            fallback: None,
            protection: Protection { protect: Protect::Encrypt, suite: CellSuite::GcmAes128 },
            modes: vec![Mode::Protect; relations],
            epoch: chance.pick(&[5, 40, 1000]),
            is_reversed: false,
        };
        if chance.happens(500) {
            config = config.changed(chance);
        }
        config
    }

    /// Another one that differs in something.
    pub(super) fn changed(&self, chance: &mut Chance) -> Self {
        let mut config = self.clone();
        match chance.below(8) {
            0 => config.master = chance.octets(),
            // A master key is exchanged without a gap: the new one goes before the old one, or behind it, until all have it.
            5 => config.fallback = Some(std::mem::replace(&mut config.master, chance.octets())),
            6 => config.fallback = Some(chance.octets()),
            7 => match config.fallback.take() {
                Some(fallback) if chance.happens(500) => {
                    config.fallback = Some(std::mem::replace(&mut config.master, fallback));
                }
                _ => {}
            },
            1 => {
                let protect = chance.pick(&[Protect::Encrypt, Protect::Encrypt, Protect::Authenticate]);
                config.protection = Protection { protect, suite: chance.pick(&CellSuite::ALL) };
            }
            2 => config.epoch = chance.pick(&[5, 40, 1000]),
            3 => config.is_reversed ^= true,
            _ => {
                for mode in &mut config.modes {
                    *mode = chance.pick(&[Mode::Protect, Mode::Protect, Mode::Shadow]);
                }
            }
        }
        config
    }

    /// True if sessions of relations go on.
    pub(super) fn keeps_sessions(&self, other: &Self) -> bool {
        self.protection == other.protection
    }

    pub(super) fn masters(&self) -> MasterKeys {
        let fallback = self.fallback.as_ref().map(MasterKey::new);
        MasterKeys { preferred: MasterKey::new(&self.master), fallback }
    }

    pub(super) fn settings(&self) -> Settings {
        let epoch_end = Seq::new(self.epoch).unwrap_or(Seq::LAST);
        Settings { epoch_end, ..Settings::new(self.protection, MTU) }
    }
}
