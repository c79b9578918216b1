//! What the worker is to know of a peer's paths, told change by change, so that no frame is lost between two of them.

use dataplane::site::{Copies, PATHS, Place, ToWorker, WayOut};
use tunnel::{Command, PeerId};

use super::super::transport::FLOOR;

/// What the worker is to know.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Wanted {
    pub(super) places: [Option<Place>; PATHS],
    pub(super) preferred: u8,
    pub(super) copies: Copies,
    pub(super) payload: Option<u16>,
    /// How packets of each path leave, with the number of their uplink, if that has a rate of its own.
    pub(super) ways: [Option<(u8, WayOut)>; PATHS],
}

/// What the worker was told.
#[derive(Debug, Default)]
pub(super) struct Told {
    last: Wanted,
    /// That copies come.
    expects_copies: bool,
    /// Of which paths it was told at all.
    told_of: [bool; PATHS],
}

impl Told {
    /// The next command for the worker.
    pub(super) fn next_command(&mut self, peer: PeerId, wanted: Wanted) -> Option<ToWorker> {
        let told = &mut self.last;
        if !std::mem::replace(&mut self.expects_copies, true) {
            return Some(ToWorker::Tunnel(Command::ExpectCopies { peer }));
        }
        // Before the first packet leaves by it.
        for (told, wanted) in told.ways.iter_mut().zip(wanted.ways) {
            if let Some((uplink, way)) = wanted.filter(|_| *told != wanted) {
                *told = wanted;
                return Some(ToWorker::WayOut { uplink, way });
            }
        }
        if wanted.copies != told.copies {
            told.copies = wanted.copies;
            return Some(ToWorker::Copies { peer, copies: wanted.copies });
        }
        let payload = |told: &mut Wanted| {
            told.payload = wanted.payload;
            let octets = usize::from(wanted.payload.unwrap_or(FLOOR));
            Some(ToWorker::Tunnel(Command::PathPayload { peer, octets }))
        };
        // A path that carries less comes after the word of it, one that goes before.
        if wanted.payload < told.payload || told.payload.is_none() && wanted.payload.is_some() {
            return payload(told);
        }
        let path =
            |number: usize| ToWorker::Path { peer, number: number as u8, place: wanted.places[number] };
        for number in 0..PATHS {
            if wanted.places[number].is_some() && wanted.places[number] != told.places[number] {
                (told.places[number], self.told_of[number]) = (wanted.places[number], true);
                return Some(path(number));
            }
        }
        if wanted.preferred != told.preferred {
            told.preferred = wanted.preferred;
            return Some(ToWorker::Prefer { peer, number: wanted.preferred });
        }
        // The worker may know a path from a manager before this one, which a defect ended.
        let one_is_there = wanted.places.iter().any(Option::is_some);
        for number in 0..PATHS {
            let stale = told.places[number].is_some() || !self.told_of[number];
            if one_is_there && wanted.places[number].is_none() && stale {
                (told.places[number], self.told_of[number]) = (None, true);
                return Some(path(number));
            }
        }
        if wanted.payload != told.payload { payload(told) } else { None }
    }
}
