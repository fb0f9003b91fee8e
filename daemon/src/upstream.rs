//! Upstream systems: their health and their circuits.

pub mod api;
pub mod control;
pub(crate) mod metrics;
mod problem;
