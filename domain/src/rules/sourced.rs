//! Facts out of ground truth: what registered sources say, in the words of their ontology, each with where it comes from, so
//! that a claim which it supports leads back to the source's own bytes (seeds: `oracle-a-rules`, RULE-PREC-004;
//! `rfc-0002-ground-truth`, "Provenance Chain" and "Verification").
//!
//! The members of every object stand in RFC 8785's order, since an evaluation holds them.

mod asked;
mod no_facts;
mod rendering;

pub use asked::FactsFrom;
pub use no_facts::{NoFacts, Untold};
pub use rendering::within_bounds;

use crate::base::digest::Sha256Hex;
use crate::ground::id::{SourceId, TemplateId, WorkflowId};
use crate::ground::ontology::OntologyRef;
use crate::ground::source::OracleTier;
use crate::verification::OracleVerificationRecord;
use serde::{Deserialize, Serialize, Serializer};
use std::collections::BTreeMap;

/// The most entries of `facts_from`.
pub const FACTS_FROM_MAX: usize = 16;
/// The most facts that all of them give together.
pub const SOURCED_FACTS_MAX: usize = 10_000;
/// The longest that those are together, in bytes.
pub const SOURCED_BYTES_MAX: usize = 1 << 20;

/// What one entry of `facts_from` has given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FactSource {
    /// How many facts.
    pub facts: u64,
    /// In the words of which ontology.
    pub ontology: OntologyRef,
    /// They, by what each comes from, in the order of the answer.
    pub origins: Vec<FactOrigin>,
    /// Who was asked.
    #[serde(flatten)]
    pub asked: Asked,
    /// What whoever uses the facts should know; of their age [`RecordOrigin::stale`] tells.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Who was asked for facts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Asked {
    /// A source, by a query.
    Query(SourceId),
    /// A workflow, for a verification.
    Verify(WorkflowId),
}

/// What facts come from, and they.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FactOrigin {
    /// The facts.
    pub facts: Vec<SourcedFact>,
    /// What they come from.
    #[serde(flatten)]
    pub origin: Origin,
}

/// A fact that a source gave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourcedFact {
    /// Its place among all facts of the check, from 0, by which evidence names it.
    pub fact: u32,
    /// The template of the ontology that made it.
    pub template_id: TemplateId,
    /// It.
    pub text: String,
}

/// What a fact comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A record of a source.
    Record(RecordOrigin),
    /// A decision over several sources.
    Verification(VerificationOrigin),
}

/// A record, as far as it has to be known to find it and its provenance again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordOrigin {
    /// Whose it is.
    pub oracle_id: SourceId,
    /// How far the source was trusted with it.
    pub oracle_tier: OracleTier,
    /// The SHA-256 of the raw record.
    pub raw_hash: Sha256Hex,
    /// Its id, by which its provenance can be read.
    pub record_id: String,
    /// Of which version of the source.
    pub source_version: String,
    /// Whether any of what was asked for was stale, and its policy lets it pass all the same.
    pub stale: bool,
}

/// An authoritative envelope, as far as it has to be known to rebuild it, and who stands behind its values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerificationOrigin {
    /// The SHA-256 of the envelope.
    pub envelope_sha256: Sha256Hex,
    /// The name of the decision.
    pub execution_id: String,
    /// The verifications behind each value, by the paths of axes.
    #[serde(serialize_with = "in_order")]
    pub records: BTreeMap<String, Vec<OracleVerificationRecord>>,
    /// Whether anything that was kept has taken the place of an answer.
    pub stale: bool,
}

/// Writes `records` with the members of each in their order.
fn in_order<S: Serializer>(
    records: &BTreeMap<String, Vec<OracleVerificationRecord>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    // a `Value` keeps the members of objects in their order
    let value = serde_json::to_value(records).map_err(serde::ser::Error::custom)?;
    value.serialize(serializer)
}

impl FactSource {
    /// The facts, in their order.
    pub fn facts(&self) -> impl Iterator<Item = &SourcedFact> {
        self.origins.iter().flat_map(|origin| &origin.facts)
    }

    /// Numbers the facts from `first` on.
    pub(crate) fn number_from(&mut self, first: usize) {
        let facts = self.origins.iter_mut().flat_map(|origin| &mut origin.facts);
        for (place, fact) in (first..).zip(facts) {
            // a check has a million facts at the most
            fact.fact = u32::try_from(place).unwrap_or(u32::MAX);
        }
    }
}

#[cfg(test)]
mod tests;
