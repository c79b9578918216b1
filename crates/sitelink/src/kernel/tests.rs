//! Programs in the kernel without a half: root.

use suite::tunnel::{EPOCH_SECRET_OCTETS, EpochSecret};
use wire::MacAddr;
use xdp::site::UdpPath;

use super::lanes::NO_LANES;
use super::numbers::GRACE;
use super::*;

const NOW: Instant = Instant::after_start(Duration::ZERO);

fn kernel(peers: usize) -> KernelPath {
    lab::require_root().unwrap();
    let bind = SocketAddr::new([0; 4].into(), 7788);
    KernelPath::load(peers, tunnel::Settings::WINDOW, bind, &Limits::DEFAULT).unwrap()
}

fn command(kernel: &KernelPath, command: Command) {
    kernel.handle_command(NOW, ToWorker::Tunnel(command), &mut Vec::new());
}

fn transmit(kernel: &KernelPath, peer: u16, epoch: u32) {
    let secret = EpochSecret::new(&[epoch as u8 + 1; EPOCH_SECRET_OCTETS]);
    let peer = PeerId(peer);
    command(kernel, Command::InstallTransmit { peer, generation: Generation::default(), epoch, secret });
}

fn outward(kernel: &KernelPath, peer: u16) -> Option<String> {
    kernel.paths(PeerId(peer))[0].clone().err()
}

#[test]
fn an_epoch_without_a_lane_is_user_spaces_and_the_one_before_is_not_sent_under_any_more() {
    let kernel = kernel(1);
    for peer in 0..5 {
        command(&kernel, Command::Begin { peer: PeerId(peer), generation: Generation::default() });
        transmit(&kernel, peer, 0);
    }
    assert_eq!(outward(&kernel, 0).as_deref(), Some("its address is not known"), "five lanes");
    transmit(&kernel, 0, 1);
    assert_eq!(outward(&kernel, 0).as_deref(), Some(NO_LANES));
    assert_eq!(kernel.lock().lanes.counts()[0][1], 1, "the lane before is over");
    std::thread::sleep(GRACE);
    drop(kernel.handle_timeout(NOW));
    // A command that comes twice opens no lane of an epoch that was sent under, or could have been.
    transmit(&kernel, 0, 0);
    transmit(&kernel, 0, 1);
    assert_eq!(outward(&kernel, 0).as_deref(), Some(NO_LANES));
    transmit(&kernel, 0, 2);
    assert_eq!(outward(&kernel, 0).as_deref(), Some("its address is not known"));
}

#[test]
fn what_peers_had_is_free_after_them() {
    let kernel = kernel(1);
    let free = |kernel: &KernelPath| {
        let kernel = kernel.lock();
        let [transmit, receive] = kernel.lanes.counts();
        [transmit, receive, kernel.paths.counts()].map(|[free, resting]| free + resting)
    };
    let all = free(&kernel);
    for round in 0..2 {
        command(&kernel, Command::Begin { peer: PeerId(round), generation: Generation::default() });
        transmit(&kernel, round, 0);
        // As a look would have found it.
        let any = SocketAddr::from(([192, 0, 2, 1], 1));
        let path = UdpPath {
            interface: MacAddr::default(),
            next_hop: MacAddr::default(),
            source: any,
            destination: any,
            payload: 1200,
            port: 1,
            dscp: 0,
        };
        {
            let Kernel { site, paths, peers, .. } = &mut *kernel.lock();
            assert!(peers.get_mut(&PeerId(round)).unwrap().path.adopt(paths, site, Ok(path)));
        }
        assert_ne!(free(&kernel), all);
        match round {
            0 => kernel.retain(|_| false),
            _ => kernel.end(),
        }
        assert_eq!(free(&kernel), all);
    }
}
