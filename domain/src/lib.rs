//! The vocabulary of oracled, and every decision as a pure function of its arguments.
//!
//! This crate has no async code, no clock, no randomness and no I/O. Each decision takes all its inputs as arguments, so
//! the same inputs give the same decision in the daemon, in `oraclectl calibrate` and in a test.

#![allow(missing_docs, reason = "`into_str`, which strum derives for wire names, has none")]

pub mod audit;
pub mod base;
pub mod documents;
pub mod ground;
pub mod rules;
pub mod verdict;
pub mod verification;

pub use audit::event::{Caller, Event, EventKind, Peer};
pub use base::digest::{Sha256Hex, Sha256Stream};
pub use base::payload::Payload;
pub use verdict::crosscheck::{Approved, Decision, Judgement, Reason, UnexpectedFields, judge, judge_with};
pub use verdict::delivery::Delivery;
pub use verdict::divergence::{DivergenceCheck, DivergenceLevel};
pub use verdict::flag::Flag;
pub use verdict::gate_path::GatePath;
pub use verdict::generation::Generation;
pub use verdict::interaction::Interaction;
pub use verdict::label::{Dimension, Label, Tier};
pub use verdict::mail::{Mail, MailId};
pub use verdict::oracle::OracleId;
pub use verdict::prompt::{Prompt, build_verdict_prompt};
pub use verdict::regen::RegenAttempt;
pub use verdict::session::{Query, Session, SessionId};
