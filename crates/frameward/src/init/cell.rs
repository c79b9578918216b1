//! `init cell`: a fieldbus' relations, each under keys of its own, and the link that carries the rest.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use suite::Secret;
use wire::MacAddr;

use super::bundle::Bundle;
use super::link::{Cak, finish, section};
use super::relation::Relation;
use super::{Files, InitError, Setting, quoted};
use crate::keygen::{self, KeyLength};
use config::key_file::fingerprint;

/// The suite of a new cell: the one that the kernel path has.
const SUITE: &str = "chacha20-poly1305";
/// The suite of a bundle that names none: an older version made it, and left the key to its default.
const DEFAULT_SUITE: &str = "gcm-aes-128";

/// Answers for a cell.
#[derive(Clone, Debug)]
pub struct CellAnswers {
    /// Of the gateway, the cell and the files. The link beside it is called `NAME-rest`.
    pub name: String,
    /// The interface towards the stations.
    pub plain: String,
    /// The interface towards the network.
    pub protected: String,
    /// The stations behind this box. Of no use with a bundle, whose relations have all others.
    pub local: Vec<String>,
    /// Relations, as [`super::relation`] has them. Of no use with a bundle, which has them.
    pub relations: Vec<String>,
}

/// Sets a cell up, on the first box or, with the bundle of the first one, on the other.
///
/// # Errors
/// [`InitError`]; then there are no new files.
pub fn cell(
    setting: &Setting,
    answers: &CellAnswers,
    join: Option<&Bundle>,
) -> Result<Vec<String>, InitError> {
    let name = &answers.name;
    let endings: &[&str] =
        if join.is_some() { &["toml", "cak", "key"] } else { &["toml", "cak", "key", "bundle"] };
    let mut files = Files::new(setting, name, endings)?;
    let relations = match join {
        Some(bundle) => bundle.values("relation").map(Relation::parse).collect(),
        None => answers.relations.iter().map(|text| Relation::parse(text)).collect::<Result<Vec<_>, _>>(),
    }?;
    let local = match join {
        Some(bundle) => others(&relations, &bundle.values("local").collect::<Vec<_>>()),
        None => answers.local.clone(),
    };
    let suite = join.map_or(SUITE, |bundle| bundle.values("suite").next().unwrap_or(DEFAULT_SUITE));
    let cak = Cak::drawn_or_of(join)?;
    let master_key = match join {
        Some(bundle) => bundle.octets("master_key")?,
        None => {
            let (buffer, octets) = keygen::draw(KeyLength::Bits256)?;
            Secret::new(&buffer[..octets])
        }
    };
    cak.write(&mut files, "cak", "", &cak.what())?;
    let what = format!("the cell's master key, fingerprint {}", fingerprint(master_key.octets()));
    files.secret("key", &[("", master_key.octets())], &what)?;
    let rest = format!("{name}-rest");
    let link = section(&rest, &answers.plain, &answers.protected, None, &files);
    let text = format!("{}\n{link}\n{}", files.gateway(), fieldbus(name, &rest, suite, &local, &relations));
    files.text("toml", &text, "the configuration")?;
    if join.is_none() {
        let mut head = format!(
            "# Frameward: the other box's part of cell {name}. A SECRET: carry it over a channel that is itself\n\
             # secret, and delete it when both boxes run.\ninit = cell\nname = {name}\nsuite = {suite}\n"
        );
        for station in &local {
            let _ = writeln!(head, "local = {station}");
        }
        for relation in &relations {
            let _ = writeln!(head, "relation = {relation}");
        }
        let ckn = format!("{head}ckn = ");
        let [first, second] = cak.lines(&ckn);
        let lines = [first, second, ("master_key = ", master_key.octets())];
        files.secret("bundle", &lines, "a SECRET, for the other box")?;
    }
    files.check()?;
    finish(files, "cell", "--plain IF --protected IF", join)
}

/// The stations of relations that are not behind the first box.
fn others(relations: &[Relation], first: &[&str]) -> Vec<String> {
    let first: Vec<MacAddr> = first.iter().filter_map(|station| station.parse().ok()).collect();
    let stations: BTreeSet<_> = relations.iter().flat_map(|Relation(of)| of.stations).collect();
    stations.iter().filter(|station| !first.contains(station)).map(MacAddr::to_string).collect()
}

fn fieldbus(name: &str, rest: &str, suite: &str, local: &[String], relations: &[Relation]) -> String {
    let stations: Vec<_> = local.iter().map(|station| quoted(station)).collect();
    let mut text = format!(
        "[[fieldbus]]\nname  = {}\nrest  = {}   # the link above\nsuite = {}   # the same on both boxes; with it frames can stay in the kernel\nmaster_key_file = {}\nlocal = [{}]   # the stations behind this box\n",
        quoted(name),
        quoted(rest),
        quoted(suite),
        quoted(&format!("{name}.key")),
        stations.join(", ")
    );
    for Relation(section) in relations {
        let _ = write!(text, "\n{section}");
    }
    text
}
