//! Frames on their way from a site's worker to a further one that sends them: a ring of what is known of each, and a ring of octets.
//!
//! ```text
//!  known   peer, route, DSCP, octets, octets to skip       one for each frame
//!  octets  frame | frame | … | skipped to the end          a frame lies in one piece, so that the kernel takes it from there
//! ```
//!
//! Of octets, and not of places for the longest frame: short ones cost a copy of themselves.

use netdev::burst::BURST_FRAMES;
use rtrb::chunks::ReadChunk;
use rtrb::{Consumer, Producer, RingBuffer};
use tunnel::{PeerId, Route};

/// Frames that can wait.
const FRAMES: usize = 1024;
/// Octets that can wait.
const OCTETS: usize = 1 << 20;

/// Sixteenths of the flows whose frames are handed over: more than half, since the site's worker also finds the routes and receives.
const SHARE: u64 = 10;

/// Whether frames of a flow with this number ([`tunnel::Forwarding::spread`]) are handed over.
pub const fn are_handed(spread: u64) -> bool {
    spread >> 60 < SHARE
}

/// Facts about a frame.
#[derive(Debug)]
pub struct Handed {
    /// To whom it goes.
    pub peer: PeerId,
    /// Octets in front of its body.
    pub route: Route,
    /// DSCP of its packets.
    pub dscp: u8,
    octets: u32,
    /// Octets in front of it, up to the ring's end, that are nothing.
    skip: u32,
}

/// The end that gives.
#[derive(Debug)]
pub struct HandedProducer {
    known: Producer<Handed>,
    octets: Producer<u8>,
}

/// The end that takes.
#[derive(Debug)]
pub struct HandedConsumer {
    known: Consumer<Handed>,
    octets: Consumer<u8>,
}

/// Both ends.
pub fn handed_frames() -> (HandedProducer, HandedConsumer) {
    rings(FRAMES, OCTETS)
}

fn rings(frames: usize, octets: usize) -> (HandedProducer, HandedConsumer) {
    let (known_in, known_out) = RingBuffer::new(frames);
    let (octets_in, octets_out) = RingBuffer::new(octets);
    (
        HandedProducer { known: known_in, octets: octets_in },
        HandedConsumer { known: known_out, octets: octets_out },
    )
}

impl HandedProducer {
    /// Gives a frame. One copy, no allocation. False if there is no room.
    pub fn push(&mut self, peer: PeerId, route: Route, dscp: u8, frame: &[u8]) -> bool {
        let Ok(octets) = u32::try_from(frame.len()) else { return false };
        if self.known.is_full() {
            return false;
        }
        let Ok(mut chunk) = self.octets.write_chunk(frame.len()) else { return false };
        let (first, second) = chunk.as_mut_slices();
        let skip = if second.is_empty() { 0 } else { first.len() };
        if skip > 0 {
            // It would be in two pieces: from the ring's beginning on it is in one.
            drop(chunk);
            let Ok(larger) = self.octets.write_chunk(skip + frame.len()) else { return false };
            chunk = larger;
        }
        let (first, second) = chunk.as_mut_slices();
        let place = if skip > 0 { second } else { first };
        place.copy_from_slice(frame);
        chunk.commit_all();
        // There is room, and nobody else gives.
        self.known.push(Handed { peer, route, dscp, octets, skip: skip as u32 }).is_ok()
    }
}

/// Some frames, which stay where they are until this is dropped.
#[derive(Debug)]
pub struct HandedBurst<'r> {
    known: Option<ReadChunk<'r, Handed>>,
    octets: Option<ReadChunk<'r, u8>>,
}

impl HandedConsumer {
    /// Whether no frame waits.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// The next frames, at most [`BURST_FRAMES`]; `None` if none waits.
    pub fn burst(&mut self) -> Option<HandedBurst<'_>> {
        let count = self.known.slots().min(BURST_FRAMES);
        let known = self.known.read_chunk(count).ok().filter(|_| count > 0)?;
        let (first, second) = known.as_slices();
        let octets = first.iter().chain(second).map(|handed| (handed.skip + handed.octets) as usize).sum();
        // Committed before what is known of them.
        let octets = self.octets.read_chunk(octets).ok()?;
        Some(HandedBurst { known: Some(known), octets: Some(octets) })
    }
}

impl HandedBurst<'_> {
    /// The frames, in their order.
    pub fn frames(&self) -> impl Iterator<Item = (&Handed, &[u8])> {
        let known = self.known.iter().flat_map(|known| {
            let (first, second) = known.as_slices();
            first.iter().chain(second)
        });
        let (first, second) = self.octets.as_ref().map(ReadChunk::as_slices).unwrap_or_default();
        let mut at = 0;
        known.filter_map(move |handed| {
            let begin = at + handed.skip as usize;
            at = begin + handed.octets as usize;
            let frame = match begin.checked_sub(first.len()) {
                Some(begin) => second.get(begin..at - first.len()),
                None => first.get(begin..at),
            };
            Some((handed, frame?))
        })
    }
}

impl Drop for HandedBurst<'_> {
    fn drop(&mut self) {
        if let Some(octets) = self.octets.take() {
            octets.commit_all();
        }
        if let Some(known) = self.known.take() {
            known.commit_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tunnel::Destination;
    use wire::tunnel::ParsedFrame;

    fn frame(number: usize, octets: usize) -> Vec<u8> {
        let mut frame = vec![number as u8; 28 + octets];
        frame[12..16].copy_from_slice(&[0x88, 0xe5, 0x2c, 0]);
        frame
    }

    fn route(frame: &[u8]) -> Route {
        Route { taken: ParsedFrame::parse(frame).expect("MACsec"), destination: Destination::Peer(PeerId(7)) }
    }

    #[test]
    fn frames_come_out_as_they_went_in_at_every_wrap() {
        let (mut producer, mut consumer) = rings(5, 211);
        let (mut given, mut taken) = (0, 0);
        for turn in 0..2000 {
            for _ in 0..turn % 7 {
                let frame = frame(given, given * 7 % 60 + 20);
                if !producer.push(PeerId(given as u16), route(&frame), given as u8, &frame) {
                    break;
                }
                given += 1;
            }
            if let Some(burst) = consumer.burst() {
                for (handed, octets) in burst.frames() {
                    let wanted = frame(taken, taken * 7 % 60 + 20);
                    assert_eq!(
                        (handed.peer, handed.dscp, octets),
                        (PeerId(taken as u16), taken as u8, &wanted[..])
                    );
                    assert_eq!(handed.route, route(&wanted));
                    taken += 1;
                }
            }
            assert_eq!(taken, given, "{turn}");
            assert!(consumer.is_empty() && consumer.burst().is_none());
        }
        assert!(given > 2000, "{given} frames");
    }

    #[test]
    fn what_has_no_room_leaves_no_trace() {
        let (mut producer, mut consumer) = rings(3, 300);
        let long = frame(1, 230);
        assert!(producer.push(PeerId(0), route(&long), 0, &long));
        assert!(!producer.push(PeerId(0), route(&long), 0, &long), "octets");
        drop(consumer.burst());
        // 42 octets are left up to the end.
        let other = frame(2, 40);
        for number in 0..4 {
            assert_eq!(producer.push(PeerId(number), route(&other), 0, &other), number < 3, "places");
        }
        let burst = consumer.burst().expect("three");
        assert!(burst.frames().map(|(handed, _)| handed.peer.0).eq(0..3));
        assert!(burst.frames().all(|(_, octets)| octets == other));
    }
}
