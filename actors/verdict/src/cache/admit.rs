//! Storing an approved verdict: one commit for the verdict, its session, its log entries and the mail that it causes.

mod opinion;

use self::opinion::TakenOpinion;
use super::find::{find_session, mail_queued_event, queue_mail};
use super::{
    FindSessionOutcome, VerdictCache, VerdictCacheError, address_change_event, attempt_end, deliver_order,
};
use crate::cache::find::{find_check_in_force, remove_rejecting_check};
use crate::cache::{AdmitVerdict, DeliveryListeners, VerdictRelease};
use crate::held_key::HeldVerdictKey;
use crate::mail_content::find_prompt_language;
use crate::submission::{GenerationTrace, Submission, SubmissionOutcome};
use actix::{Context, Handler, ResponseFuture};
use actors_audit::logger::handle::CommitDecision;
use actors_audit::logger::{CommitError, LoggerHandle};
use actors_platform::clock::Clock;
use domain_base::caller::DecidingUser;
use domain_base::event::AuditEvent;
use domain_base::gate_path::GatePath;
use domain_base::session_id::{ApplicationName, SessionId};
use domain_verdict::delivery::{RegenNotes, VerdictDelivery};
use domain_verdict::divergence::{DivergenceCheck, DivergenceLevel, NoteLanguage, RegeneratedVerdict};
use domain_verdict::event::{
    OrderPlaced, OrderReleased, OrderStopped, PolicyApplied, RegenDivergenceCheck, VerdictCached,
};
use domain_verdict::generation::GenerationOutcome;
use domain_verdict::label::ProductTier;
use domain_verdict::mail::MailKind;
use domain_verdict::opinion::OpinionPlan;
use domain_verdict::order::{OperatorAction, Order, OrderAction, OrderState, OrderStopCause};
use domain_verdict::policy::{
    AppliedPolicy, DeliveryPolicies, HeldVerdict, HoldEffect, PerTier, PolicyAction,
};
use domain_verdict::prompt::VerdictPrompt;
use domain_verdict::session::{OriginalVerdict, SessionRecord, effect_of_hold};
use jiff::Timestamp;
use oracled_store::{EvidenceEntry, JournalRecord, RowExpectation, RowName, RowWrite, Store, StoreError};
use std::sync::Arc;

/// A record to commit, and its contents.
struct DeliveryRecord {
    record: JournalRecord,
    delivery: Arc<VerdictDelivery>,
    check: Option<DivergenceCheck>,
    effects: AdmissionEffects,
}

/// The effects of an admission that are not part of its commit.
#[derive(Default)]
struct AdmissionEffects {
    /// The order that stopped or ended by it.
    order_end: Option<Order>,
    /// The action of the policy, unless it delivered the verdict.
    policy: Option<PolicyAction>,
}

/// The outcome of an admission, and its effects.
type AdmissionDecision = (SubmissionOutcome, AdmissionEffects);

impl AdmitVerdict {
    /// The outcome for a session in which the verdict cannot be stored. `None` if it can be.
    fn find_obstacle(
        &self,
        there: FindSessionOutcome,
        session: Option<&(SessionRecord, u64)>,
        store: &Store,
    ) -> Result<Option<SubmissionOutcome>, VerdictCacheError> {
        let Submission { session_id, path, .. } = &self.submission;
        let stale = || Err(CommitError::Stale(RowName::of::<SessionRecord>(session_id)).into());
        if let Some(VerdictRelease { held_revision, .. }) = &self.release {
            let is_current = store.held_verdict_revision(session_id)? == Some(*held_revision);
            // a check that refused another verdict meanwhile is in force for the held one, too
            let session = session.map(|(session, _)| session);
            let is_unchecked = self.evaluation_sha256.is_none() && session.is_some_and(|s| s.check.is_some());
            return match there {
                FindSessionOutcome::Held if is_current && !is_unchecked => Ok(None),
                _ => stale(),
            };
        }
        let session = session.map(|(session, _)| session);
        let (check_in_force, _) = find_check_in_force(store, session_id, session)?;
        match there {
            // a verdict is regenerated for a reader, and only for a session that is known
            FindSessionOutcome::Nothing(_) if *path == GatePath::Regen && session.is_none() => stale(),
            // the session was removed meanwhile, and its order with it
            FindSessionOutcome::Nothing(_) if *path == GatePath::Generate && !is_generating(session) => {
                stale()
            }
            // the verdict was not checked by the check that the session has now: the caller must judge it again
            FindSessionOutcome::Nothing(_)
                if check_in_force.is_some_and(|check| !self.is_checked_against(&check)) =>
            {
                stale()
            }
            FindSessionOutcome::Nothing(_) => Ok(None),
            // the verdict was judged, so its log entry is due in any case
            FindSessionOutcome::Cached(cached) => Ok(Some(SubmissionOutcome::Replayed(cached))),
            FindSessionOutcome::Held => Ok(Some(SubmissionOutcome::Held)),
            FindSessionOutcome::Cancelled => Ok(Some(SubmissionOutcome::Cancelled)),
            FindSessionOutcome::Mismatch(mismatch) => Ok(Some(SubmissionOutcome::Mismatch(mismatch))),
        }
    }
}

/// The parts that an admission uses.
struct Admission {
    store: Store,
    log: LoggerHandle,
    clock: Clock,
    listeners: DeliveryListeners,
    policy: PolicyConfig,
}

impl Admission {
    async fn admit(self, mut admit: AdmitVerdict) -> Result<SubmissionOutcome, VerdictCacheError> {
        let opinion = self.take_opinion(&mut admit).await?;
        let Submission { session_id, path, .. } = &admit.submission;
        let sealed = admit.seal(&self.policy, &self.store, self.clock.now()).await?;
        let look = || {
            let stored =
                || Ok(self.store.verdict(session_id)?.map(|(delivery, _)| Arc::new(delivery.into())));
            find_session(&self.store, &admit.submission, stored)
        };
        // The caller has already looked a submitted verdict up. If that has changed since, the record is stale. A generated
        // or a released verdict has a session.
        let is_new = !matches!(path, GatePath::Generate | GatePath::Regen) && admit.release.is_none();
        let mut lookup = is_new.then_some((FindSessionOutcome::Nothing(None), None));
        let admitted = self.log.decide_and_commit(|| {
            let (there, session) = lookup.take().map_or_else(look, Ok)?;
            self.decide(&admit, opinion.as_ref(), there, session.as_ref(), sealed.as_deref())
        });
        let ((admission, effects), _) = admitted.await?;
        if let Some(action) = effects.policy {
            self.listeners.order_metrics.count_policy(session_id.application(), action);
        }
        if let SubmissionOutcome::Regenerated(_, check) = &admission {
            self.listeners.comparisons.count_comparison(check);
        }
        if let Some(order) = &effects.order_end {
            self.listeners.report(session_id, order);
        }
        Ok(admission)
    }

    fn decide(
        &self,
        admit: &AdmitVerdict,
        opinion: Option<&TakenOpinion>,
        there: FindSessionOutcome,
        session: Option<&(SessionRecord, u64)>,
        sealed: Option<&str>,
    ) -> Result<CommitDecision<AdmissionDecision>, VerdictCacheError> {
        if let Some(obstacle) = admit.find_obstacle(there, session, &self.store)? {
            let trace = admit.submission.generation_trace.as_ref();
            let record = GenerationTrace::record(trace, admit.judged.clone());
            return Ok(CommitDecision::Change((obstacle, AdmissionEffects::default()), record));
        }
        match (opinion, session) {
            (Some(opinion), Some(session)) => self.decide_with_opinion(admit, opinion, session, sealed),
            // one answer never decides where several must
            _ if self.plan_of(admit, session.map(|(session, _)| session)).is_some() => {
                Err(CommitError::Stale(RowName::of::<SessionRecord>(&admit.submission.session_id)).into())
            }
            _ => self.decide_delivery(admit, session, sealed),
        }
    }

    /// Delivers the verdict, unless the policy holds or refuses it.
    fn decide_delivery(
        &self,
        admit: &AdmitVerdict,
        session: Option<&(SessionRecord, u64)>,
        sealed: Option<&str>,
    ) -> Result<CommitDecision<AdmissionDecision>, VerdictCacheError> {
        let (store, now) = (&self.store, self.clock.now());
        let known = session.map(|(session, _)| session);
        if let Some(policy) = admit.apply_policy(&self.policy.policies, known) {
            let mut effects = AdmissionEffects { policy: Some(policy.action), ..AdmissionEffects::default() };
            if let (PolicyAction::Hold, Some(sealed)) = (policy.action, sealed) {
                let (record, order) = admit.hold_record(&policy, sealed.to_owned(), session, store, now)?;
                effects.order_end = Some(order);
                return Ok(CommitDecision::Change((SubmissionOutcome::Held, effects), record));
            }
            let record = admit.refusal_record(&policy, now);
            let (decision, causes) = (admit.approved.decision().clone(), policy.causes);
            let refused = SubmissionOutcome::RejectedByPolicy { decision, causes, retry_after: None };
            return Ok(CommitDecision::Change((refused, effects), record));
        }
        let DeliveryRecord { mut record, delivery, check, effects } =
            build_delivery_record(admit, session, store, self.listeners.mails, now)?;
        let session_id = &admit.submission.session_id;
        if session.is_none() {
            let (_, check_revision) = find_check_in_force(store, session_id, None)?;
            remove_rejecting_check(&mut record, session_id, check_revision);
        }
        if admit.release.is_some() {
            remove_held_verdict(&mut record, store, session_id)?;
        }
        let cached = Arc::new(VerdictDelivery::clone(&delivery).into());
        let admission = match check {
            Some(check) => SubmissionOutcome::Regenerated(cached, check),
            None => SubmissionOutcome::Stored(cached),
        };
        Ok(CommitDecision::Change((admission, effects), record))
    }
}

/// Whether the order of a session has an attempt in progress.
fn is_generating(session: Option<&SessionRecord>) -> bool {
    let order = session.and_then(|session| session.order.as_ref());
    order.is_some_and(|order| order.state == OrderState::Generating)
}

/// Builds the record of a delivery: how the verdict was generated and judged, the verdict, its session, and
/// the mail that it causes. For a regenerated verdict it also contains the comparison with the first one.
fn build_delivery_record(
    admit: &AdmitVerdict,
    known: Option<&(SessionRecord, u64)>,
    store: &Store,
    mails: bool,
    now: Timestamp,
) -> Result<DeliveryRecord, StoreError> {
    let AdmitVerdict { submission, approved, judged, evaluation_sha256, release } = admit;
    let Submission { session_id, query, path, generation_trace, .. } = submission;
    let (known, revision) = known.map(|(session, revision)| (session, *revision)).unzip();
    let original = known.and_then(|session| session.original.as_ref());
    // a regeneration for a read does not count as a delivery
    let first = *path != GatePath::Regen && known.is_none_or(|session| session.delivered_sha256.is_none());
    let mut session = session_after(admit, known, first, now);
    let check = comparison(admit, original);
    let language = note_language(admit, original, store)?;
    let delivery = Arc::new(VerdictDelivery {
        session_id: session_id.clone(),
        query: query.clone(),
        approved: approved.clone(),
        cached_at: now,
        regen: check.as_ref().map(|check| RegenNotes::of(check, language)),
        evaluation_sha256: evaluation_sha256.clone(),
    });
    let mut events: Vec<_> = GenerationTrace::entries(generation_trace.as_ref()).collect();
    events.extend(judged.clone());
    events.extend(release.as_ref().map(|release| released_event(admit, release, now)));
    events.push(cached_event(admit, now));
    events.extend(address_change_event(store, known, &session, now)?);
    let trace = generation_trace.as_ref();
    let delivered_order = if first { deliver_order(&session, *path, trace, now) } else { None };
    let (order_end, delivered) = delivered_order.unzip();
    let released = |order: Order| match release {
        Some(VerdictRelease { reason, user, .. }) => order.changed_by_operator(OperatorAction {
            action: OrderAction::Release,
            at: now,
            uid: user.peer.uid,
            user_name: user.name.clone(),
            reason: reason.clone(),
        }),
        None => order,
    };
    let order_end = order_end.map(released);
    session.order = order_end.clone().or(session.order);
    events.extend(delivered);
    let compared = check.clone().map(RegenDivergenceCheck);
    events.extend(compared.map(|kind| AuditEvent::new(now, session_id.clone(), kind)));
    let mut writes = vec![RowWrite::put::<VerdictDelivery>(&delivery)];
    let to = session.customer_email.clone().filter(|_| mails);
    if let (Some(to), Some(kind)) = (to, mail_kind_of_delivery(check.as_ref(), first)) {
        let mail = queue_mail(kind, &delivery, to);
        events.push(mail_queued_event(&mail, now));
        writes.push(RowWrite::put(&mail));
    }
    if known != Some(&session) {
        writes.push(RowWrite::put::<SessionRecord>(&session));
    }
    let expect = vec![
        RowExpectation::new::<VerdictDelivery>(session_id, None),
        RowExpectation::new::<SessionRecord>(session_id, revision),
    ];
    let evidence = submission.evidence.clone();
    let record = JournalRecord { expect, events, evidence, writes, ..JournalRecord::default() };
    let effects = AdmissionEffects { order_end, policy: None };
    Ok(DeliveryRecord { record, delivery, check, effects })
}

/// Compares the verdict with the original, if one is due: for a regenerated verdict, and for a verdict that
/// is submitted in place of a lost one. If the original itself is submitted again, there is no comparison.
fn comparison(admit: &AdmitVerdict, original: Option<&OriginalVerdict>) -> Option<DivergenceCheck> {
    let AdmitVerdict { submission, approved, .. } = admit;
    let Submission { path, generation_trace, .. } = submission;
    let is_the_first =
        original.is_some_and(|original| original.verdict_sha256.as_ref() == Some(approved.sha256()));
    let replaces = *path == GatePath::Regen || (original.is_some() && !is_the_first);
    replaces.then(|| {
        let prompt = prompt_of(submission);
        let (prompt, settings) =
            (prompt.as_ref(), generation_trace.as_ref().map(|trace| &trace.generation.settings));
        let (tier, label, path) = (approved.tier(), approved.label(), *path);
        DivergenceCheck::of(original, &RegeneratedVerdict { tier, label, path, prompt, settings })
    })
}

/// The language of the texts for the customer: that of the prompt of the first verdict, or else of this one.
fn note_language(
    admit: &AdmitVerdict,
    original: Option<&OriginalVerdict>,
    store: &Store,
) -> Result<NoteLanguage, StoreError> {
    let prompts = [original.and_then(|original| original.prompt.clone()), prompt_of(&admit.submission)];
    for prompt in prompts.into_iter().flatten() {
        if let Some(language) = find_prompt_language(store, &prompt)? {
            return Ok(NoteLanguage::of(&language));
        }
    }
    Ok(NoteLanguage::default())
}

/// The prompt of a verdict, if it is known.
fn prompt_of(Submission { prompt, generation_trace, .. }: &Submission) -> Option<VerdictPrompt> {
    let generated = generation_trace.as_ref().map(|trace| trace.generation.prompt());
    generated.or_else(|| prompt.clone())
}

/// The mail that a delivery causes. The first delivery causes the verdict mail, with the disclaimer if the
/// verdict differs from a registered original. A later delivery causes a notice if the divergence is
/// significant.
fn mail_kind_of_delivery(check: Option<&DivergenceCheck>, first: bool) -> Option<MailKind> {
    let level = check.and_then(|check| check.divergence_level);
    match level {
        _ if first => Some(MailKind::Verdict),
        Some(DivergenceLevel::Significant) => Some(MailKind::DivergenceNotice),
        _ => None,
    }
}

fn cached_event(
    AdmitVerdict { submission, approved, evaluation_sha256, .. }: &AdmitVerdict,
    timestamp: Timestamp,
) -> AuditEvent {
    AuditEvent::new(
        timestamp,
        submission.session_id.clone(),
        VerdictCached {
            tier: approved.tier(),
            verdict_label: approved.label(),
            verdict_sha256: approved.sha256().clone(),
            path: submission.path,
            evaluation_sha256: evaluation_sha256.clone(),
        },
    )
}

fn released_event(admit: &AdmitVerdict, release: &VerdictRelease, timestamp: Timestamp) -> AuditEvent {
    let VerdictRelease { reason, user: DecidingUser { peer, name: user_name }, .. } = release.clone();
    let verdict_sha256 = admit.approved.sha256().clone();
    let released = OrderReleased { verdict_sha256, reason, user_name, peer };
    AuditEvent::new(timestamp, admit.submission.session_id.clone(), released)
}

/// The session after the verdict is stored. `first` is true for the first delivery.
fn session_after(
    admit: &AdmitVerdict,
    known: Option<&SessionRecord>,
    first: bool,
    now: Timestamp,
) -> SessionRecord {
    let Submission { session_id, query, customer_email, check, generation_trace, .. } = &admit.submission;
    let new = || SessionRecord::new(session_id.clone(), admit.approved.tier(), query.clone());
    let sha256 = admit.approved.sha256();
    let base = known.cloned().unwrap_or_else(new).owned_by(admit.submission.caller);
    let session = SessionRecord { cached_sha256: Some(sha256.clone()), ..base };
    if !first {
        return session;
    }
    let settings = generation_trace.as_ref().map(|trace| trace.generation.settings.clone());
    let original = || OriginalVerdict {
        reasked: generation_trace.as_ref().is_some_and(|trace| trace.generation.reasked),
        ..OriginalVerdict::delivered(&admit.approved, prompt_of(&admit.submission), settings, now)
    };
    SessionRecord {
        customer_email: customer_email.clone().or(session.customer_email),
        original: Some(session.original.unwrap_or_else(original)),
        delivered_sha256: Some(sha256.clone()),
        check: check.clone(),
        ..session
    }
}

impl Handler<AdmitVerdict> for VerdictCache {
    type Result = ResponseFuture<Result<SubmissionOutcome, VerdictCacheError>>;

    fn handle(&mut self, message: AdmitVerdict, _: &mut Context<Self>) -> Self::Result {
        let admission = Admission {
            store: self.store.clone(),
            log: self.log.clone(),
            clock: self.clock.clone(),
            listeners: self.listeners.clone(),
            policy: self.policy.clone(),
        };
        Box::pin(admission.admit(message))
    }
}

/// The policy beside the gate, and the key of the verdicts that it holds.
#[derive(Debug, Clone)]
pub struct PolicyConfig {
    pub policies: DeliveryPolicies,
    /// The tiers and applications whose orders need several opinions.
    pub opinions: PerTier<Option<OpinionPlan>>,
    pub key: HeldVerdictKey,
}

impl PolicyConfig {
    /// The opinions that decide on verdicts of `tier` in `application`; `None` if one answer does.
    pub(crate) fn opinion_plan(
        &self,
        application: ApplicationName,
        tier: ProductTier,
    ) -> Option<&OpinionPlan> {
        self.opinions.find(application, tier)?.as_ref()
    }

    /// Whether a missing key may be created: a new key could not decrypt the verdicts that are held already. Encrypted opinions and claims of
    /// open orders do not prevent that, since an order continues without them: the last answer with the agreed label is delivered, and the
    /// next prompt names only the rules. Otherwise such an order would wait until the key is restored.
    pub(crate) fn may_create_key(store: &Store) -> Result<bool, StoreError> {
        Ok(!store.has_held_verdicts()?)
    }
}

impl AdmitVerdict {
    /// The action of the policy on the verdict. `None` delivers it.
    pub(super) fn apply_policy(
        &self,
        policies: &DeliveryPolicies,
        session: Option<&SessionRecord>,
    ) -> Option<AppliedPolicy> {
        let AdmitVerdict { submission: Submission { session_id, path, .. }, approved, release, .. } = self;
        let policy = policies.find(session_id.application(), approved.tier())?;
        let original = session.and_then(|session| session.original.as_ref());
        let effect = match release {
            Some(_) => HoldEffect::Deliver,
            None => effect_of_hold(original, approved.sha256(), *path),
        };
        policy.decide_in_session(approved.decision(), effect)
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
        let Submission { session_id, query, path, customer_email, check, prompt, .. } = &self.submission;
        let (known, revision) = known.map(|(session, revision)| (session, *revision)).unzip();
        let trace = self.submission.generation_trace.as_ref();
        let new = || SessionRecord::new(session_id.clone(), self.approved.tier(), query.clone());
        let base = known.cloned().unwrap_or_else(new).owned_by(self.submission.caller);
        let order = base.order.clone().unwrap_or_else(|| Order::placed(now));
        let end = attempt_end(*path, GenerationOutcome::Held, trace);
        let order = order.held_by_policy(policy.causes.clone(), end, now);
        let stopped = OrderStopped::without_operator(&order, OrderStopCause::Policy);
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
            evidence: self.submission.evidence.iter().map(EvidenceEntry::seq).collect(),
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
            let (_, check_revision) = find_check_in_force(store, session_id, None)?;
            remove_rejecting_check(&mut record, session_id, check_revision);
        }
        Ok((record, order))
    }

    /// The encrypted verdict, if the policy may hold it.
    pub(super) async fn seal(
        &self,
        config: &PolicyConfig,
        store: &Store,
        now: Timestamp,
    ) -> Result<Option<String>, VerdictCacheError> {
        let policy = self.apply_policy(&config.policies, None);
        if policy.is_none_or(|policy| policy.action != PolicyAction::Hold) {
            return Ok(None);
        }
        self.seal_delivery(&config.key, store, now).await.map(Some)
    }

    /// The delivery document of the verdict, encrypted.
    async fn seal_delivery(
        &self,
        key: &HeldVerdictKey,
        store: &Store,
        now: Timestamp,
    ) -> Result<String, VerdictCacheError> {
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
        Ok(key.seal(session_id, text, may_create).await?)
    }
}

/// Makes `record` also remove the held verdict of the session. Returns whether there is one. The record is stale if that has changed.
pub(crate) fn remove_held_verdict(
    record: &mut JournalRecord,
    store: &Store,
    session_id: &SessionId,
) -> Result<bool, StoreError> {
    let revision = store.held_verdict_revision(session_id)?;
    record.expect.push(RowExpectation::new::<HeldVerdict>(session_id, revision));
    if revision.is_some() {
        record.writes.push(RowWrite::remove::<HeldVerdict>(session_id));
    }
    Ok(revision.is_some())
}
