//! The logger, through which everything is committed.

pub mod fallback;
pub mod logger;
