//! Waiting for frames or for a word from control: `poll` over the ports' descriptors and a socket pair.

#![allow(unsafe_code)]

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Descriptors for which there is room from the start: more are a longer list once, when ports are opened.
const USUAL_DESCRIPTORS: usize = 64;

/// The end that wakes.
#[derive(Debug)]
pub struct Waker(UnixStream);

/// The end that waits.
#[derive(Debug)]
pub struct Waiter {
    socket: UnixStream,
    polled: Vec<libc::pollfd>,
}

/// A waker and its waiter.
///
/// # Errors
/// If no socket pair can be had.
pub fn pair() -> io::Result<(Waker, Waiter)> {
    let (waker, socket) = UnixStream::pair()?;
    waker.set_nonblocking(true)?;
    socket.set_nonblocking(true)?;
    let mut polled = Vec::with_capacity(USUAL_DESCRIPTORS);
    polled.push(readable(socket.as_raw_fd()));
    Ok((Waker(waker), Waiter { socket, polled }))
}

const fn readable(fd: RawFd) -> libc::pollfd {
    libc::pollfd { fd, events: libc::POLLIN, revents: 0 }
}

impl Waker {
    /// Wakes the waiter, now or when it next waits.
    pub fn wake(&self) {
        // A full socket buffer means that wake-ups enough are on their way; a closed one, that nobody waits.
        let _ = (&self.0).write(&[1]);
    }
}

impl Waiter {
    /// Clears the list of descriptors to watch.
    pub fn clear(&mut self) {
        self.polled.truncate(1);
    }

    /// Waits for these descriptors to become readable as well, from now on.
    pub fn watch(&mut self, descriptors: impl Iterator<Item = RawFd>) {
        self.polled.extend(descriptors.map(readable));
    }

    /// Whether the last wait found this descriptor readable.
    pub fn was_readable(&self, descriptor: RawFd) -> bool {
        self.polled.iter().any(|polled| polled.fd == descriptor && polled.revents != 0)
    }

    /// Returns when a descriptor is readable, the waker woke, a signal came or `most` has passed: true for the first two.
    pub fn wait(&mut self, most: Duration) -> bool {
        let seconds = i64::try_from(most.as_secs()).unwrap_or(i64::MAX);
        let most = libc::timespec { tv_sec: seconds as _, tv_nsec: most.subsec_nanos().into() };
        // SAFETY: the array and the time live across the call, and the array's length is given with it; no signal
        // mask is set.
        let readable = unsafe {
            libc::ppoll(
                self.polled.as_mut_ptr(),
                self.polled.len() as libc::nfds_t,
                &raw const most,
                std::ptr::null(),
            )
        };
        if self.polled.first().is_some_and(|own| own.revents != 0) {
            let mut woken = [0; 64];
            while (&self.socket).read(&mut woken).is_ok_and(|octets| octets == woken.len()) {}
        }
        readable > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_wake_up_before_the_wait_is_not_lost_and_is_used_up() {
        let (waker, mut waiter) = pair().expect("a socket pair");
        for _ in 0..10_000 {
            waker.wake();
        }
        let start = Instant::now();
        assert!(waiter.wait(Duration::from_secs(60)));
        assert!(start.elapsed() < Duration::from_secs(30), "the wake-up was lost");
        assert!(!waiter.wait(Duration::from_millis(20)));
        assert!(start.elapsed() >= Duration::from_millis(20), "old wake-ups were left");
    }
}
