//! The audit log.

pub mod control;
