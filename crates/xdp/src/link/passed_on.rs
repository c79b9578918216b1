//! Programs of a link for the next program of its process: they stay loaded, where they stand, with what they have counted.
//!
//! They have no SA meanwhile, and so no key. To load them needs a right that a gateway has at its start alone; to go on with them needs
//! none. The next program must have the same object ([`Link::object`]): it knows the maps by that alone.

use std::os::fd::RawFd;

use secy::InstallError;
use serde::{Deserialize, Serialize};
use wire::{An, Sci};

use super::{Link, OBJECT, PROGRAMS, RECEIVE_SCS, RECEIVED, SENT, layout};
use crate::error::XdpError;
use crate::programs::{PassedPrograms, Programs};

/// Programs of a link without SAs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedLink {
    programs: PassedPrograms,
    ring: u32,
    widest: u32,
    sci: Sci,
    /// As they stand in the map.
    settings: Vec<u8>,
    /// By their places in the maps.
    scis: Vec<Option<Sci>>,
    /// Of the newest SA that there was: slots know an SA by it.
    instance: u64,
}

impl PassedLink {
    /// The descriptors that it names.
    pub fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        self.programs.descriptors()
    }
}

impl Link {
    /// Octets of the object file with these programs.
    pub fn object() -> &'static [u8] {
        OBJECT
    }

    /// The programs for the next program of this process. They have no SA.
    ///
    /// # Errors
    /// If they have one, or cannot be asked.
    pub fn pass_on(&self) -> Result<PassedLink, XdpError> {
        let receive = self.receive_scs().flat_map(|sci| An::ALL.map(|an| (sci, an)));
        for (sci, an) in receive {
            if self.window(sci, an)?.is_some() {
                return Err(InstallError::AnInUse.into());
            }
        }
        for an in An::ALL {
            if self.transmit_pns(an)?.is_some() {
                return Err(InstallError::AnInUse.into());
            }
        }
        Ok(PassedLink {
            programs: self.programs.pass_on()?,
            ring: self.ring,
            widest: self.widest,
            sci: self.sci,
            settings: self.settings.to_vec(),
            scis: self.scis.to_vec(),
            instance: self.instance,
        })
    }

    /// Goes on with programs of the program before this one, whose object was the same. No thread makes keystream ahead yet.
    ///
    /// # Errors
    /// If they are others, or were not passed on.
    pub fn go_on(passed: &PassedLink) -> Result<Self, XdpError> {
        let PassedLink { programs, ring, widest, sci, settings, scis, instance } = passed;
        let settings: [u8; layout::SETTINGS] =
            settings.as_slice().try_into().map_err(|_| XdpError::Malformed)?;
        let scis: [Option<Sci>; RECEIVE_SCS] = scis.as_slice().try_into().map_err(|_| XdpError::Malformed)?;
        Ok(Self {
            programs: Programs::go_on(programs, &PROGRAMS)?,
            ring: *ring,
            widest: *widest,
            sci: *sci,
            settings,
            scis,
            // Those of SAs, which there are none of.
            sent_before: [[0; SENT]; An::COUNT],
            received_before: vec![[0; RECEIVED]; RECEIVE_SCS * An::COUNT],
            instance: *instance,
            ahead: None,
        })
    }
}
