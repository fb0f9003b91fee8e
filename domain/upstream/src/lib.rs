//! The systems that the daemon calls: their circuits, and the log of the calls.

pub mod event;
pub mod failure;
pub mod health;
pub mod problem;
pub mod upstream_id;
pub mod wire;
