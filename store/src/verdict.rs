//! Sessions, their verdicts and orders, regenerations, refusals, and mail.

pub(crate) mod orders;
pub(crate) mod outbox;
pub(crate) mod regens;
pub(crate) mod rejecting_checks;
pub(crate) mod sessions;
