//! Verdicts and their sessions.

pub mod api;
pub mod config;
pub mod control;
pub(crate) mod metrics;
mod problem;
pub mod request;
pub mod retention;
pub mod upstreams;
