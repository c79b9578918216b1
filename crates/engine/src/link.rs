//! A link: two ports, the memory that their frames share, and the path between them.

use secy::NextAction;

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
            burst: Burst::new(),
            to_protected: ToProtected::default(),
            to_plain: ToPlain::default(),
        }
    }

    /// One turn: at most one burst from either side through the path. Returns how many frames came in, and what the
    /// transmit SA needs.
    pub fn turn(&mut self) -> (usize, NextAction) {
        let Self { pool, plain, protected, path, burst, to_protected, to_plain } = self;
        plain.receive(pool, burst);
        let mut received = burst.len();
        let mut next = NextAction::GoOn;
        if received > 0 {
            next = path.outward(pool, burst, to_protected);
            to_protected.transmit(&mut **protected, pool);
        }
        protected.receive(pool, burst);
        received += burst.len();
        if !burst.is_empty() {
            path.inward(pool, burst, to_plain);
            to_plain.transmit(&mut **plain, pool);
        }
        plain.housekeep(pool);
        protected.housekeep(pool);
        (received, next)
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
