//! Verbs for the audit log.

mod bundle;
pub(crate) mod log;
mod prove;
pub(crate) mod verify_log;
