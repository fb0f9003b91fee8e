//! Verbs for verdicts and sessions.

pub(crate) mod costs;
pub(crate) mod divergence;
pub(crate) mod erasure;
pub(crate) mod orders;
pub(crate) mod outbox;
pub mod programs;
pub(crate) mod session;
pub(crate) mod submit;
pub(crate) mod webhook;
