//! Cost of a flood of unsolicited packets for the frames of others.
//!
//! ```text
//!  sender ── SITE 1 ── router ── SITE 2 ── counter        a quarter of what SITE 2 can receive
//!                         ^
//!                      attacker: half of what SITE 2 can receive
//! ```
//!
//! The attacker says that it is the first site, so its packets get as far as packets can without a key.

use std::time::Duration;

use ::bench::Target;
use lab::macsec::{self, Load};
use lab::noise::{Noise, PacketShape, Route};
use lab::plants::to;

use super::{BENCH, Case, Inside};
use crate::bench::samples::Samples;
use crate::bench::{Bench, BenchError};
use crate::demo::sites::PORT;

/// The beginning of all names.
pub(super) const FLOOD: &str = "a quarter load";
/// Shares of what a site can receive.
const LEGITIMATE: f64 = 0.25;
const FLOODED: f64 = 0.5;
/// Share of the legitimate load that has to be left.
const LEAST: f64 = 0.9;
/// Octets of UDP payload: a data packet of a shortest frame, and the least that QUIC begins a connection with.
const DATA: usize = 48;
const INITIAL: usize = 1200;
/// Limit on a flood that nobody stops.
const LIMIT: Duration = Duration::from_secs(60);

/// Packets sent beside the load.
const FLOODS: [(&str, PacketShape, usize); 3] = [
    ("random packets", PacketShape::Data, DATA),
    ("packets like QUIC's", PacketShape::Quic, DATA),
    ("packets like QUIC's, of 1200 octets", PacketShape::Quic, INITIAL),
];

/// Frames of the legitimate load that arrive each second, alone and beside each flood.
pub(super) fn measure(bench: &mut Bench<'_>, cases: &mut [Case]) -> Result<(), BenchError> {
    for case in cases.iter_mut().filter(|case| case.protects && matches!(case.inside, Inside::Sites(_))) {
        let mut alone = Samples::new(&format!("{FLOOD}, alone, {}", case.name));
        let mut beside =
            FLOODS.map(|(what, ..)| Samples::new(&format!("{FLOOD} beside {what}, {}", case.name)));
        for round in 1..=bench.effort.rounds {
            let most = case.rate(macsec::SHORTEST as u32, bench.effort.time)?;
            let undisturbed = case.load(most, bench.effort.time)?;
            alone.push(undisturbed);
            for (&(what, shape, octets), samples) in FLOODS.iter().zip(&mut beside) {
                let flood = case.flood(shape, octets, most, round as u64)?;
                let arrived = case.load(most, bench.effort.time)?;
                let sent = flood.stop()?;
                samples.push(arrived);
                (bench.progress)(&format_args!(
                    "round {round}: {}: {most:.0} frames/s at most; beside {sent} {what} {arrived:.0} instead of {undisturbed:.0}",
                    case.name
                ));
            }
        }
        (bench.figure)(alone.row(BENCH, "frames/s", None));
        for samples in &beside {
            let mut row = samples.row(BENCH, "frames/s", Some(&alone));
            let met = row.ratio.as_ref().is_some_and(|ratio| ratio.value >= LEAST);
            row.target = Some(Target { wanted: format!("ratio at least {LEAST}"), met });
            (bench.figure)(row);
        }
    }
    Ok(())
}

impl Case {
    /// Frames that arrive each second of a quarter of `most`.
    fn load(&mut self, most: f64, time: Duration) -> Result<f64, BenchError> {
        let [from, to] = self.ports();
        let offer = Some((most * LEGITIMATE) as u32);
        let flood = macsec::flood(from, to, macsec::SHORTEST, self.pn, offer, time)?;
        self.pn += 1 << 23;
        Ok(flood.delivered_per_second())
    }

    /// Half of `most` packets a second to the second site's data port.
    fn flood(&self, shape: PacketShape, payload: usize, most: f64, seed: u64) -> Result<Load, BenchError> {
        let [one, two] = [0, 1].map(|index| &self.plants.plants[index]);
        // Data of header encryption has a port of its own; QUIC has that of identifiers in both modes.
        let port = if self.name.contains("header encryption") && shape == PacketShape::Data {
            PORT + 1
        } else {
            PORT
        };
        let route = Route {
            macs: [[2, 0, 0, 0, two.number, 0xe1], two.wan_mac],
            addresses: [one.ipv4, two.ipv4],
            ports: [port, port],
        };
        let mut noise = Noise::new(route, shape, payload, seed);
        let next = move |packet: &mut Vec<u8>| noise.next_into(packet);
        let device = to(two.number);
        let rate = Some((most * FLOODED) as u32);
        Ok(Load::start_with((&self.plants.internet, &device), next, rate, LIMIT)?)
    }
}
