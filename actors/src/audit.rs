//! The logger, through which everything is committed.

pub mod commit_loop;
pub mod fallback;
pub mod logger;
