//! Where plain peers are, for a site that has no others and so no management channel: looked up at the start and once a
//! minute, on a thread of its own, since a name server may take its time.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use dataplane::site::{ManagerMailbox, ToWorker};
use tunnel::PeerId;

use config::site::{Endpoint, Host};
use config::{Site, SitePeer};

/// Interval between look-ups of names; shorter if one failed.
const AGAIN: Duration = Duration::from_secs(60);
const SOON: Duration = Duration::from_secs(3);

/// The thread that looks names up.
pub(super) struct PlainPeers {
    /// Peers that leave, and peers that come. Ends the thread when it is dropped.
    changes: Sender<(Vec<PeerId>, Vec<Peer>)>,
    notices: Receiver<(Option<PeerId>, String)>,
    thread: JoinHandle<()>,
}

struct Peer {
    id: PeerId,
    endpoint: Endpoint,
    /// Where the worker was told that it is.
    told: Option<SocketAddr>,
    /// Why it could not be found, if that was said.
    missing: Option<String>,
}

impl PlainPeers {
    pub(super) fn start(config: &Site, mut mailbox: ManagerMailbox) -> io::Result<Self> {
        let (changes, changed) = mpsc::channel::<(Vec<PeerId>, Vec<Peer>)>();
        let (tell, notices) = mpsc::channel();
        let v4 = config.bind.is_ipv4();
        let both = config.bind.is_ipv6() && config.bind.ip().is_unspecified();
        let mut peers = of((0..).map(PeerId).zip(&config.peers));
        let work = move || {
            loop {
                let mut found_all = true;
                for peer in &mut peers {
                    found_all &= peer.look_up(|address| both || address.is_ipv4() == v4, &mut mailbox, &tell);
                }
                mailbox.wake();
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
        let thread = Builder::new().name(format!("fw-names-{}", config.name)).spawn(work)?;
        Ok(Self { changes, notices, thread })
    }

    /// News for people, since this was asked last.
    pub(super) fn notices(&self) -> Vec<(Option<PeerId>, String)> {
        self.notices.try_iter().collect()
    }

    /// Lets peers leave and others come.
    pub(super) fn change<'p>(&self, leave: &[PeerId], come: impl Iterator<Item = (PeerId, &'p SitePeer)>) {
        // The thread ends by nothing but the end of this.
        let _ = self.changes.send((leave.to_vec(), of(come)));
    }

    /// Ends the thread; one that a name server holds up ends by itself.
    pub(super) fn stop(self) {
        drop(self.changes);
        if self.thread.is_finished() {
            let _ = self.thread.join();
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
    /// Tells the worker where the peer is, if that has changed. False if nobody knows.
    fn look_up(
        &mut self,
        reaches: impl Fn(&SocketAddr) -> bool,
        mailbox: &mut ManagerMailbox,
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
                if self.told != Some(address)
                    && mailbox.messages.send(ToWorker::Endpoint { peer: self.id, address: Some(address) })
                {
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
