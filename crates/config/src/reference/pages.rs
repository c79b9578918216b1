//! The table as a page of the manual, frameward.toml(5), and as a page of the book.

use std::fmt::Write as _;

use super::{EXAMPLE, Key, SECTIONS, Section};

const HEAD: &str = "A configuration is a file in TOML. It has one `[gateway]` and any number of links, sites and fieldbuses. Unknown keys are \
errors. Paths of key files are relative to the directory of the configuration. Those of CAKs, master keys and identities may be \
`credential:NAME`, a credential of systemd: the file `NAME` in `$CREDENTIALS_DIRECTORY`.";
const TOOLS: &str = "`frameward check FILE` checks a configuration as a whole, with the rules about several keys at once. \
`frameward schema` prints a JSON Schema of it: editors with TOML support check and complete with it as you type. Save it, and \
name it in the first line of the configuration: `#:schema ./frameward.schema.json`.";

/// The page of the book, in Markdown.
pub fn markdown() -> String {
    let mut page = format!(
        "<!-- Made by: frameward schema --format markdown. Change crates/config/src/reference instead. -->\n\n\
         # Configuration\n\n{HEAD}\n\n```toml\n{EXAMPLE}```\n\n{TOOLS}\n"
    );
    for section in SECTIONS {
        let _ = write!(page, "\n## `{}`\n\n{}\n\n", section.header(), section.meaning);
        page.push_str("| key | value | default | meaning | example |\n|---|---|---|---|---|\n");
        for key in section.keys {
            let (value, default) = (key.kind.words(), key.absent.words());
            let example: Vec<_> = key.example.lines().map(|line| format!("`{line}`")).collect();
            let cells = [&format!("`{}`", key.name), &value, &default, key.meaning, &example.join(" ")];
            let cells = cells.map(|cell| cell.replace('|', "\\|"));
            let _ = writeln!(page, "| {} |", cells.join(" | "));
        }
    }
    page
}

/// The page of the manual, in the language of man(7).
pub fn manual() -> String {
    let mut page = format!(
        ".TH frameward.toml 5 \"\" \"frameward {}\" \"File formats\"\n\
         .SH NAME\nframeward.toml \\- configuration of a Frameward gateway\n\
         .SH DESCRIPTION\n{}\n.PP\n{}\n",
        env!("CARGO_PKG_VERSION"),
        roff(HEAD),
        roff(TOOLS)
    );
    for section in SECTIONS {
        let _ = write!(page, ".SH \"{}\"\n{}\n", section.header(), roff(section.meaning));
        section.keys.iter().for_each(|key| entry(&mut page, section, key));
    }
    page.push_str(".SH EXAMPLE\n.EX\n");
    page.extend(EXAMPLE.lines().map(|line| format!("{}\n", literal(line))));
    page.push_str(
        ".EE\n.SH FILES\n.TP\n\\fI/etc/frameward/NAME.toml\\fR\nThe configuration of the unit \\fBframeward@NAME\\fR.\n\
         .SH SEE ALSO\n.BR frameward (1),\n.BR frameward\\-check (1),\n.BR frameward\\-schema (1),\n.BR frameward\\-keygen (1)\n",
    );
    page
}

fn entry(page: &mut String, section: &Section, key: &Key) {
    let _ = write!(page, ".TP\n\\fB{}\\fR\n{}\n", literal(key.name), roff(key.meaning));
    let _ = write!(page, ".RS\n.PP\nValue: {}.\n.br\n", roff(&key.kind.words()));
    let _ = write!(page, "Default: {}.\n.PP\n.EX\n", roff(&key.absent.words()));
    let _ = writeln!(page, "{}", literal(&section.header()));
    page.extend(key.example.lines().map(|line| format!("{}\n", literal(line))));
    page.push_str(".EE\n.RE\n");
}

/// Text with code between backticks, which is bold here.
fn roff(text: &str) -> String {
    let parts = text.split('`').enumerate().map(|(at, part)| match at % 2 {
        0 => literal(part),
        _ => format!("\\fB{}\\fR", literal(part)),
    });
    parts.collect()
}

/// Text that roff takes as it is.
fn literal(text: &str) -> String {
    let escaped = text.replace('\\', "\\e").replace('-', "\\-").replace('µ', "\\(mc");
    // No line is a request, not even an empty one.
    if escaped.is_empty() || escaped.starts_with(['.', '\'']) { format!("\\&{escaped}") } else { escaped }
}
