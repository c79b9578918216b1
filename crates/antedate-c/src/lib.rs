//! The C face of crate `antedate`: `include/antedate.h` is made of this crate by cbindgen (scripts/header.sh), and the
//! static library that it describes.
//!
//! The crate turns pointers, lengths and numbers of C into what `antedate` takes, or refuses them. It has no cipher and no
//! numbering of its own. Names are spelled as C has them. Nothing is allocated: a sender lies in memory that the caller
//! gives (`memory.rs`), and what is generic in Rust, as how much is prepared, follows from how much memory that is
//! (`sizes.rs`).
//!
//! Beside the engine this is the one room with unsafe code, since pointers come in; each module that has some says so at its
//! beginning. Panics do not cross the border: there is none for any input that is checked here, and if one were a defect,
//! `extern "C"` functions abort on a host; on a microcontroller, see `panic` below.
#![no_std]
#![deny(unsafe_op_in_unsafe_fn)]
#![allow(non_camel_case_types)]

// On a host the panic handler is std's; firmware has none.
#[cfg(not(target_os = "none"))]
extern crate std;

pub mod cbc;
pub mod ccm;
mod cipher;
pub mod gcm;
mod memory;
mod octets;
pub mod receiver;
pub mod results;
pub mod sizes;
pub mod templates;
#[cfg(test)]
mod tests;

/// Stands still: a defect that nobody foresaw is better met by a watchdog than by octets that are not encrypted.
#[cfg(all(target_os = "none", not(test)))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
