//! The audit log.

pub(crate) mod checkpoints;
pub mod config;
pub mod control;
mod problem;
