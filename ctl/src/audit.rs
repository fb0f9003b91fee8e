//! Verbs for the audit log.

pub(crate) mod backup;
mod bundle;
mod export_log;
pub(crate) mod log;
mod log_keys;
pub(crate) mod prove;
mod replay_report;
pub(crate) mod restore;
mod verify_directory;
pub(crate) mod verify_log;
