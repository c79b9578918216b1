//! Tables of counters. Each declares once what is counted, under which name, and with which meaning.
//!
//! The macro is in this crate because every protocol crate counts, and none of them depends on another.

/// A row of a table of counters: name and meaning for everybody who shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counter {
    /// Standard name, or ours in the same style: `InPktsLate`.
    pub name: &'static str,
    /// Name for metrics: `in_pkts_late`.
    pub metric: &'static str,
    /// Meaning, in words.
    pub meaning: &'static str,
    /// True for a counter of discarded frames, marked `[discard]` in the table.
    pub discard: bool,
}

/// Declares a struct of counters with the table of their names and meanings, and their sum. Text, JSON,
/// metrics and the status page share this table. The first lines of a counter's documentation are its meaning
/// there.
#[macro_export]
macro_rules! counters {
    (@discard) => { false };
    (@discard discard) => { true };
    ($(#[$doc:meta])* $name:ident {
        $($(#[doc = $meaning:literal])+ $field:ident = $standard:literal $([$discard:ident])?,)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
        pub struct $name { $($(#[doc = $meaning])+ pub $field: u64,)* }

        impl $name {
            /// The names, in the order of [`Self::values`].
            pub const NAMES: &'static [&'static str] = &[$($standard),*];

            /// Name and meaning of each counter, in the order of [`Self::values`].
            pub const TABLE: &'static [$crate::Counter] = &[$($crate::Counter {
                name: $standard,
                metric: stringify!($field),
                meaning: concat!($($meaning),+).trim_ascii(),
                discard: $crate::counters!(@discard $($discard)?),
            }),*];

            /// The values, in the order of [`Self::NAMES`].
            pub const fn values(&self) -> [u64; Self::NAMES.len()] {
                [$(self.$field),*]
            }

            /// Counters that have these values, in the order of [`Self::NAMES`].
            pub const fn from_values([$($field),*]: [u64; Self::NAMES.len()]) -> Self {
                Self { $($field),* }
            }

            /// Adds another set of the same counters.
            pub const fn add(&mut self, other: &Self) {
                $(self.$field = self.$field.wrapping_add(other.$field);)*
            }

            /// Difference to an `earlier` state of the same counters.
            pub const fn since(&self, earlier: &Self) -> Self {
                Self { $($field: self.$field.wrapping_sub(earlier.$field),)* }
            }
        }
    };
}
