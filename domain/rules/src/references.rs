//! References from the claims of a candidate to the statements of sources that support them. They are no copies: a statement is
//! read again by its record.

use crate::registry::RuleCheckType;
use crate::result::{CandidateSpan, EvidenceFinding, RuleResult, RulesEvaluation};
use crate::sourced::{FactSource, OriginFacts, SourcedFact, SourcedFactOrigin, VerificationOrigin};
use domain_base::digest::Sha256Hex;
use domain_base::service::is_zero;
use domain_ground::id::{FactTemplateId, SourceId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The maximum number of listed statements; further ones are only counted.
const STATEMENTS_MAX: usize = 100;
/// The maximum number of listed claims of a statement; further ones are only counted.
const CLAIMS_MAX: usize = 10;
/// The part of a locator before the id of a record.
pub const RECORD_LOCATOR: &str = "urn:oracled:record:";

/// A statement of a source that supports claims: a record of one of its versions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct StatementReference {
    /// The source.
    pub oracle_id: SourceId,
    /// The record.
    pub record_id: String,
    /// The version of the source.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(nullable = false)]
    pub source_version: Option<String>,
    /// The template that made the fact from the record; it names the axes. Absent if the fact is from a verification.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(nullable = false)]
    pub template_id: Option<FactTemplateId>,
    /// The SHA-256 of the fact's text. Absent if the fact is from a verification.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(nullable = false)]
    pub fact_sha256: Option<Sha256Hex>,
    /// The axes of the record with values on which the verification rests; absent for other facts.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub axes: Vec<String>,
    /// The time that the source was asked about; absent for the time of the evaluation.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(nullable = false)]
    pub point_in_time: Option<Timestamp>,
    /// The claims that the statement supports, at most 10; none if the rules do not say which fact supports which claim.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub claims: Vec<CandidateSpan>,
    /// The number of further claims; absent if there are none.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub claims_omitted: u64,
}

/// The statements on which an evaluation relied.
#[derive(Debug, Default)]
pub(crate) struct ReliedOn {
    pub(crate) statements: Vec<StatementReference>,
    /// The number of statements that are not listed.
    pub(crate) omitted: u64,
    /// The positions of their origins among all origins of facts.
    pub(crate) origins: BTreeSet<usize>,
}

impl ReliedOn {
    /// The statements that support claims of `evaluation`, in the order of the facts. If no applied rule says which fact supports
    /// which claim, or does so for all claims, these are all statements that gave facts.
    pub(crate) fn of(evaluation: &RulesEvaluation) -> Self {
        let claims = claims_by_fact(&evaluation.rules);
        let mut relied_on = Self::default();
        let mut at = 0;
        for source in &evaluation.facts_from {
            for origin in &source.origins {
                for fact in &origin.facts {
                    let spans = match &claims {
                        Some(claims) => claims.get(&fact.fact),
                        None => Some(&BTreeSet::new()),
                    };
                    if let Some(spans) = spans {
                        relied_on.add(source, origin, fact, spans);
                        relied_on.origins.insert(at);
                    }
                }
                at += 1;
            }
        }
        relied_on
    }

    fn add(
        &mut self,
        source: &FactSource,
        origin: &OriginFacts,
        fact: &SourcedFact,
        spans: &BTreeSet<ClaimSpan<'_>>,
    ) {
        let to_span = |(field, start, end): &ClaimSpan<'_>| CandidateSpan {
            field: field.map(str::to_owned),
            start: *start,
            end: *end,
        };
        let claims: Vec<_> = spans.iter().take(CLAIMS_MAX).map(to_span).collect();
        let claims_omitted = spans.len().saturating_sub(CLAIMS_MAX) as u64;
        let point_in_time = source.point_in_time;
        let references = match &origin.origin {
            SourcedFactOrigin::Record(record) => vec![StatementReference {
                oracle_id: record.oracle_id.clone(),
                record_id: record.record_id.clone(),
                source_version: Some(record.source_version.clone()),
                template_id: Some(fact.template_id.clone()),
                fact_sha256: Some(Sha256Hex::of(fact.text.as_bytes())),
                axes: Vec::new(),
                point_in_time,
                claims,
                claims_omitted,
            }],
            SourcedFactOrigin::Verification(verification) => {
                let to_reference = |reference| StatementReference {
                    point_in_time,
                    claims: claims.clone(),
                    claims_omitted,
                    ..reference
                };
                statements_of(verification).into_iter().map(to_reference).collect()
            }
        };
        for reference in references {
            let unclaimed = |of: &StatementReference| StatementReference {
                claims: Vec::new(),
                claims_omitted: 0,
                ..of.clone()
            };
            // further facts of a verification rest on the same statements
            let has_no_fact = reference.fact_sha256.is_none();
            let same =
                self.statements.iter_mut().find(|of| has_no_fact && unclaimed(of) == unclaimed(&reference));
            if let Some(same) = same {
                same.claims_omitted += reference.claims_omitted;
                for claim in reference.claims {
                    if same.claims.len() < CLAIMS_MAX {
                        same.claims.push(claim);
                    } else {
                        same.claims_omitted += 1;
                    }
                }
            } else if self.statements.len() < STATEMENTS_MAX {
                self.statements.push(reference);
            } else {
                self.omitted += 1;
            }
        }
    }
}

/// The field, the start and the end of a claim.
type ClaimSpan<'e> = (Option<&'e str>, usize, usize);

/// The claims that each fact supports; `None` if this is not known for all claims.
fn claims_by_fact(rules: &[RuleResult]) -> Option<BTreeMap<u32, BTreeSet<ClaimSpan<'_>>>> {
    let names_facts = |result: &&RuleResult| result.rule.rule().check_type == RuleCheckType::PatternMatch;
    let naming = || rules.iter().filter(names_facts);
    if naming().next().is_none() || naming().any(|result| result.evidence_omitted > 0) {
        return None;
    }
    let mut claims: BTreeMap<u32, BTreeSet<_>> = BTreeMap::new();
    let steps = naming().flat_map(|result| &result.evidence).map(|step| &step.output);
    for output in steps.filter(|output| output.finding == EvidenceFinding::Supported) {
        let Some(CandidateSpan { field, start, end }) = &output.span else { continue };
        for fact in output.fact.into_iter().chain(output.derived_with) {
            claims.entry(fact).or_default().insert((field.as_deref(), *start, *end));
        }
    }
    Some(claims)
}

/// The records of ingested sources on which the values of a decision rest, each with its axes.
fn statements_of(verification: &VerificationOrigin) -> Vec<StatementReference> {
    let mut statements: BTreeMap<&str, StatementReference> = BTreeMap::new();
    for (axis, records) in &verification.records {
        for record in records {
            let Some(record_id) = record.source_locator.strip_prefix(RECORD_LOCATOR) else { continue };
            let reference = statements.entry(record_id).or_insert_with(|| StatementReference {
                oracle_id: record.oracle_id.clone(),
                record_id: record_id.to_owned(),
                source_version: record.source_version.clone(),
                template_id: None,
                fact_sha256: None,
                axes: Vec::new(),
                point_in_time: None,
                claims: Vec::new(),
                claims_omitted: 0,
            });
            reference.axes.push(axis.clone());
        }
    }
    statements.into_values().collect()
}
