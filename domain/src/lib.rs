//! The vocabulary of oracled, and every decision as a pure function of its arguments.
//!
//! This crate has no async code, no clock, no randomness and no I/O. Each decision takes all its inputs as
//! arguments, so the same inputs give the same decision in the daemon, in `oraclectl calibrate` and in a
//! test.

pub mod documents;
pub mod events;
pub mod tables;

pub use domain_audit as audit;
pub use domain_base as base;
pub use domain_base::application::ApplicationName;
pub use domain_base::caller::{CallerSocket, DecidingUser, PeerCredentials, RequestCaller};
pub use domain_base::digest::{Sha256Hex, Sha256Stream};
pub use domain_base::event::{AuditEvent, EventKind};
pub use domain_base::gate_path::GatePath;
pub use domain_base::payload::VerdictPayload;
pub use domain_base::session_id::SessionId;
pub use domain_ground as ground;
pub use domain_rules as rules;
pub use domain_upstream as upstream;
pub use domain_upstream::oracle::OracleId;
pub use domain_verdict as verdict;
pub use domain_verdict::crosscheck::{
    ApprovedVerdict, CrosscheckDecision, CrosscheckJudgment, CrosscheckReason, UnexpectedFieldHandling,
    judge, judge_with,
};
pub use domain_verdict::delivery::VerdictDelivery;
pub use domain_verdict::divergence::{DivergenceCheck, DivergenceLevel};
pub use domain_verdict::flag::Flag;
pub use domain_verdict::generation::VerdictGeneration;
pub use domain_verdict::interaction::OracleInteractionLog;
pub use domain_verdict::label::{ProductTier, VerdictDimension, VerdictLabel};
pub use domain_verdict::mail::{MailId, OutboxMail};
pub use domain_verdict::mail_template::MailTemplate;
pub use domain_verdict::prompt::{ModelPrompt, PromptTemplate, build_verdict_prompt};
pub use domain_verdict::query::CustomerQuery;
pub use domain_verdict::regen::RegenAttempt;
pub use domain_verdict::session::SessionRecord;
pub use domain_verdict::webhook::{OutboxWebhook, WebhookId};
pub use domain_verification as verification;
