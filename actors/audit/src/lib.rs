//! The logger, which commits every change and every log entry.

pub mod commit_loop;
pub mod logger;
