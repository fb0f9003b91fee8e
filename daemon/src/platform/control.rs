//! Control of the whole daemon.

pub mod actors;
pub mod body;
pub mod drain;
pub mod health;
#[cfg(debug_assertions)]
pub mod inject_panic;
pub mod log_level;
pub mod order;
pub mod reload;
pub mod status;
