//! A site's session, and what it says to its two sides.

use std::cell::Cell;

use suite::tunnel::EpochSecret;
use tunnel::{
    ChannelState, Command, EPOCH_LIFE, Event, FrameKinds, Instance, Message, Mode, PeerId, Session,
    SessionSettings, Stream,
};
use wire::Instant;

use crate::names::{Part, digest, parts};
use crate::past::Object;

/// The one peer.
pub(super) const PEER: PeerId = PeerId(3);

thread_local! {
    /// Site, start and number of the secret that is drawn next. A session draws by a function without a state, and has to draw the same
    /// whenever it is made again.
    static NEXT: Cell<(u8, u8, u8)> = const { Cell::new((0, 0, 0)) };
}

fn draw() -> EpochSecret {
    let (site, start, number) = NEXT.get();
    NEXT.set((site, start, number + 1));
    secret(site, start, number)
}

fn secret(site: u8, start: u8, number: u8) -> EpochSecret {
    let mut octets = [0; 32];
    (octets[0], octets[1], octets[2]) = (site + 1, start, number);
    EpochSecret::new(&octets)
}

/// Beginning of a site.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Begin {
    pub(super) site: usize,
    pub(super) start: u8,
    pub(super) mode: Mode,
}

/// An input of a session.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Told {
    Connected,
    Disconnected,
    Message(Vec<u8>),
    Event(Event),
    Timeout,
}

/// Consequences of an input for a session, and its state then.
pub(super) struct Did {
    pub(super) control: Vec<Vec<u8>>,
    pub(super) announcements: Vec<Vec<u8>>,
    pub(super) commands: Vec<Command>,
    pub(super) timeout: Option<Instant>,
    pub(super) channel: ChannelState,
    /// Flows that are to be announced, that the peer knows, and of the peer that are known here.
    pub(super) flows: [usize; 3],
    /// A fault of an honest peer.
    pub(super) wrong: Option<String>,
    pub(super) parts: Vec<Part>,
}

/// A session.
pub(super) struct Site {
    session: Session,
    begin: Begin,
    drawn: u8,
}

impl Object for Site {
    type Begin = Begin;
    type Told = Told;
    type Did = Did;

    fn begin(begin: &Begin, at: Instant) -> (Self, Did) {
        let mut instance = [0; 16];
        (instance[0], instance[1]) = (begin.site as u8 + 1, begin.start);
        let settings = SessionSettings {
            peer: PEER,
            instance: Instance(instance),
            mode: begin.mode,
            lanes: 1,
            window: 4096,
            frames: FrameKinds::default(),
            epoch_life: EPOCH_LIFE,
            draw,
        };
        let mut site = Self { session: Session::new(settings, at), begin: begin.clone(), drawn: 0 };
        let did = site.did(None);
        (site, did)
    }

    fn tell(&mut self, at: Instant, told: &Told) -> Did {
        NEXT.set((self.begin.site as u8, self.begin.start, self.drawn));
        let mut wrong = None;
        match told {
            Told::Connected => self.session.handle_connected(at),
            Told::Disconnected => self.session.handle_disconnected(at),
            Told::Message(octets) => match Message::parse(octets) {
                Ok(Some(message)) => wrong = self.session.handle_message(at, message).err(),
                other => return self.did(Some(format!("{other:?} from an honest peer"))),
            },
            Told::Event(event) => self.session.handle_event(at, event.clone()),
            Told::Timeout => self.session.handle_timeout(at),
        }
        self.drawn = NEXT.get().2;
        self.did(wrong.map(|fault| fault.to_string()))
    }
}

impl Site {
    fn did(&mut self, mut wrong: Option<String>) -> Did {
        let (mut control, mut announcements) = (vec![], vec![]);
        while let Some((stream, message)) = self.session.poll_message() {
            match stream {
                Stream::Control => control.push(message.encode().to_vec()),
                Stream::Announcements => announcements.push(message.encode().to_vec()),
            }
        }
        let commands = std::iter::from_fn(|| self.session.poll_command()).collect();
        let names = ["Instance([", "IdentifierBlock {", "RequestId("];
        // Token buckets are larger than what so few faults take from them, and their moments are no part of a state.
        let left_out = ["SessionCounters {", "TokenBucket {"];
        let mut parts = parts(&format!("{:?}", self.session), &names, &left_out);
        // No state shows its secrets. The one that is offered is the last one that was drawn.
        let Begin { site, start, .. } = self.begin;
        let last = self.drawn.checked_sub(1).map(|last| *secret(site as u8, start, last).octets());
        parts.extend(last.map(|octets| Part::Name(digest(octets))));
        let timeout = self.session.poll_timeout();
        if self.session.state().fault.is_some() {
            wrong.get_or_insert("a fault".to_owned());
        }
        let state = self.session.state();
        let flows = [state.flows_announced, state.flows_acknowledged, state.peer_flows];
        Did { control, announcements, commands, timeout, channel: state.channel, flows, wrong, parts }
    }
}

/// The parts of a message.
pub(super) fn message_parts(octets: &[u8]) -> Vec<Part> {
    let message = Message::parse(octets);
    let mut all = parts(&format!("{message:?}"), &["Instance(["], &[]);
    if let Ok(Some(Message::Epoch { secret, .. })) = message {
        all.push(Part::Name(digest(*secret.octets())));
    }
    all
}

/// The parts of a command.
pub(super) fn command_parts(command: &Command) -> Vec<Part> {
    let mut all = parts(&format!("{command:?}"), &["RequestId("], &[]);
    if let Command::InstallReceive { secret, .. } | Command::InstallTransmit { secret, .. } = command {
        all.push(Part::Name(digest(*secret.octets())));
    }
    all
}
