//! Verdicts and their sessions.

pub mod api;
pub mod control;
pub(crate) mod retention;
