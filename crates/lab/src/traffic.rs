//! Traffic of machines: they transfer files, answer datagrams, exchange process data every cycle.
//!
//! Each runs on threads inside the machines' namespaces and ends by itself: every wait has a deadline. What is sent
//! carries [`MARKER`], so that a search for it tells whether plaintext is somewhere.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockProtocol, SockType, SockaddrStorage, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeVal;

use crate::packet::Direction;
use crate::topology::{Mac, Machine};
use crate::{Error, PacketSocket};

/// Marker that no frame but ours contains: it stands in every segment, datagram and cyclic frame sent here.
pub const MARKER: &[u8; 16] = b"plaintext-marker";

/// EtherType of PROFINET RT.
const PROFINET: u16 = 0x8892;
/// A FrameID of cyclic data (RT class 1).
const FRAME_ID: u16 = 0x8001;
/// Octets of the TCP pattern: a prime, so that no part of it falls on segment borders again and again.
const PATTERN_OCTETS: usize = 65_521;
/// Octets of the longest datagram that comes back whole.
const LONGEST_DATAGRAM: usize = 9216;
/// Time under way after which a datagram or a frame counts as lost, on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// The same where many are expected to be lost.
const BRIEFLY: Duration = Duration::from_secs(1);
/// Limit on the time that anything takes beyond its own duration.
const GRACE: Duration = Duration::from_secs(20);

/// Version of the Internet Protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ip {
    /// Version 4.
    V4,
    /// Version 6; only in a topology that has it.
    V6,
}

fn address(machine: &Machine, ip: Ip) -> IpAddr {
    match ip {
        Ip::V4 => machine.ipv4.into(),
        Ip::V6 => machine.ipv6.into(),
    }
}

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

/// Process data that was sent every cycle.
#[derive(Debug)]
pub struct Cyclic {
    /// Frames that were sent.
    pub sent: u64,
    /// Frames that arrived.
    pub received: u64,
    /// Frames that arrived after a later one, or twice.
    pub out_of_order: u64,
    /// Deviation of the time between two arrivals from the cycle, in nanoseconds.
    pub jitter: Histogram<u64>,
}

/// Sends PROFINET-like frames of `payload_octets` (at least 30) every `cycle`, `count` times, and watches them
/// arrive.
///
/// # Errors
/// If the sockets fail. A lost frame is not an error.
pub fn cyclic(
    from: &Machine,
    to: &Machine,
    cycle: Duration,
    count: u64,
    payload_octets: usize,
) -> Result<Cyclic, Error> {
    let mut receiver = PacketSocket::open(&to.namespace, to.ifname)?;
    let sender = PacketSocket::open(&from.namespace, from.ifname)?;
    let (to_mac, from_mac) = (to.mac, from.mac);
    let sending = from.namespace.spawn_thread(move || {
        let start = Instant::now();
        for number in 0..count {
            let due = start + cycle * u32::try_from(number).unwrap_or(u32::MAX);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            sender.send(&cyclic_frame(to_mac, from_mac, payload_octets, number))?;
        }
        Ok::<_, Error>(())
    })?;
    let mut seen = Cyclic { sent: count, received: 0, out_of_order: 0, jitter: histogram() };
    let (mut last_at, mut next) = (None, 0);
    let end = Instant::now() + cycle * u32::try_from(count).unwrap_or(u32::MAX) + PATIENCE;
    while seen.received < count && Instant::now() < end {
        let Some(frame) = receiver.receive()? else { continue };
        let Some(number) = cyclic_number(&frame.octets) else { continue };
        if frame.direction != Direction::In {
            continue;
        }
        seen.received += 1;
        if number < next {
            seen.out_of_order += 1;
        } else {
            next = number + 1;
        }
        if let Some(last) = last_at.replace(frame.at) {
            let between: Duration = frame.at.saturating_duration_since(last);
            seen.jitter.saturating_record(nanoseconds(between.abs_diff(cycle)));
        }
    }
    sending.join(GRACE + cycle * u32::try_from(count).unwrap_or(u32::MAX))??;
    Ok(seen)
}

fn cyclic_frame(to: Mac, from: Mac, payload_octets: usize, number: u64) -> Vec<u8> {
    let mut frame = [&to[..], &from, &PROFINET.to_be_bytes(), &FRAME_ID.to_be_bytes(), MARKER].concat();
    frame.extend(number.to_be_bytes());
    frame.resize(14 + payload_octets.max(30), 0);
    frame
}

fn cyclic_number(frame: &[u8]) -> Option<u64> {
    let ours = frame.get(12..14)? == PROFINET.to_be_bytes() && frame.get(16..32)? == MARKER;
    if ours { Some(u64::from_be_bytes(frame.get(32..40)?.try_into().ok()?)) } else { None }
}

/// Result of `ping`: round trips of ICMP echoes, lost ones among them.
#[derive(Clone, Debug)]
pub struct Ping {
    /// As its last two lines: packets, and round trips.
    pub summary: String,
}

/// Pings from one machine to the other with the system's `ping`, 50 ms apart. An answer may take [`PATIENCE`], the last
/// one too.
///
/// # Errors
/// If an answer is missing.
pub fn ping(from: &Machine, to: &Machine, ip: Ip, count: u32, payload_octets: u16) -> Result<Ping, Error> {
    let (target, echoes, octets) =
        (address(to, ip).to_string(), count.to_string(), payload_octets.to_string());
    // Without a deadline ping leaves two round trips after the last echo, which a busy machine may exceed. With one it
    // sends further echoes until so many are answered; they are not asked for here.
    let deadline = (PATIENCE + Duration::from_millis(50) * count).as_secs().to_string();
    let arguments =
        ["ping", "-n", "-i", "0.05", "-w", &deadline, "-c", &echoes, "-s", &octets, "-M", "do", &target];
    let output = from.namespace.run_within(&arguments, Duration::from_secs(60))?;
    let answered = |number: u32| output.stdout.contains(&format!("icmp_seq={number} ttl="));
    let line = |word: &str| output.stdout.lines().find(|line| line.contains(word)).unwrap_or_default();
    if (1..=count).all(answered) {
        let summary =
            format!("{count} packets transmitted, {count} received, 0% packet loss; {}", line("rtt"));
        Ok(Ping { summary })
    } else {
        Err(Error::Unexpected(format!("ping to {target}: {}; {}", line("transmitted"), line("rtt"))))
    }
}

/// One nanosecond to a minute, to three digits.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("invariant: these bounds are allowed")
}

pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn deadline(what: &str, limit: Duration) -> Error {
    Error::Deadline { what: what.into(), limit }
}
