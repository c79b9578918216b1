//! The same through two sites, which carry MKPDUs over their management channel.
//!
//! ```text
//!  plant 1                                                                                 plant 2
//!  machine ── [frameward run] ── switch ── [site] ~~ internet ~~ [site] ── switch ─┬─ [frameward run] ── machine
//!              a link with MKA                                                      └─ [guest] wpa_supplicant
//! ```

use lab::plants::SWITCH;
use lab::{Plants, PlantsShape};

use super::gateway::{Choice, Gateway};
use super::pinging::Pinging;
use super::{GUEST_IP, GUEST_MAC};
use crate::guest::Guest;
use crate::sites::carrier::Carrier;
use crate::supplicant::{self, Agreement, Version};

/// Keys that the stations agree on.
const KEYS: u32 = 5;
/// Octets of the echo requests: they go in one packet in either mode.
const OCTETS: usize = 300;

/// `link`: what the links need in this mode.
fn through(mode: &'static str, link: &'static str) {
    let choice = |priority| Choice { link, ..Choice::of_priority(priority) };
    let shape = PlantsShape::default();
    let plants = Plants::build(&shape).unwrap();
    let mut carrier = Carrier::sites(&plants, mode);
    // Those have static keys.
    carrier.stop_stations();
    let [one, two] = &plants.plants[..] else { panic!("two plants") };
    let (one, two) = (&one.stations[0], &two.stations[0]);
    let a = Gateway::start(&one.gateway.namespace, "a", &choice(8));
    let b = Gateway::start(&two.gateway.namespace, "b", &choice(32));
    let to_machine = Pinging::start(&one.machine, &two.machine.ipv4.to_string(), OCTETS);
    to_machine.wait_for(50);
    drop(to_machine);

    let to_machine = Pinging::start(&one.machine, &two.machine.ipv4.to_string(), OCTETS);
    let mut guest = Guest::at_switch(&plants.plants[1].lan, SWITCH);
    let (lan, macsec) = (shape.lan_mtu, shape.machine_mtu);
    guest.run(&format!("ip link set vec0 address {GUEST_MAC} mtu {lan} up"));
    Agreement::of_priority(Version::V2_10, 16).start(&mut guest);
    supplicant::wait_for_key(&mut guest, None);
    guest.run(&format!("ip link set macsec0 mtu {macsec} up && ip addr replace {GUEST_IP}/24 dev macsec0"));
    b.same_key(&mut guest, None);
    let mut before = a.same_key(&mut guest, None);
    let to_guest = Pinging::start(&one.machine, GUEST_IP, OCTETS);
    // An AN comes again at the fourth key. In header encryption mode its first PNs are copies to a site, three of them, if the SA before
    // had sent fewer than 64.
    to_guest.wait_for(150);
    for _ in 0..3 {
        a.rekey();
        let rolled = before;
        before = a.same_key(&mut guest, Some(&rolled));
        b.same_key(&mut guest, Some(&rolled));
        to_guest.wait_for(150);
    }
    let answers = [to_guest.stop(), to_machine.stop()];
    // One for two stations, one for three, and those that were asked for. On a busy machine there is a key more, which has sent little.
    let more = before.kn().saturating_sub(KEYS) as usize;
    let reasons: &[_] = if more > 0 && mode == "header-encryption" { &["OutPktsRepeated"] } else { &[] };
    // A counter says more than a missing answer.
    carrier.has_discarded_only(reasons);
    answers.iter().for_each(|answers| answers.are_complete_but(3 * more * reasons.len()));
    supplicant::stop(&mut guest);
    a.stop();
    b.stop();
    carrier.stop();
}

#[test]
fn keys_are_agreed_on_through_sites_in_identifier_mode() {
    through("identifier", "");
}

#[test]
fn keys_are_agreed_on_through_sites_in_header_encryption_mode() {
    through("header-encryption", "fragment = \"off\"\nconcatenate = \"off\"");
}
