//! Verbs for the audit log.

pub(crate) mod backup;
mod backup_files;
mod bundle;
pub(crate) mod log;
mod prove;
pub(crate) mod restore;
mod verify_directory;
pub(crate) mod verify_log;
