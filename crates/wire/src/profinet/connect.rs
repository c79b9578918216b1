//! Connect: an IO controller and a device agree on an application relation (AR), and on the cyclic frames of each of its communication
//! relations (IOCRs). IEC 61158-6-10, in DCE/RPC without connections (C706).
//!
//! ```text
//! RPC   4 | type 1 | flags 2 | byte order 1 | 4 | object 16 | interface 16 | activity 16 | 8 | sequence 4 | opnum 2 | 2 2 | length 2 | 2 | 2
//! NDR   request: most 4, response: PNIOStatus 4 | length 4 | most 4 | offset 4 | length 4          in the byte order of the RPC header
//! block BlockType 2 | BlockLength 2 | version 2 | body                                             the most significant octet first
//!
//! AR    request 0x0101: type 2 | UUID 16 | session 2 | station 6 | object 16 | properties 4 | timeout 2 | port 2 | length 2 | name
//!       response 0x8101: type 2 | UUID 16 | session 2 | station 6 | port 2
//! IOCR  request 0x0102: type 2 | reference 2 | LT 2 | properties 4 | DataLength 2 | FrameID 2 | SendClockFactor 2 | ReductionRatio 2
//!                       | phase 2 | sequence 2 | offset 4 | WatchdogFactor 2 | DataHoldFactor 2 | tag 2 | group 6 | ...
//!       response 0x8102: type 2 | reference 2 | FrameID 2
//! ```
//!
//! The receiver of an IOCR chooses its FrameID: the controller names that of an input in its request, the device that of an output in its
//! response.
//!
//! Left out on purpose: further fragments, connections of supervisors and between controllers, IO data over UDP (RT_CLASS_UDP).

use core::time::Duration;

use super::{StationName, half, take};
use crate::fieldbus::FrameId;
use crate::{EtherType, MacAddr};

/// Octets of an RPC header, and of the NDR header behind it.
const RPC_OCTETS: usize = 80;
const NDR_OCTETS: usize = 20;
/// Byte order of an RPC header: the least significant octet first.
const LITTLE_ENDIAN: u8 = 0x10;
/// `dea00001-6c97-11d1-8271-00a02442df7d`, the interface of devices: its first three fields have the byte order of the header.
const DEVICE: (u32, u16, u16, [u8; 8]) =
    (0xdea0_0001, 0x6c97, 0x11d1, [0x82, 0x71, 0x00, 0xa0, 0x24, 0x42, 0xdf, 0x7d]);
const REQUEST: u8 = 0;
const RESPONSE: u8 = 2;
const CONNECT: u16 = 0;

const AR_REQUEST: u16 = 0x0101;
const AR_RESPONSE: u16 = 0x8101;
const IOCR_REQUEST: u16 = 0x0102;
const IOCR_RESPONSE: u16 = 0x8102;

/// PROFINET's unit of time.
const CLOCK: Duration = Duration::from_nanos(31_250);
const MOST_SEND_CLOCK: u16 = 128;
const MOST_REDUCTION: u16 = 512;

/// Reason for which a datagram tells of no connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConnectError {
    /// It is something else.
    Other,
    /// It ends before the AR does.
    Truncated,
    /// Its first block is not the AR of its kind.
    NoAr,
    /// The device refused.
    Refused,
}

/// Side whose words a Connect has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The controller's: the request.
    Controller,
    /// The device's: the response.
    Device,
}

/// A request for a connection, or the device's agreement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connect<'f> {
    /// The side that says it.
    pub side: Side,
    /// UUID of the AR: the same in request and response.
    pub ar: [u8; 16],
    /// Number of the attempt.
    pub session: u16,
    /// Address of the one who says it: of its cyclic frames too.
    pub station: MacAddr,
    /// Name of the controller, in a request.
    pub name: Option<StationName<'f>>,
    /// Blocks behind the AR.
    blocks: &'f [u8],
}

/// Direction of an IOCR.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// From the device to the controller.
    Input,
    /// From the controller to the device.
    Output,
    /// To a group, from a group, or over UDP: in no frames to one station with EtherType 0x8892.
    Other,
}

/// Cyclic frames of one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Iocr {
    /// Its direction.
    pub way: Way,
    /// Its number in the AR.
    pub reference: u16,
    /// FrameID of its frames, unless the other side chooses it.
    pub frame_id: FrameId,
    /// Time between two frames, in a request that names a possible one.
    pub cycle: Option<Duration>,
    /// Cycles without a frame after which the receiver gives up; 0 in a response.
    pub watchdog: u16,
}

impl<'f> Connect<'f> {
    /// Reads the payload of a UDP datagram.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub fn parse(datagram: &'f [u8]) -> Result<Self, ConnectError> {
        let header = datagram.first_chunk::<RPC_OCTETS>().ok_or(ConnectError::Other)?;
        let is_little = header[4] & 0xf0 == LITTLE_ENDIAN;
        let side = match header[1] {
            REQUEST => Side::Controller,
            RESPONSE => Side::Device,
            _ => return Err(ConnectError::Other),
        };
        let is_connect = number::<2>(header, 68, is_little) == Some(CONNECT.into());
        let fragment = number::<2>(header, 76, is_little);
        if header[0] != 4 || !is_device(header, is_little) || !is_connect || fragment != Some(0) {
            return Err(ConnectError::Other);
        }
        let arguments = &datagram[RPC_OCTETS..];
        let status = number::<4>(arguments, 0, is_little).ok_or(ConnectError::Truncated)?;
        if side == Side::Device && status != 0 {
            return Err(ConnectError::Refused);
        }
        let mut blocks = Blocks(arguments.get(NDR_OCTETS..).ok_or(ConnectError::Truncated)?);
        let (kind, body) = blocks.next().ok_or(ConnectError::Truncated)?;
        match (side, kind) {
            (Side::Controller, AR_REQUEST) | (Side::Device, AR_RESPONSE) => {}
            _ => return Err(ConnectError::NoAr),
        }
        let (_, rest) = take::<2>(body).ok_or(ConnectError::Truncated)?;
        let (ar, rest) = take(rest).ok_or(ConnectError::Truncated)?;
        let (session, rest) = take(rest).ok_or(ConnectError::Truncated)?;
        let (station, rest) = take(rest).ok_or(ConnectError::Truncated)?;
        let name = || StationName::new(rest.get(26..)?.get(..usize::from(half(rest, 24)?))?);
        let name = if side == Side::Controller { name() } else { None };
        let (session, station) = (u16::from_be_bytes(session), MacAddr(station));
        Ok(Self { side, ar, session, station, name, blocks: blocks.0 })
    }

    /// Its IOCRs, as far as they are there.
    pub fn iocrs(&self) -> impl Iterator<Item = Iocr> + 'f {
        let side = self.side;
        Blocks(self.blocks).filter_map(move |(kind, body)| match (side, kind) {
            (Side::Controller, IOCR_REQUEST) => requested(body),
            (Side::Device, IOCR_RESPONSE) => agreed(body),
            _ => None,
        })
    }
}

fn way(kind: u16) -> Way {
    match kind {
        1 => Way::Input,
        2 => Way::Output,
        _ => Way::Other,
    }
}

fn requested(body: &[u8]) -> Option<Iocr> {
    let on_ethernet = half(body, 4)? == EtherType::PROFINET.0;
    let (clock, reduction) = (half(body, 14)?, half(body, 16)?);
    let is_possible = (1..=MOST_SEND_CLOCK).contains(&clock) && (1..=MOST_REDUCTION).contains(&reduction);
    Some(Iocr {
        way: if on_ethernet { way(half(body, 0)?) } else { Way::Other },
        reference: half(body, 2)?,
        frame_id: FrameId(half(body, 12)?),
        cycle: is_possible.then(|| CLOCK * u32::from(clock) * u32::from(reduction)),
        watchdog: half(body, 26)?,
    })
}

fn agreed(body: &[u8]) -> Option<Iocr> {
    let (way, reference) = (way(half(body, 0)?), half(body, 2)?);
    Some(Iocr { way, reference, frame_id: FrameId(half(body, 4)?), cycle: None, watchdog: 0 })
}

fn is_device(header: &[u8; RPC_OCTETS], is_little: bool) -> bool {
    let (first, second, third, rest) = DEVICE;
    number::<4>(header, 24, is_little) == Some(first)
        && number::<2>(header, 28, is_little) == Some(second.into())
        && number::<2>(header, 30, is_little) == Some(third.into())
        && header[32..40] == rest
}

/// A number of two or four octets, in the byte order of the RPC header.
fn number<const N: usize>(octets: &[u8], at: usize, is_little: bool) -> Option<u32> {
    let octets: &[u8; N] = octets.get(at..)?.first_chunk()?;
    let append = |number: u32, octet: &u8| number << 8 | u32::from(*octet);
    Some(if is_little { octets.iter().rev().fold(0, append) } else { octets.iter().fold(0, append) })
}

/// Type and body of each block; the last one may be cut.
#[derive(Clone, Copy)]
struct Blocks<'f>(&'f [u8]);

impl<'f> Iterator for Blocks<'f> {
    type Item = (u16, &'f [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (kind, length) = (half(self.0, 0)?, usize::from(half(self.0, 2)?));
        // The length covers the version. Less is no block, and nothing behind it can be found.
        let block = self.0.get(4..)?;
        let (block, rest) = block.split_at(length.min(block.len()));
        self.0 = rest;
        block.get(2..).map(|body| (kind, body))
    }
}

#[cfg(test)]
mod tests;
