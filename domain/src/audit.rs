//! The audit log: every event that is logged.

pub mod event;
pub mod webhooks;
