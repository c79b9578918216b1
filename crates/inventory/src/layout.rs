//! View of the whole fleet in an inventory: plants with their gateways, and connections of those. No key is read for it.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::Inventory;
use crate::gateway::Gateway;
use crate::member::{ANNOUNCED, ANNOUNCES_NONE};
use crate::sections::{Kind, Shared};
use crate::tree::Node;

/// A fleet as it is laid out.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Layout {
    /// Gateways by their names.
    pub gateways: BTreeMap<String, Placed>,
    /// Connections of the gateways, by name.
    pub connections: Vec<Connection>,
}

/// Place of a gateway.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Placed {
    /// Its plant, if the inventory says so.
    pub plant: Option<String>,
    /// Address of its status and metrics, as its configuration will have it.
    pub http: Option<SocketAddr>,
    /// Name that it announces in its MKPDUs; none if it announces none.
    pub announced: Option<String>,
}

/// A link, group, cell or tunnel between gateways.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Connection {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// Its gateways, each with the name that the connection has in the gateway's configuration.
    pub ends: BTreeMap<String, String>,
}

impl Inventory {
    /// The fleet as it is laid out.
    pub fn layout(&self) -> Layout {
        let gateways = self.gateways.iter().map(|(name, gateway)| (name.clone(), Placed::new(name, gateway)));
        Layout {
            gateways: gateways.collect(),
            connections: self.shared.iter().map(Connection::new).collect(),
        }
    }
}

impl Placed {
    /// Address at which other machines reach its status, if they do.
    pub fn page(&self) -> Option<SocketAddr> {
        self.http.filter(|http| !http.ip().is_loopback() && !http.ip().is_unspecified())
    }

    fn new(name: &str, gateway: &Gateway) -> Self {
        let option = |key| gateway.options.get(key).and_then(Node::as_text);
        let announced = Some(option(ANNOUNCED).unwrap_or(name)).filter(|name| *name != ANNOUNCES_NONE);
        Self {
            plant: gateway.site.clone(),
            http: option("http").and_then(|text| text.parse().ok()),
            announced: announced.map(str::to_owned),
        }
    }
}

impl Connection {
    fn new(shared: &Shared) -> Self {
        // One gateway may call it otherwise.
        let own = |gateway: &str| shared.at.get(gateway).and_then(|at| at.get("name")?.as_text());
        let ends = shared.gateways.keys();
        let ends = ends.map(|gateway| (gateway.clone(), own(gateway).unwrap_or(&shared.name).to_owned()));
        Self { kind: shared.kind, name: shared.name.clone(), ends: ends.collect() }
    }
}
