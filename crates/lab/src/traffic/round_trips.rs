//! Round trips of datagrams.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::{Ip, MARKER, PATIENCE, address};
use crate::Error;
use crate::histogram::{histogram, nanoseconds};
use crate::topology::Machine;

/// Octets of the longest datagram that comes back whole.
const LONGEST_DATAGRAM: usize = 9216;
/// Patience where many are expected to be lost.
const BRIEFLY: Duration = Duration::from_secs(1);

/// Round trips, in nanoseconds, and what was lost.
#[derive(Debug)]
pub struct RoundTrips {
    /// Datagrams that were sent.
    pub sent: u64,
    /// Those that came back.
    pub times: Histogram<u64>,
}

impl RoundTrips {
    /// The round trip that so many percent did not exceed.
    pub fn percentile(&self, percent: f64) -> Duration {
        Duration::from_nanos(self.times.value_at_percentile(percent))
    }

    /// Datagrams that did not come back in time.
    pub fn lost(&self) -> u64 {
        self.sent - self.times.len()
    }
}

/// Sends datagrams one after the other, each `payload_octets` long (at least 24), and waits for each to come back
/// unchanged, at most [`PATIENCE`].
///
/// # Errors
/// If the sockets fail. A lost datagram is not an error.
pub fn round_trips(
    from: &Machine,
    to: &Machine,
    ip: Ip,
    payload_octets: usize,
    count: u64,
) -> Result<RoundTrips, Error> {
    paced_round_trips(from, to, ip, payload_octets, count, (Duration::ZERO, PATIENCE))
}

/// [`round_trips`] with a pause before each, so that whoever dozes between datagrams is asleep when one comes. Waits at
/// most a second for each.
///
/// # Errors
/// As [`round_trips`].
pub fn lone_round_trips(
    from: &Machine,
    to: &Machine,
    ip: Ip,
    payload_octets: usize,
    count: u64,
    pause: Duration,
) -> Result<RoundTrips, Error> {
    paced_round_trips(from, to, ip, payload_octets, count, (pause, BRIEFLY))
}

fn paced_round_trips(
    from: &Machine,
    to: &Machine,
    ip: Ip,
    payload_octets: usize,
    count: u64,
    (pause, patience): (Duration, Duration),
) -> Result<RoundTrips, Error> {
    let failed = Error::system::<std::io::Error>;
    let (to_address, from_address) = (address(to, ip), address(from, ip));
    let bind = move |address: IpAddr, wait: Duration| {
        let socket = UdpSocket::bind((address, 0))?;
        socket.set_read_timeout(Some(wait))?;
        Ok(socket)
    };
    // The echoing side looks often enough whether it is over.
    let echo = to.namespace.enter(|| bind(to_address, BRIEFLY))?.map_err(failed("open a UDP socket"))?;
    let socket =
        from.namespace.enter(|| bind(from_address, patience))?.map_err(failed("open a UDP socket"))?;
    let target = echo.local_addr().map_err(failed("name a UDP socket"))?;
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = [0; LONGEST_DATAGRAM];
            loop {
                let received = echo.recv_from(&mut buffer);
                if stop.load(std::sync::atomic::Ordering::Acquire) {
                    // Nobody waits for an answer: one would be a frame behind the last, and so would be the refusal.
                    break;
                }
                if let Ok((octets, peer)) = received {
                    // An echo that cannot be sent is a lost round trip, and is seen as one.
                    let _ = echo.send_to(&buffer[..octets], peer);
                }
            }
        });
        let measured = measure(&socket, target, payload_octets, count, pause);
        stop.store(true, std::sync::atomic::Ordering::Release);
        // One more, so that it looks now; should it be lost, it looks when its patience ends.
        let _ = socket.send_to(&[], target);
        measured
    })
}

fn measure(
    socket: &UdpSocket,
    target: SocketAddr,
    octets: usize,
    count: u64,
    pause: Duration,
) -> Result<RoundTrips, Error> {
    let what = "send datagrams";
    let mut trips = RoundTrips { sent: 0, times: histogram() };
    let mut datagram = vec![0; octets.max(24)];
    datagram[..16].copy_from_slice(MARKER);
    let mut answer = [0; LONGEST_DATAGRAM];
    for number in 0..count {
        datagram[16..24].copy_from_slice(&number.to_be_bytes());
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
        let start = Instant::now();
        socket.send_to(&datagram, target).map_err(Error::system(what))?;
        trips.sent += 1;
        // An answer that comes too late belongs to a datagram that was counted as lost.
        while let Ok(received) = socket.recv(&mut answer) {
            if answer[..received] == datagram {
                trips.times.saturating_record(nanoseconds(start.elapsed()));
                break;
            }
        }
    }
    Ok(trips)
}
