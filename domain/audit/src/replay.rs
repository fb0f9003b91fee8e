//! The replay of a decision: it is computed again from its inputs, and compared with its entry.

mod entry;
mod outcome;

pub use entry::{LoggedDecision, ReplayStop};
pub use outcome::{MemberDifference, MissingInput, ReplayOutcome, ReplayedDecision};
