//! Memory of a sender by size, and what each size prepares. That it fits is asserted where senders are made,
//! at compile time and so on each machine.

/// Alignment of a sender's memory, which an array of uint64_t has.
pub const ANTEDATE_ALIGNMENT: usize = 8;

/// Octets of a sender that prepares for 2 messages, up to 64 octets of each, with templates of up to 32.
#[cfg(target_pointer_width = "32")]
pub const ANTEDATE_SMALL_OCTETS: usize = 896;
/// Octets of a sender that prepares for 4 messages, up to 256 octets of each, with templates of up to 96.
#[cfg(target_pointer_width = "32")]
pub const ANTEDATE_MEDIUM_OCTETS: usize = 2432;
/// Octets of a sender that prepares for 4 messages, up to 1024 octets of each, with templates of up to 96.
#[cfg(target_pointer_width = "32")]
pub const ANTEDATE_LARGE_OCTETS: usize = 5504;

/// Octets of a sender that prepares for 2 messages, up to 64 octets of each, with templates of up to 32.
#[cfg(not(target_pointer_width = "32"))]
pub const ANTEDATE_SMALL_OCTETS: usize = 2048;
/// Octets of a sender that prepares for 4 messages, up to 256 octets of each, with templates of up to 96.
#[cfg(not(target_pointer_width = "32"))]
pub const ANTEDATE_MEDIUM_OCTETS: usize = 3584;
/// Octets of a sender that prepares for 4 messages, up to 1024 octets of each, with templates of up to 96.
#[cfg(not(target_pointer_width = "32"))]
pub const ANTEDATE_LARGE_OCTETS: usize = 6656;

/// Calls the macro with the room that fits into so many octets: `$with!(keystream, template, slots)`.
macro_rules! choose {
    ($octets:expr, $with:ident) => {
        match $octets {
            $crate::sizes::ANTEDATE_LARGE_OCTETS.. => $with!(1024, 96, 4),
            $crate::sizes::ANTEDATE_MEDIUM_OCTETS.. => $with!(256, 96, 4),
            $crate::sizes::ANTEDATE_SMALL_OCTETS.. => $with!(64, 32, 2),
            _ => Err($crate::results::antedate_result::ANTEDATE_ERROR_MEMORY),
        }
    };
}
pub(crate) use choose;
