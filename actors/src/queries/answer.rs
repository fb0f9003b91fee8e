//! One answer, from the question to its last field.

use super::{Cursor, QueryError, cursor_of};
use domain::ground::freshness::{Answer, Freshness};
use domain::ground::provenance::ProvenanceRecord;
use domain::ground::query::{
    Explain, NormalizedRecord, OracleQuery, Query, QueryAnswer, QueryFreshness, QueryMetadata, QueryResponse,
};
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;
use store::ground::query::{Answered, Hit};
use store::ground::view::SourceView;

/// So many versions are named in an answer.
const VERSIONS_NAMED_MAX: usize = 16;

/// A question on its way to an answer.
pub(super) struct Answering {
    pub(super) asked: OracleQuery,
    pub(super) view: Arc<SourceView>,
    pub(super) now: Timestamp,
    pub(super) point_in_time: Timestamp,
    /// As of when it is known: at the latest, when the last run became visible.
    pub(super) known_at: Option<Timestamp>,
    pub(super) after: Option<Vec<u8>>,
    pub(super) query: Arc<Query>,
    pub(super) warnings: Vec<String>,
}

impl Answering {
    pub(super) fn new(asked: OracleQuery, view: Arc<SourceView>, now: Timestamp) -> Result<Self, QueryError> {
        let provided = &view.state.entry.registration.axes_provided;
        let query = Arc::new(Query::new(&asked.request, &view.ontology, provided)?);
        let cursor = asked.request.cursor.as_ref().map(|text| Cursor::read(text, &asked)).transpose()?;
        let (point_in_time, known_at) = match &cursor {
            Some(cursor) => (cursor.point_in_time, cursor.known_at),
            None => {
                let last = view.state.completed.last().map(|completed| completed.release.ingested_at);
                (asked.request.point_in_time.unwrap_or(now), asked.request.known_at.or(last))
            }
        };
        let after = cursor.map(|cursor| cursor.key);
        Ok(Self { asked, view, now, point_in_time, known_at, after, query, warnings: Vec::new() })
    }

    /// The releases of the newest and of the oldest record; where there are none, that of the version in force.
    pub(super) fn ages(&self, answered: &Answered) -> (Option<Timestamp>, Timestamp) {
        let released =
            |hit: &Hit| self.view.state.run(hit.found.version.last_seen).map(|run| run.release.released_at);
        let releases: Vec<_> = answered.found.iter().filter_map(released).collect();
        let in_force = || {
            let known = |at: Timestamp| self.known_at.is_none_or(|known_at| at <= known_at);
            let releases = self.view.state.completed.iter().map(|completed| &completed.release);
            let counts = releases
                .filter(|release| known(release.ingested_at) && release.released_at <= self.point_in_time);
            counts.map(|release| release.released_at).max().unwrap_or(Timestamp::MIN)
        };
        (releases.iter().max().copied(), releases.iter().min().copied().unwrap_or_else(in_force))
    }

    /// The answer.
    pub(super) fn finish(
        mut self,
        answered: Answered,
        freshness: Freshness,
        as_of: Option<Timestamp>,
        oldest: Timestamp,
        began: Instant,
    ) -> Result<QueryAnswer, QueryError> {
        let view = Arc::clone(&self.view);
        let registration = &view.state.entry.registration;
        let query = Arc::clone(&self.query);
        let cursor = cursor_of(&self, answered.more);
        self.warnings.extend(freshness.warnings.iter().cloned());
        if answered.pruned > 0 {
            self.warnings.push(format!("{} versions that held then have been pruned", answered.pruned));
        }
        let degraded = freshness.answer == Answer::DegradeTier;
        let oracle_tier = if degraded { registration.oracle_tier.lower() } else { registration.oracle_tier };
        let records =
            answered.found.iter().map(|hit| record(&view, &query, hit)).collect::<Result<Vec<_>, _>>()?;
        let provenance = self.asked.request.include_provenance.then(|| provenance(&view, &answered.found));
        let query_id = self.asked.query_id.unwrap_or_else(|| made_up(self.now, &records));
        let explain = self.asked.request.explain.then(|| Explain {
            access: answered.access.to_string(),
            filters: query.filters.iter().map(|filter| filter.in_words()).collect(),
            releases: view
                .state
                .completed
                .iter()
                .map(|completed| completed.release.version.clone())
                .collect(),
            files: view.file_count(),
        });
        let query_metadata = QueryMetadata {
            query_id: query_id.clone(),
            executed_at: self.now,
            latency_ms: began.elapsed().as_secs_f64() * 1e3,
            records_scanned: answered.scanned,
            records_returned: records.len() as u64,
            cache_hit: false,
            data_version: data_version(&view, &answered.found),
            known_at: self.known_at,
            oracle_tier,
            freshness: QueryFreshness {
                data_as_of: as_of,
                staleness_seconds: u64::try_from(self.now.duration_since(oldest).as_secs()).unwrap_or(0),
                policy: freshness,
            },
        };
        let warnings = self.warnings;
        let provenance = provenance.transpose()?;
        let response = QueryResponse { records, provenance, query_metadata, cursor, warnings, explain };
        Ok(QueryAnswer { query_id, oracle_id: self.asked.oracle_id, response })
    }
}

fn record(view: &SourceView, query: &Query, hit: &Hit) -> Result<NormalizedRecord, QueryError> {
    let Hit { found, content } = hit;
    let chosen = query.chosen(&view.ontology, &content.axes);
    let unit = |path: &str| view.ontology.axis(path)?.unit.clone();
    let run_id = view.record_id(found.statement.time.run, found.statement.position);
    let missing = || QueryError::Reading("a record's run is missing".into());
    Ok(NormalizedRecord {
        record_id: run_id.ok_or_else(missing)?,
        source_record_id: found.source_record_id(),
        units: chosen.iter().filter_map(|(path, _)| Some(((*path).to_owned(), unit(path)?))).collect(),
        definitions: definitions(&chosen, &content.definitions),
        axes: chosen.into_iter().map(|(path, value)| (path.to_owned(), value.clone())).collect(),
        valid_from: found.version.valid_from,
        valid_until: found.version.valid_until,
    })
}

fn definitions<V>(chosen: &[(&str, V)], all: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let of = |(path, _): &(&str, V)| Some(((*path).to_owned(), all.get(*path)?.clone()));
    chosen.iter().filter_map(of).collect()
}

fn provenance(view: &SourceView, hits: &[Hit]) -> Result<Vec<ProvenanceRecord>, QueryError> {
    hits.iter().map(|hit| Ok(view.provenance(&hit.found)?)).collect()
}

/// The versions of the source that the records are of, in the order of their releases; where there are none, the current
/// one.
fn data_version(view: &SourceView, hits: &[Hit]) -> String {
    let runs: BTreeSet<u32> = hits.iter().map(|hit| hit.found.version.last_seen).collect();
    let mut releases: Vec<_> =
        runs.into_iter().filter_map(|run| view.state.run(run)).map(|run| &run.release).collect();
    releases.sort_by(|one, other| (one.released_at, &one.version).cmp(&(other.released_at, &other.version)));
    if releases.is_empty() {
        return view.state.entry.current_version.clone();
    }
    let named: Vec<_> =
        releases.iter().take(VERSIONS_NAMED_MAX).map(|release| release.version.as_str()).collect();
    let more = releases.len() - named.len();
    if more > 0 { format!("{} and {more} more", named.join(", ")) } else { named.join(", ") }
}

/// A name for a query that has none: the same for the same answer at the same time.
fn made_up(now: Timestamp, records: &[NormalizedRecord]) -> String {
    let first = records.first().map_or("none", |record| record.record_id.as_str());
    format!("q-{}-{first}", now.as_microsecond())
}
