//! The rules: text checked against facts (Oracle-A).
//!
//! `domain` makes the decision. This service keeps compiled fact sets, since callers use the same facts again and again.
//! Large evaluations run on their own threads, on a limited number of processors.

mod compiled;
pub mod fact_sources;

use crate::audit::logger::{CommitError, Log};
use crate::ground::queries::Processors;
use crate::platform::clock::{Clock, monotonic};
use crate::platform::guardian::panic_message;
use crate::platform::metrics::Metrics;
use compiled::Compiled;
use oracled_domain::audit::event::RulesEntry;
use oracled_domain::rules::{Candidate, Check, Evaluation, FactSet, Settings, evaluate};
use oracled_domain::verdict::rules_gate::{Examination, examine};
use oracled_domain::{Approved, Event, EventKind};
use oracled_store::Record;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use tokio::task::yield_now;

/// The most bytes of text, facts and expectations that are evaluated on the caller's thread. Larger evaluations get their
/// own thread.
const INLINE_MAX_BYTES: usize = 16 * 1024;

/// The configuration of the rules.
#[derive(Debug, Clone)]
pub struct RulesConfig {
    /// The rules and limits that apply if a check does not set them.
    pub settings: Settings,
    /// The memory for compiled fact sets, in bytes.
    pub compiled_bytes: u64,
}

/// A text and the check that applies to it.
#[derive(Debug, Clone)]
pub struct Case {
    /// The caller's name for the case.
    pub id: Option<String>,
    /// The text that is checked.
    pub candidate_output: String,
    /// The facts and settings; valid, see [`Check::validate`].
    pub check: Arc<Check>,
}

/// Why nothing was evaluated.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// An evaluation panicked.
    #[error("evaluating failed: {0}")]
    Evaluating(String),
    /// The entries could not be committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

/// The service that evaluates texts. Clones share the compiled fact sets.
#[derive(Debug, Clone)]
pub struct Rules {
    bench: Arc<Bench>,
}

/// The state of the service, which evaluations share on every thread.
#[derive(Debug)]
struct Bench {
    settings: Settings,
    compiled: Compiled,
    /// Limits large evaluations to one for each processor; others wait.
    processors: Processors,
    log: Log,
    clock: Clock,
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
        Self { bench: Arc::new(Bench { settings, compiled, processors, log, clock, metrics }) }
    }

    /// Evaluates texts, in their order, and logs the evaluations in one commit.
    ///
    /// # Errors
    /// `Evaluating` if an evaluation failed; `Commit` if the evaluations are not in the log.
    pub async fn evaluate(&self, cases: Vec<Case>) -> Result<Vec<Evaluation>, RulesError> {
        let mut evaluations = Vec::with_capacity(cases.len());
        let mut ids = Vec::with_capacity(cases.len());
        for Case { id, candidate_output, check } in cases {
            let text_bytes = candidate_output.len();
            let work = move |check: &Check, facts: &FactSet, settings: &Settings| {
                evaluate(&Candidate::text(&candidate_output), check, facts, settings)
            };
            let evaluation = Arc::clone(&self.bench).run(text_bytes, check, work).await?;
            self.bench.metrics.checking.evaluated(&evaluation);
            // other tasks of this thread run between two evaluations
            yield_now().await;
            evaluations.push(evaluation);
            ids.push(id);
        }
        let now = self.bench.clock.now();
        let event = |(evaluation, case_id)| {
            let entry = RulesEntry { case_id, ..RulesEntry::of(evaluation, None) };
            Event::new(now, None, EventKind::RulesEvaluated(entry))
        };
        let events = evaluations.iter().zip(ids).map(event).collect();
        self.bench.log.commit(Record { events, ..Record::default() }).await?;
        Ok(evaluations)
    }

    /// Examines an approved verdict against a valid check. The caller logs the evaluation with the other entries of the verdict.
    ///
    /// # Errors
    /// `Evaluating` if the evaluation failed.
    pub(crate) async fn examine(
        &self,
        approved: Approved,
        check: Arc<Check>,
    ) -> Result<Examination, RulesError> {
        let text_bytes = approved.verdict().get().len();
        let work = move |check: &Check, facts: &FactSet, settings: &Settings| {
            examine(approved, check, facts, settings)
        };
        let examination = Arc::clone(&self.bench).run(text_bytes, check, work).await?;
        self.bench.metrics.checking.evaluated(&examination.evaluation);
        Ok(examination)
    }
}

impl Bench {
    /// Runs `work` over a text of `text_bytes` bytes with the facts of `check`. Small work runs here, large work on its
    /// own thread.
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
            let done = catch_unwind(AssertUnwindSafe(|| {
                let facts = bench.compiled.of(&check.facts);
                let weight_bytes = facts.weight_bytes();
                let done = work(&check, &facts, &bench.settings);
                if facts.weight_bytes() != weight_bytes {
                    bench.compiled.keep(&facts);
                }
                done
            }));
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

#[cfg(test)]
mod tests;
