//! Our sites as one box each: the machines' frames are protected and tunnelled over UDP, as the others' are.
//!
//! ```text
//!  plain ──[ frameward run: SecY and tunnel ]── prot, with an address
//! ```

use std::path::Path;

use crate::bench::rivals::RivalHost;
use crate::demo::pair::{PairError, Scratch, Station};
use crate::demo::sites::PORT;
use frameward::keygen::{self, KeyLength};

/// A site in each box.
#[derive(Debug)]
pub(super) struct RunningSites {
    sites: [Station; 2],
    _scratch: Scratch,
}

impl RunningSites {
    /// Keys that the sites agree on, and all else as it is by default.
    pub(super) fn start(frameward: &Path, hosts: [RivalHost<'_>; 2]) -> Result<Self, PairError> {
        let scratch = Scratch::new()?;
        let file = |name: &str| scratch.path().join(name);
        keygen::cak(KeyLength::Bits128, None, &file("plants.cak"))?;
        let keys = [keygen::site(&file("plant-1.key"))?, keygen::site(&file("plant-2.key"))?];
        for (own, other) in [(0, 1), (1, 0)] {
            let (name, peer) = (name(hosts[own]), name(hosts[other]));
            let state = file(&format!("state-{name}"));
            let text = format!(
                "[gateway]\nname = \"{name}\"\nstate = \"{}\"\n\
                 [[site]]\nname = \"{name}\"\nlan = \"{}\"\nbind = \"0.0.0.0:{PORT}\"\nidentity = \"{name}.key\"\nprotect = true\n\
                 [site.mka]\ncak_file = \"plants.cak\"\n\
                 [[site.peer]]\nname = \"{peer}\"\nendpoint = \"{}:{PORT}\"\npublic_key = \"{}\"\n",
                state.display(),
                hosts[own].lan,
                hosts[other].address,
                keys[other],
            );
            scratch.write(&format!("{name}.toml"), &text)?;
        }
        let start = |host: RivalHost<'_>| Station::start(frameward, host.namespace, &scratch, &name(host));
        Ok(Self { sites: [start(hosts[0])?, start(hosts[1])?], _scratch: scratch })
    }

    pub(super) fn processes(&self) -> Vec<u32> {
        self.sites.iter().map(Station::id).collect()
    }

    pub(super) fn stop(self) -> Result<(), PairError> {
        self.sites.into_iter().try_for_each(|site| site.stop().map(drop))
    }
}

fn name(host: RivalHost<'_>) -> String {
    format!("plant-{}", host.number)
}
