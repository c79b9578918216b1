//! Network namespaces, captures and traffic: the laboratory of demo, tests and benches.
#![forbid(unsafe_code)]

pub mod error;
pub mod namespace;
pub mod program;

pub use error::{Error, require_root};
pub use namespace::{Namespace, Task};
pub use program::Program;
