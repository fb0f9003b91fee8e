//! Accepting an order: one commit for the order and its session, and for its first attempt if it can start at once.

use super::attempt::{CommittedOrder, ORDER_PAUSE, StartedOrder};
use super::{OrderWork, OrdersActor};
use crate::cache::{
    FindSession, FindSessionOutcome, address_change_event, find_check_in_force, new_address_record,
    remove_rejecting_check,
};
use crate::generation::{FirstCallDenial, FirstCallPermits, GenerationError, PromptError, QueueLimit};
use crate::submission::{CachedVerdict, Submission};
use actix::{Addr, Message};
use actors_audit::logger::handle::CommitDecision;
use actors_platform::caller::current_trace;
use actors_platform::work::{InFlightClaim, Work};
use domain_base::event::AuditEvent;
use domain_base::session_id::SessionId;
use domain_verdict::event::OrderPlaced;
use domain_verdict::label::ProductTier;
use domain_verdict::order::{Order, OrderAttemptStart, OrderState};
use domain_verdict::prompt::ModelPrompt;
use domain_verdict::session::{SessionMismatch, SessionRecord};
use jiff::SignedDuration;
use oracled_store::{JournalRecord, RowExpectation, RowWrite};
use std::sync::Arc;
use tokio::sync::watch;

/// Orders a first verdict. The order is durable when this returns.
///
/// A session has at most one order. A repeated request for it gets the same order, and may not have other facts than the first.
#[derive(Debug, Clone, Message)]
#[rtype(result = "Result<PlacedOrder, GenerationError>")]
pub struct PlaceOrder(pub Submission);

/// The result of a request for a verdict.
#[derive(Debug)]
pub enum PlacedOrder {
    /// The session already has a verdict.
    Replayed(Arc<CachedVerdict>),
    /// The request contradicts the session.
    Mismatch(SessionMismatch),
    /// The order of the session.
    Order {
        /// Its states from now on. The last one stays after the order has ended.
        progress: watch::Receiver<Order>,
        /// Whether this request placed it.
        is_new: bool,
    },
}

/// The outcome of the commit that places an order.
enum PlacedRow {
    Mismatch(SessionMismatch),
    Existing(Box<Order>),
    New(Box<SessionRecord>),
}

impl OrderWork {
    pub(super) async fn place(
        &self,
        submission: Submission,
        full: Option<QueueLimit>,
        may_start: bool,
        me: Addr<OrdersActor>,
    ) -> Result<PlacedOrder, GenerationError> {
        let placed = self.place_unless_cached(submission.clone(), full, may_start, me).await;
        if !matches!(placed, Err(GenerationError::DeliveredAlready) | Ok(PlacedOrder::Mismatch(_))) {
            return placed;
        }
        // the order may have been delivered after the cache was asked. The verdict is then the answer to another user id, too
        match self.runner.handles.cache.ask(FindSession(submission)).await?? {
            FindSessionOutcome::Cached(cached) => Ok(PlacedOrder::Replayed(cached)),
            FindSessionOutcome::Mismatch(mismatch) => Ok(PlacedOrder::Mismatch(mismatch)),
            _ => placed,
        }
    }

    async fn place_unless_cached(
        &self,
        mut submission: Submission,
        full: Option<QueueLimit>,
        may_start: bool,
        me: Addr<OrdersActor>,
    ) -> Result<PlacedOrder, GenerationError> {
        let session_id = submission.session_id.clone();
        match self.runner.handles.cache.ask(FindSession(submission.clone())).await?? {
            FindSessionOutcome::Cached(cached) => return Ok(PlacedOrder::Replayed(cached)),
            FindSessionOutcome::Mismatch(mismatch) => return Ok(PlacedOrder::Mismatch(mismatch)),
            FindSessionOutcome::Nothing(check) => submission.check = submission.check.or(check),
            // the order of the session is the answer
            FindSessionOutcome::Held | FindSessionOutcome::Cancelled => {}
        }
        let known = self.store().session(&session_id)?.map(|(session, _)| session);
        let known = check_known(known.as_ref(), &submission)?;
        // a repeated request needs no model
        let prompt = match known {
            None => self.first_prompt(&submission)?,
            Some(_) => None,
        };
        // an attempt of a session that was removed may still be in flight
        let may_start = may_start
            && !self.in_flight.is_stopped()
            && full.is_none()
            && known.is_none()
            && prompt.is_some();
        // an order that may not start is queued; its turn finds what else it waits for
        let may_start = may_start && self.has_held_key(&session_id, submission.tier).await;
        let claim = if may_start { self.in_flight.claim(session_id.clone()) } else { None };
        let (application, models) =
            (session_id.application(), self.models_for(&session_id, submission.tier, None));
        let permits = match claim {
            Some(claim) => match self.runner.request_first_call(&models, &application, None).await {
                Ok(permits) => Some((permits, claim)),
                Err(FirstCallDenial::Application(error))
                    if !self.needs_opinions(&session_id, submission.tier) =>
                {
                    self.waits.set_of_application(application, self.wait_for(&error));
                    None
                }
                Err(_) => None,
            },
            None => None,
        };
        let start = prompt.zip(permits);
        let attempt = start.as_ref().map(|(prompt, (permits, _))| permits.start(prompt, false));
        let placed = self.runner.handles.log.decide_and_commit(|| {
            let known = self.store().session(&session_id)?;
            if let Some(row) = check_known(known.as_ref().map(|(session, _)| session), &submission)? {
                return self.repeat_order(known, &submission, row);
            }
            if let Some(limit) = full.clone() {
                return Err(GenerationError::QueueFull(limit));
            }
            self.build_order(&submission, known, attempt.as_ref())
        });
        let placed = placed.await.inspect_err(|error| {
            // the log may have the order although its commit failed
            if matches!(error, GenerationError::Commit(_)) {
                Self::wake(&me, session_id.clone(), Some(self.clock().now()), false);
            }
        });
        let (placed, receipt) = placed?;
        match placed {
            PlacedRow::Mismatch(mismatch) => Ok(PlacedOrder::Mismatch(mismatch)),
            PlacedRow::Existing(order) => {
                let progress = self.progress.subscribe(&session_id, *order);
                // the order may have changed before the subscription
                if let Some((SessionRecord { order: Some(order), .. }, _)) =
                    self.store().session(&session_id)?
                {
                    self.progress.publish(&session_id, &order);
                }
                Ok(PlacedOrder::Order { progress, is_new: false })
            }
            PlacedRow::New(session) => {
                Ok(self.start_or_queue(CommittedOrder::new(*session, receipt), start, &me))
            }
        }
    }

    /// Whether an order need not wait for the key of held verdicts. Notes its wait.
    async fn has_held_key(&self, session_id: &SessionId, tier: ProductTier) -> bool {
        let Err(error) = self.check_held_key(session_id, tier).await else { return true };
        tracing::warn!(%session_id, %error, "an order waits");
        self.waits.set_of_order(session_id.clone(), self.wait_for(&error));
        false
    }

    /// The prompt for an order. `None` if the configured template is not registered: the order waits for it.
    fn first_prompt(&self, submission: &Submission) -> Result<Option<ModelPrompt>, GenerationError> {
        self.runner.require_model()?;
        let Submission { session_id, tier, query, .. } = submission;
        match self.runner.first_prompt(&session_id.application(), *tier, query) {
            Err(GenerationError::Prompt(PromptError::Unknown(_))) => Ok(None),
            prompt => prompt.map(Some),
        }
    }

    /// The answer to a repeated request. Its address is stored if the session has none.
    fn repeat_order(
        &self,
        known: Option<(SessionRecord, u64)>,
        submission: &Submission,
        row: PlacedRow,
    ) -> Result<CommitDecision<PlacedRow>, GenerationError> {
        let (Some(known), Some(address), PlacedRow::Existing(order)) =
            (known, &submission.customer_email, &row)
        else {
            return Ok(CommitDecision::Already(row));
        };
        if matches!(order.state, OrderState::Delivered | OrderState::Cancelled) {
            return Ok(CommitDecision::Already(row));
        }
        Ok(match new_address_record(self.store(), known, address, self.clock().now())? {
            Some(record) => CommitDecision::Change(row, record),
            None => CommitDecision::Already(row),
        })
    }

    /// The record of a new order. With `attempt` its first attempt is part of it.
    fn build_order(
        &self,
        submission: &Submission,
        known: Option<(SessionRecord, u64)>,
        attempt: Option<&OrderAttemptStart>,
    ) -> Result<CommitDecision<PlacedRow>, GenerationError> {
        let Submission { session_id, caller, tier, query, customer_email, check, .. } = submission;
        let (known, revision) = known.unzip();
        let (in_force, check_revision) = find_check_in_force(self.store(), session_id, known.as_ref())?;
        let now = self.clock().now();
        let new = || SessionRecord::new(session_id.clone(), *tier, query.clone());
        let base = known.clone().unwrap_or_else(new).owned_by(*caller);
        let session = SessionRecord {
            customer_email: customer_email.clone().or_else(|| base.customer_email.clone()),
            check: check.clone().or(in_force),
            order: Some(Order { trace: current_trace(), ..Order::placed(now) }),
            ..base
        };
        let placed = OrderPlaced {
            tier: *tier,
            query_preview: query.preview(),
            has_email: session.customer_email.is_some(),
        };
        let mut record = JournalRecord {
            expect: vec![RowExpectation::new::<SessionRecord>(session_id, revision)],
            events: vec![AuditEvent::new(now, session_id.clone(), placed)],
            ..JournalRecord::default()
        };
        record.events.extend(address_change_event(self.store(), known.as_ref(), &session, now)?);
        if known.is_none() {
            remove_rejecting_check(&mut record, session_id, check_revision);
        }
        let session = match attempt {
            None => session,
            Some(start) => {
                let started = StartedOrder::of(session, start.clone(), now);
                record.events.push(started.event);
                started.session
            }
        };
        record.writes.push(RowWrite::put::<SessionRecord>(&session));
        Ok(CommitDecision::Change(PlacedRow::New(Box::new(session)), record))
    }

    fn start_or_queue(
        &self,
        placed: CommittedOrder,
        start: Option<(ModelPrompt, (FirstCallPermits, InFlightClaim<SessionId>))>,
        me: &Addr<OrdersActor>,
    ) -> PlacedOrder {
        let session_id = placed.session.session_id.clone();
        let order = placed.session.order.clone().unwrap_or_else(|| Order::placed(self.clock().now()));
        let progress = self.progress.subscribe(&session_id, order.clone());
        match start {
            Some((prompt, permits)) => self.start(placed, prompt, permits, me.clone()),
            None => {
                // it was just tried in vain
                let pause =
                    if self.waits.is_for_key(&session_id) { ORDER_PAUSE } else { SignedDuration::ZERO };
                let due = order.placed_at.saturating_add(pause).unwrap_or(order.placed_at);
                Self::wake(me, session_id, Some(due), false);
            }
        }
        PlacedOrder::Order { progress, is_new: true }
    }
}

/// The answer for a session that is known and may not get a new order.
fn check_known(
    known: Option<&SessionRecord>,
    submission: &Submission,
) -> Result<Option<PlacedRow>, GenerationError> {
    let Some(session) = known else { return Ok(None) };
    if let Some(mismatch) = session.mismatch(submission.tier, &submission.query) {
        return Ok(Some(PlacedRow::Mismatch(mismatch)));
    }
    if let Some(order) = session.order.as_ref().filter(|_| session.is_cancelled()) {
        return Ok(Some(PlacedRow::Existing(order.clone().into())));
    }
    let Submission { caller, customer_email, check, .. } = submission;
    let address = customer_email.as_ref();
    let mismatch = if session.order.is_some() {
        session.repeat_mismatch(*caller, address, check.as_ref())
    } else {
        session.change_mismatch(*caller, address)
    };
    if let Some(mismatch) = mismatch {
        return Ok(Some(PlacedRow::Mismatch(mismatch)));
    }
    match &session.order {
        Some(order) if order.state != OrderState::Delivered => {
            Ok(Some(PlacedRow::Existing(order.clone().into())))
        }
        // the verdict is lost, and only a read regenerates it
        _ if session.original.is_some() => Err(GenerationError::DeliveredAlready),
        order => Ok(order.clone().map(|order| PlacedRow::Existing(order.into()))),
    }
}
