//! Listing the outbox, and actions of administrators. Each action and its log entry are one commit.

use super::attempt::MailStateChange;
use super::{Notifier, ReportMailState};
use crate::audit::commit_loop::CommitDecision;
use crate::audit::logger::{CommitError, LoggerHandle};
use crate::platform::clock::Clock;
use crate::platform::in_flight::InFlightClaim;
use actix::{Addr, AsyncContext, Context, Handler, Message, ResponseFuture};
use jiff::Timestamp;
use oracled_domain::verdict::mail::MailState;
use oracled_domain::{AuditEvent, EventKind, MailId, OutboxMail, PeerCredentials};
use oracled_store::{JournalRecord, RowExpectation, RowKey, Store, StoreError, TableWrite};
use std::future::ready;
use std::sync::Arc;
use tokio::task::spawn_blocking;

/// Why an administrator's action failed. Nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum OutboxError {
    /// The outbox has no such mail.
    #[error("no mail {0} is in the outbox")]
    Unknown(MailId),
    #[error("mail {0} is being sent right now, or changed by another request; try again")]
    InFlight(MailId),
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The change could not be committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// The task that reads the outbox panicked.
    #[error("the outbox could not be read: {0}")]
    Reading(String),
}

/// Returns mails in the order of their ids.
#[derive(Debug, Message)]
#[rtype(result = "Result<Vec<MailState>, OutboxError>")]
pub struct ListMails {
    /// Only mails whose id is greater than this one.
    pub after: Option<MailId>,
    /// Maximum number of mails.
    pub limit: usize,
    /// Only dead letters.
    pub dead_only: bool,
}

/// Requeues a mail as if it had just been queued. Returns its new state.
#[derive(Debug, Message)]
#[rtype(result = "Result<MailState, OutboxError>")]
pub struct RequeueMail {
    pub mail_id: MailId,
    /// The administrator.
    pub peer: PeerCredentials,
}

/// Deletes a mail without sending it. Returns its last state.
#[derive(Debug, Message)]
#[rtype(result = "Result<MailState, OutboxError>")]
pub struct DropMail {
    pub mail_id: MailId,
    /// The administrator.
    pub peer: PeerCredentials,
}

/// Holds mails back, so that the commit that removes their session can remove them, too.
#[derive(Debug, Message)]
#[rtype(result = "Result<HeldMails, OutboxError>")]
pub struct HoldMails(pub Vec<MailId>);

/// Mails that are not sent until this is dropped.
#[derive(Debug)]
pub struct HeldMails {
    claims: Vec<InFlightClaim<MailId>>,
    notifier: Addr<Notifier>,
}

impl HeldMails {
    /// Adds the removal of the held mails that are in the outbox to `record`. Returns their ids, each with
    /// whether it was a dead letter.
    pub(crate) fn put_removal(
        &self,
        record: &mut JournalRecord,
        store: &Store,
        peer: PeerCredentials,
        now: Timestamp,
    ) -> Result<Vec<(MailId, bool)>, StoreError> {
        let mut removed = Vec::new();
        for InFlightClaim { id: mail_id, .. } in &self.claims {
            let Some((standing, revision)) = store.mail_standing(mail_id)? else { continue };
            let was_dead = standing.is_dead();
            let (event, write, _) = drop_changes(standing, peer, now);
            record
                .expect
                .push(RowExpectation { row: RowKey::Mail(mail_id.clone()), revision: Some(revision) });
            record.events.push(event);
            record.writes.push(write);
            removed.push((mail_id.clone(), was_dead));
        }
        Ok(removed)
    }

    /// Reports to the notifier that mails were removed.
    pub(crate) fn report_removed(self, removed: Vec<(MailId, bool)>) {
        let Self { claims, notifier } = self;
        drop(claims);
        for (mail_id, was_dead) in removed {
            let end = if was_dead { MailStateChange::Dropped } else { MailStateChange::Gone };
            notifier.do_send(ReportMailState { mail_id, end });
        }
    }
}

/// An administrator's action on a mail.
#[derive(Debug, Clone, Copy)]
enum MailAdminAction {
    /// Requeue the mail as if it had just been queued.
    Requeue,
    /// Delete the mail without sending it.
    Drop,
}

impl MailAdminAction {
    /// Applies the action to the mail. Returns the mail's new or last state, and the effect on the head of the outbox.
    async fn apply_action(
        self,
        claim: &InFlightClaim<MailId>,
        peer: PeerCredentials,
        (store, log, clock): (Store, LoggerHandle, Clock),
    ) -> Result<(MailState, MailStateChange), OutboxError> {
        let mail_id = &claim.id;
        let done = log.decide_and_commit(|| {
            let unknown = || OutboxError::Unknown(mail_id.clone());
            let now = clock.now();
            let (was_dead, revision, (event, write, standing)) = match self {
                Self::Requeue => {
                    let (mail, revision) = store.mail(mail_id)?.ok_or_else(unknown)?;
                    (mail.standing.is_dead(), revision, requeue_changes(mail, peer, now))
                }
                Self::Drop => {
                    let (standing, revision) = store.mail_standing(mail_id)?.ok_or_else(unknown)?;
                    (standing.is_dead(), revision, drop_changes(standing, peer, now))
                }
            };
            let record = JournalRecord {
                expect: vec![RowExpectation { row: RowKey::Mail(mail_id.clone()), revision: Some(revision) }],
                events: vec![event],
                writes: vec![write],
                ..JournalRecord::default()
            };
            Ok::<_, OutboxError>(CommitDecision::Change(
                (standing, self.mail_state_change(was_dead, now)),
                record,
            ))
        });
        Ok(done.await?.0)
    }

    const fn mail_state_change(self, was_dead: bool, now: Timestamp) -> MailStateChange {
        match (self, was_dead) {
            (Self::Requeue, true) => MailStateChange::Requeued(now),
            (Self::Requeue, false) => MailStateChange::Due(now),
            (Self::Drop, true) => MailStateChange::Dropped,
            (Self::Drop, false) => MailStateChange::Gone,
        }
    }
}

fn requeue_changes(
    mail: OutboxMail,
    peer: PeerCredentials,
    timestamp: Timestamp,
) -> (AuditEvent, TableWrite, MailState) {
    let MailState { mail_id, session_id, .. } = mail.standing.clone();
    let standing = mail.standing.requeue(timestamp);
    let mail = OutboxMail { standing: standing.clone(), ..mail };
    let event = AuditEvent::new(timestamp, session_id, EventKind::MailRequeued { mail_id, peer });
    (event, TableWrite::PutMail(Arc::new(mail)), standing)
}

fn drop_changes(
    standing: MailState,
    peer: PeerCredentials,
    timestamp: Timestamp,
) -> (AuditEvent, TableWrite, MailState) {
    let MailState { mail_id, session_id, .. } = standing.clone();
    let write = TableWrite::RemoveMail(mail_id.clone());
    (AuditEvent::new(timestamp, session_id, EventKind::MailDropped { mail_id, peer }), write, standing)
}

impl Notifier {
    /// Applies an administrator's action to a mail.
    fn apply_mail_action(
        &self,
        action: MailAdminAction,
        mail_id: MailId,
        peer: PeerCredentials,
        me: Addr<Self>,
    ) -> ResponseFuture<Result<MailState, OutboxError>> {
        let Some(claim) = self.in_flight.claim(mail_id.clone()) else {
            return Box::pin(ready(Err(OutboxError::InFlight(mail_id))));
        };
        let parts = (self.store.clone(), self.log.clone(), self.clock.clone());
        Box::pin(async move {
            let (standing, end) = action.apply_action(&claim, peer, parts).await?;
            drop(claim);
            me.do_send(ReportMailState { mail_id, end });
            Ok(standing)
        })
    }
}

/// Lists the mails. Blocks on disk reads.
fn list_mails(store: &Store, request: &ListMails) -> Result<Vec<MailState>, StoreError> {
    let mut mails = Vec::new();
    if request.limit > 0 {
        store.visit_mails(request.after.as_ref(), |standing| {
            if standing.is_dead() || !request.dead_only {
                mails.push(standing);
            }
            mails.len() < request.limit
        })?;
    }
    Ok(mails)
}

impl Handler<ListMails> for Notifier {
    type Result = ResponseFuture<Result<Vec<MailState>, OutboxError>>;

    fn handle(&mut self, request: ListMails, _: &mut Context<Self>) -> Self::Result {
        let store = self.store.clone();
        Box::pin(async move {
            let listed = spawn_blocking(move || list_mails(&store, &request)).await;
            Ok(listed.map_err(|panic| OutboxError::Reading(panic.to_string()))??)
        })
    }
}

impl Handler<RequeueMail> for Notifier {
    type Result = ResponseFuture<Result<MailState, OutboxError>>;

    fn handle(
        &mut self,
        RequeueMail { mail_id, peer }: RequeueMail,
        ctx: &mut Context<Self>,
    ) -> Self::Result {
        self.apply_mail_action(MailAdminAction::Requeue, mail_id, peer, ctx.address())
    }
}

impl Handler<HoldMails> for Notifier {
    type Result = Result<HeldMails, OutboxError>;

    fn handle(&mut self, HoldMails(mail_ids): HoldMails, ctx: &mut Context<Self>) -> Self::Result {
        let take =
            |mail_id: MailId| self.in_flight.claim(mail_id.clone()).ok_or(OutboxError::InFlight(mail_id));
        let claims = mail_ids.into_iter().map(take).collect::<Result<_, _>>()?;
        Ok(HeldMails { claims, notifier: ctx.address() })
    }
}

impl Handler<DropMail> for Notifier {
    type Result = ResponseFuture<Result<MailState, OutboxError>>;

    fn handle(&mut self, DropMail { mail_id, peer }: DropMail, ctx: &mut Context<Self>) -> Self::Result {
        self.apply_mail_action(MailAdminAction::Drop, mail_id, peer, ctx.address())
    }
}
