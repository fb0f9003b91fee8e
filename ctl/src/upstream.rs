//! Verbs for upstream systems.

pub(crate) mod health;
