//! This box, without sending a frame: each look is one finding.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use netdev::af_xdp;

use netdev::interface::{InterfaceInfo, VethPeer};
use nix::unistd::{AccessFlags, access};
use suite::CipherSuite;

use super::Finding;
use super::running::Running;
use config::check::access::{self, Access};
use config::check::{self, Mtus};
use config::{Config, Io, Keys, Link};
use report::link_verdict::fill_checksums;

/// 1 January 2026: no box with this program has a clock before it that is right.
const BUILT: Duration = Duration::from_secs(1_767_225_600);
/// The kernel release from which tcx keeps the host's stack off the ports (before it clsact does), and XDP takes large frames.
const TCX: (u32, u32) = (6, 6);
const XDP: (u32, u32) = (5, 10);

/// Findings about the box as a whole.
pub(super) fn of_box(config: &Config, running: &Running) -> Vec<Finding> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut findings = vec![
        kernel(release.trim()),
        engine(config.gateway.io, release.trim()),
        rights(&status),
        cpu(config, &cpus),
        clock(SystemTime::now()),
        state(&config.gateway.state),
        match running {
            Running::No => Finding::ok("gateway", "not running: doctor can test the paths"),
            Running::Yes(report) => Finding::ok("gateway", format!("running, release {}", report.version)),
            Running::Silent => Finding::problem(
                "gateway",
                "its state directory is in use, but it does not answer: look for it with 'ps' and 'frameward status'",
            ),
        },
    ];
    findings.extend(access::of_gateway_user(config).into_iter().flat_map(files));
    findings
}

/// Configuration and keys, read as the gateway's user.
fn files(access: Access) -> Vec<Finding> {
    let Access { user, refused } = access;
    if refused.is_empty() {
        return vec![Finding::ok("files", format!("user {user} can read the configuration and its keys"))];
    }
    let told = |refused| {
        Finding::problem("files", format!("the gateway runs as user {user}, who is refused: {refused}"))
    };
    refused.into_iter().map(told).collect()
}

fn version(release: &str) -> (u32, u32) {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

fn kernel(release: &str) -> Finding {
    if version(release) >= TCX {
        Finding::ok("kernel", format!("Linux {release}: tcx keeps the host's own stack off the ports"))
    } else {
        Finding::note(
            "kernel",
            format!(
                "Linux {release} is older than 6.6 and has no tcx: clsact filters keep the host's own stack off the ports, and if a gateway is killed, they stay until its next start"
            ),
        )
    }
}

fn engine(io: Io, release: &str) -> Finding {
    let refused = match af_xdp::available() {
        Ok(()) if version(release) >= XDP => return Finding::ok("engine", "AF_XDP is there"),
        Ok(()) => "it needs Linux 5.10".to_owned(),
        Err(error) => error.to_string(),
    };
    match io {
        Io::Kernel | Io::AfXdp => Finding::problem(
            "engine",
            format!("no AF_XDP ({refused}): set io = \"auto\", or use a kernel with CONFIG_XDP_SOCKETS"),
        ),
        Io::Auto => Finding::note(
            "engine",
            format!(
                "no AF_XDP ({refused}): AF_PACKET is used, which is slower; use a kernel with CONFIG_XDP_SOCKETS"
            ),
        ),
        Io::AfPacket => Finding::ok("engine", "AF_PACKET, as configured"),
    }
}

/// From `/proc/self/status`.
fn rights(status: &str) -> Finding {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap_or_default();
    let effective = u64::from_str_radix(line.trim(), 16).unwrap_or(0);
    let needed = [("CAP_NET_ADMIN", 12), ("CAP_NET_RAW", 13), ("CAP_BPF", 39)];
    let has = |bit: u32| effective >> bit & 1 == 1;
    // CAP_SYS_ADMIN contains CAP_BPF.
    let missing: Vec<_> = needed
        .iter()
        .filter(|(_, bit)| !has(*bit) && (*bit != 39 || !has(21)))
        .map(|(name, _)| *name)
        .collect();
    if missing.is_empty() {
        Finding::ok("rights", "CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF are there")
    } else {
        Finding::problem("rights", format!("{} missing: run as root", missing.join(" and ")))
    }
}

/// From `/proc/cpuinfo`.
fn cpu(config: &Config, cpus: &str) -> Finding {
    let line = cpus.lines().find(|line| line.starts_with("flags") || line.starts_with("Features"));
    let aes = line.is_some_and(|line| line.split_whitespace().any(|flag| flag == "aes"));
    let slow: Vec<_> = config
        .links
        .iter()
        .filter(|link| {
            !matches!(
                link.suite(),
                None | Some(CipherSuite::ChaCha20Poly1305 | CipherSuite::Morus640 | CipherSuite::Morus1280)
            )
        })
        .map(|link| format!("{:?}", link.name))
        .collect();
    match (aes, slow.is_empty()) {
        (true, _) => Finding::ok("CPU", "has AES instructions"),
        (false, true) => Finding::ok("CPU", "has no AES instructions, and no link needs them"),
        (false, false) => Finding::note(
            "CPU",
            format!(
                "has no AES instructions: the suite of link {} is slow here; set suite = \"chacha20-poly1305\" at both ends",
                slow.join(", ")
            ),
        ),
    }
}

fn clock(now: SystemTime) -> Finding {
    match now.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) if since >= BUILT => Finding::ok("clock", "plausible"),
        _ => Finding::note(
            "clock",
            "shows a time before 2026: links do not need it, but times in logs are wrong; set up NTP",
        ),
    }
}

fn state(directory: &Path) -> Finding {
    let shown = directory.display();
    match fs::metadata(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Finding::ok("state", format!("{shown} is not there yet; the first start makes it"))
        }
        Err(error) => Finding::problem(
            "state",
            format!("{shown} cannot be read: {error}; let the gateway's user read and write it"),
        ),
        Ok(found) if !found.is_dir() => {
            Finding::problem("state", format!("{shown} is not a directory: set state to a directory"))
        }
        Ok(_) if access(directory, AccessFlags::W_OK | AccessFlags::X_OK).is_err() => {
            Finding::problem("state", format!("{shown} cannot be written: chown it to the gateway's user"))
        }
        Ok(found) if found.permissions().mode() & 0o022 != 0 => Finding::problem(
            "state",
            format!(
                "{shown} can be written by others, who could restore old packet numbers: chmod 700 {shown}"
            ),
        ),
        Ok(_) => Finding::ok("state", format!("{shown} is writable, and by nobody else")),
    }
}

fn keys(link: &Link) -> String {
    match &link.keys {
        Keys::Static(sas) => format!(
            "{} key files have mode 0600 or less, and are as long as {} needs",
            1 + sas.receive.len(),
            sas.suite
        ),
        Keys::Agreed(mka) => {
            let files = if mka.fallback.is_some() { "two CAK files have" } else { "the CAK file has" };
            format!("{files} mode 0600 or less; all else is agreed on")
        }
        Keys::None => "the master key file has mode 0600 or less; all else is agreed on".into(),
    }
}

/// Findings about a link, and its MTUs if its path can be tested.
pub(super) fn of_link(config: &Config, link: &Link, running: &Running) -> (Vec<Finding>, Option<Mtus>) {
    let mut findings = vec![Finding::ok("keys", keys(link))];
    if link.in_site {
        return (findings, None);
    }
    let mut usable = true;
    let mut surveys = Vec::new();
    for (about, name) in [("plain", &link.plain), ("protected", &link.protected)] {
        match InterfaceInfo::of(name) {
            Ok(survey) => {
                let before = findings.len();
                port(about, &survey, matches!(running, Running::No), &mut findings);
                let broken = findings[before..].iter().any(|found| found.level == super::Level::Problem);
                usable &= about == "plain" || !broken;
                if matches!(running, Running::No) {
                    own(about, &survey, link.allow_addresses, &mut findings);
                }
                surveys.push(survey);
            }
            Err(error) => {
                usable = false;
                findings.push(Finding::problem(about, error.to_string()));
            }
        }
    }
    let [plain, protected] = surveys.as_slice() else { return (findings, None) };
    findings.extend(checksums(plain, config.gateway.io));
    speeds(plain, protected, &mut findings);
    let read = |name: &str| Ok(if name == link.plain { plain.mtu } else { protected.mtu } as usize);
    match check::link_mtus(&config.file, link, &read) {
        Ok(mtus) => {
            findings.push(Finding::ok(
                "MTU",
                format!(
                    "machine {}, overhead {}, protected side {}",
                    mtus.plain,
                    check::overhead_octets(link),
                    mtus.protected
                ),
            ));
            (findings, usable.then_some(mtus))
        }
        Err(errors) => {
            findings.extend(errors.into_iter().map(|error| Finding::problem("MTU", error.text)));
            // The path matters all the more.
            let mtus = Mtus { plain: plain.mtu as usize, protected: protected.mtu as usize };
            (findings, usable.then_some(mtus))
        }
    }
}

/// A port as it stands. The running gateway's own doings are none of our business.
pub(super) fn port(about: &'static str, survey: &InterfaceInfo, free: bool, findings: &mut Vec<Finding>) {
    let name = &survey.name;
    let before = findings.len();
    let mut problem = |text: String| findings.push(Finding::problem(about, text));
    if !survey.is_ethernet {
        problem(format!("{name} is not Ethernet: choose an Ethernet interface"));
    }
    if let Some(master) = &survey.master {
        problem(format!("{name} belongs to {master}, which takes its frames: 'ip link set {name} nomaster'"));
    }
    if let (Some(program), true) = (survey.xdp_program, free) {
        problem(format!(
            "{name} has an XDP program (id {program}) of another owner: stop that owner ('bpftool link' names it), or 'ip link set {name} xdp off'"
        ));
    }
    if !survey.is_up {
        problem(format!(
            "{name} is down: the gateway takes it up when it starts. For doctor: 'ip link set {name} up'"
        ));
    } else if !survey.has_carrier {
        problem(format!("{name} has no carrier: plug in the cable, or check its other end"));
    }
    if survey.full_duplex == Some(false) {
        problem(format!(
            "{name} runs at half duplex, as after a failed negotiation: set both ends of its cable to autonegotiation"
        ));
    }
    if findings.len() == before {
        let kind = if survey.kind.is_empty() { String::new() } else { format!(", {}", survey.kind) };
        let speed = survey.megabits.map_or_else(String::new, |megabits| format!(", {megabits} Mbit/s"));
        findings.push(Finding::ok(about, format!("{name} is up{kind}{speed}, MTU {}", survey.mtu)));
    }
    if !free {
        return;
    }
    let mut note = |text: String| findings.push(Finding::note(about, text));
    if survey.speaks_ipv6 && survey.is_up {
        note(format!(
            "the host sends IPv6 in clear on {name} while no gateway runs: sysctl net.ipv6.conf.{name}.disable_ipv6=1"
        ));
    }
    let (stuck, switched): (Vec<_>, Vec<_>) = survey.harmful_offloads.iter().partition(|(_, fixed)| *fixed);
    let names = |offloads: &[&(String, bool)]| {
        offloads.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ")
    };
    if !stuck.is_empty() {
        note(format!(
            "{name} cannot switch off {}: frames may lose VLAN tags or be merged. If tags are lost, set io = \"af_packet\" or use another card",
            names(&stuck)
        ));
    }
    if !switched.is_empty() {
        findings.push(Finding::ok(
            about,
            format!("{name} has offloads that the gateway switches off while it runs: {}", names(&switched)),
        ));
    }
    if let Some(queues @ 2..) = survey.receive_queues {
        findings.push(Finding::note(about, format!("{name} has {queues} receive queues; if one peer's frames spread over several, they overtake each other: 'ethtool -L {name} combined 1', or set replay_window")));
    }
}

/// Whether the machine on a veth pair fills its checksums, as far as its end can be seen. AF_PACKET fills them in.
fn checksums(plain: &InterfaceInfo, io: Io) -> Option<Finding> {
    if plain.kind != "veth" || io == Io::AfPacket {
        return None;
    }
    let name = &plain.name;
    match &plain.veth_peer {
        Some(VethPeer { name: end, leaves_checksums: true }) => Some(Finding::problem(
            "checksums",
            format!(
                "{end}, the other end of {name}, leaves TCP and UDP checksums to hardware that is not there: ping works, and TCP does not; {}",
                fill_checksums(name, Some(end))
            ),
        )),
        Some(VethPeer { name: end, .. }) => {
            Some(Finding::ok("checksums", format!("{end}, the other end of {name}, fills them in")))
        }
        None => Some(Finding::note(
            "checksums",
            format!(
                "{name} is a veth, and its other end is not on this box: if ping works and TCP does not, {}",
                fill_checksums(name, None)
            ),
        )),
    }
}

/// The kernel's report on the machine's checksums during the test.
pub(super) fn unfilled(link: &Link, io: Io, count: u64) -> Option<Finding> {
    (count > 0 && io != Io::AfPacket).then(|| {
        Finding::problem(
            "checksums",
            format!(
                "{count} frames came from {} with TCP and UDP checksums left to hardware that is not there: ping works, and TCP does not; {}",
                link.plain,
                fill_checksums(&link.plain, VethPeer::of(&link.plain).map(|end| end.name).as_deref())
            ),
        )
    })
}

/// Addresses and routes of this box on a port that no gateway has yet. The path can be tested all the same.
pub(super) fn own(about: &'static str, survey: &InterfaceInfo, allowed: bool, findings: &mut Vec<Finding>) {
    let life = check::own::life(survey, check::own::ssh_address().as_deref(), allowed);
    findings.extend(life.map(|life| match life.refused {
        true => Finding::problem(about, life.text),
        false => Finding::note(about, life.text),
    }));
}

fn speeds(plain: &InterfaceInfo, protected: &InterfaceInfo, findings: &mut Vec<Finding>) {
    if let (Some(from), Some(to)) = (plain.megabits, protected.megabits)
        && from > to
    {
        findings.push(Finding::note(
            "speed",
            format!("{} is faster ({from} Mbit/s) than {} ({to} Mbit/s): frames beyond that are dropped; give both the same speed", plain.name, protected.name),
        ));
    }
}

#[cfg(test)]
mod tests;
