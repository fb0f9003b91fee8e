//! Control of the whole daemon.

pub mod actors;
pub mod body;
pub mod control_request;
pub mod drain;
pub mod health;
pub(crate) mod identified_user;
#[cfg(debug_assertions)]
pub mod inject_panic;
pub mod log_level;
pub mod reload;
pub mod status;
