//! Header-encryption mode: the first 32 octets of a frame are encrypted, nothing is added (wire formats, section 3.2;
//! tunnelling paper, section 4.3).
//!
//! ```text
//!  UDP | C1 16 | C2 16 | rest           C2 = AES-128(K, P2)
//!                                       C1 = AES-128(K, P1 xor P2 xor C2)
//! ```
//!
//! [`Sealer`] makes packets of frames, [`Opener`] frames of packets, [`Waiting`] keeps the frames of a flow until the
//! peer knows it. There is no integrity check beyond that what comes out must be the header of a flow that the peer has
//! announced; what follows the 32 octets is not looked at, and dies at the MACsec station if it was touched.
//!
//! The second block has to differ from packet to packet, which the PN and the first four encrypted octets of the
//! frame see to. Therefore frames with E = 0, with extension headers or without SCI are not carried in this mode.
//! A confidentiality offset would make these four octets predictable as well, and the tunnel cannot see it: `check`
//! tells it to who configures a site.

mod associations;
mod header;
mod opener;
mod sealer;
mod waiting;
mod window;

pub use associations::ASSOCIATIONS;
pub use header::HEADER_OCTETS;
pub use opener::{EPOCHS, OpenDiscard, Opened, Opener};
pub use sealer::{EPOCH_INTERVAL, SealDiscard, Sealed, Sealer};
pub use waiting::{FRAMES, FRAMES_PER_FLOW, Released, WAIT, WaitDiscard, Waiting};
pub use window::{Freshness, PnWindow, Portion, WINDOW};

#[cfg(test)]
mod tests;
