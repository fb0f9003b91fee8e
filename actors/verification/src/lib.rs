//! Verification: queries the sources of a workflow about one subject, decides, logs the decision, and only
//! then returns it (RFC-0002, Part II).
//!
//! The decision itself is made in `domain`. The service queries all sources at the same time, within the
//! workflow's timeouts. Each returned envelope is in the log with all inputs of its decision. The caller runs
//! the service in a task that a disconnect does not stop.

mod answer_cache;
mod commenting;
mod dismissing;
pub mod documents;
mod live;
mod loaded_review;
mod metrics;
pub mod pending;
mod resolving;
mod revoking;
pub mod source;
mod source_calls;
mod upkeep;
mod verification_task;

pub use commenting::{CommentError, CommentOnReview};
pub use dismissing::{DismissError, DismissReview};
pub use loaded_review::ReviewClosedError;
pub use metrics::VerificationMetrics;
pub use resolving::{ResolveError, ResolveReview};
pub use revoking::{RevokeError, RevokeResolution};
pub use upkeep::VerificationUpkeep;

use actors_audit::logger::{CommitError, LoggerHandle};
use actors_ground::queries::QueryService;
use actors_platform::actor_handle::ActorHandle;
use actors_platform::clock::{Clock, stopwatch};
use actors_upstream::oracle::LiveOracle;
use actors_upstream::oracle_health::OracleHealth;
use domain_ground::id::{SourceId, WorkflowId};
use domain_ground::ontology::OntologyRef;
use domain_upstream::health::OracleHealthConfig;
use domain_verification::request::VerifyRequestError;
use domain_verification::review::ReviewState;
use domain_verification::workflow::Workflow;
use domain_verification::{Envelope, VerifyRequest};
use live::CachedAdapter;
use oracled_store::{Store, StoreError};
use pending::PendingDecisions;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Semaphore;

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
    pub async fn resolve(&self, resolve: &ResolveReview) -> Result<ReviewState, ResolveError> {
        self.context.resolve(resolve).await
    }

    /// Revokes the resolution of a review.
    ///
    /// # Errors
    /// Why nothing was revoked.
    pub async fn revoke(&self, revoke: &RevokeResolution) -> Result<ReviewState, RevokeError> {
        self.context.revoke(revoke).await
    }

    /// Closes a review without a decision.
    ///
    /// # Errors
    /// Why nothing was closed.
    pub async fn dismiss(&self, dismiss: &DismissReview) -> Result<ReviewState, DismissError> {
        self.context.dismiss(dismiss).await
    }

    /// Stores a comment on a review. Returns the review.
    ///
    /// # Errors
    /// Why nothing has changed.
    pub async fn comment(&self, message: &CommentOnReview) -> Result<ReviewState, CommentError> {
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
