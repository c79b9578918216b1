//! Names of the engines that move frames.

use crate::Io;

/// Engines that move frames between interfaces and user space, as `io` has it.
pub const fn engines(io: Io) -> &'static str {
    match io {
        Io::Auto => "AF_XDP, or else AF_PACKET",
        Io::Kernel | Io::AfXdp => "AF_XDP",
        Io::AfPacket => "AF_PACKET",
    }
}
