//! What moves frames, in words.

use crate::Io;

/// Why frames of links and sites are protected and verified in user space.
pub const NOT_IN_KERNEL: &str = "only cells and sites have programs in the kernel";

/// Engines that move frames between interfaces and user space, as `io` has it.
pub const fn engines(io: Io) -> &'static str {
    match io {
        Io::Auto => "AF_XDP, or else AF_PACKET",
        Io::Kernel | Io::AfXdp => "AF_XDP",
        Io::AfPacket => "AF_PACKET",
    }
}
