//! Where plain peers are, for a site that has no others and so no management channel: looked up at the start and once a
//! minute, on a thread of its own, since a name server may take its time.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use engine::site::{ManagerEnd, ToWorker};
use tunnel::PeerId;

use crate::config::Site;
use crate::config::site::{Endpoint, Host};

/// How often names are looked up again; and how soon, if one could not be.
const AGAIN: Duration = Duration::from_secs(60);
const SOON: Duration = Duration::from_secs(3);

/// The thread that looks names up.
pub(super) struct PlainPeers {
    /// Ends the thread when it is dropped.
    stop: Sender<()>,
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
    pub(super) fn start(config: &Site, mut end: ManagerEnd) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let (tell, notices) = mpsc::channel();
        let v4 = config.bind.is_ipv4();
        let both = config.bind.is_ipv6() && config.bind.ip().is_unspecified();
        let peers = (0..).map(PeerId).zip(&config.peers);
        let peer = |(id, peer): (_, &crate::config::SitePeer)| {
            Some(Peer { id, endpoint: peer.endpoint.clone()?, told: None, missing: None })
        };
        let mut peers: Vec<Peer> = peers.filter_map(peer).collect();
        let work = move || {
            loop {
                let mut found_all = true;
                for peer in &mut peers {
                    found_all &= peer.look_up(|address| both || address.is_ipv4() == v4, &mut end, &tell);
                }
                end.wake_worker();
                match stopped.recv_timeout(if found_all { AGAIN } else { SOON }) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        };
        let thread = Builder::new().name(format!("fw-names-{}", config.name)).spawn(work)?;
        Ok(Self { stop, notices, thread })
    }

    /// What a person should know, since this was asked last.
    pub(super) fn notices(&self) -> Vec<(Option<PeerId>, String)> {
        self.notices.try_iter().collect()
    }

    /// Ends the thread; one that a name server holds up ends by itself.
    pub(super) fn stop(self) {
        drop(self.stop);
        if self.thread.is_finished() {
            let _ = self.thread.join();
        }
    }
}

impl Peer {
    /// Tells the worker where the peer is, if that has changed. False if nobody knows.
    fn look_up(
        &mut self,
        reaches: impl Fn(&SocketAddr) -> bool,
        end: &mut ManagerEnd,
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
                    && end.words.push(ToWorker::Endpoint { peer: self.id, address: Some(address) }).is_ok()
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
