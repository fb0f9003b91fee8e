//! Verification: what the sources of a workflow come to about one thing, decided, logged and only then told (RFC-0002, Part II).
//!
//! The decision itself is `domain`'s. The service asks every source at once, within the workflow's times; what is told is in the
//! log with everything that it was decided over. The caller runs it in a task that a disconnect does not stop.

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
use oracled_domain::verification::{Envelope, VerifyRequest};
use oracled_store::{Store, StoreError};
use pending::Promises;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Semaphore;

/// What is configured.
#[derive(Debug, Clone)]
pub struct VerificationConfig {
    /// So many questions are put to sources at once; others wait for their turn.
    pub at_once: usize,
    /// The longest that a caller waits, whatever budget a workflow has.
    pub longest: Duration,
    /// How the health of sources is watched.
    pub health: HealthConfig,
    /// Whoever asks live sources.
    pub live: Arc<dyn LiveOracle>,
}

/// Why there is no envelope. Nothing was told.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// There is no such workflow.
    #[error("no workflow {0} is registered")]
    WorkflowUnknown(WorkflowId),
    /// The workflow's ontology is gone.
    #[error("no ontology {0} is registered")]
    OntologyUnknown(OntologyRef),
    /// The request cannot be meant.
    #[error(transparent)]
    Bad(#[from] BadRequest),
    /// So many questions wait for their turn that this one's did not come in time.
    #[error("as many questions as are allowed are being put to sources")]
    Busy,
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The decision could not be made durable.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

/// The service.
#[derive(Debug, Clone)]
pub struct Verification {
    verifier: Arc<Verifier>,
}

/// Whoever puts questions to sources. Everything on its way shares it.
#[derive(Debug)]
struct Verifier {
    doors: Doors,
    store: Store,
    clock: Clock,
    metrics: Metrics,
    config: VerificationConfig,
    /// Adapters that were made ready, by their sources.
    adapters: Mutex<BTreeMap<SourceId, Prepared>>,
    places: Arc<Semaphore>,
    promises: Promises,
    /// Questions so far, and since when: together they are no other question's.
    count: AtomicU64,
    born_at: Timestamp,
}

/// Whom it asks.
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

    /// Decides a question. The envelope is in the log before it is returned.
    ///
    /// # Errors
    /// Why there is no envelope; nothing was decided.
    pub async fn verify(&self, request: &VerifyRequest) -> Result<Arc<Envelope>, VerifyError> {
        Arc::clone(&self.verifier).verify(request, stopwatch()).await
    }

    /// Resolves a review as a person decided it.
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
    /// Has the sources of all workflows counted and watched: how they are doing is told before anybody asks them, too.
    fn expect_all(self: &Arc<Self>) {
        let workflows = match self.store.workflows() {
            Ok(workflows) => workflows,
            Err(error) => {
                tracing::error!(%error, "workflows cannot be read: their sources are watched once they are asked");
                return;
            }
        };
        workflows.iter().for_each(|known| self.metrics.verifying.expects(&known.workflow));
        let oracles: BTreeSet<_> =
            workflows.into_iter().flat_map(|registered| registered.workflow.oracles).collect();
        let verifier = Arc::clone(self);
        tokio::spawn(async move {
            for oracle_id in &oracles {
                if let Err(error) = verifier.watch(oracle_id).await {
                    tracing::error!(%oracle_id, %error, "a source is not watched until it is asked");
                }
            }
        });
    }
}

#[cfg(test)]
pub(crate) mod tests;
