//! Tests of verification, by topic.

/// Builders of inputs, for all other tests.
pub(crate) mod support;

mod claims;
mod table;

mod workflows;

mod requests;

mod conflicts;

mod reviewers;

mod review_rules;

mod latency;

mod properties;

mod axes;
