//! LAN port of a site with programs.

use std::os::fd::{AsRawFd, OwnedFd};

use netdev::interface::takes_redirected;
use netdev::port::KernelSide;
use xdp::XdpError;
use xdp::site::Site;

/// Where frames of a peer go: in the kernel, or in user space for this reason.
pub type PlaceState = Result<(), String>;

const NO_LAN: &str = "its LAN has no port";

/// Whether frames of the LAN come to the program, and whether the LAN takes rebuilt ones.
#[derive(Debug)]
pub(super) struct Lan {
    outward: PlaceState,
    inward: PlaceState,
    interface: Option<u32>,
}

impl Lan {
    pub(super) fn none() -> Self {
        Self { outward: Err(NO_LAN.to_owned()), inward: Err(NO_LAN.to_owned()), interface: None }
    }

    pub(super) const fn outward(&self) -> &PlaceState {
        &self.outward
    }

    pub(super) const fn inward(&self) -> &PlaceState {
        &self.inward
    }

    /// The same as it is at this moment: the port may take redirected frames no longer.
    pub(super) fn inward_now(&self) -> PlaceState {
        self.inward.clone()?;
        self.interface.map_or_else(|| Err(NO_LAN.to_owned()), takes_rebuilt)
    }

    /// Tells the programs of the port, and returns the program for its link.
    pub(super) fn open(
        &mut self,
        site: &mut Site,
        side: Result<&KernelSide, String>,
        lan_frame: usize,
    ) -> Result<OwnedFd, String> {
        let program = side.and_then(|side| self.tell(site, side, lan_frame));
        self.outward = program.as_ref().map(drop).map_err(Clone::clone);
        if self.outward.is_err() {
            self.inward = self.outward.clone();
        }
        program
    }

    fn tell(&mut self, site: &mut Site, side: &KernelSide, lan_frame: usize) -> Result<OwnedFd, String> {
        if !side.native {
            return Err("the driver of its LAN port takes no XDP programs".into());
        }
        (self.inward, self.interface) = (takes_rebuilt(side.interface), Some(side.interface));
        let told = |error: XdpError| error.to_string();
        site.set_lan_frame(lan_frame).map_err(told)?;
        site.set_lan(side.interface).map_err(told)?;
        for (queue, socket) in (0..).zip(&side.sockets) {
            site.set_socket(queue, socket.as_raw_fd()).map_err(told)?;
        }
        let [outward, _] = site.programs().map_err(told)?;
        Ok(outward)
    }
}

/// Whether an interface takes rebuilt frames.
fn takes_rebuilt(interface: u32) -> PlaceState {
    match takes_redirected(interface) {
        Some(true) => Ok(()),
        Some(false) => Err(
            "its LAN port takes no redirected frames; of a veth the other end needs: ethtool -K IF gro on"
                .into(),
        ),
        None => {
            Err("this kernel does not tell whether its LAN port takes redirected frames (Linux 6.3 does)"
                .into())
        }
    }
}
