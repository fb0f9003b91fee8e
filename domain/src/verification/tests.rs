//! What verification has to do, by subjects.

/// Cases of two oracles, and everything that can be said of them, for all that follows.
pub(crate) mod support;

mod claims;
mod table;

mod workflows;

mod requests;

mod conflicts;

mod people;

mod latency;

mod laws;

mod axes;
