//! Verification: compares the values that the registered sources have for one subject, and decides whether they may be
//! returned (RFC-0002, Part II).
//!
//! A [`Workflow`] names the sources and the axes, how conflicts are settled, and the time limits. [`decide`]
//! takes a [`VerificationQuestion`] and the answers of the sources, as [`DecisionInputs`], and returns one
//! [`Envelope`]. The same inputs give the same bytes, so a decision can be computed again from the log.
//!
//! Verification fails closed: a missing, late, stale, rejected or doubtful answer never leads to a value.
//! Only an axis whose kind is `authoritative` has a value.

pub mod adapter;
mod axis_settlement;
pub mod conflict;
mod decide;
pub mod deviation;
pub mod envelope;
pub mod event;
pub mod inputs;
pub mod oracle_call;
pub mod problem;
pub mod reason;
pub mod replay;
pub mod request;
pub mod review;
pub mod review_rule;
mod statements;
pub mod stored_state;
pub mod verification_record;
pub mod wire;
pub mod workflow;

use crate::adapter::Adapter;
use crate::review::ReviewState;
use crate::review_rule::ReviewRule;
pub use crate::stored_state::HumanLock;
pub use crate::verification_record::{CandidateAnswer, OracleVerificationRecord, VerificationTier};
pub use decide::{decide, is_query_required};
use domain_base::row::{Row, Table};
pub use envelope::{Envelope, EnvelopeKind};
pub use inputs::{DecisionInputs, DecisionStage};
pub use oracle_call::{AnswerFault, CallFailure, CallOutcome, CallTimeLimit, OracleCall, OracleReply};
pub use reason::AxisReason;
pub use request::{VerificationQuestion, VerifyRequest};
pub use review::{ReviewCase, ReviewResolution};
pub use stored_state::{
    AxisBaseline, CachedAnswer, CachedAnswerKey, OpenReview, SourceBaselines, SubjectKey, SubjectState,
};
pub use workflow::Workflow;

// `tests/support.rs` is compiled by the tests of other crates, too
#[cfg(test)]
extern crate self as domain_verification;

#[cfg(test)]
mod tests;

/// The tables of the feature.
pub const TABLES: &[&Table] =
    &[ReviewState::TABLE, SubjectState::TABLE, CachedAnswer::TABLE, DecisionInputs::TABLE];
/// The kinds of documents of the feature.
pub type Documents = (Adapter, Workflow, ReviewRule);
