//! Handlers of verdicts and sessions on the routes' socket.

mod answers;
pub mod cache;
pub mod crosscheck;
pub mod orders;
mod proof;
pub mod sessions;
mod submitted_prompt;
pub mod verdicts;
