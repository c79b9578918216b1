//! Where a thread sleeps: the socket pair of a waker and a waiter, or the token of `std::thread::park`.

use loom::sync::{Arc, Condvar, Mutex};

/// Octets that the socket takes: more wake-ups than these are lost, as with a full buffer. `park` has one token.
const ROOM: usize = 1;

/// Both ends.
#[derive(Clone, Default)]
pub struct Socket(Arc<(Mutex<usize>, Condvar)>);

impl Socket {
    /// Wakes the waiter, now or when it next waits.
    pub fn wake(&self) {
        let (octets, came) = &*self.0;
        let mut octets = octets.lock().unwrap();
        *octets = (*octets + 1).min(ROOM);
        came.notify_one();
    }

    /// Sleeps until there are octets, and takes them all. Nothing else wakes: a lost wake-up is a sleep without end.
    pub fn wait(&self) {
        let (octets, came) = &*self.0;
        let mut octets = octets.lock().unwrap();
        while *octets == 0 {
            octets = came.wait(octets).unwrap();
        }
        *octets = 0;
    }
}
