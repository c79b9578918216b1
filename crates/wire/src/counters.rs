//! Tables of counters: what is counted, under which name, and what it means, declared once.
//!
//! Here because every protocol crate counts and none of them sees another.

/// A row of a table of counters: all that those who show it need to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counter {
    /// The standard's name, or ours in the same style: `InPktsLate`.
    pub name: &'static str,
    /// The same for metrics: `in_pkts_late`.
    pub metric: &'static str,
    /// What it counts, in words.
    pub meaning: &'static str,
    /// Whether it counts what was discarded: marked `[discard]` in the table.
    pub discard: bool,
}

/// Declares a struct of counters, the table of their names and meanings, and their sum: one table for text, JSON,
/// metrics and the status page. The first lines of a counter's documentation are its meaning there.
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

            /// What the counters are, in the order of [`Self::values`].
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

            /// What was counted since they were `earlier`.
            pub const fn since(&self, earlier: &Self) -> Self {
                Self { $($field: self.$field.wrapping_sub(earlier.$field),)* }
            }
        }
    };
}
