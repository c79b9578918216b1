//! A gateway of ours whose link agrees on keys.

use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use lab::topology::{PLAIN, PROTECTED};
use lab::{Captured, Namespace};
use perf::demo::pair::{Scratch, Station};
use report::RUNTIME_DIR_VARIABLE;
use report::mka::MkaReport;

use super::super::guest::Guest;
use super::super::supplicant::{self, CAK_128, CKN, Key};
use super::super::{DEADLINE, program};

/// The link's name.
pub(super) const LINK: &str = "press";

/// Settings of a gateway's link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    pub(super) priority: u8,
    pub(super) cak: &'static str,
    pub(super) ckn: &'static str,
    pub(super) encrypt: bool,
    /// Further lines of `[[link]]`.
    pub(super) link: &'static str,
}

impl Choice {
    /// With a CAK of 16 octets, and encryption.
    pub(super) const fn of_priority(priority: u8) -> Self {
        Self { priority, cak: CAK_128, ckn: CKN, encrypt: true, link: "" }
    }
}

/// A running gateway.
pub(super) struct Gateway {
    station: Station,
    name: &'static str,
    scratch: Scratch,
}

impl Gateway {
    /// Starts one in a gateway's namespace.
    pub(super) fn start(namespace: &Namespace, name: &'static str, choice: &Choice) -> Gateway {
        let scratch = Scratch::new().unwrap();
        let Choice { priority, cak, ckn, encrypt, link } = choice;
        let file = scratch.write("group.cak", &format!("ckn = {ckn}\ncak = {cak}\n")).unwrap();
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let text = format!(
            "[gateway]\nname = \"{name}\"\nstate = \"{state}\"\n\
             [[link]]\nname = \"{LINK}\"\nplain = \"{PLAIN}\"\nprotected = \"{PROTECTED}\"\nencrypt = {encrypt}\n{link}\n\
             [link.mka]\ncak_file = \"group.cak\"\npriority = {priority}\n",
            state = scratch.path().join("state").display(),
        );
        scratch.write(&format!("{name}.toml"), &text).unwrap();
        let station = Station::start(program(), namespace, &scratch, name).unwrap();
        Gateway { station, name, scratch }
    }

    /// State of key agreement, as the gateway reports it.
    pub(super) fn agreement(&self) -> MkaReport {
        let link = self.station.report().unwrap().links.remove(0);
        link.mka.expect("a link that agrees on keys")
    }

    /// Waits until it says so of key agreement.
    pub(super) fn wait<T>(&self, what: &str, says: impl Fn(&MkaReport) -> Option<T>) -> T {
        let end = Instant::now() + DEADLINE;
        loop {
            let agreement = self.agreement();
            if let Some(said) = says(&agreement) {
                return said;
            }
            assert!(Instant::now() < end, "{what}, but not within {DEADLINE:?}: {agreement:#?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until it protects with the guest's key, another than `before`: members that meet late get another one soon.
    pub(super) fn same_key(&self, guest: &mut Guest, before: Option<&Key>) -> Key {
        let end = Instant::now() + DEADLINE;
        loop {
            let key = supplicant::wait_for_key(guest, before);
            let agreement = self.agreement();
            if agreement.sak().is_some_and(|sak| sak.ki == key.ki()) {
                return key;
            }
            assert!(Instant::now() < end, "it uses {key:?}, but not within {DEADLINE:?}: {agreement:#?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until it protects with the SAK of this KI.
    pub(super) fn wait_for_key(&self, ki: &str) {
        self.wait(&format!("it uses {ki}"), |agreement| (agreement.sak()?.ki == ki).then_some(()));
    }

    /// Its report on its group says this: whether it is key server, and how many others are live.
    pub(super) fn knows_its_group(&self, key_server: bool, live: usize) {
        let agreement = self.agreement();
        let said = (agreement.is_key_server, agreement.live_peers(), &agreement.trouble, agreement.secured);
        assert_eq!(said, (key_server, live, &None, true), "{agreement:#?}");
    }

    /// Asks for another SAK.
    pub(super) fn rekey(&self) {
        let output = std::process::Command::new(program())
            .args(["rekey", self.name, LINK])
            .env(RUNTIME_DIR_VARIABLE, self.scratch.path().join("run"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    /// Judges a capture by the CAK alone, as an operator does: what `frameward inspect` prints if all of it is good.
    pub(super) fn inspect(&self, captured: &Captured) -> String {
        let capture = self.scratch.path().join("wire.pcap");
        captured.write_pcap(&capture).unwrap();
        let output = std::process::Command::new(program())
            .arg("inspect")
            .arg(&capture)
            .arg("--cak")
            .arg(self.scratch.path().join("group.cak"))
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        text
    }

    /// Stops it, and returns what it wrote.
    pub(super) fn stop(self) -> String {
        self.station.stop().unwrap()
    }
}
