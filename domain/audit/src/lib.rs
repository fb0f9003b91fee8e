//! The audit log: every event that is logged.

pub mod checkpoint;
pub mod event;
pub mod leaf;
pub mod log_proof;
pub mod log_tiles;
pub mod log_tree;
pub mod problem;
pub mod replay;
pub mod wire;
