//! A guest as a MACsec station of a plant's LAN: the kernel's `macsec0`, with static keys or with those that its
//! wpa_supplicant agrees on. It is told nothing of a tunnel but that its frames may not be longer than the LAN's.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use lab::Plant;
use lab::plants::SWITCH;
use secy::SciInclusion;
use suite::CipherSuite;
use wire::{MacAddr, Sci};

use super::super::DEADLINE;
use super::super::guest::Guest;
use super::super::kernel::{self, Macsec};

/// As most are set; replay protection without a window, so that a frame that is overtaken is not delivered.
const MACSEC: Macsec = Macsec {
    suite: CipherSuite::GcmAes128,
    encrypt: true,
    sci: SciInclusion::Always,
    replay_window: Some(0),
};
/// A PN so high that wpa_supplicant asks for another key.
const NEARLY_EXHAUSTED: u32 = 0xc000_0000 + 20;
/// Where the configuration and the process identifier of wpa_supplicant stand in the guest.
const SUPPLICANT: &str = "/run/supplicant";

/// A station.
pub(super) struct Station {
    guest: Guest,
    number: u8,
    /// The MTU of its LAN.
    mtu: usize,
}

/// A key in use: its association number, and what it is called.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Key {
    an: u64,
    name: String,
}

impl Station {
    /// Boots one at the switch of a plant whose LAN has this MTU.
    pub(super) fn boot(plant: &Plant, mtu: usize) -> Station {
        let mut guest = Guest::at_switch(&plant.lan, SWITCH);
        let number = plant.number;
        guest.run(&format!("ip link set vec0 address {} mtu {mtu} up", address(number)));
        Station { guest, number, mtu }
    }

    /// What an eavesdropper must not find: its address, with which its SCI begins.
    pub(super) fn address(&self) -> [u8; 6] {
        address(self.number).0
    }

    /// Makes `macsec0` with a static key each way.
    pub(super) fn install_keys(&mut self, peer: &Station) {
        let channel = kernel::channel(Sci::new(address(peer.number), 1));
        let own = MACSEC.sa("tx", 0, 1, 0, self.number);
        let its = MACSEC.sa(&format!("rx {channel}"), 0, 1, 0, peer.number);
        let commands = [
            format!(
                "ip link add link vec0 macsec0 type macsec port 1 cipher {} {}",
                MACSEC.suite,
                MACSEC.switches()
            ),
            format!("ip macsec add macsec0 {own}"),
            format!("ip macsec add macsec0 rx {channel} on"),
            format!("ip macsec add macsec0 {its}"),
        ];
        self.guest.run(&commands.join(" && "));
        self.take_up();
    }

    /// Takes `macsec0` away.
    pub(super) fn remove_keys(&mut self) {
        self.guest.run("ip link del macsec0");
    }

    /// Starts wpa_supplicant with a pre-shared CAK; it makes `macsec0` when it has agreed with a peer.
    pub(super) fn start_agreement(&mut self) {
        let priority = 16 * self.number;
        let configuration = [
            "eapol_version=3",
            "ap_scan=0",
            "network={",
            "key_mgmt=NONE",
            "eapol_flags=0",
            "macsec_policy=1",
            "macsec_replay_protect=1",
            "macsec_replay_window=0",
            &format!("mka_priority={priority}"),
            "mka_cak=0102030405060708090a0b0c0d0e0f10",
            "mka_ckn=31323334",
            "}",
        ];
        self.guest.run(&format!(
            "printf '{}\\n' > {SUPPLICANT}.conf && \
             wpa_supplicant -B -D macsec_linux -i vec0 -c {SUPPLICANT}.conf -P {SUPPLICANT}.pid -f {SUPPLICANT}.log",
            configuration.join("\\n")
        ));
    }

    /// Stops it. `macsec0` goes with it.
    pub(super) fn stop_agreement(&mut self) {
        self.guest.run(&format!("kill $(cat {SUPPLICANT}.pid)"));
        self.wait("wpa_supplicant ends", |guest| {
            guest.run("ip link show macsec0 2>&1; true").contains("exist")
        });
    }

    /// Waits until it has agreed with its peer on a key that is not `before`, and has it in use both ways.
    pub(super) fn wait_for_key(&mut self, before: Option<&Key>) -> Key {
        let mut found = None;
        self.wait("a key is agreed on", |guest| {
            found = key_in_use(guest).filter(|key| Some(key) != before);
            found.is_some()
        });
        found.expect("invariant: that is what was waited for")
    }

    /// The key in use.
    pub(super) fn key(&mut self) -> Key {
        key_in_use(&mut self.guest).expect("a key is in use")
    }

    /// Lets it come near the end of its PNs, so that it needs another key.
    pub(super) fn exhaust(&mut self) {
        let an = self.key().an;
        self.guest.run(&format!("ip macsec set macsec0 tx sa {an} pn {NEARLY_EXHAUSTED}"));
    }

    /// Gives `macsec0` its MTU and its address.
    pub(super) fn take_up(&mut self) {
        let (mtu, number) = (self.largest(), self.number);
        self.guest.run(&format!(
            "ip link set macsec0 mtu {mtu} up && ip addr replace 10.77.0.{number}/24 dev macsec0"
        ));
    }

    /// The longest IP packet that it can send.
    pub(super) const fn largest(&self) -> usize {
        self.mtu - 32
    }

    /// Waits until the peer answers every one of some echo requests, whoever did not know whom until then.
    pub(super) fn reach(&mut self, peer: &Station) {
        let ping = format!("ping -n -q -i 0.01 -W 1 -c 30 10.77.0.{}; true", peer.number);
        self.wait("the peer answers", |guest| guest.run(&ping).contains("30 received, 0% packet loss"));
    }

    /// Sends echo requests in IP packets of so many octets, 10 ms apart. All are answered.
    pub(super) fn ping(&mut self, peer: &Station, octets: usize, count: usize) {
        let answer = self.guest.run(&format!(
            "ping -n -q -i 0.01 -W 2 -M do -c {count} -s {} 10.77.0.{}",
            octets - 28,
            peer.number
        ));
        assert!(answer.contains(&format!("{count} received, 0% packet loss")), "{octets} octets: {answer}");
    }

    /// What its kernel counted of frames that came, by the names of 802.1AE-2018.
    pub(super) fn received(&mut self) -> BTreeMap<String, u64> {
        kernel::received(&mut self.guest)
    }

    fn wait(&mut self, what: &str, mut is: impl FnMut(&mut Guest) -> bool) {
        let end = Instant::now() + DEADLINE;
        while !is(&mut self.guest) {
            assert!(Instant::now() < end, "station {}: {what}, but not within {DEADLINE:?}", self.number);
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

fn address(number: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0x5a, 0xc3, number])
}

/// The key that frames are sent with, if frames are received with it, too.
fn key_in_use(guest: &mut Guest) -> Option<Key> {
    // There may be no macsec0 yet.
    let text = guest.run("ip -j macsec show macsec0 2>/dev/null; true");
    let document: serde_json::Value = serde_json::from_str(&text).ok()?;
    let secy = &document[0];
    let an = secy["encoding_sa"].as_u64()?;
    let key = |list: &serde_json::Value| {
        let sa = list.as_array()?.iter().find(|sa| sa["an"] == an && sa["active"] == true)?;
        sa["key"].as_str().map(str::to_owned)
    };
    let name = key(&secy["sa_list"])?;
    let theirs = key(&secy["rx_sc"].as_array()?.first()?["sa_list"])?;
    (name == theirs).then_some(Key { an, name })
}
