//! Verbs for workflows, decisions and reviews.

pub(crate) mod explain;
pub(crate) mod review;
pub(crate) mod verify;
