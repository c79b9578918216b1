//! Reloads while machines send a thousand frames a second both ways, each of which arrives once: links with other keys in the kernel, links
//! that leave it and links that enter it. Also while somebody holds the kernel's lock of all interfaces ([`held_links`](super::held_links)).

use std::collections::HashSet;
use std::time::Duration;

use frameward::keygen::{self, KeyLength};
use lab::topology::{LEFT, PLAIN, PROTECTED};
use lab::{Capture, Shape, Topology};
use perf::demo::pair::{self, Choice, LinkKeys, Pair, Scratch, Station};
use suite::CipherSuite;

use super::held_links;
use super::kernel_link::{all_protected, path, redirecting, until_path};
use super::lost_frames::{Lost, without_loss};
use super::reload::{hear, reloaded};
use super::{DEADLINE, program};

fn topology() -> Topology {
    redirecting(&Shape { static_neighbours: true, protected_mtu: 1536, ..Shape::default() })
}

fn start(topology: &Topology, keys: LinkKeys) -> Pair {
    let suite = CipherSuite::ChaCha20Poly1305;
    // A worker that waits for its CPU may be overtaken by the kernel, under static keys in one SA.
    let choice = Choice { suite, keys, link: "replay_window = 64", ..Choice::default() };
    let scratch = Scratch::new().unwrap();
    pair::configure(&scratch, &choice).unwrap();
    let a = held_links::start(&topology.gateway_a.namespace, &scratch, "a");
    let b = Station::start(program(), &topology.gateway_b.namespace, &scratch, "b").unwrap();
    let pair = Pair { a, b, scratch };
    if keys == LinkKeys::Agreed {
        pair.wait_until_secured().unwrap();
    }
    pair
}

/// Frames flow for a moment, so that those are seen that are lost behind a reload.
fn flow() {
    std::thread::sleep(Duration::from_millis(500));
}

/// Puts words in the place of others in a configuration, and has them taken over.
fn reload_with(pair: &Pair, name: &str, old: &str, new: &str) {
    let file = pair.scratch.path().join(format!("{name}.toml"));
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains(old), "{old:?} is not in\n{text}");
    std::fs::write(&file, text.replace(old, new)).unwrap();
    reloaded(&pair.scratch, name);
}

/// Of each key the PNs that one end has sent: none comes twice. `ends` are the frames on the wire when the key changed.
fn no_pn_twice(frames: &[lab::Frame]) {
    for end in [1, 2] {
        let mut seen = HashSet::new();
        for frame in frames.iter().filter(|frame| frame.octets.get(20..26) == Some(&[2, 0, 0, 0, 0, end])) {
            // AN and PN: each key has an AN of its own here.
            let of_key = (frame.octets[14] & 3, frame.octets[16..20].to_vec());
            assert!(seen.insert(of_key), "a PN twice under one key");
        }
        assert!(seen.len() > 500, "{}", seen.len());
    }
}

/// An SA of a link with static keys: its AN and its key.
type Sa = (u8, &'static str);

fn configure(pair: &Pair, end: usize, own: Sa, peers: &[Sa]) {
    let (name, sci, peer_sci) = [("a", 1, 2), ("b", 2, 1)][end];
    let state = pair.scratch.path().join(format!("state-{name}"));
    let mut text = format!(
        "[gateway]\nname = \"{name}\"\nstate = \"{}\"\nio = \"auto\"\n[[link]]\nname = \"press\"\nplain = \"{PLAIN}\"\n\
         protected = \"{PROTECTED}\"\nsuite = \"chacha20-poly1305\"\nreplay_window = 64\n[link.static]\nan = {}\n\
         sci = \"02:00:00:00:00:0{sci}/1\"\nkey_file = \"{}.key\"\n",
        state.display(),
        own.0,
        own.1,
    );
    for (an, key) in peers {
        text += &format!(
            "[[link.static.peer]]\nan = {an}\nsci = \"02:00:00:00:00:0{peer_sci}/1\"\nkey_file = \"{key}.key\"\n"
        );
    }
    pair.scratch.write(&format!("{name}.toml"), &text).unwrap();
    reloaded(&pair.scratch, name);
}

/// Does this while machines talk, and sees that no frame is lost. Returns the frames on the wire.
fn loses_nothing(keys: LinkKeys, work: impl Fn(&Pair)) -> lab::Captured {
    loses_nothing_behind(keys, |_, _| {}, work)
}

/// The same behind something that is done before machines talk.
fn loses_nothing_behind(
    keys: LinkKeys,
    before: impl Fn(&Topology, &mut Pair),
    work: impl Fn(&Pair),
) -> lab::Captured {
    without_loss(|| {
        let topology = topology();
        let mut pair = start(&topology, keys);
        before(&topology, &mut pair);
        let wire = Capture::start(&topology.middle, LEFT).unwrap();
        let heard = hear(&topology, || work(&pair));
        let lost = Lost::of(&heard, &topology, [&pair.a, &pair.b]);
        pair.stop().unwrap();
        (lost, all_protected(wire))
    })
}

/// The receivers know the next keys before the senders take them, and the old ones go last.
#[test]
fn static_keys_change_in_the_kernel_without_a_lost_frame() {
    const KEYS: [[Sa; 2]; 4] =
        [[(0, "a"), (0, "b")], [(1, "a1"), (1, "b1")], [(2, "a2"), (2, "b2")], [(3, "a3"), (3, "b3")]];
    let wire = loses_nothing(LinkKeys::Static, |pair| {
        for (_, key) in KEYS[1..].iter().flatten() {
            keygen::static_key(KeyLength::Bits256, &pair.scratch.path().join(format!("{key}.key"))).unwrap();
        }
        for keys in KEYS.windows(2) {
            let [old, new] = [keys[0], keys[1]];
            for (own, peers) in [(old, vec![old, new]), (new, vec![old, new]), (new, vec![new])] {
                for end in [0, 1] {
                    let peers: Vec<Sa> = peers.iter().map(|keys| keys[1 - end]).collect();
                    configure(pair, end, own[end], &peers);
                    assert_eq!([&pair.a, &pair.b].map(path), ["kernel"; 2]);
                }
                flow();
            }
        }
    });
    no_pn_twice(&wire.frames);
}

/// Out of the kernel by `io`, by a setting that programs do not have, and back.
fn leaves_and_enters(keys: LinkKeys) {
    let wire = loses_nothing(keys, |pair| {
        for _ in 0..2 {
            for (station, name) in [(&pair.a, "a"), (&pair.b, "b")] {
                for [here, there] in [
                    ["io = \"auto\"", "io = \"af_xdp\""],
                    ["replay_window = 64\n", "replay_window = 64\nvalidate_frames = \"check\"\n"],
                ] {
                    reload_with(pair, name, here, there);
                    until_path(station, "user space");
                    flow();
                    reload_with(pair, name, there, here);
                    if keys == LinkKeys::Agreed {
                        super::kernel_link::rekey(pair, name);
                    }
                    until_path(station, "kernel");
                    flow();
                }
            }
        }
    });
    if keys == LinkKeys::Static {
        no_pn_twice(&wire.frames);
    }
}

#[test]
fn a_link_with_static_keys_leaves_and_enters_the_kernel_without_a_lost_frame() {
    leaves_and_enters(LinkKeys::Static);
}

#[test]
fn a_link_with_agreed_keys_leaves_and_enters_the_kernel_without_a_lost_frame() {
    leaves_and_enters(LinkKeys::Agreed);
}

/// A link that leaves the kernel, and comes back, waits for no lock of interfaces: its programs stand aside.
fn leaves_and_enters_without_the_lock(keys: LinkKeys) {
    loses_nothing(keys, |pair| {
        held_links::hold(&pair.scratch, || {
            reload_with(pair, "a", "io = \"auto\"", "io = \"af_xdp\"");
            until_path(&pair.a, "user space");
            flow();
        });
        held_links::hold(&pair.scratch, || {
            reload_with(pair, "a", "io = \"af_xdp\"", "io = \"auto\"");
            if keys == LinkKeys::Agreed {
                super::kernel_link::rekey(pair, "a");
            }
            until_path(&pair.a, "kernel");
            flow();
        });
        flow();
    });
}

#[test]
fn a_link_with_static_keys_leaves_and_enters_the_kernel_while_others_hold_the_lock_of_interfaces() {
    leaves_and_enters_without_the_lock(LinkKeys::Static);
}

#[test]
fn a_link_with_agreed_keys_leaves_and_enters_the_kernel_while_others_hold_the_lock_of_interfaces() {
    leaves_and_enters_without_the_lock(LinkKeys::Agreed);
}

/// Ports that were opened while their link was in user space have no programs in front of them. These are put there first, aside.
#[test]
fn programs_are_put_in_front_of_ports_before_a_frame_depends_on_it() {
    let wire = loses_nothing_behind(
        LinkKeys::Static,
        |topology, pair| {
            reload_with(pair, "a", "io = \"auto\"", "io = \"af_xdp\"");
            until_path(&pair.a, "user space");
            topology.gateway_a.namespace.ip(&["link", "set", PROTECTED, "mtu", "1537"]).unwrap();
            pair.a.program().wait_for_line("frames pass again", DEADLINE).unwrap();
        },
        |pair| {
            held_links::hold(&pair.scratch, || {
                reload_with(pair, "a", "io = \"af_xdp\"", "io = \"auto\"");
                until_path(&pair.a, "kernel");
                flow();
            });
            reload_with(pair, "a", "io = \"auto\"", "io = \"af_xdp\"");
            until_path(&pair.a, "user space");
            flow();
        },
    );
    no_pn_twice(&wire.frames);
}
