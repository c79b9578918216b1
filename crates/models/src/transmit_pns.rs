//! PNs of a transmit SA in the kernel: frames and control, searched in every order.
//!
//! **This is a model of C, written by hand**: of `take_ready` and `hold_slot` (`crates/xdp/bpf/sa_ahead.h`), `take_pn` (`sa.h`) and
//! `change_transmit_locked` (`sa_change.h`). No machine compares it with them. Each step is one access to memory, and stands beside the
//! line that it stands for.
//!
//! Control disables the SA, looks at its next PN and retires it, as a link does whose SA moves to user space. User space then sends the
//! next PN. Control installs another SA under the same AN, or the same key with a PN behind that, and enables it.
//!
//! - A frame's loads come in the order of the program. The second look at `sc->encoding` and at the instance is held in order by an
//!   address; all others stand between atomic comparisons, which are taken as full barriers.
//! - What control writes plainly between two barriers arrives in every order.
//! - A slot is ready or not at any moment, since the thread that makes slots may have been anywhere. It has the PN and SA that it is held for.
//!
//! Left out: text and slots that are too short; the ring's number; `reserve_through`, which only raises a number; more ANs and moves.

mod control;
mod frame;
mod properties;

use control::Control;
use frame::Frame;

/// A key: that of the first SA, that of another one.
const KEYS: usize = 2;
const FIRST: usize = 0;
/// Instances of the first SA, and of the one behind it. 0 is none.
const INSTANCES: [u8; 2] = [1, 2];
/// The last PN of the suite.
const LAST: u8 = 3;

/// A change of the program that the search has to find.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutant {
    /// A PN that was taken is used without a second look.
    NoLook,
    /// The second look is not at the instance.
    EncodingAlone,
    /// The second look is not at the SA that protects.
    InstanceAlone,
    /// The second look is at the instance first: what the program did once.
    InstanceFirst,
    /// A PN is taken by a store.
    Store,
}

/// `struct transmit_sa`, of one AN. `key`: which one, with its offset; none if it is erased.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Sa {
    key: Option<usize>,
    next: u8,
    reserved: u8,
    last: u8,
    instance: u8,
}

/// All memory that frames and control share, what they are about to do, and what was sent.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct State {
    /// Whether the SA protects: `sc->encoding`.
    encoding: bool,
    locked: bool,
    sa: Sa,
    /// Slots that somebody holds: instance and PN.
    held: Vec<(u8, u8)>,
    frames: Vec<Frame>,
    control: Control,
    /// Key and PN of each frame that was sent, here or by user space.
    sent: Vec<(usize, u8)>,
    /// PNs up to this one are reserved.
    reserved: [u8; KEYS],
    /// A frame that no SA allows.
    wrong: bool,
}

/// Owner of a step, and the step's number if there are several.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// A frame's next access.
    Frame {
        /// Number of the frame.
        number: usize,
        /// Whether its slot is missing.
        missed: bool,
    },
    /// Control's next access; of several that may come next, which.
    Control(u8),
}

/// Extent of a search.
#[derive(Clone, Debug)]
pub struct World {
    /// Frames, each on a CPU of its own.
    pub frames: usize,
    /// The first SA's next PN.
    pub next: u8,
    /// The last PN that is reserved for it.
    pub reserved: u8,
    /// The program as it is, or changed.
    pub mutant: Option<Mutant>,
}

impl World {
    fn first(&self) -> State {
        let mut reserved = [LAST; KEYS];
        reserved[FIRST] = self.reserved;
        let sa = Sa {
            key: Some(FIRST),
            next: self.next,
            reserved: self.reserved,
            last: LAST,
            instance: INSTANCES[0],
        };
        State {
            encoding: true,
            locked: false,
            sa,
            held: Vec::new(),
            frames: vec![Frame::default(); self.frames],
            control: Control::default(),
            sent: Vec::new(),
            reserved,
            wrong: false,
        }
    }
}

impl State {
    /// A frame leaves.
    fn send(&mut self, key: usize, pn: u8) {
        self.sent.push((key, pn));
        self.sent.sort_unstable();
    }
}

/// The PN behind one; 0 behind the last.
fn behind(pn: u8, last: u8) -> u8 {
    if pn == last { 0 } else { pn + 1 }
}
