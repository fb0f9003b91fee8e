//! Queries: what a registered source says, how fresh that is, and what its policy has become of what is not
//! (seed: `rfc-0002-ground-truth`, "Query Contract" and "Freshness & Invalidation").
//!
//! Reading needs no actor: whoever asks reads the store, on its own thread where that takes a moment, else on another one.

mod answer;
mod cursor;
mod feed;
mod freshness;
mod record;

pub use feed::{BadPlace, Changed, ChangesPage, Place};
pub use freshness::Stale;
pub use record::{RecordAnswer, RecordError, RecordStanding};

use crate::clock::{Clock, monotonic};
use crate::door::Door;
use crate::ingestion::Ingestion;
use crate::metrics::Metrics;
use answer::Answering;
use cursor::Cursor;
use domain::ground::freshness::Freshness;
use domain::ground::id::SourceId;
use domain::ground::query::{BadQuery, OracleQuery, Query, QueryAnswer};
use domain::ground::source::Standing;
use jiff::Timestamp;
use std::sync::Arc;
use std::time::Duration;
use store::ground::query::{Answered, RECORDS_SCANNED_MAX};
use store::{Store, StoreError};
use tokio::task::spawn_blocking;

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
    /// What there is is too old.
    #[error(transparent)]
    Stale(#[from] Stale),
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
            if self.passes(&asked.oracle_id, &freshness, &mut waited).await? {
                return answering.finish(answered, freshness, as_of, oldest, began);
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
}

/// What there is to a question, and how fresh it is.
struct Read {
    answering: Answering,
    answered: Answered,
    freshness: Freshness,
    /// The newest release among the records.
    as_of: Option<Timestamp>,
    /// The oldest one, or, without records, the one in force.
    oldest: Option<Timestamp>,
}

fn is_query_id(id: &str) -> bool {
    (1..=QUERY_ID_MAX_BYTES).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic())
}

impl Answering {
    /// Reads a page: a lookup here, anything longer on a thread of its own.
    async fn read(&self) -> Result<Answered, QueryError> {
        let (view, request) = (Arc::clone(&self.view), self.asked.request.clone());
        let (point_in_time, known_at, after) = (self.point_in_time, self.known_at, self.after.clone());
        let read = move || -> Result<Answered, QueryError> {
            let provided = &view.state.entry.registration.axes_provided;
            let query = Query::new(&request, &view.ontology, provided)?;
            Ok(view.query(&query, point_in_time, known_at, after.as_deref(), RECORDS_SCANNED_MAX)?)
        };
        if self.is_lookup {
            return read();
        }
        spawn_blocking(read).await.unwrap_or_else(|error| Err(QueryError::Reading(error.to_string())))
    }

    /// How fresh the answer is, where its oldest release is of `oldest`: the axes asked for, and those that
    /// decide which records are given. Which thing is meant is no state that gets old. What is asked as of a time in the past
    /// is as fresh as it was then.
    fn freshness(&self, oldest: Option<Timestamp>) -> Freshness {
        let request = &self.asked.request;
        // only what was asked for: that nothing was learnt since the last run makes nothing fresher
        let known_at = request.known_at.unwrap_or(self.now);
        // nor does that an earlier page was given when it was fresh: the time that its cursor holds is nobody's wish
        let point_in_time = request.point_in_time.unwrap_or(self.now);
        let at = self.now.min(point_in_time).min(known_at);
        let is_identity = |path: &str| self.view.ontology.axis(path).is_some_and(|axis| axis.identity);
        let mut axes: Vec<_> = request.axes_requested.iter().map(String::as_str).collect();
        for path in request.filters.iter().map(|filter| filter.axis.as_str()) {
            if !is_identity(path) && !axes.contains(&path) {
                axes.push(path);
            }
        }
        freshness::of(&self.view, &axes, oldest, at)
    }
}

/// What a page goes on from, for a query that is the same but for its cursor.
fn cursor_of(answering: &Answering, more: Option<Vec<u8>>) -> Option<String> {
    let (point_in_time, known_at) = (answering.point_in_time, answering.known_at);
    let query = Cursor::digest(&answering.asked);
    more.map(|key| Cursor { key, point_in_time, known_at, query }.to_text())
}

#[cfg(test)]
mod tests;
