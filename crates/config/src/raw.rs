//! The configuration as it is written: every key of the contract, none of them judged yet.
//!
//! An unknown key is serde's error. Keys of later releases stand here too, so that each can be refused by name.

use serde::Deserialize;
use toml::value::Datetime;
use toml::{Spanned, Value};

type Text = Option<Spanned<String>>;
type Number = Option<Spanned<i64>>;
type Switch = Option<Spanned<bool>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawConfig {
    pub(super) gateway: Option<Spanned<RawGateway>>,
    #[serde(default)]
    pub(super) link: Vec<Spanned<RawLink>>,
    #[serde(default)]
    pub(super) site: Vec<Spanned<RawSite>>,
    #[serde(default)]
    pub(super) fieldbus: Vec<Spanned<RawFieldbus>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawGateway {
    pub(super) name: Text,
    pub(super) state: Text,
    pub(super) io: Text,
    pub(super) polling: Text,
    pub(super) realtime: Text,
    pub(super) cpus: Text,
    pub(super) allow_experimental: Switch,
    pub(super) http: Text,
    pub(super) log: Text,
    pub(super) antedate: Text,
    pub(super) unguarded: Switch,
    pub(super) state_max_age: Text,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLink {
    pub(super) name: Text,
    pub(super) plain: Text,
    pub(super) protected: Text,
    pub(super) suite: Text,
    pub(super) protect_frames: Switch,
    pub(super) encrypt: Switch,
    pub(super) confidentiality_offset: Number,
    pub(super) sci: Text,
    pub(super) validate_frames: Text,
    pub(super) replay_protect: Switch,
    pub(super) replay_window: Number,
    pub(super) mtu: Option<Spanned<Value>>,
    pub(super) clear_vlan: Text,
    pub(super) bypass: Option<Vec<Spanned<String>>>,
    pub(super) fragment: Text,
    pub(super) concatenate: Text,
    pub(super) hold: Text,
    pub(super) link_loss: Text,
    pub(super) allow_addresses: Switch,
    #[serde(rename = "static")]
    pub(super) static_keys: Option<Spanned<RawStatic>>,
    pub(super) mka: Option<Spanned<RawMka>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawMka {
    pub(super) cak_file: Text,
    pub(super) fallback_cak_file: Text,
    pub(super) fallback_until: Option<Spanned<Datetime>>,
    pub(super) priority: Number,
    pub(super) destination: Text,
    pub(super) on_peer_loss: Text,
    pub(super) rekey: Text,
    pub(super) delay_protect: Switch,
    pub(super) sci: Text,
    pub(super) peers: Option<Spanned<Vec<Spanned<String>>>>,
    pub(super) accept_integrity: Switch,
    pub(super) record: Text,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawStatic {
    an: Number,
    sci: Text,
    key_file: Text,
    ssci: Option<Spanned<Value>>,
    salt: Text,
    #[serde(default)]
    pub(super) peer: Vec<Spanned<RawPeer>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPeer {
    an: Number,
    sci: Text,
    key_file: Text,
    ssci: Option<Spanned<Value>>,
    salt: Text,
    pub(super) replay_floor: Text,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSite {
    pub(super) name: Text,
    pub(super) lan: Text,
    pub(super) allow_addresses: Switch,
    pub(super) mtu: Option<Spanned<Value>>,
    pub(super) bind: Text,
    pub(super) identity: Text,
    pub(super) dscp: Option<Spanned<Value>>,
    pub(super) window: Number,
    pub(super) limits: Option<Spanned<RawLimits>>,
    #[serde(default)]
    pub(super) peer: Vec<Spanned<RawSitePeer>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLimits {
    pub(super) flows: Number,
    pub(super) flows_per_sci: Number,
    pub(super) flows_per_source: Number,
    pub(super) new_flows_per_second: Number,
    pub(super) flow_age: Text,
    pub(super) stations: Number,
    pub(super) station_age: Text,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSitePeer {
    pub(super) name: Text,
    pub(super) endpoint: Text,
    pub(super) public_key: Text,
    pub(super) mode: Text,
    pub(super) vni: Number,
    pub(super) path_mtu: Number,
    pub(super) classical: Text,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFieldbus {
    pub(super) name: Text,
    pub(super) plain: Text,
    pub(super) protected: Text,
    pub(super) protect: Text,
    pub(super) suite: Text,
    pub(super) rest: Text,
    pub(super) allow_addresses: Switch,
    pub(super) master_key_file: Text,
    pub(super) local: Option<Spanned<Vec<Spanned<String>>>>,
    pub(super) ethertype: Option<Spanned<Value>>,
    pub(super) vlan: Option<Spanned<Value>>,
    pub(super) mode: Text,
    pub(super) watchdog: Number,
    pub(super) alarm: Option<Spanned<Value>>,
    pub(super) epoch_frames: Number,
    #[serde(default)]
    pub(super) relation: Vec<Spanned<RawRelation>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRelation {
    pub(super) stations: Option<Spanned<Vec<Spanned<String>>>>,
    pub(super) frame_ids: Option<Spanned<Vec<Spanned<i64>>>>,
    pub(super) cycle: Text,
    pub(super) mode: Text,
}

/// What the own SA and a peer's SA have in common.
pub(super) struct RawSa<'r> {
    pub(super) an: &'r Number,
    pub(super) sci: &'r Text,
    pub(super) key_file: &'r Text,
    pub(super) ssci: &'r Option<Spanned<Value>>,
    pub(super) salt: &'r Text,
}

impl RawStatic {
    pub(super) fn sa(&self) -> RawSa<'_> {
        let Self { an, sci, key_file, ssci, salt, .. } = self;
        RawSa { an, sci, key_file, ssci, salt }
    }
}

impl RawPeer {
    pub(super) fn sa(&self) -> RawSa<'_> {
        let Self { an, sci, key_file, ssci, salt, .. } = self;
        RawSa { an, sci, key_file, ssci, salt }
    }
}
