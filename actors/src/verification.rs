//! Verification: what the sources of a workflow come to about one thing, decided, logged and only then told (RFC-0002, Part II).
//!
//! The decision itself is `domain`'s. The actor lets each question off as a task of its own, which asks every source at once,
//! within the workflow's times; what is told is in the log with everything that it was decided over.

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

use crate::audit::logger::{CommitError, Log};
use crate::ground::queries::Queries;
use crate::platform::caller::carried;
use crate::platform::clock::{Clock, stopwatch};
use crate::platform::door::{Door, NoAnswer};
use crate::platform::metrics::Metrics;
use crate::upstream::oracle::LiveOracle;
use crate::upstream::oracle_health::OracleHealth;
use actix::{Actor, AsyncContext, Context, Handler, Message, ResponseFuture, Supervised};
use jiff::Timestamp;
use live::Prepared;
use oracled_domain::ground::id::{SourceId, WorkflowId};
use oracled_domain::ground::ontology::OntologyRef;
use oracled_domain::verdict::health::HealthConfig;
use oracled_domain::verification::request::BadRequest;
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

/// Has a question decided. The answer is in the log before it is told.
#[derive(Debug, Message)]
#[rtype(result = "Result<Arc<Envelope>, VerifyError>")]
pub struct Verify {
    /// The question.
    pub request: VerifyRequest,
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
    /// Deciding failed inside.
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
}

/// The actor.
#[derive(Debug)]
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
        actix_rt::spawn(async move {
            for oracle_id in &oracles {
                if let Err(error) = verifier.watch(oracle_id).await {
                    tracing::error!(%oracle_id, %error, "a source is not watched until it is asked");
                }
            }
        });
    }
}

impl Actor for Verification {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.run_interval(upkeep::LOOKED_THROUGH, |verification, _| {
            pending::take_up(&verification.verifier);
            let verifier = Arc::clone(&verification.verifier);
            actix_rt::spawn(async move { verifier.let_go().await });
        });
        self.verifier.expect_all();
        pending::take_up(&self.verifier);
    }
}

impl Supervised for Verification {}

impl Handler<Verify> for Verification {
    type Result = ResponseFuture<Result<Arc<Envelope>, VerifyError>>;

    fn handle(&mut self, Verify { request }: Verify, _: &mut Context<Self>) -> Self::Result {
        let (verifier, began) = (Arc::clone(&self.verifier), stopwatch());
        // a task of its own: what is decided is logged though nobody waits for it any more
        let flight = actix_rt::spawn(carried(async move { verifier.verify(&request, began).await }));
        Box::pin(async move {
            let failed = |_| Err(VerifyError::NoAnswer(NoAnswer::Failed { actor: "verification" }));
            flight.await.unwrap_or_else(failed)
        })
    }
}

crate::platform::door::asked_through_a_door!(Verification);

#[cfg(test)]
pub(crate) mod tests;
