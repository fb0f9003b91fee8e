//! Verification: queries the sources of a workflow about one subject, decides, logs the decision, and only then returns it
//! (RFC-0002, Part II).
//!
//! The decision itself is made in `domain`. The service queries all sources at the same time, within the workflow's
//! timeouts. Each returned envelope is in the log with all inputs of its decision. The caller runs the service in a task
//! that a disconnect does not stop.

mod asking;
mod case;
mod dismissing;
mod flight;
mod keeping;
mod live;
mod pending;
mod resolving;
mod revoking;
mod source;
mod upkeep;

pub use case::Closed;
pub use dismissing::{Dismiss, DismissError};
pub use resolving::{Resolve, ResolveError};
pub use revoking::{Revoke, RevokeError};
pub use upkeep::VerificationUpkeep;

use crate::audit::logger::{CommitError, Log};
use crate::ground::queries::Queries;
use crate::platform::clock::{Clock, stopwatch};
use crate::platform::door::Door;
use crate::platform::metrics::Metrics;
use crate::upstream::oracle::LiveOracle;
use crate::upstream::oracle_health::OracleHealth;
use jiff::Timestamp;
use live::Prepared;
use oracled_domain::ground::id::{SourceId, WorkflowId};
use oracled_domain::ground::ontology::OntologyRef;
use oracled_domain::verdict::health::HealthConfig;
use oracled_domain::verification::request::BadRequest;
use oracled_domain::verification::review::ReviewState;
use oracled_domain::verification::workflow::Workflow;
use oracled_domain::verification::{Envelope, VerifyRequest};
use oracled_store::{Store, StoreError};
use pending::Promises;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;
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
    pub health: HealthConfig,
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
    Bad(#[from] BadRequest),
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

/// The service.
#[derive(Debug, Clone)]
pub struct Verification {
    verifier: Arc<Verifier>,
}

/// The state that all verifications share.
#[derive(Debug)]
struct Verifier {
    doors: Doors,
    store: Store,
    clock: Clock,
    metrics: Metrics,
    config: VerificationConfig,
    /// Validated adapters by source.
    adapters: Mutex<BTreeMap<SourceId, Prepared>>,
    places: Arc<Semaphore>,
    promises: Promises,
    /// Number of questions since `born_at`. Both together make the id of an execution unique.
    count: AtomicU64,
    born_at: Timestamp,
}

/// The services and actors that verification calls.
#[derive(Debug)]
pub(crate) struct Doors {
    pub(crate) queries: Queries,
    pub(crate) oracle_health: Door<OracleHealth>,
    pub(crate) log: Log,
}

impl Verification {
    pub(crate) fn new(
        config: VerificationConfig,
        doors: Doors,
        store: Store,
        clock: Clock,
        metrics: Metrics,
    ) -> Self {
        let places = Arc::new(Semaphore::new(config.at_once));
        let (count, born_at) = (AtomicU64::new(0), clock.now());
        let (adapters, promises) = (Mutex::default(), Promises::new(config.at_once));
        let verifier =
            Verifier { doors, store, clock, metrics, config, adapters, places, promises, count, born_at };
        Self { verifier: Arc::new(verifier) }
    }

    /// Verifies a request. The envelope is in the log before it is returned.
    ///
    /// # Errors
    /// Why there is no envelope. Nothing was decided.
    pub async fn verify(&self, request: &VerifyRequest) -> Result<Arc<Envelope>, VerifyError> {
        Arc::clone(&self.verifier).verify(request, stopwatch()).await
    }

    /// Resolves a review with a reviewer's decision.
    ///
    /// # Errors
    /// Why nothing was resolved.
    pub async fn resolve(&self, resolve: &Resolve) -> Result<ReviewState, ResolveError> {
        self.verifier.resolve(resolve).await
    }

    /// Revokes the resolution of a review.
    ///
    /// # Errors
    /// Why nothing was revoked.
    pub async fn revoke(&self, revoke: &Revoke) -> Result<ReviewState, RevokeError> {
        self.verifier.revoke(revoke).await
    }

    /// Closes a review without a decision.
    ///
    /// # Errors
    /// Why nothing was closed.
    pub async fn dismiss(&self, dismiss: &Dismiss) -> Result<ReviewState, DismissError> {
        self.verifier.dismiss(dismiss).await
    }
}

impl Verifier {
    /// Registers the sources of all workflows for the metrics and the health checks, so that their status is reported
    /// before the first query.
    fn expect_all(self: &Arc<Self>) {
        let workflows = match self.store.all_registered::<Workflow>() {
            Ok(workflows) => workflows,
            Err(error) => {
                tracing::error!(%error, "could not read the workflows; their sources are tracked from their first query on");
                return;
            }
        };
        workflows.iter().for_each(|known| self.metrics.verifying.expects(&known.document));
        let oracles: BTreeSet<_> =
            workflows.into_iter().flat_map(|registered| registered.document.oracles).collect();
        let verifier = Arc::clone(self);
        tokio::spawn(async move {
            for oracle_id in &oracles {
                if let Err(error) = verifier.watch(oracle_id).await {
                    tracing::error!(%oracle_id, %error, "could not track a source's health; it is tracked from its first query on");
                }
            }
        });
    }
}

#[cfg(test)]
pub(crate) mod tests;
