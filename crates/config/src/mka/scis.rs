//! SCIs that `[link.mka]` names: no two links have one.

use toml::Spanned;
use wire::Sci;

use super::super::findings::Findings;
use super::super::keys::Mka;
use super::super::reference::RawMka;

/// Named SCIs that stood already, with their lines.
#[derive(Default)]
pub(in super::super) struct SeenScis(Vec<(Sci, usize)>);

impl SeenScis {
    /// Refuses an SCI that another link has.
    pub(in super::super) fn once(
        &mut self,
        label: &str,
        section: &Spanned<RawMka>,
        mka: &Mka,
        findings: &mut Findings,
    ) {
        let (Some(sci), Some(value)) = (mka.sci, &section.get_ref().sci) else { return };
        if let Some((_, line)) = self.0.iter().find(|(seen, _)| *seen == sci) {
            let text =
                format!("{label}sci = \"{sci}\" is already used on line {line}; give each link its own");
            findings.error(value.span(), text);
        }
        self.0.push((sci, findings.line(&value.span())));
    }
}
