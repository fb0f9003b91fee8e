//! Verdicts and their sessions.

pub mod api;
pub mod control;
