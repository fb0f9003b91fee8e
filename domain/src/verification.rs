//! Verification: what the registered sources come to about one thing, and whether that may be said (RFC-0002, Part II).
//!
//! A [`Workflow`] says whom to ask about what, how conflicts are settled and how long to wait. [`decide`] takes a
//! [`Question`] with everything that came of asking, as [`Inputs`], and gives one [`Envelope`]. The same inputs give the
//! same bytes, so that what the log holds of a decision is enough to take it again.
//!
//! Nothing fails open: what is missing, late, stale, refused or in doubt never leads to a value. Only an envelope that is
//! `authoritative` holds values.

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
