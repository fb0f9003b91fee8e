//! The logger, which commits every change and every log entry.

pub mod logger;
