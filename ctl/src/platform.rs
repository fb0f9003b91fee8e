//! Verbs for the daemon itself.

pub(crate) mod daemon;
pub(crate) mod doctor;
pub(crate) mod status;
