//! Names of gateways.

use std::fmt;

/// Name of a gateway, by the rule of [`config::is_name`]. It stands in addresses of a directory and in file names.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GatewayName(String);

impl GatewayName {
    /// `None` if the text breaks the rule.
    pub fn new(text: &str) -> Option<Self> {
        config::is_name(text).then(|| Self(text.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for GatewayName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
