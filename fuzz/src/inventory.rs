//! The files of an inventory are rendered or refused with lines that exist, and never more than that.

use std::path::PathBuf;

use inventory::{Inventory, KeyFolder};

/// Judges `octets` as the files of an inventory, divided by zeros, and renders it. No key file is there; those that are made stay in
/// memory.
///
/// # Panics
/// If the judge does, or reports nonsense.
pub fn run(octets: &[u8]) {
    let Ok(text) = str::from_utf8(octets) else { return };
    let file = |(number, text): (usize, &str)| (PathBuf::from(format!("{number}.toml")), text.to_owned());
    let texts: Vec<(PathBuf, String)> = text.split('\0').enumerate().map(file).collect();
    let mut keys = KeyFolder::new("/nonexistent/keys");
    let findings = match Inventory::parse(&texts)
        .map(|inventory| (inventory.gateways().count(), inventory.render(&mut keys)))
    {
        Ok((count, Ok(rendering))) => {
            assert_eq!(rendering.gateways.len(), count);
            for (name, rendered) in &rendering.gateways {
                assert!(config::is_name(name));
                assert!(rendered.text.ends_with('\n'));
                assert!(!rendered.key_files.contains_key(inventory::CONFIGURATION));
            }
            rendering.warnings
        }
        Ok((_, Err(errors))) | Err(errors) => {
            assert!(!errors.is_empty(), "refused without a word");
            errors
        }
    };
    for finding in findings {
        let (_, text) =
            texts.iter().find(|(file, _)| *file == finding.file).expect("invariant: a file of the inventory");
        let lines = text.split('\n').count();
        assert!(finding.line.is_some_and(|line| (1..=lines).contains(&line)), "{finding}");
        assert!(!finding.to_string().contains('\n'), "{finding:?} is one line");
    }
}
