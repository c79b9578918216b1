//! Evidence: every bench in one resumable run, beside rivals in the same network, and what came out of it as one page.
//!
//! ```text
//!  plan ──▶ run ──▶ store (a file a step) ──▶ document: evidence.json ──▶ page: index.html
//!   ^ contest: rivals; scaling; the program's own benches
//! ```

pub mod comparison;
pub mod contest;
pub mod document;
pub mod machine;
pub mod outcome;
pub mod page;
pub mod plan;
pub mod quietness;
pub mod run;
pub mod scaling;
pub mod store;
