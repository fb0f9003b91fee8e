//! The rules: text checked against facts (Oracle-A).
//!
//! `domain` makes the decision. This service keeps compiled fact sets, since callers use the same facts again
//! and again. Large evaluations run on their own threads, on a limited number of processors.

pub mod documents;
pub mod fact_sources;

use actors_audit::logger::{CommitError, LoggerHandle};
use actors_ground::queries::ProcessorPool;
use actors_platform::clock::{Clock, monotonic};
use actors_platform::guardian::panic_message;
use actors_platform::metrics::{AddMetric, MetricLabelValue, init_counters, pairs};
use domain_base::digest::Sha256Hex;
use domain_base::event::AuditEvent;
use domain_ground::version_name::{WordlistName, WordlistRef};
use domain_rules::event::{RulesEntry, RulesEvaluated};
use domain_rules::wordlist::{CompiledWordlist, Wordlist};
use domain_rules::{
    CandidateCheck, CandidateText, FactSet, RuleId, RuleSettings, RuleVerdict, RulesEvaluation, evaluate,
};
use domain_verdict::crosscheck::ApprovedVerdict;
use domain_verdict::rules_gate::{RulesGateOutcome, examine};
use oracled_store::{JournalRecord, Store, StoreError};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use quick_cache::Weighter;
use quick_cache::unsync::Cache;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use strum::VariantArray;
use tokio::task::yield_now;

/// The most bytes of text, facts and expectations that are evaluated on the caller's thread. Larger
/// evaluations get their own thread.
const INLINE_MAX_BYTES: usize = 16 * 1024;
/// The assumed size of a fact set, to estimate how many sets fit into memory.
const TYPICAL_BYTES: u64 = 16 * 1024;
/// The most compiled word lists that are kept.
const WORDLISTS_MAX: usize = 16;

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

/// Why there is no word list.
#[derive(Debug, thiserror::Error)]
pub enum FindWordlistError {
    /// The list is not registered.
    #[error("word list {0} is not registered; register it with `oraclectl apply`, or name another one")]
    Unknown(WordlistName),
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
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
    /// The recently used word lists, each compiled at its first use.
    wordlists: Mutex<Cache<WordlistRef, Arc<CompiledWordlist>>>,
    store: Store,
    /// Limits large evaluations to one for each processor; others wait.
    processors: ProcessorPool,
    log: LoggerHandle,
    clock: Clock,
    metrics: RuleMetrics,
}

impl RuleService {
    pub fn new(
        config: RulesConfig,
        processors: ProcessorPool,
        store: Store,
        log: LoggerHandle,
        clock: Clock,
        metrics: RuleMetrics,
    ) -> Self {
        let RulesConfig { settings, compiled_bytes } = config;
        let compiled = FactSetCache::new(compiled_bytes, metrics.clone());
        let wordlists = Mutex::new(Cache::new(WORDLISTS_MAX));
        let runner = RuleRunner { settings, compiled, wordlists, store, processors, log, clock, metrics };
        Self { runner: Arc::new(runner) }
    }

    /// The settings of checks that do not set them.
    #[must_use]
    pub fn settings(&self) -> &RuleSettings {
        &self.runner.settings
    }

    /// The registered word list that `name` names.
    ///
    /// # Errors
    /// It is not registered, or the store cannot be read.
    pub fn find_wordlist(&self, name: &WordlistName) -> Result<Arc<CompiledWordlist>, FindWordlistError> {
        let RuleRunner { store, wordlists, .. } = &*self.runner;
        let unknown = || FindWordlistError::Unknown(name.clone());
        let version = match name.version {
            Some(version) => WordlistRef { id: name.id.clone(), version },
            None => store.find_version::<Wordlist, _>(name)?.ok_or_else(unknown)?,
        };
        let cached = || wordlists.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(list) = cached().get(&version) {
            return Ok(Arc::clone(list));
        }
        let registered = store.registered::<Wordlist>(&version.to_string())?;
        let (registered, _) = registered.ok_or_else(unknown)?;
        let list = Arc::new(CompiledWordlist::from(registered.document));
        cached().insert(version, Arc::clone(&list));
        Ok(list)
    }

    /// The memory of the compiled fact sets, in bytes.
    #[must_use]
    pub fn compiled_bytes(&self) -> u64 {
        self.runner.compiled.weight_bytes()
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

    /// Examines an approved verdict against a valid check. The caller logs the evaluation with the other
    /// entries of the verdict.
    ///
    /// # Errors
    /// `Evaluating` if the evaluation failed.
    pub async fn examine(
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
    fn weight_bytes(&self) -> u64 {
        self.sets.lock().unwrap_or_else(PoisonError::into_inner).weight()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EvaluationLabels {
    verdict: MetricLabelValue,
}

impl EvaluationLabels {
    const fn of(verdict: RuleVerdict) -> Self {
        Self { verdict: MetricLabelValue(verdict.into_str()) }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RuleResultLabels {
    rule: MetricLabelValue,
    verdict: MetricLabelValue,
}

impl RuleResultLabels {
    const fn of(rule: RuleId, verdict: RuleVerdict) -> Self {
        Self { rule: MetricLabelValue(rule.into_str()), verdict: MetricLabelValue(verdict.into_str()) }
    }
}

/// Where a compiled fact set was found.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FactSetLabels {
    result: MetricLabelValue,
}

impl FactSetLabels {
    const fn of(found: bool) -> Self {
        Self { result: MetricLabelValue(if found { "hit" } else { "compiled" }) }
    }
}

/// The metrics of text checks against facts.
#[derive(Debug, Clone)]
pub struct RuleMetrics {
    evaluations: Family<EvaluationLabels, Counter>,
    rules: Family<RuleResultLabels, Counter>,
    seconds: Histogram,
    fact_sets: Family<FactSetLabels, Counter>,
}

impl RuleMetrics {
    pub fn register(registry: &mut Registry) -> Self {
        Self {
            evaluations: registry.add(
                "rules_evaluations",
                "texts checked against facts, by verdict",
                init_counters(RuleVerdict::VARIANTS.iter().map(|verdict| EvaluationLabels::of(*verdict))),
            ),
            rules: registry.add(
                "rules_applied",
                "rules that were applied, by rule and verdict",
                init_counters(
                    pairs(RuleId::VARIANTS, RuleVerdict::VARIANTS)
                        .map(|(rule, verdict)| RuleResultLabels::of(rule, verdict)),
                ),
            ),
            seconds: registry.add_seconds(
                "rules_evaluation",
                "time to check a text against facts, without its commit",
                Histogram::new(exponential_buckets(0.000_01, 4.0, 10)),
            ),
            fact_sets: registry.add(
                "rules_fact_sets",
                "lookups of compiled fact sets: a hit, or compiled now",
                init_counters([true, false].map(FactSetLabels::of)),
            ),
        }
    }

    fn count_evaluation(&self, evaluation: &RulesEvaluation) {
        self.evaluations.get_or_create(&EvaluationLabels::of(evaluation.verdict)).inc();
        for rule in &evaluation.rules {
            self.rules.get_or_create(&RuleResultLabels::of(rule.rule, rule.verdict)).inc();
        }
    }

    /// Records the duration of an evaluation, without its commit.
    fn observe_duration(&self, time: Duration) {
        self.seconds.observe(time.as_secs_f64());
    }

    /// Counts a lookup of a compiled fact set: found, or compiled now.
    fn count_fact_set_lookup(&self, found: bool) {
        self.fact_sets.get_or_create(&FactSetLabels::of(found)).inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::registry::Registry;

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
}
