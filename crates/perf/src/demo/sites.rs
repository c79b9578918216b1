//! Sites, run as what they are: the real program, once in each plant's site box, and once in each of its stations.
//!
//! ```text
//!  machine ── [frameward run press-1-1.toml] ── switch ── [frameward run site-1.toml] ~~ internet ~~ …
//!              a station: a link gateway                    a site gateway
//! ```
//!
//! The stations of all plants are one MACsec network: each has every other one's SC among its receive SCs. Keys,
//! configurations, state and status sockets stand in a directory of their own that goes with the sites.

use std::path::Path;

use dataplane::site::VXLAN_PORT;
use lab::plants::{LAN, Plants};
use lab::topology::{PLAIN, PROTECTED};

use super::pair::{PairError, Scratch, Station};
use frameward::keygen::{self, KeyLength};

/// The data port of each site.
pub const PORT: u16 = 7787;
/// The network identifier of plain peers.
const VNI: u32 = 77;

/// Settings of the configurations, besides interfaces, names and keys.
#[derive(Clone, Debug)]
pub struct SitesChoice {
    /// `io` of all gateways.
    pub io: &'static str,
    /// The mode of all peers: `identifier`, `header-encryption` or `plain`.
    pub mode: &'static str,
    /// Further lines of the sites' `[gateway]`.
    pub gateway: &'static str,
    /// Further lines of `[[site]]`.
    pub site: &'static str,
    /// Further lines of the stations' `[[link]]`.
    pub link: &'static str,
    /// Whether the sites reach each other over IPv6, for which the plants must have addresses.
    pub ipv6: bool,
}

impl Default for SitesChoice {
    fn default() -> Self {
        Self { io: "auto", mode: "identifier", gateway: "", site: "", link: "", ipv6: false }
    }
}

/// The running gateways of all plants.
#[derive(Debug)]
pub struct Sites {
    /// The site gateways, plant by plant.
    pub sites: Vec<Station>,
    /// The stations of each plant.
    pub stations: Vec<Vec<Station>>,
    /// Their files.
    pub scratch: Scratch,
}

impl Sites {
    /// Configures and starts all gateways: the sites first.
    ///
    /// # Errors
    /// If one of them does not run.
    pub fn start(frameward: &Path, plants: &Plants, choice: &SitesChoice) -> Result<Self, PairError> {
        let scratch = Scratch::new()?;
        configure(&scratch, plants, choice)?;
        let mut sites = Vec::new();
        let mut stations = Vec::new();
        for plant in &plants.plants {
            let name = site_name(plant.number);
            sites.push(Station::start(frameward, &plant.site, &scratch, &name)?);
        }
        for plant in &plants.plants {
            let mut own = Vec::new();
            for (number, station) in (1..).zip(&plant.stations) {
                let name = station_name(plant.number, number);
                own.push(Station::start(frameward, &station.gateway.namespace, &scratch, &name)?);
            }
            stations.push(own);
        }
        Ok(Self { sites, stations, scratch })
    }

    /// Stops all of them, the stations first.
    ///
    /// # Errors
    /// If one does not end well.
    pub fn stop(self) -> Result<(), PairError> {
        let Self { sites, stations, scratch } = self;
        for gateway in stations.into_iter().flatten().chain(sites) {
            gateway.stop()?;
        }
        drop(scratch);
        Ok(())
    }
}

/// Name of a plant's site gateway, and of its configuration.
pub fn site_name(plant: u8) -> String {
    format!("site-{plant}")
}

/// Name of a station, and of its configuration.
pub fn station_name(plant: u8, station: u8) -> String {
    format!("press-{plant}-{station}")
}

/// Writes keys and configurations for all plants: `site-1.toml`, `press-1-1.toml` and so on.
///
/// # Errors
/// If a file cannot be written.
pub fn configure(scratch: &Scratch, plants: &Plants, choice: &SitesChoice) -> Result<(), PairError> {
    let mut public_keys = Vec::new();
    for plant in &plants.plants {
        let file = format!("{}.key", site_name(plant.number));
        public_keys.push(keygen::site(&scratch.path().join(file))?);
    }
    for plant in &plants.plants {
        let name = site_name(plant.number);
        let mut text = gateway(scratch, &name, choice, choice.gateway);
        let bind = if choice.ipv6 { "[::]" } else { "0.0.0.0" };
        text += &format!(
            "[[site]]\nname = \"plant-{}\"\nlan = \"{LAN}\"\nbind = \"{bind}:{PORT}\"\nidentity = \"{name}.key\"\n{}\n",
            plant.number, choice.site
        );
        for (peer, key) in
            plants.plants.iter().zip(&public_keys).filter(|(peer, _)| peer.number != plant.number)
        {
            let (port, more) = match choice.mode {
                "plain" => (VXLAN_PORT, format!("vni = {VNI}")),
                _ => (PORT, format!("public_key = \"{key}\"")),
            };
            let endpoint = match choice.ipv6 {
                true => format!("[{}]:{port}", peer.ipv6),
                false => format!("{}:{port}", peer.ipv4),
            };
            text += &format!(
                "[[site.peer]]\nname = \"plant-{}\"\nendpoint = \"{endpoint}\"\nmode = \"{}\"\n{more}\n",
                peer.number, choice.mode
            );
        }
        scratch.write(&format!("{name}.toml"), &text)?;
    }
    configure_stations(scratch, plants, choice)
}

/// Each station has a key and an SCI of its own, and those of all others.
fn configure_stations(scratch: &Scratch, plants: &Plants, choice: &SitesChoice) -> Result<(), PairError> {
    let all: Vec<(u8, u8)> = plants
        .plants
        .iter()
        .flat_map(|plant| (1..).zip(&plant.stations).map(|(number, _)| (plant.number, number)))
        .collect();
    let key_file = |(plant, station)| format!("{}.key", station_name(plant, station));
    for station in &all {
        keygen::static_key(KeyLength::Bits128, &scratch.path().join(key_file(*station)))?;
    }
    let sa = |(plant, station): (u8, u8)| {
        let key = key_file((plant, station));
        format!("an = 0\nsci = \"02:00:00:00:{plant:02x}:{station:02x}/1\"\nkey_file = \"{key}\"\n")
    };
    for own in &all {
        let name = station_name(own.0, own.1);
        let mut text = gateway(scratch, &name, choice, "");
        text += &format!(
            "[[link]]\nname = \"press\"\nplain = \"{PLAIN}\"\nprotected = \"{PROTECTED}\"\nsuite = \"gcm-aes-128\"\n{}\n[link.static]\n{}",
            choice.link,
            sa(*own)
        );
        for peer in all.iter().filter(|peer| *peer != own) {
            text += &format!("[[link.static.peer]]\n{}", sa(*peer));
        }
        scratch.write(&format!("{name}.toml"), &text)?;
    }
    Ok(())
}

/// The part of a configuration that all gateways have.
fn gateway(scratch: &Scratch, name: &str, choice: &SitesChoice, more: &str) -> String {
    let state = scratch.path().join(format!("state-{name}"));
    format!("[gateway]\nname = \"{name}\"\nstate = \"{}\"\nio = \"{}\"\n{more}\n", state.display(), choice.io)
}
