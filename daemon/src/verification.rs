//! Verification.

pub mod api;
pub mod config;
pub mod control;
pub(crate) mod metrics;
pub(crate) mod problem;
