//! The audit log: every event that is logged.

pub mod event;
pub mod leaf;
pub mod log_tree;
mod model_calls;
pub mod webhooks;
