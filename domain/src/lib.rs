//! The vocabulary of oracled, and every decision as a pure function of its arguments.
//!
//! This crate has no async code, no clock, no randomness and no I/O. Each decision takes all its inputs as
//! arguments, so the same inputs give the same decision in the daemon, in `oraclectl calibrate` and in a
//! test.

pub mod audit;
pub mod base;
pub mod documents;
pub mod events;
pub mod ground;
pub mod rules;
pub mod tables;
pub mod upstream;
pub mod verdict;
pub mod verification;

pub use base::application::ApplicationName;
pub use base::caller::{CallerSocket, DecidingUser, PeerCredentials, RequestCaller};
pub use base::digest::{Sha256Hex, Sha256Stream};
pub use base::event::{AuditEvent, EventKind};
pub use base::gate_path::GatePath;
pub use base::payload::VerdictPayload;
pub use base::session_id::SessionId;
pub use upstream::oracle::OracleId;
pub use verdict::crosscheck::{
    ApprovedVerdict, CrosscheckDecision, CrosscheckJudgment, CrosscheckReason, UnexpectedFieldHandling,
    judge, judge_with,
};
pub use verdict::delivery::VerdictDelivery;
pub use verdict::divergence::{DivergenceCheck, DivergenceLevel};
pub use verdict::flag::Flag;
pub use verdict::generation::VerdictGeneration;
pub use verdict::interaction::OracleInteractionLog;
pub use verdict::label::{ProductTier, VerdictDimension, VerdictLabel};
pub use verdict::mail::{MailId, OutboxMail};
pub use verdict::mail_template::MailTemplate;
pub use verdict::prompt::{ModelPrompt, PromptTemplate, build_verdict_prompt};
pub use verdict::query::CustomerQuery;
pub use verdict::regen::RegenAttempt;
pub use verdict::session::SessionRecord;
pub use verdict::webhook::{OutboxWebhook, WebhookId};
