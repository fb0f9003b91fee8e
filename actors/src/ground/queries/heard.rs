//! The answer of an ingested source about one subject, for a verification (RFC-0002, "Oracle Verification Protocol").

use super::scan::{LOOKUP, Scan};
use super::{Queries, QueryError, freshness};
use jiff::{SignedDuration, Timestamp};
use oracled_domain::base::moment::past_time;
use oracled_domain::ground::freshness::Freshness;
use oracled_domain::ground::id::SourceId;
use oracled_domain::ground::provenance::{ProvenanceRecord, VerificationStatus};
use oracled_domain::ground::query::{Operator, Query, QueryFilter, QueryRequest};
use oracled_domain::ground::timeline::Scope;
use oracled_domain::ground::value::Value;
use oracled_domain::verification::candidate::Stated;
use oracled_domain::verification::{Candidate, Failure, OracleVerificationRecord, Reply};
use oracled_store::ground::query::{Hit, ScanBudget};
use oracled_store::ground::view::{Found, SourceView};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::task::spawn_blocking;

/// The verifier of ingested records, and its method.
const VERIFIER_ID: &str = "oracled";
const VERIFICATION_METHOD: &str = "controlled ingestion";

/// A question to a source.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// The source.
    pub(crate) oracle_id: SourceId,
    /// The subject, by its identity axes.
    pub(crate) thing: BTreeMap<String, Value>,
    /// The requested axes, as paths of the source's ontology.
    pub(crate) paths: Vec<String>,
    /// The requested time; `None` for the present.
    pub(crate) point_in_time: Option<Timestamp>,
    /// The time by which the data was known; `None` for all that is known now.
    pub(crate) known_at: Option<Timestamp>,
    /// Whether to return the previous value, too.
    pub(crate) looks_back: bool,
}

/// The answer of a source.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) reply: Reply,
    /// The record that was in force before this one, if it was requested and is known.
    pub(crate) before: Option<Box<Candidate>>,
    pub(crate) warnings: Vec<String>,
}

/// A question with the view of its source.
struct Look {
    view: Arc<SourceView>,
    query: Query,
    asked: Asked,
    /// The requested time.
    time: Timestamp,
    now: Timestamp,
}

impl Queries {
    /// The answer of a source about one subject, whatever its age: the decision checks the freshness. Begins a refresh if
    /// the source's policy requires one, and waits for it if the policy blocks until then.
    ///
    /// # Errors
    /// The source cannot be queried.
    pub(crate) async fn heard(&self, asked: Asked) -> Result<Heard, QueryError> {
        let mut waited = false;
        loop {
            let (heard, freshness) = self.hear(asked.clone()).await?;
            let Some(freshness) = freshness else { return Ok(heard) };
            match self.passed(&asked.oracle_id, &freshness, Some(()), &mut waited).await {
                Ok(None) => {}
                Ok(Some(())) | Err(_) => return Ok(heard),
            }
        }
    }

    /// The answer of the source, and its freshness.
    async fn hear(&self, asked: Asked) -> Result<(Heard, Option<Freshness>), QueryError> {
        let now = self.clock.now();
        let unknown = || QueryError::SourceUnknown(asked.oracle_id.clone());
        let view = self.store.view(&asked.oracle_id)?.ok_or_else(unknown)?;
        let provided = &view.state.entry.registration.axes_provided;
        let query = Query::new(&request(&asked), &view.ontology, provided)?;
        let time = asked.point_in_time.unwrap_or_else(|| view.state.present(now));
        let scope = Scope { known_at: asked.known_at, released_by: Some(time) };
        if view.knowledge(scope).latest().is_none() {
            // it is unknown what the source would have answered: "no record" would mislead the decision
            let cause = "no release of it is known for the requested time".to_owned();
            let reply = Reply::Failed { failure: Failure::Internal, cause };
            return Ok((Heard { reply, before: None, warnings: Vec::new() }, None));
        }
        let look = Look { view, query, asked, time, now };
        match look.heard(LOOKUP) {
            Ok(Some(heard)) => Ok(heard),
            Ok(None) | Err(QueryError::TooCostly) => {
                // the decision is made even if its caller is gone
                let scan = Scan::new(self.processor().await?, Arc::new(|| true));
                // on another thread, since there are many records of this subject
                let looked = spawn_blocking(move || scan.run(|budget| Ok(look.heard(budget)))).await;
                let heard = looked.map_err(|error| QueryError::Reading(error.to_string()))???;
                heard.ok_or_else(|| QueryError::Reading("too many records have the same identity".into()))
            }
            Err(error) => Err(error),
        }
    }
}

/// The query for one subject.
fn request(asked: &Asked) -> QueryRequest {
    let filter = |(axis, value): (&String, &Value)| QueryFilter {
        axis: axis.clone(),
        operator: Operator::Eq,
        value: match value {
            Value::Bool(value) => Json::Bool(*value),
            Value::Text(text) => Json::String(text.clone()),
        },
    };
    QueryRequest {
        axes_requested: asked.paths.clone(),
        filters: asked.thing.iter().map(filter).collect(),
        ..QueryRequest::default()
    }
}

impl Look {
    /// The source's answer; `None` if `budget` does not suffice to read all of its records.
    fn heard(&self, budget: ScanBudget<'_>) -> Result<Option<(Heard, Option<Freshness>)>, QueryError> {
        let Self { view, query, time, .. } = self;
        let mut warnings = Vec::new();
        let answered = view.query(query, *time, self.asked.known_at, None, budget)?;
        if answered.pruned > 0 {
            warnings.push(format!("{} versions that were valid then have been pruned", answered.pruned));
        }
        let Some(hit) = answered.found.first() else {
            if answered.pruned > 0 {
                // the source had a value then: "no record" would mislead the decision
                return Err(QueryError::Reading("its record of that time has been pruned".into()));
            }
            let is_whole = answered.more.is_none();
            let reply = self.rejected(None)?.unwrap_or(Reply::NoRecord);
            return Ok(is_whole.then_some((Heard { reply, before: None, warnings }, None)));
        };
        if answered.found.len() > 1 {
            let reply = Reply::Several { records: answered.found.len() as u64 };
            return Ok(Some((Heard { reply, before: None, warnings }, None)));
        }
        if answered.more.is_some() {
            return Ok(None);
        }
        if let Some(reply) = self.rejected(Some(hit))? {
            return Ok(Some((Heard { reply, before: None, warnings }, None)));
        }
        let (candidate, freshness) = self.candidate(hit)?;
        if candidate
            .provenance
            .as_ref()
            .is_some_and(|chain| chain.verification_status == VerificationStatus::Unverified)
        {
            warnings.push("its record was accepted with warnings; see the run in its provenance".into());
        }
        let before = if self.asked.looks_back { self.before(hit, budget)? } else { None };
        let reply = Reply::Answered { candidate: Box::new(candidate) };
        Ok(Some((Heard { reply, before, warnings }, Some(freshness))))
    }

    /// The reply of a source whose current release rejected the record of the subject. The release does have the record,
    /// and may correct the former value. So neither "no record" nor that value is returned.
    fn rejected(&self, hit: Option<&Hit>) -> Result<Option<Reply>, QueryError> {
        let Self { view, query, .. } = self;
        let version = match hit {
            Some(hit) => view.unconfirmed_by(&hit.found.version),
            None => view.rejected(&query.identity.key(), &view.knowledge(self.scope()))?,
        };
        Ok(version.map(|version| {
            let cause = format!(
                "its version {version} rejected the record, or records without an identity; see `oraclectl rejects RUN`"
            );
            Reply::Failed { failure: Failure::RecordRejected, cause }
        }))
    }

    /// The releases that the question may see.
    const fn scope(&self) -> Scope {
        Scope { known_at: self.asked.known_at, released_by: Some(self.time) }
    }

    /// The record that was in force before the run that brought `hit`.
    fn before(&self, hit: &Hit, budget: ScanBudget<'_>) -> Result<Option<Box<Candidate>>, QueryError> {
        let run = self.view.state.run(hit.found.statement.time.run);
        let Some(run) = run else { return Ok(None) };
        let just_before = run.release.ingested_at.saturating_sub(SignedDuration::from_micros(1));
        let just_before = just_before.unwrap_or(Timestamp::MIN);
        let known = self.view.query(&self.query, self.time, Some(just_before), None, budget)?;
        let same = known.found.iter().find(|before| before.found.key == hit.found.key);
        Ok(same.map(|before| self.candidate(before)).transpose()?.map(|(before, _)| Box::new(before)))
    }

    fn candidate(&self, hit: &Hit) -> Result<(Candidate, Freshness), QueryError> {
        let Self { view, asked, now, .. } = self;
        let Hit { found, content } = hit;
        let last_seen = view.state.run(found.version.last_seen).map(|run| &run.release);
        let last_seen = last_seen.ok_or_else(|| QueryError::Reading("a record's run is missing".into()))?;
        // the artifact is the record of the latest release with this content
        let artifact = Found { statement: found.latest.clone(), ..found.clone() };
        let provenance = view.provenance(&artifact)?;
        let paths: Vec<_> = asked.paths.iter().map(String::as_str).collect();
        let past = past_time(asked.point_in_time, asked.known_at, *now);
        let freshness = freshness::of(view, &paths, Some(last_seen.as_of()), past, *now, self.scope());
        let stated = |path: &String| {
            let (value, definition) =
                (content.axes.get(path)?.clone(), content.definitions.get(path).cloned());
            Some((path.clone(), Stated { value, definition }))
        };
        let identity = view.ontology.identity();
        let thing =
            identity.filter_map(|axis| Some((axis.axis.clone(), content.axes.get(&axis.axis)?.clone())));
        let candidate = Candidate {
            thing: thing.collect(),
            values: asked.paths.iter().filter_map(stated).collect(),
            record: OracleVerificationRecord {
                oracle_id: asked.oracle_id.clone(),
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
