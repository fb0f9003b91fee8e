//! Verdicts and their sessions.

pub mod api;
pub mod control;
pub(crate) mod metrics;
mod problem;
pub(crate) mod retention;
