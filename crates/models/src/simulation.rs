//! Worlds in one process, under virtual time, drawn from a seed. A seed draws gateways and their settings, then 20 s of faults; then
//! network and disks are fair. What a world has is the product's own code, but for what stands below as left out.
//!
//! | world | has | faults besides those of the network |
//! |---|---|---|
//! | [`links()`] | one to three links that share a network, with MKA or static keys | kills between any two polls of a KaY and within any operation of a disk, sleeps, wishes for another SAK, restarts in order, disks that are full, fail to sync or go back; a CAK that changes at one gateway after the other; upgrades, which lose nothing and come after the last fault too |
//! | [`cells()`] | one or two cells of up to four gateways each: handshakes, keys, data paths | kills between any two steps of control, sleeps with a clock that goes on or stands still, reloads of another master key, protection, modes, epochs or order at one gateway after the other; upgrades |
//! | [`sites()`] | two or three sites: sessions, forwarding halves; stations with MACsec, or sites that protect their LANs, with MKA or static keys | restarts of a site or of its manager, sleeps, another address of a site, connections of which an end has not heard that they are gone, stations that are silent, a mode that changes at one site after the other; where sites protect, kills, wishes and disks as in links |
//!
//! A network loses, copies and cuts (links: between groups, too), changes bits, delays so that frames overtake each other, and plays old frames again to anybody.
//!
//! | judged | when |
//! |---|---|
//! | no key protects two frames with one nonce, anywhere | at each protected frame |
//! | a frame on the network is a protocol's own or protected, and shows no plaintext; of cells in shadow mode, and there alone, it may | at each frame |
//! | a delivered frame was sent there, as it is | at each delivery |
//! | no gateway delivers a frame twice, over its restarts too; links with static keys, but for frames since its floors were written | at each delivery |
//! | state that a crash left is not refused; state of long ago is, so that it repeats no nonce | at each start |
//! | a part can do what another one says | at each event |
//! | a stated time after the last fault, all frames arrive | at the end |
//!
//! Left out: control, its threads, and the engine of sites (what they do is a model by hand), marks beside key files, fragments of links,
//! programs in the kernel. QUIC is a model by hand of what it promises: quinn has a runtime, a clock and randomness of its own, which no
//! seed draws.

mod cells;
mod gateway;
mod judge;
mod links;
mod network;
mod sites;
mod time;

pub use cells::run as cells;
pub use judge::{Told, Wrong};
pub use links::run as links;
pub use sites::run as sites;

/// Settings of a SecY that protects all frames and accepts no others.
const fn strict_secy(mtu: usize) -> secy::Settings {
    secy::Settings {
        protect_frames: true,
        sci_inclusion: secy::SciInclusion::Always,
        validate_frames: secy::ValidateFrames::Strict,
        replay_protect: true,
        clear_vlan: secy::ClearVlan::Refuse,
        mtu,
        reassemble: false,
    }
}
