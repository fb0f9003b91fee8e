//! Regeneration of lost verdicts when they are read.
//!
//! A regeneration is a separate task, so that a disconnecting caller does not cancel it. A session has at most one, and
//! concurrent readers share its model call and its answer. Only a read that finds no verdict starts a regeneration
//! (seed: `regen-consistency`, invariant 6).

use crate::generation::{GenerationError, GenerationResult, GenerationRunner};
use crate::submission::SubmissionOutcome;
use actix::{Actor, AsyncContext, Context, Handler, Message, MessageResult, ResponseFuture, Supervised};
use actors_audit::logger::LoggerHandle;
use actors_platform::caller::run_as_current_caller;
use domain_base::event::{AuditEvent, Event, EventSeverity, LoggedEvent};
use domain_base::session_id::SessionId;
use domain_verdict::divergence::{
    DivergenceCheck, RegenVariance, RegenVarianceWindow, VARIANCE_THRESHOLD, VARIANCE_WINDOW,
};
use domain_verdict::event::{InfrastructureVariance, RegenDivergenceCheck};
use oracled_store::{LogQuery, Store, StoreError};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::watch;

/// Maximum number of log entries that are read to restore the variance watch after a restart.
const REMEMBERED_MAX: usize = 100_000;

/// Reads a verdict that is not in the cache: regenerates it if its session is known.
#[derive(Debug, Message)]
#[rtype(result = "GenerationResult")]
pub struct RegenerateVerdict(pub SessionId);

/// Returns how often regenerated verdicts differ from the delivered ones.
#[derive(Debug, Message)]
#[rtype(result = "RegenVariance")]
pub struct ReadVariance;

/// Waits until the regenerations that are in progress now have ended: all, or that of a session.
#[derive(Debug, Default, Message)]
#[rtype(result = "()")]
pub struct AwaitGenerations(pub Option<SessionId>);

/// Adds a regeneration to the variance watch.
#[derive(Debug, Message)]
#[rtype(result = "()")]
struct NoteDivergence(DivergenceCheck);

/// Removes a regeneration that has ended.
#[derive(Debug, Message)]
#[rtype(result = "()")]
struct ClearGeneration(SessionId);

#[derive(Debug)]
pub struct RegenActor {
    runner: Arc<GenerationRunner>,
    log: LoggerHandle,
    running: HashMap<SessionId, RunningRegeneration>,
    variance: RegenVarianceWindow,
}

/// The regeneration in progress for a session.
#[derive(Debug, Clone)]
struct RunningRegeneration(watch::Receiver<Option<GenerationResult>>);

impl RunningRegeneration {
    async fn wait_for_result(mut self) -> GenerationResult {
        let result = self.0.wait_for(Option::is_some).await.ok().and_then(|result| result.clone());
        result.unwrap_or_else(|| Err(Arc::new(GenerationError::Crashed)))
    }

    fn is_running(&self) -> bool {
        // the task has ended once its sender is dropped, either with a result or after a panic
        self.0.borrow().is_none() && self.0.has_changed().is_ok()
    }
}

impl RegenActor {
    pub fn new(runner: Arc<GenerationRunner>) -> Self {
        let log = runner.handles.log.clone();
        Self { runner, log, running: HashMap::new(), variance: RegenVarianceWindow::default() }
    }

    /// Starts the regeneration of a session's verdict.
    fn start(&mut self, session_id: SessionId, ctx: &Context<Self>) -> RunningRegeneration {
        let (sender, result) = watch::channel(None);
        let (me, runner, id) = (ctx.address(), Arc::clone(&self.runner), session_id.clone());
        let started = RunningRegeneration(result);
        self.running.insert(session_id, started.clone());
        actix_rt::spawn(run_as_current_caller(async move {
            let outcome = runner.regenerate(id.clone()).await;
            if let Ok(SubmissionOutcome::Regenerated(_, check)) = &outcome {
                me.do_send(NoteDivergence(check.clone()));
            }
            sender.send_replace(Some(outcome));
            drop(sender);
            // if this message is lost, the next regeneration of the session replaces the entry
            me.do_send(ClearGeneration(id));
        }));
        started
    }

    /// Logs that regenerated verdicts differ too often.
    fn escalate(&self, variance: RegenVariance) {
        tracing::warn!(?variance, "regenerated verdicts differ from the delivered ones");
        let (log, timestamp) = (self.log.clone(), self.runner.clock.now());
        let escalation = AuditEvent::new(
            timestamp,
            None,
            InfrastructureVariance {
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
        let lines = store.log(&newest(RegenDivergenceCheck::NAME, limit))?;
        let mut watch = RegenVarianceWindow::default();
        for line in &lines {
            if let Ok(Some(entry)) = LoggedEvent::<RegenDivergenceCheck>::read(&line.json) {
                watch.note(&entry.event.0);
            }
        }
        // regenerations that the watch does not count are skipped, so more entries may be needed
        if watch.is_full() || lines.len() < limit || limit >= REMEMBERED_MAX {
            break (watch, lines.first().map_or(0, |line| line.seq));
        }
        limit *= 10;
    };
    let is_logged =
        store.log(&newest(InfrastructureVariance::NAME, 1))?.last().is_some_and(|line| line.seq > first);
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
        let running = self.running.get(&session_id).filter(|running| running.is_running()).cloned();
        Box::pin(running.unwrap_or_else(|| self.start(session_id, ctx)).wait_for_result())
    }
}

impl Handler<AwaitGenerations> for RegenActor {
    type Result = ResponseFuture<()>;

    fn handle(
        &mut self,
        AwaitGenerations(session_id): AwaitGenerations,
        _: &mut Context<Self>,
    ) -> Self::Result {
        let generations: Vec<_> = match session_id {
            Some(session_id) => self.running.get(&session_id).cloned().into_iter().collect(),
            None => self.running.values().cloned().collect(),
        };
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
        if self.running.get(&session_id).is_some_and(|running| !running.is_running()) {
            self.running.remove(&session_id);
        }
    }
}

actors_platform::handle_actor_calls!(RegenActor);
