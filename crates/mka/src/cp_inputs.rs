//! Inputs of the CP machine: what the members of the latest SAK have reported.

use alloc::vec::Vec;

use crate::cp::{Cp, CpInputs};
use crate::participants::Participants;
use crate::peer::Peer;
use crate::station::Station;

/// Runs the CP machine for the latest SAK.
pub(crate) fn run(station: &mut Station, participants: &mut Participants, cp: &mut Cp) {
    let Some(latest) = cp.latest() else { return };
    let ki = latest.ki;
    let owner = participants.find(latest.owner);
    let (inputs, peers): (_, Vec<&Peer>) = match owner {
        None => (CpInputs::default(), Vec::new()),
        Some(participant) => {
            let own = participant.distribution().filter(|own| own.ki == ki);
            let server = participant.server_peer();
            // A station that joined later and has no SAK misses nothing: it waits for the next one.
            let peers: Vec<&Peer> = participant
                .peers()
                .live()
                .filter(|peer| {
                    let is_new = own.is_some_and(|own| !own.members.contains(&peer.mi));
                    peer.macsec && !(is_new && peer.uses.iter().all(|key| !key.tx))
                })
                .collect();
            let knows_all = own.is_some()
                || server.is_some_and(|server| {
                    let mut members = server.hears.iter().filter(|mi| **mi != participant.mi());
                    members.all(|mi| match participant.peers().find(*mi) {
                        Some(peer) => peer.live,
                        None => participant.is_out_of_reach(station.now(), *mi),
                    })
                });
            let inputs = CpInputs {
                elected_self: own.is_some(),
                all_receiving: latest.receives() && knows_all && peers.iter().all(|peer| peer.receives(ki)),
                server_transmitting: server.is_some_and(|server| server.transmits(ki)),
            };
            (inputs, peers)
        }
    };
    if cp.handle_inputs(station, inputs, &peers) {
        participants.request_mkpdus();
    }
}
