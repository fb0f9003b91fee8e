//! Verbs for verdicts and sessions.

pub mod calibrate;
pub(crate) mod costs;
pub(crate) mod crosscheck;
pub(crate) mod divergence;
pub(crate) mod erase;
pub(crate) mod export;
pub(crate) mod orders;
pub(crate) mod outbox;
pub mod prompt;
pub(crate) mod purge;
pub(crate) mod register;
pub(crate) mod retention;
pub(crate) mod session;
pub(crate) mod show;
pub(crate) mod submit;
pub(crate) mod webhook;
