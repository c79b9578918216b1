//! Packets that the program opens for user space: for its socket alone, and nobody on the network writes one.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use wire::tunnel::PacketForm;
use xdp::Verdict;
use xdp::site::Stranger;

use crate::packets::{PORT, addresses, datagram, datagram_between, sum};
use crate::world::{World, token_key};

/// Peer whose packets these are.
const PEER: u16 = 1;
/// Its flow.
const FLOW: u16 = 7;
/// Offset at which the worker tells the period of tokens.
const PERIOD: usize = 5;
const BODY: usize = 41;

/// A world whose worker is behind, so that packets are opened for it.
struct Behind {
    world: World,
    seq: AtomicU64,
    outer: usize,
}

impl Behind {
    fn new(v6: bool) -> Self {
        let mut world = World::new(v6);
        world.announce(PEER, FLOW, 5, 1, true);
        let behind = Self { world, seq: AtomicU64::new(0), outer: if v6 { 62 } else { 42 } };
        // Turns that have begun, the last ones that found nothing, a cost, the period.
        behind.tell([9, 0, 0, 0, 0, 3]);
        behind
    }

    fn tell(&self, to: [u64; 6]) {
        let turns = self.world.kernel.turns().unwrap();
        turns.words().iter().zip(to).for_each(|(word, to)| word.store(to, Ordering::SeqCst));
    }

    fn verdict(&self, packet: &[u8]) -> Verdict {
        let ran = self.world.kernel.run_inward(packet, 1).unwrap();
        assert!(ran.verdict == Verdict::Drop || ran.frame == packet, "what passes is left as it came");
        ran.verdict
    }

    /// The payload of the peer's next packet.
    fn next_payload(&self) -> Vec<u8> {
        let seq = self.seq.fetch_add(1, Ordering::SeqCst) + 1;
        self.world.of_peer((PEER, 1, seq), FLOW, seq as u32, true, BODY)[self.outer..].to_vec()
    }

    /// A packet that the program has opened.
    fn opened(&self) -> Vec<u8> {
        let payload = self.next_payload();
        let header = self.world.header(FLOW, PacketForm::Whole, self.seq.load(Ordering::SeqCst) as u32, true);
        let ran = self.world.kernel.run_inward(&datagram(self.world.v6, false, &payload), 1).unwrap();
        let token = token_key().token(header.encode(), PEER, self.period()).octets();
        let front = [&token[..], &PEER.to_be_bytes(), &header.encode()].concat();
        assert_eq!(ran.verdict, Verdict::Pass);
        let expected = datagram(self.world.v6, false, &[&front, &payload[16..]].concat());
        assert_eq!(ran.frame, expected);
        expected
    }

    fn period(&self) -> u64 {
        self.world.kernel.turns().unwrap().words()[PERIOD].load(Ordering::SeqCst)
    }

    fn counted(&self) -> u64 {
        self.world.kernel.counters(PEER.into()).unwrap().0.in_pkts_tunnelled
    }
}

/// The host answers what no socket receives with an ICMP message that quotes it, or sends it on: a token would leave the box.
#[test]
fn a_packet_is_opened_for_the_sites_socket_alone() {
    for v6 in [false, true] {
        let mut behind = Behind::new(v6);
        let [here, there] = addresses(v6);
        let [other_here, other_there] = addresses(!v6);
        let neighbour =
            SocketAddr::new(if v6 { "fd00::1:3" } else { "192.0.2.3" }.parse().unwrap(), here.port());
        let for_socket = |behind: &Behind| datagram_between([here, there], false, &behind.next_payload());
        let kernel = &mut behind.world.kernel;
        kernel.bound_strangers(other_here.ip(), &Stranger::ALL).unwrap();
        let packet = for_socket(&behind);
        assert_eq!(behind.verdict(&packet), Verdict::Pass, "nobody has said where the socket receives");
        behind.world.kernel.bound_strangers(here.ip(), &Stranger::ALL).unwrap();
        let packet = for_socket(&behind);
        assert_eq!(behind.verdict(&packet), Verdict::Pass, "an address of this box is not enough");
        behind.world.kernel.receive_at(here.ip(), &[]).unwrap();
        for ends in [[neighbour, there], [other_here, other_there]] {
            let packet = datagram_between(ends, false, &behind.next_payload());
            assert_eq!(behind.verdict(&packet), Verdict::Pass, "{ends:?}");
            assert_eq!(behind.verdict(&packet), Verdict::Pass, "{ends:?}: its identifier is used up");
        }
        assert_eq!(behind.counted(), 0);
        behind.opened();
        assert_eq!(behind.counted(), 1);
        behind.world.kernel.free_strangers(here.ip()).unwrap();
        let packet = for_socket(&behind);
        assert_eq!(behind.verdict(&packet), Verdict::Pass, "it is somebody else's address now");
        assert_eq!(behind.counted(), 1);
    }
}

/// The same packet with four octets of IP options.
fn with_options(packet: &[u8]) -> Vec<u8> {
    let mut packet = [&packet[..34], &[1, 1, 1, 0], &packet[34..]].concat();
    packet[14] = 0x46;
    let total = (packet.len() as u16 - 14).to_be_bytes();
    packet[16..18].copy_from_slice(&total);
    packet[24..26].copy_from_slice(&[0; 2]);
    let checksum = (!sum(&packet[14..38])).to_be_bytes();
    packet[24..26].copy_from_slice(&checksum);
    packet
}

/// Who has seen an opened packet gets no other one past identifier, check, window and stations by it.
#[test]
fn nobody_on_the_network_writes_an_opened_packet() {
    for v6 in [false, true] {
        let mut behind = Behind::new(v6);
        let [here, there] = addresses(v6);
        let elsewhere = SocketAddr::new(there.ip(), 9);
        behind.world.kernel.receive_at(here.ip(), &[]).unwrap();
        let outer = behind.outer;
        let opened = behind.opened();
        let payload = opened[outer..].to_vec();
        // Host stacks give a datagram that is shorter than its packet to the socket too.
        let mut short = opened.clone();
        let udp = (8 + payload.len() as u16 - 1).to_be_bytes();
        short[outer - 4..outer - 2].copy_from_slice(&udp);
        let mut forms = vec![
            ("as it was", opened.clone()),
            ("another body", datagram(v6, false, &[&payload[..16], &[9; 60]].concat())),
            ("no body", datagram(v6, false, &[&payload[..16], &[0; 2]].concat())),
            ("from elsewhere", datagram_between([here, elsewhere], false, &payload)),
            ("shorter than its packet", short),
        ];
        if !v6 {
            forms.push(("IP options", with_options(&opened)));
        }
        let made_up = datagram(v6, false, &[0x3f; 60]);
        for later in [0, 1] {
            behind.tell([9, 0, 0, 0, 0, 3 + later]);
            for (what, form) in &forms {
                assert_eq!(behind.verdict(form), Verdict::Drop, "{what}, {later} periods later");
            }
        }
        behind.tell([9, 0, 0, 0, 0, 5]);
        for (what, form) in &forms {
            assert_eq!(behind.verdict(form), Verdict::Pass, "{what}: the worker takes it for a stranger's");
        }
        behind.tell([9, 0, 0, 0, 0, 3]);
        for octet in 0..16 {
            let mut other = payload.clone();
            other[octet] ^= 1;
            assert_eq!(behind.verdict(&datagram(v6, false, &other)), Verdict::Pass, "octet {octet}");
        }
        assert_eq!(behind.verdict(&made_up), Verdict::Pass);
        if !v6 {
            assert_eq!(behind.verdict(&with_options(&made_up)), Verdict::Pass);
            let others = [SocketAddr::new(here.ip(), PORT + 1), there];
            let others = with_options(&datagram_between(others, false, &payload));
            assert_eq!(behind.verdict(&others), Verdict::Pass, "another port is somebody else's");
        }
    }
}
