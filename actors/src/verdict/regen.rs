//! Generation of verdicts: first verdicts at a route's request, and regeneration of lost ones when they are read.
//!
//! A generation in progress is a *flight*. It is a separate task, so that a disconnecting caller does not
//! cancel it. A session has at most one flight. Callers with the same request share its model call and its
//! answer; callers with another request wait until it has ended. Only a read that finds no verdict starts a
//! regeneration (seed: `regen-consistency`, invariant 6).

mod generation_task;
mod model;
mod outcome;

pub use generation_task::{GenerationError, GenerationResult};
pub use model::ConfiguredModel;

use crate::audit::logger::LoggerHandle;
use crate::platform::actor_handle::{ActorCall, ActorCallError, ActorHandle};
use crate::platform::caller::{current_caller_uid, run_as_current_caller};
use crate::platform::clock::Clock;
use crate::platform::metrics::ActorMetrics;
use crate::upstream::oracle_health::OracleHealth;
use crate::verdict::cache::{FindSession, FindSessionOutcome, VerdictCache};
use crate::verdict::crosscheck::CrosscheckActor;
use crate::verdict::rate_limiter::RateLimiter;
use crate::verdict::submission::{Submission, SubmissionOutcome};
use actix::{
    Actor, Addr, AsyncContext, Context, Handler, Message, MessageResult, ResponseFuture, Supervised,
};
use generation_task::GenerationRunner;
use oracled_domain::audit::event::EventSeverity;
use oracled_domain::rules::CandidateCheck;
use oracled_domain::verdict::divergence::{
    RegenVariance, RegenVarianceWindow, VARIANCE_THRESHOLD, VARIANCE_WINDOW,
};
use oracled_domain::{AuditEvent, CustomerQuery, DivergenceCheck, EventKind, ProductTier, SessionId};
use oracled_store::{LogQuery, Store, StoreError};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::{oneshot, watch};

/// Maximum number of log entries that are read to restore the variance watch after a restart.
const REMEMBERED_MAX: usize = 100_000;

/// Generates a first verdict and delivers it.
#[derive(Debug, Clone, Message)]
#[rtype(result = "GenerationResult")]
pub struct GenerateVerdict(pub Submission);

/// Reads a verdict that is not in the cache: regenerates it if its session is known.
#[derive(Debug, Message)]
#[rtype(result = "GenerationResult")]
pub struct RegenerateVerdict(pub SessionId);

/// Returns how often regenerated verdicts differ from the delivered ones.
#[derive(Debug, Message)]
#[rtype(result = "RegenVariance")]
pub struct ReadVariance;

/// Waits until all flights that are in progress now have ended.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct AwaitGenerations;

/// Adds a regeneration to the variance watch.
#[derive(Debug, Message)]
#[rtype(result = "()")]
struct NoteDivergence(DivergenceCheck);

/// Removes a flight that has ended.
#[derive(Debug, Message)]
#[rtype(result = "()")]
struct ClearGeneration(SessionId);

#[derive(Debug)]
pub struct RegenActor {
    runner: Arc<GenerationRunner>,
    cache: ActorHandle<VerdictCache>,
    log: LoggerHandle,
    running: HashMap<SessionId, RunningGeneration>,
    variance: RegenVarianceWindow,
}

/// The generation in progress for a session.
#[derive(Debug, Clone)]
struct RunningGeneration {
    request: GenerationRequest,
    result: watch::Receiver<Option<GenerationResult>>,
}

/// The request that a flight serves.
#[derive(Debug, Clone, PartialEq, Eq)]
enum GenerationRequest {
    Read,
    /// `uid` is part of the request: a stored rejecting check applies only to its own user id.
    Deliver {
        tier: ProductTier,
        query: CustomerQuery,
        check: Option<Arc<CandidateCheck>>,
        uid: Option<u32>,
    },
}

impl RunningGeneration {
    /// Waits for the flight's result.
    async fn wait_for_result(mut self) -> GenerationResult {
        let result = self.result.wait_for(Option::is_some).await.ok().and_then(|result| result.clone());
        result.unwrap_or_else(|| Err(Arc::new(GenerationError::Crashed)))
    }
}

/// The actors that this actor calls.
#[derive(Debug)]
pub(crate) struct RegenHandles {
    pub(crate) rate_limiter: ActorHandle<RateLimiter>,
    pub(crate) oracle_health: ActorHandle<OracleHealth>,
    pub(crate) crosscheck: ActorHandle<CrosscheckActor>,
    pub(crate) cache: ActorHandle<VerdictCache>,
    pub(crate) log: LoggerHandle,
}

impl RegenActor {
    pub(crate) fn new(
        model: Option<ConfiguredModel>,
        handles: RegenHandles,
        store: Store,
        clock: Clock,
        metrics: ActorMetrics,
    ) -> Self {
        let (cache, log) = (handles.cache.clone(), handles.log.clone());
        let runner = Arc::new(GenerationRunner { model, handles, store, clock, metrics });
        Self { runner, cache, log, running: HashMap::new(), variance: RegenVarianceWindow::default() }
    }

    /// The session's flight that is still in progress.
    fn find_running_generation(&self, session_id: &SessionId) -> Option<RunningGeneration> {
        let generation = self.running.get(session_id)?;
        // the task has ended once its sender is dropped, either with a result or after a panic
        let flies = generation.result.borrow().is_none() && generation.result.has_changed().is_ok();
        flies.then(|| generation.clone())
    }

    fn start_generation(
        &mut self,
        session_id: SessionId,
        request: GenerationRequest,
        generation: impl Future<Output = GenerationResult> + 'static,
        ctx: &Context<Self>,
    ) -> RunningGeneration {
        let (sender, result) = watch::channel(None);
        let (tower, id) = (ctx.address(), session_id.clone());
        let new = RunningGeneration { request, result };
        self.running.insert(session_id, new.clone());
        actix_rt::spawn(run_as_current_caller(async move {
            let outcome = generation.await;
            if let Ok(SubmissionOutcome::Regenerated(_, check)) = &outcome {
                tower.do_send(NoteDivergence(check.clone()));
            }
            sender.send_replace(Some(outcome));
            drop(sender);
            // if this message is lost, the next flight of the session replaces the entry
            tower.do_send(ClearGeneration(id));
        }));
        new
    }

    /// Logs that regenerated verdicts differ too often.
    fn escalate(&self, variance: RegenVariance) {
        tracing::warn!(?variance, "regenerated verdicts differ from the delivered ones");
        let (log, timestamp) = (self.log.clone(), self.runner.clock.now());
        let escalation = AuditEvent::new(
            timestamp,
            None,
            EventKind::InfrastructureVariance {
                variance,
                threshold: VARIANCE_THRESHOLD,
                level: EventSeverity::Escalation,
            },
        );
        // if the commit fails, the entry is in the service log, and the watch still reports the variance
        actix_rt::spawn(async move { drop(log.commit(escalation.into()).await) });
    }
}

/// Restores the variance watch from the log after a restart, with the latest regenerations that it counts.
/// The flag is true if a high variance is not logged yet.
fn restore_variance_watch(store: &Store) -> Result<(RegenVarianceWindow, bool), StoreError> {
    let newest = |event: &str, limit| LogQuery {
        event: Some(event.to_owned()),
        newest: true,
        limit,
        ..LogQuery::default()
    };
    let mut limit = VARIANCE_WINDOW;
    let (watch, first) = loop {
        let lines = store.log(&newest("regen_divergence_check", limit))?;
        let mut watch = RegenVarianceWindow::default();
        for line in &lines {
            if let Ok(AuditEvent { kind: EventKind::RegenDivergenceCheck(check), .. }) =
                serde_json::from_str(&line.json)
            {
                watch.note(&check);
            }
        }
        // regenerations that the watch does not count are skipped, so more entries may be needed
        if watch.is_full() || lines.len() < limit || limit >= REMEMBERED_MAX {
            break (watch, lines.first().map_or(0, |line| line.seq));
        }
        limit *= 10;
    };
    let is_logged =
        store.log(&newest("infrastructure_variance", 1))?.last().is_some_and(|line| line.seq > first);
    let unsaid = watch.variance().escalated && !is_logged;
    Ok((watch, unsaid))
}

impl Actor for RegenActor {
    type Context = Context<Self>;

    fn started(&mut self, _: &mut Context<Self>) {
        match restore_variance_watch(&self.runner.store) {
            Ok((watch, unsaid)) => {
                self.variance = watch;
                if unsaid {
                    self.escalate(self.variance.variance());
                }
            }
            Err(error) => tracing::warn!(%error, "could not restore the variance watch; it starts empty"),
        }
    }
}

impl Supervised for RegenActor {}

impl Handler<RegenerateVerdict> for RegenActor {
    type Result = ResponseFuture<GenerationResult>;

    fn handle(
        &mut self,
        RegenerateVerdict(session_id): RegenerateVerdict,
        ctx: &mut Context<Self>,
    ) -> Self::Result {
        let Some(generation) = self.find_running_generation(&session_id) else {
            let (runner, id) = (Arc::clone(&self.runner), session_id.clone());
            let generation = async move { runner.regenerate(id).await };
            return Box::pin(
                self.start_generation(session_id, GenerationRequest::Read, generation, ctx).wait_for_result(),
            );
        };
        if generation.request == GenerationRequest::Read {
            return Box::pin(generation.wait_for_result());
        }
        let me = ctx.address();
        Box::pin(async move {
            match generation.wait_for_result().await {
                Ok(
                    SubmissionOutcome::RejectedByCrosscheck { .. }
                    | SubmissionOutcome::RejectedByRules { .. }
                    | SubmissionOutcome::Mismatch(_),
                )
                | Err(_) => resend_message(&me, RegenerateVerdict(session_id)).await,
                brought => brought,
            }
        })
    }
}

impl Handler<GenerateVerdict> for RegenActor {
    type Result = ResponseFuture<GenerationResult>;

    fn handle(&mut self, deliver: GenerateVerdict, ctx: &mut Context<Self>) -> Self::Result {
        let submission = deliver.0.clone();
        let Submission { session_id, tier, query, check, .. } = submission.clone();
        let request = GenerationRequest::Deliver { tier, query, check, uid: current_caller_uid() };
        let Some(generation) = self.find_running_generation(&session_id) else {
            let runner = Arc::clone(&self.runner);
            let generation = async move { runner.generate(submission).await };
            return Box::pin(self.start_generation(session_id, request, generation, ctx).wait_for_result());
        };
        let (same, cache, me) = (generation.request == request, self.cache.clone(), ctx.address());
        Box::pin(async move {
            let result = generation.wait_for_result().await;
            if !same {
                return resend_message(&me, deliver).await;
            }
            let outcome = result?;
            match cache.ask(FindSession(submission)).await {
                Ok(Ok(FindSessionOutcome::Cached(cached))) => Ok(SubmissionOutcome::Replayed(cached)),
                Ok(Ok(FindSessionOutcome::Mismatch(mismatch))) => Ok(SubmissionOutcome::Mismatch(mismatch)),
                Ok(Ok(FindSessionOutcome::Nothing(_))) => Ok(outcome),
                Ok(Err(error)) => Err(Arc::new(error.into())),
                Err(error) => Err(Arc::new(error.into())),
            }
        })
    }
}

/// Sends the message again, after another request's flight has ended.
async fn resend_message<M>(regen: &Addr<RegenActor>, message: M) -> GenerationResult
where
    M: Message<Result = GenerationResult> + Send + 'static,
    RegenActor: Handler<M, Result = ResponseFuture<GenerationResult>>,
{
    let lost = |_| Err(Arc::new(GenerationError::NoAnswer(ActorCallError::Failed { actor: "regen" })));
    let (reply, result) = oneshot::channel();
    regen.do_send::<ActorCall<RegenActor>>(ActorHandle::wrap_message(message, reply));
    result.await.unwrap_or_else(lost)
}

impl Handler<AwaitGenerations> for RegenActor {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: AwaitGenerations, _: &mut Context<Self>) -> Self::Result {
        let generations: Vec<_> = self.running.values().cloned().collect();
        Box::pin(async move {
            for generation in generations {
                drop(generation.wait_for_result().await);
            }
        })
    }
}

impl Handler<ReadVariance> for RegenActor {
    type Result = MessageResult<ReadVariance>;

    fn handle(&mut self, _: ReadVariance, _: &mut Context<Self>) -> Self::Result {
        MessageResult(self.variance.variance())
    }
}

impl Handler<NoteDivergence> for RegenActor {
    type Result = ();

    fn handle(&mut self, NoteDivergence(check): NoteDivergence, _: &mut Context<Self>) {
        if let Some(variance) = self.variance.note(&check) {
            self.escalate(variance);
        }
    }
}

impl Handler<ClearGeneration> for RegenActor {
    type Result = ();

    fn handle(&mut self, ClearGeneration(session_id): ClearGeneration, _: &mut Context<Self>) {
        if self.find_running_generation(&session_id).is_none() {
            self.running.remove(&session_id);
        }
    }
}

crate::platform::actor_handle::handle_actor_calls!(RegenActor);

#[cfg(test)]
mod tests;
