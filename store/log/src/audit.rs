//! The audit log, and its mirror as a file.

pub(crate) mod erasure;
pub(crate) mod log;
pub(crate) mod logged_rows;
pub(crate) mod mirror;
mod pending_erasures;
pub(crate) mod removal;
pub(crate) mod segment_log;
mod tiles;
