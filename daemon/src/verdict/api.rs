//! Handlers of verdicts and sessions on the routes' socket.

mod answers;
pub mod cache;
pub mod crosscheck;
pub mod orders;
pub mod sessions;
pub mod verdicts;
