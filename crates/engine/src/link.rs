//! A link: two ports, the memory that their frames share, and the path between them.

use secy::NextAction;
use wire::Instant;

use crate::burst::Burst;
use crate::path::{Path, ToPlain, ToProtected};
use crate::pool::Pool;
use crate::port::Port;

/// A transparent bump in the wire.
pub struct Link {
    pool: Pool,
    plain: Box<dyn Port>,
    protected: Box<dyn Port>,
    path: Path,
    /// SDUs from the plain side: those just received, and those that are held.
    waiting: Burst,
    burst: Burst,
    to_protected: ToProtected,
    to_plain: ToPlain,
}

impl Link {
    /// A link between two ports that were opened over `pool`.
    pub fn new(pool: Pool, plain: Box<dyn Port>, protected: Box<dyn Port>, path: Path) -> Self {
        Self {
            pool,
            plain,
            protected,
            path,
            waiting: Burst::new(),
            burst: Burst::new(),
            to_protected: ToProtected::default(),
            to_plain: ToPlain::default(),
        }
    }

    /// One turn: at most one burst from either side through the path. Returns how many frames came in, and what the
    /// transmit SA needs.
    pub fn turn(&mut self, now: Instant) -> (usize, NextAction) {
        let Self { pool, plain, protected, path, waiting, burst, to_protected, to_plain } = self;
        let held = waiting.len();
        plain.receive(pool, waiting);
        let mut received = waiting.len() - held;
        let mut next = NextAction::GoOn;
        if !waiting.is_empty() {
            next = path.outward(now, pool, waiting, to_protected, &mut **protected);
        }
        protected.receive(pool, burst);
        received += burst.len();
        if !burst.is_empty() {
            path.inward(now, pool, burst, to_plain, &mut **plain);
        }
        plain.housekeep(pool);
        protected.housekeep(pool);
        (received, next)
    }

    /// When the next turn is due even if no frame comes.
    pub fn due(&self) -> Option<Instant> {
        self.path.held_until()
    }

    /// The path, for management between turns.
    pub const fn path_mut(&mut self) -> &mut Path {
        &mut self.path
    }

    /// The path.
    pub const fn path(&self) -> &Path {
        &self.path
    }

    /// Plain port and protected port.
    pub fn ports_mut(&mut self) -> [&mut dyn Port; 2] {
        [&mut *self.plain, &mut *self.protected]
    }

    /// The frames' memory.
    pub const fn pool(&self) -> &Pool {
        &self.pool
    }
}
