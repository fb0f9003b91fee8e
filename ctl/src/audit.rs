//! Verbs for the audit log.

mod bundle;
mod export_log;
pub(crate) mod log;
mod log_keys;
mod prove;
mod requests;
mod verify_directory;
pub(crate) mod verify_log;
