//! Interfaces seen from outside, whatever is on them.

use super::link::{self, Which};
use super::{InterfaceError, system};

/// The MTU of the interface of that name, in octets; `None` if there is none.
///
/// # Errors
/// If the kernel does not tell.
pub fn mtu(name: &str) -> Result<Option<u32>, InterfaceError> {
    match link::query(Which::Name(name)) {
        Ok(facts) => Ok(Some(facts.mtu)),
        // EINVAL and ERANGE: a name that no interface can have.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENODEV | libc::EINVAL | libc::ERANGE)) => {
            Ok(None)
        }
        Err(source) => Err(system(name, "ask what it is", source)),
    }
}
