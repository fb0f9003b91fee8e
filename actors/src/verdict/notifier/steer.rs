//! Listing the outbox, and actions of administrators. Each action and its log entry are one commit.

use super::attempt::End;
use super::in_flight::Taken;
use super::{Ended, Notifier};
use crate::audit::commit_loop::Decided;
use crate::audit::logger::{CommitError, Log};
use crate::platform::clock::Clock;
use actix::{Addr, AsyncContext, Context, Handler, Message, ResponseFuture};
use jiff::Timestamp;
use oracled_domain::verdict::mail::Standing;
use oracled_domain::{Event, EventKind, Mail, MailId, Peer};
use oracled_store::{Expect, Record, RowKey, Store, StoreError, Write};
use std::future::ready;
use std::sync::Arc;
use tokio::task::spawn_blocking;

/// Why an administrator's action failed. Nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum OutboxError {
    /// The outbox has no such mail.
    #[error("no mail {0} is in the outbox")]
    Unknown(MailId),
    /// The mail is in flight.
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
#[rtype(result = "Result<Vec<Standing>, OutboxError>")]
pub struct List {
    /// Only mails whose id is greater than this one.
    pub after: Option<MailId>,
    /// Maximum number of mails.
    pub limit: usize,
    /// Only dead letters.
    pub dead_only: bool,
}

/// Requeues a mail as if it had just been queued. Returns its new state.
#[derive(Debug, Message)]
#[rtype(result = "Result<Standing, OutboxError>")]
pub struct Requeue {
    /// The mail.
    pub mail_id: MailId,
    /// The administrator.
    pub peer: Peer,
}

/// Deletes a mail without sending it. Returns its last state.
#[derive(Debug, Message)]
#[rtype(result = "Result<Standing, OutboxError>")]
pub struct DropMail {
    /// The mail.
    pub mail_id: MailId,
    /// The administrator.
    pub peer: Peer,
}

/// Holds mails back, so that the commit that removes their session can remove them, too.
#[derive(Debug, Message)]
#[rtype(result = "Result<HeldMails, OutboxError>")]
pub struct HoldMails(pub Vec<MailId>);

/// Mails that are not sent until this is dropped.
#[derive(Debug)]
pub struct HeldMails {
    taken: Vec<Taken>,
    notifier: Addr<Notifier>,
}

impl HeldMails {
    /// Adds the removal of the held mails that are in the outbox to `record`. Returns their ids, each with whether it was a
    /// dead letter.
    pub(crate) fn put_removal(
        &self,
        record: &mut Record,
        store: &Store,
        peer: Peer,
        now: Timestamp,
    ) -> Result<Vec<(MailId, bool)>, StoreError> {
        let mut removed = Vec::new();
        for Taken { mail_id, .. } in &self.taken {
            let Some((standing, revision)) = store.mail_standing(mail_id)? else { continue };
            let was_dead = standing.is_dead();
            let (event, write, _) = dropped(standing, peer, now);
            record.expect.push(Expect { row: RowKey::Mail(mail_id.clone()), revision: Some(revision) });
            record.events.push(event);
            record.writes.push(write);
            removed.push((mail_id.clone(), was_dead));
        }
        Ok(removed)
    }

    /// Reports to the notifier that mails were removed.
    pub(crate) fn report_removed(self, removed: Vec<(MailId, bool)>) {
        let Self { taken, notifier } = self;
        drop(taken);
        for (mail_id, was_dead) in removed {
            let end = if was_dead { End::Buried } else { End::Gone };
            notifier.do_send(Ended { mail_id, end });
        }
    }
}

/// An administrator's action on a mail.
#[derive(Debug, Clone, Copy)]
enum Order {
    /// Requeue the mail as if it had just been queued.
    Requeue,
    /// Delete the mail without sending it.
    Drop,
}

impl Order {
    /// Applies the action to the mail. Returns the mail's new or last state, and the effect on the head of the outbox.
    async fn carry_out(
        self,
        taken: &Taken,
        peer: Peer,
        (store, log, clock): (Store, Log, Clock),
    ) -> Result<(Standing, End), OutboxError> {
        let mail_id = &taken.mail_id;
        let done = log.decide_and_commit(|| {
            let unknown = || OutboxError::Unknown(mail_id.clone());
            let now = clock.now();
            let (was_dead, revision, (event, write, standing)) = match self {
                Self::Requeue => {
                    let (mail, revision) = store.mail(mail_id)?.ok_or_else(unknown)?;
                    (mail.standing.is_dead(), revision, requeued(mail, peer, now))
                }
                Self::Drop => {
                    let (standing, revision) = store.mail_standing(mail_id)?.ok_or_else(unknown)?;
                    (standing.is_dead(), revision, dropped(standing, peer, now))
                }
            };
            let record = Record {
                expect: vec![Expect { row: RowKey::Mail(mail_id.clone()), revision: Some(revision) }],
                events: vec![event],
                writes: vec![write],
                ..Record::default()
            };
            Ok::<_, OutboxError>(Decided::Change((standing, self.end(was_dead, now)), record))
        });
        Ok(done.await?.0)
    }

    const fn end(self, was_dead: bool, now: Timestamp) -> End {
        match (self, was_dead) {
            (Self::Requeue, true) => End::Revived(now),
            (Self::Requeue, false) => End::Due(now),
            (Self::Drop, true) => End::Buried,
            (Self::Drop, false) => End::Gone,
        }
    }
}

fn requeued(mail: Mail, peer: Peer, timestamp: Timestamp) -> (Event, Write, Standing) {
    let Standing { mail_id, session_id, .. } = mail.standing.clone();
    let standing = mail.standing.requeued(timestamp);
    let mail = Mail { standing: standing.clone(), ..mail };
    let event = Event::new(timestamp, session_id, EventKind::MailRequeued { mail_id, peer });
    (event, Write::PutMail(Arc::new(mail)), standing)
}

fn dropped(standing: Standing, peer: Peer, timestamp: Timestamp) -> (Event, Write, Standing) {
    let Standing { mail_id, session_id, .. } = standing.clone();
    let write = Write::RemoveMail(mail_id.clone());
    (Event::new(timestamp, session_id, EventKind::MailDropped { mail_id, peer }), write, standing)
}

impl Notifier {
    /// Applies an administrator's action to a mail.
    fn steer(
        &self,
        order: Order,
        mail_id: MailId,
        peer: Peer,
        me: Addr<Self>,
    ) -> ResponseFuture<Result<Standing, OutboxError>> {
        let Some(taken) = self.in_flight.take(mail_id.clone()) else {
            return Box::pin(ready(Err(OutboxError::InFlight(mail_id))));
        };
        let parts = (self.store.clone(), self.log.clone(), self.clock.clone());
        Box::pin(async move {
            let (standing, end) = order.carry_out(&taken, peer, parts).await?;
            drop(taken);
            me.do_send(Ended { mail_id, end });
            Ok(standing)
        })
    }
}

/// Lists the mails. Blocks on disk reads.
fn list(store: &Store, asked: &List) -> Result<Vec<Standing>, StoreError> {
    let mut mails = Vec::new();
    if asked.limit > 0 {
        store.visit_mails(asked.after.as_ref(), |standing| {
            if standing.is_dead() || !asked.dead_only {
                mails.push(standing);
            }
            mails.len() < asked.limit
        })?;
    }
    Ok(mails)
}

impl Handler<List> for Notifier {
    type Result = ResponseFuture<Result<Vec<Standing>, OutboxError>>;

    fn handle(&mut self, asked: List, _: &mut Context<Self>) -> Self::Result {
        let store = self.store.clone();
        Box::pin(async move {
            let listed = spawn_blocking(move || list(&store, &asked)).await;
            Ok(listed.map_err(|panic| OutboxError::Reading(panic.to_string()))??)
        })
    }
}

impl Handler<Requeue> for Notifier {
    type Result = ResponseFuture<Result<Standing, OutboxError>>;

    fn handle(&mut self, Requeue { mail_id, peer }: Requeue, ctx: &mut Context<Self>) -> Self::Result {
        self.steer(Order::Requeue, mail_id, peer, ctx.address())
    }
}

impl Handler<HoldMails> for Notifier {
    type Result = Result<HeldMails, OutboxError>;

    fn handle(&mut self, HoldMails(mail_ids): HoldMails, ctx: &mut Context<Self>) -> Self::Result {
        let take =
            |mail_id: MailId| self.in_flight.take(mail_id.clone()).ok_or(OutboxError::InFlight(mail_id));
        let taken = mail_ids.into_iter().map(take).collect::<Result<_, _>>()?;
        Ok(HeldMails { taken, notifier: ctx.address() })
    }
}

impl Handler<DropMail> for Notifier {
    type Result = ResponseFuture<Result<Standing, OutboxError>>;

    fn handle(&mut self, DropMail { mail_id, peer }: DropMail, ctx: &mut Context<Self>) -> Self::Result {
        self.steer(Order::Drop, mail_id, peer, ctx.address())
    }
}
