//! Five sites with their stations, driven by a list of operations: sessions and forwarding halves as they are, without engines.
//!
//! ```text
//!  LAN 1 ── site 1 ──┐                    ┌── site 3 ── LAN 3
//!                    ├── wires ── site 0 ─┤            each pair directly, or through site 0, one way or both
//!  LAN 2 ── site 2 ──┘           relays   └── site 4 ── LAN 4
//! ```
//!
//! Pairs are in identifier mode or header encryption; relayed ones, and those with site 0, in identifier mode. Stations move between LANs, sites
//! stop, begin anew and are taken out of a configuration, channels break, addresses change, packets are lost, copied, swapped, held and played
//! again, and frames have VLAN tags or need two packets.
//!
//! Promises, as long as nobody changes packets (the target `tunnel` has those that hold if somebody does):
//! - No frame comes out that did not go in, and none twice at a site, whatever restarts or is played again.
//! - A frame comes out at sites that it was sent to, and at no other: not where it came from, and not at the relay.
//! - A frame for one station goes to a site at which that station was heard, or to all.
//! - A frame that came out of a site and is at once on its LAN again goes into no tunnel; a relayed packet is relayed once.
//! - No identifier goes twice from a site to another one. No packet of its own exceeds the path.
//! - Tables have as many entries as the limits say.
//! - When all is well again, a frame for one station arrives where that is, and nowhere else.

mod judge;
mod site;
mod world;

use std::time::Duration;

use arbitrary::{Arbitrary, Unstructured};
use judge::Frame;
use site::SITES;
use world::World;

/// The most operations of a run.
const OPERATIONS: usize = 200;
/// The most packets that wait on the wires, and that an attacker keeps.
const WIRE: usize = 256;
/// Stations, at first three of each LAN.
const STATIONS: usize = 3 * SITES;

/// Settings of all sites.
#[derive(Arbitrary, Debug, Clone, Copy)]
pub(crate) struct Setup {
    /// Pairs without site 0 in header encryption, by bit.
    header_encryption: u8,
    /// Pairs without site 0 whose packets are relayed at first, by bit.
    relayed: u8,
    /// Octets of the paths' payload, above 120 and in fours.
    path: u8,
    /// Few flows and stations: quotas are met.
    narrow: bool,
    /// All sites are connected at first.
    begin: bool,
    /// All is well at the end, and is looked at.
    end: bool,
}

#[derive(Arbitrary, Debug)]
enum Operation {
    /// Frames of a station for another one, or for all.
    Send {
        station: u8,
        to: u8,
        octets: u16,
        tags: u8,
        count: u8,
    },
    /// The last frame that came out of a site is on its LAN again.
    Reflect {
        site: u8,
    },
    /// A station moves to another LAN.
    Move {
        station: u8,
        to: u8,
    },
    /// A site stops, or begins anew.
    Stop {
        site: u8,
    },
    Start {
        site: u8,
    },
    /// A site takes another one out of its configuration, or back in.
    Remove {
        site: u8,
        other: u8,
    },
    Add {
        site: u8,
        other: u8,
    },
    /// Packets of a site to another one go through the relay, or directly.
    Relay {
        from: u8,
        to: u8,
        on: bool,
    },
    /// A site has another address, as behind a NAT that has begun anew.
    Renumber {
        site: u8,
    },
    /// A site learns where another one is.
    Locate {
        site: u8,
        other: u8,
    },
    /// A channel breaks, which both ends notice or none.
    Break {
        site: u8,
        other: u8,
        noticed: bool,
    },
    Deliver {
        count: u8,
    },
    Lose {
        count: u8,
    },
    Copy {
        a: u8,
    },
    Swap {
        a: u8,
        b: u8,
    },
    /// The first packets stay with an attacker.
    Hold {
        count: u8,
    },
    /// They are played, and stay with him.
    Play,
    Pass {
        milliseconds: u16,
    },
}

/// Reads `octets` as a list of operations and carries it out.
///
/// # Panics
/// If one of the promises above is broken.
pub fn run(octets: &[u8]) {
    let mut input = Unstructured::new(octets);
    let Ok(setup) = Setup::arbitrary(&mut input) else { return };
    let mut world = World::new(&setup);
    for _ in 0..OPERATIONS {
        let Ok(operation) = Operation::arbitrary(&mut input) else { break };
        carry_out(&mut world, operation);
        world.wire.truncate(WIRE);
        if input.is_empty() {
            break;
        }
    }
    world.deliver(WIRE);
    world.assert_bounded();
    if setup.end {
        world.heal();
    }
}

fn carry_out(world: &mut World, operation: Operation) {
    let site = |number: u8| usize::from(number) % SITES;
    match operation {
        Operation::Send { station, to, octets, tags, count } => {
            let from = usize::from(station) % STATIONS;
            // One of sixteen goes to all.
            let to = Some(usize::from(to & 0x0f)).filter(|to| *to < STATIONS);
            for _ in 0..=count % 4 {
                world.depart(&Frame { from, to, octets: octets.into(), tags: tags.into() });
            }
        }
        Operation::Reflect { site: at } => world.reflect(site(at)),
        Operation::Move { station, to } => world.stations[usize::from(station) % STATIONS] = site(to),
        Operation::Stop { site: at } => world.stop(site(at)),
        Operation::Start { site: at } => world.start(site(at)),
        Operation::Remove { site: at, other } => world.remove(site(at), site(other)),
        Operation::Add { site: at, other } => world.add(site(at), site(other)),
        Operation::Relay { from, to, on } => world.relay(site(from), site(to), on),
        Operation::Renumber { site: at } => world.renumber(site(at)),
        Operation::Locate { site: at, other } => world.locate(site(at), site(other)),
        Operation::Break { site: at, other, noticed } => world.break_channel(site(at), site(other), noticed),
        Operation::Deliver { count } => world.deliver(count.into()),
        Operation::Pass { milliseconds } => {
            world.pass(Duration::from_millis(u64::from(milliseconds) % 4000), Duration::from_millis(20));
        }
        on_the_way => befall(world, on_the_way),
    }
}

fn befall(world: &mut World, operation: Operation) {
    let packets = world.wire.len();
    let index = |a: u8| usize::from(a) % packets.max(1);
    match operation {
        Operation::Lose { count } => drop(world.wire.drain(..usize::from(count).min(packets))),
        Operation::Copy { a } if packets > 0 => world.wire.push(world.wire[index(a)].clone()),
        Operation::Swap { a, b } if packets > 0 => world.wire.swap(index(a), index(b)),
        Operation::Hold { count } => {
            world.held.extend(world.wire.drain(..usize::from(count).min(packets)));
            world.held.truncate(WIRE);
        }
        Operation::Play => world.wire.extend(world.held.iter().cloned()),
        _ => {}
    }
}
