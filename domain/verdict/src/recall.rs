//! Recall: the delivered verdicts that relied on a statement that its source has changed since.
//!
//! Entries of evaluations refer to the statements that support claims ([`StatementReference`]). An index leads from a statement to
//! the entries of delivered verdicts. Whether a statement has changed is a comparison of facts: that of the evaluation, and those
//! that the same template makes from the present statement about the same record.

use crate::crosscheck::ApprovedVerdict;
use crate::rules_gate::{examine, texts};
use domain_base::digest::Sha256Hex;
use domain_base::event::{EntryMembers, Event, EventClass, EventNotice, read_open};
use domain_base::row::{IndexEntry, KeyedRow, Row, RowData, Table, check_row, not_indexed};
use domain_base::session_id::SessionId;
use domain_ground::id::SourceId;
use domain_ground::ontology::template::ParsedFactTemplate;
use domain_ground::record::RecordContent;
use domain_rules::event::{FactOriginEntry, FactsFromEntry, RulesEntry};
use domain_rules::references::StatementReference;
use domain_rules::registry::RuleCheckType;
use domain_rules::{
    CandidateCheck, CandidateSpan, ComparisonResult, EvidenceFinding, EvidenceOutput, FactSet, RuleSettings,
    RuleVerdict, RulesEvaluation,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};

/// The name of the index.
pub const STATEMENTS: &str = "statements";
/// Ends a part of a name. No part but the last one has it.
const END: char = '\t';
/// The start of the names of verdicts whose statements are not known. No id of a source begins with it.
const UNKNOWN: char = '?';
/// The maximum length of a quoted claim, in characters.
const CLAIM_MAX_CHARS: usize = 200;

/// How far the verdicts that runs of a source touch were reported to applications.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecallProgress {
    pub oracle_id: SourceId,
    /// The number of the last run whose verdicts were all reported; 0 before the first.
    pub run: u32,
}

impl Row for RecallProgress {
    type Key = SourceId;
    const TABLE: &'static Table = &Table {
        name: "recall_progress",
        bundle: None,
        data: RowData::Impersonal,
        is_new_work: false,
        names_files: false,
        finds_entries: false,
        upgrades: &[],
        check: check_row::<Self>,
        indexes: &[],
        index: not_indexed,
    };

    fn index(&self) -> Vec<IndexEntry> {
        Vec::new()
    }
}

impl KeyedRow for RecallProgress {
    fn key(&self) -> SourceId {
        self.oracle_id.clone()
    }
}

/// A statement as verdicts relied on it: the name of entries in the index.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReliedStatement {
    pub record_id: String,
    /// The time that was asked about; `None` for the present.
    pub point_in_time: Option<Timestamp>,
    pub part: StatementPart,
}

/// The part of a record that a verdict relied on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum StatementPart {
    /// The fact with this digest, made by a template.
    Fact { template_id: String, sha256: String },
    /// The value of an axis, in a verification.
    Axis(String),
}

impl ReliedStatement {
    /// The statements of `reference`: one, or one for each of its axes.
    pub fn of(reference: &StatementReference) -> impl Iterator<Item = Self> {
        let StatementReference { record_id, template_id, fact_sha256, axes, point_in_time, .. } = reference;
        let fact = template_id.as_ref().zip(fact_sha256.as_ref()).map(|(template_id, sha256)| {
            let (template_id, sha256) = (template_id.to_string(), sha256.to_string());
            StatementPart::Fact { template_id, sha256 }
        });
        let axes = axes.iter().cloned().map(StatementPart::Axis);
        fact.into_iter().chain(axes).map(|part| Self {
            record_id: record_id.clone(),
            point_in_time: *point_in_time,
            part,
        })
    }

    /// The start of the names of all statements of a source, or of one of its records.
    #[must_use]
    pub fn prefix(oracle_id: &SourceId, record_id: Option<&str>) -> String {
        let record = record_id.map(|record_id| format!("{record_id}{END}")).unwrap_or_default();
        format!("{oracle_id}{END}{record}")
    }

    /// Its name in the index.
    #[must_use]
    pub fn name(&self, oracle_id: &SourceId) -> String {
        let time = self.point_in_time.map(|time| time.to_string()).unwrap_or_default();
        let (kind, part) = match &self.part {
            StatementPart::Fact { template_id, sha256 } => (template_id.as_str(), sha256),
            StatementPart::Axis(axis) => ("", axis),
        };
        format!("{}{time}{END}{kind}{END}{part}", Self::prefix(oracle_id, Some(&self.record_id)))
    }

    /// Reads what [`ReliedStatement::name`] wrote.
    #[must_use]
    pub fn read(name: &str) -> Option<Self> {
        let mut parts = name.splitn(5, END).skip(1);
        let (record_id, time, kind, part) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let point_in_time = if time.is_empty() { None } else { Some(time.parse().ok()?) };
        let part = match kind {
            "" => StatementPart::Axis(part.to_owned()),
            template_id => {
                StatementPart::Fact { template_id: template_id.to_owned(), sha256: part.to_owned() }
            }
        };
        Some(Self { record_id: record_id.to_owned(), point_in_time, part })
    }
}

/// Why the statements that a verdict relied on are not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownCause {
    /// The entry does not list all of them.
    NotListed,
    /// The values of the entry were erased.
    Erased,
    /// The entry cannot be read.
    Damaged,
}

impl UnknownCause {
    const fn as_str(self) -> &'static str {
        match self {
            Self::NotListed => "not_listed",
            Self::Erased => "erased",
            Self::Damaged => "damaged",
        }
    }

    /// The name in the index of the verdicts whose statements of a source are not known. Without a source, it may be any.
    #[must_use]
    pub fn name(self, oracle_id: Option<&SourceId>) -> String {
        format!("{UNKNOWN}{}{END}{}", oracle_id.map(SourceId::as_str).unwrap_or_default(), self.as_str())
    }
}

/// The references of an entry `rules_evaluated`.
#[derive(Debug, PartialEq, Eq)]
pub struct LoggedReferences {
    pub seq: u64,
    pub session_id: SessionId,
    /// The digest of the evaluation; `None` if it is erased.
    pub sha256: Option<Sha256Hex>,
    /// Whether the rules passed.
    pub is_passed: bool,
    /// The names in the index under which the entry is found.
    pub names: BTreeSet<String>,
}

impl LoggedReferences {
    /// The references of the entry with this line; `None` if it has no session.
    ///
    /// # Errors
    /// The line is no entry `rules_evaluated`.
    pub fn read(line: &str) -> Result<Option<Self>, serde_json::Error> {
        #[derive(Deserialize)]
        struct EvaluationMembers {
            seq: u64,
            #[serde(default, deserialize_with = "read_open")]
            session_id: Option<SessionId>,
            verdict: RuleVerdict,
            facts_from: Option<Box<RawValue>>,
            #[serde(default, deserialize_with = "read_open")]
            evaluation_sha256: Option<Sha256Hex>,
        }
        let EvaluationMembers { seq, session_id, verdict, facts_from, evaluation_sha256: sha256 } =
            serde_json::from_str(line)?;
        let Some(session_id) = session_id else { return Ok(None) };
        let names = match facts_from {
            None => BTreeSet::new(),
            // an erased value has its hash in its place
            Some(facts_from) => match serde_json::from_str::<FactsFromEntry>(facts_from.get()) {
                Ok(facts_from) => names_of(&facts_from),
                Err(_) => BTreeSet::from([UnknownCause::Erased.name(None)]),
            },
        };
        Ok(Some(Self { seq, session_id, sha256, is_passed: verdict == RuleVerdict::Pass, names }))
    }

    /// Whether it may be the evaluation with this digest: not if both are known and differ.
    #[must_use]
    pub fn may_be(&self, sha256: Option<&Sha256Hex>) -> bool {
        self.sha256.as_ref().zip(sha256).is_none_or(|(own, other)| own == other)
    }
}

fn names_of(facts_from: &FactsFromEntry) -> BTreeSet<String> {
    let FactsFromEntry { origins, origins_omitted, relied_on, relied_on_omitted, .. } = facts_from;
    let mut names = BTreeSet::new();
    for reference in relied_on.iter().flatten() {
        names.extend(ReliedStatement::of(reference).map(|statement| statement.name(&reference.oracle_id)));
    }
    if relied_on.is_some() && *relied_on_omitted == 0 {
        return names;
    }
    let unknown = UnknownCause::NotListed;
    for origin in origins {
        names.insert(match origin {
            FactOriginEntry::Record(record) => unknown.name(Some(&record.oracle_id)),
            FactOriginEntry::Verification { .. } => unknown.name(None),
        });
    }
    if *origins_omitted > 0 {
        names.insert(unknown.name(None));
    }
    names
}

/// The present facts about a record in place of earlier facts of a template. Of a template with a group, these are the facts about
/// the same keys, if the earlier content is known.
#[must_use]
pub fn present_facts(
    template: &ParsedFactTemplate<'_>,
    texts: &BTreeSet<&str>,
    before: Option<&RecordContent>,
    now: Option<&RecordContent>,
) -> Vec<String> {
    // a fact that is too long now is no fact
    let render =
        |content: &RecordContent| template.render(&content.axes, &content.definitions).unwrap_or_default();
    let before = before.map(render).unwrap_or_default();
    let stated = || before.iter().filter(|fact| texts.contains(fact.text.as_str()));
    let is_known = stated().next().is_some();
    let now = now.map(render).unwrap_or_default().into_iter();
    let about_same = now.filter(|fact| !is_known || stated().any(|before| before.paths == fact.paths));
    about_same.map(|fact| fact.text).collect()
}

/// The result of the same rules with the present facts, in ascending order of gravity.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
    utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum RecallResult {
    /// The present facts support it.
    StillSupported,
    /// The rules were not applied again.
    NotEvaluated,
    /// No present fact supports it.
    NoLongerSupported,
    /// The nearest present fact states another value.
    NowContradicted,
}

/// Why there is no result.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr, utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum NotEvaluatedCause {
    /// The text of the verdict, or its facts, are not stored.
    TextNotStored,
    /// The facts are from a verification, which is a decision over several sources.
    Verification,
    /// The content of a fact was pruned, so it is not known whether the source states it now.
    ContentPruned,
    /// A rule could not be applied.
    RuleError,
    /// The rules were applied again, but their evidence has no part about a claim: there is too much of it, or the rules list none for
    /// such a claim.
    NoEvidence,
}

/// A delivered verdict that relied on a statement that has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RecalledVerdict {
    /// The session.
    pub session_id: SessionId,
    /// The number of the entry `rules_evaluated` of the verdict.
    pub entry: u64,
    /// The time of the evaluation.
    pub evaluated_at: Timestamp,
    /// The gravest result of its claims.
    pub result: RecallResult,
    /// With `not_evaluated`: the cause.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(nullable = false)]
    pub cause: Option<NotEvaluatedCause>,
    /// The combined verdict of the same rules with the present facts; null if they were not applied again.
    pub rules_verdict: Option<RuleVerdict>,
    /// The statements that have changed.
    pub statements: Vec<RecalledStatement>,
}

/// A statement that has changed since a verdict relied on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RecalledStatement {
    /// The reference of the evaluation.
    #[serde(flatten)]
    pub reference: StatementReference,
    /// The fact of the evaluation; null if it is not stored.
    pub then: Option<String>,
    /// The present facts in place of it; empty if the source makes no such statement now.
    pub now: Vec<String>,
    /// The version of the source that makes the present statement; null if there is none.
    pub now_version: Option<String>,
    /// The claims that it supported, with their results.
    pub checked: Vec<RecalledClaim>,
}

/// A claim that relied on a statement that has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RecalledClaim {
    /// The location in the verdict.
    pub claim: CandidateSpan,
    /// The text of the claim, cut to 200 characters.
    pub text: String,
    /// The result.
    pub result: RecallResult,
}

/// A verdict as it was delivered, with its check and the entry of its evaluation.
#[derive(Debug)]
pub struct EvaluatedVerdict<'v> {
    pub approved: ApprovedVerdict,
    pub check: &'v CandidateCheck,
    pub entry: &'v RulesEntry,
}

impl EvaluatedVerdict<'_> {
    /// Applies the rules of the evaluation to the verdict again, with the facts of `replaced` in place of those with these indexes.
    /// Adds the results of claims to `statements`.
    #[must_use]
    pub fn examine_again(
        self,
        replaced: &BTreeMap<u32, Vec<String>>,
        statements: &mut [RecalledStatement],
    ) -> (RecallResult, RuleVerdict) {
        let Self { approved, check, entry } = self;
        let texts: BTreeMap<_, _> = texts(&approved).into_iter().collect();
        let rules = Some(entry.rules.iter().map(|rule| rule.rule).collect());
        let check = CandidateCheck { rules, ..with_replaced_facts(check, replaced) };
        let facts = FactSet::compile(&check.facts);
        let evaluation = examine(approved, &check, &facts, &RuleSettings::default()).evaluation;
        let mut gravest = match evaluation.verdict {
            RuleVerdict::Pass => RecallResult::StillSupported,
            RuleVerdict::Error => RecallResult::NotEvaluated,
            // the claims determine how grave it is, if the rules name any
            RuleVerdict::Fail
                if statements.iter().any(|statement| !statement.reference.claims.is_empty()) =>
            {
                RecallResult::StillSupported
            }
            RuleVerdict::Fail => RecallResult::NoLongerSupported,
        };
        for statement in statements {
            for claim in &statement.reference.claims {
                let text = claim.field.as_deref().and_then(|field| texts.get(field));
                let text = text.and_then(|text| text.get(claim.start..claim.end)).unwrap_or_default();
                let text = text.trim().chars().take(CLAIM_MAX_CHARS).collect();
                let result = match result_of(claim, &evaluation) {
                    // a fact about something else does not contradict what its source has withdrawn
                    RecallResult::NowContradicted if statement.now.is_empty() => {
                        RecallResult::NoLongerSupported
                    }
                    result => result,
                };
                gravest = gravest.max(result);
                statement.checked.push(RecalledClaim { claim: claim.clone(), text, result });
            }
        }
        (gravest, evaluation.verdict)
    }
}

/// `check` with the facts of `replaced` in place of those with these indexes. The origins of facts are left out.
#[must_use]
pub fn with_replaced_facts(check: &CandidateCheck, replaced: &BTreeMap<u32, Vec<String>>) -> CandidateCheck {
    let mut facts = Vec::with_capacity(check.facts.len());
    for (index, fact) in (0..).zip(&check.facts) {
        match replaced.get(&index) {
            Some(present) => facts.extend(present.iter().cloned()),
            None => facts.push(fact.clone()),
        }
    }
    CandidateCheck { facts, facts_from: Vec::new(), ..check.clone() }
}

/// The result of a claim. With other facts, a sentence can be read as several claims.
fn result_of(claim: &CandidateSpan, evaluation: &RulesEvaluation) -> RecallResult {
    let overlaps =
        |span: &CandidateSpan| span.field == claim.field && span.start < claim.end && claim.start < span.end;
    let names_facts =
        evaluation.rules.iter().filter(|result| result.rule.rule().check_type == RuleCheckType::PatternMatch);
    let steps = names_facts.flat_map(|result| &result.evidence).map(|step| &step.output);
    let result = |output: &EvidenceOutput| {
        let differs = |output: &EvidenceOutput| {
            output.comparisons.iter().any(|compared| compared.result == ComparisonResult::Different)
        };
        match output.finding {
            EvidenceFinding::Supported => RecallResult::StillSupported,
            _ if differs(output) => RecallResult::NowContradicted,
            _ => RecallResult::NoLongerSupported,
        }
    };
    let of_claim = steps.filter(|output| output.span.as_ref().is_some_and(overlaps));
    of_claim.map(result).max().unwrap_or(RecallResult::NotEvaluated)
}

/// A run changed a statement that a delivered verdict relied on. The verdict stays as it is. It is logged for applications with
/// `recall = "notify"`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct VerdictRecalled {
    /// The source.
    pub oracle_id: SourceId,
    /// The run.
    pub run_id: Sha256Hex,
    /// The number of the entry `rules_evaluated` of the verdict.
    pub evaluation: u64,
    /// The result of the same rules with the present facts.
    pub result: RecallResult,
    /// Whether a notice to the customer was drafted; absent if none was.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub notice_drafted: bool,
}

impl Event for VerdictRecalled {
    const NAME: &'static str = "verdict_recalled";
    const ERASABLE: &'static [&'static str] = &["evaluation", "result"];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = true;

    fn summary(entry: EntryMembers<'_>) -> String {
        let drafted = if entry.is_true("notice_drafted") { ", notice drafted" } else { "" };
        format!("{} by run {}{drafted}", entry.words(&["result", "oracle_id"]), entry.text("run_id"))
    }

    fn notice(&self, session_id: Option<&SessionId>) -> Option<EventNotice> {
        let Self { oracle_id, run_id, result, .. } = self;
        let data = json!({ "oracle_id": oracle_id, "run_id": run_id, "result": result });
        Some(EventNotice::to_application(session_id?, "verdict.recalled", data))
    }
}

/// The verdicts that relied on statements that a run changed were reported to the applications with `recall = "notify"`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RunRecalled {
    /// The source.
    pub oracle_id: SourceId,
    /// The run.
    pub run_id: Sha256Hex,
    /// The number of delivered verdicts that it touches, those of other applications included.
    pub verdicts: u64,
}

impl Event for RunRecalled {
    const NAME: &'static str = "run_recalled";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = true;

    fn summary(entry: EntryMembers<'_>) -> String {
        format!(
            "{}: {}",
            entry.words(&["oracle_id", "run_id"]),
            entry.count("verdicts", "verdict", "verdicts")
        )
    }
}

/// Whether a value or its definition differs in both contents.
#[must_use]
pub fn differs_on(axis: &str, before: Option<&RecordContent>, now: Option<&RecordContent>) -> bool {
    let stated = |content: Option<&RecordContent>| {
        let content = content?;
        Some((content.axes.get(axis).cloned(), content.definitions.get(axis).cloned()))
    };
    before.is_none() || stated(before) != stated(now)
}

/// Whether one of `facts` has this digest.
#[must_use]
pub fn has_fact(facts: &[String], sha256: &str) -> bool {
    facts.iter().any(|fact| Sha256Hex::of(fact.as_bytes()).as_str() == sha256)
}

#[cfg(test)]
mod tests;
