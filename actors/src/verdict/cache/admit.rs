//! Storing an approved verdict: one commit for the verdict, its session, its log entries and the mail that it causes.

use super::find::{find_session, mail_queued_event, wake_notifier};
use super::rejecting_checks::{find_check_in_force, remove_rejecting_check};
use super::session_record::{address_change_event, deliver_order};
use super::{FindSessionOutcome, VerdictCache, VerdictCacheError};
use crate::audit::commit_loop::CommitDecision;
use crate::audit::logger::{CommitError, LoggerHandle};
use crate::platform::actor_handle::ActorHandle;
use crate::platform::clock::Clock;
use crate::platform::metrics::ActorMetrics;
use crate::verdict::notifier::Notifier;
use crate::verdict::submission::{GenerationTrace, Submission, SubmissionOutcome};
use actix::{Context, Handler, Message, ResponseFuture};
use jiff::Timestamp;
use oracled_domain::rules::CandidateCheck;
use oracled_domain::verdict::delivery::RegenNotes;
use oracled_domain::verdict::divergence::{DivergenceLevel, RegeneratedVerdict};
use oracled_domain::verdict::mail::MailKind;
use oracled_domain::verdict::order::OrderState;
use oracled_domain::verdict::prompt::VerdictPrompt;
use oracled_domain::verdict::session::OriginalVerdict;
use oracled_domain::{
    ApprovedVerdict, AuditEvent, DivergenceCheck, EventKind, GatePath, MailId, OutboxMail, SessionRecord,
    Sha256Hex, VerdictDelivery,
};
use oracled_store::{JournalRecord, RowExpectation, RowKey, Store, StoreError, TableWrite};
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
}

impl AdmitVerdict {
    /// Whether the rules checked the verdict against the check of its session, or against one of its own.
    fn is_checked_against(&self, session_check: &Arc<CandidateCheck>) -> bool {
        let Submission { check, path, .. } = &self.submission;
        let is_generated = matches!(path, GatePath::Generate | GatePath::Regen);
        check.as_ref().is_some_and(|check| !is_generated || check == session_check)
    }
}

/// A record to commit, and its contents.
struct DeliveryRecord {
    record: JournalRecord,
    delivery: Arc<VerdictDelivery>,
    check: Option<DivergenceCheck>,
    /// The mail that was queued.
    mail_id: Option<MailId>,
    /// Whether an order ends by it.
    ends_order: bool,
}

async fn admit(
    admit: AdmitVerdict,
    store: Store,
    log: LoggerHandle,
    clock: Clock,
    notifier: Option<ActorHandle<Notifier>>,
    metrics: ActorMetrics,
) -> Result<SubmissionOutcome, VerdictCacheError> {
    let Submission { session_id, query, path, generation_trace, .. } = &admit.submission;
    let look = || {
        let stored = || Ok(store.verdict(session_id)?.map(|(delivery, _)| Arc::new(delivery.into())));
        find_session(&store, session_id, admit.approved.tier(), query, stored)
    };
    // The caller has already looked a submitted verdict up. If that has changed since, the record is stale. A generated
    // verdict has a session.
    let is_generated = matches!(path, GatePath::Generate | GatePath::Regen);
    let mut lookup = (!is_generated).then_some((FindSessionOutcome::Nothing(None), None));
    let admitted = log.decide_and_commit(|| {
        let (there, session) = lookup.take().map_or_else(&look, Ok)?;
        let (check_in_force, refusal_revision) =
            find_check_in_force(&store, session_id, session.as_ref().map(|(session, _)| session))?;
        let stale = || CommitError::Stale(RowKey::Session(session_id.clone()));
        let seen = match there {
            // a verdict is regenerated for a reader, and only for a session that is known
            FindSessionOutcome::Nothing(_) if *path == GatePath::Regen && session.is_none() => {
                return Err(stale().into());
            }
            // the session was removed meanwhile, and its order with it
            FindSessionOutcome::Nothing(_)
                if *path == GatePath::Generate && !is_generating(session.as_ref()) =>
            {
                return Err(stale().into());
            }
            // the verdict was not checked by the check that the session has now: the caller must judge it again
            FindSessionOutcome::Nothing(_)
                if check_in_force.is_some_and(|check| !admit.is_checked_against(&check)) =>
            {
                return Err(stale().into());
            }
            FindSessionOutcome::Nothing(_) => None,
            // the verdict was judged, so its log entry is due in any case
            FindSessionOutcome::Cached(cached) => Some(SubmissionOutcome::Replayed(cached)),
            FindSessionOutcome::Mismatch(mismatch) => Some(SubmissionOutcome::Mismatch(mismatch)),
        };
        if let Some(seen) = seen {
            let record = GenerationTrace::record(generation_trace.as_ref(), admit.judged.clone());
            return Ok(CommitDecision::Change((seen, None, false), record));
        }
        let mails = notifier.is_some();
        let DeliveryRecord { mut record, delivery, check, mail_id, ends_order } =
            build_delivery_record(&admit, session.as_ref(), &store, mails, clock.now())?;
        if session.is_none() {
            remove_rejecting_check(&mut record, session_id, refusal_revision);
        }
        let cached = Arc::new(VerdictDelivery::clone(&delivery).into());
        let admission = match check {
            Some(check) => SubmissionOutcome::Regenerated(cached, check),
            None => SubmissionOutcome::Stored(cached),
        };
        Ok::<_, VerdictCacheError>(CommitDecision::Change((admission, mail_id, ends_order), record))
    });
    let ((admission, mail_id, ends_order), _) = admitted.await?;
    if ends_order {
        metrics.orders.count_end(session_id.application(), OrderState::Delivered);
    }
    wake_notifier(notifier.as_ref(), mail_id);
    if let SubmissionOutcome::Regenerated(_, check) = &admission {
        metrics.generation.count_comparison(check);
    }
    Ok(admission)
}

/// Whether the order of a session has an attempt in progress.
fn is_generating(session: Option<&(SessionRecord, u64)>) -> bool {
    let order = session.and_then(|(session, _)| session.order.as_ref());
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
    let AdmitVerdict { submission, approved, judged, evaluation_sha256 } = admit;
    let Submission { session_id, query, path, generation_trace, .. } = submission;
    let (known, revision) = known.map(|(session, revision)| (session, *revision)).unzip();
    let original = known.and_then(|session| session.original.as_ref());
    // a regeneration for a read does not count as a delivery
    let first = *path != GatePath::Regen && known.is_none_or(|session| session.delivered_sha256.is_none());
    let mut session = session_after(admit, known, first, now);
    let check = comparison(admit, original);
    let delivery = Arc::new(VerdictDelivery {
        session_id: session_id.clone(),
        query: query.clone(),
        approved: approved.clone(),
        cached_at: now,
        regen: check.as_ref().map(RegenNotes::of),
        evaluation_sha256: evaluation_sha256.clone(),
    });
    let mut events: Vec<_> = GenerationTrace::entries(generation_trace.as_ref()).collect();
    events.extend(judged.clone());
    events.push(cached_event(approved, &session, *path, now));
    events.extend(address_change_event(store, known, &session, now)?);
    let trace = generation_trace.as_ref();
    let used = (GenerationTrace::usage(trace), GenerationTrace::cost(trace));
    let delivered_order = if first { deliver_order(&session, *path, used, now) } else { None };
    let ends_order = delivered_order.is_some();
    if let Some((order, delivered)) = delivered_order {
        session.order = Some(order);
        events.push(delivered);
    }
    let compared = check.clone().map(EventKind::RegenDivergenceCheck);
    events.extend(compared.map(|kind| AuditEvent::new(now, session_id.clone(), kind)));
    let mut writes = vec![TableWrite::PutVerdict(Arc::clone(&delivery))];
    let to = session.customer_email.clone().filter(|_| mails);
    let mut mail_id = None;
    if let (Some(to), Some(kind)) = (to, mail_kind_of_delivery(check.as_ref(), first)) {
        let mail = OutboxMail::queued(kind, Arc::clone(&delivery), to);
        mail_id = Some(mail.standing.mail_id.clone());
        events.push(mail_queued_event(&mail, now));
        writes.push(TableWrite::PutMail(Arc::new(mail)));
    }
    if known != Some(&session) {
        writes.push(TableWrite::PutSession(session.into()));
    }
    let expect = vec![
        RowExpectation { row: RowKey::Verdict(session_id.clone()), revision: None },
        RowExpectation { row: RowKey::Session(session_id.clone()), revision },
    ];
    let record = JournalRecord { expect, events, writes, ..JournalRecord::default() };
    Ok(DeliveryRecord { record, delivery, check, mail_id, ends_order })
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
    approved: &ApprovedVerdict,
    session: &SessionRecord,
    path: GatePath,
    timestamp: Timestamp,
) -> AuditEvent {
    AuditEvent::new(
        timestamp,
        session.session_id.clone(),
        EventKind::VerdictCached {
            tier: approved.tier(),
            verdict_label: approved.label(),
            verdict_sha256: approved.sha256().clone(),
            path,
        },
    )
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
    let session = SessionRecord { cached_sha256: Some(sha256.clone()), ..known.cloned().unwrap_or_else(new) };
    if !first {
        return session;
    }
    let settings = generation_trace.as_ref().map(|trace| trace.generation.settings.clone());
    let original =
        || OriginalVerdict::delivered(&admit.approved, prompt_of(&admit.submission), settings, now);
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
        let (store, log, clock) = (self.store.clone(), self.log.clone(), self.clock.clone());
        Box::pin(admit(message, store, log, clock, self.notifier.clone(), self.metrics.clone()))
    }
}
