//! Transfers of a pattern over TCP, compared octet by octet.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::sys::socket::{
    AddressFamily, SockFlag, SockProtocol, SockType, SockaddrStorage, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeVal;

use super::{GRACE, Ip, MARKER, address, deadline};
use crate::Error;
use crate::topology::Machine;

/// Octets of the TCP pattern: a prime, so that no part of it falls on segment borders again and again.
const PATTERN_OCTETS: usize = 65_521;

/// A TCP transfer that arrived whole and unchanged.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// Octets of payload.
    pub octets: u64,
    /// From the first octet to the last, as the receiver saw it.
    pub elapsed: Duration,
}

impl Transfer {
    /// Payload bits per second, in millions.
    pub fn megabits_per_second(&self) -> f64 {
        self.octets as f64 * 8.0 / self.elapsed.as_secs_f64() / 1e6
    }
}

/// Until when a transfer goes on.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    /// Until this number of octets has been sent.
    Octets(u64),
    /// Until this time has passed.
    Elapsed(Duration),
}

/// Transfers a pattern over TCP and compares every octet that arrives.
///
/// # Errors
/// If there is no connection, if it breaks, or if what arrives is not what was sent.
pub fn tcp(from: &Machine, to: &Machine, ip: Ip, until: Until) -> Result<Transfer, Error> {
    tcp_with(from, to, ip, until, None)
}

/// [`tcp`], with a congestion control of the sender's choice (`cubic`) instead of the system's.
///
/// # Errors
/// As [`tcp`], and if the kernel has not that congestion control.
pub fn tcp_with(
    from: &Machine,
    to: &Machine,
    ip: Ip,
    until: Until,
    congestion: Option<&'static str>,
) -> Result<Transfer, Error> {
    let limit = GRACE
        + match until {
            Until::Elapsed(time) => time,
            Until::Octets(octets) => Duration::from_millis(octets / 1000),
        };
    let (bound, port) = mpsc::channel();
    let (to_address, from_address) = (address(to, ip), address(from, ip));
    let receiver = to.namespace.spawn_thread(move || receive_pattern(to_address, &bound, limit))?;
    let listening = port.recv_timeout(GRACE).map_err(|_| deadline("a TCP listener", GRACE))??;
    let sender = from
        .namespace
        .spawn_thread(move || send_pattern(from_address, listening, until, limit, congestion))?;
    let sent = sender.join(limit + GRACE)??;
    let transfer = receiver.join(limit + GRACE)??;
    if transfer.octets == sent {
        Ok(transfer)
    } else {
        Err(Error::Unexpected(format!("TCP delivered {} octets of {sent}", transfer.octets)))
    }
}

fn pattern() -> Vec<u8> {
    let block = (0u32..).flat_map(|number| MARKER.iter().copied().chain(number.to_be_bytes()));
    block.take(PATTERN_OCTETS).collect()
}

fn receive_pattern(
    address: IpAddr,
    bound: &mpsc::Sender<Result<SocketAddr, Error>>,
    limit: Duration,
) -> Result<Transfer, Error> {
    let failed = Error::system::<std::io::Error>;
    let listener = TcpListener::bind((address, 0)).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok((listener.local_addr()?, listener))
    });
    let (local, listener) = listener.map_err(failed("listen for TCP"))?;
    // The one who asks is gone only after its own deadline.
    let _ = bound.send(Ok(local));
    let end = Instant::now() + limit;
    let mut stream = loop {
        match listener.accept() {
            Ok((stream, _)) => break stream,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock && Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                return Err(deadline("a TCP connection", limit));
            }
            Err(error) => return Err(failed("accept a TCP connection")(error)),
        }
    };
    let reading = "receive over TCP";
    stream
        .set_nonblocking(false)
        .and_then(|()| stream.set_read_timeout(Some(GRACE)))
        .map_err(failed(reading))?;
    let (pattern, mut buffer) = (pattern(), vec![0; PATTERN_OCTETS]);
    let (mut octets, mut start) = (0u64, None);
    while Instant::now() < end + GRACE {
        let at = (octets % PATTERN_OCTETS as u64) as usize;
        let read = stream.read(&mut buffer[at..]).map_err(failed(reading))?;
        let start = *start.get_or_insert_with(Instant::now);
        if read == 0 {
            return Ok(Transfer { octets, elapsed: start.elapsed() });
        }
        if buffer[at..at + read] != pattern[at..at + read] {
            return Err(Error::Unexpected(format!("TCP delivered something else behind octet {octets}")));
        }
        octets += read as u64;
    }
    Err(deadline("a TCP transfer", limit))
}

/// A connection. Its congestion control is chosen before it stands: another one would leave its pacing behind.
fn connect(to: SocketAddr, congestion: Option<&str>) -> Result<TcpStream, std::io::Error> {
    let Some(congestion) = congestion else { return TcpStream::connect_timeout(&to, GRACE) };
    let family = if to.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let socket = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, SockProtocol::Tcp)?;
    setsockopt(&socket, sockopt::TcpCongestion, &OsString::from(congestion))?;
    // It bounds the wait for the connection too.
    setsockopt(&socket, sockopt::SendTimeout, &TimeVal::new(GRACE.as_secs() as i64, 0))?;
    nix::sys::socket::connect(socket.as_raw_fd(), &SockaddrStorage::from(to))?;
    Ok(TcpStream::from(socket))
}

fn send_pattern(
    from: IpAddr,
    to: SocketAddr,
    until: Until,
    limit: Duration,
    congestion: Option<&str>,
) -> Result<u64, Error> {
    let what = format!("send over TCP from {from} to {to}");
    let mut stream = connect(to, congestion).map_err(Error::system(what.as_str()))?;
    stream.set_write_timeout(Some(GRACE)).map_err(Error::system(what.as_str()))?;
    let (pattern, start) = (pattern(), Instant::now());
    let mut octets = 0u64;
    loop {
        let at = (octets % PATTERN_OCTETS as u64) as usize;
        let most = match until {
            Until::Octets(all) => usize::try_from(all - octets).unwrap_or(usize::MAX),
            Until::Elapsed(time) if start.elapsed() >= time => 0,
            Until::Elapsed(_) => usize::MAX,
        };
        if most == 0 {
            return Ok(octets);
        }
        if start.elapsed() > limit {
            return Err(deadline("a TCP transfer", limit));
        }
        let piece = &pattern[at..];
        let piece = &piece[..piece.len().min(most)];
        octets += stream.write(piece).map_err(Error::system(what.as_str()))? as u64;
    }
}
