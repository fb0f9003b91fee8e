//! The rules: text checked against facts (Oracle-A).
//!
//! `domain` makes the decision. This service keeps compiled fact sets, since callers use the same facts again
//! and again. Large evaluations run on their own threads, on a limited number of processors.

mod compiled;
pub mod fact_sources;

use crate::audit::logger::{CommitError, LoggerHandle};
use crate::ground::queries::ProcessorPool;
use crate::platform::clock::{Clock, monotonic};
use crate::platform::guardian::panic_message;
use crate::platform::metrics::ActorMetrics;
use compiled::FactSetCache;
use oracled_domain::audit::event::RulesEntry;
use oracled_domain::rules::{
    CandidateCheck, CandidateText, FactSet, RuleId, RuleSettings, RulesEvaluation, evaluate,
};
use oracled_domain::verdict::rules_gate::{RulesGateOutcome, examine};
use oracled_domain::{ApprovedVerdict, AuditEvent, EventKind};
use oracled_store::JournalRecord;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use tokio::task::yield_now;

/// The most bytes of text, facts and expectations that are evaluated on the caller's thread. Larger
/// evaluations get their own thread.
const INLINE_MAX_BYTES: usize = 16 * 1024;

/// The configuration of the rules.
#[derive(Debug, Clone)]
pub struct RulesConfig {
    /// The rules and limits that apply if a check does not set them.
    pub settings: RuleSettings,
    /// The memory for compiled fact sets, in bytes.
    pub compiled_bytes: u64,
}

/// A text and the check that applies to it.
#[derive(Debug, Clone)]
pub struct EvaluationCase {
    /// The caller's name for the case.
    pub id: Option<String>,
    /// The text that is checked.
    pub candidate_output: String,
    /// The facts and settings; valid, see [`CandidateCheck::validate`].
    pub check: Arc<CandidateCheck>,
}

/// Why nothing was evaluated.
#[derive(Debug, thiserror::Error)]
pub enum EvaluationError {
    /// An evaluation panicked.
    #[error("could not evaluate the rules: {0}")]
    Evaluating(String),
    /// The entries could not be committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

/// The service that evaluates texts. Clones share the compiled fact sets.
#[derive(Debug, Clone)]
pub struct RuleService {
    runner: Arc<RuleRunner>,
}

/// The state of the service, which evaluations share on every thread.
#[derive(Debug)]
struct RuleRunner {
    settings: RuleSettings,
    compiled: FactSetCache,
    /// Limits large evaluations to one for each processor; others wait.
    processors: ProcessorPool,
    log: LoggerHandle,
    clock: Clock,
    metrics: ActorMetrics,
}

impl RuleService {
    pub(crate) fn new(
        config: RulesConfig,
        processors: ProcessorPool,
        log: LoggerHandle,
        clock: Clock,
        metrics: ActorMetrics,
    ) -> Self {
        let RulesConfig { settings, compiled_bytes } = config;
        let compiled = FactSetCache::new(compiled_bytes, metrics.rules.clone());
        Self { runner: Arc::new(RuleRunner { settings, compiled, processors, log, clock, metrics }) }
    }

    /// Evaluates texts, in their order, and logs the evaluations in one commit.
    ///
    /// # Errors
    /// `Evaluating` if an evaluation failed; `Commit` if the evaluations are not in the log.
    pub async fn evaluate(
        &self,
        cases: Vec<EvaluationCase>,
    ) -> Result<Vec<RulesEvaluation>, EvaluationError> {
        let mut evaluations = Vec::with_capacity(cases.len());
        let mut ids = Vec::with_capacity(cases.len());
        for EvaluationCase { id, candidate_output, check } in cases {
            let text_bytes = candidate_output.len();
            let work = move |check: &CandidateCheck, facts: &FactSet, settings: &RuleSettings| {
                evaluate(&CandidateText::text(&candidate_output), check, facts, settings)
            };
            let evaluation = Arc::clone(&self.runner).run(text_bytes, check, work).await?;
            self.runner.metrics.rules.count_evaluation(&evaluation);
            // other tasks of this thread run between two evaluations
            yield_now().await;
            evaluations.push(evaluation);
            ids.push(id);
        }
        let now = self.runner.clock.now();
        let event = |(evaluation, case_id)| {
            let entry = RulesEntry { case_id, ..RulesEntry::of(evaluation, None) };
            AuditEvent::new(now, None, EventKind::RulesEvaluated(entry))
        };
        let events = evaluations.iter().zip(ids).map(event).collect();
        self.runner.log.commit(JournalRecord { events, ..JournalRecord::default() }).await?;
        Ok(evaluations)
    }

    /// `check` with the additional rules `required`. Without a check, they are applied without facts.
    pub(crate) fn require_rules(
        &self,
        check: Option<&Arc<CandidateCheck>>,
        required: &[RuleId],
    ) -> Option<Arc<CandidateCheck>> {
        if required.is_empty() {
            return check.cloned();
        }
        let own = check.map_or_else(
            || CandidateCheck { rules: Some(Vec::new()), ..CandidateCheck::default() },
            |check| CandidateCheck::clone(check),
        );
        Some(Arc::new(own.with_added_rules(required, &self.runner.settings)))
    }

    /// Examines an approved verdict against a valid check. The caller logs the evaluation with the other
    /// entries of the verdict.
    ///
    /// # Errors
    /// `Evaluating` if the evaluation failed.
    pub(crate) async fn examine(
        &self,
        approved: ApprovedVerdict,
        check: Arc<CandidateCheck>,
    ) -> Result<RulesGateOutcome, EvaluationError> {
        let text_bytes = approved.verdict().get().len();
        let work = move |check: &CandidateCheck, facts: &FactSet, settings: &RuleSettings| {
            examine(approved, check, facts, settings)
        };
        let examination = Arc::clone(&self.runner).run(text_bytes, check, work).await?;
        self.runner.metrics.rules.count_evaluation(&examination.evaluation);
        Ok(examination)
    }
}

impl RuleRunner {
    /// Runs `work` over a text of `text_bytes` bytes with the facts of `check`. Small work runs here, large work on its
    /// own thread.
    async fn run<T: Send + 'static>(
        self: Arc<Self>,
        text_bytes: usize,
        check: Arc<CandidateCheck>,
        work: impl FnOnce(&CandidateCheck, &FactSet, &RuleSettings) -> T + Send + 'static,
    ) -> Result<T, EvaluationError> {
        let bytes = text_bytes + check.size_bytes();
        let runner = Arc::clone(&self);
        let timed = move || {
            let began = monotonic();
            let done = catch_unwind(AssertUnwindSafe(|| {
                let facts = runner.compiled.get_or_compile(&check.facts);
                let weight_bytes = facts.weight_bytes();
                let done = work(&check, &facts, &runner.settings);
                if facts.weight_bytes() != weight_bytes {
                    runner.compiled.store_fact_set(&facts);
                }
                done
            }));
            runner.metrics.rules.observe_duration(began.elapsed());
            done.map_err(|panic| EvaluationError::Evaluating(panic_message(&*panic)))
        };
        if bytes <= INLINE_MAX_BYTES {
            return timed();
        }
        let _processor = self.processors.acquire_for_evaluation().await;
        let done = tokio::task::spawn_blocking(timed).await;
        done.unwrap_or_else(|error| Err(EvaluationError::Evaluating(error.to_string())))
    }
}

#[cfg(test)]
mod tests;
