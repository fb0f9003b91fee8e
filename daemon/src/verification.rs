//! Verification.

pub mod api;
pub mod control;
mod problem;
