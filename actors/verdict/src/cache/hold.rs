//! Verdicts that the policy holds: one commit for the encrypted verdict, its session with a held order, and their entries.

use super::VerdictCacheError;
use super::admission::AdmitVerdict;
use super::rejecting_checks::{find_check_in_force, remove_rejecting_check};
use super::session_record::{address_change_event, attempt_end};
use crate::held_key::HeldVerdictKey;
use crate::submission::{GenerationTrace, Submission};
use domain_base::event::AuditEvent;
use domain_base::gate_path::GatePath;
use domain_base::session_id::SessionId;
use domain_verdict::delivery::VerdictDelivery;
use domain_verdict::event::{OrderPlaced, OrderStopped, PolicyApplied};
use domain_verdict::generation_outcome::GenerationOutcome;
use domain_verdict::held::HeldVerdict;
use domain_verdict::order::{Order, OrderStopCause};
use domain_verdict::policy::{AppliedPolicy, DeliveryPolicies, PolicyAction};
use domain_verdict::session::SessionRecord;
use jiff::Timestamp;
use oracled_store::{JournalRecord, RowExpectation, RowWrite, Store, StoreError};

/// The policy beside the gate, and the key of the verdicts that it holds.
#[derive(Debug, Clone)]
pub struct PolicyConfig {
    pub policies: DeliveryPolicies,
    pub key: HeldVerdictKey,
}

impl PolicyConfig {
    /// Whether a missing key may be created: a new key could not decrypt the verdicts that are held already.
    pub(crate) fn may_create_key(store: &Store) -> Result<bool, StoreError> {
        Ok(!store.has_held_verdicts()?)
    }
}

impl AdmitVerdict {
    /// The action of the policy on the verdict. `None` delivers it.
    ///
    /// The first verdict of a session is never held once it was delivered. Another verdict in its place is refused, because
    /// a held order would keep readers from the regeneration of the first one.
    pub(super) fn apply_policy(
        &self,
        policies: &DeliveryPolicies,
        session: Option<&SessionRecord>,
    ) -> Option<AppliedPolicy> {
        let AdmitVerdict { submission: Submission { session_id, path, .. }, approved, release, .. } = self;
        let policy = policies.find(session_id.application(), approved.tier())?.decide(approved.decision())?;
        let original = session.and_then(|session| session.original.as_ref());
        let is_original =
            original.is_some_and(|original| original.verdict_sha256.as_ref() == Some(approved.sha256()));
        match policy.action {
            PolicyAction::Hold if release.is_some() || is_original => None,
            PolicyAction::Hold if *path == GatePath::Regen || original.is_some() => {
                Some(AppliedPolicy { action: PolicyAction::Refuse, ..policy })
            }
            PolicyAction::Hold | PolicyAction::Refuse => Some(policy),
        }
    }

    /// The record of a verdict that the policy refused.
    pub(super) fn refusal_record(&self, policy: &AppliedPolicy, now: Timestamp) -> JournalRecord {
        let events = self.judged.iter().cloned().chain([self.policy_event(policy, now)]);
        GenerationTrace::record(self.submission.generation_trace.as_ref(), events)
    }

    fn policy_event(&self, policy: &AppliedPolicy, now: Timestamp) -> AuditEvent {
        let Submission { session_id, path, .. } = &self.submission;
        let verdict_sha256 = self.approved.sha256().clone();
        let applied = PolicyApplied { policy: policy.clone(), verdict_sha256, path: *path };
        AuditEvent::new(now, session_id.clone(), applied)
    }

    /// The record of a verdict that the policy holds, and its order. `sealed` is the encrypted verdict.
    pub(super) fn hold_record(
        &self,
        policy: &AppliedPolicy,
        sealed: String,
        known: Option<&(SessionRecord, u64)>,
        store: &Store,
        now: Timestamp,
    ) -> Result<(JournalRecord, Order), StoreError> {
        let Submission { session_id, query, path, customer_email, check, prompt, generation_trace, .. } =
            &self.submission;
        let (known, revision) = known.map(|(session, revision)| (session, *revision)).unzip();
        let trace = generation_trace.as_ref();
        let new = || SessionRecord::new(session_id.clone(), self.approved.tier(), query.clone());
        let base = known.cloned().unwrap_or_else(new).owned_by(self.submission.caller);
        let order = base.order.clone().unwrap_or_else(|| Order::placed(now));
        let end = attempt_end(*path, GenerationOutcome::Held, trace);
        let order = order.held_by_policy(policy.causes.clone(), end, now);
        let stopped = OrderStopped {
            state: order.state,
            cause: OrderStopCause::Policy,
            attempts: order.attempts,
            reason: None,
            user_name: None,
            peer: None,
        };
        let session = SessionRecord {
            customer_email: customer_email.clone().or(base.customer_email),
            check: check.clone().or(base.check),
            order: Some(order.clone()),
            ..base
        };
        let held = HeldVerdict {
            session_id: session_id.clone(),
            held_at: now,
            path: *path,
            causes: policy.causes.clone(),
            verdict_sha256: self.approved.sha256().clone(),
            generation: trace.map(|trace| trace.generation.clone()),
            prompt: prompt.clone(),
            sealed,
        };
        let mut record = self.refusal_record(policy, now);
        if known.is_none_or(|session| session.order.is_none()) {
            let placed = OrderPlaced {
                tier: session.tier,
                query_preview: session.query.preview(),
                has_email: session.customer_email.is_some(),
            };
            record.events.push(AuditEvent::new(now, session_id.clone(), placed));
        }
        record.events.extend(address_change_event(store, known, &session, now)?);
        record.events.push(AuditEvent::new(now, session_id.clone(), stopped));
        record.expect = vec![
            RowExpectation::new::<VerdictDelivery>(session_id, None),
            RowExpectation::new::<SessionRecord>(session_id, revision),
            RowExpectation::new::<HeldVerdict>(session_id, None),
        ];
        record.writes = vec![RowWrite::put::<HeldVerdict>(&held), RowWrite::put::<SessionRecord>(&session)];
        if known.is_none() {
            let (_, refusal_revision) = find_check_in_force(store, session_id, None)?;
            remove_rejecting_check(&mut record, session_id, refusal_revision);
        }
        Ok((record, order))
    }

    /// The encrypted verdict, if the policy may hold it.
    pub(super) async fn seal(
        &self,
        PolicyConfig { policies, key }: &PolicyConfig,
        store: &Store,
        now: Timestamp,
    ) -> Result<Option<String>, VerdictCacheError> {
        let policy = self.apply_policy(policies, None);
        if policy.is_none_or(|policy| policy.action != PolicyAction::Hold) {
            return Ok(None);
        }
        let Submission { session_id, query, .. } = &self.submission;
        let delivery = VerdictDelivery {
            session_id: session_id.clone(),
            query: query.clone(),
            approved: self.approved.clone(),
            cached_at: now,
            regen: None,
            evaluation_sha256: self.evaluation_sha256.clone(),
        };
        let text = serde_json::to_vec(&delivery).expect("a delivery is plain data with string keys");
        let may_create = PolicyConfig::may_create_key(store)?;
        Ok(Some(key.seal(session_id, text, may_create).await?))
    }
}

/// Makes `record` also remove the held verdict of the session, if there is one. The record is stale if that has changed.
pub(crate) fn remove_held_verdict(
    record: &mut JournalRecord,
    store: &Store,
    session_id: &SessionId,
) -> Result<(), StoreError> {
    let revision = store.held_verdict_revision(session_id)?;
    record.expect.push(RowExpectation::new::<HeldVerdict>(session_id, revision));
    if revision.is_some() {
        record.writes.push(RowWrite::remove::<HeldVerdict>(session_id));
    }
    Ok(())
}
