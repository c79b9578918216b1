//! A case of a bench: a network with two boxes in it, and what stands in the boxes.

use std::path::Path;
use std::time::{Duration, Instant};

use dataplane::open::Io;
use lab::topology::Gateway;
use lab::{Shape, Topology};

use super::BenchError;
use super::forwarder::Forwarder;
use crate::demo::cells::{redirecting, secured};
use crate::demo::pair::{Choice, Pair, Scratch, Station, configure};
use report::GatewayReport;

/// A case with its network.
pub struct TestBed {
    /// The measured case.
    pub case: String,
    /// Dropped before the namespaces in which it runs.
    inside: Inside,
    /// Its network.
    pub topology: Topology,
}

/// Contents of the two boxes.
enum Inside {
    /// Plain Linux bridges.
    Bridges,
    /// Gateways.
    Gateways(Box<Pair>),
    /// Forwarders without a path, and where they keep their records.
    Forwarders([Forwarder; 2], Scratch),
    /// A gateway in the first box and a bridge in the second.
    OneGateway(Station, Scratch),
}

impl TestBed {
    /// A case with gateways; `choice` says how they treat frames. If these stay in the kernel, all interfaces take redirected ones.
    ///
    /// # Errors
    /// If the network cannot be made or what stands in its boxes does not run.
    pub fn new(frameward: &Path, case: &str, shape: &Shape, choice: &Choice) -> Result<Self, BenchError> {
        let topology = match choice.io {
            "kernel" => redirecting(shape)?,
            _ => Topology::build(shape)?,
        };
        let pair = Pair::start(frameward, &topology, choice)?;
        Ok(Self { case: case.into(), inside: Inside::Gateways(Box::new(pair)), topology })
    }

    /// A case with gateways that run already in a network's boxes.
    pub(crate) fn running(case: &str, topology: Topology, pair: Pair) -> Self {
        Self { case: case.into(), inside: Inside::Gateways(Box::new(pair)), topology }
    }

    /// A case without protection: plain bridges where the gateways would be.
    ///
    /// # Errors
    /// If the network cannot be made or what stands in its boxes does not run.
    pub fn bridged(case: &str, shape: &Shape) -> Result<Self, BenchError> {
        let topology = Topology::build(shape)?;
        topology.bridge_gateways()?;
        Ok(Self { case: case.into(), inside: Inside::Bridges, topology })
    }

    /// A case with bare forwarders where the gateways would be.
    ///
    /// # Errors
    /// If the network cannot be made or what stands in its boxes does not run.
    pub fn forwarded(lab: &Path, case: &str, shape: &Shape, io: Io) -> Result<Self, BenchError> {
        let topology = Topology::build(shape)?;
        let scratch = Scratch::new()?;
        let start = |gateway: &Gateway, name| {
            Forwarder::start(lab, &gateway.namespace, io, &scratch.path().join(name))
        };
        let forwarders = [start(&topology.gateway_a, "a")?, start(&topology.gateway_b, "b")?];
        Ok(Self { case: case.into(), inside: Inside::Forwarders(forwarders, scratch), topology })
    }

    /// A case with links in the kernel where the gateways would be, under a key that everybody knows.
    ///
    /// # Errors
    /// If the network cannot be made or what stands in its boxes does not run.
    pub fn protected_in_kernel(
        lab: &Path,
        case: &str,
        shape: &Shape,
        ahead: bool,
    ) -> Result<Self, BenchError> {
        let (topology, scratch) = (redirecting(shape)?, Scratch::new()?);
        let start = |gateway: &Gateway, name, end| {
            Forwarder::start_link(lab, &gateway.namespace, end, ahead, &scratch.path().join(name))
        };
        let forwarders = [start(&topology.gateway_a, "a", 0)?, start(&topology.gateway_b, "b", 1)?];
        Ok(Self { case: case.into(), inside: Inside::Forwarders(forwarders, scratch), topology })
    }

    /// A case with one gateway, which must protect nothing, and a bridge in place of the other.
    ///
    /// # Errors
    /// If the network cannot be made or what stands in its boxes does not run.
    pub fn one_hop(frameward: &Path, case: &str, shape: &Shape, choice: &Choice) -> Result<Self, BenchError> {
        let topology = Topology::build(shape)?;
        topology.gateway_b.bridge()?;
        let scratch = Scratch::new()?;
        configure(&scratch, choice)?;
        let station = Station::start(frameward, &topology.gateway_a.namespace, &scratch, "a")?;
        Ok(Self { case: case.into(), inside: Inside::OneGateway(station, scratch), topology })
    }

    /// The processes whose CPU time is the boxes', besides softirqs.
    pub fn processes(&self) -> Vec<u32> {
        match &self.inside {
            Inside::Bridges => Vec::new(),
            Inside::Gateways(pair) => [&pair.a, &pair.b].map(Station::id).to_vec(),
            Inside::Forwarders(forwarders, _) => forwarders.iter().map(Forwarder::id).collect(),
            Inside::OneGateway(station, _) => vec![station.id()],
        }
    }

    /// Report of the first gateway.
    pub(crate) fn report(&self) -> Result<GatewayReport, BenchError> {
        match &self.inside {
            Inside::Gateways(pair) => Ok(pair.a.report()?),
            Inside::OneGateway(station, _) => Ok(station.report()?),
            Inside::Bridges | Inside::Forwarders(..) => Err(BenchError::Silent(self.case.clone())),
        }
    }

    /// Report of the second gateway.
    pub(crate) fn far(&self) -> Option<&Station> {
        match &self.inside {
            Inside::Gateways(pair) => Some(&pair.b),
            _ => None,
        }
    }

    /// Waits until gateways of a cell protect the frames of all relations.
    ///
    /// # Errors
    /// If that takes too long, or there are no gateways.
    pub(crate) fn wait_for_cells(&self) -> Result<(), BenchError> {
        match &self.inside {
            Inside::Gateways(pair) => Ok(secured(pair)?),
            _ => Err(BenchError::Silent(self.case.clone())),
        }
    }

    /// Starts the first of two gateways with a cell again.
    ///
    /// # Returns
    /// The time from then on until it has agreed with the other one on the keys of all relations.
    ///
    /// # Errors
    /// If it does not end or run, or they do not agree.
    pub(crate) fn handshake(&mut self, frameward: &Path) -> Result<Duration, BenchError> {
        let Inside::Gateways(pair) = std::mem::replace(&mut self.inside, Inside::Bridges) else {
            return Err(BenchError::Silent(self.case.clone()));
        };
        let pair = pair.restart_a(frameward, &self.topology.gateway_a.namespace)?;
        let begin = Instant::now();
        secured(&pair)?;
        let took = begin.elapsed();
        self.inside = Inside::Gateways(Box::new(pair));
        Ok(took)
    }

    /// Stops what stands in the boxes, which must end well.
    ///
    /// # Errors
    /// If it does not.
    pub fn stop(self) -> Result<(), BenchError> {
        match self.inside {
            Inside::Bridges => {}
            Inside::Gateways(pair) => pair.stop()?,
            Inside::Forwarders(forwarders, scratch) => {
                for forwarder in forwarders {
                    forwarder.stop()?;
                }
                drop(scratch);
            }
            Inside::OneGateway(station, scratch) => {
                station.stop()?;
                drop(scratch);
            }
        }
        Ok(())
    }
}
