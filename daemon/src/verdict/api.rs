//! Handlers of verdicts and sessions on the routes' socket.

pub mod cache;
pub mod crosscheck;
pub mod sessions;
pub mod verdicts;
