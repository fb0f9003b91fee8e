//! Verbs for the audit log.

mod bundle;
pub(crate) mod log;
mod log_keys;
mod prove;
pub(crate) mod verify_log;
