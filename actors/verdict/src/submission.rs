//! A submitted verdict and its outcome. All steps from the route to the cache share these two types.

use bytes::Bytes;
use domain_base::event::AuditEvent;
use domain_base::gate_path::GatePath;
use domain_base::payload::VerdictPayload;
use domain_base::session_id::SessionId;
use domain_rules::{CandidateCheck, RulesEvaluation};
use domain_verdict::cost::ModelCost;
use domain_verdict::crosscheck::CrosscheckDecision;
use domain_verdict::delivery::VerdictDelivery;
use domain_verdict::divergence::DivergenceCheck;
use domain_verdict::event::OracleInteraction;
use domain_verdict::generation::{ModelTokenUsage, VerdictGeneration};
use domain_verdict::label::ProductTier;
use domain_verdict::policy::{PolicyCause, join_causes};
use domain_verdict::prompt::VerdictPrompt;
use domain_verdict::query::CustomerQuery;
use domain_verdict::rejection::AnswerRejection;
use domain_verdict::rules_gate::RulesGateRejection;
use domain_verdict::session::{CustomerEmail, SessionCaller, SessionMismatch, SessionRecord};
use oracled_store::{EvidenceEntry, JournalRecord};
use std::sync::Arc;
use std::time::Duration;

/// A verdict to judge and deliver, or to generate first.
#[derive(Debug, Clone)]
pub struct Submission {
    /// The session of the verdict.
    pub session_id: SessionId,
    /// The caller of the request.
    pub caller: SessionCaller,
    /// The tier that was bought.
    pub tier: ProductTier,
    /// The question.
    pub query: CustomerQuery,
    /// The verdict; `None` until the model has generated it.
    pub payload: Option<VerdictPayload>,
    /// The address to which the verdict is mailed.
    pub customer_email: Option<CustomerEmail>,
    /// The validated check against facts. The session stores it.
    pub check: Option<Arc<CandidateCheck>>,
    /// The path on which the verdict arrived.
    pub path: GatePath,
    /// The prompt of a submitted verdict, if the caller named it.
    pub prompt: Option<VerdictPrompt>,
    /// How the model generated the verdict; `None` for a submitted one.
    pub generation_trace: Option<GenerationTrace>,
    /// The entries of earlier commits from which its delivery follows: the attempt that generated it, or those of a kept answer.
    pub evidence: Vec<EvidenceEntry>,
}

impl Submission {
    /// The verdict to generate for the order of a session.
    pub(crate) fn of_order(session: &SessionRecord) -> Self {
        Self {
            session_id: session.session_id.clone(),
            caller: SessionCaller::Daemon,
            tier: session.tier,
            query: session.query.clone(),
            payload: None,
            // the session has the address, which may be corrected during the attempt
            customer_email: None,
            check: session.check.clone(),
            path: GatePath::Generate,
            prompt: None,
            generation_trace: None,
            evidence: Vec::new(),
        }
    }
}

/// How the model generated a verdict.
#[derive(Debug, Clone)]
pub struct GenerationTrace {
    /// The prompt and the settings.
    pub generation: VerdictGeneration,
    /// The log events of the model calls.
    pub interactions: Vec<AuditEvent>,
}

impl GenerationTrace {
    /// The tokens used by the model calls.
    pub(crate) fn usage(trace: Option<&Self>) -> Option<ModelTokenUsage> {
        ModelTokenUsage::sum(Self::entries(trace).filter_map(|event| OracleInteraction::usage_of(&event)))
    }

    /// The cost of the model calls.
    pub(crate) fn cost(trace: Option<&Self>) -> Option<ModelCost> {
        ModelCost::sum(
            Self::entries(trace).filter_map(|event| OracleInteraction::cost_of(&event)).map(|sum| sum.cost),
        )
    }

    /// The log entries of the model calls.
    pub(crate) fn entries(trace: Option<&Self>) -> impl Iterator<Item = AuditEvent> {
        trace.into_iter().flat_map(|trace| trace.interactions.iter().cloned())
    }

    /// A record of the model calls, followed by `then`.
    pub(crate) fn record(trace: Option<&Self>, then: impl IntoIterator<Item = AuditEvent>) -> JournalRecord {
        JournalRecord { events: Self::entries(trace).chain(then).collect(), ..JournalRecord::default() }
    }
}

/// The outcome of a submission. Its log entries are durable in every case.
#[derive(Debug, Clone)]
pub enum SubmissionOutcome {
    /// The verdict was only judged, as requested.
    Checked(CrosscheckDecision),
    /// The verdict passed and is delivered.
    Stored(Arc<CachedVerdict>),
    /// The verdict passed, replaces a lost one, and was compared with the original.
    Regenerated(Arc<CachedVerdict>, DivergenceCheck),
    /// The session already has a verdict, which is returned.
    Replayed(Arc<CachedVerdict>),
    /// The request contradicts the session.
    Mismatch(SessionMismatch),
    /// The crosscheck rejected the verdict. No part of it is stored.
    RejectedByCrosscheck {
        decision: CrosscheckDecision,
        /// The time until the session's verdict may be regenerated again; `None` unless this was a regeneration.
        retry_after: Option<Duration>,
    },
    /// The crosscheck approved the verdict, but the rules rejected it. No part of it is stored.
    RejectedByRules {
        evaluation: Arc<RulesEvaluation>,
        /// The rules with the claims that they found fault with.
        rejection: RulesGateRejection,
        /// The time until the session's verdict may be regenerated again; `None` unless this was a regeneration.
        retry_after: Option<Duration>,
    },
    /// The gate approved the verdict, but the policy refused it. No part of it is stored.
    RejectedByPolicy {
        decision: CrosscheckDecision,
        causes: Vec<PolicyCause>,
        /// The time until the session's verdict may be regenerated again; `None` unless this was a regeneration.
        retry_after: Option<Duration>,
    },
    /// The policy holds this verdict, or held an earlier one of the session.
    Held,
    /// The verdict passed, and its order waits for the opinions of other models, or was stopped because they differ.
    Opinion,
    /// The application or an operator cancelled the order of the session. No part of the verdict is stored.
    Cancelled,
}

impl SubmissionOutcome {
    /// Why the gate rejected the verdict, without its text; `None` unless it did.
    pub(crate) fn rejection_cause(&self) -> Option<String> {
        match self {
            Self::RejectedByCrosscheck { decision, .. } => {
                let (reason, coherence): (&str, _) =
                    (decision.crosscheck_reason.into(), decision.coherence_score);
                let flags = AnswerRejection::by_crosscheck(decision);
                Some(format!(
                    "the crosscheck rejected the verdict: {reason}, coherence {coherence:.4}: {flags}"
                ))
            }
            Self::RejectedByRules { rejection, .. } => {
                let rejection = &rejection.rejection;
                let why = if rejection.is_empty() {
                    ": a rule could not be applied".to_owned()
                } else {
                    format!(": {rejection}")
                };
                Some(format!("the rules rejected the verdict{why}"))
            }
            Self::RejectedByPolicy { causes, .. } => {
                Some(format!("the policy refused the verdict: {}", join_causes(causes)))
            }
            _ => None,
        }
    }

    /// The time until the session's verdict may be regenerated again, if this was a rejected regeneration.
    pub(crate) const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RejectedByCrosscheck { retry_after, .. }
            | Self::RejectedByRules { retry_after, .. }
            | Self::RejectedByPolicy { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Returns the outcome with `retry_after` set, if it is a rejection.
    #[must_use]
    pub(crate) fn with_retry_after(mut self, wait: Option<Duration>) -> Self {
        if let Self::RejectedByCrosscheck { retry_after, .. }
        | Self::RejectedByRules { retry_after, .. }
        | Self::RejectedByPolicy { retry_after, .. } = &mut self
        {
            *retry_after = wait;
        }
        self
    }
}

/// A delivered verdict as the document of its response.
#[derive(Debug)]
pub struct CachedVerdict {
    /// The JSON document.
    pub body: Bytes,
}

impl From<VerdictDelivery> for CachedVerdict {
    fn from(delivery: VerdictDelivery) -> Self {
        // its readers are requests of the application of the session
        let delivery = VerdictDelivery { session_id: delivery.session_id.into_local(), ..delivery };
        let body = serde_json::to_vec(&delivery).expect("a delivery is plain data with string keys");
        Self { body: body.into() }
    }
}
