//! Two data paths whose sessions come from real handshakes.

#![allow(clippy::unwrap_used, clippy::panic)] // a test's own set-up fails loudly

use fieldbus::handshake::{Handshake, HandshakeEvent};
use fieldbus::{KeyChange, LiveSession, RelationSettings, Relations, Settings};
use suite::fieldbus::MasterKey;
use wire::Instant;

/// The cells of two gateways, relation by relation, after their handshakes, and all HELLOs of these.
pub(crate) fn gateways(
    settings: Settings,
    relations: &[Vec<RelationSettings>; 2],
) -> ([Relations; 2], Vec<Vec<u8>>) {
    let mut cells = [0, 1].map(|end| Relations::new(settings, &relations[end]).unwrap());
    let mut hellos = Vec::new();
    for (number, (one, other)) in relations[0].iter().zip(&relations[1]).enumerate() {
        let pair = [one, other];
        let master = MasterKey::new(&[3; 32]);
        let mut ends = [0, 1].map(|end| {
            let seed = [(2 * number + end) as u8; 32];
            Handshake::new(
                &pair[end].relation,
                &master.clone().into(),
                settings.protection,
                settings.ethertype,
                &seed,
            )
        });
        let mut newest = [None, None];
        ends[0].handle_timeout(Instant::START);
        while let Some((from, hello)) =
            [0, 1].into_iter().find_map(|end| ends[end].poll_transmit().map(|hello| (end, hello)))
        {
            ends[1 - from].handle_frame(Instant::START, &hello).unwrap();
            while let Some(event) = ends[1 - from].poll_event() {
                let change = match event {
                    HandshakeEvent::Enter(session) => {
                        newest[1 - from] = Some(session.number);
                        KeyChange::Enter(LiveSession::new(*session))
                    }
                    HandshakeEvent::End => panic!("the master key is there"),
                    HandshakeEvent::Enable => KeyChange::Enable(newest[1 - from].unwrap()),
                };
                cells[1 - from].change(number, change);
            }
            hellos.push(hello.to_vec());
        }
    }
    (cells, hellos)
}
