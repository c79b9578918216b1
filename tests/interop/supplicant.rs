//! The wpa_supplicant of a station: key agreement that is not ours, over `vec0`. It makes `macsec0` when it begins, and
//! takes it away when it ends.
//!
//! Departures from the standard: an old key in a SAK Use that is not its own old key spoils the whole MKPDU; of version 3
//! and of announcements it knows nothing, and ignores them; version 2.10 knows GCM-AES-128 only.

use std::time::{Duration, Instant};

use super::DEADLINE;
use super::guest::{CURE, Guest};

/// A CAK of 16 octets, one of 32, and a name.
pub(crate) const CAK_128: &str = "0102030405060708090a0b0c0d0e0f10";
pub(crate) const CAK_256: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
pub(crate) const CKN: &str = "31323334";
/// A PN so high that it asks for another key.
const NEARLY_EXHAUSTED: u32 = 0xc000_0000 + 20;
/// Folder of wpa_supplicant's configuration and process identifier, in the station's shell.
const SUPPLICANT: &str = "$HOME/supplicant";

/// Folder in which `scripts/setup.sh kernels` unpacks programs that Debian 12 and 13 do not have.
const UNPACKED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/wpa_supplicant-2.11/root/usr");

/// A version of wpa_supplicant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Version {
    /// Debian 12's and 13's, installed.
    V2_10,
    /// Debian 14's, unpacked.
    V2_11,
}

impl Version {
    /// The first line of what it says of itself.
    const fn name(self) -> &'static str {
        match self {
            Self::V2_10 => "wpa_supplicant v2.10",
            Self::V2_11 => "wpa_supplicant v2.11",
        }
    }

    /// Beginning of the command that starts it. An unpacked one has the C library of its own Debian, and so its own loader.
    fn command(self) -> String {
        let libraries = format!("{UNPACKED}/lib/x86_64-linux-gnu");
        match self {
            Self::V2_10 => "wpa_supplicant".to_owned(),
            Self::V2_11 => format!(
                "{libraries}/ld-linux-x86-64.so.2 --library-path {libraries} {UNPACKED}/sbin/wpa_supplicant"
            ),
        }
    }

    /// It is there, and is this version.
    fn is_there(self, guest: &mut Guest) {
        let said = guest.run(&format!("{} -v 2>&1; true", self.command()));
        assert_eq!(said.lines().next(), Some(self.name()), "{said}; {CURE}");
    }
}

/// Settings of wpa_supplicant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Agreement {
    pub(crate) version: Version,
    pub(crate) priority: u8,
    pub(crate) cak: &'static str,
    pub(crate) ckn: &'static str,
    pub(crate) integrity_only: bool,
    /// As key server it makes SAKs of GCM-AES-256, not of GCM-AES-128.
    pub(crate) long_saks: bool,
}

/// A key in use: its association number, and what it is called (the key server's MI and the KN, in hexadecimal).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Key {
    pub(crate) an: u64,
    pub(crate) name: String,
}

impl Key {
    /// The Key Identifier, as we write it: the kernel has the KN as it stands in memory.
    pub(crate) fn ki(&self) -> String {
        format!("{}/{}", &self.name[..24], self.kn())
    }

    /// Its number among those of its key server.
    pub(crate) fn kn(&self) -> u32 {
        u32::from_str_radix(&self.name[24..], 16).unwrap().swap_bytes()
    }
}

impl Agreement {
    /// With a CAK of 16 octets, and encryption.
    pub(crate) const fn of_priority(version: Version, priority: u8) -> Self {
        Self { version, priority, cak: CAK_128, ckn: CKN, integrity_only: false, long_saks: false }
    }

    /// Starts it on `vec0`, which is up.
    pub(crate) fn start(&self, guest: &mut Guest) {
        let Self { version, priority, cak, ckn, integrity_only, long_saks } = self;
        version.is_there(guest);
        // Version 2.10 would refuse the whole configuration.
        let suite = if *long_saks { "macsec_csindex=1" } else { "" };
        let configuration = [
            "eapol_version=3",
            "ap_scan=0",
            "network={",
            "key_mgmt=NONE",
            "eapol_flags=0",
            "macsec_policy=1",
            "macsec_replay_protect=1",
            "macsec_replay_window=0",
            &format!("macsec_integ_only={}", u8::from(*integrity_only)),
            &format!("mka_priority={priority}"),
            &format!("mka_cak={cak}"),
            &format!("mka_ckn={ckn}"),
            suite,
            "}",
        ];
        guest.run(&format!(
            "printf '{}\\n' > {SUPPLICANT}.conf && \
             {} -B -D macsec_linux -i vec0 -c {SUPPLICANT}.conf -P {SUPPLICANT}.pid -f {SUPPLICANT}.log || {{ cat {SUPPLICANT}.log; false; }}",
            configuration.join("\\n"),
            version.command()
        ));
    }
}

/// Stops it. `macsec0` goes with it.
pub(crate) fn stop(guest: &mut Guest) {
    guest.run(&format!("kill $(cat {SUPPLICANT}.pid)"));
    wait(guest, "wpa_supplicant ends", |guest| {
        guest.run("ip link show macsec0 2>&1; true").contains("exist").then_some(())
    });
}

/// Ends it without giving it the time to say so.
pub(crate) fn crash(guest: &mut Guest) {
    guest.run(&format!("kill -KILL $(cat {SUPPLICANT}.pid) && ip link del macsec0"));
}

/// Waits until it has agreed with its peer on a key that is not `before`, and has it in use both ways.
pub(crate) fn wait_for_key(guest: &mut Guest, before: Option<&Key>) -> Key {
    wait(guest, "a key is agreed on", |guest| key(guest).filter(|key| Some(key) != before))
}

/// Lets it come near the end of its PNs, so that it needs another key.
pub(crate) fn exhaust(guest: &mut Guest) {
    let an = key(guest).expect("a key is in use").an;
    guest.run(&format!("ip macsec set macsec0 tx sa {an} pn {NEARLY_EXHAUSTED}"));
}

/// The key that frames are sent with, if frames are received with it, too, from each peer.
pub(crate) fn key(guest: &mut Guest) -> Option<Key> {
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
    let peers = secy["rx_sc"].as_array()?;
    let agreed = |peer: &serde_json::Value| key(&peer["sa_list"]).as_ref() == Some(&name);
    (!peers.is_empty() && peers.iter().all(agreed)).then_some(Key { an, name })
}

/// Last lines of its log, and its keys.
pub(crate) fn log(guest: &mut Guest) -> String {
    guest.run(&format!("tail -n 30 {SUPPLICANT}.log; ip macsec show; true"))
}

/// Waits until the guest shows it.
pub(crate) fn wait<T>(guest: &mut Guest, what: &str, mut shows: impl FnMut(&mut Guest) -> Option<T>) -> T {
    let end = Instant::now() + DEADLINE;
    loop {
        if let Some(shown) = shows(guest) {
            return shown;
        }
        if Instant::now() > end {
            panic!("{what}, but not within {DEADLINE:?}; in the guest:\n{}", log(guest));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}
