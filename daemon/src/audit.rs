//! The audit log.

pub(crate) mod checkpoints;
pub mod control;
mod problem;
