//! Captures: every frame that passes an interface, both ways, kept whole.
//!
//! A capture is a proof only if it is complete: [`Captured::dropped`] counts what the kernel or the memory bound
//! lost, and [`Captured::complete`] refuses a capture that lost anything. Capture in the middle namespace, never on
//! an interface that an AF_XDP program owns: nothing is seen there.

use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pcap_file::DataLink;
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};

use crate::packet::{Direction, Frame, PacketSocket};
use crate::{Error, Namespace, Task};

/// Octets of frames kept by default.
const KEPT_OCTETS: usize = 256 << 20;
/// Limit on the time of stopping: the frames that the kernel still holds are read.
const STOP_LIMIT: Duration = Duration::from_secs(20);

/// A running capture. Dropping it stops it and throws the frames away.
#[derive(Debug)]
pub struct Capture {
    shared: Arc<Shared>,
    task: Option<Task<Result<u64, Error>>>,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    frames: Vec<Frame>,
    octets: usize,
    beyond_bound: u64,
}

impl Shared {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, frame: Frame) {
        let mut kept = self.kept();
        if kept.octets + frame.octets.len() > KEPT_OCTETS {
            kept.beyond_bound += 1;
        } else {
            kept.octets += frame.octets.len();
            kept.frames.push(frame);
        }
    }

    fn read(&self, mut socket: PacketSocket) -> Result<u64, Error> {
        while !self.stop.load(Ordering::Acquire) {
            if let Some(frame) = socket.receive()? {
                self.keep(frame);
            }
        }
        // Frames that arrived before the stop belong to the capture; later ones do not.
        let stopped = Instant::now();
        while let Some(frame) = socket.receive_waiting()? {
            self.keep(frame);
            if stopped.elapsed() > STOP_LIMIT / 2 {
                break;
            }
        }
        socket.dropped()
    }
}

impl Capture {
    /// Starts to capture on `ifname` in `namespace`; once this returns no frame is missed.
    pub fn start(namespace: &Namespace, ifname: &str) -> Result<Capture, Error> {
        let socket = PacketSocket::open(namespace, ifname)?;
        let shared = Arc::new(Shared::default());
        let reader = Arc::clone(&shared);
        let task = Some(namespace.spawn_thread(move || reader.read(socket))?);
        Ok(Capture { shared, task })
    }

    /// Waits until `count` frames that `wanted` accepts have been captured.
    pub fn wait_for(
        &self,
        count: usize,
        limit: Duration,
        wanted: impl Fn(&Frame) -> bool,
    ) -> Result<(), Error> {
        let end = Instant::now() + limit;
        let (mut seen, mut found) = (0, 0);
        loop {
            {
                let kept = self.shared.kept();
                found += kept.frames[seen..].iter().filter(|frame| wanted(frame)).count();
                seen = kept.frames.len();
            }
            if found >= count {
                return Ok(());
            }
            if Instant::now() >= end {
                return Err(Error::Deadline { what: format!("{found} of {count} frames captured"), limit });
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Frames captured so far, from the one with this index on.
    pub fn since(&self, index: usize) -> Vec<Frame> {
        self.shared.kept().frames.get(index..).unwrap_or_default().to_vec()
    }

    /// Stops, and hands over what was captured. Frames still in flight elsewhere are not waited for.
    pub fn stop(mut self) -> Result<Captured, Error> {
        self.shared.stop.store(true, Ordering::Release);
        let task =
            self.task.take().expect("invariant: only stop takes the task, and it consumes the capture");
        let unread = task.join(STOP_LIMIT)??;
        let kept = std::mem::take(&mut *self.shared.kept());
        Ok(Captured { frames: kept.frames, dropped: unread + kept.beyond_bound })
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
    }
}

/// Frames of a capture.
#[derive(Clone, Debug, Default)]
pub struct Captured {
    /// The frames, in the order in which they passed.
    pub frames: Vec<Frame>,
    /// Frames that passed and are not among them: not read in time, or beyond the memory bound of 256 MiB.
    pub dropped: u64,
}

impl Captured {
    /// Itself if nothing was lost; else the error that says how much.
    pub fn complete(self) -> Result<Captured, Error> {
        match self.dropped {
            0 => Ok(self),
            lost => Err(Error::Unexpected(format!(
                "the capture lost {lost} frames beside {} kept: it proves nothing",
                self.frames.len()
            ))),
        }
    }

    /// The frames that went one way.
    pub fn going(&self, direction: Direction) -> impl Iterator<Item = &Frame> {
        self.frames.iter().filter(move |frame| frame.direction == direction)
    }

    /// The frames of one EtherType, seen behind VLAN tags.
    pub fn of_ethertype(&self, ethertype: u16) -> impl Iterator<Item = &Frame> {
        self.frames.iter().filter(move |frame| frame.ethertype() == Some(ethertype))
    }

    /// Whether there is at least one frame, and all have this EtherType.
    pub fn all_ethertype(&self, ethertype: u16) -> bool {
        !self.frames.is_empty() && self.frames.iter().all(|frame| frame.ethertype() == Some(ethertype))
    }

    /// The first frame that contains `marker`. "Not found" proves something only if the same search finds the
    /// marker where it must be.
    pub fn find(&self, marker: &[u8]) -> Option<&Frame> {
        self.frames.iter().find(|frame| frame.contains(marker))
    }

    /// Writes the frames as a pcap file; times count from the first frame.
    pub fn write_pcap(&self, path: &Path) -> Result<(), Error> {
        let what = format!("write {}", path.display());
        let file = File::create(path).map_err(Error::system(what.as_str()))?;
        let to_error = |error: pcap_file::PcapError| Error::Unexpected(format!("{what}: {error}"));
        let header = PcapHeader { datalink: DataLink::ETHERNET, ..PcapHeader::default() };
        let mut writer = PcapWriter::with_header(std::io::BufWriter::new(file), header).map_err(to_error)?;
        let Some(first) = self.frames.first() else { return Ok(()) };
        for frame in &self.frames {
            let length = u32::try_from(frame.octets.len()).unwrap_or(u32::MAX);
            let packet = PcapPacket::new(frame.at.saturating_duration_since(first.at), length, &frame.octets);
            writer.write_packet(&packet).map_err(to_error)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(dropped: u64) -> Captured {
        let frame = |ethertype: [u8; 2], text: &[u8]| Frame {
            at: Instant::now(),
            direction: Direction::In,
            octets: [&[2; 12][..], &ethertype, text].concat(),
        };
        Captured { frames: vec![frame([0x88, 0xE5], b"sealed"), frame([8, 0], b"plain text")], dropped }
    }

    #[test]
    fn searches() {
        let all = captured(0);
        assert!(!all.all_ethertype(0x88E5));
        assert_eq!(all.of_ethertype(0x88E5).count(), 1);
        assert_eq!(all.find(b"n te"), all.frames.get(1));
        assert_eq!(all.find(b"nothing"), None);
        assert_eq!(all.find(b""), None);
        assert!(!Captured::default().all_ethertype(0x88E5), "nothing seen proves nothing");
        assert!(all.complete().is_ok());
        assert!(captured(1).complete().is_err());
    }

    #[test]
    fn beyond_the_bound_is_counted() {
        let shared = Shared::default();
        shared.kept().octets = KEPT_OCTETS - 64;
        let frame = Frame { at: Instant::now(), direction: Direction::In, octets: vec![0; 64] };
        shared.keep(frame.clone());
        shared.keep(frame);
        let kept = shared.kept();
        assert_eq!((kept.frames.len(), kept.beyond_bound), (1, 1));
    }

    #[test]
    fn a_written_file_reads_back() {
        let path = std::env::temp_dir().join(format!("fw-{}-capture.pcap", std::process::id()));
        captured(0).write_pcap(&path).unwrap();
        let mut reader = pcap_file::pcap::PcapReader::new(File::open(&path).unwrap()).unwrap();
        let mut read = Vec::new();
        while let Some(packet) = reader.next_packet() {
            read.push(packet.unwrap().data.into_owned());
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read, captured(0).frames.into_iter().map(|frame| frame.octets).collect::<Vec<_>>());
    }
}
