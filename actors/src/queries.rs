//! Queries: what a registered source says, how fresh that is, and what its policy has become of what is not
//! (seed: `rfc-0002-ground-truth`, "Query Contract" and "Freshness & Invalidation").
//!
//! Reading needs no actor: whoever asks reads the store, on its own thread where that takes a moment, else on another one.

mod answer;
mod cursor;
mod feed;
mod record;

pub use feed::{BadPlace, Changed, ChangesPage, Place};
pub use record::{RecordAnswer, RecordError, RecordStanding};

use crate::clock::{Clock, monotonic};
use crate::door::Door;
use crate::ingestion::{Ingestion, Refresh};
use crate::metrics::Metrics;
use crate::registry::policy_of;
use answer::Answering;
use cursor::Cursor;
use domain::ground::freshness::{Answer, Freshness, FreshnessPolicy};
use domain::ground::id::SourceId;
use domain::ground::query::{BadQuery, OracleQuery, QueryAnswer};
use domain::ground::source::Standing;
use jiff::Timestamp;
use std::sync::Arc;
use std::time::Duration;
use store::ground::query::{Answered, RECORDS_SCANNED_MAX};
use store::{Store, StoreError};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// The longest id of a query, in bytes.
pub const QUERY_ID_MAX_BYTES: usize = 128;

/// Why a query is not answered.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// There is no such source.
    #[error("no source {0} is registered")]
    SourceUnknown(SourceId),
    /// The source does not answer.
    #[error("{0}")]
    Silent(String),
    /// The query cannot be meant.
    #[error(transparent)]
    Bad(#[from] BadQuery),
    /// The query's id is none.
    #[error("`query_id` has 1 to {QUERY_ID_MAX_BYTES} visible ASCII characters")]
    QueryId,
    /// What there is is too old, by the source's policy.
    #[error("what source {oracle_id} says is stale: {}", .freshness.warnings.join("; "))]
    Stale {
        /// Whose.
        oracle_id: SourceId,
        /// How old it is, and how old it may be.
        freshness: Box<Freshness>,
    },
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Reading failed inside.
    #[error("the query could not be answered: {0}")]
    Reading(String),
}

/// Whoever answers queries.
#[derive(Debug, Clone)]
pub struct Queries {
    store: Store,
    clock: Clock,
    metrics: Metrics,
    ingestion: Door<Ingestion>,
    /// How long a stale answer waits for a refresh.
    refresh_wait: Duration,
}

impl Queries {
    pub(crate) const fn new(
        store: Store,
        clock: Clock,
        metrics: Metrics,
        ingestion: Door<Ingestion>,
        refresh_wait: Duration,
    ) -> Self {
        Self { store, clock, metrics, ingestion, refresh_wait }
    }

    /// The answer to `asked`.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn ask(&self, asked: OracleQuery) -> Result<QueryAnswer, QueryError> {
        let began = monotonic();
        let answered = self.answer(asked).await;
        self.metrics.querying.asked(began.elapsed(), answered.as_ref().err());
        answered
    }

    async fn answer(&self, asked: OracleQuery) -> Result<QueryAnswer, QueryError> {
        let began = monotonic();
        if !asked.query_id.as_ref().is_none_or(|id| is_query_id(id)) {
            return Err(QueryError::QueryId);
        }
        let mut waited = false;
        loop {
            let Read { answering, answered, freshness, as_of, oldest } = self.read(asked.clone()).await?;
            let oracle_id = asked.oracle_id.clone();
            match freshness.answer {
                Answer::BlockUntilFresh if !waited => {
                    waited = true;
                    self.wait_for_refresh(oracle_id).await;
                }
                Answer::BlockUntilFresh | Answer::FailClosed => {
                    if freshness.refresh && !waited {
                        self.begin_refresh(oracle_id.clone());
                    }
                    return Err(QueryError::Stale { oracle_id, freshness: Box::new(freshness) });
                }
                Answer::Serve | Answer::ServeWithWarnings | Answer::DegradeTier => {
                    if freshness.refresh {
                        self.begin_refresh(oracle_id);
                    }
                    return answering.finish(answered, freshness, as_of, oldest, began);
                }
            }
        }
    }

    /// What there is, and how fresh it is.
    async fn read(&self, asked: OracleQuery) -> Result<Read, QueryError> {
        let now = self.clock.now();
        let unknown = || QueryError::SourceUnknown(asked.oracle_id.clone());
        let view = self.store.view(&asked.oracle_id)?.ok_or_else(unknown)?;
        let warning = match view.state.entry.standing(now) {
            Standing::Answers => None,
            Standing::AnswersWithWarning(warning) => Some(warning),
            Standing::Silent(why) => return Err(QueryError::Silent(why)),
        };
        let mut answering = Answering::new(asked, view, now)?;
        answering.warnings.extend(warning);
        let answered = answering.read().await?;
        let (as_of, oldest) = answering.ages(&answered);
        let freshness = answering.freshness(oldest);
        Ok(Read { answering, answered, freshness, as_of, oldest })
    }

    /// Waits for the source to be pulled, within the budget.
    async fn wait_for_refresh(&self, oracle_id: SourceId) {
        let refreshed = timeout(self.refresh_wait, self.ingestion.ask(Refresh(oracle_id.clone()))).await;
        if let Ok(Ok(Err(error))) = refreshed {
            tracing::debug!(%oracle_id, %error, "nothing can be refreshed");
        }
    }

    /// Has the source pulled, and does not wait for it.
    fn begin_refresh(&self, oracle_id: SourceId) {
        let ingestion = self.ingestion.clone();
        tokio::spawn(async move {
            match ingestion.ask(Refresh(oracle_id.clone())).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%oracle_id, %error, "nothing can be refreshed"),
                Err(error) => tracing::warn!(%oracle_id, %error, "no refresh has begun"),
            }
        });
    }
}

/// What there is to a question, and how fresh it is.
struct Read {
    answering: Answering,
    answered: Answered,
    freshness: Freshness,
    /// The newest release among the records.
    as_of: Option<Timestamp>,
    /// The oldest one.
    oldest: Timestamp,
}

fn is_query_id(id: &str) -> bool {
    (1..=QUERY_ID_MAX_BYTES).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic())
}

impl Answering {
    /// Reads a page: a lookup here, anything longer on a thread of its own.
    async fn read(&self) -> Result<Answered, QueryError> {
        let (view, query) = (Arc::clone(&self.view), Arc::clone(&self.query));
        let (point_in_time, known_at, after) = (self.point_in_time, self.known_at, self.after.clone());
        let is_lookup = query.identity_is_whole;
        let read = move || view.query(&query, point_in_time, known_at, after.as_deref(), RECORDS_SCANNED_MAX);
        if is_lookup {
            return Ok(read()?);
        }
        let read = spawn_blocking(read).await.map_err(|error| QueryError::Reading(error.to_string()))?;
        Ok(read?)
    }

    /// How fresh the axes asked for are, where the oldest release among the records is of `oldest`. What is asked as of a
    /// time in the past is as fresh as it was then.
    fn freshness(&self, oldest: Timestamp) -> Freshness {
        let policy: FreshnessPolicy = policy_of(&self.view.state, &self.view.ontology);
        // only what was asked for: that nothing was learnt since the last run makes nothing fresher
        let known_at = self.asked.request.known_at.unwrap_or(self.now);
        let at = self.now.min(self.point_in_time).min(known_at);
        let axes: Vec<_> = self.asked.request.axes_requested.iter().map(String::as_str).collect();
        let invalidated_at = self.view.state.invalidated_at.filter(|invalidated_at| *invalidated_at <= at);
        policy.evaluate(&axes, oldest, invalidated_at, at)
    }
}

/// What a page goes on from, for a query that is the same but for its cursor.
fn cursor_of(answering: &Answering, more: Option<Vec<u8>>) -> Option<String> {
    let Answering { asked, point_in_time, known_at, .. } = answering;
    more.map(|key| {
        let query = Cursor::digest(asked);
        Cursor { key, point_in_time: *point_in_time, known_at: *known_at, query }.to_text()
    })
}

#[cfg(test)]
mod tests;
