//! Several opinions on the verdict of an order. Each approved answer of an attempt is one. If the opinions agree, the first answer with the
//! agreed label is delivered as if it were the only one.

use super::{Admission, AdmissionDecision, AdmissionEffects};
use crate::cache::{AdmitVerdict, VerdictCacheError};
use crate::evidence::evidence_of_answer;
use crate::submission::{GenerationTrace, Submission, SubmissionOutcome};
use actors_audit::logger::CommitError;
use actors_audit::logger::handle::CommitDecision;
use domain_base::digest::Sha256Hex;
use domain_base::event::AuditEvent;
use domain_base::gate_path::GatePath;
use domain_rules::CandidateCheck;
use domain_verdict::delivery::VerdictDelivery;
use domain_verdict::event::OrderStopped;
use domain_verdict::opinion::{OpenOpinion, OpinionDecision, OpinionPlan, OrderOpinion, SealedAnswer};
use domain_verdict::order::{Order, OrderState};
use domain_verdict::policy::PolicyAction;
use domain_verdict::session::SessionRecord;
use jiff::Timestamp;
use oracled_store::{EvidenceEntry, JournalRecord, RowExpectation, RowName, RowWrite};
use std::mem;

/// An approved answer as an opinion on the verdict of its order.
pub(super) struct TakenOpinion {
    /// The order before.
    before: Order,
    /// The order with the opinion.
    order: Order,
    decision: OpinionDecision,
    plan: OpinionPlan,
    entry: OrderOpinion,
}

impl Admission {
    /// The opinion that the answer is; `None` if the answer decides alone, or the policy refuses it. If the opinions agree, `admit` has the
    /// first answer with the agreed label afterwards.
    pub(super) async fn take_opinion(
        &self,
        admit: &mut AdmitVerdict,
    ) -> Result<Option<TakenOpinion>, VerdictCacheError> {
        let label = admit.approved.label();
        let Some((session, _)) = self.store.session(&admit.submission.session_id)? else { return Ok(None) };
        let Some(plan) = self.plan_of(admit, Some(&session)) else { return Ok(None) };
        let order = session.order.clone().filter(|order| order.state == OrderState::Generating);
        let asked = order.as_ref().and_then(|order| order.last_attempts.last()?.oracle_id.clone());
        let Some((before, oracle_id)) = order.zip(asked) else { return Ok(None) };
        let first = before.open_opinions.iter().find(|opinion| opinion.verdict_label == label);
        let mut opinion = OpenOpinion { oracle_id: oracle_id.clone(), verdict_label: label, answer: None };
        let tally = plan.tally(before.open_opinions.iter().chain([&opinion]));
        let decision = tally.decision();
        let entry = OrderOpinion {
            attempt: before.attempts,
            oracle_id,
            verdict_label: label,
            verdict_sha256: admit.approved.sha256().clone(),
            tally: tally.clone(),
        };
        let mut answered_by = None;
        match (decision, first) {
            (OpinionDecision::Open, None) => {
                opinion.answer = self.sealed_answer(admit, before.attempts).await?;
            }
            (OpinionDecision::Agreed(_), Some(first)) => {
                answered_by = self.take_first_answer(admit, &session, first).await;
            }
            _ => {}
        }
        let order = Order { answered_by, ..before.clone().with_opinion(opinion, tally) };
        Ok(Some(TakenOpinion { before, order, decision, plan: plan.clone(), entry }))
    }

    /// The opinions that decide on the verdict; `None` if the answer decides alone, or the policy refuses it.
    pub(super) fn plan_of(
        &self,
        admit: &AdmitVerdict,
        session: Option<&SessionRecord>,
    ) -> Option<&OpinionPlan> {
        let application = admit.submission.session_id.application();
        let plan = self.policy.opinion_plan(application, admit.approved.tier())?;
        (is_of_attempt(admit) && !self.is_refused(admit, session)).then_some(plan)
    }

    fn is_refused(&self, admit: &AdmitVerdict, session: Option<&SessionRecord>) -> bool {
        let applied = admit.apply_policy(&self.policy.policies, session);
        applied.is_some_and(|policy| policy.action == PolicyAction::Refuse)
    }

    /// The answer, encrypted until the opinions agree.
    async fn sealed_answer(
        &self,
        admit: &AdmitVerdict,
        attempt: u32,
    ) -> Result<Option<SealedAnswer>, VerdictCacheError> {
        let Some(trace) = &admit.submission.generation_trace else { return Ok(None) };
        let sealed = admit.seal_delivery(&self.policy.key, &self.store, self.clock.now()).await?;
        let check_sha256 = digest_of(admit.submission.check.as_deref());
        let attempt_seq = admit.submission.evidence.first().map(EvidenceEntry::seq);
        let generation = trace.generation.clone();
        Ok(Some(SealedAnswer { attempt, attempt_seq, generation, sealed, check_sha256 }))
    }

    /// Replaces the answer by the `first` one with its label, and returns the attempt of that one. The answer stays if the first one cannot
    /// be decrypted, was not checked against the facts that the session has now, or is refused by the policy of now.
    async fn take_first_answer(
        &self,
        admit: &mut AdmitVerdict,
        session: &SessionRecord,
        first: &OpenOpinion,
    ) -> Option<u32> {
        let Submission { session_id, check, generation_trace, .. } = &admit.submission;
        let (Some(answer), Some(_)) = (&first.answer, generation_trace) else { return None };
        let delivery = match self.policy.key.open(session_id, &answer.sealed).await {
            // deserialization judges the verdict again; the error of the parser may quote it
            Ok(text) => serde_json::from_slice::<VerdictDelivery>(&text)
                .map_err(|_| "the decrypted text is no verdict that the crosscheck approves".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        let evidence = match evidence_of_answer(&self.store, session_id, answer) {
            Ok(Some(evidence)) => Ok(evidence),
            Ok(None) => Err("the log has no entry of the opinion".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        match delivery.and_then(|delivery| Ok((delivery, evidence?))) {
            Ok(_) if answer.check_sha256 != digest_of(check.as_deref()) => {}
            Ok((VerdictDelivery { approved, evaluation_sha256, .. }, evidence)) => {
                let last = (mem::replace(&mut admit.approved, approved), admit.evaluation_sha256.clone());
                admit.evaluation_sha256 = evaluation_sha256;
                if self.is_refused(admit, Some(session)) {
                    (admit.approved, admit.evaluation_sha256) = last;
                } else if let Some(trace) = &mut admit.submission.generation_trace {
                    trace.generation = answer.generation.clone();
                    admit.submission.evidence = evidence;
                    return Some(answer.attempt);
                }
            }
            Err(error) => {
                tracing::warn!(%session_id, error, "could not read the first answer with the agreed label; delivering the last one");
            }
        }
        None
    }

    /// Queues the order for the next opinion, stops it, or delivers the answer on which the opinions agree.
    pub(super) fn decide_with_opinion(
        &self,
        admit: &AdmitVerdict,
        opinion: &TakenOpinion,
        (session, revision): &(SessionRecord, u64),
        sealed: Option<&str>,
    ) -> Result<CommitDecision<AdmissionDecision>, VerdictCacheError> {
        let session_id = &session.session_id;
        // only this attempt changes the opinions
        if session.order.as_ref() != Some(&opinion.before) {
            return Err(CommitError::Stale(RowName::of::<SessionRecord>(session_id)).into());
        }
        let entry = AuditEvent::new(self.clock.now(), session_id.clone(), opinion.entry.clone());
        if let OpinionDecision::Agreed(_) = opinion.decision {
            let session = SessionRecord { order: Some(opinion.order.clone()), ..session.clone() };
            let mut decided = self.decide_delivery(admit, Some(&(session, *revision)), sealed)?;
            if let CommitDecision::Change((outcome, _), record) = &mut decided
                && !matches!(outcome, SubmissionOutcome::RejectedByPolicy { .. })
            {
                // after the entries of the call and the gate
                let trace = admit.submission.generation_trace.as_ref();
                let place = GenerationTrace::entries(trace).count() + admit.judged.len();
                record.events.insert(place.min(record.events.len()), entry);
            }
            return Ok(decided);
        }
        let now = self.clock.now();
        let (record, order) = opinion.record(admit, (session, *revision), entry, now);
        let effects = AdmissionEffects { order_end: Some(order), policy: None };
        Ok(CommitDecision::Change((SubmissionOutcome::Opinion, effects), record))
    }
}

fn digest_of(check: Option<&CandidateCheck>) -> Option<Sha256Hex> {
    check.map(Sha256Hex::of_json)
}

impl TakenOpinion {
    /// The record of an opinion that delivers nothing, and the order after it.
    fn record(
        &self,
        admit: &AdmitVerdict,
        (session, revision): (&SessionRecord, u64),
        entry: AuditEvent,
        now: Timestamp,
    ) -> (JournalRecord, Order) {
        let (session_id, trace) = (&session.session_id, admit.submission.generation_trace.as_ref());
        let used = (GenerationTrace::usage(trace), GenerationTrace::cost(trace));
        let order = self.order.clone();
        let order = match self.decision {
            OpinionDecision::Disagreed => order.opinions_differ(used, &self.plan, now),
            OpinionDecision::Open | OpinionDecision::Agreed(_) => order.opinion_given(used, now),
        };
        let stopped = order.stop_cause.map(|cause| OrderStopped::without_operator(&order, cause));
        let stopped = stopped.map(|stopped| AuditEvent::new(now, session_id.clone(), stopped));
        let mut record =
            GenerationTrace::record(trace, admit.judged.iter().cloned().chain([entry]).chain(stopped));
        record.expect = vec![
            RowExpectation::new::<VerdictDelivery>(session_id, None),
            RowExpectation::new::<SessionRecord>(session_id, Some(revision)),
        ];
        let session = SessionRecord { order: Some(order.clone()), ..session.clone() };
        record.writes = vec![RowWrite::put::<SessionRecord>(&session)];
        (record, order)
    }
}

/// Whether the verdict is the answer of an attempt of an order.
fn is_of_attempt(AdmitVerdict { submission, release, .. }: &AdmitVerdict) -> bool {
    submission.path == GatePath::Generate && release.is_none()
}
