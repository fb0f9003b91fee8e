//! Verification: queries the sources of a workflow about one subject, decides, logs the decision, and only
//! then returns it (RFC-0002, Part II).
//!
//! The decision itself is made in `domain`. The service queries all sources at the same time, within the
//! workflow's timeouts. Each returned envelope is in the log with all inputs of its decision. The caller runs
//! the service in a task that a disconnect does not stop.

pub mod documents;
pub mod evidence;
mod metrics;
mod reviews;
pub mod source;
pub mod upkeep;
mod verification_task;

use crate::source::{SourceCallRequest, UncheckedReply, limit_candidate_size};
use crate::upkeep::PendingDecisions;
use actors_audit::logger::{CommitError, LoggerHandle};
use actors_ground::queries::QueryService;
use actors_platform::actor_handle::ActorHandle;
use actors_platform::clock::{Clock, stopwatch};
use actors_upstream::oracle::{LiveAnswer, LiveOracle, LiveQuery};
use actors_upstream::oracle_health::OracleHealth;
use domain_ground::id::{SourceId, WorkflowId};
use domain_ground::ontology::OntologyRef;
use domain_ground::source::SourceAdapterKind;
use domain_ground::version_name::ReviewRuleName;
use domain_upstream::health::OracleHealthConfig;
use domain_verification::adapter::{Adapter, ValidatedAdapter};
use domain_verification::request::VerifyRequestError;
use domain_verification::review::ReviewState;
use domain_verification::wire::RuledReview;
use domain_verification::workflow::Workflow;
use domain_verification::{
    CachedAnswer, CandidateAnswer, DecisionInputs, Envelope, OracleReply, VerifyRequest,
};
use jiff::Timestamp;
pub use metrics::VerificationMetrics;
use oracled_store::ground::view::SourceView;
use oracled_store::{Store, StoreError};
pub use reviews::{CommentOnReview, DismissReview, ResolveReview, ReviewError, RevokeResolution};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
pub use upkeep::VerificationUpkeep;

/// Configuration of verification.
#[derive(Debug, Clone)]
pub struct VerificationConfig {
    /// Maximum number of verifications at the same time; others wait for a slot.
    pub at_once: usize,
    /// The longest that a caller waits, even if the workflow's budget is longer.
    pub longest: Duration,
    /// Thresholds for the health of sources.
    pub health: OracleHealthConfig,
    /// The client of live sources.
    pub live: Arc<dyn LiveOracle>,
}

/// Why there is no envelope. Nothing was returned.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// No such workflow is registered.
    #[error("no workflow {0} is registered")]
    WorkflowUnknown(WorkflowId),
    /// The workflow's ontology is not registered.
    #[error("no ontology {0} is registered")]
    OntologyUnknown(OntologyRef),
    /// The request is invalid.
    #[error(transparent)]
    Bad(#[from] VerifyRequestError),
    /// No slot became free in time: too many verifications are in flight.
    #[error("too many verifications in flight (limit: `verification.at_once`)")]
    Busy,
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The decision could not be committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

#[derive(Debug, Clone)]
pub struct VerificationService {
    context: Arc<VerificationContext>,
}

/// The state that all verifications share.
#[derive(Debug)]
struct VerificationContext {
    handles: VerificationHandles,
    store: Store,
    clock: Clock,
    metrics: VerificationMetrics,
    config: VerificationConfig,
    /// Validated adapters by source.
    adapters: Mutex<BTreeMap<SourceId, CachedAdapter>>,
    slots: Arc<Semaphore>,
    pending: PendingDecisions,
}

/// The services and actors that verification calls.
#[derive(Debug)]
pub struct VerificationHandles {
    pub queries: QueryService,
    pub oracle_health: ActorHandle<OracleHealth>,
    pub log: LoggerHandle,
}

impl VerificationService {
    pub fn new(
        config: VerificationConfig,
        handles: VerificationHandles,
        store: Store,
        clock: Clock,
        metrics: VerificationMetrics,
    ) -> Self {
        let slots = Arc::new(Semaphore::new(config.at_once));
        let (adapters, pending) = (Mutex::default(), PendingDecisions::new(config.at_once));
        let verifier =
            VerificationContext { handles, store, clock, metrics, config, adapters, slots, pending };
        Self { context: Arc::new(verifier) }
    }

    /// Verifies a request. The envelope is in the log before it is returned.
    ///
    /// # Errors
    /// Why there is no envelope. Nothing was decided.
    pub async fn verify(&self, request: &VerifyRequest) -> Result<Arc<Envelope>, VerifyError> {
        Arc::clone(&self.context).verify(request, stopwatch()).await
    }

    /// Resolves a review with a reviewer's decision.
    ///
    /// # Errors
    /// Why nothing was resolved.
    pub async fn resolve(&self, resolve: &ResolveReview) -> Result<ReviewState, ReviewError> {
        self.context.resolve(resolve).await
    }

    /// The result of a review rule for an open review.
    ///
    /// # Errors
    /// The rule is not registered, or the review is not open; or the store cannot be read.
    pub async fn apply_rule(
        &self,
        review_id: &str,
        rule: &ReviewRuleName,
    ) -> Result<RuledReview, ReviewError> {
        let (context, review_id, rule) = (Arc::clone(&self.context), review_id.to_owned(), rule.clone());
        let read = spawn_blocking(move || context.apply_rule(&review_id, &rule)).await;
        read.unwrap_or_else(|error| Err(ReviewError::Reading(error.to_string())))
    }

    /// Revokes the resolution of a review.
    ///
    /// # Errors
    /// Why nothing was revoked.
    pub async fn revoke(&self, revoke: &RevokeResolution) -> Result<ReviewState, ReviewError> {
        self.context.revoke(revoke).await
    }

    /// Closes a review without a decision.
    ///
    /// # Errors
    /// Why nothing was closed.
    pub async fn dismiss(&self, dismiss: &DismissReview) -> Result<ReviewState, ReviewError> {
        self.context.dismiss(dismiss).await
    }

    /// Stores a comment on a review. Returns the review.
    ///
    /// # Errors
    /// Why nothing has changed.
    pub async fn comment(&self, message: &CommentOnReview) -> Result<ReviewState, ReviewError> {
        self.context.comment(message).await
    }
}

impl VerificationContext {
    /// Registers the sources of all workflows for the metrics and the health checks, so that their status is reported
    /// before the first query.
    fn track_workflow_sources(self: &Arc<Self>) {
        let workflows = match self.store.all_registered::<Workflow>() {
            Ok(workflows) => workflows,
            Err(error) => {
                tracing::error!(%error, "could not read the workflows; their sources are tracked from their first query on");
                return;
            }
        };
        workflows.iter().for_each(|known| self.metrics.init_counters_of_workflow(&known.document));
        let oracles: BTreeSet<_> =
            workflows.into_iter().flat_map(|registered| registered.document.oracles).collect();
        let verifier = Arc::clone(self);
        tokio::spawn(async move {
            for oracle_id in &oracles {
                if let Err(error) = verifier.monitor_source(oracle_id).await {
                    tracing::error!(%oracle_id, %error, "could not track a source's health; it is tracked from its first query on");
                }
            }
        });
    }
}

/// A validated adapter, with the revisions that it was validated from.
#[derive(Debug)]
struct CachedAdapter {
    /// The revisions of the adapter and of its source.
    validated_from: (u64, u64),
    adapter: Arc<ValidatedAdapter>,
}

impl VerificationContext {
    /// The validated adapter of a live source, for its current registration; `None` for a source that is not live.
    ///
    /// # Errors
    /// Why the source cannot be queried, as text.
    fn adapter(&self, view: &SourceView) -> Result<Option<Arc<ValidatedAdapter>>, String> {
        let registration = &view.state.entry.registration;
        if registration.adapter_id != SourceAdapterKind::Http {
            return Ok(None);
        }
        let oracle_id = &registration.oracle_id;
        let registered =
            self.store.registered::<Adapter>(oracle_id.as_str()).map_err(|error| error.to_string())?;
        let (registered, revision) = registered.ok_or("it is live, and no adapter is registered for it")?;
        let made_of = (revision, view.revision);
        let mut adapters = self.adapters.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = adapters.get(oracle_id).filter(|known| known.validated_from == made_of) {
            return Ok(Some(Arc::clone(&known.adapter)));
        }
        let ready = registered.document.validate(registration, Arc::new(view.ontology.clone()));
        let ready = Arc::new(ready.map_err(|error| format!("its adapter does not work: {error}"))?);
        adapters.insert(
            oracle_id.clone(),
            CachedAdapter { validated_from: made_of, adapter: Arc::clone(&ready) },
        );
        Ok(Some(ready))
    }

    async fn query_live_source(
        &self,
        request: &SourceCallRequest,
        adapter: &Arc<ValidatedAdapter>,
    ) -> UncheckedReply {
        let DecisionInputs { question, workflow, execution_id, .. } = &*request.inputs;
        let cached = match self.stored_answer(request) {
            Ok(cached) => cached,
            Err(error) => return UncheckedReply::failed(error.to_string()),
        };
        let ask = LiveQuery {
            adapter: Arc::clone(adapter),
            oracle_tier: request.tier(),
            authority: request.view.state.entry.registration.authority(None),
            identity: question.subject.clone(),
            point_in_time: question.point_in_time,
            cached_answer: cached,
            timeout: Duration::from_millis(workflow.oracle_latency.hard_timeout_ms),
            execution_id: execution_id.clone(),
        };
        let LiveAnswer { reply, answer_to_cache: keep, outcome, warnings } = self.config.live.ask(ask).await;
        UncheckedReply { reply, earlier_statement: None, answer_to_cache: keep, warnings, outcome }
    }

    /// The cached answer to this question. It may contain only the issue time of the last answer.
    fn stored_answer(&self, request: &SourceCallRequest) -> Result<Option<CachedAnswer>, StoreError> {
        let stored = self.store.cached_answer(&request.cached_answer_key())?;
        Ok(stored.map(|(cached, _)| cached.for_question(request.inputs.question.point_in_time)))
    }

    /// The cached answer to this question, if it has not expired.
    fn unexpired_answer(&self, request: &SourceCallRequest, now: Timestamp) -> Option<CachedAnswer> {
        let adapter = request.adapter.as_ref()?;
        let cached = self.stored_answer(request).inspect_err(|error| {
            tracing::error!(oracle_id = %request.oracle_id, %error, "could not read the cached answer of a source");
        });
        cached.ok()?.filter(|cached| adapter.is_usable(cached, now))
    }

    /// The cached answer if it can be used without a query: it is fresh by its own ttl and by the source's policy.
    fn fresh_cached_candidate(&self, request: &SourceCallRequest, now: Timestamp) -> Option<CandidateAnswer> {
        let adapter = request.adapter.as_ref()?;
        let cached = self.unexpired_answer(request, now).filter(|cached| adapter.is_fresh(cached, now))?;
        let candidate = request.prepare_candidate(cached.candidate?, cached.invalidation_count, now);
        candidate.freshness.iter().all(|axis| !axis.stale).then_some(candidate)
    }

    /// The cached answer to serve in place of a missing one, if that is allowed by the current registration
    /// of the source and its adapter.
    fn substitute_candidate(&self, request: &SourceCallRequest) -> Option<Box<CandidateAnswer>> {
        let now = self.clock.now();
        let request = self.prepare_source_call(&request.inputs, &request.oracle_id).ok()?;
        let cached = self.unexpired_answer(&request, now)?;
        match limit_candidate_size(request.prepare_candidate(
            cached.candidate?,
            cached.invalidation_count,
            now,
        )) {
            OracleReply::Answered { candidate } => Some(candidate),
            _ => None,
        }
    }
}
