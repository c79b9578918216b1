//! A connection with a peer: its streams, read and written.
//!
//! ```text
//!  control, announcements   one each, as long as the connection:  kind 1 | (length 2 | message)...
//!  an MKPDU                 a stream of its own:                  kind 1 | the frame as it is on the LAN
//!  a fill                   a stream of its own:                  kind 1 | octets of no meaning
//! ```
//!
//! A *fill* makes a packet as long as the path is said to carry. Without it, on a channel that has little to say, QUIC
//! would not notice that the path does not carry it any more, and long data packets would vanish for ever.
//!
//! All queues are bounded. A peer that sends faster than it is heard is held back by QUIC's flow control; a peer that
//! reads nothing holds up its own session alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use quinn::{Connection, ConnectionError, ReadToEndError, RecvStream, VarInt};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use tunnel::{Message, MessageError, Stream};
use wire::mkpdu::is_outer_tagged_eapol_mka;
use zeroize::Zeroizing;

use super::mkpdus::{Mkpdus, PutOutcome};
use super::shared::Shared;
use super::transport::{FLOOR, kind};
use dataplane::site::{LanFrame, PACKET_OCTETS};

/// Interval at which the path is filled.
const FILL_INTERVAL: Duration = Duration::from_secs(2);
/// Octets of a fill that are read.
const FILL_OCTETS: usize = 64 * 1024;

/// Messages that can wait to be written, on each of the two streams.
const OUTGOING: usize = 64;
/// Messages that can wait.
const INCOMING: usize = 64;
/// Limit on the time for the octets of an MKPDU: older ones are worth nothing.
const MKPDU_PATIENCE: Duration = Duration::from_secs(3);

/// The same for a fill: lost ones are sent again until they arrive in shorter packets.
const FILL_PATIENCE: Duration = Duration::from_secs(30);

/// Input from a peer.
#[derive(Debug)]
pub(super) enum Incoming {
    Message(Message),
    /// A message of a kind that is unknown here.
    Skipped,
    Mkpdu(Box<LanFrame>),
    /// Octets that are no message: the connection has to be closed.
    Malformed(MessageError),
}

/// A connection.
#[derive(Debug)]
pub(super) struct PeerConnection {
    pub(super) connection: Connection,
    /// Whether this site opened it.
    pub(super) ours: bool,
    pub(super) since: Instant,
    /// Whether both sites have greeted each other.
    pub(super) greeted: bool,
    pub(super) incoming: mpsc::Receiver<Incoming>,
    control: mpsc::Sender<Zeroizing<Vec<u8>>>,
    announcements: mpsc::Sender<Zeroizing<Vec<u8>>>,
    mkpdus: Arc<Mkpdus>,
    /// Sends these.
    sending: AbortHandle,
    shared: Arc<Shared>,
}

impl Drop for PeerConnection {
    fn drop(&mut self) {
        // Nothing wakes it any more, and it has a handle of the connection, which would live as long.
        self.sending.abort();
    }
}

impl PeerConnection {
    /// Starts reading and writing. `first`: a stream of the peer that was accepted already.
    pub(super) fn start(
        connection: Connection,
        ours: bool,
        first: Option<RecvStream>,
        shared: &Arc<Shared>,
    ) -> Self {
        let (control, control_out) = mpsc::channel(OUTGOING);
        let (announcements, announcements_out) = mpsc::channel(OUTGOING);
        tokio::spawn(write(connection.clone(), Stream::Control, control_out));
        tokio::spawn(write(connection.clone(), Stream::Announcements, announcements_out));
        let mkpdus = Arc::new(Mkpdus::default());
        let sending = Arc::clone(&mkpdus).send(connection.clone(), Arc::clone(&shared.shared_counters));
        let sending = tokio::spawn(sending).abort_handle();
        tokio::spawn(fill(connection.clone()));
        let (ear, incoming) = mpsc::channel(INCOMING);
        let reader = Reader {
            ear,
            shared: Arc::clone(shared),
            open: [AtomicBool::new(false), AtomicBool::new(false)],
        };
        tokio::spawn(Arc::new(reader).accept(connection.clone(), first));
        let since = Instant::now();
        Self {
            connection,
            ours,
            since,
            greeted: false,
            incoming,
            control,
            announcements,
            mkpdus,
            sending,
            shared: Arc::clone(shared),
        }
    }

    /// Whether a message can be taken on either stream.
    pub(super) fn has_room(&self) -> bool {
        self.control.capacity() > 0 && self.announcements.capacity() > 0
    }

    /// Whether the message was taken.
    pub(super) fn send(&self, stream: Stream, message: &Message) -> bool {
        let body = message.encode();
        let mut octets = Zeroizing::new(Vec::with_capacity(2 + body.len()));
        octets.extend_from_slice(&(body.len() as u16).to_be_bytes());
        octets.extend_from_slice(&body);
        let queue = match stream {
            Stream::Control => &self.control,
            Stream::Announcements => &self.announcements,
        };
        let taken = queue.try_send(octets).is_ok();
        if taken {
            self.shared.shared_counters.count(|counters| counters.out_messages += 1);
        }
        taken
    }

    /// An MKPDU of the LAN.
    pub(super) fn send_mkpdu(&self, frame: LanFrame) {
        let put = self.mkpdus.put(Instant::now(), frame);
        self.shared.shared_counters.count(|counters| match put {
            PutOutcome::Waits => {}
            PutOutcome::Replaces => counters.out_mkpdus_replaced += 1,
            PutOutcome::Refused => counters.out_mkpdus_no_room += 1,
        });
    }

    /// Why the connection has ended, if it has.
    pub(super) fn ended(&self) -> Option<ConnectionError> {
        self.connection.close_reason()
    }

    /// Closes the connection; the peer is told why.
    pub(super) fn close(self, code: VarInt, why: &str) {
        self.connection.close(code, why.as_bytes());
    }
}

/// Writes one of the two streams until the line is dropped or the connection ends.
async fn write(connection: Connection, stream: Stream, mut messages: mpsc::Receiver<Zeroizing<Vec<u8>>>) {
    let Ok(mut to) = connection.open_uni().await else { return };
    let _ = to.set_priority(match stream {
        Stream::Control => 1,
        Stream::Announcements => 0,
    });
    if to.write_all(&[stream.octet()]).await.is_err() {
        return;
    }
    while let Some(octets) = messages.recv().await {
        if to.write_all(&octets).await.is_err() {
            return;
        }
    }
}

/// Fills the path from time to time, until the connection ends.
async fn fill(connection: Connection) {
    loop {
        sleep(FILL_INTERVAL).await;
        let longest = connection.stats().path.current_mtu;
        if connection.close_reason().is_some() {
            return;
        }
        if longest <= FLOOR {
            continue;
        }
        let Ok(mut stream) = connection.open_uni().await else { return };
        let _ = stream.set_priority(-1);
        let mut octets = vec![0; usize::from(longest)];
        octets[0] = kind::FILL;
        // With what QUIC puts around it a packet of that length, and a short one.
        if stream.write_all(&octets).await.is_err() || stream.finish().is_err() {
            return;
        }
        // One at a time.
        let _ = stream.stopped().await;
    }
}

/// Reads all of a peer's streams.
struct Reader {
    ear: mpsc::Sender<Incoming>,
    shared: Arc<Shared>,
    /// Whether the stream of control was opened, and that of announcements.
    open: [AtomicBool; 2],
}

impl Reader {
    async fn accept(self: Arc<Self>, connection: Connection, mut first: Option<RecvStream>) {
        loop {
            let stream = match first.take() {
                Some(stream) => stream,
                None => match connection.accept_uni().await {
                    Ok(stream) => stream,
                    Err(_) => break,
                },
            };
            // As many at a time as the peer may have open.
            tokio::spawn(Arc::clone(&self).read(stream));
        }
        self.shared.stir.notify_one();
    }

    async fn hear(&self, incoming: Incoming) -> bool {
        let taken = self.ear.send(incoming).await.is_ok();
        self.shared.stir.notify_one();
        taken
    }

    async fn read(self: Arc<Self>, mut stream: RecvStream) {
        let mut kind = [0];
        if stream.read_exact(&mut kind).await.is_err() {
            return;
        }
        match kind {
            [kind::MKPDU] => self.mkpdu(stream).await,
            [kind::FILL] => drop(timeout(FILL_PATIENCE, stream.read_to_end(FILL_OCTETS)).await),
            [octet] => match self.open.get(usize::from(octet)) {
                Some(open) if !open.swap(true, Ordering::Relaxed) => self.messages(stream).await,
                // Of a later version, or one too many: not read, and the peer is told so.
                _ => {
                    self.shared.shared_counters.count(|counters| counters.in_unknown_streams += 1);
                    let _ = stream.stop(VarInt::from_u32(0));
                }
            },
        }
    }

    async fn mkpdu(&self, mut stream: RecvStream) {
        let octets = match timeout(MKPDU_PATIENCE, stream.read_to_end(PACKET_OCTETS)).await {
            Ok(Ok(octets)) => octets,
            Ok(Err(ReadToEndError::TooLong)) => {
                self.shared.shared_counters.count(|counters| counters.in_bad_mkpdus += 1);
                return;
            }
            Ok(Err(ReadToEndError::Read(_))) | Err(_) => return,
        };
        match LanFrame::try_from(&octets[..]) {
            Ok(frame) if is_outer_tagged_eapol_mka(&frame) => {
                self.hear(Incoming::Mkpdu(Box::new(frame))).await;
            }
            _ => self.shared.shared_counters.count(|counters| counters.in_bad_mkpdus += 1),
        }
    }

    async fn messages(&self, mut stream: RecvStream) {
        loop {
            let mut length = [0; 2];
            if stream.read_exact(&mut length).await.is_err() {
                return;
            }
            let length = usize::from(u16::from_be_bytes(length));
            if length > Message::OCTETS {
                self.hear(Incoming::Malformed(MessageError::TooLong)).await;
                return;
            }
            let mut octets = Zeroizing::new(vec![0; length]);
            if stream.read_exact(&mut octets).await.is_err() {
                return;
            }
            let incoming = match Message::parse(&octets) {
                Ok(Some(message)) => Incoming::Message(message),
                Ok(None) => Incoming::Skipped,
                Err(error) => Incoming::Malformed(error),
            };
            let faulty = matches!(incoming, Incoming::Malformed(_));
            if !self.hear(incoming).await || faulty {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;
