//! Two sites that do not reach each other, each time for another reason, and what `frameward doctor` says of it: one cause, one cure.

use std::net::UdpSocket;

use frameward::keygen;
use lab::plants::WAN;
use lab::{Namespace, Plants, PlantsShape};
use perf::demo::pair::{Scratch, Station};
use perf::demo::sites::{SitesChoice, configure, site_name};

use super::program;
use super::relayed::doctor_at;

/// Two plants whose sites are configured, and neither runs. Doctor looks at the first.
struct Apart {
    plants: Plants,
    scratch: Scratch,
}

impl Apart {
    fn new() -> Self {
        let plants = Plants::build(&PlantsShape { stations: 0, ..PlantsShape::default() }).unwrap();
        let scratch = Scratch::new().unwrap();
        configure(&scratch, &plants, &SitesChoice::default()).unwrap();
        Self { plants, scratch }
    }

    fn own(&self) -> &Namespace {
        &self.plants.plants[0].site
    }

    fn other(&self) -> &Namespace {
        &self.plants.plants[1].site
    }

    fn internet(&self) -> &Namespace {
        &self.plants.internet
    }

    fn start_other(&self) -> Station {
        Station::start(program(), self.other(), &self.scratch, &site_name(2)).unwrap()
    }

    /// Changes the configuration of a plant.
    fn change(&self, plant: u8, what: &str, by: &str) {
        let name = format!("{}.toml", site_name(plant));
        let text = std::fs::read_to_string(self.scratch.path().join(&name)).unwrap();
        assert!(text.contains(what), "{what}: {text}");
        self.scratch.write(&name, &text.replace(what, by)).unwrap();
    }

    /// The public key that a plant has for the other one.
    fn key_of_other(&self, plant: u8) -> String {
        let text = self.scratch.path().join(format!("{}.toml", site_name(plant)));
        let text = std::fs::read_to_string(text).unwrap();
        let (_, behind) = text.split_once("public_key = \"").unwrap();
        behind.split_once('"').unwrap().0.to_owned()
    }

    /// Has doctor look, and asserts that it says this as the only cause of silence.
    fn doctor_says(&self, words: &str) -> String {
        let said = doctor_at(self.own(), &self.scratch, 1, &["--wait", "3"]);
        assert!(said.contains(words), "{words:?} is not in {said}");
        assert!(said.matches("PROBLEM  peer").count() <= 1, "{said}");
        said
    }
}

/// Adds a table with one rule in one chain.
fn filter(namespace: &Namespace, hook: &str, rule: &str) {
    for command in [
        "add table inet apart",
        &format!("add chain inet apart it {{ type filter hook {hook} priority 0 ; }}"),
        &format!("add rule inet apart it {rule}"),
    ] {
        namespace.run(&["nft", command]).unwrap();
    }
}

fn no_filter(namespace: &Namespace) {
    namespace.run(&["nft", "delete table inet apart"]).unwrap();
}

#[test]
fn what_keeps_packets_at_this_box_is_told() {
    let apart = Apart::new();
    apart.doctor_says(
        "plant-2 does not answer (no answer from 198.51.100.10:7787): nobody listens at UDP 7787 of 198.51.100.10; start its gateway",
    );
    apart.own().ip(&["route", "del", "default"]).unwrap();
    apart.doctor_says("this box has no route to 198.51.100.10; give it one");
    apart.own().ip(&["route", "add", "default", "via", "198.51.100.5"]).unwrap();

    filter(apart.own(), "output", "udp dport 7787 drop");
    apart.doctor_says("this box itself drops UDP 7787 to 198.51.100.10; let it out");
    no_filter(apart.own());

    apart.own().ip(&["link", "set", WAN, "mtu", "1000"]).unwrap();
    apart.doctor_says("carries less than the 1228 octets that QUIC needs; raise its MTU");
    apart.own().ip(&["link", "set", WAN, "mtu", "1500"]).unwrap();
    apart.doctor_says("nobody listens at UDP 7787 of 198.51.100.10; start its gateway");
}

#[test]
fn what_routers_and_firewalls_on_the_way_do_is_told() {
    let apart = Apart::new();
    let other = apart.start_other();
    for (rule, words) in [
        (
            "udp dport 7787 reject with icmpx admin-prohibited",
            "198.51.100.5 refuses UDP 7787 to 198.51.100.10; let it pass at that firewall",
        ),
        (
            "meta l4proto udp drop",
            "UDP 7787 gets as far as 198.51.100.5, and nothing behind 198.51.100.5 answers; look first at this plant's firewall, then at firewall and NAT of the other plant",
        ),
    ] {
        filter(apart.internet(), "forward", rule);
        apart.doctor_says(words);
        no_filter(apart.internet());
    }
    filter(apart.other(), "input", "meta l4proto udp drop");
    apart.doctor_says("nothing behind 198.51.100.5 answers; look first at this plant's firewall, then at firewall and NAT of the other plant");
    no_filter(apart.other());

    apart.internet().ip(&["link", "set", "to2", "mtu", "1000"]).unwrap();
    apart.doctor_says(
        "the path behind 198.51.100.5 carries packets of 1000 octets, and QUIC needs 1228; raise its MTU",
    );
    apart.internet().ip(&["link", "set", "to2", "mtu", "1500"]).unwrap();

    let said = doctor_at(apart.own(), &apart.scratch, 1, &[]);
    assert!(said.contains("plant-2 answers at 198.51.100.10:7787") && !said.contains("PROBLEM"), "{said}");
    other.stop().unwrap();
}

/// The other plant's calls come, and the answers do not arrive there.
#[test]
fn a_way_that_carries_only_what_comes_is_told() {
    let apart = Apart::new();
    let other = apart.start_other();
    filter(apart.internet(), "forward", "ip saddr 198.51.100.6 meta l4proto udp drop");
    let said = doctor_at(apart.own(), &apart.scratch, 1, &["--wait", "10"]);
    assert!(said.contains("UDP 7787 gets as far as 198.51.100.5"), "{said}");
    let words = "198.51.100.10 calls, knows this site's public key, and hears no answer: let what this site sends from UDP 7787 pass";
    assert_eq!(said.matches(words).count(), 1, "{said}");
    no_filter(apart.internet());
    other.stop().unwrap();
}

#[test]
fn wrong_keys_are_told_at_either_end() {
    let apart = Apart::new();
    let stranger = keygen::site(&apart.scratch.path().join("stranger.key")).unwrap().to_string();
    let right = apart.key_of_other(1);
    let other = apart.start_other();
    apart.change(1, &right, &stranger);
    let said = apart.doctor_says("198.51.100.10 takes UDP 7787 and says nothing, as a site does to whom does not know its key; write what 'frameward check' prints there as identity as its public_key here");
    let words = format!("198.51.100.10 wants to connect with the public key {right}, which no peer has");
    assert_eq!(said.matches(&words).count(), 1, "{said}");
    other.stop().unwrap();

    // The other end has the wrong key.
    apart.change(1, &stranger, &right);
    let own = apart.key_of_other(2);
    apart.change(2, &own, &stranger);
    let other = apart.start_other();
    let said = apart.doctor_says("plant-2 does not fit this site (the peer does not know this site's public key): write what 'frameward check' prints here as identity as public_key there");
    let words = format!(
        "198.51.100.10, where a peer is, wants to connect and does not show that it knows this site's public key; if it is that peer, write {own} as public_key there"
    );
    assert_eq!(said.matches(&words).count(), 1, "{said}");
    other.stop().unwrap();
}

#[test]
fn names_and_ports_of_this_box_are_told() {
    let apart = Apart::new();
    apart.change(1, "198.51.100.10:7787", "plant-2.invalid:7787");
    let said = doctor_at(apart.own(), &apart.scratch, 1, &["--wait", "5"]);
    let cure = "correct the name, or this box's resolver";
    assert!(said.contains("plant-2 does not answer (cannot resolve plant-2.invalid:7787"), "{said}");
    assert_eq!((said.matches(cure).count(), said.matches("; start its gateway").count()), (1, 0), "{said}");
    apart.change(1, "plant-2.invalid:7787", "198.51.100.10:7787");

    let held = apart.own().enter(|| UdpSocket::bind("0.0.0.0:7787").unwrap()).unwrap();
    let said = doctor_at(apart.own(), &apart.scratch, 1, &["--wait", "1"]);
    let words = "another program uses it: 'ss -ulpn sport = 7787' says which";
    assert_eq!(said.matches(words).count(), 1, "{said}");
    drop(held);
}
