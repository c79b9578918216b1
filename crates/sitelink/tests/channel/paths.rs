//! Several paths to a peer.

use std::net::{IpAddr, SocketAddr, UdpSocket};

use sitelink::{ManagerPath, ManagerPeer};

use super::stand::{Site, identities, peer, socket, until};

/// A caller takes answers only from the address that it has called. The called site's routes choose another one for the first
/// answer, when it cannot know yet by which path the call has come.
#[test]
fn a_site_that_is_called_answers_from_each_of_its_paths() {
    let [low, high] = identities();
    let local: IpAddr = "127.0.0.2".parse().expect("an address");
    let paths = vec![ManagerPath { local: Some(local), ..ManagerPath::default() }];
    let called = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    let port = called.local_addr().expect("an address").port();
    let far = Site::start(&high, called, vec![ManagerPeer { paths, ..peer(&low, None) }]);
    let endpoint = Some(SocketAddr::new(local, port).to_string());
    let paths = vec![ManagerPath { endpoint, ..ManagerPath::default() }];
    let near = Site::start(&low, socket(), vec![ManagerPeer { paths, ..peer(&high, None) }]);
    until("up", || near.is_up(0) && far.is_up(0));
    until("the path is proved at both ends", || {
        [&near, &far].iter().all(|site| site.status().peers[0].paths[0].reason.is_empty())
    });
}
