//! The message that stores an approved verdict.

use super::VerdictCacheError;
use crate::verdict::submission::{Submission, SubmissionOutcome};
use actix::Message;
use oracled_domain::rules::CandidateCheck;
use oracled_domain::{ApprovedVerdict, AuditEvent, DecidingUser, GatePath, Sha256Hex};
use std::sync::Arc;

/// Stores an approved verdict with its session and their log entries, as one commit.
#[derive(Debug, Message)]
#[rtype(result = "Result<SubmissionOutcome, VerdictCacheError>")]
pub struct AdmitVerdict {
    /// The submission; its payload is `approved` now.
    pub submission: Submission,
    pub approved: ApprovedVerdict,
    /// The log entries of the gate.
    pub judged: Vec<AuditEvent>,
    /// The digest of the evaluation by the rules, if the submission has a check.
    pub evaluation_sha256: Option<Sha256Hex>,
    /// The release, if an operator releases a held verdict.
    pub release: Option<VerdictRelease>,
}

impl AdmitVerdict {
    /// Whether the rules checked the verdict against the check of its session, or against one of its own.
    pub(super) fn is_checked_against(&self, session_check: &Arc<CandidateCheck>) -> bool {
        let Submission { check, path, .. } = &self.submission;
        let is_generated = matches!(path, GatePath::Generate | GatePath::Regen);
        check.as_ref().is_some_and(|check| !is_generated || check == session_check)
    }
}

/// The release of a held verdict by an operator.
#[derive(Debug, Clone)]
pub struct VerdictRelease {
    /// The revision of the held verdict that was decrypted.
    pub held_revision: u64,
    /// The operator's reason.
    pub reason: String,
    /// The operator.
    pub user: DecidingUser,
}
