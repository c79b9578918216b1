//! Keys as the parser reads them: with the ranges, words and defaults that the reference shows.

use std::ops::{Range, RangeInclusive};
use std::time::Duration;

use toml::Spanned;

use super::super::findings::{Findings, list};
use super::key::{Absent, Key, Kind};
use crate::words::{Named, words};

impl Key {
    /// The given value. If there is none, that is an error of the section, and `cure` ends its text.
    pub(crate) fn required<'g, T>(
        &self,
        label: &str,
        section: &Range<usize>,
        given: &'g Option<Spanned<T>>,
        cure: &str,
        findings: &mut Findings,
    ) -> Option<&'g Spanned<T>> {
        if given.is_none() {
            findings.error(section.clone(), format!("{label}{} is missing{cure}", self.name));
        }
        given.as_ref()
    }

    /// Whether it is on, or its default.
    pub(crate) fn switch(&self, given: &Option<Spanned<bool>>) -> bool {
        given.as_ref().map_or(matches!(self.absent, Absent::Switch(true)), |given| *given.get_ref())
    }

    /// The least and the greatest number that it takes.
    pub(crate) fn range(&self) -> RangeInclusive<i64> {
        match self.kind {
            Kind::Number { from, to } => from..=to,
            Kind::Numbers([first, .., last]) => *first..=*last,
            Kind::Either(kinds) => {
                let range = kinds.iter().find_map(|kind| match kind {
                    Kind::Number { from, to } => Some(*from..=*to),
                    _ => None,
                });
                range.unwrap_or_else(|| unreachable!("invariant: it takes a number"))
            }
            _ => unreachable!("invariant: it takes a number"),
        }
    }

    /// The number, if it takes that one.
    pub(crate) fn in_range<T: TryFrom<i64>>(&self, number: i64) -> Option<T> {
        let fits = match self.kind {
            Kind::Numbers(numbers) => numbers.contains(&number),
            _ => self.range().contains(&number),
        };
        fits.then(|| T::try_from(number).ok()).flatten()
    }

    /// The number that stands for an absent one.
    pub(crate) fn default_number<T: TryFrom<i64>>(&self) -> T {
        let Absent::Number(number) = self.absent else {
            unreachable!("invariant: it has a number as default")
        };
        self.in_range(number).unwrap_or_else(|| unreachable!("invariant: a default is in its range"))
    }

    /// The number, if it is in range; else that is an error.
    pub(crate) fn number<T: TryFrom<i64>>(
        &self,
        label: &str,
        given: &Spanned<i64>,
        findings: &mut Findings,
    ) -> Option<T> {
        let (name, range) = (self.name, self.range());
        let number = self.in_range(*given.get_ref());
        if number.is_none() {
            let text = format!(
                "{label}{name} = {} is out of range; use {} to {}",
                given.get_ref(),
                range.start(),
                range.end()
            );
            findings.error(given.span(), text);
        }
        number
    }

    /// The number that is given, or the default.
    pub(crate) fn number_or_default<T: TryFrom<i64>>(
        &self,
        label: &str,
        given: &Option<Spanned<i64>>,
        findings: &mut Findings,
    ) -> T {
        let number = given.as_ref().and_then(|given| self.number(label, given, findings));
        number.unwrap_or_else(|| self.default_number())
    }

    /// The text that stands for an absent one.
    pub(crate) const fn default_text(&self) -> &'static str {
        let Absent::Word(text) = self.absent else { panic!("invariant: it has a text as default") };
        text
    }

    /// The text that is given, or the default.
    pub(crate) fn text<'g>(&self, given: &'g Option<Spanned<String>>) -> &'g str {
        given.as_ref().map_or(self.default_text(), |given| given.get_ref())
    }

    /// The range of its times.
    pub(crate) fn times(&self) -> RangeInclusive<Duration> {
        let Kind::Time { from, to, .. } = self.kind else { unreachable!("invariant: it takes a time") };
        from..=to
    }

    /// The time that a text says, if it is one and in range.
    pub(crate) fn time(&self, text: &str) -> Option<Duration> {
        let Kind::Time { units, .. } = self.kind else { unreachable!("invariant: it takes a time") };
        let time = units.iter().find_map(|(unit, length)| {
            let number = text.strip_suffix(unit)?.parse().ok()?;
            length.checked_mul(number)
        });
        time.filter(|time| self.times().contains(time))
    }

    /// The value whose word is given, if one is; another word is an error.
    pub(crate) fn given_choice<T: Named>(
        &self,
        label: &str,
        given: &Option<Spanned<String>>,
        findings: &mut Findings,
    ) -> Option<T> {
        let given = given.as_ref()?;
        let value = T::named(given.get_ref());
        if value.is_none() {
            let words: Vec<_> = words::<T>().iter().map(|word| format!("{word:?}")).collect();
            let (name, word) = (self.name, given.get_ref());
            findings
                .error(given.span(), format!("{label}{name} = {word:?} is no choice; use {}", list(&words)));
        }
        value
    }

    /// The value whose word is given, or the default.
    pub(crate) fn choice<T: Named>(
        &self,
        label: &str,
        given: &Option<Spanned<String>>,
        findings: &mut Findings,
    ) -> T {
        let chosen = self.given_choice(label, given, findings).or_else(|| T::named(self.default_text()));
        chosen.unwrap_or_else(|| unreachable!("invariant: a default is one of the words"))
    }
}
