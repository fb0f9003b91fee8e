//! `oraclectl rules check`.

use super::RulesCommandError;
use crate::base::error::CtlError;
use crate::base::input::{read_facts, read_facts_from, read_text, regular_file_parser};
use crate::base::options::GlobalOptions;
use crate::base::output::{OutputStyle, format_pairs, shorten_line, table_text};
use clap::builder::PossibleValuesParser;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use domain_base::text_form::{visible_json, visible_line};
use domain_base::wording::format_count;
use domain_ground::version_name::{WordlistName, WordlistRef};
use domain_rules::sourced::{FactQueryTarget, FactSource, SourcedFact, SourcedFactOrigin};
use domain_rules::{
    CandidateSpan, ClaimComparison, EvidenceFinding, RuleEvidence, RuleId, RuleResult, RuleVerdict,
    RuleViolation, TextLanguage,
};
use hyper::Method;
use oracled_api::client::ClientError;
use serde::Deserialize;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::io::{self, Write};
use std::path::PathBuf;
use strum::VariantArray;

/// Maximum number of complaints shown; the rest are counted.
const COMPLAINTS_MAX: usize = 1_000;

/// Check a text against facts, and show the violations
#[derive(Debug, clap::Args)]
pub(crate) struct RulesCheckArgs {
    /// The text; `-` reads standard input
    file: PathBuf,

    /// The facts, one per line; blank lines are skipped
    #[arg(long, value_name = "FILE", value_parser = regular_file_parser(), required_unless_present = "facts_from")]
    facts: Option<PathBuf>,

    /// Sources of facts: a list of {"query": …} and {"verify": …}, as in `facts_from` of a request
    #[arg(long, value_name = "FILE.json", value_parser = regular_file_parser())]
    facts_from: Option<PathBuf>,

    /// Rules to apply instead of the configured profile
    #[arg(long, value_name = "ID,…", value_delimiter = ',')]
    rules: Option<Vec<RuleId>>,

    /// Accept claims that state a sum, a difference or a percentage change of two facts (RULE-PREC-013)
    #[arg(long)]
    derive: bool,

    /// The language of the text and the facts, for RULE-PREC-013 [default: that of the word list, or en]
    #[arg(long, value_name = "LANGUAGE", value_parser = PossibleValuesParser::new(TextLanguage::VARIANTS.iter().map(<&str>::from)))]
    language: Option<String>,

    /// A registered word list, for RULE-PREC-013; without a version, the newest
    #[arg(long, value_name = "ID[@VERSION]")]
    wordlist: Option<WordlistName>,
}

impl RulesCheckArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let text = read_text(&self.file)?;
        let facts = self.facts.as_deref().map(read_facts).transpose()?;
        let mut request = json!({"candidate_output": text});
        let more = [
            ("facts", facts.as_ref().map(|facts| json!(facts))),
            ("facts_from", self.facts_from.as_deref().map(read_facts_from).transpose()?),
            ("rules", self.rules.as_ref().map(|rules| json!(rules))),
            ("derive", self.derive.then_some(json!(true))),
            ("language", self.language.as_ref().map(|language| json!(language))),
            ("wordlist", self.wordlist.as_ref().map(|list| json!(list))),
        ];
        for (name, value) in more {
            if let (Some(value), Some(members)) = (value, request.as_object_mut()) {
                members.insert(name.into(), value);
            }
        }
        let body = Some(request.to_string().into());
        let answer = options.call_routes(Method::POST, "/v1/rules/evaluate", body).await?;
        let evaluated: EvaluationSummary = answer.json()?;
        let shown = if options.json {
            writeln!(out, "{}", visible_json(&String::from_utf8_lossy(&answer.body))).map_err(CtlError::from)
        } else {
            let facts = facts.unwrap_or_default();
            let checked = CheckedText { text: &text, facts: &facts };
            show(out, &evaluated, &answer.json()?, checked, OutputStyle::for_stdout())
        };
        // the exit status is the verdict, even if printing fails
        if evaluated.verdict == RuleVerdict::Pass { shown } else { Err(RulesCommandError::NoPass.into()) }
    }
}

/// Prints the complaints of `evaluation`, the evaluation of a verdict's fields.
pub(crate) fn show_verdict_evaluation(out: &mut dyn Write, evaluation: &Value) -> Result<(), CtlError> {
    let unreadable = |error: serde_json::Error| ClientError::Unreadable(error.to_string());
    let evaluated = EvaluationSummary::deserialize(evaluation).map_err(unreadable)?;
    let sourced = SourcedEvaluation::deserialize(evaluation).map_err(unreadable)?;
    show(out, &evaluated, &sourced, CheckedText::default(), OutputStyle::for_stdout())
}

/// The checked text and its facts, as far as they are known.
#[derive(Debug, Default, Clone, Copy)]
struct CheckedText<'t> {
    text: &'t str,
    /// The facts that come before those of sources.
    facts: &'t [String],
}

/// Prints the complaints of `evaluated` about `checked`, and its claims with their facts.
fn show(
    out: &mut dyn Write,
    evaluated: &EvaluationSummary,
    sourced: &SourcedEvaluation,
    checked: CheckedText<'_>,
    look: OutputStyle,
) -> Result<(), CtlError> {
    writeln!(out, "{}", summarize(evaluated))?;
    if let Some(wordlist) = &sourced.wordlist {
        writeln!(out, "read with word list {wordlist}")?;
    }
    let complaints = merge_messages(&evaluated.collect_messages(|_| true));
    if !complaints.is_empty() {
        let (shown, omitted) = complaints.split_at(complaints.len().min(COMPLAINTS_MAX));
        let mut table = ComplaintTable::new(&[], look);
        table.add_complaints(&[], shown, omitted.len() as u64, None);
        writeln!(out)?;
        table.write(out)?;
    }
    sourced.show_claims(out, checked, look)?;
    sourced.show_sources(out)
}

fn summarize(evaluated: &EvaluationSummary) -> String {
    let of = |verdict| evaluated.with_verdict(verdict).count() as u64;
    let counts: Vec<_> = [
        (of(RuleVerdict::Fail), "fails", "fail"),
        (of(RuleVerdict::Error), "ends in ERROR", "end in ERROR"),
        (of(RuleVerdict::Pass), "passes", "pass"),
    ]
    .into_iter()
    .filter(|(number, ..)| *number > 0)
    .map(|(number, one, several)| format_count(number, &format!("rule {one}"), &format!("rules {several}")))
    .collect();
    format!("{}: {}", evaluated.verdict.into_str(), counts.join(", "))
}

/// Maximum number of claims shown; the rest are counted.
const SHOWN_MAX: usize = 100;
/// Maximum length of a claim or a fact, in characters.
const TEXT_MAX_CHARS: usize = 200;

/// The parts of an evaluation that are shown.
#[derive(Deserialize)]
struct SourcedEvaluation {
    #[serde(default)]
    facts_from: Vec<FactSource>,
    rules: Vec<RuleResult>,
    wordlist: Option<WordlistRef>,
}

/// A claim, and the fact that supports it or is the nearest one.
struct ShownClaim<'s> {
    claim: &'s str,
    step: &'s RuleEvidence,
    /// The fact, if a source returned it.
    sourced: Option<(&'s SourcedFact, &'s SourcedFactOrigin)>,
}

impl SourcedEvaluation {
    /// Prints each claim with the fact that supports it or is the nearest one, its origin, and their comparisons.
    fn show_claims(
        &self,
        out: &mut dyn Write,
        checked: CheckedText<'_>,
        look: OutputStyle,
    ) -> Result<(), CtlError> {
        let claims = self.find_claims(checked.text);
        for ShownClaim { claim, step, sourced } in claims.iter().take(SHOWN_MAX) {
            let is_supported = step.output.finding == EvidenceFinding::Supported;
            let fact = sourced.map_or(&step.input.with, |(fact, _)| &fact.text);
            let shown = |text: &str| shorten_line(text, TEXT_MAX_CHARS);
            let name = if is_supported { "fact" } else { "nearest fact" };
            let mut rows = vec![("claim", shown(claim)), (name, shown(fact))];
            rows.extend(sourced.iter().flat_map(|(_, origin)| origin_rows(origin)));
            if let Some(second) = step.output.derived_with {
                let origin = self.find_fact(second);
                rows.push(("second fact", shown(&self.fact_text(second, checked.facts))));
                rows.extend(origin.iter().flat_map(|(_, origin)| origin_rows(origin)));
            }
            writeln!(out, "\n{}", format_pairs(&rows).trim_end())?;
            let comparisons = &step.output.comparisons;
            if !comparisons.is_empty() {
                writeln!(out, "{}", table_text(&comparison_table(comparisons, look)))?;
            }
        }
        if let Some(more @ 1..) = claims.len().checked_sub(SHOWN_MAX) {
            let more = format_count(more, "more claim is", "more claims are");
            writeln!(out, "\n{more} not shown; --json has all that are listed")?;
        }
        Ok(())
    }

    /// Prints the number of facts from each source, and its warnings.
    fn show_sources(&self, out: &mut dyn Write) -> Result<(), CtlError> {
        for (index, FactSource { facts, asked: target, warnings, .. }) in self.facts_from.iter().enumerate() {
            let before = if index == 0 { "\n" } else { "" };
            let target = format_target(target);
            writeln!(
                out,
                "{before}facts_from[{index}]: {} from {target}",
                format_count(*facts, "fact", "facts")
            )?;
            for warning in warnings {
                writeln!(out, "warning: {}", visible_line(warning))?;
            }
        }
        Ok(())
    }

    /// The claims with a fact that was compared with them or comes from a source, each once, even if several rules have
    /// them. Comparisons come first.
    fn find_claims<'s>(&'s self, text: &'s str) -> Vec<ShownClaim<'s>> {
        let mut seen = BTreeSet::new();
        let steps = || self.rules.iter().flat_map(|applied| &applied.evidence);
        let compares = |step: &&RuleEvidence| step.rule == RuleId::Prec013;
        steps()
            .filter(compares)
            .chain(steps().filter(|step| !compares(step)))
            .filter_map(|step| {
                let sourced = step.output.fact.and_then(|fact| self.find_fact(fact));
                let is_shown = match step.output.finding {
                    EvidenceFinding::Supported => sourced.is_some() || compares(&step),
                    EvidenceFinding::Unsupported => !step.output.comparisons.is_empty(),
                    _ => false,
                };
                let claim = claim_text(step, text);
                (is_shown && seen.insert((claim, step.output.fact))).then_some(ShownClaim {
                    claim,
                    step,
                    sourced,
                })
            })
            .collect()
    }

    /// The text of the fact with this number.
    fn fact_text<'s>(&'s self, number: u32, facts: &'s [String]) -> Cow<'s, str> {
        let given = usize::try_from(number).ok().and_then(|number| facts.get(number));
        let text = given.or_else(|| self.find_fact(number).map(|(fact, _)| &fact.text));
        text.map_or_else(|| format!("number {number}, counted from 0").into(), |text| text.as_str().into())
    }

    /// The fact with this number, if a source returned it.
    fn find_fact(&self, number: u32) -> Option<(&SourcedFact, &SourcedFactOrigin)> {
        let mut origins = self.facts_from.iter().flat_map(|source| &source.origins);
        origins.find_map(|origin| {
            let fact = origin.facts.iter().find(|fact| fact.fact == number)?;
            Some((fact, &origin.origin))
        })
    }
}

/// The comparisons of a claim with a fact, in colors.
fn comparison_table(comparisons: &[ClaimComparison], look: OutputStyle) -> Table {
    let mut table = look.table(&["compared", "in the text", "in the fact", "result"], &[0, 3]);
    for column in [1, 2] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Left);
        }
    }
    for ClaimComparison { aspect, claim, fact, result } in comparisons {
        let (aspect, word): (&str, &str) = (aspect.into(), result.into());
        table.add_row([
            aspect.to_owned(),
            visible_line(claim).into_owned(),
            visible_line(fact).into_owned(),
            look.paint(word, !result.is_fault()),
        ]);
    }
    table
}

/// The source or the workflow of facts.
pub(crate) fn format_target(target: &FactQueryTarget) -> String {
    match target {
        FactQueryTarget::Query(oracle_id) => format!("source {oracle_id}"),
        FactQueryTarget::Verify(workflow_id) => format!("workflow {workflow_id}"),
    }
}

/// The claim that a step is about: the text of its span in `text`, or, for a verdict's field, the compared text.
fn claim_text<'s>(step: &'s RuleEvidence, text: &'s str) -> &'s str {
    let span = step.output.span.as_ref().filter(|span| span.field.is_none());
    let excerpt = span.and_then(|span| text.get(span.start..span.end));
    excerpt.unwrap_or(&step.input.text).trim()
}

fn origin_rows(origin: &SourcedFactOrigin) -> Vec<(&'static str, String)> {
    let stale = |stale: bool| if stale { ", stale" } else { "" };
    match origin {
        SourcedFactOrigin::Record(record) => {
            let (source, tier) = (&record.oracle_id, record.oracle_tier.into_str());
            let text = format!("{source}, {tier}, version {}{}", record.source_version, stale(record.stale));
            vec![("source", text), ("record", record.record_id.clone())]
        }
        SourcedFactOrigin::Verification(decision) => {
            let mut rows = vec![("decision", format!("{}{}", decision.execution_id, stale(decision.stale)))];
            for (axis, records) in &decision.records {
                rows.extend(records.iter().map(|record| {
                    let version =
                        record.source_version.as_ref().map(|version| format!(", version {version}"));
                    let (source, tier) = (&record.oracle_id, record.oracle_tier.into_str());
                    ("source", format!("{source}, {tier}{}: {axis}", version.unwrap_or_default()))
                }));
            }
            rows
        }
    }
}

/// Maximum length of a shown message, in characters.
const MESSAGE_MAX_CHARS: usize = 500;
/// Maximum length of the shown offending words, in characters.
const WORDS_MAX_CHARS: usize = 1_000;

/// One complaint about a text. Control characters in foreign text are escaped.
#[derive(Debug, PartialEq, Eq)]
pub struct RuleComplaint {
    /// The rules with this complaint, or a problem code.
    pub about: Vec<String>,
    pub message: String,
    /// The offending words, at most 1,000 characters.
    pub words: Option<String>,
}

impl RuleComplaint {
    pub fn new(about: &str, message: &str) -> Self {
        Self {
            about: vec![visible_line(about).into_owned()],
            message: shorten_line(message, MESSAGE_MAX_CHARS),
            words: None,
        }
    }
}

/// The parts of an evaluation that are shown.
#[derive(Deserialize)]
pub struct EvaluationSummary {
    pub verdict: RuleVerdict,
    pub rules: Vec<AppliedRule>,
}

#[derive(Deserialize)]
pub struct AppliedRule {
    pub rule: RuleId,
    verdict: RuleVerdict,
    cause: Option<String>,
    violations: Vec<RuleViolation>,
    violations_omitted: u64,
}

impl EvaluationSummary {
    /// The rules with this verdict.
    pub fn with_verdict(&self, verdict: RuleVerdict) -> impl Iterator<Item = &AppliedRule> {
        self.rules.iter().filter(move |applied| applied.verdict == verdict)
    }

    /// The causes of the rules with `ERROR`, and the violations of the failing rules that `is_told` accepts.
    pub fn collect_messages(&self, is_included: impl Fn(RuleId) -> bool) -> Vec<RuleMessage<'_>> {
        let causes = self.with_verdict(RuleVerdict::Error).map(|AppliedRule { rule, cause, .. }| {
            RuleMessage::new(
                *rule,
                format!("the rule could not be evaluated: {}", cause.as_deref().unwrap_or_default()),
            )
        });
        let failing = self.with_verdict(RuleVerdict::Fail).filter(|applied| is_included(applied.rule));
        causes.chain(failing.flat_map(AppliedRule::violations)).collect()
    }
}

impl AppliedRule {
    fn violations(&self) -> impl Iterator<Item = RuleMessage<'_>> {
        let omitted = self.violations_omitted;
        let rest = (omitted > 0).then(|| format_count(omitted, "more violation", "more violations"));
        let rest = rest.map(|rest| RuleMessage::new(self.rule, rest));
        let message = |violation| RuleMessage {
            violation: Some(violation),
            ..RuleMessage::new(self.rule, &violation.message)
        };
        self.violations.iter().map(message).chain(rest)
    }
}

/// A message of one rule.
pub struct RuleMessage<'a> {
    rule: RuleId,
    message: Cow<'a, str>,
    violation: Option<&'a RuleViolation>,
}

impl<'a> RuleMessage<'a> {
    pub fn new(rule: RuleId, message: impl Into<Cow<'a, str>>) -> Self {
        Self { rule, message: message.into(), violation: None }
    }

    /// The key that is equal for two rules with the same message about the same span.
    fn grouping_key(&self) -> impl Eq + std::hash::Hash + use<'a> {
        let stretch = |span: &'a CandidateSpan| (span.field.as_deref(), span.start, span.end);
        let violation = self.violation.map(|RuleViolation { span, related, text, .. }| {
            (span.as_ref().map(stretch), related.as_ref().map(stretch), text.as_str())
        });
        (self.message.clone(), violation)
    }

    fn to_complaint(&self) -> RuleComplaint {
        let mut complaint = RuleComplaint::new(self.rule.into_str(), &self.message);
        if let Some(RuleViolation { span, related, text, .. }) = self.violation {
            complaint.words = Some(shorten_line(text, WORDS_MAX_CHARS));
            let mut spans: Vec<_> = span.iter().chain(related).collect();
            spans.sort_by_key(|span| span.start);
            let mut fields: Vec<_> = spans.iter().filter_map(|span| span.field.as_deref()).collect();
            fields.dedup();
            if !fields.is_empty() {
                complaint.message += &visible_line(&format!(" (in {})", fields.join(", ")));
            }
        }
        complaint
    }
}

/// The complaints. Several rules with the same message about the same words give one complaint.
pub fn merge_messages(messages: &[RuleMessage<'_>]) -> Vec<RuleComplaint> {
    let (mut complaints, mut indexes) = (Vec::<RuleComplaint>::new(), HashMap::new());
    for message in messages {
        let index = *indexes.entry(message.grouping_key()).or_insert(complaints.len());
        match complaints.get_mut(index) {
            Some(RuleComplaint { about, .. }) => about.push(message.rule.to_string()),
            None => complaints.push(message.to_complaint()),
        }
    }
    complaints
}

/// Maximum length of each column before the complaints on a terminal, in characters.
const NAME_MAX_CHARS: [usize; 2] = [24, 16];
/// The same without a terminal.
const WHOLE_NAME_MAX_CHARS: usize = 255;
/// Maximum length of the offending words on a terminal, in characters.
const TABLE_WORDS_MAX_CHARS: usize = 120;
/// Maximum length of a note on a terminal, in characters.
const NOTE_MAX_CHARS: usize = 200;

/// The table, row by row.
pub struct ComplaintTable {
    table: Table,
    look: OutputStyle,
    /// Number of columns before the complaints.
    names: usize,
}

impl ComplaintTable {
    /// An empty table with these columns before the complaints.
    pub fn new(names: &[&str], look: OutputStyle) -> Self {
        let header = [names, &["rule", "complaint"]].concat();
        let last = header.len() - 1;
        let mut table = look.table(&header, &(0..last).collect::<Vec<_>>());
        if look.is_whole {
            table.set_content_arrangement(ContentArrangement::Disabled);
        }
        if let Some(column) = table.column_mut(last) {
            column.set_cell_alignment(CellAlignment::Left);
        }
        Self { table, look, names: names.len() }
    }

    /// Adds a row for each complaint, for the number of omitted ones, and for the note. The first row begins
    /// with `names`.
    pub fn add_complaints(
        &mut self,
        names: &[&str],
        complaints: &[RuleComplaint],
        omitted: u64,
        note: Option<&str>,
    ) {
        let limits = NAME_MAX_CHARS.map(|max| if self.look.is_whole { WHOLE_NAME_MAX_CHARS } else { max });
        let shown = names.iter().zip(limits).map(|(name, max)| shorten_line(name, max));
        let mut names: Vec<String> = shown.take(self.names).collect();
        let rows = complaints.iter().map(|complaint| self.complaint_row(complaint));
        let more = (omitted > 0).then(|| [String::new(), format!("{omitted} more")]);
        let note = note.map(|note| [String::new(), self.note_text(note)]);
        for row in rows.chain(more).chain(note).collect::<Vec<_>>() {
            self.table.add_row(names.iter().cloned().chain(row));
            names.iter_mut().for_each(String::clear);
        }
    }

    fn complaint_row(&self, RuleComplaint { about, message, words }: &RuleComplaint) -> [String; 2] {
        // on a terminal the rules are listed vertically, since width is scarce
        let between = if self.look.is_whole { ", " } else { ",\n" };
        let words = words.as_ref().map(|words| {
            let words =
                if self.look.is_whole { words.clone() } else { shorten_line(words, TABLE_WORDS_MAX_CHARS) };
            format!("\n»{words}«")
        });
        [about.join(between), format!("{message}{}", words.unwrap_or_default())]
    }

    fn note_text(&self, note: &str) -> String {
        let note = if self.look.is_whole { note.to_owned() } else { shorten_line(note, NOTE_MAX_CHARS) };
        format!("note: {note}")
    }

    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}", table_text(&self.table))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn complaint_texts(rules: &Value) -> Vec<(String, String, String)> {
        let evaluated: EvaluationSummary =
            serde_json::from_value(json!({"verdict": "FAIL", "rules": rules})).expect("a valid evaluation");
        let texts = |RuleComplaint { about, message, words }: RuleComplaint| {
            (about.join(" "), message, words.unwrap_or_default())
        };
        merge_messages(&evaluated.collect_messages(|_| true)).into_iter().map(texts).collect()
    }

    fn applied(rule: &str, verdict: &str, violations: &[Value], omitted: u64) -> Value {
        let cause = (verdict == "ERROR").then_some("the pattern is blank");
        json!({
            "rule": rule, "verdict": verdict, "cause": cause, "violations": violations,
            "violations_omitted": omitted,
        })
    }

    fn violation(message: &str, span: &Value, related: &Value) -> Value {
        json!({"invariant": "Q-INV-01", "message": message, "text": "bad", "span": span, "related": related})
    }

    fn owned_texts(complaints: &[(&str, &str, &str)]) -> Vec<(String, String, String)> {
        complaints.iter().map(|(a, b, c)| ((*a).to_owned(), (*b).to_owned(), (*c).to_owned())).collect()
    }

    #[test]
    fn equal_messages_about_one_span_are_one_complaint() {
        let at = |start: usize| violation("no", &json!({"start": start, "end": start + 3}), &Value::Null);
        let other = violation("not so", &json!({"start": 0, "end": 3}), &Value::Null);
        let pair = violation("no", &json!({"start": 0, "end": 3}), &json!({"start": 4, "end": 7}));
        let missing = violation("no", &Value::Null, &Value::Null);
        let rules = json!([
            applied("RULE-PREC-001", "FAIL", &[at(0), at(4)], 2),
            applied("RULE-PREC-002", "FAIL", &[missing], 0),
            applied("RULE-PREC-003", "PASS", &[], 0),
            applied("RULE-PREC-004", "FAIL", &[at(4), at(0), other], 2),
            applied("RULE-CONT-001", "ERROR", &[], 0),
            applied("RULE-CONT-002", "ERROR", &[], 0),
            applied("RULE-CONT-003", "FAIL", &[pair], 3),
        ]);
        assert_eq!(
            complaint_texts(&rules),
            owned_texts(&[
                ("RULE-CONT-001 RULE-CONT-002", "the rule could not be evaluated: the pattern is blank", ""),
                ("RULE-PREC-001 RULE-PREC-004", "no", "bad"),
                ("RULE-PREC-001 RULE-PREC-004", "no", "bad"),
                ("RULE-PREC-001 RULE-PREC-004", "2 more violations", ""),
                ("RULE-PREC-002", "no", "bad"),
                ("RULE-PREC-004", "not so", "bad"),
                ("RULE-CONT-003", "no", "bad"),
                ("RULE-CONT-003", "3 more violations", ""),
            ])
        );
    }

    #[test]
    fn complaint_about_a_verdict_names_its_fields() {
        let at = |field: &str| json!({"field": field, "start": 0, "end": 3});
        let rules = json!([
            applied("RULE-PREC-001", "FAIL", &[violation("no", &at("summary"), &Value::Null)], 0),
            applied("RULE-PREC-004", "FAIL", &[violation("no", &at("b\u{1b}"), &Value::Null)], 0),
            applied("RULE-CONT-001", "FAIL", &[violation("no", &at("summary"), &at("x.analysis"))], 0),
            applied("RULE-CONT-002", "FAIL", &[violation("no", &at("summary"), &at("summary"))], 0),
        ]);
        assert_eq!(
            complaint_texts(&rules),
            owned_texts(&[
                ("RULE-PREC-001", "no (in summary)", "bad"),
                ("RULE-PREC-004", "no (in b\\u{1b})", "bad"),
                ("RULE-CONT-001", "no (in summary, x.analysis)", "bad"),
                ("RULE-CONT-002", "no (in summary)", "bad"),
            ])
        );
    }

    fn shown(look: OutputStyle) -> String {
        let mut complaint = RuleComplaint::new("RULE-PREC-001", "no fact supports this claim");
        complaint.about.push("RULE-PREC-004".into());
        complaint.words = Some("word ".repeat(60));
        let mut table = ComplaintTable::new(&["case"], look);
        table.add_complaints(&[&"x".repeat(60)], &[complaint], 3, Some(&"note ".repeat(60)));
        let mut out = Vec::new();
        table.write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn table_fits_the_terminal_width() {
        for width in [60, 80, 100] {
            let text = shown(OutputStyle::new(width, false));
            assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{text}");
            for part in ["xxx…", "RULE-PREC-001, ", "RULE-PREC-004 ", "…«", "3 more", "note: note"] {
                assert!(text.contains(part), "{part}: {text}");
            }
        }
    }

    #[test]
    fn table_without_a_terminal_is_neither_cut_nor_wrapped() {
        let text = shown(OutputStyle { is_whole: true, ..OutputStyle::new(60, false) });
        for part in [
            &"x".repeat(60),
            "RULE-PREC-001, RULE-PREC-004  no fact supports this claim",
            &"word ".repeat(60),
            "3 more",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(text.contains(&format!("note: {}", "note ".repeat(60).trim_end())), "{text}");
    }
}
