//! Connections that controllers and devices agreed on while somebody listened.

use std::collections::VecDeque;
use std::time::Duration;

use wire::MacAddr;
use wire::fieldbus::FrameId;
use wire::profinet::connect::{Connect, Side, Way};

/// Most connections that are remembered: the oldest goes first.
pub const MOST: usize = 1024;
/// Most IOCRs of one connection.
const MOST_IOCRS: usize = 16;

/// Cyclic frames of one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Iocr {
    reference: u16,
    /// Their direction: input or output.
    pub way: Way,
    /// FrameID, if the last one who named it named a possible one.
    pub frame_id: FrameId,
    /// Time between two frames, if it is possible.
    pub cycle: Option<Duration>,
    /// Cycles without a frame after which the receiver gives up.
    pub watchdog: u16,
}

/// A controller and a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Connection {
    ar: [u8; 16],
    session: u16,
    /// Controller.
    pub controller: MacAddr,
    /// Device, once it has agreed.
    pub device: Option<MacAddr>,
    /// The IOCRs of both directions, in the order of the request.
    pub iocrs: Vec<Iocr>,
}

impl Connection {
    /// IOCRs of one direction.
    pub fn of_way(&self, way: Way) -> impl Iterator<Item = &Iocr> {
        self.iocrs.iter().filter(move |iocr| iocr.way == way)
    }
}

/// All of them, the oldest first.
#[derive(Debug, Default)]
pub struct Connections(VecDeque<Connection>);

impl Connections {
    /// Takes a request or a response; false if something had to be forgotten for it.
    pub fn take(&mut self, connect: &Connect<'_>) -> bool {
        match connect.side {
            Side::Controller => self.request(connect),
            Side::Device => {
                self.response(connect);
                true
            }
        }
    }

    /// The latest first, so that what was agreed on last counts.
    pub fn latest_first(&self) -> impl Iterator<Item = &Connection> {
        self.0.iter().rev()
    }

    fn request(&mut self, connect: &Connect<'_>) -> bool {
        let known = self.0.iter().position(|connection| connection.ar == connect.ar);
        if let Some(known) = known {
            let is_repeated = self.0[known].session == connect.session;
            // A repeated request may come behind the response.
            if is_repeated && self.0[known].device.is_some() {
                return true;
            }
            self.0.remove(known);
        }
        let iocrs = connect.iocrs().filter(|iocr| iocr.way != Way::Other).take(MOST_IOCRS);
        let iocrs = iocrs
            .map(|iocr| Iocr {
                reference: iocr.reference,
                way: iocr.way,
                frame_id: iocr.frame_id,
                cycle: iocr.cycle,
                watchdog: iocr.watchdog,
            })
            .collect();
        let (ar, session, controller) = (connect.ar, connect.session, connect.station);
        self.0.push_back(Connection { ar, session, controller, device: None, iocrs });
        let is_full = self.0.len() > MOST;
        if is_full {
            self.0.pop_front();
        }
        !is_full
    }

    /// A response to no known request says nothing about cycles, and is passed over.
    fn response(&mut self, connect: &Connect<'_>) {
        let mut all = self.0.iter_mut();
        let of_it = |known: &&mut Connection| known.ar == connect.ar && known.session == connect.session;
        let Some(known) = all.find(of_it) else { return };
        known.device = Some(connect.station);
        for agreed in connect.iocrs().take(MOST_IOCRS) {
            if let Some(iocr) = known.iocrs.iter_mut().find(|iocr| iocr.reference == agreed.reference) {
                iocr.frame_id = agreed.frame_id;
            }
        }
    }
}
