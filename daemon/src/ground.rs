//! Ground truth.

pub mod api;
pub mod control;
mod problem;
