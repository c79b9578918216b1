//! `init site`: a site's identity, and its configuration once the other sites' bundles are here.

use std::fmt::Write as _;

use suite::identity::PublicKey;

use super::bundle::{Bundle, BundleError};
use super::{Files, InitError, Setting, quoted};
use crate::keygen::{self, KeygenError};
use config::key_file;

/// Answers for a site.
#[derive(Clone, Debug)]
pub struct SiteAnswers {
    /// Of the gateway, the site and the files.
    pub name: String,
    /// The interface towards the LAN; of no use without peers.
    pub lan: String,
    /// The address and port of the UDP packets here.
    pub bind: String,
    /// Endpoint at which others reach this site, an address or a name with a port; none if they do not call it.
    pub endpoint: Option<String>,
    /// The CAK of all sites, if they protect their LANs; relative to the configuration.
    pub cak: Option<String>,
    /// The peer that relays to those that have no endpoint.
    pub via: Option<String>,
    /// This site relays between its peers.
    pub relay: bool,
}

/// Names of peers without an endpoint, if this site has none either and another peer has one: neither can connect to the other, and that one can relay.
///
/// # Errors
/// If a peer has no name, or this site's own file cannot be read.
pub fn unreached<'p>(
    setting: &Setting,
    answers: &SiteAnswers,
    peers: &'p [Bundle],
) -> Result<Vec<&'p str>, BundleError> {
    let has_endpoint = |bundle: &Bundle| bundle.values("endpoint").next().is_some();
    let own = setting.directory.join(format!("{}.site", answers.name));
    let is_reached =
        answers.endpoint.is_some() || (own.exists() && has_endpoint(&Bundle::read(&own, "site")?));
    if is_reached || answers.via.is_some() || !peers.iter().any(has_endpoint) {
        return Ok(Vec::new());
    }
    peers.iter().filter(|peer| !has_endpoint(peer)).map(Bundle::name).collect()
}

/// Sets a site up: without peers its identity and what to carry to the others; with their bundles its configuration, too.
/// An identity that is there already stays the site's.
///
/// # Errors
/// [`InitError`]; then there are no new files.
pub fn site(setting: &Setting, answers: &SiteAnswers, peers: &[Bundle]) -> Result<Vec<String>, InitError> {
    let name = &answers.name;
    let mut files = Files::new(setting, name, &["toml"])?;
    let key = files.path("key");
    let public = if key.exists() && !peers.is_empty() {
        key_file::read_identity(&key)?.public()
    } else {
        let public = keygen::site(&key)?;
        files.made(key, "the site's identity, which never leaves this box");
        public
    };
    bundle(&mut files, answers, public)?;
    for peer in unreached(setting, answers, peers)? {
        files.say(format!(
            "warning: neither this site nor {peer} has an endpoint, so they do not reach each other; use --via NAME, the peer that relays between them"
        ));
    }
    if peers.is_empty() {
        let carried = files.path("site");
        files.say(format!("public_key = \"{public}\""));
        files.say(format!(
            "next: carry {} to each other site, and their files here. They are no secrets, but nobody may replace them: compare the public keys. Then frameward init site --name {name} --lan IF --peer FILE, for each of theirs",
            carried.display()
        ));
        return files.keep();
    }
    let mut text = format!(
        "{}\n[[site]]\nname     = {}\nlan      = {}\nbind     = {}\nidentity = {}\n",
        files.gateway(),
        quoted(name),
        quoted(&answers.lan),
        quoted(&answers.bind),
        quoted(&format!("{name}.key"))
    );
    if answers.relay {
        text.push_str("relay    = true\n");
    }
    if let Some(cak) = &answers.cak {
        let _ = write!(text, "protect  = true\n\n[site.mka]\ncak_file = {}\n", quoted(cak));
    }
    for peer in peers {
        let public = peer.value("public_key")?;
        let _ = write!(text, "\n[[site.peer]]\nname       = {}\n", quoted(peer.name()?));
        if let Some(endpoint) = peer.values("endpoint").next() {
            let _ = writeln!(text, "endpoint   = {}", quoted(endpoint));
        } else if let Some(via) = answers.via.as_ref().filter(|via| peer.name() != Ok(via.as_str())) {
            let _ = writeln!(text, "via        = {}", quoted(via));
        }
        let _ = writeln!(text, "public_key = {}", quoted(public));
        files.say(format!(
            "peer {}: public key {public}; compare it with the one that box prints",
            peer.name()?
        ));
    }
    files.text("toml", &text, "the configuration")?;
    files.check()?;
    if answers.cak.is_none() {
        let file = files.path("toml");
        files.say(format!(
            "this site carries only MACsec frames of stations; for ordinary machines: remove {}, and repeat this with --cak FILE, at all sites",
            file.display()
        ));
    }
    files.say(format!("public_key = \"{public}\""));
    files.say(files.next_here());
    files.keep()
}

/// File for the other sites, unless it exists already.
fn bundle(files: &mut Files<'_>, answers: &SiteAnswers, public: PublicKey) -> Result<(), InitError> {
    let endpoint = answers.endpoint.iter().map(|endpoint| format!("endpoint = {endpoint}\n"));
    let text = format!(
        "# Frameward: what other sites need to know of site {0}. No secret.\ninit = site\nname = {0}\npublic_key = {public}\n{1}",
        answers.name,
        endpoint.collect::<String>()
    );
    match files.text("site", &text, "no secret, for the other sites") {
        Err(InitError::Keygen(KeygenError::Exists(_))) => Ok(()),
        other => other,
    }
}
