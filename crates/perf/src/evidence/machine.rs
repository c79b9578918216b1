//! The machine of a run.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use crate::evidence::document::Machine;

/// This machine.
pub fn here() -> Machine {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let (cpu, memory, system) = (read("/proc/cpuinfo"), read("/proc/meminfo"), read("/etc/os-release"));
    let after = |text: &str, name: &str, mark: char| {
        let line = text.lines().find(|line| line.starts_with(name));
        let value =
            line.and_then(|line| line.split_once(mark)).map(|(_, value)| value.trim().trim_matches('"'));
        value.map(String::from)
    };
    let kibibytes = after(&memory, "MemTotal", ':')
        .and_then(|text| text.trim_end_matches(" kB").trim().parse::<u64>().ok());
    Machine {
        architecture: std::env::consts::ARCH.into(),
        cpu: after(&cpu, "model name", ':').unwrap_or_else(|| "unknown CPU".into()),
        cpus: std::thread::available_parallelism().map_or(1, usize::from),
        memory_mib: kibibytes.unwrap_or_default() / 1024,
        kernel: read("/proc/sys/kernel/osrelease").trim().into(),
        system: after(&system, "PRETTY_NAME", '=').unwrap_or_else(|| "an unknown system".into()),
    }
}

/// Versions of the programs that take part. Those that are not installed are left out.
pub fn programs() -> BTreeMap<String, String> {
    let asked: [(&str, &[&str]); 9] = [
        ("Frameward", &["", env!("CARGO_PKG_VERSION")]),
        ("fastd", &["fastd", "--version"]),
        ("tinc", &["tincd", "--version"]),
        ("OpenVPN", &["openvpn", "--version"]),
        ("vpncloud", &["vpncloud", "--version"]),
        ("wireguard-go", &["wireguard", "--version"]),
        ("boringtun", &["boringtun-cli", "--version"]),
        ("iperf3", &["iperf3", "--version"]),
        ("User-Mode Linux", &[lab::guest::PROGRAM, "--version"]),
    ];
    let mut versions = BTreeMap::new();
    for (name, command) in asked {
        let version = match command {
            ["", version] => Some((*version).to_owned()),
            [program, arguments @ ..] => first_line(program, arguments),
            [] => None,
        };
        versions.extend(version.map(|version| (name.to_owned(), version)));
    }
    versions
}

fn first_line(program: &str, arguments: &[&str]) -> Option<String> {
    let program = crate::bench::rivals::find(program)?;
    // OpenVPN tells its version and ends with 1.
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    // The text behind a version is a list of features.
    let end = line.find(" [").or_else(|| line.find(" (")).unwrap_or(line.len());
    Some(line[..end].to_owned())
}

/// The time in UTC, as RFC 3339 spells it.
pub fn now() -> String {
    let output = Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%SZ"]).output();
    output.map_or_else(|_| String::new(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_described() {
        let machine = here();
        assert!(machine.cpus > 0 && machine.memory_mib > 0 && !machine.kernel.is_empty(), "{machine:?}");
        assert_eq!(programs()["Frameward"], env!("CARGO_PKG_VERSION"));
        let now = now();
        assert!(now.len() == 20 && now.ends_with('Z') && now.starts_with("20"), "{now}");
    }
}
