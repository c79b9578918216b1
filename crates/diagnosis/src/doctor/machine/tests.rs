use std::path::Path;

use suite::Sak;
use wire::mkpdu::{ALGORITHM_AGILITY, BasicParameters, Capability, Writer};
use wire::{Ckn, Mi};

use super::super::exam::Party;
use super::super::frame::{Body, Envelope, Purpose};
use super::super::keys::MacKey;
use super::*;
use config::key_file::NamedCak;
use config::{Config, KeyFiles};

const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const PEER: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

fn config(keys: &str) -> Config {
    let text = format!(
        "[gateway]\nname = \"g\"\n[[link]]\nname = \"press\"\nplain = \"eth0\"\nprotected = \"eth1\"\n{keys}"
    );
    let files = KeyFiles {
        key: &|path, suite| {
            Ok(Sak::new(suite, &vec![path.as_os_str().len() as u8; suite.key_octets()]).unwrap())
        },
        cak: &|_| Ok(NamedCak::new(Ckn::new(b"line").unwrap(), &[3; 16]).unwrap()),
        identity: &config::key_file::read_identity,
        master_key: &config::key_file::read_master_key,
    };
    config::parse(Path::new("gw.toml"), &text, files).unwrap().0
}

fn misplaced(config: &Config, peers: Peers, octets: &[u8]) -> Option<Misplaced> {
    Recogniser::new(&config.links[0], peers, Sci::new(OWN, 1), OWN).misplaced(octets)
}

/// Another doctor's frame with this key, from this station.
fn of_doctor(from: MacAddr, key: u8) -> Vec<u8> {
    let sender = Sci::new(from, 1);
    let frame = Frame {
        to: OWN,
        from,
        envelope: Envelope::Experiment,
        sender,
        session: 1,
        receiver: 0,
        number: 1,
        body: Body::Probe(Purpose::Stream),
    };
    frame.encode(100, None, &MacKey::derive(&[key; 16], sender))
}

fn mkpdu(from: MacAddr, ckn: &[u8]) -> Vec<u8> {
    let basic = BasicParameters {
        version: 3,
        priority: 16,
        key_server: true,
        macsec_desired: true,
        capability: Capability::Offsets,
        sci: Sci::new(from, 1),
        mi: Mi([7; 12]),
        mn: 1,
        agility: ALGORITHM_AGILITY,
        ckn: Ckn::new(ckn).unwrap(),
    };
    let mut buffer = [0; 200];
    let writer = Writer::new(&mut buffer, MacAddr([1, 0x80, 0xc2, 0, 0, 3]), from, 3, &basic).unwrap();
    writer.finish(false, |_| [0; 16]).unwrap().to_vec()
}

#[test]
fn a_peers_doctor_on_the_plain_port_is_recognised_by_its_key() {
    let config = config(
        "suite = \"gcm-aes-128\"\n[link.static]\nan = 0\nsci = \"02:00:00:00:00:01/1\"\nkey_file = \"a\"\n[[link.static.peer]]\nan = 1\nsci = \"02:00:00:00:00:02/1\"\nkey_file = \"bb\"\n",
    );
    let sci = Sci::new(PEER, 1);
    let peers = || Peers::Known(vec![Party { sci, keys: vec![MacKey::derive(&[9; 16], sci)] }]);
    let heard = |octets: &[u8]| misplaced(&config, peers(), octets);
    assert_eq!(heard(&of_doctor(PEER, 9)), Some(Misplaced::Doctor(sci)));
    assert_eq!(heard(&of_doctor(PEER, 8)), None, "another key");
    assert_eq!(heard(&of_doctor(MacAddr([2, 0, 0, 0, 0, 3]), 9)), None, "no peer");
    assert_eq!(heard(&of_doctor(OWN, 9)), None, "its own comes back");
    assert_eq!(heard(&mkpdu(PEER, b"line")), None, "the link has static keys");
    assert_eq!(heard(&[0; 13]), None);
}

#[test]
fn mkpdus_of_the_own_ckn_on_the_plain_port_are_recognised() {
    let config = config("[link.mka]\ncak_file = \"c\"\n");
    let peers = || Peers::Group(vec![NamedCak::new(Ckn::new(b"line").unwrap(), &[3; 16]).unwrap()]);
    let heard = |octets: &[u8]| misplaced(&config, peers(), octets);
    assert_eq!(heard(&mkpdu(PEER, b"line")), Some(Misplaced::Mkpdu(PEER)));
    assert_eq!(heard(&mkpdu(PEER, b"other")), None, "of the machine, or of another link");
    assert_eq!(heard(&mkpdu(OWN, b"line")), None, "its own comes back");
    assert_eq!(heard(&of_doctor(PEER, 3)), Some(Misplaced::Doctor(Sci::new(PEER, 1))));
    assert_eq!(heard(&of_doctor(PEER, 4)), None, "another CAK");
}
