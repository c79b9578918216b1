//! The operator's side: an inventory of many gateways, and the program's own commands.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use fleet::{GatewayName, PublicIdentity};
use suite::identity::{Identity, PublicKey};

use super::{FleetError, failed, memory};

/// Gateways of a group, under one CAK.
pub(super) const OF_A_GROUP: u32 = 10;
/// Interval between two looks at a command's memory, and at what became of what it has published.
const LOOK: Duration = Duration::from_millis(4);

/// Name of a gateway.
pub(super) fn name(number: u32) -> GatewayName {
    GatewayName::new(&format!("box-{number:05}")).expect("invariant: letters, digits and a hyphen")
}

/// Identity of a gateway. Nobody guards it: it is of no box.
pub(super) fn identity(number: u32) -> Identity {
    let mut private = [0x5a; 32];
    private[..4].copy_from_slice(&number.to_be_bytes());
    Identity::new(&private)
}

/// A public key in digits.
pub(super) fn key(digits: &str) -> Result<PublicKey, FleetError> {
    let octets = hex::decode(digits).ok().and_then(|octets| octets.try_into().ok());
    octets.map(PublicKey).ok_or_else(|| FleetError::Unexpected(format!("{digits:?} is no public key")))
}

/// A record that a command has published, as its line says.
#[derive(Clone, Debug)]
pub(super) struct Published {
    pub(super) name: GatewayName,
    pub(super) version: u64,
    pub(super) is_revocation: bool,
    /// Time at which the line came.
    pub(super) at: Instant,
}

/// A command that has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ran {
    pub(super) began: Instant,
    pub(super) ended: Instant,
    /// The most octets of resident memory.
    pub(super) memory: f64,
}

/// A folder with an inventory, its keys, identities and a signing key.
#[derive(Debug)]
pub(super) struct Plant {
    place: PathBuf,
    frameward: PathBuf,
    directory: String,
    agents: u32,
    pub(super) fleet: PublicKey,
    /// The same in digits.
    pub(super) operator: String,
}

impl Plant {
    /// Writes the inventory of so many gateways, and their identities.
    pub(super) fn new(
        place: &Path,
        frameward: &Path,
        directory: &str,
        agents: u32,
    ) -> Result<Self, FleetError> {
        let write = |path: PathBuf, text: &str| {
            fs::write(&path, text).map_err(|error| failed(&path.display().to_string(), &error))
        };
        for folder in ["inventory", "identities"] {
            fs::create_dir_all(place.join(folder)).map_err(|error| failed(folder, &error))?;
        }
        write(place.join("inventory/plant.toml"), &inventory(agents))?;
        for number in 0..agents {
            let file = format!("identities/{}.identity", name(number));
            write(place.join(file), &format!("{}\n", PublicIdentity::of(&identity(number))))?;
        }
        let mut plant = Self {
            place: place.to_owned(),
            frameward: frameward.to_owned(),
            directory: directory.to_owned(),
            agents,
            fleet: PublicKey([0; 32]),
            operator: String::new(),
        };
        let mut printed = String::new();
        plant.run(
            &["operator", "--out", "operator.key"],
            &mut |line, _| printed = line.to_owned(),
            &mut || Ok(true),
        )?;
        let digits = printed.split('"').nth(1).unwrap_or_default();
        plant.fleet = key(digits)?;
        digits.clone_into(&mut plant.operator);
        Ok(plant)
    }

    /// Renders, and publishes what is new.
    pub(super) fn apply(&self) -> Result<[Ran; 2], FleetError> {
        let rendered = self.quietly(&["render", "inventory", "--to", "rendering"])?;
        let applied = self.quietly(&[&["apply", "rendering"], &self.signing()[..]].concat())?;
        Ok([rendered, applied])
    }

    /// Revokes a gateway, both steps at once. Each record is told to `published`; then `done` is asked again and again until nothing is left
    /// to wait for.
    pub(super) fn revoke(
        &self,
        gateway: &GatewayName,
        published: &mut dyn FnMut(Published),
        done: &mut dyn FnMut() -> Result<bool, FleetError>,
    ) -> Result<Ran, FleetError> {
        let command = ["revoke", gateway.as_str(), "inventory", "--to", "rendering", "--now"];
        let mut line = |line: &str, at| {
            if let Some(record) = record(line, at) {
                published(record);
            }
        };
        self.run(&[&command[..], &self.signing()[..]].concat(), &mut line, done)
    }

    fn signing(&self) -> [&str; 6] {
        ["--signing-key", "operator.key", "--identities", "identities", "--directory", &self.directory]
    }

    fn quietly(&self, arguments: &[&str]) -> Result<Ran, FleetError> {
        self.run(arguments, &mut |_, _| {}, &mut || Ok(true))
    }

    /// Runs a command, and looks meanwhile at its lines and its memory.
    fn run(
        &self,
        arguments: &[&str],
        line: &mut dyn FnMut(&str, Instant),
        done: &mut dyn FnMut() -> Result<bool, FleetError>,
    ) -> Result<Ran, FleetError> {
        let began = Instant::now();
        let what = format!("frameward fleet {}", arguments[0]);
        let mut child = Command::new(&self.frameward)
            .arg("fleet")
            .args(arguments)
            .current_dir(&self.place)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| failed(&what, &error))?;
        let output = child.stdout.take().expect("invariant: it is piped");
        let (sender, lines) = mpsc::channel();
        let reader = thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let _ = sender.send((line, Instant::now()));
            }
        });
        let (mut most, mut ended) = (0.0, None);
        // A gateway's word may take its time, but comes.
        let limit = began + super::patience(self.agents);
        loop {
            match ended {
                None => match lines.recv_timeout(LOOK) {
                    Ok((text, at)) => line(&text, at),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => ended = Some(Instant::now()),
                },
                Some(_) => thread::sleep(LOOK),
            }
            most = memory(child.id(), "VmHWM").map_or(most, |octets| octets.max(most));
            let is_done = done()?;
            if let (Some(ended), true) = (ended, is_done) {
                let status = child.wait().map_err(|error| failed(&what, &error))?;
                let _ = reader.join();
                if !status.success() {
                    return Err(FleetError::Unexpected(format!(
                        "{what} ended with {status}; its reason stands above"
                    )));
                }
                return Ok(Ran { began, ended, memory: most });
            }
            if Instant::now() > limit {
                let _ = child.kill();
                let _ = child.wait();
                return Err(FleetError::Late(what));
            }
        }
    }
}

/// `NAME KEY: published version VERSION: ...`
fn record(line: &str, at: Instant) -> Option<Published> {
    let (title, told) = line.split_once(": published version ")?;
    let (version, rest) = told.split_once(": ")?;
    let name = GatewayName::new(title.split(' ').next()?)?;
    Some(Published { name, version: version.parse().ok()?, is_revocation: rest == "revoked", at })
}

/// Groups of ten. The last one has the rest too.
fn inventory(agents: u32) -> String {
    let mut text = "[template.box.ports]\nplain = \"eth0\"\nprotected = \"eth1\"\n".to_owned();
    for number in 0..agents {
        let _ = writeln!(text, "[gateway.{}]\ntemplate = \"box\"", name(number));
    }
    let groups = agents / OF_A_GROUP;
    for group in 0..groups {
        let end = if group + 1 == groups { agents } else { (group + 1) * OF_A_GROUP };
        let members: Vec<_> =
            (group * OF_A_GROUP..end).map(|number| format!("\"{}\"", name(number))).collect();
        let _ = writeln!(text, "[[group]]\nname = \"line-{group:04}\"\ngateways = [{}]", members.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_gateway_is_in_one_group_and_a_published_record_is_read_from_its_line() {
        let text = inventory(25);
        assert_eq!(text.matches("[[group]]").count(), 2);
        for number in 0..25 {
            assert_eq!(text.matches(&format!("\"{}\"", name(number))).count(), 1);
        }
        let at = Instant::now();
        let read = |line| record(line, at).map(|one| (one.name.to_string(), one.version, one.is_revocation));
        assert_eq!(
            read("box-00001 8f31aa: published version 1795676400: revoked"),
            Some(("box-00001".into(), 1_795_676_400, true))
        );
        let changed = "box-00002 8f31aa: published version 17: changed since version 16";
        assert_eq!(read(changed), Some(("box-00002".into(), 17, false)));
        assert_eq!(read("box-00002 8f31aa: unchanged, version 16"), None);
    }
}
