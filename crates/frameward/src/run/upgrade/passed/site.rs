//! A site of a gateway that is passed on: its LAN's interface, and no key. It begins anew in the next program, as another instance for its
//! peers: so nothing that it sends has a seq of before. The link that protects its LAN goes on like any other.

use std::os::fd::RawFd;

use config::Site;
use netdev::passed_on::PassedInterface;
use serde::{Deserialize, Serialize};

/// A site.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::run) struct PassedSite {
    pub(super) name: String,
    /// That of its LAN; none if it is not there, or its link has it.
    pub(in crate::run) interface: Option<PassedInterface>,
    /// Why it has no programs in the kernel.
    pub(in crate::run) why_user_space: String,
}

impl PassedSite {
    pub(in crate::run) const fn new(
        name: String,
        interface: Option<PassedInterface>,
        why_user_space: String,
    ) -> Self {
        Self { name, interface, why_user_space }
    }

    /// Whether it is this site's.
    pub(super) fn is_of(&self, site: &Site) -> bool {
        let lan = self.interface.as_ref().map(|interface| &interface.name);
        self.name == site.name && lan.is_none_or(|lan| *lan == site.lan)
    }

    pub(super) fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        self.interface.iter().flat_map(PassedInterface::numbers)
    }
}
