//! The witnesses of the log, and the newest checkpoint that they have cosigned.

use super::web::witness::{SignedCheckpoint, WitnessClient, WitnessError, WitnessFailureReason};
use actors_platform::clock::Clock;
use actors_platform::metrics::{MetricLabelValue, init_counters, pairs};
use domain_audit::checkpoint::Cosignature;
use jiff::Timestamp;
use oracled_store::Store;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use strum::VariantArray;
use tokio::task::JoinSet;

/// The submissions in a row that must find a conflict. The answers are not signed, and one can be a fault of the witness.
const CONFLICTS_IN_A_ROW: u32 = 2;

/// The configured witnesses. Clones share their state.
#[derive(Debug, Clone)]
pub struct Witnesses {
    witnesses: Vec<Arc<Witness>>,
    /// The newest checkpoint with a cosignature.
    cosigned: Arc<Mutex<Option<SignedCheckpoint>>>,
    /// The number of witnesses whose conflicts stop new work.
    stop_at_conflicts: usize,
    clock: Clock,
    metrics: WitnessMetrics,
}

/// A witness.
#[derive(Debug)]
struct Witness {
    name: String,
    client: WitnessClient,
    state: Mutex<WitnessState>,
}

#[derive(Debug, Default)]
struct WitnessState {
    cosigned: Option<CosignedSize>,
    failure: Option<String>,
    conflict: Option<FoundConflict>,
}

/// A conflict that the last submissions with an answer found.
#[derive(Debug)]
struct FoundConflict {
    text: String,
    /// The number of these submissions.
    times: u32,
}

impl FoundConflict {
    const fn is_confirmed(&self) -> bool {
        self.times >= CONFLICTS_IN_A_ROW
    }
}

/// A witness whose log this one does not continue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConflictingWitness {
    /// Its name in the configuration.
    pub name: String,
    /// How the logs differ.
    pub conflict: String,
}

/// The last cosignature of a witness.
#[derive(Debug, Clone)]
struct CosignedSize {
    size: u64,
    at: Timestamp,
    line: String,
}

/// The state of a witness.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WitnessStatus {
    /// Its name in the configuration.
    pub name: String,
    /// The number of entries that it has cosigned since the start, and when it last has.
    pub cosigned: Option<(u64, Timestamp)>,
    /// Why it did not cosign the last checkpoint.
    pub failure: Option<String>,
}

/// The label of a witness: its name in the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WitnessLabels {
    witness: String,
}

/// The labels of failed submissions to a witness.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FailureLabels {
    witness: String,
    reason: MetricLabelValue,
}

/// The metrics of all witnesses. Clones share the counters.
#[derive(Debug, Clone)]
struct WitnessMetrics {
    cosigned_at: Family<WitnessLabels, Gauge>,
    conflict: Family<WitnessLabels, Gauge>,
    failures: Family<FailureLabels, Counter>,
}

impl WitnessMetrics {
    /// The metrics of these witnesses. `started_at` counts as their last cosignature, so that its age is known.
    fn new(witnesses: &[String], reasons: &[&'static str], started_at: Timestamp) -> Self {
        let failures = pairs(witnesses, reasons);
        let failures =
            failures.map(|(witness, reason)| FailureLabels { witness, reason: MetricLabelValue(reason) });
        let metrics = Self {
            cosigned_at: Family::default(),
            conflict: Family::default(),
            failures: init_counters(failures),
        };
        for witness in witnesses {
            metrics.set_cosigned(witness, started_at);
        }
        metrics
    }

    /// Sets when `witness` has last cosigned a checkpoint.
    fn set_cosigned(&self, witness: &str, at: Timestamp) {
        let labels = WitnessLabels { witness: witness.to_owned() };
        self.cosigned_at.get_or_create(&labels).set(at.as_second());
        self.conflict.get_or_create(&labels).set(0);
    }

    /// Notes that the log does not continue that of `witness`.
    fn set_conflict(&self, witness: &str) {
        self.conflict.get_or_create(&WitnessLabels { witness: witness.to_owned() }).set(1);
    }

    /// Counts a failed submission.
    fn count_failure(&self, witness: &str, reason: &'static str) {
        let labels = FailureLabels { witness: witness.to_owned(), reason: MetricLabelValue(reason) };
        self.failures.get_or_create(&labels).inc();
    }
}

impl Witnesses {
    /// The witnesses with these names. New work stops if `stop_at_conflicts` of them report a conflict.
    #[must_use]
    pub fn new(
        clients: impl IntoIterator<Item = (String, WitnessClient)>,
        stop_at_conflicts: usize,
        clock: Clock,
    ) -> Self {
        let witness = |(name, client)| Arc::new(Witness { name, client, state: Mutex::default() });
        let witnesses: Vec<_> = clients.into_iter().map(witness).collect();
        let names: Vec<_> = witnesses.iter().map(|witness| witness.name.clone()).collect();
        let reasons: Vec<_> = WitnessFailureReason::VARIANTS.iter().map(|reason| reason.into_str()).collect();
        let metrics = WitnessMetrics::new(&names, &reasons, clock.now());
        Self { witnesses, cosigned: Arc::default(), stop_at_conflicts, clock, metrics }
    }

    /// Adds the metrics to `registry`.
    pub fn register_metrics(&self, registry: &mut Registry) {
        registry.register_with_unit(
            "witness_cosigned_timestamp",
            "when the witness last cosigned a checkpoint; the start of the daemon before the first one",
            Unit::Seconds,
            self.metrics.cosigned_at.clone(),
        );
        registry.register(
            "witness_conflict",
            "whether the log does not continue that of the witness",
            self.metrics.conflict.clone(),
        );
        registry.register(
            "witness_failures",
            "submissions of checkpoints that the witness did not cosign, by reason",
            self.metrics.failures.clone(),
        );
    }

    /// Submits `checkpoint` to all witnesses at once. Returns it with their cosignatures; `None` if there are none.
    pub async fn submit(&self, store: &Store, checkpoint: SignedCheckpoint) -> Option<SignedCheckpoint> {
        let mut submissions = JoinSet::new();
        for witness in &self.witnesses {
            let (this, witness) = (self.clone(), Arc::clone(witness));
            let (store, checkpoint) = (store.clone(), checkpoint.clone());
            submissions.spawn(async move {
                let held = witness.state().cosigned.as_ref().map_or(0, |cosigned| cosigned.size);
                let submitted = witness.client.submit(&store, &checkpoint, held).await;
                this.note_outcome(&witness, checkpoint.size, submitted);
            });
        }
        // a panic of one is logged, and counts as no answer
        while submissions.join_next().await.is_some() {}
        let states = self.witnesses.iter().filter_map(|witness| witness.state().cosigned.clone());
        let lines = states.filter(|cosigned| cosigned.size == checkpoint.size).map(|cosigned| cosigned.line);
        let lines: String = lines.collect();
        if lines.is_empty() {
            return None;
        }
        let cosigned = SignedCheckpoint { note: checkpoint.note + &lines, ..checkpoint };
        *self.cosigned.lock().unwrap_or_else(PoisonError::into_inner) = Some(cosigned.clone());
        Some(cosigned)
    }

    fn note_outcome(&self, witness: &Witness, size: u64, submitted: Result<Cosignature, WitnessError>) {
        let Witness { name, .. } = witness;
        let mut state = witness.state();
        let error = match submitted {
            Ok(Cosignature { line, .. }) => {
                if let Some(failure) = state.failure.take() {
                    tracing::info!(witness = name, failure, "the witness cosigns checkpoints again");
                }
                let at = self.clock.now();
                state.cosigned = Some(CosignedSize { size, at, line });
                state.conflict = None;
                return self.metrics.set_cosigned(name, at);
            }
            Err(error) => error,
        };
        self.metrics.count_failure(name, error.reason().into_str());
        let text = error.to_string();
        match &error {
            // the caller reports it
            WitnessError::Conflict(_) => {
                let times = state.conflict.as_ref().map_or(0, |found| found.times).saturating_add(1);
                let found = FoundConflict { text: text.clone(), times };
                if found.is_confirmed() {
                    self.metrics.set_conflict(name);
                }
                state.conflict = Some(found);
            }
            WitnessError::Invalid(_) => {
                tracing::error!(witness = name, error = text, "the answer of the witness cannot be verified");
            }
            _ => tracing::warn!(witness = name, error = text, "the witness did not cosign the checkpoint"),
        }
        state.failure = Some(text);
    }

    /// The newest checkpoint with a cosignature.
    #[must_use]
    pub fn cosigned(&self) -> Option<SignedCheckpoint> {
        self.cosigned.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The witnesses whose log this one does not continue, by several submissions in a row.
    #[must_use]
    pub fn conflicts(&self) -> Vec<ConflictingWitness> {
        let conflict = |witness: &Arc<Witness>| {
            let state = witness.state();
            let found = state.conflict.as_ref().filter(|found| found.is_confirmed())?;
            Some(ConflictingWitness { name: witness.name.clone(), conflict: found.text.clone() })
        };
        self.witnesses.iter().filter_map(conflict).collect()
    }

    /// A witness whose log this one does not continue, if at least `stop_at_conflicts` witnesses report a conflict.
    #[must_use]
    pub fn stopping_conflict(&self) -> Option<ConflictingWitness> {
        let conflicts = self.conflicts();
        if conflicts.len() < self.stop_at_conflicts { None } else { conflicts.into_iter().next() }
    }

    /// Whether a witness has reported a conflict only once.
    #[must_use]
    pub fn has_unconfirmed_conflict(&self) -> bool {
        let is_unconfirmed = |witness: &Arc<Witness>| {
            witness.state().conflict.as_ref().is_some_and(|found| !found.is_confirmed())
        };
        self.witnesses.iter().any(is_unconfirmed)
    }

    /// The state of each witness.
    #[must_use]
    pub fn statuses(&self) -> Vec<WitnessStatus> {
        let status = |witness: &Arc<Witness>| {
            let state = witness.state();
            WitnessStatus {
                name: witness.name.clone(),
                cosigned: state.cosigned.as_ref().map(|cosigned| (cosigned.size, cosigned.at)),
                failure: state.failure.clone(),
            }
        };
        self.witnesses.iter().map(status).collect()
    }
}

impl Witness {
    fn state(&self) -> MutexGuard<'_, WitnessState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
