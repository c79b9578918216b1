//! Names and interfaces of links, sites and fieldbuses, each of which may stand once.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;

use super::findings::Findings;
use super::name::{bad_name, is_name};
use super::reference::{Key, LINK};

/// Names and interfaces that stood in the configuration already, each with its line.
#[derive(Default)]
pub(super) struct UniqueNames<'r> {
    names: BTreeMap<&'r str, usize>,
    interfaces: BTreeMap<&'r str, usize>,
}

impl<'r> UniqueNames<'r> {
    /// Refuses a name that another one has.
    pub(super) fn name(
        &mut self,
        label: &str,
        name: &'r Option<Spanned<String>>,
        cure: &str,
        findings: &mut Findings,
    ) {
        if let Some(name) = name {
            refuse_second(label, "name", name, &mut self.names, cure, findings);
        }
    }

    /// Refuses an interface that a link or a site has.
    pub(super) fn interface(
        &mut self,
        label: &str,
        key: &str,
        interface: &'r Spanned<String>,
        cure: &str,
        findings: &mut Findings,
    ) {
        refuse_second(label, key, interface, &mut self.interfaces, cure, findings);
    }
}

fn refuse_second<'r>(
    label: &str,
    key: &str,
    value: &'r Spanned<String>,
    seen: &mut BTreeMap<&'r str, usize>,
    cure: &str,
    findings: &mut Findings,
) {
    let line = findings.line(&value.span());
    if let Some(earlier) = seen.insert(value.get_ref(), line) {
        let text = format!("{label}{key} = {:?} is already used on line {earlier}; {cure}", value.get_ref());
        findings.error(value.span(), text);
    }
}

/// The beginning of each finding about a link, a site, a fieldbus or a peer: by its name, or without one by its place.
pub(super) fn label(kind: &str, name: &Option<Spanned<String>>, at: usize) -> String {
    match name {
        Some(name) => format!("{kind} {:?}: ", name.get_ref()),
        None => format!("{kind} {}: ", at + 1),
    }
}

/// The name of a link, a site, a fieldbus or a peer.
pub(super) fn name(
    label: &str,
    section: &Range<usize>,
    value: &Option<Spanned<String>>,
    findings: &mut Findings,
) -> Option<String> {
    let name = LINK.name.required(label, section, value, "; add name = \"NAME\"", findings)?;
    if !is_name(name.get_ref()) {
        findings.error(name.span(), bad_name(label, name.get_ref()));
    }
    Some(name.get_ref().clone())
}

/// The interface that a key names.
pub(super) fn interface_name(
    label: &str,
    section: &Range<usize>,
    key: Key,
    value: &Option<Spanned<String>>,
    findings: &mut Findings,
) -> Option<String> {
    let cure = format!("; add {} = \"INTERFACE\"", key.name);
    let value = key.required(label, section, value, &cure, findings)?;
    let name = value.get_ref();
    // The rule of Linux for names (dev_valid_name).
    let bad = name.is_empty()
        || name.len() > 15
        || matches!(name.as_str(), "." | "..")
        || name.chars().any(|c| c == '/' || c == ':' || c.is_whitespace() || c.is_control());
    if bad {
        let text = format!(
            "{label}{} = {name:?} is no interface name; use 1 to 15 octets without space, / and :",
            key.name
        );
        findings.error(value.span(), text);
    }
    Some(name.clone())
}
