//! The audit entry of a read.

use super::{ChangesPage, QueryCursor, QueryError, QueryService};
use actors_audit::logger::CommitError;
use actors_platform::clock::monotonic;
use domain_base::digest::Sha256Hex;
use domain_base::event::AuditEvent;
use domain_ground::event::{QueryEntry, SourceQueried, SourceReadKind, SourceReadOutcome};
use domain_ground::freshness::AnswerHandling;
use domain_ground::id::SourceId;
use domain_ground::query::{OracleQuery, QueryAnswer};
use serde::Serialize;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// The most versions that an entry names.
const VERSIONS_NAMED_MAX: usize = 16;

/// The entry of a read that has begun.
#[derive(Debug)]
pub struct OpenReadEntry {
    entry: QueryEntry,
    began: Instant,
}

impl OpenReadEntry {
    /// The time since the read began.
    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    pub(super) const fn began(&self) -> Instant {
        self.began
    }

    /// Notes the answer of a query.
    pub(super) fn note_answer(&mut self, answer: &QueryAnswer) {
        let metadata = &answer.response.query_metadata;
        self.entry.query_id = Some(answer.query_id.clone());
        self.entry.known_at = metadata.known_at;
        self.entry.data_version = Some(metadata.data_version.clone());
        self.entry.records_returned = metadata.records_returned;
        self.entry.freshness = Some(metadata.freshness.policy.answer);
    }

    pub(super) fn set_source(&mut self, oracle_id: &SourceId) {
        self.entry.oracle_id = Some(oracle_id.clone());
    }

    /// Notes that one record of this version was read, with its freshness if the answer contains it.
    pub(super) fn note_record(&mut self, source_version: &str, freshness: Option<AnswerHandling>) {
        self.entry.data_version = Some(source_version.to_owned());
        self.entry.records_returned = 1;
        self.entry.freshness = freshness;
    }

    /// Notes a page of the change feed.
    pub(super) fn note_changes(&mut self, page: &ChangesPage) {
        let versions = page.changes.iter().map(|change| change.source_version.as_str());
        self.entry.data_version = format_versions(versions);
        self.entry.records_returned = page.changes.len() as u64;
    }

    /// Notes that all records of these versions of the source were read, in this number of lines.
    pub fn note_export<'v>(&mut self, versions: impl Iterator<Item = &'v str>, lines: u64) {
        self.entry.data_version = format_versions(versions);
        self.entry.records_returned = lines;
    }

    /// Notes the outcome of a read that returned no complete answer.
    pub fn set_outcome(&mut self, outcome: SourceReadOutcome) {
        self.entry.outcome = outcome;
    }

    pub(super) fn set_error_outcome<E>(&mut self, error: Option<&E>)
    where
        for<'e> SourceReadOutcome: From<&'e E>,
    {
        if let Some(error) = error {
            self.set_outcome(error.into());
        }
    }
}

impl QueryService {
    /// Begins the entry of a read of `oracle_id`, if that is known, with the digest of its `request`.
    pub fn open_entry(
        &self,
        read: SourceReadKind,
        oracle_id: Option<SourceId>,
        request: &impl Serialize,
    ) -> OpenReadEntry {
        let entry = QueryEntry {
            read,
            oracle_id,
            query_id: None,
            request_sha256: Sha256Hex::of_canonical_json(request),
            point_in_time: None,
            known_at: None,
            outcome: SourceReadOutcome::Answered,
            data_version: None,
            records_returned: 0,
            freshness: None,
            latency_ms: 0.0,
        };
        OpenReadEntry { entry, began: monotonic() }
    }

    /// The entry of a query, with the times that the query or its cursor names.
    pub(super) fn open_query_entry(&self, query: &OracleQuery) -> OpenReadEntry {
        let OracleQuery { query_id, oracle_id, request } = query;
        let mut open = self.open_entry(SourceReadKind::Query, Some(oracle_id.clone()), request);
        let cursor = request.cursor.as_ref().and_then(|text| QueryCursor::read(text, query).ok());
        (open.entry.point_in_time, open.entry.known_at) = match cursor {
            Some(cursor) => (Some(cursor.point_in_time), cursor.known_at),
            None => (request.point_in_time, request.known_at),
        };
        open.entry.query_id = query_id.clone().filter(|id| super::is_query_id(id));
        open
    }

    /// Queues the entry of a read in the log, before the answer is returned, without waiting for the disk.
    ///
    /// # Errors
    /// `Unavailable` if the journal does not accept entries. Nothing may be delivered then.
    pub async fn close_entry(
        &self,
        OpenReadEntry { mut entry, began }: OpenReadEntry,
    ) -> Result<(), CommitError> {
        entry.latency_ms = began.elapsed().as_secs_f64() * 1e3;
        self.log.append(AuditEvent::new(self.clock.now(), None, SourceQueried(entry))).await
    }
}

/// The names of the versions, each once. Only the first ones are named, with the number of the others.
pub(super) fn format_versions<'v>(versions: impl Iterator<Item = &'v str>) -> Option<String> {
    let versions: BTreeSet<_> = versions.collect();
    let named: Vec<_> = versions.iter().take(VERSIONS_NAMED_MAX).copied().collect();
    let more = versions.len() - named.len();
    let named = named.join(", ");
    let named = if more > 0 { format!("{named} and {more} more") } else { named };
    Some(named).filter(|named| !named.is_empty())
}

impl From<&QueryError> for SourceReadOutcome {
    fn from(error: &QueryError) -> Self {
        match error {
            QueryError::SourceUnknown(_) => Self::SourceUnknown,
            QueryError::Live(_) => Self::SourceLive,
            QueryError::Silent(_) => Self::SourceSilent,
            QueryError::Bad(_) | QueryError::Position(_) | QueryError::QueryId => Self::InvalidQuery,
            QueryError::Ahead(_) => Self::TimeInFuture,
            QueryError::Stale(_) => Self::SourceStale,
            QueryError::Busy => Self::Overloaded,
            QueryError::TooCostly | QueryError::SubjectOpen { .. } | QueryError::SubjectTooLarge => {
                Self::QueryTooCostly
            }
            QueryError::Stopped => Self::QueryStopped,
            QueryError::Store(_) | QueryError::Reading(_) | QueryError::Unlogged(_) => Self::Failed,
        }
    }
}
