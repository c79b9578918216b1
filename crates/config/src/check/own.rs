//! Uses of the ports by this box itself, which a gateway would cut off: addresses, default routes, and the SSH session of
//! whoever types the command.

use std::fs;
use std::path::Path;

use netdev::interface::InterfaceInfo;

use crate::{Config, Finding};

/// The variable in which sshd says where its session comes from and goes to: two addresses with their ports.
const SESSION: &str = "SSH_CONNECTION=";
/// sudo, a shell or two, tmux: more ancestors than that nobody has.
const ANCESTORS: usize = 32;

/// This box's end of the SSH session that this process runs in; `sudo` takes the variable away, so ancestors are asked too.
pub fn ssh_address() -> Option<String> {
    let mut process = std::process::id();
    for _ in 0..ANCESTORS {
        let of = |what: &str| fs::read(format!("/proc/{process}/{what}")).unwrap_or_default();
        if let Some(address) = session(&of("environ")) {
            return Some(address);
        }
        let status = String::from_utf8_lossy(&of("status")).into_owned();
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
        process = parent.trim().parse().ok().filter(|parent| *parent > 0)?;
    }
    None
}

/// Out of an environment: `client port server port`.
fn session(environment: &[u8]) -> Option<String> {
    let mut variables = environment.split(|octet| *octet == 0);
    let value = variables.find_map(|variable| variable.strip_prefix(SESSION.as_bytes()))?;
    Some(std::str::from_utf8(value).ok()?.split(' ').nth(2)?.to_owned())
}

/// Whether that address is one of the interface's.
pub fn carries(survey: &InterfaceInfo, ssh: &str) -> bool {
    let (address, scope) = ssh.split_once('%').map_or((ssh, None), |(address, scope)| (address, Some(scope)));
    // An IPv4 client of a socket for both kinds.
    let address = address.strip_prefix("::ffff:").unwrap_or(address);
    scope == Some(&survey.name) || survey.addresses.iter().any(|own| own == address)
}

/// This box's own use of a port, and how bad it is.
pub struct Life {
    /// Whether `run` refuses it.
    pub refused: bool,
    /// In words, with the cure.
    pub text: String,
}

/// This box's own use of a port's interface; none if there is none.
pub fn life(survey: &InterfaceInfo, ssh: Option<&str>, allowed: bool) -> Option<Life> {
    let name = &survey.name;
    let session = ssh.filter(|address| carries(survey, address));
    let what = survey.host_use().or_else(|| session.map(|address| format!("the address {address}")))?;
    let session =
        session.map_or("", |_| " YOUR SSH SESSION COMES IN OVER IT, and ends when the gateway starts.");
    Some(if allowed {
        Life {
            refused: false,
            text: format!(
                "{name} carries {what} of this box, which are cut off while the gateway runs (allow_addresses = true).{session}"
            ),
        }
    } else {
        Life {
            refused: true,
            text: format!(
                "{name} carries {what} of this box, which would be cut off: run refuses it.{session} Choose another port, or take that away ('ip addr flush dev {name}'); if it is meant so, set allow_addresses = true"
            ),
        }
    })
}

/// This box's own uses of the ports of a configuration: those that `run` refuses, and those that are allowed. An
/// interface that is missing is somebody else's finding.
pub fn lives(config: &Config) -> (Vec<Finding>, Vec<Finding>) {
    let ssh = ssh_address();
    let (mut refused, mut allowed) = (Vec::new(), Vec::new());
    // The LAN of a link inside of a site is that site's.
    let links = config.links.iter().filter(|link| !link.in_site).flat_map(|link| {
        let label = format!("link {:?}", link.name);
        link.interfaces().map(move |port| (label.clone(), link.line.0, port, link.allow_addresses))
    });
    let sites = config.sites.iter();
    let sites =
        sites.map(|site| (format!("site {:?}", site.name), site.line.0, &site.lan, site.allow_addresses));
    for (label, line, port, allow) in links.chain(sites) {
        let Ok(survey) = InterfaceInfo::of(port) else { continue };
        let Some(life) = life(&survey, ssh.as_deref(), allow) else { continue };
        let finding = finding(&config.file, line, format!("{label}: {}", life.text));
        if life.refused { refused.push(finding) } else { allowed.push(finding) }
    }
    (refused, allowed)
}

fn finding(file: &Path, line: usize, text: String) -> Finding {
    Finding { file: file.to_owned(), line: Some(line), text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_found_in_environments() {
        for (environment, address) in [
            (&b"HOME=/root\0SSH_CONNECTION=192.0.2.9 50000 192.0.2.1 22\0TERM=x\0"[..], Some("192.0.2.1")),
            (b"SSH_CONNECTION=fe80::2%eth0 50000 fe80::1%eth0 22", Some("fe80::1%eth0")),
            (b"SSH_CONNECTION=\0", None),
            (b"NOT_SSH_CONNECTION=a b c d\0", None),
            (b"", None),
        ] {
            assert_eq!(session(environment).as_deref(), address);
        }
    }
}
