//! The cockpit: a fleet as its operator sees it, and `frameward fleet serve`, which shows it to browsers and programs.
//!
//! ```text
//!  inventory ── Layout ──┐
//!  directory ── watch ── Standing of each gateway ──▶ Overview ──▶ /api/overview, fleet top
//! ```

pub mod overview;
