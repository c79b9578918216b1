//! Stations of this LAN that are live in a key agreement (MKA) across sites, by SCI.
//!
//! Whoever reads MKPDUs tells of them ([`Command::StationLive`](crate::Command::StationLive)): stations of other plants list them, which takes
//! the CAK. So they are no invention of somebody in this LAN, and while there are such, half of the room for flows is for theirs alone. The
//! tunnelling paper names this in section 6.1 and leaves it open.

use alloc::vec::Vec;
use core::time::Duration;

use wire::Sci;
use wire::time::Instant;
use wire::tunnel::Flow;

/// Most stations that are known at a time.
const STATIONS: usize = 256;
/// Time for which a station is live after it was told.
const LIVE: Duration = Duration::from_secs(20);

/// Standing of a flow's station.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Liveness {
    /// No station is known to be live.
    Untold,
    /// Others are live, and this one is not.
    Stranger,
    /// It is live.
    Live,
}

/// The live stations.
#[derive(Debug)]
pub(crate) struct LiveStations {
    /// With the time at which each was told last.
    stations: Vec<(Sci, Instant)>,
}

impl LiveStations {
    /// None is known. All memory that is ever used.
    pub(crate) fn new() -> Self {
        Self { stations: Vec::with_capacity(STATIONS) }
    }

    /// Notes that a station is live. It takes the place of one that is so no more; if there is none, it finds no room.
    pub(crate) fn note(&mut self, now: Instant, sci: Sci) {
        if let Some((_, told)) = self.stations.iter_mut().find(|(station, _)| *station == sci) {
            *told = now;
        } else if self.stations.len() < STATIONS {
            self.stations.push((sci, now));
        } else if let Some(gone) = self.stations.iter_mut().find(|(_, told)| now.since(*told) >= LIVE) {
            *gone = (sci, now);
        }
    }

    /// Standing of a flow's station, by its SCI or that of its express SC. A frame without SCI does not say whose it is. A look at each station.
    pub(crate) fn liveness(&self, now: Instant, flow: &Flow) -> Liveness {
        let of_flow =
            |station: Sci| flow.sci().is_some_and(|sci| station == sci || station.express() == Some(sci));
        let mut liveness = Liveness::Untold;
        for (station, told) in &self.stations {
            if now.since(*told) >= LIVE {
                continue;
            }
            if of_flow(*station) {
                return Liveness::Live;
            }
            liveness = Liveness::Stranger;
        }
        liveness
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::MacAddr;
    use wire::tunnel::ParsedFrame;

    fn station(number: u16) -> Sci {
        let [high, low] = number.to_be_bytes();
        Sci::new(MacAddr([2, 0, 0, 0, high, low]), 1)
    }

    /// A flow with this SCI, or without one.
    fn flow(sci: Option<Sci>) -> Flow {
        let mut frame = [2; 28];
        frame[12..15].copy_from_slice(&[0x88, 0xe5, if sci.is_some() { 0x20 } else { 0 }]);
        if let Some(sci) = sci {
            frame[20..].copy_from_slice(&sci.octets());
        }
        ParsedFrame::parse(&frame).expect("a frame").flow
    }

    fn at(seconds: u64) -> Instant {
        Instant::after_start(Duration::from_secs(seconds))
    }

    #[test]
    fn a_station_is_live_until_it_is_told_no_more() {
        let mut live = LiveStations::new();
        let known = flow(Some(station(1)));
        assert_eq!(live.liveness(at(0), &known), Liveness::Untold);
        live.note(at(0), station(1));
        live.note(at(15), station(1));
        // (seconds, flow, standing)
        for (seconds, flow, standing) in [
            (15, known, Liveness::Live),
            (34, known, Liveness::Live),
            (34, flow(station(1).express()), Liveness::Live),
            (34, flow(Some(station(2))), Liveness::Stranger),
            (34, flow(None), Liveness::Stranger),
            (35, known, Liveness::Untold),
        ] {
            assert_eq!(live.liveness(at(seconds), &flow), standing, "{seconds} s");
        }
    }

    #[test]
    fn one_that_is_live_keeps_its_place() {
        let mut live = LiveStations::new();
        for number in 0..=STATIONS as u16 {
            live.note(at(0), station(number));
        }
        let last = flow(Some(station(STATIONS as u16)));
        assert_eq!(live.liveness(at(0), &last), Liveness::Stranger);
        live.note(at(19), station(0));
        live.note(at(20), station(STATIONS as u16));
        assert_eq!(live.liveness(at(20), &last), Liveness::Live);
        assert_eq!(live.liveness(at(20), &flow(Some(station(0)))), Liveness::Live);
        assert_eq!(live.stations.len(), STATIONS);
    }
}
