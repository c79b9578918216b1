//! A guest as a MACsec station of a plant's LAN: the kernel's `macsec0`, with static keys or with those that its
//! wpa_supplicant agrees on. It is told nothing of a tunnel but that its frames may not be longer than the LAN's.

use std::collections::BTreeMap;

use lab::Plant;
use lab::plants::SWITCH;
use secy::SciInclusion;
use suite::CipherSuite;
use wire::{MacAddr, Sci};

use super::super::guest::Guest;
use super::super::kernel::{self, Macsec};
use super::super::supplicant::{self, Agreement, Key, Version};

/// As most are set; replay protection without a window, so that a frame that is overtaken is not delivered.
const MACSEC: Macsec = Macsec {
    suite: CipherSuite::GcmAes128,
    encrypt: true,
    sci: SciInclusion::Always,
    replay_window: Some(0),
};
/// A station.
pub(super) struct Station {
    guest: Guest,
    number: u8,
    /// The MTU of its LAN.
    mtu: usize,
}

impl Station {
    /// Boots one at the switch of a plant whose LAN has this MTU.
    pub(super) fn boot(plant: &Plant, mtu: usize) -> Station {
        let mut guest = Guest::at_switch(&plant.lan, SWITCH);
        let number = plant.number;
        guest.run(&format!("ip link set vec0 address {} mtu {mtu} up", address(number)));
        Station { guest, number, mtu }
    }

    /// Address of the station, with which its SCI begins: an eavesdropper must not find it.
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
        Agreement::of_priority(Version::V2_10, 16 * self.number).start(&mut self.guest);
    }

    /// Stops it. `macsec0` goes with it.
    pub(super) fn stop_agreement(&mut self) {
        supplicant::stop(&mut self.guest);
    }

    /// Waits until it has agreed with its peer on a key that is not `before`, and has it in use both ways.
    pub(super) fn wait_for_key(&mut self, before: Option<&Key>) -> Key {
        supplicant::wait_for_key(&mut self.guest, before)
    }

    /// The key in use.
    pub(super) fn key(&mut self) -> Key {
        supplicant::key(&mut self.guest).expect("a key is in use")
    }

    /// Lets it come near the end of its PNs, so that it needs another key.
    pub(super) fn exhaust(&mut self) {
        supplicant::exhaust(&mut self.guest);
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
        supplicant::wait(&mut self.guest, "the peer answers", |guest| {
            guest.run(&ping).contains("30 received, 0% packet loss").then_some(())
        });
    }

    /// Sends echo requests in IP packets of so many octets, 10 ms apart. All are answered. On a machine that stands still a guest
    /// itself loses some, so there are three tries: what a site loses it has counted, and that is looked at in the end.
    pub(super) fn ping(&mut self, peer: &Station, octets: usize, count: usize) {
        let ping = format!(
            "ping -n -q -i 0.01 -W 2 -M do -c {count} -s {} 10.77.0.{}; true",
            octets - 28,
            peer.number
        );
        let all = format!("{count} received, 0% packet loss");
        let mut answers = Vec::new();
        while answers.len() < 3 {
            let answer = self.guest.run(&ping);
            if answer.contains(&all) {
                return;
            }
            answers.push(answer);
        }
        panic!("{octets} octets: {answers:#?}");
    }

    /// Counters of its kernel for frames that came, by the names of 802.1AE-2018.
    pub(super) fn received(&mut self) -> BTreeMap<String, u64> {
        kernel::received(&mut self.guest)
    }
}

fn address(number: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0x5a, 0xc3, number])
}
