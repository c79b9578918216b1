//! A gateway and its operator before a directory that lies, as a list of operations on what each of them is shown: withheld, old, of others, cut,
//! changed, put together of two, or anything at all. What the operator's and the gateway's own code believes of that is judged by what was published
//! and said.
//!
//! | judged | when |
//! |---|---|
//! | a gateway accepts what its operator published for it, whole, valid now, and nothing older than before; also after a restart | at each record |
//! | what is refused changes nothing | at each record |
//! | shown the newest record, it accepts it, if that is valid and no revocation | at each record |
//! | an operator believes what the gateway said, and nothing older than before | at each look |
//! | what is hidden, withheld, or no heartbeat of the gateway is told; a gateway of which nothing new is shown for long is stale, and confirms nothing | at each look |

use arbitrary::{Arbitrary, Unstructured};
use fleet::{
    AcceptError, Acceptor, Draft, FileName, Files, GatewayName, Heartbeat, Kind, Known, Member, Operator,
    Outcome, Part, PartKind, PartLevel, Parts, Peers, PublicIdentity, Refusal, STALE, Standing, Validity,
    published,
};
use suite::identity::Identity;

use crate::scratch::Scratch;

/// Beginning, in seconds since 1970.
const BEGIN: u64 = 1_800_000_000;
/// Version of the operator's first record; each further one has the next.
const FIRST: u64 = 100;
/// The most operations of a run: each may write to a disk.
const OPERATIONS: usize = 64;

/// Records that are shown.
#[derive(Arbitrary, Clone, Debug)]
enum Shown {
    /// The newest, as it is.
    Newest,
    /// Nothing.
    Withheld,
    /// Another one that was ever made: old, or of somebody else.
    Other(u8),
    /// One that is cut.
    Cut(u8, u16),
    /// One with a bit changed.
    Changed(u8, u16),
    /// The beginning of one and the end of another.
    Mixed(u8, u8, u16),
    /// These octets.
    Any(Vec<u8>),
}

#[derive(Arbitrary, Clone, Debug)]
enum Operation {
    /// The operator publishes the next record.
    Publishes,
    /// The gateway's agent gets to see this.
    Agent(Shown),
    /// The agent is killed and started.
    Restarts,
    /// The gateway puts a heartbeat into the directory.
    Beats,
    /// The operator looks, and gets to see this record and this heartbeat.
    Looks(Shown, Shown),
    /// Seconds pass.
    Waits(u16),
}

/// A record, and what its operator put in.
struct Published {
    octets: Vec<u8>,
    kind: Kind,
    version: u64,
    validity: Validity,
    files: Files,
}

/// Constants: those that act, and their records.
struct Fixture {
    scratch: Scratch,
    operator: Operator,
    name: GatewayName,
    /// The operator's records for the gateway, in their order.
    own: Vec<Published>,
    /// Records of others, or for others.
    foreign: Vec<Vec<u8>>,
    /// A heartbeat of another gateway.
    beside: Vec<u8>,
}

thread_local! {
    static FIXTURE: Fixture = Fixture::new();
}

const fn gateway() -> [u8; 32] {
    [7; 32]
}

/// Files that are different for each number.
fn files(number: u64) -> Files {
    let mut files = Files::default();
    for (name, content) in
        [(FileName::CONFIGURATION, format!("# {number}\n")), ("press.cak", "x".repeat(number as usize % 40))]
    {
        let name = FileName::new(name).expect("invariant: a name");
        files.insert(name, content.into_bytes().into()).expect("invariant: there is room");
    }
    files
}

impl Fixture {
    fn new() -> Self {
        let [press, crane] =
            ["press", "crane"].map(|name| GatewayName::new(name).expect("invariant: a name"));
        let [operator, stranger] = [1, 2].map(|octet| Operator::new(Identity::new(&[octet; 32])));
        let member = PublicIdentity::of(&Identity::new(&gateway()));
        let other = PublicIdentity::of(&Identity::new(&[8; 32]));
        let make = |by: &Operator, name: &GatewayName, member: &PublicIdentity, kind, version, validity| {
            let files = if kind == Kind::Revocation { Files::default() } else { files(version) };
            let draft = Draft { gateway: name, member, kind, files: &files };
            let octets = by.publish(draft, version, validity).expect("invariant: a key in memory signs");
            Published { octets, kind, version, validity, files }
        };
        let always = Validity { from: 0, until: u64::MAX };
        let [later, soon] =
            [(BEGIN + 5_000, u64::MAX), (0, BEGIN + 5_000)].map(|(from, until)| Validity { from, until });
        let records = [
            (Kind::Configuration, always),
            (Kind::ConfigurationToKeep, always),
            (Kind::Configuration, soon),
            (Kind::Configuration, later),
            (Kind::Configuration, always),
            (Kind::Revocation, always),
            (Kind::Configuration, always),
        ];
        let own = (FIRST..).zip(records);
        let own =
            own.map(|(version, (kind, validity))| make(&operator, &press, &member, kind, version, validity));
        let newest = u64::MAX - 1;
        let foreign = [
            make(&stranger, &press, &member, Kind::Configuration, newest, always),
            make(&operator, &crane, &other, Kind::Configuration, newest, always),
            make(&operator, &crane, &member, Kind::Configuration, newest, always),
            make(&operator, &press, &other, Kind::Configuration, newest, always),
        ];
        Self {
            own: own.collect(),
            foreign: foreign.map(|record| record.octets).into(),
            beside: beat(&operator, &crane, &Identity::new(&[8; 32]), 1_000, BEGIN, Some(FIRST)),
            scratch: Scratch::new("fleet-directory"),
            operator,
            name: press,
        }
    }

    fn open(&self) -> Acceptor {
        let member = Member {
            fleet: self.operator.fleet(),
            name: self.name.clone(),
            identity: Identity::new(&gateway()),
        };
        Acceptor::open(member, self.scratch.path()).expect("invariant: an own state directory opens")
    }
}

fn beat(
    operator: &Operator,
    name: &GatewayName,
    identity: &Identity,
    counter: u64,
    time: u64,
    in_use: Option<u64>,
) -> Vec<u8> {
    let peers = Some(Peers::new([Some("crane")], ["saw"]));
    let (kind, level, state) = (PartKind::Link, PartLevel::Good, "protecting".to_owned());
    let heartbeat = Heartbeat {
        fleet: operator.fleet(),
        gateway: name.clone(),
        member: identity.public(),
        counter,
        time,
        in_use,
        outcome: if in_use.is_some() { Outcome::Confirmed } else { Outcome::Waits },
        why: String::new(),
        unused: None,
        parts: Some(Parts::new(vec![Part { kind, name: "line".to_owned(), level, state, peers }])),
    };
    heartbeat.sign(identity)
}

struct World<'f> {
    fixture: &'f Fixture,
    agent: Option<Acceptor>,
    now: u64,
    /// Number of the operator's records that are published.
    published: usize,
    /// The newest version that the gateway accepted.
    reached: Option<u64>,
    /// Its words, with the version in them: counters from 1.
    beats: Vec<(Vec<u8>, Option<u64>, u64)>,
    /// The operator's memory: the newest heartbeat, and its counter.
    seen: Option<(Vec<u8>, u64)>,
}

impl World<'_> {
    /// Octets of what is shown, out of all that there are; the newest is the last of `own`.
    fn show(shown: Shown, own: &[&[u8]], foreign: &[&[u8]]) -> Option<Vec<u8>> {
        let all: Vec<&[u8]> = own.iter().chain(foreign).copied().collect();
        let one = |number: u8| all.get(usize::from(number) % all.len().max(1)).map(|one| one.to_vec());
        match shown {
            Shown::Newest => own.last().map(|newest| newest.to_vec()),
            Shown::Withheld => None,
            Shown::Other(number) => one(number),
            Shown::Cut(number, at) => one(number).map(|mut one| {
                one.truncate(usize::from(at) % (one.len() + 1));
                one
            }),
            Shown::Changed(number, bit) => one(number).map(|mut one| {
                let bit = usize::from(bit) % (8 * one.len());
                one[bit / 8] ^= 1 << (bit % 8);
                one
            }),
            Shown::Mixed(first, second, at) => one(first).zip(one(second)).map(|(first, second)| {
                let at = usize::from(at) % (first.len().min(second.len()) + 1);
                [&first[..at], &second[at..]].concat()
            }),
            Shown::Any(octets) => Some(octets),
        }
    }

    fn record(&self, shown: Shown) -> Option<Vec<u8>> {
        let own = self.fixture.own[..self.published].iter().map(|record| record.octets.as_slice());
        let foreign: Vec<_> = self.fixture.foreign.iter().map(Vec::as_slice).collect();
        Self::show(shown, &own.collect::<Vec<_>>(), &foreign)
    }

    fn agent(&mut self, shown: Shown) {
        let Some(octets) = self.record(shown) else { return };
        let own = self.fixture.own[..self.published].iter().find(|record| record.octets == octets);
        let agent = self.agent.get_or_insert_with(|| self.fixture.open());
        match agent.accept(&octets, self.now) {
            Ok(accepted) => {
                let own = own.expect("NOT SO: what is accepted was published for it, whole");
                assert!(own.kind != Kind::Revocation && own.validity.contains(self.now), "NOT SO: valid now");
                assert_eq!((accepted.version, accepted.files.encode()), (own.version, own.files.encode()));
                assert!(Some(own.version) >= self.reached, "NOT SO: nothing older than before");
                assert_eq!(accepted.is_new, Some(own.version) > self.reached);
                self.reached = Some(own.version);
            }
            Err(AcceptError::Refused(refusal)) => {
                let newest = own.filter(|own| self.reached.is_none_or(|reached| reached <= own.version));
                let newest = newest.filter(|own| own.validity.contains(self.now));
                let why = newest.map(|own| own.kind == Kind::Revocation && refusal == Refusal::Revoked);
                assert!(why.unwrap_or(true), "NOT SO: what is valid and new is accepted: {refusal}");
            }
            Err(error) => panic!("{error}"),
        }
        assert_eq!(agent.version(), self.reached, "NOT SO: what is refused changes nothing");
    }

    fn beats(&mut self) {
        let (identity, counter) = (Identity::new(&gateway()), self.beats.len() as u64 + 1);
        let octets =
            beat(&self.fixture.operator, &self.fixture.name, &identity, counter, self.now, self.reached);
        self.beats.push((octets, self.reached, self.now));
    }

    fn looks(&mut self, record: Shown, heartbeat: Shown) {
        let (fleet, name) = (self.fixture.operator.fleet(), &self.fixture.name);
        let member = Identity::new(&gateway()).public();
        let told = self.record(record).and_then(|octets| published(&octets, fleet, name));
        let told = told.filter(|(of, _)| *of == member).map(|(_, version)| version);
        let newest = self.fixture.own[..self.published].last().map(|record| record.version);
        assert!(told <= newest, "NOT SO: a version that was published");
        let own: Vec<_> = self.beats.iter().map(|(octets, ..)| octets.as_slice()).collect();
        let shown = Self::show(heartbeat, &own, &[&self.fixture.beside]);
        let seen = self.seen.as_ref().map(|(octets, _)| octets.as_slice());
        let known = Known { fleet, gateway: name, member };
        let standing = Standing::of(told, shown.clone(), known, seen, newest, self.now);
        assert_eq!(standing.hidden, newest.filter(|_| told < newest), "NOT SO: what is hidden is told");
        let was_seen = self.seen.as_ref().map(|(_, counter)| *counter);
        let is_newest = shown.as_ref().and_then(|shown| own.iter().position(|own| own == shown));
        let is_newest = is_newest.map(|at| at as u64 + 1).filter(|counter| Some(*counter) >= was_seen);
        match (&shown, is_newest) {
            (None, _) => assert_eq!(standing.is_withheld, was_seen.is_some(), "NOT SO: withheld is told"),
            (Some(_), None) => assert!(standing.refusal.is_some(), "NOT SO: what is none of its is told"),
            (Some(_), Some(_)) => assert!(standing.refusal.is_none() && !standing.is_withheld),
        }
        let believed = is_newest.or(was_seen);
        let counter = standing.heartbeat.as_ref().map(|heartbeat| heartbeat.counter);
        assert_eq!(counter, believed, "NOT SO: what the gateway said, and nothing older");
        let said = believed.map(|counter| &self.beats[counter as usize - 1]);
        let is_old = said.is_none_or(|(_, _, time)| self.now - time > STALE);
        for version in FIRST..FIRST + self.fixture.own.len() as u64 {
            let confirms =
                is_newest.is_some() && !is_old && said.is_some_and(|(_, said, _)| *said == Some(version));
            assert_eq!(standing.confirms(version, self.now), confirms, "NOT SO: what it does not say now");
        }
        if is_old && believed.is_some() {
            assert!(standing.stale(self.now).is_some(), "NOT SO: stale is told");
        }
        if let Some(newer) = standing.newer {
            self.seen = counter.map(|counter| (newer, counter));
        }
    }
}

/// Does what `octets` say, as a list of operations.
///
/// # Panics
/// If a gateway or its operator believes what it should not.
pub fn run(octets: &[u8]) {
    FIXTURE.with(|fixture| {
        for entry in std::fs::read_dir(fixture.scratch.path()).into_iter().flatten().flatten() {
            std::fs::remove_file(entry.path()).expect("invariant: scratch files can be removed");
        }
        let mut world = World {
            fixture,
            agent: None,
            now: BEGIN,
            published: 1,
            reached: None,
            beats: Vec::new(),
            seen: None,
        };
        let mut input = Unstructured::new(octets);
        for _ in 0..OPERATIONS {
            if input.is_empty() {
                break;
            }
            let Ok(operation) = input.arbitrary() else { break };
            match operation {
                Operation::Publishes => world.published = (world.published + 1).min(fixture.own.len()),
                Operation::Agent(shown) => world.agent(shown),
                Operation::Restarts => world.agent = None,
                Operation::Beats => world.beats(),
                Operation::Looks(record, heartbeat) => world.looks(record, heartbeat),
                Operation::Waits(seconds) => world.now += u64::from(seconds),
            }
        }
    });
}
