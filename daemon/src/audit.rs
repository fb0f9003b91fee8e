//! The audit log.

pub mod checkpoints;
pub mod control;

use crate::platform::problem::Problem;
use domain_audit::problem::ENTRY_DROPPED;
use std::fmt::Display;

impl Problem {
    /// The log begins with entry `first`.
    pub fn entry_dropped(what: impl Display, first: u64) -> Self {
        let detail = format!("{what} was dropped; the log begins with entry {first}");
        Self::new(ENTRY_DROPPED, detail)
    }
}
