//! Verbs for the audit log.

pub(crate) mod log;
