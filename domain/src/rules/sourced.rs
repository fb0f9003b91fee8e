//! Facts from ground truth: the statements of registered sources, as sentences of their ontology, each with its origin.
//! A supported claim can thus be traced to the source's own bytes (seeds: `oracle-a-rules`, RULE-PREC-004;
//! `rfc-0002-ground-truth`, "Provenance Chain" and "Verification").
//!
//! Members of every object are in RFC 8785 order, because an evaluation contains them.

mod facts_from;
mod no_facts;
mod rendering;

pub use facts_from::FactsFrom;
pub use no_facts::{NoFactsError, OmittedValue};
pub use rendering::check_fact_limits;

use crate::base::digest::Sha256Hex;
use crate::ground::id::{FactTemplateId, SourceId, WorkflowId};
use crate::ground::ontology::OntologyRef;
use crate::ground::source::OracleTier;
use crate::verification::OracleVerificationRecord;
use serde::{Deserialize, Serialize, Serializer};
use std::collections::BTreeMap;

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

#[cfg(test)]
mod tests;
