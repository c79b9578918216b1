//! Named counters, in order.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};

/// Counters under their names, in the order of the table that declares them. A JSON object.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counters(Vec<(Cow<'static, str>, u64)>);

impl Counters {
    /// Counters of a table of names, with their values in its order.
    pub fn new<const N: usize>(names: &'static [&'static str], values: [u64; N]) -> Self {
        names.iter().map(|&name| Cow::Borrowed(name)).zip(values).collect()
    }

    /// The value of a counter; 0 if the gateway does not have it.
    pub fn value(&self, name: &str) -> u64 {
        self.iter().find(|(known, _)| *known == name).map_or(0, |(_, value)| value)
    }

    /// Increase of each counter since `then`; none if one of them is lower now, since it was set back meanwhile.
    pub fn since(&self, then: &Self) -> Option<Self> {
        let more =
            |(name, now): &(Cow<'static, str>, u64)| Some((name.clone(), now.checked_sub(then.value(name))?));
        self.0.iter().map(more).collect::<Option<Vec<_>>>().map(Self)
    }

    /// Names and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), *value))
    }
}

impl FromIterator<(Cow<'static, str>, u64)> for Counters {
    fn from_iter<I: IntoIterator<Item = (Cow<'static, str>, u64)>>(counters: I) -> Self {
        Self(counters.into_iter().collect())
    }
}

impl Serialize for Counters {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Counters {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(InOrder)
    }
}

struct InOrder;

impl<'de> Visitor<'de> for InOrder {
    type Value = Counters;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of counters")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Counters, A::Error> {
        let mut counters = Vec::new();
        while let Some((name, value)) = map.next_entry::<String, u64>()? {
            counters.push((Cow::Owned(name), value));
        }
        Ok(Counters(counters))
    }
}
