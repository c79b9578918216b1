//! The cockpit: a fleet as its operator sees it, and `frameward fleet serve`, which shows it to browsers and programs.
//!
//! ```text
//!  inventory ── Layout ──┐
//!  directory ── watch ── Standing of each gateway ──▶ Overview ──▶ Surface ── HTTP ──▶ browsers, programs
//!       (follow.rs, files.rs)                       (overview.rs)  (board.rs, history.rs, surface.rs, server.rs)
//! ```
//!
//! It reads. Who has the role for it orders changes: they are commands of this program, each a process of its own ([actions](Actions)). The server itself
//! holds no key of the fleet.

mod access;
mod actions;
mod board;
mod files;
mod follow;
mod gateway_status;
mod history;
pub mod logs;
pub mod overview;
mod routes;
mod server;
mod surface;
pub mod tokens;

pub use actions::{Actions, SigningFiles};
pub use board::{DirectoryView, Seen};
pub use follow::{Following, Sources};
pub use server::{Listening, NotListening, Server, Settings};
pub use surface::{OPENAPI, Surface};
