//! Verbs for workflows, decisions and reviews.

pub(crate) mod adapter;
pub(crate) mod explain;
pub(crate) mod review;
pub(crate) mod verify;
pub(crate) mod workflow;
