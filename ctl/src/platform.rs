//! Verbs for the daemon itself.

pub(crate) mod actors;
pub(crate) mod doctor;
pub(crate) mod drain;
pub(crate) mod health;
pub(crate) mod log_level;
pub(crate) mod reload;
pub(crate) mod status;
