//! The audit log: every event that is logged.

pub mod event;
pub mod log_tree;
mod model_calls;
pub mod webhooks;
