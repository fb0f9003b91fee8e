//! The answer of an ingested source about one subject, for a verification (RFC-0002, "Oracle Verification Protocol").

use super::scan::{LOOKUP, SourceScan};
use super::{QueryError, QueryService, freshness};
use domain_base::moment::find_past_time;
use domain_ground::freshness::AnswerFreshness;
use domain_ground::id::SourceId;
use domain_ground::provenance::{ProvenanceRecord, RecordVerificationStatus};
use domain_ground::query::{FilterOperator, QueryFilter, QueryRequest, ValidatedQuery};
use domain_ground::timeline::ReleaseScope;
use domain_ground::value::AxisValue;
use domain_verification::candidate::StatedValue;
use domain_verification::{CallFailure, CandidateAnswer, OracleReply, OracleVerificationRecord};
use jiff::{SignedDuration, Timestamp};
use oracled_store::ground::query::{QueryHit, ScanBudget};
use oracled_store::ground::view::{FoundVersion, SourceView};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::task::spawn_blocking;

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
        let unknown = || QueryError::SourceUnknown(question.oracle_id.clone());
        let view = self.store.view(&question.oracle_id)?.ok_or_else(unknown)?;
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
            freshness::evaluate_freshness(view, &paths, Some(last_seen.as_of()), past, *now, self.scope());
        let stated = |path: &String| {
            let (value, definition) =
                (content.axes.get(path)?.clone(), content.definitions.get(path).cloned());
            Some((path.clone(), StatedValue { value, definition }))
        };
        let identity = view.ontology.identity();
        let subject =
            identity.filter_map(|axis| Some((axis.axis.clone(), content.axes.get(&axis.axis)?.clone())));
        let candidate = CandidateAnswer {
            thing: subject.collect(),
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
