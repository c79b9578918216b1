//! A flood that goes on until it is stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::{Error, Namespace, PacketSocket, Task};

/// Limit on the time that the sender takes to end.
const GRACE: Duration = Duration::from_secs(60);

/// A sender in a thread of its own.
#[derive(Debug)]
pub struct Load {
    sender: Task<Result<(), Error>>,
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
}

impl Load {
    /// Calls `send` again and again, for at most `limit`: it sends what is due on this socket, and returns how many frames that were.
    pub(crate) fn spawn(
        (namespace, ifname): (&Namespace, &str),
        mut send: impl FnMut(&PacketSocket) -> Result<usize, Error> + Send + 'static,
        limit: Duration,
    ) -> Result<Self, Error> {
        let socket = PacketSocket::open(namespace, ifname)?;
        socket.never_wait()?;
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&sent));
        let sender = namespace.spawn_thread(move || {
            let start = Instant::now();
            while !stopped.load(Ordering::Relaxed) && start.elapsed() < limit {
                counted.fetch_add(send(&socket)? as u64, Ordering::Relaxed);
            }
            Ok(())
        })?;
        Ok(Self { sender, stop, sent })
    }

    /// Frames sent so far.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Stops it and returns how many frames were sent.
    ///
    /// # Errors
    /// If the sender failed or does not end.
    pub fn stop(self) -> Result<u64, Error> {
        self.stop.store(true, Ordering::Relaxed);
        self.sender.join(GRACE)??;
        Ok(self.sent.load(Ordering::Relaxed))
    }
}
