//! The rules: text checked against facts (Oracle-A).
//!
//! The decision is `domain`'s. The actor keeps the fact sets that were compiled for it, since the same facts are asked
//! about again and again, and sees to it that large ones neither hold up the thread that it lives on nor take all
//! processors at once.

mod compiled;
pub mod fact_sources;

use crate::audit::logger::{CommitError, Log};
use crate::ground::queries::Processors;
use crate::platform::clock::{Clock, monotonic};
use crate::platform::guardian::panic_message;
use crate::platform::metrics::Metrics;
use actix::{Actor, Context, Handler, Message, ResponseFuture, Supervised};
use compiled::Compiled;
use oracled_domain::audit::event::RulesEntry;
use oracled_domain::rules::{Candidate, Check, Evaluation, FactSet, Settings, evaluate};
use oracled_domain::verdict::rules_gate::{Examination, examine};
use oracled_domain::{Approved, Event, EventKind};
use oracled_store::Record;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use tokio::task::yield_now;

/// More than so many bytes of text, facts and expectations are looked at on a thread of their own.
const INLINE_MAX_BYTES: usize = 16 * 1024;

/// What is configured.
#[derive(Debug, Clone)]
pub struct RulesConfig {
    /// Which rules apply, and what they allow, where a check does not say.
    pub settings: Settings,
    /// The memory for compiled fact sets, in bytes.
    pub compiled_bytes: u64,
}

/// A text and what it is checked against.
#[derive(Debug, Clone)]
pub struct Case {
    /// What the caller calls it.
    pub id: Option<String>,
    /// The text.
    pub candidate_output: String,
    /// Valid, as [`Check::validate`] has it.
    pub check: Arc<Check>,
}

/// Evaluates texts, in their order, and logs the evaluations in one commit.
#[derive(Debug, Message)]
#[rtype(result = "Result<Vec<Evaluation>, RulesError>")]
pub struct Evaluate(pub Vec<Case>);

/// Examines an approved verdict. Whoever asks logs what comes of it, with what else belongs to the verdict.
#[derive(Debug, Message)]
#[rtype(result = "Result<Examination, RulesError>")]
pub struct Examine {
    /// The verdict.
    pub approved: Approved,
    /// What it is checked against; valid.
    pub check: Arc<Check>,
}

/// Why nothing was evaluated.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// Evaluating failed inside.
    #[error("evaluating failed: {0}")]
    Evaluating(String),
    /// The entries could not be committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

/// The actor.
#[derive(Debug)]
pub struct Rules {
    bench: Arc<Bench>,
    log: Log,
    clock: Clock,
}

/// What is needed to evaluate, on whatever thread.
#[derive(Debug)]
struct Bench {
    settings: Settings,
    compiled: Compiled,
    /// As many large evaluations at once as there are processors; the others wait.
    processors: Processors,
    metrics: Metrics,
}

impl Rules {
    pub(crate) fn new(
        config: RulesConfig,
        processors: Processors,
        log: Log,
        clock: Clock,
        metrics: Metrics,
    ) -> Self {
        let RulesConfig { settings, compiled_bytes } = config;
        let compiled = Compiled::new(compiled_bytes, metrics.checking.clone());
        Self { bench: Arc::new(Bench { settings, compiled, processors, metrics }), log, clock }
    }
}

impl Bench {
    /// Runs `work` over a text of so many bytes with the facts of `check`: here where that takes a moment, else on a
    /// thread of its own.
    async fn run<T: Send + 'static>(
        self: Arc<Self>,
        text_bytes: usize,
        check: Arc<Check>,
        work: impl FnOnce(&Check, &FactSet, &Settings) -> T + Send + 'static,
    ) -> Result<T, RulesError> {
        let bytes = text_bytes + check.size_bytes();
        let bench = Arc::clone(&self);
        let timed = move || {
            let began = monotonic();
            let facts = bench.compiled.of(&check.facts);
            let weight_bytes = facts.weight_bytes();
            let done = catch_unwind(AssertUnwindSafe(|| work(&check, &facts, &bench.settings)));
            if facts.weight_bytes() != weight_bytes {
                bench.compiled.keep(&facts);
            }
            bench.metrics.checking.took(began.elapsed());
            done.map_err(|panic| RulesError::Evaluating(panic_message(&*panic)))
        };
        if bytes <= INLINE_MAX_BYTES {
            return timed();
        }
        let _processor = self.processors.for_evaluation().await;
        let done = tokio::task::spawn_blocking(timed).await;
        done.unwrap_or_else(|error| Err(RulesError::Evaluating(error.to_string())))
    }
}

async fn evaluate_all(
    cases: Vec<Case>,
    bench: Arc<Bench>,
    log: Log,
    clock: Clock,
) -> Result<Vec<Evaluation>, RulesError> {
    let mut evaluations = Vec::with_capacity(cases.len());
    let mut ids = Vec::with_capacity(cases.len());
    for Case { id, candidate_output, check } in cases {
        let text_bytes = candidate_output.len();
        let work = move |check: &Check, facts: &FactSet, settings: &Settings| {
            evaluate(&Candidate::text(&candidate_output), check, facts, settings)
        };
        let evaluation = Arc::clone(&bench).run(text_bytes, check, work).await?;
        bench.metrics.checking.evaluated(&evaluation);
        // others of this thread have their turn between any two
        yield_now().await;
        evaluations.push(evaluation);
        ids.push(id);
    }
    let now = clock.now();
    let entry = |(evaluation, case_id)| {
        let entry = RulesEntry { case_id, ..RulesEntry::of(evaluation, None) };
        Event::new(now, None, EventKind::RulesEvaluated(entry))
    };
    let events = evaluations.iter().zip(ids).map(entry).collect();
    log.commit(Record { events, ..Record::default() }).await?;
    Ok(evaluations)
}

async fn examine_one(message: Examine, bench: Arc<Bench>) -> Result<Examination, RulesError> {
    let Examine { approved, check } = message;
    let text_bytes = approved.verdict().get().len();
    let work =
        move |check: &Check, facts: &FactSet, settings: &Settings| examine(approved, check, facts, settings);
    let examination = Arc::clone(&bench).run(text_bytes, check, work).await?;
    bench.metrics.checking.evaluated(&examination.evaluation);
    Ok(examination)
}

impl Actor for Rules {
    type Context = Context<Self>;
}

impl Supervised for Rules {}

impl Handler<Evaluate> for Rules {
    type Result = ResponseFuture<Result<Vec<Evaluation>, RulesError>>;

    fn handle(&mut self, Evaluate(cases): Evaluate, _: &mut Context<Self>) -> Self::Result {
        let (bench, log, clock) = (Arc::clone(&self.bench), self.log.clone(), self.clock.clone());
        Box::pin(evaluate_all(cases, bench, log, clock))
    }
}

impl Handler<Examine> for Rules {
    type Result = ResponseFuture<Result<Examination, RulesError>>;

    fn handle(&mut self, message: Examine, _: &mut Context<Self>) -> Self::Result {
        Box::pin(examine_one(message, Arc::clone(&self.bench)))
    }
}

crate::platform::door::asked_through_a_door!(Rules);

#[cfg(test)]
mod tests;
