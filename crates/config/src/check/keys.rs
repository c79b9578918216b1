//! Lines of the plan on a link's keys: their source, and how long they last.

use std::fmt;
use std::path::Path;

use mka::{OnPeerLoss, SuiteRule};
use pnstore::{LeaseError, LeaseName, Role};
use suite::CipherSuite;
use wire::MacAddr;

use super::overhead_octets;
use crate::key_file::{NamedCak, fingerprint};
use crate::lifetime::{ASSUMED_MBITS, CRASHES, Span, USUAL_FRAMES_A_SECOND, at_rate, line_rate};
use crate::{Finding, Keys, Link, Mka, StaticSa, StaticSas};

/// Says whether an SA may have its key: what the state directory knows of it.
pub type CheckRole<'u> = &'u dyn Fn(Role, LeaseName, &Path) -> Result<(), LeaseError>;

/// Static keys of the configuration `file` that its SAs may not have, by what they were used for before; the first one of
/// each link, since all of them have one cause and one cure.
pub fn misused(file: &Path, links: &[Link], check_role: CheckRole) -> Vec<Finding> {
    let misused = |link: &Link| {
        let express = link.express_sas();
        let all = link.static_sas().into_iter().chain(&express);
        let roles = all.flat_map(|sas| {
            let receive = sas.receive.iter().map(|sa| (Role::Receive, sa));
            std::iter::once((Role::Send, &sas.transmit)).chain(receive)
        });
        roles.into_iter().find_map(|(role, sa)| {
            let error = check_role(role, sa.lease_name(), &sa.key_file.0).err()?;
            let text = format!("link {:?}: key_file {}: {error}", link.name, sa.key_file.0.display());
            Some(Finding { file: file.to_owned(), line: Some(sa.line.0), text })
        })
    };
    links.iter().filter_map(misused).collect()
}

/// The suite, or who chooses it.
pub fn suite(link: &Link) -> String {
    match &link.keys {
        Keys::Agreed(mka) => match mka.suite {
            SuiteRule::Only(suite) => suite.to_string(),
            SuiteRule::Standard(CipherSuite::GcmAes128) => "auto (gcm-aes-128)".into(),
            SuiteRule::Standard(suite) => format!("auto ({suite} if all have it, else gcm-aes-128)"),
            SuiteRule::Any => {
                "any (the key server chooses chacha20-poly1305 if the frames of all live peers can go through the kernel; else the fastest suite that all of them announced, standard or not; else gcm-aes-128)".into()
            }
        },
        Keys::Static(sas) => sas.suite.to_string(),
        Keys::None => "none".into(),
    }
}

pub(super) fn write(f: &mut fmt::Formatter<'_>, link: &Link) -> fmt::Result {
    match &link.keys {
        Keys::Static(StaticSas { transmit, receive, .. }) => {
            write_sa(f, "own SA", transmit)?;
            receive.iter().try_for_each(|peer| write_peer(f, peer))?;
            link.express_sas().map_or(Ok(()), |express| write_express(f, &express))
        }
        Keys::Agreed(mka) => write_mka(f, link, mka),
        Keys::None => Ok(()),
    }
}

fn write_peer(f: &mut fmt::Formatter<'_>, peer: &StaticSa) -> fmt::Result {
    write_sa(f, "peer SA", peer)?;
    if !peer.replay_floor {
        writeln!(
            f,
            "             replay floor off: frames recorded before a restart can be replayed after it"
        )?;
    }
    Ok(())
}

/// Names the SCs of express frames.
fn write_express(f: &mut fmt::Formatter<'_>, express: &StaticSas) -> fmt::Result {
    let mut scis: Vec<_> = express.receive.iter().map(|sa| sa.sci).collect();
    scis.dedup();
    let of = if scis.len() == 1 { "of the peer" } else { "of the peers" };
    let scis: Vec<_> = scis.iter().map(ToString::to_string).collect();
    let own = express.transmit.sci;
    writeln!(f, "  express    own SCI {own}; {of} {}; keys derived from those above", scis.join(", "))
}

fn write_sa(f: &mut fmt::Formatter<'_>, what: &str, sa: &StaticSa) -> fmt::Result {
    write!(f, "  {what:<10} SCI {}, AN {}", sa.sci, sa.an)?;
    if let Some(binding) = &sa.xpn {
        write!(f, ", SSCI {}", binding.ssci.0)?;
    }
    writeln!(f, ", key {}", fingerprint(sa.key.octets()))
}

fn write_mka(f: &mut fmt::Formatter<'_>, link: &Link, mka: &Mka) -> fmt::Result {
    match mka.sci {
        Some(sci) => writeln!(f, "  SCI        {sci}")?,
        None => {
            let interface = if link.in_site { &link.plain } else { &link.protected };
            writeln!(f, "  SCI        the address of {interface}, port 1")?;
        }
    }
    write_cak(f, "CAK", &mka.cak)?;
    mka.fallback.iter().try_for_each(|fallback| write_cak(f, "fallback", fallback))?;
    if let Some(until) = mka.fallback_until {
        let (date, hour, minute) = {
            let until = time::OffsetDateTime::from(until);
            (until.date(), until.hour(), until.minute())
        };
        writeln!(f, "             until {date} {hour:02}:{minute:02} UTC")?;
    }
    if !mka.peers.is_empty() {
        let peers: Vec<_> = mka.peers.iter().map(ToString::to_string).collect();
        writeln!(
            f,
            "  peers      {}; others are reported as strangers, and never bring the fallback into use",
            peers.join(", ")
        )?;
    }
    match link.in_site {
        true => writeln!(f, "  MKPDUs     to {}, through the tunnel", mka.destination)?,
        false => writeln!(f, "  MKPDUs     to {}: {}", mka.destination, passage(mka.destination))?,
    }
    match mka.priority {
        255 => writeln!(f, "  key server never this box (priority 255); another member must be")?,
        priority => writeln!(
            f,
            "  key server the member with the lowest priority, then the lowest SCI; this box has {priority}"
        )?,
    }
    let rekey = match mka.rekey {
        Some(life) => format!("every {}, if this box is key server, and", Span(life)),
        None => "only".into(),
    };
    writeln!(f, "  next key   {rekey} when a peer joins, on request, or before packet numbers run out")?;
    let loss = match mka.on_peer_loss {
        OnPeerLoss::Block => "block: nothing passes until a peer is back",
        OnPeerLoss::Hold => {
            "hold: the last key stays in use, so frames of peers that are still there are verified"
        }
    };
    writeln!(f, "  no peer    {loss}")?;
    if mka.delay_protect {
        writeln!(
            f,
            "  delayed    frames that somebody held back for more than about two seconds are refused"
        )?;
    }
    Ok(())
}

fn write_cak(f: &mut fmt::Formatter<'_>, what: &str, cak: &NamedCak) -> fmt::Result {
    writeln!(f, "  {what:<10} ckn {}, {} bits, key {}", cak.ckn(), 8 * cak.octets().len(), cak.fingerprint())
}

/// Passage of MKPDUs with this destination through the network between the boxes.
pub fn passage(destination: MacAddr) -> &'static str {
    match destination.0 {
        [0x01, 0x80, 0xc2, 0, 0, 0x00] => {
            "a switch between the boxes drops it; a Linux bridge passes it while its STP is off"
        }
        [0x01, 0x80, 0xc2, 0, 0, 0x03] => {
            "a switch between the boxes drops it unless it is configured to pass EAPOL (Linux bridge: group_fwd_mask 8)"
        }
        [0x01, 0x80, 0xc2, 0, 0, 0x0b] => {
            "a switch between the boxes may drop it (Linux bridge: group_fwd_mask 2048)"
        }
        [0x01, 0x80, 0xc2, 0, 0, 0x0e] => {
            "a switch between the boxes drops it unless it is configured to pass it (Linux bridge: group_fwd_mask 16384)"
        }
        [0x01, 0x80, 0xc2, 0, 0, 0x1f] => "most switches between the boxes pass it, as any group",
        [0xff, ..] => "switches between the boxes pass it to all",
        _ => "switches between the boxes pass it; the peer has to be the only one",
    }
}

/// Lifetime of the transmit key, if it is static.
pub(super) fn write_lifetime(
    f: &mut fmt::Formatter<'_>,
    link: &Link,
    suite: CipherSuite,
    mbits: Option<u32>,
) -> fmt::Result {
    if !link.protect_frames {
        return Ok(());
    }
    if suite.is_xpn() {
        return writeln!(f, "  key lasts  64-bit packet numbers: not a concern");
    }
    let speed = mbits.unwrap_or(ASSUMED_MBITS);
    let assumed = if mbits.is_some() { "" } else { " (assumed)" };
    let fastest = line_rate(speed, overhead_octets(link) as u64);
    writeln!(
        f,
        "  key lasts  2^32 frames: {} of shortest frames at {speed} Mbit/s{assumed}, {} at {USUAL_FRAMES_A_SECOND} frames/s; or {CRASHES} crashes under load",
        Span(at_rate(fastest)),
        Span(at_rate(USUAL_FRAMES_A_SECOND))
    )
}
