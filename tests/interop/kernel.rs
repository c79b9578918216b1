//! The guest's `macsec0`, set up with iproute2, and what it says of the frames it got.

use std::collections::BTreeMap;

use secy::SciInclusion;
use suite::CipherSuite;
use wire::{MacAddr, Sci};

use super::guest::Guest;

/// The address of the machine behind our SecY, and of the guest's `vec0` and `macsec0`.
pub(crate) const OUR_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xa1]);
pub(crate) const ITS_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xb1]);
pub(crate) const OURS: Sci = Sci::new(OUR_MAC, 1);
pub(crate) const ITS: Sci = Sci::new(ITS_MAC, 1);
/// Seeds that tell the keys of the two directions apart.
pub(crate) const OUR_SEED: u8 = 0xa1;
pub(crate) const ITS_SEED: u8 = 0xb1;
pub(crate) const OUR_SSCI: u32 = 1;
pub(crate) const ITS_SSCI: u32 = 2;
pub(crate) const SALT: [u8; 12] = *b"salt of test";
/// The MTU of `vec0`, and what the kernel takes of it, whatever its SecTAG is.
pub(crate) const MTU: usize = 1500;
pub(crate) const MACSEC_MTU: usize = MTU - 32;

/// Settings of `macsec0`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Macsec {
    pub(crate) suite: CipherSuite,
    pub(crate) encrypt: bool,
    pub(crate) sci: SciInclusion,
    /// `None`: no replay protection, as the driver's default is.
    pub(crate) replay_window: Option<u32>,
}

impl Macsec {
    /// Makes `macsec0` on `vec0`, with an SA under AN 0 each way, and takes it up. What was there before goes.
    pub(crate) fn install(&self, guest: &mut Guest, transmit_pn: u64, receive_pn: u64) {
        let own = self.sa("tx", 0, transmit_pn, ITS_SSCI, ITS_SEED);
        let peer = self.sa(&format!("rx {}", channel(OURS)), 0, receive_pn, OUR_SSCI, OUR_SEED);
        guest.run("ip link del macsec0 2>/dev/null; true");
        let commands = [
            format!(
                "ip link add link vec0 macsec0 type macsec port 1 cipher {} {}",
                self.suite,
                self.switches()
            ),
            format!("ip macsec add macsec0 {own}"),
            format!("ip macsec add macsec0 rx {} on", channel(OURS)),
            format!("ip macsec add macsec0 {peer}"),
            "ip link set macsec0 up".to_owned(),
        ];
        guest.run(&commands.join(" && "));
    }

    /// The words of `ip link` for it.
    pub(crate) fn switches(&self) -> String {
        let on = |on: bool| if on { "on" } else { "off" };
        format!(
            "encrypt {} send_sci {} end_station {} {}",
            on(self.encrypt),
            on(self.sci == SciInclusion::Always),
            on(self.sci == SciInclusion::EndStation),
            self.replay(),
        )
    }

    /// The words of `ip link` for replay protection. Without a window, iproute2 would ask for one of 2^32-1 with
    /// `replay off`, and that the kernel refuses with an XPN suite.
    pub(crate) fn replay(&self) -> String {
        let on = if self.replay_window.is_some() { "on" } else { "off" };
        format!("replay {on} window {}", self.replay_window.unwrap_or(0))
    }

    /// The words of `ip macsec add macsec0` for an SA.
    pub(crate) fn sa(&self, channel: &str, an: u8, pn: u64, ssci: u32, seed: u8) -> String {
        let pn = if self.suite.is_xpn() {
            format!("xpn {pn} salt {} ssci {ssci}", hex::encode(SALT))
        } else {
            format!("pn {pn}")
        };
        let key = hex::encode(vec![seed; self.suite.key_octets()]);
        format!("{channel} sa {an} {pn} on key {seed:02x} {key}")
    }
}

/// An SCI as `ip macsec` wants it.
pub(crate) fn channel(sci: Sci) -> String {
    format!("port {} address {}", sci.port(), sci.system())
}

/// Takes `vec0` up, with an address that answers ARP. Once for each guest: it cannot be taken down again.
pub(crate) fn prepare(guest: &mut Guest) {
    guest.run(&format!(
        "ip link set vec0 address {ITS_MAC} mtu {MTU} up && ip addr add 198.51.100.1/24 dev vec0"
    ));
}

/// Joins `macsec0` and `vec1` as a wire would: whatever comes in at one goes out at the other.
pub(crate) fn join(guest: &mut Guest) {
    let redirect = |from: &str, to: &str| {
        format!(
            "tc qdisc del dev {from} ingress 2>/dev/null; tc qdisc add dev {from} ingress && \
             tc filter add dev {from} ingress matchall action mirred egress redirect dev {to}"
        )
    };
    guest.run(&format!(
        "ip link set vec1 mtu {MTU} up && {} && {}",
        redirect("vec1", "macsec0"),
        redirect("macsec0", "vec1")
    ));
}

/// Its counters of received frames, of the SecY and of all its SCs, that do not count octets.
pub(crate) fn received(guest: &mut Guest) -> BTreeMap<String, u64> {
    let text = guest.run("ip -s -j macsec show macsec0");
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let secy = &document[0];
    let mut counters = BTreeMap::new();
    let channels = secy["rx_sc"].as_array().unwrap();
    for object in std::iter::once(secy).chain(channels) {
        for (name, value) in object.as_object().unwrap() {
            if let Some(name) = name.strip_prefix("InPkts") {
                *counters.entry(of_2018(name).to_owned()).or_default() += value.as_u64().unwrap();
            }
        }
    }
    counters
}

/// A counter's name in 802.1AE-2018.
fn of_2018(name: &str) -> &str {
    match name {
        "UnknownSCI" | "UnusedSA" => "NoSA",
        "NoSCI" | "NotUsingSA" => "NoSAError",
        same => same,
    }
}
