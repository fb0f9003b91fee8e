//! Sessions, their verdicts and orders, held verdicts, costs, regenerations, refusals, and mail.

pub(crate) mod costs;
pub(crate) mod expiry;
pub(crate) mod held;
pub(crate) mod orders;
pub(crate) mod outbox;
pub(crate) mod regens;
pub(crate) mod rejecting_checks;
pub(crate) mod sessions;
