//! The message that stores an approved verdict.

use super::VerdictCacheError;
use crate::submission::{Submission, SubmissionOutcome};
use actix::Message;
use domain_base::caller::DecidingUser;
use domain_base::digest::Sha256Hex;
use domain_base::event::AuditEvent;
use domain_base::gate_path::GatePath;
use domain_rules::CandidateCheck;
use domain_verdict::crosscheck::ApprovedVerdict;
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
