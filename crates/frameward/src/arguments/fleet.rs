//! `frameward fleet`: many gateways from one place.

use clap::Subcommand;

use crate::Failure;

mod gateway;
mod operator;

#[derive(Subcommand)]
pub(crate) enum Fleet {
    /// Make an operator's signing key in a new file of mode 0600, and print the public key for the gateways
    #[command(after_help = operator::OPERATOR_HELP)]
    Operator(operator::MakeOperator),
    /// Print a gateway's public identity for the operator; make the identity if there is none
    #[command(after_help = gateway::IDENTITY_HELP)]
    Identity(gateway::ShowIdentity),
    /// Sign and seal the configurations of gateways, and publish those that changed
    #[command(after_help = operator::APPLY_HELP, override_usage = operator::APPLY_USAGE)]
    Apply(operator::Apply),
    /// Fetch this gateway's configuration: verify it, open it, write it into a folder
    #[command(after_help = gateway::FETCH_HELP, override_usage = gateway::FETCH_USAGE)]
    Fetch(gateway::Fetch),
    /// Stay and fetch whatever is published; have the gateway reload; take back what makes links fall
    #[command(after_help = gateway::FOLLOW_HELP, override_usage = gateway::FOLLOW_USAGE)]
    Follow(gateway::Follow),
}

impl Fleet {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        match self {
            Self::Operator(operator) => operator.run(),
            Self::Identity(identity) => identity.run(),
            Self::Apply(apply) => apply.run(),
            Self::Fetch(fetch) => fetch.run(),
            Self::Follow(follow) => follow.run(),
        }
    }
}

/// Seconds since 1970 by this machine's clock.
fn unix_seconds() -> u64 {
    let now = std::time::SystemTime::now();
    now.duration_since(std::time::SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
