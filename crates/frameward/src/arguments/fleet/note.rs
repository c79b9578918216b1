//! `fleet note`: a line in the audit log that changes nothing in the fleet.

use std::path::PathBuf;

use clap::Args;
use fleet::GatewayName;
use suite::identity::PublicKey;

use super::audited::Audit;
use super::gateway::{gateway_name, public_key};
use super::word;
use crate::{Failure, print, told};

pub(crate) const NOTE_HELP: &str = "\
The line is in the chain of the audit log like any other: it says who wrote it from which machine. It
changes nothing in the fleet.

Example:
  frameward fleet note --gateway press --operator 1b9f...c7 --identities identities \\
      'link press is down until the cable is replaced'

Exit status: 0 written; 1 the audit log cannot be written; 2 usage.";

/// The longest note, in characters.
const LONGEST: usize = 400;

#[derive(Args)]
pub(crate) struct Note {
    /// The note: a line
    #[arg(value_parser = line)]
    text: String,
    /// The gateway that it is about
    #[arg(long, value_name = "NAME", value_parser = gateway_name)]
    gateway: Option<GatewayName>,
    /// The operator's public key
    #[arg(long, value_name = "HEX", value_parser = public_key)]
    operator: PublicKey,
    /// The folder with the gateways' public identities, beside which the audit log is
    #[arg(long, value_name = "FOLDER")]
    identities: PathBuf,
    /// Who wrote it, for the audit log: a word, beside the login of this machine
    #[arg(long, value_name = "NAME", value_parser = word)]
    by: Option<String>,
}

fn line(text: &str) -> Result<String, &'static str> {
    let is_line = (1..=LONGEST).contains(&text.chars().count()) && !text.chars().any(char::is_control);
    is_line.then(|| text.to_owned()).ok_or("write one line of up to 400 characters")
}

impl Note {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        if !self.identities.is_dir() {
            let place = self.identities.display();
            let line = format_args!("{place}: is no folder; name the folder with the gateways' identities");
            return Err(told(&line, Failure::Usage));
        }
        let about = self.gateway.iter().map(ToString::to_string).chain([self.text.clone()]);
        let audit = Audit::of(&self.identities, "note", about.collect());
        audit.is_of(self.operator);
        audit.is_for(self.by.as_deref());
        audit.ends(audit.begins(&[]))?;
        print(&"written into the audit log\n")
    }
}
