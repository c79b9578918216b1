//! A bare forwarder in XDP, in clear, and frames for it: what benches compare the kernel path with. It is no gateway, and none uses it.
//!
//! ```text
//!  Generator ── interface ~~ whatever is measured ~~ interface ── Sink
//! ```
//!
//! Generated frames are made in the kernel and end there, in no socket buffer: a frame out of a packet socket costs more than its way
//! through two gateways.

use aya::maps::{Array, DevMap};
use aya::programs::XdpMode;
use aya::programs::{TestRunAttrs, TestRunOptions};
use aya::{Ebpf, TestRun as _};

use crate::error::XdpError;
use crate::programs::{map, program, xdp};

/// Object file that a pinned clang makes of `bpf/redirect.bpf.c`.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../bpf/redirect.bpf.o");
/// Octets of a generated frame that are written anew each time.
const HEAD: usize = 60;
/// The most lengths of a generator's frames.
const LENGTHS: usize = 16;
/// Octets of `struct template`: the head in 64, the next PN, the number of lengths, and what frames lack at the longest.
const TEMPLATE: usize = 72 + 4 * LENGTHS;
/// Frames that the kernel hands over at once, as a card's driver does.
const BATCH: u32 = 64;

/// Frames of two interfaces go from one to the other, until this is dropped.
pub struct Redirect(#[expect(dead_code, reason = "its file descriptors hold programs and links")] Ebpf);

impl Redirect {
    /// Forwards between two interfaces of this network namespace, in their drivers.
    ///
    /// # Errors
    /// If an interface is gone, has a program already, or its driver takes none.
    pub fn attach(first: u32, second: u32) -> Result<Self, XdpError> {
        let mut ebpf = Ebpf::load(OBJECT)?;
        let mut ports = DevMap::try_from(map(&mut ebpf, "ports")?)?;
        ports.set(0, first, None, 0)?;
        ports.set(1, second, None, 0)?;
        for (program, interface) in [("to_second", first), ("to_first", second)] {
            let failed = |error| XdpError::program(program, &error);
            let loaded = xdp(&mut ebpf, program)?;
            loaded.load().map_err(failed)?;
            loaded.attach_to_if_index(interface, XdpMode::Driver).map_err(failed)?;
        }
        Ok(Self(ebpf))
    }
}

/// Frames of an interface end in its driver, counted by the interface, until this is dropped.
pub struct Sink(#[expect(dead_code, reason = "its file descriptors hold the program and its link")] Ebpf);

impl Sink {
    /// Takes the frames of an interface of this network namespace.
    ///
    /// # Errors
    /// As [`Redirect::attach`].
    pub fn attach(interface: u32) -> Result<Self, XdpError> {
        let mut ebpf = Ebpf::load(OBJECT)?;
        let failed = |error| XdpError::program("sink", &error);
        let sink = xdp(&mut ebpf, "sink")?;
        sink.load().map_err(failed)?;
        sink.attach_to_if_index(interface, XdpMode::Driver).map_err(failed)?;
        Ok(Self(ebpf))
    }
}

/// Frames of a generator.
#[derive(Clone, Copy, Debug)]
pub struct Generated<'f> {
    /// The longest frame, of 60 octets or more.
    pub frame: &'f [u8],
    /// Octets of the frames in turn, at most sixteen lengths, none above that of `frame`; none: all are as long as it.
    pub lengths: &'f [usize],
    /// The word at octet 16 of the first one, where a MACsec frame has its PN. It counts up.
    pub first: u32,
}

/// A sender of frames that differ in the word where a MACsec frame has its PN.
pub struct Generator {
    ebpf: Ebpf,
    frame: Vec<u8>,
}

impl Generator {
    /// Sends out of an interface of this network namespace. The other end of a veth has to take redirected frames.
    ///
    /// # Errors
    /// If the frames are not as they have to be, the interface is gone, or its driver sends no redirected frames.
    pub fn new(interface: u32, of: &Generated<'_>) -> Result<Self, XdpError> {
        let mut ebpf = Ebpf::load(OBJECT)?;
        DevMap::try_from(map(&mut ebpf, "ports")?)?.set(0, interface, None, 0)?;
        let template = template(of).ok_or(XdpError::Malformed)?;
        Array::<_, [u8; TEMPLATE]>::try_from(map(&mut ebpf, "templates")?)?.set(0, template, 0)?;
        xdp(&mut ebpf, "generate")?.load().map_err(|error| XdpError::program("generate", &error))?;
        Ok(Self { ebpf, frame: of.frame.to_vec() })
    }

    /// Sends so many. Those that find no room on their way are lost.
    ///
    /// # Errors
    /// If the kernel makes no frames: Linux 5.18 was the first that does.
    pub fn send(&self, frames: u32) -> Result<(), XdpError> {
        let options = TestRunOptions {
            data_in: Some(&self.frame),
            repeat: frames,
            attrs: TestRunAttrs::new().xdp_live_frames(BATCH),
            ..TestRunOptions::new()
        };
        let sent = program(&self.ebpf, "generate")?.test_run(options);
        sent.map(drop).map_err(|error| XdpError::program("generate", &error))
    }
}

fn template(of: &Generated<'_>) -> Option<[u8; TEMPLATE]> {
    let mut template = [0; TEMPLATE];
    template[..HEAD].copy_from_slice(of.frame.get(..HEAD)?);
    let shorter =
        of.lengths.iter().map(|length| of.frame.len().checked_sub(*length).filter(|_| *length >= HEAD));
    let words: Option<Vec<_>> = shorter.map(|octets| u32::try_from(octets?).ok()).collect();
    let words = [vec![of.first, of.lengths.len() as u32], words?].concat();
    for (at, word) in words.into_iter().enumerate() {
        template.get_mut(64 + 4 * at..)?.first_chunk_mut::<4>()?.copy_from_slice(&word.to_ne_bytes());
    }
    Some(template)
}
