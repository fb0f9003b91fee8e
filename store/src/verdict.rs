//! Sessions, their verdicts, regenerations, refusals, and mail.

pub(crate) mod outbox;
pub(crate) mod refusals;
pub(crate) mod regens;
pub(crate) mod sessions;
