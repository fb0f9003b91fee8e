//! Verification: compares the values that the registered sources have for one entity, and decides whether they may be
//! returned (RFC-0002, Part II).
//!
//! A [`Workflow`] names the sources and the axes, how conflicts are settled, and the time limits. [`decide`] takes a
//! [`Question`] and the answers of the sources, as [`Inputs`], and returns one [`Envelope`]. The same inputs give the same
//! bytes, so a decision can be computed again from the log.
//!
//! Nothing fails open: a missing, late, stale, rejected or doubtful answer never leads to a value. Only an axis whose kind
//! is `authoritative` has a value.

pub mod adapter;
pub mod call;
pub mod candidate;
mod compare;
mod conflict;
mod decide;
pub mod deviation;
pub mod envelope;
mod hearing;
pub mod inputs;
pub mod kept;
pub mod lock;
pub mod reason;
pub mod record;
pub mod request;
pub mod review;
mod settle;
mod statements;
pub mod step;
pub mod tier;
pub mod workflow;

pub use call::{Call, CallOutcome, Cut, Failure, Refusal, Reply};
pub use candidate::Candidate;
pub use decide::{decide, is_put_to_oracles};
pub use envelope::{Envelope, EnvelopeKind};
pub use inputs::{Inputs, Stage};
pub use kept::{Baseline, Baselines, KeptAnswer, KeptKey, OpenReview, Subject, SubjectKey};
pub use lock::HumanLock;
pub use reason::Reason;
pub use record::OracleVerificationRecord;
pub use request::{Question, VerifyRequest};
pub use review::{Resolution, Review};
pub use tier::Tier;
pub use workflow::Workflow;

#[cfg(test)]
pub(crate) mod tests;
