//! The audit log: every event that is logged.

pub mod event;
mod model_calls;
pub mod webhooks;
