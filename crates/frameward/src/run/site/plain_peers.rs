//! Places of plain peers, for a site that has no others and so no management channel: looked up at the start and twice a
//! minute. Of two threads one looks names up, since a name server may take its time. The other one tells the worker what was found, and has
//! the programs in the kernel, if the site has some, follow the worker.

use std::collections::BTreeSet;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use dataplane::site::{ManagerMailbox, ToWorker};
use sitelink::KernelSite;
use tunnel::PeerId;

use config::site::{Endpoint, Host};
use config::{Site, SitePeer};

/// Interval between look-ups of names; shorter if one failed.
const AGAIN: Duration = Duration::from_secs(30);
const SOON: Duration = Duration::from_secs(3);
/// Interval at which the worker is asked what there is for the programs.
const TURN: Duration = Duration::from_millis(50);

/// The threads that look names up, and that tell.
pub(super) struct PlainPeers {
    /// Peers that leave, and peers that come. Ends the thread that looks names up when it is dropped.
    changes: Sender<(Vec<PeerId>, Vec<Peer>)>,
    words: Sender<Word>,
    notices: Receiver<(Option<PeerId>, String)>,
    names: JoinHandle<()>,
    tells: JoinHandle<()>,
}

/// For the thread that tells the worker.
enum Word {
    Found(PeerId, SocketAddr),
    Left(Vec<PeerId>),
    Stop,
}

struct Peer {
    id: PeerId,
    endpoint: Endpoint,
    /// Address that the worker was told.
    told: Option<SocketAddr>,
    /// Why it could not be found, if that was said.
    missing: Option<String>,
}

impl PlainPeers {
    pub(super) fn start(
        config: &Site,
        mailbox: ManagerMailbox,
        kernel: Option<Arc<KernelSite>>,
    ) -> io::Result<Self> {
        let (changes, changed) = mpsc::channel::<(Vec<PeerId>, Vec<Peer>)>();
        let (tell, notices) = mpsc::channel();
        let (words, heard) = mpsc::channel();
        let found = words.clone();
        let v4 = config.bind.is_ipv4();
        let both = config.bind.is_ipv6() && config.bind.ip().is_unspecified();
        let mut peers = of((0..).map(PeerId).zip(&config.peers));
        let work = move || {
            loop {
                let mut found_all = true;
                for peer in &mut peers {
                    found_all &= peer.look_up(|address| both || address.is_ipv4() == v4, &found, &tell);
                }
                match changed.recv_timeout(if found_all { AGAIN } else { SOON }) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok((leave, come)) => {
                        peers.retain(|peer| !leave.contains(&peer.id));
                        peers.extend(come);
                    }
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        };
        let names = Builder::new().name(format!("fw-names-{}", config.name)).spawn(work)?;
        let work = move || tell_worker(&heard, mailbox, kernel.as_deref());
        let tells = Builder::new().name(format!("fw-plain-{}", config.name)).spawn(work)?;
        Ok(Self { changes, words, notices, names, tells })
    }

    /// News for people, since this was asked last.
    pub(super) fn notices(&self) -> Vec<(Option<PeerId>, String)> {
        self.notices.try_iter().collect()
    }

    /// Lets peers leave and others come.
    pub(super) fn change<'p>(&self, leave: &[PeerId], come: impl Iterator<Item = (PeerId, &'p SitePeer)>) {
        // The threads end by nothing but the end of this.
        let _ = self.words.send(Word::Left(leave.to_vec()));
        let _ = self.changes.send((leave.to_vec(), of(come)));
    }

    /// Ends the threads; one that a name server holds up ends by itself. Nobody tells worker and programs anything afterwards.
    pub(super) fn stop(self) {
        drop(self.changes);
        let _ = self.words.send(Word::Stop);
        let _ = self.tells.join();
        if self.names.is_finished() {
            let _ = self.names.join();
        }
    }
}

/// Tells the worker where peers are, and has the programs follow it.
fn tell_worker(heard: &Receiver<Word>, mut mailbox: ManagerMailbox, kernel: Option<&KernelSite>) {
    let began = Instant::now();
    // Their numbers are nobody's again. A look-up may have begun before.
    let mut gone = BTreeSet::new();
    let mut found: Vec<(PeerId, SocketAddr)> = Vec::new();
    loop {
        let waits = if kernel.is_some() || !found.is_empty() { TURN } else { AGAIN };
        let now = || wire::Instant::after_start(began.elapsed());
        match heard.recv_timeout(waits) {
            Ok(Word::Found(peer, _)) if gone.contains(&peer) => {}
            Ok(Word::Found(peer, address)) => {
                if let Some(kernel) = kernel {
                    kernel.set_endpoint(now(), peer, address);
                }
                found.push((peer, address));
            }
            Ok(Word::Left(peers)) => {
                found.retain(|(peer, _)| !peers.contains(peer));
                if let Some(kernel) = kernel {
                    kernel.leave(&peers);
                }
                gone.extend(peers);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Ok(Word::Stop) | Err(RecvTimeoutError::Disconnected) => return,
        }
        while mailbox.messages.has_room()
            && let Some((peer, address)) = (!found.is_empty()).then(|| found.remove(0))
        {
            mailbox.messages.send(ToWorker::Endpoint { peer, address: Some(address) });
        }
        if let Some(kernel) = kernel {
            kernel.turn(now(), &mut mailbox);
        }
        if mailbox.take_wake_flag() {
            mailbox.wake();
        }
    }
}

/// Those that have an endpoint, which plain peers do.
fn of<'p>(peers: impl Iterator<Item = (PeerId, &'p SitePeer)>) -> Vec<Peer> {
    let peer = |(id, peer): (_, &SitePeer)| {
        Some(Peer { id, endpoint: peer.endpoint.clone()?, told: None, missing: None })
    };
    peers.filter_map(peer).collect()
}

impl Peer {
    /// Says where the peer is, if that has changed. False if nobody knows.
    fn look_up(
        &mut self,
        reaches: impl Fn(&SocketAddr) -> bool,
        words: &Sender<Word>,
        tell: &Sender<(Option<PeerId>, String)>,
    ) -> bool {
        let found = match &self.endpoint {
            Endpoint { host: Host::Address(address), port } => Ok(Some(SocketAddr::new(*address, *port))),
            Endpoint { host: Host::Name(name), port } => {
                (name.as_str(), *port).to_socket_addrs().map(|mut found| found.find(&reaches))
            }
        };
        let missing = match found {
            Ok(Some(address)) => {
                self.missing = None;
                if self.told != Some(address) && words.send(Word::Found(self.id, address)).is_ok() {
                    self.told = Some(address);
                }
                return true;
            }
            Ok(None) => format!("{} has no address that this site's socket reaches", self.endpoint),
            Err(error) => format!("{} cannot be looked up: {error}", self.endpoint),
        };
        if self.missing.as_ref() != Some(&missing) {
            // Nobody hears it if the site is about to stop.
            let _ = tell.send((Some(self.id), missing.clone()));
            self.missing = Some(missing);
        }
        false
    }
}
