//! Verbs for the audit log.

pub(crate) mod backup;
mod backup_files;
mod bundle;
mod export_log;
pub(crate) mod log;
mod log_keys;
mod log_mirror;
pub(crate) mod prove;
mod replay_report;
mod requests;
pub(crate) mod restore;
mod verify_directory;
mod verify_files;
pub(crate) mod verify_log;
