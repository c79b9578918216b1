//! Stations on a bus, and the clock.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use mka::{CakEntry, Event, Kay, PassedKay, Settings, Status};
use wire::{Instant, Ki, Sci, Ssci};

use crate::secy::{Protected, SecY};
use crate::station::{Random, cak, seconds, settings};

/// A box: its KaY, if it is switched on, and its SecY.
pub(crate) struct Station {
    pub(crate) settings: Settings,
    pub(crate) kay: Option<Kay>,
    /// Input of the KaY: at its start, or the last one.
    pub(crate) given: Option<(Settings, Vec<CakEntry>, [u8; 32])>,
    pub(crate) secy: SecY,
    /// Next time at which the KaY wants to be woken.
    timeout: Option<Instant>,
    /// Stations whose frames were heard since it was switched on: none of theirs may be lost from there on.
    established: HashSet<usize>,
}

enum Carried {
    Mkpdu(Vec<u8>),
    Data(Protected),
}

/// Stations on a bus.
pub(crate) struct World {
    pub(crate) now: Instant,
    pub(crate) random: Random,
    pub(crate) stations: Vec<Station>,
    /// MKPDUs lost, in percent.
    pub(crate) loss: u64,
    /// MKPDUs that come twice, in percent.
    pub(crate) duplication: u64,
    /// MKPDUs arrive so many microseconds after they were sent: from, to. Different ones overtake each other.
    pub(crate) delay: (u64, u64),
    /// From whom to whom nothing passes.
    pub(crate) cut: HashSet<(usize, usize)>,
    /// From whom to whom no MKPDU passes.
    pub(crate) deaf: HashSet<(usize, usize)>,
    /// Stations whose KaYs stand still, and the MKPDUs that wait for them. Their SecYs go on.
    still: BTreeMap<usize, Vec<Vec<u8>>>,
    /// Interval of each station's data frames.
    pub(crate) data_each: Option<Duration>,
    next_data: Instant,
    /// A frame in flight: its arrival time and its sequence.
    flight: BTreeMap<(Instant, u64), (usize, usize, Carried)>,
    sent: u64,
    /// The keys of all SAKs, and with which SCI and key an SA began.
    keys: HashMap<Ki, Vec<u8>>,
    begun: HashSet<(Sci, Vec<u8>)>,
    /// The SSCI that an SCI has under a SAK, for whomever.
    sscis: HashMap<(Ki, Sci), Ssci>,
    pub(crate) lost: u64,
    pub(crate) delivered: u64,
    pub(crate) mkpdus: u64,
    /// All frames that were carried, for replays.
    pub(crate) recorded: Vec<(usize, Vec<u8>)>,
    pub(crate) records: bool,
    /// In how many of 100 moments a KaY is replaced by one that goes on with what it passes on.
    pub(crate) replacing: Option<(Random, u64)>,
    pub(crate) replaced: u64,
    /// Octets that were passed on, for tests that read them.
    pub(crate) passed: Option<Vec<Vec<u8>>>,
}

impl World {
    /// A world without stations, with a perfect bus.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            now: Instant::after_start(seconds(1000)),
            random: Random(seed),
            stations: vec![],
            loss: 0,
            duplication: 0,
            delay: (100, 300),
            cut: HashSet::new(),
            deaf: HashSet::new(),
            still: BTreeMap::new(),
            data_each: None,
            next_data: Instant::START,
            flight: BTreeMap::new(),
            sent: 0,
            keys: HashMap::new(),
            begun: HashSet::new(),
            sscis: HashMap::new(),
            lost: 0,
            delivered: 0,
            mkpdus: 0,
            recorded: vec![],
            records: false,
            replacing: replacing().map(|percent| (Random(seed), percent)),
            replaced: 0,
            passed: None,
        }
    }

    /// This many stations with the settings of [`settings`], switched on with CAK 1.
    pub(crate) fn group(seed: u64, stations: usize) -> Self {
        let mut world = Self::new(seed);
        for i in 0..stations {
            world.add(settings(i));
            world.switch_on(i, vec![cak(1)]);
        }
        world
    }

    pub(crate) fn add(&mut self, settings: Settings) -> usize {
        let secy = SecY::new(settings.sci, Duration::from_micros(300));
        self.stations.push(Station {
            settings,
            kay: None,
            given: None,
            secy,
            timeout: None,
            established: HashSet::new(),
        });
        self.stations.len() - 1
    }

    /// A station starts, or restarts, with nothing in its memory.
    pub(crate) fn switch_on(&mut self, i: usize, caks: Vec<CakEntry>) {
        self.switch_off(i);
        let mut seed = [0; 32];
        seed.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&self.random.next().to_be_bytes()));
        let station = &mut self.stations[i];
        station.given = Some((station.settings.clone(), caks.clone(), seed));
        station.kay = Some(Kay::new(self.now, station.settings.clone(), caks, &seed));
        self.pump(i);
    }

    pub(crate) fn switch_off(&mut self, i: usize) {
        let station = &mut self.stations[i];
        station.kay = None;
        station.timeout = None;
        station.secy = SecY::new(station.settings.sci, station.secy.delay);
        station.established.clear();
        // Its earlier frames are no promise of more.
        self.flight.retain(|_, (from, _, what)| *from != i || matches!(what, Carried::Mkpdu(_)));
        for station in &mut self.stations {
            station.established.remove(&i);
        }
    }

    /// Nobody is owed frames of anybody: after a partition, say.
    pub(crate) fn forgive(&mut self) {
        self.stations.iter_mut().for_each(|station| station.established.clear());
    }

    /// These two groups do not hear each other from now on.
    pub(crate) fn part(&mut self, one: &[usize], other: &[usize]) {
        for (a, b) in one.iter().flat_map(|a| other.iter().map(move |b| (*a, *b))) {
            self.cut.extend([(a, b), (b, a)]);
        }
        self.forgive();
    }

    pub(crate) fn kay(&mut self, i: usize) -> &mut Kay {
        self.stations[i].kay.as_mut().expect("it is switched on")
    }

    pub(crate) fn status(&self, i: usize) -> Status {
        self.stations[i].kay.as_ref().expect("it is switched on").status(self.now)
    }

    pub(crate) fn with(&mut self, i: usize, act: impl FnOnce(&mut Kay, Instant)) {
        let now = self.now;
        act(self.kay(i), now);
        self.pump(i);
    }

    /// Other settings and CAKs for a KaY that runs.
    pub(crate) fn change(&mut self, i: usize, settings: Settings, caks: Vec<CakEntry>) {
        if let Some((given, given_caks, _)) = &mut self.stations[i].given {
            (*given, *given_caks) = (settings.clone(), caks.clone());
        }
        self.with(i, |kay, now| kay.change(now, settings, caks));
    }

    /// Puts a KaY in the place of a station's, which goes on with what that one passes on: all that can be seen is the same.
    pub(crate) fn replace(&mut self, i: usize) {
        let (now, station) = (self.now, &mut self.stations[i]);
        let (Some(kay), Some((settings, caks, seed))) = (&mut station.kay, &station.given) else { return };
        let Some(passed) = kay.pass_on() else { return };
        let text = serde_json::to_vec(&passed).expect("a text");
        let again: PassedKay = serde_json::from_slice(&text).expect("what was written");
        let next = Kay::go_on(now, again, settings.clone(), caks.clone(), seed).expect("it goes on");
        assert_eq!(format!("{next:?}"), format!("{kay:?}"));
        assert_eq!(next.status(now), kay.status(now));
        assert_eq!((next.counters(), next.poll_timeout()), (kay.counters(), kay.poll_timeout()));
        *kay = next;
        self.replaced += 1;
        self.passed.iter_mut().for_each(|all| all.push(text.clone()));
    }

    fn replace_at_times(&mut self, i: usize) {
        if let Some((random, percent)) = &mut self.replacing
            && random.chance(*percent)
        {
            self.replace(i);
        }
    }

    /// Carries out all that a KaY wants.
    pub(crate) fn pump(&mut self, i: usize) {
        self.replace_at_times(i);
        loop {
            let now = self.now;
            let Some(kay) = self.stations[i].kay.as_mut() else { return };
            if let Some(event) = kay.poll_event() {
                self.watch(i, &event);
                self.stations[i].secy.apply(now, event);
                continue;
            }
            if let Some(frame) = kay.poll_transmit(now) {
                self.mkpdus += 1;
                self.broadcast(i, &frame);
                continue;
            }
            self.stations[i].timeout = kay.poll_timeout();
            self.replace_at_times(i);
            return;
        }
    }

    /// Invariants at the moment at which something is done.
    fn watch(&mut self, i: usize, event: &Event) {
        match event {
            Event::Install(association) => {
                let key = association.sak.octets().to_vec();
                let sci = self.stations[i].settings.sci;
                assert!(
                    self.begun.insert((sci, key.clone())),
                    "{sci} installs a SAK twice: its PNs would come again"
                );
                let known = self.keys.entry(association.ki).or_insert_with(|| key.clone());
                assert_eq!(*known, key, "one KI, two SAKs");
                let others = association.receive.iter().filter_map(|to| Some((to.sci, to.ssci?)));
                for (sci, ssci) in others.chain(association.xpn.map(|(_, own)| (sci, own))) {
                    let known = self.sscis.entry((association.ki, sci)).or_insert(ssci);
                    assert_eq!(*known, ssci, "{sci} has two SSCIs under {}", association.ki);
                }
            }
            Event::EnableTransmit(ki) => self.watch_enabling(i, *ki),
            _ => {}
        }
    }

    /// No SAK protects before all live members accept it, unless the key server protects already, or it took too long.
    fn watch_enabling(&self, i: usize, ki: Ki) {
        let (status, secy) = (self.status(i), &self.stations[i].secy);
        let waited = self.now.since(secy.find(ki).expect("installed").asked);
        let of =
            |sci: Sci| self.stations.iter().find(|station| station.settings.sci == sci).expect("a station");
        let server_transmits = status.key_server.is_some_and(|sci| of(sci).secy.transmits == Some(ki));
        if waited >= seconds(6) || server_transmits {
            return;
        }
        for member in status.members.iter().filter(|member| member.live) {
            let peer = of(member.sci);
            // It may have been switched off, or have given the SAK up, a moment ago.
            let is_there = peer.kay.as_ref().is_some_and(|kay| kay.status(self.now).mi == member.mi);
            // It joined when the SAK was made already, and waits for the next one; or it uses another, and that is not known
            // yet.
            let unknown = if self.loss > 0 { seconds(6) } else { seconds(1) };
            let is_new = peer.secy.transmits.is_none() || self.now.since(peer.secy.since) <= unknown;
            let accepts = peer.secy.find(ki).is_some_and(|sas| sas.installed);
            // A lost station that is back gets the next SAK; this one takes nothing away from it.
            let sci = secy_sci(self, i);
            let has_sc = peer
                .secy
                .find(ki)
                .is_some_and(|sas| sas.receive.contains_key(&sci) || sas.expelled.contains(&sci));
            assert!(!is_there || is_new || (accepts && has_sc), "{} does not accept {ki} yet", member.sci);
        }
    }

    pub(crate) fn broadcast(&mut self, from: usize, frame: &[u8]) {
        if self.records {
            self.recorded.push((from, frame.to_vec()));
        }
        for to in 0..self.stations.len() {
            if to == from || self.cut.contains(&(from, to)) || self.deaf.contains(&(from, to)) {
                continue;
            }
            let copies =
                u64::from(!self.random.chance(self.loss)) + u64::from(self.random.chance(self.duplication));
            for _ in 0..copies {
                let (least, most) = self.delay;
                let delay = Duration::from_micros(least + self.random.below(most - least + 1));
                self.carry(from, to, delay, Carried::Mkpdu(frame.to_vec()));
            }
        }
    }

    fn carry(&mut self, from: usize, to: usize, delay: Duration, what: Carried) {
        self.sent += 1;
        self.flight.insert((self.now + delay, self.sent), (from, to, what));
    }

    fn send_data(&mut self) {
        for from in 0..self.stations.len() {
            let frame = self.stations[from].secy.protect();
            for to in (0..self.stations.len()).filter(|to| *to != from) {
                if self.cut.contains(&(from, to)) {
                    continue;
                }
                match frame {
                    Some(frame) => self.carry(from, to, Duration::from_micros(150), Carried::Data(frame)),
                    None if self.stations[to].established.contains(&from) => self.lost += 1,
                    None => {}
                }
            }
        }
    }

    fn arrive(&mut self, from: usize, to: usize, what: Carried) {
        let now = self.now;
        match what {
            Carried::Mkpdu(frame) => {
                if let Some(waiting) = self.still.get_mut(&to) {
                    waiting.push(frame);
                } else if let Some(kay) = self.stations[to].kay.as_mut() {
                    kay.handle_frame(now, &frame);
                    self.pump(to);
                }
            }
            Carried::Data(frame) => {
                let key = &self.keys[&frame.ki];
                let station = &mut self.stations[to];
                if station.secy.accepts(&frame, key) {
                    station.established.insert(from);
                    self.delivered += 1;
                } else if station.established.contains(&from) {
                    self.lost += 1;
                    if std::env::var_os("FRAMEWARD_MKA_TELL").is_some() {
                        eprintln!("{now:?}: {to} cannot take {frame:?}");
                    }
                }
            }
        }
    }

    /// Lets time pass.
    pub(crate) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        self.run_until(end, |_| false);
    }

    /// Lets time pass until something is so; false if it never was.
    pub(crate) fn run_until(&mut self, end: Instant, mut is_so: impl FnMut(&Self) -> bool) -> bool {
        loop {
            if is_so(self) {
                return true;
            }
            let next = self.next_moment();
            if next > end {
                self.now = end;
                return false;
            }
            self.now = self.now.max(next);
            self.step();
        }
    }

    fn next_moment(&self) -> Instant {
        let flight = self.flight.keys().next().map(|(at, _)| *at);
        let moving = self.stations.iter().enumerate().filter(|(i, _)| !self.still.contains_key(i));
        let stations = moving.flat_map(|(_, station)| {
            let report = station.secy.reports.iter().map(|(at, _)| *at).min();
            report.into_iter().chain(station.timeout)
        });
        let data = self.data_each.map(|_| self.next_data);
        flight.into_iter().chain(stations).chain(data).min().unwrap_or(self.now + seconds(1))
    }

    fn step(&mut self) {
        let now = self.now;
        while let Some(entry) = self.flight.first_entry().filter(|entry| entry.key().0 <= now) {
            let (from, to, what) = entry.remove();
            self.arrive(from, to, what);
        }
        for i in 0..self.stations.len() {
            if self.still.contains_key(&i) {
                continue;
            }
            while let Some(report) = self.stations[i].secy.report(now) {
                if let Some(kay) = self.stations[i].kay.as_mut() {
                    kay.handle_report(now, report);
                }
                self.pump(i);
            }
            self.wake(i);
        }
        if let Some(each) = self.data_each
            && self.next_data <= now
        {
            self.next_data = now + each;
            self.send_data();
        }
    }

    /// A station's KaY stands still until [`Self::go_on`].
    pub(crate) fn stand_still(&mut self, i: usize) {
        self.still.insert(i, vec![]);
    }

    /// It goes on, as the engine has it: what the SecY says, then all MKPDUs that wait, then time.
    pub(crate) fn go_on(&mut self, i: usize) {
        let (now, waiting) = (self.now, self.still.remove(&i).unwrap_or_default());
        let pns = self.stations[i].secy.next_pns();
        pns.into_iter().for_each(|report| self.kay(i).handle_report(now, report));
        for frame in waiting {
            self.kay(i).handle_frame(now, &frame);
            self.pump(i);
        }
        self.wake(i);
    }

    /// The engine's work when a KaY's time has come.
    fn wake(&mut self, i: usize) {
        let now = self.now;
        if self.stations[i].timeout.is_none_or(|at| at > now) {
            return;
        }
        let pns = self.stations[i].secy.next_pns();
        let Some(kay) = self.stations[i].kay.as_mut() else { return };
        pns.into_iter().for_each(|report| kay.handle_report(now, report));
        kay.handle_timeout(now);
        self.pump(i);
        assert!(self.stations[i].timeout.is_none_or(|at| at > now), "it wants to be woken at once, for ever");
    }

    /// These stations are one group: one key server, everybody live, and one SAK that everybody sends and accepts.
    pub(crate) fn is_secured(&self, who: &[usize]) -> bool {
        let statuses: Vec<Status> = who.iter().map(|i| self.status(*i)).collect();
        let servers = statuses.iter().filter(|status| status.is_key_server).count();
        let live = |status: &Status| status.members.iter().filter(|member| member.live).count();
        let secys: Vec<&SecY> = who.iter().map(|i| &self.stations[*i].secy).collect();
        let ki = secys[0].transmits;
        let accepts = |to: &SecY, from: usize| {
            let sas = ki.and_then(|ki| to.find(ki));
            sas.is_some_and(|sas| sas.installed && sas.receive.contains_key(&secy_sci(self, from)))
        };
        servers == 1
            && statuses.iter().all(|status| live(status) == who.len() - 1 && status.key_server.is_some())
            && ki.is_some()
            && secys.iter().all(|secy| secy.transmits == ki)
            && who
                .iter()
                .all(|to| who.iter().all(|from| to == from || accepts(&self.stations[*to].secy, *from)))
    }

    pub(crate) fn all(&self) -> Vec<usize> {
        (0..self.stations.len()).collect()
    }

    /// Waits until these are secured.
    pub(crate) fn secure(&mut self, who: &[usize], within: Duration) -> Duration {
        let (start, end) = (self.now, self.now + within);
        let is_secured = self.run_until(end, |world| world.is_secured(who));
        assert!(is_secured, "not secured within {within:?}");
        self.now.since(start)
    }

    pub(crate) fn ki(&self, i: usize) -> Ki {
        self.stations[i].secy.transmits.expect("it transmits")
    }
}

/// `FRAMEWARD_MKA_REPLACE`, in percent: all tests with KaYs that are replaced at so many moments.
fn replacing() -> Option<u64> {
    std::env::var("FRAMEWARD_MKA_REPLACE").ok().map(|percent| percent.parse().expect("a number"))
}

fn secy_sci(world: &World, i: usize) -> Sci {
    world.stations[i].settings.sci
}

impl Drop for World {
    /// History of a failed test.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        eprintln!("at {:?}, loss {}, delay {:?}, cut {:?}", self.now, self.loss, self.delay, self.cut);
        for (i, station) in self.stations.iter().enumerate() {
            let Some(kay) = &station.kay else { continue };
            let status = kay.status(self.now);
            eprintln!(
                "station {i}, MI {}, key server {:?}, {:?}",
                status.mi, status.key_server, status.fault
            );
            status.members.iter().for_each(|member| eprintln!("  {member:?}"));
            status.saks.iter().for_each(|sak| eprintln!("  {sak:?}"));
            eprintln!("  {:?}\n  {:?}", station.secy, kay.counters());
            status.changes.iter().for_each(|change| eprintln!("  {:?} {}", change.at, change.words));
        }
    }
}
