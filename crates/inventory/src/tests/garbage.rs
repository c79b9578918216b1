use std::path::PathBuf;

use proptest::prelude::*;

use super::*;

/// Judges texts as an inventory and renders it, with keys in memory.
fn judge(texts: &[(PathBuf, String)]) {
    let findings = Inventory::parse(texts).and_then(|inventory| {
        let mut keys = KeyFolder::new("/nonexistent/keys");
        inventory.render(&mut keys).map(|rendering| (inventory.gateways().count(), rendering))
    });
    match findings {
        Ok((count, rendering)) => assert_eq!(rendering.gateways.len(), count),
        Err(findings) => {
            assert!(!findings.is_empty(), "refused without a word");
            for finding in findings {
                let (_, text) =
                    texts.iter().find(|(file, _)| *file == finding.file).expect("a file of the inventory");
                let line = finding.line.expect("a line");
                assert!((1..=text.split('\n').count()).contains(&line), "{finding}");
                assert!(!finding.to_string().contains('\n') && !finding.text.is_empty(), "{finding:?}");
            }
        }
    }
}

fn golden() -> Vec<(PathBuf, String)> {
    GOLDEN.iter().map(|(file, text)| (PathBuf::from(file), (*text).to_owned())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_judged_without_a_panic(text in "\\PC{0,400}") {
        judge(&[(PathBuf::from("all.toml"), text)]);
    }

    /// Lines taken out, doubled, and with another value.
    #[test]
    fn a_broken_golden_inventory_is_judged_with_files_and_lines(
        changes in prop::collection::vec((0..2_usize, any::<prop::sample::Index>(), 0..6_usize, any::<prop::sample::Index>()), 1..6)
    ) {
        const VALUES: [&str; 8] = ["1", "\"x\"", "[]", "{}", "true", "[\"a\", 1]", "\"${none}\"", "{ a = { b = [ { } ] } }"];
        let mut texts = golden();
        for (file, at, how, value) in changes {
            let text = &mut texts[file].1;
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            if lines.is_empty() {
                continue;
            }
            let at = at.index(lines.len());
            match how {
                0 => drop(lines.remove(at)),
                1 => lines.insert(at, lines[at].clone()),
                2 => lines[at] = lines[at].replace('[', "[["),
                3 => lines[at] = lines[at].replace("[[", "[").replace("]]", "]"),
                4 => {
                    let key = lines[at].split('=').next().unwrap_or_default().trim().to_owned();
                    lines[at] = format!("{key} = {}", VALUES[value.index(VALUES.len())]);
                }
                _ => lines[at] = lines[at].replacen(|c: char| c.is_ascii_lowercase(), "q", 1),
            }
            *text = lines.join("\n");
        }
        judge(&texts);
    }
}

/// Diamonds of templates would double with each, and a long chain would fill the stack.
#[test]
fn templates_cost_no_more_than_they_say() {
    let mut text = String::from("[gateway.a]\ntemplate = \"t0\"\n");
    for number in 0..60 {
        text += &format!("[template.t{number}]\ntemplate = [\"t{0}\", \"t{0}\"]\n", number + 1);
    }
    text += "[template.t60]\n";
    judge(&[(PathBuf::from("all.toml"), text)]);
    let mut text = String::new();
    for number in 0..20_000 {
        text += &format!("[template.t{number:05}]\ntemplate = \"t{:05}\"\n", number + 1);
    }
    judge(&[(PathBuf::from("all.toml"), text)]);
}
