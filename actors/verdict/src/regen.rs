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
use domain_verdict::divergence::{RegenVariance, RegenVarianceWindow, VARIANCE_THRESHOLD, VARIANCE_WINDOW};
use domain_verdict::event::{InfrastructureVariance, RegenDivergenceCheck};
use oracled_store::{LogLine, LogQuery, Store, StoreError};
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

/// Adds the regenerations that were logged meanwhile to the variance watch.
#[derive(Debug, Message)]
#[rtype(result = "()")]
struct FollowDivergence;

/// Removes a regeneration that has ended.
#[derive(Debug, Message)]
#[rtype(result = "()")]
struct ClearGeneration(SessionId);

#[derive(Debug)]
pub struct RegenActor {
    runner: Arc<GenerationRunner>,
    log: LoggerHandle,
    running: HashMap<SessionId, RunningRegeneration>,
    variance: VarianceWatch,
}

/// The latest regenerations of the log, which has those of all hosts of a cluster.
#[derive(Debug, Default)]
struct VarianceWatch {
    window: RegenVarianceWindow,
    /// The last entry that was read.
    read_to: u64,
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
        Self { runner, log, running: HashMap::new(), variance: VarianceWatch::default() }
    }

    /// Starts the regeneration of a session's verdict.
    fn start(&mut self, session_id: SessionId, ctx: &Context<Self>) -> RunningRegeneration {
        let (sender, result) = watch::channel(None);
        let (me, runner, id) = (ctx.address(), Arc::clone(&self.runner), session_id.clone());
        let started = RunningRegeneration(result);
        self.running.insert(session_id, started.clone());
        actix_rt::spawn(run_as_current_caller(async move {
            let outcome = runner.regenerate(id.clone()).await;
            if let Ok(SubmissionOutcome::Regenerated(..)) = &outcome {
                me.do_send(FollowDivergence);
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

/// The first entries of this event after an entry, or the newest ones.
fn entries(event: &str, after: Option<u64>, limit: usize) -> LogQuery {
    let (events, newest) = (vec![event.to_owned()], after.is_none());
    LogQuery { events, newest, after: after.unwrap_or_default(), limit, ..LogQuery::default() }
}

impl VarianceWatch {
    /// The latest regenerations of the log. The flag is true if a high variance is not logged yet.
    fn restore(store: &Store) -> Result<(Self, bool), StoreError> {
        let mut limit = VARIANCE_WINDOW;
        let (watch, first) = loop {
            let lines = store.log(&entries(RegenDivergenceCheck::NAME, None, limit))?;
            let mut watch = Self::default();
            for line in &lines {
                watch.note(line);
            }
            // regenerations that the watch does not count are skipped, so more entries may be needed
            if watch.window.is_full() || lines.len() < limit || limit >= REMEMBERED_MAX {
                break (watch, lines.first().map_or(0, |line| line.seq));
            }
            limit *= 10;
        };
        let unsaid = watch.window.variance().escalated && !is_logged_after(store, first)?;
        Ok((watch, unsaid))
    }

    /// Adds the regenerations that were logged meanwhile. Returns true if the variance has become high, and no host has logged it.
    fn follow(&mut self, store: &Store) -> Result<bool, StoreError> {
        let mut high_since = None;
        loop {
            let query = entries(RegenDivergenceCheck::NAME, Some(self.read_to), VARIANCE_WINDOW);
            let lines = store.log(&query)?;
            for line in &lines {
                if self.note(line) {
                    high_since = Some(line.seq);
                }
            }
            if lines.len() < VARIANCE_WINDOW {
                break;
            }
        }
        match high_since.filter(|_| self.window.variance().escalated) {
            Some(high_since) => Ok(!is_logged_after(store, high_since)?),
            None => Ok(false),
        }
    }

    /// Adds an entry. Returns whether the variance has become high by it.
    fn note(&mut self, line: &LogLine) -> bool {
        self.read_to = line.seq;
        let entry = LoggedEvent::<RegenDivergenceCheck>::read(&line.json);
        matches!(entry, Ok(Some(entry)) if self.window.note(&entry.event.0).is_some())
    }
}

/// Whether a high variance was logged after an entry.
fn is_logged_after(store: &Store, seq: u64) -> Result<bool, StoreError> {
    let logged = store.log(&entries(InfrastructureVariance::NAME, None, 1))?;
    Ok(logged.last().is_some_and(|line| line.seq > seq))
}

impl RegenActor {
    /// Adds the regenerations that were logged meanwhile to the watch, and logs a high variance.
    fn follow_divergence(&mut self) {
        match self.variance.follow(&self.runner.store) {
            Ok(true) => self.escalate(self.variance.window.variance()),
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "the variance watch lacks the latest regenerations"),
        }
    }
}

impl Actor for RegenActor {
    type Context = Context<Self>;

    fn started(&mut self, _: &mut Context<Self>) {
        match VarianceWatch::restore(&self.runner.store) {
            Ok((watch, unsaid)) => {
                self.variance = watch;
                if unsaid {
                    self.escalate(self.variance.window.variance());
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
        self.follow_divergence();
        MessageResult(self.variance.window.variance())
    }
}

impl Handler<FollowDivergence> for RegenActor {
    type Result = ();

    fn handle(&mut self, _: FollowDivergence, _: &mut Context<Self>) {
        self.follow_divergence();
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
