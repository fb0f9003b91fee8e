//! Verdicts and their sessions.

pub mod api;
pub mod control;
mod problem;
pub(crate) mod retention;
