//! Builds the answer to one query.

use super::entry::format_versions;
use super::{QueryCursor, QueryError, cursor_of, tier_of};
use crate::queries;
use crate::queries::{LOOKUP, QueryService, SourceScan};
use domain_base::moment::{check_not_future, find_past_time};
use domain_ground::freshness::{AnswerFreshness, age_s};
use domain_ground::id::SourceId;
use domain_ground::query::{
    FilterOperator, NormalizedRecord, OracleQuery, QueryAnswer, QueryExplanation, QueryFilter,
    QueryFreshness, QueryMetadata, QueryRequest, QueryResponse, ValidatedQuery,
};
use domain_ground::record::{ProvenanceRecord, RecordVerificationStatus};
use domain_ground::timeline::{ReleaseScope, TimelineRun};
use domain_ground::value::AxisValue;
use domain_verification::verification_record::StatedValue;
use domain_verification::{CallFailure, CandidateAnswer, OracleReply, OracleVerificationRecord};
use jiff::{SignedDuration, Timestamp};
use oracled_store::ground::query::{QueryAccessPath, QueryHit, QueryResultPage, ScanBudget, ScanError};
use oracled_store::ground::view::{FoundVersion, SourceView};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;
use tokio::task::spawn_blocking;

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
        let answered = match self.read(LOOKUP) {
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

/// The verifier of ingested records, and its method.
const VERIFIER_ID: &str = "oracled";
const VERIFICATION_METHOD: &str = "controlled ingestion";

#[derive(Debug, Clone)]
pub struct IngestedSourceQuestion {
    pub oracle_id: SourceId,
    /// The subject, by its identity axes.
    pub identity: BTreeMap<String, AxisValue>,
    /// The requested axes, as paths of the source's ontology.
    pub paths: Vec<String>,
    /// The requested time; `None` for the present.
    pub point_in_time: Option<Timestamp>,
    /// The time by which the data was known; `None` for all that is known now.
    pub known_at: Option<Timestamp>,
    /// Whether to return the previous value, too.
    pub with_previous: bool,
}

#[derive(Debug)]
pub struct IngestedSourceAnswer {
    pub reply: OracleReply,
    /// The record that was in force before this one, if it was requested and is known.
    pub previous: Option<Box<CandidateAnswer>>,
    pub warnings: Vec<String>,
}

/// A question with the view of its source.
struct IngestedSourceLookup {
    view: Arc<SourceView>,
    query: ValidatedQuery,
    question: IngestedSourceQuestion,
    /// The requested time.
    time: Timestamp,
    now: Timestamp,
}

impl QueryService {
    /// The answer of a source about one subject, whatever its age: the decision checks the freshness. Begins
    /// a refresh if the source's policy requires one, and waits for it if the policy blocks until then.
    ///
    /// # Errors
    /// The source cannot be queried.
    pub async fn answer_question(
        &self,
        question: IngestedSourceQuestion,
    ) -> Result<IngestedSourceAnswer, QueryError> {
        let mut waited = false;
        loop {
            let (answer, freshness) = self.read_source_answer(question.clone()).await?;
            let Some(freshness) = freshness else { return Ok(answer) };
            match self.enforce_policy(&question.oracle_id, &freshness, Some(()), &mut waited).await {
                Ok(None) => {}
                Ok(Some(())) | Err(_) => return Ok(answer),
            }
        }
    }

    /// The answer of the source, and its freshness.
    async fn read_source_answer(
        &self,
        question: IngestedSourceQuestion,
    ) -> Result<(IngestedSourceAnswer, Option<AnswerFreshness>), QueryError> {
        let now = self.clock.now();
        let view = self.view(&question.oracle_id).await?;
        let provided = &view.state.entry.registration.axes_provided;
        let query = ValidatedQuery::new(&subject_query(&question), &view.ontology, provided)?;
        let time = question.point_in_time.unwrap_or_else(|| view.state.present(now));
        let scope = ReleaseScope { known_at: question.known_at, released_by: Some(time) };
        if view.knowledge(scope).latest().is_none() {
            // it is unknown what the source would have answered: "no record" would mislead the decision
            let cause =
                format!("no release of source {} is known for the requested time", question.oracle_id);
            let reply = OracleReply::Failed { failure: CallFailure::NotReady, cause };
            return Ok((IngestedSourceAnswer { reply, previous: None, warnings: Vec::new() }, None));
        }
        let look = IngestedSourceLookup { view, query, question, time, now };
        match look.read_answer(LOOKUP) {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) | Err(QueryError::TooCostly) => {
                // the decision is made even if its caller is gone
                let scan = SourceScan::new(self.processor().await?, Arc::new(|| true));
                // on another thread, since there are many records of this subject
                let scanned = spawn_blocking(move || scan.run(|budget| Ok(look.read_answer(budget)))).await;
                let answer = scanned.map_err(|error| QueryError::Reading(error.to_string()))???;
                answer.ok_or_else(|| QueryError::Reading("too many records have the same identity".into()))
            }
            Err(error) => Err(error),
        }
    }
}

fn subject_query(question: &IngestedSourceQuestion) -> QueryRequest {
    let filter = |(axis, value): (&String, &AxisValue)| QueryFilter {
        axis: axis.clone(),
        operator: FilterOperator::Eq,
        value: match value {
            AxisValue::Bool(value) => Json::Bool(*value),
            AxisValue::Text(text) => Json::String(text.clone()),
        },
    };
    QueryRequest {
        axes_requested: question.paths.clone(),
        filters: question.identity.iter().map(filter).collect(),
        ..QueryRequest::default()
    }
}

impl IngestedSourceLookup {
    /// The source's answer; `None` if `budget` does not suffice to read all of its records.
    fn read_answer(
        &self,
        budget: ScanBudget<'_>,
    ) -> Result<Option<(IngestedSourceAnswer, Option<AnswerFreshness>)>, QueryError> {
        let Self { view, query, time, .. } = self;
        let mut warnings = Vec::new();
        let answered = view.query(query, *time, self.question.known_at, None, budget)?;
        if answered.pruned > 0 {
            warnings.push(format!("{} versions that were valid then have been pruned", answered.pruned));
        }
        let Some(hit) = answered.found.first() else {
            if answered.pruned > 0 {
                // the source had a value then: "no record" would mislead the decision
                return Err(QueryError::Reading("its record of that time has been pruned".into()));
            }
            let is_whole = answered.more.is_none();
            let reply = self.rejection_reply(None)?.unwrap_or(OracleReply::NoRecord);
            return Ok(is_whole.then_some((IngestedSourceAnswer { reply, previous: None, warnings }, None)));
        };
        if answered.found.len() > 1 {
            let reply = OracleReply::Several { records: answered.found.len() as u64 };
            return Ok(Some((IngestedSourceAnswer { reply, previous: None, warnings }, None)));
        }
        if answered.more.is_some() {
            return Ok(None);
        }
        if let Some(reply) = self.rejection_reply(Some(hit))? {
            return Ok(Some((IngestedSourceAnswer { reply, previous: None, warnings }, None)));
        }
        let (candidate, freshness) = self.candidate(hit)?;
        if candidate
            .provenance
            .as_ref()
            .is_some_and(|chain| chain.verification_status == RecordVerificationStatus::Unverified)
        {
            warnings.push("its record was accepted with warnings; see the run in its provenance".into());
        }
        let before =
            if self.question.with_previous { self.read_previous_candidate(hit, budget)? } else { None };
        let reply = OracleReply::Answered { candidate: Box::new(candidate) };
        Ok(Some((IngestedSourceAnswer { reply, previous: before, warnings }, Some(freshness))))
    }

    /// The reply of a source whose current release rejected the record of the subject. The release does have
    /// the record, and may correct the former value. So neither "no record" nor that value is returned.
    fn rejection_reply(&self, hit: Option<&QueryHit>) -> Result<Option<OracleReply>, QueryError> {
        let Self { view, query, .. } = self;
        let version = match hit {
            Some(hit) => view.unconfirmed_by(&hit.found.version),
            None => view.rejected(&query.identity.key(), &view.knowledge(self.scope()))?,
        };
        Ok(version.map(|version| {
            let cause = format!(
                "its version {version} rejected the record, or records without an identity; see `oraclectl rejects RUN`"
            );
            OracleReply::Failed { failure: CallFailure::RecordRejected, cause }
        }))
    }

    /// The releases that the question may see.
    const fn scope(&self) -> ReleaseScope {
        ReleaseScope { known_at: self.question.known_at, released_by: Some(self.time) }
    }

    /// The record that was in force before the run that brought `hit`.
    fn read_previous_candidate(
        &self,
        hit: &QueryHit,
        budget: ScanBudget<'_>,
    ) -> Result<Option<Box<CandidateAnswer>>, QueryError> {
        let run = self.view.state.run(hit.found.statement.time.run);
        let Some(run) = run else { return Ok(None) };
        let just_before = run.release.ingested_at.saturating_sub(SignedDuration::from_micros(1));
        let just_before = just_before.unwrap_or(Timestamp::MIN);
        let known = self.view.query(&self.query, self.time, Some(just_before), None, budget)?;
        let same = known.found.iter().find(|before| before.found.key == hit.found.key);
        Ok(same.map(|before| self.candidate(before)).transpose()?.map(|(before, _)| Box::new(before)))
    }

    fn candidate(&self, hit: &QueryHit) -> Result<(CandidateAnswer, AnswerFreshness), QueryError> {
        let Self { view, question, now, .. } = self;
        let QueryHit { found, content } = hit;
        let last_seen = view.state.run(found.version.last_seen).map(|run| &run.release);
        let last_seen = last_seen.ok_or_else(|| QueryError::Reading("a record's run is missing".into()))?;
        // the artifact is the record of the latest release with this content
        let artifact = FoundVersion { statement: found.latest.clone(), ..found.clone() };
        let provenance = view.provenance(&artifact)?;
        let paths: Vec<_> = question.paths.iter().map(String::as_str).collect();
        let past = find_past_time(question.point_in_time, question.known_at, *now);
        let freshness =
            queries::evaluate_freshness(view, &paths, Some(last_seen.as_of()), past, *now, self.scope());
        let stated = |path: &String| {
            let (value, definition) =
                (content.axes.get(path)?.clone(), content.definitions.get(path).cloned());
            Some((path.clone(), StatedValue { value, definition }))
        };
        let identity = view.ontology.identity();
        let subject =
            identity.filter_map(|axis| Some((axis.axis.clone(), content.axes.get(&axis.axis)?.clone())));
        let candidate = CandidateAnswer {
            subject: subject.collect(),
            values: question.paths.iter().filter_map(stated).collect(),
            record: OracleVerificationRecord {
                oracle_id: question.oracle_id.clone(),
                oracle_tier: view.state.entry.registration.oracle_tier.into(),
                source_locator: format!("urn:oracled:record:{}", provenance.record_id),
                source_version: Some(provenance.source_version.clone()),
                retrieved_at: last_seen.ingested_at,
                // a run verifies its records in the commit that ingests them
                verified_at: last_seen.ingested_at,
                verification_method: VERIFICATION_METHOD.into(),
                verifier_id: VERIFIER_ID.into(),
                evidence_hash: Some(provenance.raw_hash.clone()),
                signature_info: None,
                ttl_seconds: None,
                chain_of_custody: Some(custody(view, &provenance)),
            },
            // the date of the release, not of the ingestion: a late ingestion does not make a release newer
            observed_at: last_seen.as_of(),
            freshness: freshness.axes.clone(),
            deviations: BTreeMap::new(),
            provenance: Some(Box::new(provenance)),
        };
        Ok((candidate, freshness))
    }
}

/// The chain of custody of a record, from its authority on.
fn custody(view: &SourceView, provenance: &ProvenanceRecord) -> Vec<String> {
    vec![
        view.state.entry.registration.authority(provenance.source_url.as_deref()),
        format!("payload {}", provenance.raw.raw_sha256),
        format!("run {} of pipeline {}", provenance.ingestion_run_id, provenance.ingestion_pipeline_id),
    ]
}
