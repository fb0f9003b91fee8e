//! The rules: text checked against facts (Oracle-A).
//!
//! `domain` makes the decision. This service keeps compiled fact sets, since callers use the same facts again
//! and again. Large evaluations run on their own threads, on a limited number of processors.

pub mod fact_sources;
mod metrics;

pub(crate) use metrics::RuleMetrics;

use crate::audit::logger::{CommitError, LoggerHandle};
use crate::ground::queries::ProcessorPool;
use crate::platform::clock::{Clock, monotonic};
use crate::platform::guardian::panic_message;
use oracled_domain::rules::event::RulesEntry;
use oracled_domain::rules::event::RulesEvaluated;
use oracled_domain::rules::{
    CandidateCheck, CandidateText, FactSet, RuleId, RuleSettings, RulesEvaluation, evaluate,
};
use oracled_domain::verdict::rules_gate::{RulesGateOutcome, examine};
use oracled_domain::{ApprovedVerdict, AuditEvent, Sha256Hex};
use oracled_store::JournalRecord;
use quick_cache::Weighter;
use quick_cache::unsync::Cache;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::task::yield_now;

/// The most bytes of text, facts and expectations that are evaluated on the caller's thread. Larger
/// evaluations get their own thread.
const INLINE_MAX_BYTES: usize = 16 * 1024;
/// The assumed size of a fact set, to estimate how many sets fit into memory.
const TYPICAL_BYTES: u64 = 16 * 1024;

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
    metrics: RuleMetrics,
}

impl RuleService {
    pub(crate) fn new(
        config: RulesConfig,
        processors: ProcessorPool,
        log: LoggerHandle,
        clock: Clock,
        metrics: RuleMetrics,
    ) -> Self {
        let RulesConfig { settings, compiled_bytes } = config;
        let compiled = FactSetCache::new(compiled_bytes, metrics.clone());
        Self { runner: Arc::new(RuleRunner { settings, compiled, processors, log, clock, metrics }) }
    }

    /// The settings of checks that do not set them.
    #[must_use]
    pub fn settings(&self) -> &RuleSettings {
        &self.runner.settings
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
            self.runner.metrics.count_evaluation(&evaluation);
            // other tasks of this thread run between two evaluations
            yield_now().await;
            evaluations.push(evaluation);
            ids.push(id);
        }
        let now = self.runner.clock.now();
        let event = |(evaluation, case_id)| {
            let entry = RulesEntry { case_id, ..RulesEntry::of(evaluation, None) };
            AuditEvent::new(now, None, RulesEvaluated(entry))
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
        Some(Arc::new(own.with_added_rules(required, self.settings())))
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
        self.runner.metrics.count_evaluation(&examination.evaluation);
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
            runner.metrics.observe_duration(began.elapsed());
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

/// The recently used fact sets, compiled, by the digest of their facts. They are limited in bytes.
#[derive(Debug)]
struct FactSetCache {
    sets: Mutex<Cache<Sha256Hex, CachedFactSet, FactSetWeighter>>,
    metrics: RuleMetrics,
}

/// A set with its weight at the time of the insertion: the cache relies on a constant weight.
#[derive(Debug, Clone)]
struct CachedFactSet {
    set: Arc<FactSet>,
    weight_bytes: u64,
}

#[derive(Debug, Clone)]
struct FactSetWeighter;

impl Weighter<Sha256Hex, CachedFactSet> for FactSetWeighter {
    fn weight(&self, _: &Sha256Hex, cached: &CachedFactSet) -> u64 {
        cached.weight_bytes
    }
}

impl FactSetCache {
    fn new(bytes: u64, metrics: RuleMetrics) -> Self {
        let sets = usize::try_from(bytes / TYPICAL_BYTES).unwrap_or(usize::MAX);
        Self { sets: Mutex::new(Cache::with_weighter(sets, bytes, FactSetWeighter)), metrics }
    }

    /// Returns `facts`, compiled: from the cache, or compiled now.
    fn get_or_compile(&self, facts: &[String]) -> Arc<FactSet> {
        let sha256 = FactSet::sha256_of(facts);
        // a panic under the lock leaves no harmful state: at worst a set is compiled again
        let cached = self.sets.lock().unwrap_or_else(PoisonError::into_inner).get(&sha256).cloned();
        let set = cached.map(|cached| cached.set);
        self.metrics.count_fact_set_lookup(set.is_some());
        set.unwrap_or_else(|| {
            let set = Arc::new(FactSet::compile(facts));
            self.store_fact_set(&set);
            set
        })
    }

    /// Stores `set` with its current weight: a rule that searches facts in its own form adds to the weight.
    fn store_fact_set(&self, set: &Arc<FactSet>) {
        let mut sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        let cached = CachedFactSet { set: Arc::clone(set), weight_bytes: set.weight_bytes() };
        sets.insert(set.sha256().clone(), cached);
    }

    /// The memory of all sets, in bytes.
    #[cfg(test)]
    fn weight_bytes(&self) -> u64 {
        self.sets.lock().unwrap_or_else(PoisonError::into_inner).weight()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestSystem, logged_events, with_system};
    use prometheus_client::registry::Registry;

    fn case(text: &str, facts: &[String]) -> EvaluationCase {
        let check = Arc::new(CandidateCheck { facts: facts.to_vec(), ..CandidateCheck::default() });
        EvaluationCase { id: None, candidate_output: text.to_owned(), check }
    }

    fn rule_runner(system: &crate::ActorSystem) -> Arc<RuleRunner> {
        let config = RulesConfig { settings: RuleSettings::default(), compiled_bytes: 1 << 20 };
        RuleService::new(
            config,
            ProcessorPool::default(),
            system.log.clone(),
            system.clock.clone(),
            RuleMetrics::register(&mut Registry::default()),
        )
        .runner
    }

    fn verdicts(evaluations: &[RulesEvaluation]) -> Vec<&'static str> {
        evaluations.iter().map(|evaluation| evaluation.verdict.into_str()).collect()
    }

    #[test]
    fn evaluations_of_any_size_are_in_order_and_in_one_commit() {
        with_system(|TestSystem { system, .. }| async move {
            let small = ["Ice melts.".to_owned()];
            let large: Vec<String> = (0..10_000).map(|n| format!("Fact number {n} holds.")).collect();
            let cases = vec![
                case("Ice melts", &small),
                case("Fact number 9999 holds", &large),
                case("Ice burns", &small),
                case("Fact number 10000 holds", &large),
            ];
            let evaluations = system.rules.evaluate(cases).await.expect("the evaluation succeeds");
            assert_eq!(verdicts(&evaluations), ["PASS", "PASS", "FAIL", "FAIL"]);
            assert_eq!(logged_events(&system.store), ["rules_evaluated"; 4]);
        });
    }

    #[test]
    fn evaluation_fails_if_it_cannot_be_logged() {
        with_system(|world| async move {
            world.break_store();
            let facts = ["Ice melts.".to_owned()];
            let reported = world.system.rules.evaluate(vec![case("Ice melts", &facts)]).await;
            assert!(
                matches!(reported, Err(EvaluationError::Commit(CommitError::Unavailable(_)))),
                "{reported:?}"
            );
            let lines = world.fallback_lines.lock().expect("the lock is not poisoned").clone();
            assert_eq!(lines.len(), 1, "{lines:?}");
            assert!(lines.iter().all(|line| line.contains("rules_evaluated")), "{lines:?}");
        });
    }

    #[test]
    fn fact_set_is_compiled_once() {
        let compiled = FactSetCache::new(1 << 20, RuleMetrics::register(&mut Registry::default()));
        let facts = ["Ice melts.".to_owned()];
        let first = compiled.get_or_compile(&facts);
        assert!(Arc::ptr_eq(&first, &compiled.get_or_compile(&facts)));
        assert!(
            !Arc::ptr_eq(&first, &compiled.get_or_compile(&["Ice melts".to_owned()])),
            "a stop makes another fact"
        );
    }

    #[test]
    fn fact_set_that_has_grown_is_weighed_again() {
        with_system(|TestSystem { system, .. }| async move {
            let runner = rule_runner(&system);
            let facts: Vec<String> =
                (0..50).map(|n| format!("Fact number {n} holds, and is known.")).collect();
            let check = |rules: &str| {
                let rules = Some(vec![rules.parse().expect("a rule")]);
                Arc::new(CandidateCheck { facts: facts.clone(), rules, ..CandidateCheck::default() })
            };
            let weight = async |rules: &str| {
                let work = |check: &CandidateCheck, facts: &FactSet, settings: &RuleSettings| {
                    evaluate(&CandidateText::text("Fact number 7 holds"), check, facts, settings)
                };
                let evaluated =
                    Arc::clone(&runner).run(19, check(rules), work).await.expect("the evaluation succeeds");
                assert_eq!(verdicts(&[evaluated]), ["PASS"]);
                runner.compiled.weight_bytes()
            };
            let published = weight("RULE-PREC-001").await;
            let whole_words = weight("RULE-PREC-005").await;
            assert!(whole_words > published + published / 2, "{whole_words} after {published} bytes");
            assert_eq!(weight("RULE-PREC-001").await, whole_words);
        });
    }
}
