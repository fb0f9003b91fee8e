//! Storing an approved verdict: one commit for the verdict, its session, its log entries and the mail that it causes.

use super::find::{known, queued, wake};
use super::refuse::{in_force, refusal_key, take_over};
use super::session_record::address_change;
use super::{Cache, CacheError, Known};
use crate::audit::commit_loop::Decided;
use crate::audit::logger::{CommitError, Log};
use crate::platform::caller::uid;
use crate::platform::clock::Clock;
use crate::platform::door::Door;
use crate::platform::metrics::Metrics;
use crate::verdict::notifier::Notifier;
use crate::verdict::submission::{Made, Submission, SubmissionOutcome};
use actix::{Context, Handler, Message, ResponseFuture};
use jiff::Timestamp;
use oracled_domain::rules::Check;
use oracled_domain::verdict::delivery::Regen;
use oracled_domain::verdict::divergence::{DivergenceLevel, Regenerated};
use oracled_domain::verdict::mail::MailKind;
use oracled_domain::verdict::session::{Mismatch, Original};
use oracled_domain::{
    Approved, Delivery, DivergenceCheck, Event, EventKind, GatePath, Mail, MailId, Session, Sha256Hex,
};
use oracled_store::{Expect, Record, RowKey, Store, StoreError, Write};
use std::sync::Arc;

/// Stores an approved verdict with its session and their log entries, as one commit.
#[derive(Debug, Message)]
#[rtype(result = "Result<SubmissionOutcome, CacheError>")]
pub struct Admit {
    /// The submission; its payload is `approved` now.
    pub submission: Submission,
    /// The verdict.
    pub approved: Approved,
    /// The log entries of the gate.
    pub judged: Vec<Event>,
    /// The digest of the evaluation by the rules, if the submission has a check.
    pub evaluation_sha256: Option<Sha256Hex>,
}

impl Admit {
    /// Whether the rules checked the verdict against the check of its session, or against one of its own.
    fn is_checked_against(&self, kept: &Arc<Check>) -> bool {
        let Submission { check, path, .. } = &self.submission;
        check.as_ref().is_some_and(|check| *path != GatePath::Regen || check == kept)
    }
}

/// A record to commit, and its contents.
struct Delivered {
    record: Record,
    delivery: Arc<Delivery>,
    check: Option<DivergenceCheck>,
    /// The mail that was queued.
    mail_id: Option<MailId>,
}

async fn admit(
    admit: Admit,
    store: Store,
    log: Log,
    clock: Clock,
    notifier: Option<Door<Notifier>>,
    metrics: Metrics,
) -> Result<SubmissionOutcome, CacheError> {
    let Submission { session_id, query, path, made, .. } = &admit.submission;
    let look = || {
        let stored = || Ok(store.verdict(session_id)?.map(|(delivery, _)| Arc::new(delivery.into())));
        known(&store, session_id, admit.approved.tier(), query, stored)
    };
    // The caller has already looked a submitted verdict up. If that has changed since, the record is stale.
    let mut looked = (*path != GatePath::Regen).then_some((Known::Nothing(None), None));
    let admitted = log.decide_and_commit(|| {
        let (there, session) = looked.take().map_or_else(&look, Ok)?;
        let (kept, refusal_revision) =
            in_force(&store, session_id, session.as_ref().map(|(session, _)| session))?;
        let foreign = session.as_ref().is_some_and(|(session, _)| session.is_foreign_to(uid()));
        let stale = || CommitError::Stale(RowKey::Session(session_id.clone()));
        let seen = match there {
            // a verdict is regenerated for a reader, and only for a session that is known
            Known::Nothing(_) if *path == GatePath::Regen && session.is_none() => {
                return Err(stale().into());
            }
            Known::Nothing(_) if *path != GatePath::Regen && foreign => {
                Some(SubmissionOutcome::Mismatch(Mismatch::Owner))
            }
            // the verdict was not checked by the check that the session has now: the caller must judge it again
            Known::Nothing(_) if kept.is_some_and(|kept| !admit.is_checked_against(&kept)) => {
                return Err(stale().into());
            }
            Known::Nothing(_) => None,
            // the verdict was judged, so its log entry is due in any case
            Known::Cached(cached) => Some(SubmissionOutcome::Replayed(cached)),
            Known::Mismatch(mismatch) => Some(SubmissionOutcome::Mismatch(mismatch)),
        };
        if let Some(seen) = seen {
            let record = Made::record(made.as_ref(), admit.judged.clone());
            return Ok(Decided::Change((seen, None), record));
        }
        let mails = notifier.is_some();
        let Delivered { mut record, delivery, check, mail_id } =
            delivered(&admit, session.as_ref(), &store, mails, clock.now())?;
        if session.is_none() {
            take_over(&mut record, refusal_key(session_id), refusal_revision);
        }
        let cached = Arc::new(Delivery::clone(&delivery).into());
        let admission = match check {
            Some(check) => SubmissionOutcome::Regenerated(cached, check),
            None => SubmissionOutcome::Stored(cached),
        };
        Ok::<_, CacheError>(Decided::Change((admission, mail_id), record))
    });
    let ((admission, mail_id), _) = admitted.await?;
    wake(notifier.as_ref(), mail_id);
    if let SubmissionOutcome::Regenerated(_, check) = &admission {
        metrics.making.compared(check);
    }
    Ok(admission)
}

/// Builds the record of a delivery: how the verdict was generated and judged, the verdict, its session, and the mail that
/// it causes. For a regenerated verdict it also contains the comparison with the first one.
fn delivered(
    admit: &Admit,
    known: Option<&(Session, u64)>,
    store: &Store,
    mails: bool,
    now: Timestamp,
) -> Result<Delivered, StoreError> {
    let Admit { submission, approved, judged, evaluation_sha256 } = admit;
    let Submission { session_id, query, path, made, .. } = submission;
    let (known, revision) = known.map(|(session, revision)| (session, *revision)).unzip();
    let original = known.and_then(|session| session.original.as_ref());
    // a regeneration for a read does not count as a delivery
    let first = *path != GatePath::Regen && known.is_none_or(|session| session.delivered_sha256.is_none());
    let session = session_after(admit, known, first, now);
    let check = comparison(admit, original);
    let delivery = Arc::new(Delivery {
        session_id: session_id.clone(),
        query: query.clone(),
        approved: approved.clone(),
        cached_at: now,
        regen: check.as_ref().map(Regen::of),
        evaluation_sha256: evaluation_sha256.clone(),
    });
    let mut events: Vec<_> = Made::entries(made.as_ref()).collect();
    events.extend(judged.clone());
    events.push(cached(approved, &session, *path, now));
    events.extend(address_change(store, known, &session, now)?);
    let compared = check.clone().map(EventKind::RegenDivergenceCheck);
    events.extend(compared.map(|kind| Event::new(now, session_id.clone(), kind)));
    let mut writes = vec![Write::PutVerdict(Arc::clone(&delivery))];
    let to = session.customer_email.clone().filter(|_| mails);
    let mut mail_id = None;
    if let (Some(to), Some(kind)) = (to, causes(check.as_ref(), first)) {
        let mail = Mail::queued(kind, Arc::clone(&delivery), to);
        mail_id = Some(mail.standing.mail_id.clone());
        events.push(queued(&mail, now));
        writes.push(Write::PutMail(Arc::new(mail)));
    }
    if known != Some(&session) {
        writes.push(Write::PutSession(session.into()));
    }
    let expect = vec![
        Expect { row: RowKey::Verdict(session_id.clone()), revision: None },
        Expect { row: RowKey::Session(session_id.clone()), revision },
    ];
    let record = Record { expect, events, writes, ..Record::default() };
    Ok(Delivered { record, delivery, check, mail_id })
}

/// Compares the verdict with the original, if one is due: for a regenerated verdict, and for a verdict that is submitted in
/// place of a lost one. If the original itself is submitted again, there is no comparison.
fn comparison(admit: &Admit, original: Option<&Original>) -> Option<DivergenceCheck> {
    let Admit { submission: Submission { path, made, .. }, approved, .. } = admit;
    let is_the_first =
        original.is_some_and(|original| original.verdict_sha256.as_ref() == Some(approved.sha256()));
    let replaces = *path == GatePath::Regen || (original.is_some() && !is_the_first);
    replaces.then(|| {
        let generation = made.as_ref().map(|made| &made.generation);
        let (tier, label, path) = (approved.tier(), approved.label(), *path);
        DivergenceCheck::of(original, &Regenerated { tier, label, path, generation })
    })
}

/// The mail that a delivery causes. The first delivery causes the verdict mail, with the disclaimer if the verdict differs
/// from a registered original. A later delivery causes a notice if the divergence is significant.
fn causes(check: Option<&DivergenceCheck>, first: bool) -> Option<MailKind> {
    let level = check.and_then(|check| check.divergence_level);
    match level {
        _ if first => Some(MailKind::Verdict),
        Some(DivergenceLevel::Significant) => Some(MailKind::DivergenceNotice),
        _ => None,
    }
}

fn cached(approved: &Approved, session: &Session, path: GatePath, timestamp: Timestamp) -> Event {
    Event::new(
        timestamp,
        session.session_id.clone(),
        EventKind::VerdictCached {
            owner_uid: session.owner_uid,
            tier: approved.tier(),
            verdict_label: approved.label(),
            verdict_sha256: approved.sha256().clone(),
            path,
        },
    )
}

/// The session after the verdict is stored. `first` is true for the first delivery.
fn session_after(admit: &Admit, known: Option<&Session>, first: bool, now: Timestamp) -> Session {
    let Submission { session_id, query, customer_email, check, made, .. } = &admit.submission;
    let new = || Session::new(session_id.clone(), admit.approved.tier(), query.clone(), uid());
    let sha256 = admit.approved.sha256();
    let session = Session { cached_sha256: Some(sha256.clone()), ..known.cloned().unwrap_or_else(new) };
    if !first {
        return session;
    }
    let generation = made.as_ref().map(|made| made.generation.clone());
    let original = || Original::delivered(&admit.approved, generation, now);
    Session {
        customer_email: customer_email.clone().or(session.customer_email),
        original: Some(session.original.unwrap_or_else(original)),
        delivered_sha256: Some(sha256.clone()),
        check: check.clone(),
        ..session
    }
}

impl Handler<Admit> for Cache {
    type Result = ResponseFuture<Result<SubmissionOutcome, CacheError>>;

    fn handle(&mut self, message: Admit, _: &mut Context<Self>) -> Self::Result {
        let (store, log, clock) = (self.store.clone(), self.log.clone(), self.clock.clone());
        Box::pin(admit(message, store, log, clock, self.notifier.clone(), self.metrics.clone()))
    }
}
