//! A bare forwarder in XDP, in clear: what benches compare the kernel path with. It is no gateway, and none uses it.

use aya::Ebpf;
use aya::maps::DevMap;
use aya::programs::XdpMode;

use crate::error::XdpError;
use crate::programs::{map, xdp};

/// Object file that a pinned clang makes of `bpf/redirect.bpf.c`.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../bpf/redirect.bpf.o");

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
