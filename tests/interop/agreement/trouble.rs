//! Agreements that do not come about, and what the gateway says of them.

use lab::Capture;
use lab::topology::LEFT;
use wire::EtherType;

use super::gateway::{Choice, Gateway};
use super::{GUEST_IP, Laboratory, take_up};
use crate::supplicant::{self, Agreement, CAK_128, Version};

/// The right one but for its first octet.
const WRONG_CAK: &str = "ff02030405060708090a0b0c0d0e0f10";
const WRONG_CKN: &str = "31323335";

/// Nothing passes, and the gateway says why in words that contain one of these.
fn refused(laboratory: &mut Laboratory, its: &Agreement, words: &str) {
    let wire = Capture::start(&laboratory.topology.middle, LEFT).unwrap();
    let gateway = Gateway::start(&laboratory.topology.gateway_a.namespace, "a", &Choice::of_priority(8));
    its.start(&mut laboratory.guest);
    take_up(&mut laboratory.guest, GUEST_IP);
    let said = gateway.wait(&format!("it says {words:?}"), |agreement| {
        agreement.trouble.clone().filter(|trouble| trouble.contains(words))
    });
    println!("{said}");
    let machine = &laboratory.topology.machine_a.namespace;
    let ping = machine.run(&["ping", "-n", "-q", "-i", "0.05", "-c", "40", "-W", "1", GUEST_IP]);
    assert!(ping.is_err(), "something is answered: {ping:?}");
    assert_eq!(supplicant::key(&mut laboratory.guest), None);
    supplicant::stop(&mut laboratory.guest);
    gateway.stop();
    let captured = wire.stop().unwrap().complete().unwrap();
    assert!(captured.all_ethertype(EtherType::EAPOL.0), "something that is no MKPDU is on the network");
}

fn another_cak_or_ckn_is_told_and_nothing_passes(version: Version) {
    let mut laboratory = Laboratory::new(version);
    let right = Agreement::of_priority(version, 16);
    refused(&mut laboratory, &Agreement { cak: WRONG_CAK, ..right }, "CAK");
    refused(&mut laboratory, &Agreement { ckn: WRONG_CKN, ..right }, "CKN");
    // The same laboratory, and the right key.
    assert_eq!(right.cak, CAK_128);
    let gateway = laboratory.agree(&Choice::of_priority(8), &right);
    gateway.knows_its_group(true, 1);
    gateway.stop();
}

with_each_version!(another_cak_or_ckn_is_told_and_nothing_passes);
