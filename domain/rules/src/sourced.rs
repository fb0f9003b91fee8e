//! Facts from ground truth: the statements of registered sources, as sentences of their ontology, each with its origin.
//! A supported claim can thus be traced to the source's own bytes (seeds: `oracle-a-rules`, RULE-PREC-004;
//! `rfc-0002-ground-truth`, "Provenance Chain" and "Verification").
//!
//! Members of every object are in RFC 8785 order, because an evaluation contains them.

mod rendering;

pub use rendering::check_fact_limits;

use domain_base::digest::Sha256Hex;
use domain_ground::id::{FactTemplateId, SourceId, WorkflowId};
use domain_ground::ontology::OntologyRef;
use domain_ground::ontology::template::FactTooLongError;
use domain_ground::query::OracleQuery;
use domain_ground::source::OracleTier;
use domain_verification::{EnvelopeKind, OracleVerificationRecord, VerifyRequest};
use jiff::Timestamp;
use serde::{Deserialize, Serialize, Serializer};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// The maximum number of entries of `facts_from`.
pub const FACTS_FROM_MAX: usize = 16;
/// The maximum number of facts from all entries together.
pub const SOURCED_FACTS_MAX: usize = 10_000;
/// The maximum size of all these facts together, in bytes.
pub const SOURCED_BYTES_MAX: usize = 1 << 20;

/// The facts from one entry of `facts_from`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct FactSource {
    /// The number of facts.
    pub facts: u64,
    /// The ontology whose templates made the facts.
    pub ontology: OntologyRef,
    /// The facts by origin, in the order of the answer.
    pub origins: Vec<OriginFacts>,
    /// The time that was asked about; absent for the present.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub point_in_time: Option<Timestamp>,
    /// The source or the workflow that was queried.
    #[serde(flatten)]
    pub asked: FactQueryTarget,
    /// Warnings for the user of the facts, except for warnings about age: see `stale` of a record.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// The origin of sourced facts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FactQueryTarget {
    /// A source that was queried.
    Query(SourceId),
    /// A workflow that was run for a verification.
    Verify(WorkflowId),
}

/// Facts with their common origin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct OriginFacts {
    /// The facts.
    pub facts: Vec<SourcedFact>,
    /// Their origin.
    #[serde(flatten)]
    pub origin: SourcedFactOrigin,
}

/// A fact from a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SourcedFact {
    /// Its index among all facts of the check, from 0, by which evidence refers to it.
    pub fact: u32,
    /// The template that made it.
    pub template_id: FactTemplateId,
    /// The text of the fact.
    pub text: String,
}

/// The origin of a fact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SourcedFactOrigin {
    /// A record of a source.
    Record(RecordOrigin),
    /// A verification over several sources.
    Verification(VerificationOrigin),
}

/// A record, as required to find it and its provenance again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RecordOrigin {
    /// The id of the source.
    pub oracle_id: SourceId,
    /// The trust in the source for this answer.
    pub oracle_tier: OracleTier,
    /// The SHA-256 of the raw record.
    pub raw_hash: Sha256Hex,
    /// The id of the record, by which its provenance can be read.
    pub record_id: String,
    /// The version of the source.
    pub source_version: String,
    /// Whether any requested value was stale but allowed by the policy.
    pub stale: bool,
}

/// An authoritative envelope, as required to rebuild it, with the sources of its values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct VerificationOrigin {
    /// The SHA-256 of the envelope.
    pub envelope_sha256: Sha256Hex,
    /// The id of the verification.
    pub execution_id: String,
    /// The verification records of each value, by the paths of axes.
    #[serde(serialize_with = "in_order")]
    pub records: BTreeMap<String, Vec<OracleVerificationRecord>>,
    /// Whether a cached answer replaced the answer of a source.
    pub stale: bool,
}

/// Serializes `records` with the members of each in sorted order.
fn in_order<S: Serializer>(
    records: &BTreeMap<String, Vec<OracleVerificationRecord>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    // a `Value` sorts the members of objects
    let value = serde_json::to_value(records).map_err(serde::ser::Error::custom)?;
    value.serialize(serializer)
}

impl FactSource {
    /// The facts, in their order.
    pub fn facts(&self) -> impl Iterator<Item = &SourcedFact> {
        self.origins.iter().flat_map(|origin| &origin.facts)
    }

    pub(crate) fn number_facts(&mut self, first: usize) {
        let facts = self.origins.iter_mut().flat_map(|origin| &mut origin.facts);
        for (number, fact) in (first..).zip(facts) {
            // a check has at most a million facts
            fact.fact = u32::try_from(number).unwrap_or(u32::MAX);
        }
    }
}

/// An entry of `facts_from`: `{"query": …}` or `{"verify": …}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "FactsFromInput", rename_all = "snake_case")]
pub enum FactsFrom {
    /// The records of a source, as with `POST /v1/query`.
    Query(Box<OracleQuery>),
    /// A decision over several sources, as with `POST /v1/verify`.
    Verify(Box<VerifyRequest>),
}

// serde's own error for an unknown enum variant would not name the entry, so this struct is parsed first
/// A request for facts: either a query of a source or a verification by a workflow.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(min_properties = 1, max_properties = 1)]
struct FactsFromInput {
    /// The records of a source, as with `POST /v1/query`.
    #[schema(nullable = false)]
    query: Option<Box<OracleQuery>>,
    /// A decision over several sources, as with `POST /v1/verify`.
    #[schema(nullable = false)]
    verify: Option<Box<VerifyRequest>>,
}

impl PartialSchema for FactsFrom {
    fn schema() -> RefOr<Schema> {
        FactsFromInput::schema()
    }
}

impl ToSchema for FactsFrom {
    fn name() -> Cow<'static, str> {
        "FactsFrom".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        FactsFromInput::schemas(schemas);
    }
}

/// An entry has neither or both.
#[derive(Debug, thiserror::Error)]
#[error("an entry of `facts_from` is invalid: it has either `query` or `verify`")]
struct FactsFromError;

impl TryFrom<FactsFromInput> for FactsFrom {
    type Error = FactsFromError;

    fn try_from(entry: FactsFromInput) -> Result<Self, FactsFromError> {
        match entry {
            FactsFromInput { query: Some(query), verify: None } => Ok(Self::Query(query)),
            FactsFromInput { query: None, verify: Some(verify) } => Ok(Self::Verify(verify)),
            FactsFromInput { .. } => Err(FactsFromError),
        }
    }
}

/// Why there are no facts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoFactsError {
    /// Every template uses an axis that was not requested.
    #[error("no template of {ontology} uses only {requested}; the axes in its templates are: {named}")]
    NoTemplate {
        ontology: OntologyRef,
        /// The requested axes, separated by commas.
        requested: String,
        /// The axes that the templates use, or a text that there are no templates.
        named: String,
    },
    /// There is more than one page.
    #[error(
        "the query finds more than one page of {records} records, but facts must cover the complete result; add filters or \
         increase `max_results`"
    )]
    More {
        /// The number of records on the page.
        records: usize,
    },
    /// The query has a cursor.
    #[error("`cursor` is not allowed, because facts must cover the complete result of a query")]
    Cursor,
    #[error(transparent)]
    TooLong(#[from] FactTooLongError),
    /// The facts exceed their number or their total size.
    #[error(
        "there are too many facts (at most {SOURCED_FACTS_MAX} facts of {SOURCED_BYTES_MAX} bytes in total allowed)"
    )]
    TooMany,
    /// The provenance of a record is missing.
    #[error("the answer has no provenance for record {0}")]
    NoProvenance(String),
    /// A value is in no fact, although templates include it.
    #[error("{0}")]
    Omitted(Box<OmittedValue>),
    /// Records were found, but none gives a fact.
    #[error(
        "{of} gives no fact: each template of {ontology} for the requested axes ({templates}) lacks a value or a definition"
    )]
    Nothing {
        /// The verification or the answer.
        of: String,
        ontology: OntologyRef,
        /// The templates that use only requested axes.
        templates: String,
    },
    /// The workflow does not decide inline.
    #[error(
        "workflow {workflow} does not decide within a request, because its `enforcement_mode` is not INLINE, and only an \
         authoritative decision gives facts"
    )]
    NotInline { workflow: WorkflowId },
    /// The envelope is not authoritative.
    #[error("the decision {execution_id} is {}; only an authoritative decision gives facts{}", kind.into_str(), append_advice(advice.as_ref()))]
    NotAuthoritative {
        /// The id of the verification.
        execution_id: String,
        kind: EnvelopeKind,
        /// The time after which the verification may be repeated, in milliseconds.
        retry_after_ms: Option<u64>,
        /// The required action.
        advice: Option<String>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OmittedValue {
    /// The record or the verification.
    pub of: String,
    /// The path of the value.
    pub axis: String,
    /// The definition of the value, if no template includes it.
    pub definition: Option<String>,
    pub ontology: OntologyRef,
    /// The templates that include the value.
    pub templates: String,
}

impl fmt::Display for OmittedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { of, axis, definition, ontology, templates } = self;
        let templates = format!("the templates of {ontology} for it ({templates})");
        match definition {
            Some(definition) => write!(
                f,
                "no fact contains `{axis}` of {of}: {templates} do not include its definition `{definition}`; add a template \
                 with `{{{axis}:definition}}`"
            ),
            None => write!(
                f,
                "no fact contains `{axis}` of {of}: {templates} need a value or a definition that is missing, or the value \
                 rounds to zero"
            ),
        }
    }
}

fn append_advice(advice: Option<&String>) -> String {
    advice.map(|advice| format!("; {advice}")).unwrap_or_default()
}

#[cfg(test)]
mod tests;
