//! A directory of three etcds that are killed, stopped, cut off and full, while an operator publishes: agents, records, directory and etcds are real.
//!
//! ```text
//!  operator: rollouts, rotations ──▶ three etcds, with a fault each round ──▶ three agents ──▶ what their gateways are told to load
//!  attacker: foreign, half and old records ──┘ (first half of the rounds)        └── restarted now and then
//! ```
//!
//! | judged | when |
//! |---|---|
//! | a gateway is told to load what its operator made for it, whole, and nothing older than before | at each time |
//! | each acknowledged change arrives, or a newer one, if nobody has attacked since | after the last fault |
//! | the next change arrives, whatever was before | at the end |
//!
//! `FRAMEWARD_CHAOS_ROUNDS` is the number of faults, `FRAMEWARD_CHAOS_SEED` repeats the choices of a run that failed; threads and etcds take their turns
//! as they like all the same. A gateway stands behind no agent here: what frames do while the directory is away, tests in network namespaces say.

mod gateway;
mod operator;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use testkit::cluster::{Cluster, MEMBERS};
use testkit::{Chance, TestDirectory};

use gateway::Gateways;
use operator::{Attacker, Changes};

/// Faults of a usual run.
const USUAL_ROUNDS: u64 = 8;
/// Number of gateways.
const GATEWAYS: usize = 3;
/// Time in which all arrives after the last fault. An agent asks a directory that was away after up to a minute.
const ARRIVES: Duration = Duration::from_secs(150);
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(50);
/// Least time between two changes. Versions are seconds: after an old record was put back, a second change in one second would have no newer version.
const TURN: Duration = Duration::from_millis(1100);

/// A fault of the directory or of an agent.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// A member is killed, and started again.
    Killed,
    /// All are, at once.
    AllKilled,
    /// A member is stopped for a while.
    Stopped,
    /// Two are: nobody can write or read.
    TwoStopped,
    /// All that a member says to the others is lost.
    CutOffFromMembers,
    /// Nobody reaches a member.
    CutOffFromClients,
    /// Nobody reaches any.
    NoWay,
    /// A member's disk is full.
    DiskFull,
    /// An agent ends and begins anew.
    AgentRestarted,
}

const FAULTS: [Fault; 9] = [
    Fault::Killed,
    Fault::AllKilled,
    Fault::Stopped,
    Fault::TwoStopped,
    Fault::CutOffFromMembers,
    Fault::CutOffFromClients,
    Fault::NoWay,
    Fault::DiskFull,
    Fault::AgentRestarted,
];

fn number_from(name: &str) -> Option<u64> {
    std::env::var(name).ok().filter(|text| !text.is_empty()).map(|text| text.parse().unwrap())
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

fn is_soon(what: impl Fn() -> bool) -> bool {
    let since = Instant::now();
    while !what() {
        if since.elapsed() > ARRIVES {
            return false;
        }
        thread::sleep(LOOK);
    }
    true
}

/// Ends those who write, also if the test fails: it waits for them.
struct Over<'o> {
    is_over: &'o AtomicBool,
    is_attacked: &'o AtomicBool,
}

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.is_attacked.store(false, Ordering::Relaxed);
    }
}

/// One fault, for as long as chance wants.
fn strike(fault: Fault, cluster: &mut Cluster, agents: &mut Gateways, chance: &mut Chance) {
    let at = chance.below(MEMBERS as u64) as usize;
    match fault {
        Fault::Killed => cluster.kill(at),
        Fault::AllKilled => (0..MEMBERS).for_each(|at| cluster.kill(at)),
        Fault::Stopped => cluster.stop(at),
        Fault::TwoStopped => [at, (at + 1) % MEMBERS].iter().for_each(|at| cluster.stop(*at)),
        Fault::CutOffFromMembers => cluster.cut_off_from_members(at),
        Fault::CutOffFromClients => cluster.cut_off_from_clients(at),
        Fault::NoWay => (0..MEMBERS).for_each(|at| cluster.cut_off_from_clients(at)),
        Fault::DiskFull => cluster.fill_disk(at),
        Fault::AgentRestarted => agents.restart(chance.below(GATEWAYS as u64) as usize),
    }
    thread::sleep(Duration::from_millis(200 + chance.below(2500)));
    if matches!(fault, Fault::DiskFull) {
        // The operator writes all the time, and each write goes to all members.
        let since = Instant::now();
        while !cluster.has_ended(at) {
            assert!(since.elapsed() < ARRIVES, "a member without room ends: {}", cluster.logs());
            thread::sleep(LOOK);
        }
    }
    cluster.heal();
}

#[test]
fn whatever_befalls_three_etcds_gateways_load_what_was_published_and_all_of_it_arrives() {
    let rounds = number_from("FRAMEWARD_CHAOS_ROUNDS").unwrap_or(USUAL_ROUNDS);
    let seed = number_from("FRAMEWARD_CHAOS_SEED").unwrap_or_else(unix_seconds);
    eprintln!("FRAMEWARD_CHAOS_ROUNDS={rounds} FRAMEWARD_CHAOS_SEED={seed}");
    let place = TestDirectory::new("fleet-chaos");
    let mut cluster = Cluster::start(&place.path().join("etcd"));
    let mut chance = Chance::new(seed);
    let changes = Mutex::new(Changes::new(&cluster.address(), Chance::new(chance.draw())));
    let publish = |only: Option<usize>| {
        changes.lock().unwrap_or_else(PoisonError::into_inner).publish(only);
    };
    // The first change arrives where nothing is wrong.
    assert!(is_soon(|| changes.lock().unwrap().answers()), "{}", cluster.logs());
    publish(None);
    let mut agents = Gateways::start(&cluster.address(), place.path());
    assert!(is_soon(|| agents.have_all(&changes.lock().unwrap().acknowledged)), "the first change");
    let (is_over, is_attacked) = (AtomicBool::new(false), AtomicBool::new(true));
    let mut attacker = Attacker::new(&cluster.address(), Chance::new(chance.draw()));
    let (mut faults, mut attack_ended) = (BTreeMap::<String, u32>::new(), Instant::now());
    thread::scope(|scope| {
        let _over = Over { is_over: &is_over, is_attacked: &is_attacked };
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                thread::sleep(TURN);
                changes.lock().unwrap().take_a_turn();
            }
        });
        let mut attack = Some(scope.spawn(|| {
            while is_attacked.load(Ordering::Relaxed) {
                attacker.attack();
                thread::sleep(4 * LOOK);
            }
            Instant::now()
        }));
        for round in 0..rounds {
            if round >= rounds / 2 {
                is_attacked.store(false, Ordering::Relaxed);
                attack_ended = attack.take().map_or(attack_ended, |attack| attack.join().unwrap());
                changes.lock().unwrap().clock_jumps(attack_ended);
            }
            let fault = chance.pick(&FAULTS);
            *faults.entry(format!("{fault:?}")).or_default() += 1;
            strike(fault, &mut cluster, &mut agents, &mut chance);
            thread::sleep(Duration::from_millis(chance.below(1000)));
            let wrong = agents.wrong();
            assert!(wrong.is_none(), "NOT SO: seed {seed}, round {round}, {fault:?}: {wrong:?}");
        }
    });
    let acknowledged = changes.lock().unwrap().since(attack_ended);
    let arrived = is_soon(|| agents.have_all(&acknowledged));
    assert!(arrived, "NOT SO: seed {seed}, changes arrive: {acknowledged:?}, {:?}", agents.changes());
    let before = changes.lock().unwrap().count();
    assert!(
        is_soon(|| {
            publish(None);
            changes.lock().unwrap().count() == before + GATEWAYS as u64
        }),
        "the directory is back: {}",
        cluster.logs()
    );
    let last = changes.lock().unwrap().acknowledged.clone();
    let arrived = is_soon(|| agents.have_all(&last));
    assert!(arrived, "NOT SO: seed {seed}, the last change arrives: {last:?}, {:?}", agents.changes());
    assert_eq!(agents.wrong(), None, "seed {seed}");
    let (published, loaded) = (changes.lock().unwrap().count(), agents.end());
    eprintln!(
        "{rounds} faults {faults:?}: {published} records acknowledged, {} attacks written, versions loaded {loaded:?}",
        attacker.written
    );
    assert!(published > GATEWAYS as u64 && loaded.iter().all(|loaded| *loaded > 1), "nothing happened");
}
