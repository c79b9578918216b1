//! Random sequences of frames, packets and changes.

use proptest::prelude::*;

use crate::packets::frame;
use crate::world::{PEERS, World};

#[derive(Clone, Debug)]
enum Step {
    Send { flow: usize, body: usize },
    Packet { peer: u16, ahead: i64, flow: u16, sci: bool, body: usize },
    Again { ago: usize },
    Flip { ago: usize, bit: usize },
    Cut { ago: usize, octets: usize },
    Jump { peer: u16, anchors: u64 },
    Install { peer: u16 },
    Fill,
}

fn step() -> impl Strategy<Value = Step> {
    let peer = 0..PEERS;
    let ahead = prop_oneof![8 => Just(1_i64), 2 => 1..6_i64, 1 => -70..70_i64, 1 => 60..200_i64];
    let body = prop_oneof![4 => 0..64_usize, 1 => 0..1500_usize];
    prop_oneof![
        6 => (0..4_usize, prop_oneof![6 => 0..200_usize, 1 => 1380..1400_usize]).prop_map(|(flow, body)| Step::Send { flow, body }),
        12 => (peer.clone(), ahead, 0..5_u16, any::<bool>(), body)
            .prop_map(|(peer, ahead, flow, sci, body)| Step::Packet { peer, ahead, flow, sci, body }),
        3 => (0..12_usize).prop_map(|ago| Step::Again { ago }),
        2 => (0..3_usize, 0..1_usize << 12).prop_map(|(ago, bit)| Step::Flip { ago, bit }),
        1 => (0..3_usize, 1..60_usize).prop_map(|(ago, octets)| Step::Cut { ago, octets }),
        1 => (peer.clone(), 1..1100_u64).prop_map(|(peer, anchors)| Step::Jump { peer, anchors }),
        1 => peer.prop_map(|peer| Step::Install { peer }),
        1 => Just(Step::Fill),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_both_do_the_same(v6: bool, steps in prop::collection::vec(step(), 100..800)) {
        let mut world = World::new(v6);
        for (index, source) in [(0, 5), (1, 6), (2, 1), (3, 7)] {
            (0..PEERS).for_each(|peer| world.announce(peer, index, source, 2, true));
        }
        world.hear(0, 1, 5, 1);
        world.hear(1, 1, 6, 1);
        for (source, destination, peer) in [(1, 5, 0), (2, 5, 0), (1, 6, 1), (3, 6, 1)] {
            world.send_known(peer, source, destination, true);
        }
        let mut seqs = [0_u64; PEERS as usize];
        let mut wire: Vec<Vec<u8>> = Vec::new();
        for step in &steps {
            let ago = |ago: usize| wire.len().checked_sub(ago + 1).map(|at| wire[at].clone());
            match *step {
                Step::Send { flow, body } => {
                    let (source, destination) = [(1, 5), (2, 5), (1, 6), (3, 6)][flow];
                    world.send(&frame(source, destination, true, body as u32, body));
                }
                Step::Packet { peer, ahead, flow, sci, body } => {
                    let seq = &mut seqs[usize::from(peer)];
                    let this = seq.saturating_add_signed(ahead);
                    *seq = (*seq).max(this);
                    let epoch = world.sent[usize::from(peer)].0;
                    let packet = world.of_peer((peer, epoch, this), flow, 1, sci, body);
                    world.receive(true, &packet);
                    wire.push(packet);
                }
                Step::Again { ago: at } => {
                    if let Some(packet) = ago(at) {
                        world.receive(true, &packet);
                    }
                }
                Step::Flip { ago: at, bit } => {
                    if let Some(mut packet) = ago(at) {
                        let bit = bit % (8 * packet.len());
                        packet[bit / 8] ^= 1 << (bit % 8);
                        world.receive(true, &packet);
                    }
                }
                Step::Cut { ago: at, octets } => {
                    if let Some(mut packet) = ago(at) {
                        packet.truncate(packet.len().saturating_sub(octets).max(14));
                        world.receive(true, &packet);
                    }
                }
                Step::Jump { peer, anchors } => {
                    let seq = &mut seqs[usize::from(peer)];
                    *seq = (*seq / 32 + anchors) * 32 - 1;
                }
                Step::Install { peer } => {
                    world.install(peer);
                    seqs[usize::from(peer)] = 0;
                }
                Step::Fill => world.fill(),
            }
        }
    }
}
