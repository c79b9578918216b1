//! `[fleet]`: the fleet that a gateway gets its configuration from.

use std::path::{Path, PathBuf};

use suite::identity::PublicKey;
use toml::Spanned;

use super::Origin;
use super::findings::Findings;
use super::reference::{FLEET, RawFleet};
use crate::key_file::named_file;

/// `[fleet]`
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fleet {
    /// The directory's address. Crate `fleet` knows its forms.
    pub directory: String,
    /// The operator's public key, which names the fleet.
    pub operator: PublicKey,
    /// The file with this gateway's identity. It is not read here: the box may not have made it yet.
    pub identity: PathBuf,
    /// The line of the section, from 1.
    pub line: Origin<usize>,
}

/// Judges `[fleet]` in a configuration of this directory.
pub(super) fn validate(raw: &Spanned<RawFleet>, directory: &Path, findings: &mut Findings) -> Option<Fleet> {
    let (section, keys) = (raw.span(), raw.get_ref());
    let cure = "; see frameward fleet enrol --help";
    let address = FLEET.directory.required("[fleet] ", &section, &keys.directory, cure, findings);
    let operator = FLEET.operator.required("[fleet] ", &section, &keys.operator, cure, findings);
    let identity = FLEET.identity.required("[fleet] ", &section, &keys.identity, cure, findings);
    let operator = operator.and_then(|value| public_key(value, findings));
    Some(Fleet {
        directory: address?.get_ref().clone(),
        operator: operator?,
        identity: named_file(directory, identity?.get_ref()),
        line: Origin(findings.line(&section)),
    })
}

fn public_key(value: &Spanned<String>, findings: &mut Findings) -> Option<PublicKey> {
    let octets = hex::decode(value.get_ref()).ok().and_then(|octets| octets.try_into().ok());
    if octets.is_none() {
        findings.error(
            value.span(),
            "[fleet] operator is no public key; write the 64 hexadecimal digits that frameward fleet operator printed",
        );
    }
    octets.map(PublicKey)
}
