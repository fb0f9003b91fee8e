//! Sessions, their verdicts, regenerations, refusals, and mail.

pub(crate) mod outbox;
pub(crate) mod regens;
pub(crate) mod rejecting_checks;
pub(crate) mod sessions;
