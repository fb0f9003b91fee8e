//! Builds the answer to one query.

use super::entry::format_versions;
use super::freshness::tier_of;
use super::scan::SourceScan;
use super::{QueryCursor, QueryError, cursor_of};
use domain_base::moment::check_not_future;
use domain_ground::freshness::{AnswerFreshness, age_s};
use domain_ground::provenance::ProvenanceRecord;
use domain_ground::query::{
    NormalizedRecord, OracleQuery, QueryAnswer, QueryExplanation, QueryFreshness, QueryMetadata,
    QueryResponse, ValidatedQuery,
};
use domain_ground::timeline::{ReleaseScope, TimelineRun};
use jiff::Timestamp;
use oracled_store::ground::query::{QueryAccessPath, QueryHit, QueryResultPage, ScanBudget, ScanError};
use oracled_store::ground::view::SourceView;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

/// The most versions that an answer names.
const VERSIONS_NAMED_MAX: usize = 16;

/// The most bytes that a lookup returns on the caller's thread. A larger answer takes a scan.
const LOOKUP_BYTES: usize = 64 << 10;

/// A query that is being answered.
pub(super) struct RunningQuery {
    pub(super) oracle_query: OracleQuery,
    pub(super) view: Arc<SourceView>,
    pub(super) now: Timestamp,
    pub(super) point_in_time: Timestamp,
    /// The time by which the data was known: at the latest, when the last run became visible.
    pub(super) known_at: Option<Timestamp>,
    pub(super) after: Option<Vec<u8>>,
    query: ValidatedQuery,
    /// The warning about the source.
    warning: Option<String>,
    began: Instant,
}

/// The freshness of an answer, and the answer if the policy allows it.
pub(super) struct PolicyCheckedAnswer {
    pub(super) freshness: AnswerFreshness,
    /// `None` if the policy does not allow the answer.
    pub(super) answer: Option<QueryAnswer>,
}

pub(super) enum QueryLookupOutcome {
    Answered(Box<PolicyCheckedAnswer>),
    /// The query does not name one subject, or the lookup would take too long for the caller's thread.
    TooMuch,
}

impl RunningQuery {
    pub(super) fn new(
        oracle_query: OracleQuery,
        view: Arc<SourceView>,
        warning: Option<String>,
        now: Timestamp,
        began: Instant,
    ) -> Result<Self, QueryError> {
        let provided = &view.state.entry.registration.axes_provided;
        check_not_future("known_at", oracle_query.request.known_at, now)?;
        let query = ValidatedQuery::new(&oracle_query.request, &view.ontology, provided)?;
        let cursor = oracle_query
            .request
            .cursor
            .as_ref()
            .map(|text| QueryCursor::read(text, &oracle_query))
            .transpose()?;
        let (point_in_time, known_at) = match &cursor {
            Some(cursor) => (cursor.point_in_time, cursor.known_at),
            None => {
                let last = view.state.completed.last().map(|completed| completed.release.ingested_at);
                let point_in_time =
                    oracle_query.request.point_in_time.unwrap_or_else(|| view.state.present(now));
                (point_in_time, oracle_query.request.known_at.or(last))
            }
        };
        let after = cursor.map(|cursor| cursor.key);
        Ok(Self { oracle_query, view, now, point_in_time, known_at, after, query, warning, began })
    }

    /// Answers by a lookup, if that is quick: the query names one subject, and there are few records of it.
    pub(super) fn look_up(&self) -> Result<QueryLookupOutcome, QueryError> {
        if !self.query.identity_is_whole {
            return Ok(QueryLookupOutcome::TooMuch);
        }
        let answered = match self.read(super::scan::LOOKUP) {
            Err(ScanError::TooCostly) => return Ok(QueryLookupOutcome::TooMuch),
            answered => answered?,
        };
        let is_cut_short = answered.more.is_some() && answered.found.len() < self.query.max_results;
        if is_cut_short || answered.bytes > LOOKUP_BYTES {
            return Ok(QueryLookupOutcome::TooMuch);
        }
        self.apply_policy(answered).map(|answer| QueryLookupOutcome::Answered(Box::new(answer)))
    }

    /// A page of the answer, within the limits of `scan`.
    pub(super) fn page(&self, scan: &SourceScan) -> Result<PolicyCheckedAnswer, QueryError> {
        self.apply_policy(scan.run(|budget| self.read(budget))?)
    }

    fn read(&self, budget: ScanBudget<'_>) -> Result<QueryResultPage, ScanError> {
        let Self { view, query, point_in_time, known_at, after, .. } = self;
        view.query(query, *point_in_time, *known_at, after.as_deref(), budget)
    }

    /// Evaluates the policy for the found records, and builds the answer if the policy allows it.
    fn apply_policy(&self, answered: QueryResultPage) -> Result<PolicyCheckedAnswer, QueryError> {
        let (as_of, oldest) = self.ages(&answered);
        let policy = self.freshness(oldest);
        let freshness = policy.clone();
        let staleness_seconds = oldest.map(|oldest| age_s(oldest, self.now));
        let age = QueryFreshness { data_as_of: as_of, staleness_seconds, policy };
        let is_given = freshness.answer.is_served();
        let answer = is_given.then(|| self.answer(answered, age)).transpose()?;
        Ok(PolicyCheckedAnswer { freshness, answer })
    }

    /// The release dates of the newest and the oldest record. Without records, the newest is `None`, and the oldest is
    /// the date of the version in force.
    pub(super) fn ages(&self, answered: &QueryResultPage) -> (Option<Timestamp>, Option<Timestamp>) {
        let released =
            |hit: &QueryHit| self.view.state.run(hit.found.version.last_seen).map(|run| run.release.as_of());
        let releases: Vec<_> = answered.found.iter().filter_map(released).collect();
        let in_force = || self.in_force().map(TimelineRun::as_of);
        (releases.iter().max().copied(), releases.iter().min().copied().or_else(in_force))
    }

    /// The releases that the query may see.
    pub(super) const fn scope(&self) -> ReleaseScope {
        ReleaseScope { known_at: self.known_at, released_by: Some(self.point_in_time) }
    }

    /// The versions of the releases that counted, in the order in which they were ingested.
    fn releases(&self) -> Vec<String> {
        let known = self.view.knowledge(self.scope());
        let releases = self.view.state.completed.iter().map(|completed| &completed.release);
        let counted = releases.filter(|release| known.is_counted(release.run));
        counted.map(|release| release.version.clone()).collect()
    }

    /// The latest release up to the requested time, among those known then.
    fn in_force(&self) -> Option<&TimelineRun> {
        let latest = self.view.knowledge(self.scope()).latest()?;
        self.view.state.run(latest).map(|completed| &completed.release)
    }

    /// The versions of the source that the records come from, in the order of their releases. Without records, the
    /// version in force.
    fn data_version(&self, hits: &[QueryHit]) -> String {
        let runs: BTreeSet<u32> = hits.iter().map(|hit| hit.found.version.last_seen).collect();
        let releases = runs.into_iter().filter_map(|run| self.view.state.run(run)).map(|run| &run.release);
        let mut releases: Vec<_> = releases.collect();
        if releases.is_empty() {
            releases.extend(self.in_force());
        }
        releases.sort_by_key(|release| (release.released_at, &release.version));
        let named = releases.iter().take(VERSIONS_NAMED_MAX).map(|release| release.version.as_str());
        let named = named.collect::<Vec<_>>().join(", ");
        let more = releases.len().saturating_sub(VERSIONS_NAMED_MAX);
        if more > 0 { format!("{named} and {more} more") } else { named }
    }

    fn answer(&self, answered: QueryResultPage, age: QueryFreshness) -> Result<QueryAnswer, QueryError> {
        let (view, query) = (&*self.view, &self.query);
        let QueryResultPage { found, scanned, pruned, more, access, .. } = answered;
        let data_version = self.data_version(&found);
        let mut warnings: Vec<_> = self.warning.iter().chain(&age.policy.warnings).cloned().collect();
        if pruned > 0 {
            warnings.push(format!("{pruned} versions that were valid then have been pruned"));
        }
        let unconfirmed: Vec<_> =
            found.iter().filter_map(|hit| view.unconfirmed_by(&hit.found.version)).collect();
        if let Some(versions) = format_versions(unconfirmed.iter().map(String::as_str)) {
            let count = unconfirmed.len();
            warnings.push(format!(
                "records not confirmed by version {versions}, which rejected them or records without an identity: {count}"
            ));
        }
        let include_provenance = self.oracle_query.request.include_provenance;
        let provenance = include_provenance.then(|| provenance(view, &found)).transpose()?;
        let records: Vec<_> =
            found.into_iter().map(|hit| record(view, query, hit)).collect::<Result<_, _>>()?;
        let query_id =
            self.oracle_query.query_id.clone().unwrap_or_else(|| generate_query_id(self.now, &records));
        let explain = self.oracle_query.request.explain.then(|| self.explain(&access));
        let query_metadata = QueryMetadata {
            query_id: query_id.clone(),
            executed_at: self.now,
            latency_ms: self.began.elapsed().as_secs_f64() * 1e3,
            records_scanned: scanned,
            records_returned: records.len() as u64,
            data_version,
            known_at: self.known_at,
            oracle_tier: tier_of(view, &age.policy),
            freshness: age,
        };
        let cursor = cursor_of(self, more);
        let response = QueryResponse { records, provenance, query_metadata, cursor, warnings, explain };
        Ok(QueryAnswer { query_id, oracle_id: self.oracle_query.oracle_id.clone(), response })
    }

    fn explain(&self, access: &QueryAccessPath) -> QueryExplanation {
        QueryExplanation {
            access: access.to_string(),
            filters: self.query.filters.iter().map(|filter| filter.describe()).collect(),
            releases: self.releases(),
            files: self.view.file_count(),
        }
    }
}

/// A record with the requested axes. The rest of its content is dropped here, since there may be many records.
fn record(view: &SourceView, query: &ValidatedQuery, hit: QueryHit) -> Result<NormalizedRecord, QueryError> {
    let QueryHit { found, content } = hit;
    let chosen = query.select_values(&view.ontology, &content.axes);
    let unit = |path: &str| view.ontology.axis(path)?.unit.clone();
    let run_id = view.record_id(found.statement.time.run, found.statement.position);
    let missing = || QueryError::Reading("a record's run is missing".into());
    Ok(NormalizedRecord {
        record_id: run_id.ok_or_else(missing)?,
        source_record_id: found.source_record_id(),
        units: chosen
            .iter()
            .filter(|(_, value)| value.is_some())
            .filter_map(|(path, _)| Some(((*path).to_owned(), unit(path)?)))
            .collect(),
        definitions: definitions(&chosen, &content.definitions),
        axes: chosen.into_iter().map(|(path, value)| (path.to_owned(), value.cloned())).collect(),
        valid_from: found.version.valid_from,
        valid_until: found.version.valid_until,
        unconfirmed_by: view.unconfirmed_by(&found.version),
    })
}

fn definitions<V>(chosen: &[(&str, V)], all: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let of = |(path, _): &(&str, V)| Some(((*path).to_owned(), all.get(*path)?.clone()));
    chosen.iter().filter_map(of).collect()
}

fn provenance(view: &SourceView, hits: &[QueryHit]) -> Result<Vec<ProvenanceRecord>, QueryError> {
    hits.iter().map(|hit| Ok(view.provenance(&hit.found)?)).collect()
}

/// An id for a query without one. The same answer at the same time gets the same id.
fn generate_query_id(now: Timestamp, records: &[NormalizedRecord]) -> String {
    let first = records.first().map_or("none", |record| record.record_id.as_str());
    format!("q-{}-{first}", now.as_microsecond())
}
