//! The manager's threads: one conducts until it is told to stop; the other one starts it anew if it fails by a defect.
//!
//! A new start is another instance of the site, so nothing of before is believed; until the peers have greeted it, data
//! goes on with the keys that the worker has. The pauses grow, so that a defect which somebody brings about at will
//! costs neither the CPU nor memory without end: what has failed stands still and keeps its memory, some hundred
//! kilobytes, and one thread ([`guard`]).

use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::{Builder as ThreadBuilder, JoinHandle};
use std::time::{Duration, Instant};

use suite::identity::RecognitionKey;
use tokio::runtime::Builder;

use super::driver::Driver;
use super::guard::{self, Failed};
use super::settings::ManagerSettings;
use super::shared::Shared;
use super::tls::Tls;
use dataplane::site::ManagerMailbox;

/// Names that are resolved at a time.
const RESOLVERS: usize = 4;
/// The pause before the channel is started anew, the longest one, and how long it has to run for the first one again.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);
const WELL: Duration = Duration::from_secs(3600);
/// Delay until a stop is noticed in a pause.
const NOTICE: Duration = Duration::from_millis(50);

/// Parts of a driver, which may be made several times.
pub(super) struct Parts {
    pub(super) settings: ManagerSettings,
    pub(super) tls: Tls,
    pub(super) key: RecognitionKey,
    /// Locked for a turn at a time.
    pub(super) mailbox: Mutex<ManagerMailbox>,
    pub(super) bell: UnixStream,
    pub(super) local: SocketAddr,
    pub(super) shared: Arc<Shared>,
}

/// Starts both threads.
///
/// # Errors
/// If the system has none.
pub(super) fn start(parts: Parts) -> io::Result<JoinHandle<()>> {
    let parts = Arc::new(parts);
    let first = conducting(&parts)?;
    let name = format!("fw-watch-{}", parts.settings.name);
    ThreadBuilder::new().name(name).spawn(move || watch(&parts, first))
}

/// A thread that conducts, and what it says if it fails.
struct DriverThread {
    thread: JoinHandle<io::Result<()>>,
    failed: Receiver<Failed>,
}

fn conducting(parts: &Arc<Parts>) -> io::Result<DriverThread> {
    let (told, failed) = channel();
    let name = format!("fw-site-{}", parts.settings.name);
    let parts = Arc::clone(parts);
    let run = move || {
        guard::guard(told);
        let ended = parts.run();
        guard::unguard();
        ended
    };
    Ok(DriverThread { thread: ThreadBuilder::new().name(name).spawn(run)?, failed })
}

/// Until the manager is stopped.
fn watch(parts: &Arc<Parts>, first: DriverThread) {
    let (mut conducts, mut pause) = (Ok(first), FIRST_PAUSE);
    let shared = &parts.shared;
    loop {
        let begun = Instant::now();
        let why = match conducts.and_then(DriverThread::wait) {
            Ok(true) => return,
            Ok(false) => {
                "has failed by a defect, of which the lines before on standard error tell".to_owned()
            }
            Err(error) => format!("cannot start: {error}"),
        };
        if begun.elapsed() >= WELL {
            pause = FIRST_PAUSE;
        }
        shared.shared_counters.count(|counters| counters.channel_failures += 1);
        shared.board.publish(shared.with_roster(|roster| roster.statuses()).into_iter());
        let text = format!(
            "the management channel {why}; flows that are known go on, and it is started anew in {} s",
            pause.as_secs()
        );
        shared.board.notice(&shared.shared_counters, None, text);
        let until = Instant::now() + pause;
        while Instant::now() < until {
            if shared.stop.load(Ordering::Relaxed) {
                return;
            }
            std::thread::sleep(NOTICE);
        }
        pause = (2 * pause).min(LONGEST_PAUSE);
        conducts = conducting(parts);
    }
}

impl DriverThread {
    /// Whether it ended because the manager was stopped; else it has failed.
    fn wait(self) -> io::Result<bool> {
        // Whoever ends without having failed lets go of the other end.
        match self.failed.recv() {
            Ok(Failed) => Ok(false),
            Err(_) => self.thread.join().unwrap_or(Ok(())).map(|()| true),
        }
    }
}

impl Parts {
    fn run(&self) -> io::Result<()> {
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(RESOLVERS)
            .thread_name("fw-names")
            .build()?;
        let Self { settings, tls, key, mailbox, bell, local, shared } = self;
        let bell = bell.try_clone()?;
        let ended = runtime.block_on(async {
            Driver::new(settings, tls, key, mailbox, bell, *local, shared)?.run().await;
            Ok(())
        });
        // Nobody is waited for: a name may take its time to be resolved.
        runtime.shutdown_background();
        ended
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use tunnel::PeerId;

    use super::super::stand::{Site, identities, peer, socket, until};
    use super::super::{KernelSite, Manager};
    use super::*;

    fn manager(site: &Site) -> &Manager {
        site.manager.as_ref().expect("it runs")
    }

    /// Number of instances of its peer that a site has met.
    fn instances(site: &Site) -> u64 {
        site.status().peers[0].session.map_or(0, |state| state.counters.peer_instances)
    }

    #[test]
    fn a_panic_inside_of_quic_or_outside_costs_the_channel_a_moment() {
        let test = "thread::tests::a_panic_inside_of_quic_or_outside_costs_the_channel_a_moment";
        guard::alone(test, channel_fails);
    }

    fn channel_fails() {
        let [low, high] = identities();
        let far = Site::start(&high, socket(), vec![peer(&low, None)]);
        let near = Site::start(&low, socket(), vec![peer(&high, Some(far.address))]);
        until("up", || near.is_up(0) && far.is_up(0));
        // Under the locks of QUIC, where the next use of them panics as well; and in the driver.
        let defects: [fn(&Shared) -> &AtomicBool; 2] =
            [|shared| &shared.socket.defect, |shared| &shared.defect];
        for (number, defect) in (1..).zip(defects) {
            defect(&manager(&near).shared).store(true, Ordering::Relaxed);
            manager(&near).shared.stir.notify_one();
            until("it has failed", || near.status().counters.channel_failures == number);
            until("another instance", || near.is_up(0) && far.is_up(0) && instances(&far) == number + 1);
            let notices = manager(&near).notices();
            let told = |text: &str| notices.iter().any(|notice| notice.text.contains(text));
            assert!(told("has failed by a defect") && told("anew in"), "{notices:?}");
        }
        // The worker never got the same generation twice.
        let begun = near.told(|heard| {
            let words = heard.words.iter().filter_map(|word| match word {
                dataplane::site::ToWorker::Tunnel(tunnel::Command::Begin { generation, .. }) => {
                    Some(generation.0)
                }
                _ => None,
            });
            words.collect::<Vec<_>>()
        });
        assert_eq!(begun, [1, 3, 5]);
        assert!(manager(&near).is_running());
    }

    /// The pause before the channel is started anew may last ten minutes. Programs in the kernel: root.
    #[test]
    fn who_leaves_while_the_channel_is_down_leaves_the_programs_at_once() {
        guard::alone(
            "thread::tests::who_leaves_while_the_channel_is_down_leaves_the_programs_at_once",
            leaves,
        );
    }

    fn leaves() {
        let ([low, high], far, id) = (identities(), socket(), PeerId(0));
        let bind = far.local_addr().expect("an address");
        let limits = tunnel::Limits::DEFAULT;
        let kernel = Arc::new(KernelSite::load([1, 0], 4096, bind, &limits).expect("programs"));
        let far = Site::with_programs(&high, far, vec![peer(&low, None)], Some(Arc::clone(&kernel)));
        let near = Site::start(&low, socket(), vec![peer(&high, Some(far.address))]);
        until("up", || near.is_up(0) && far.is_up(0));
        let is_gone = || kernel.places(id)[0] == Err("the peer is not connected".to_owned());
        assert!(!is_gone());
        manager(&far).shared.defect.store(true, Ordering::Relaxed);
        manager(&far).shared.stir.notify_one();
        until("it has failed", || far.status().counters.channel_failures == 1);
        assert!(!is_gone(), "known flows go on");
        manager(&far).change_peers(&[id], Vec::new(), 1500);
        assert!(is_gone());
    }
}
