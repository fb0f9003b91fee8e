//! Complaints: the violations and errors of an evaluation, as text for people.

use crate::base::output::shorten_line;
use crate::base::output_style::{OutputStyle, table_text};
use comfy_table::{CellAlignment, ContentArrangement, Table};
use domain_base::visible::visible_line;
use domain_rules::{CandidateSpan, RuleId, RuleVerdict, RuleViolation};
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Write};

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
        let rest = (omitted > 0).then(|| RuleMessage::new(self.rule, format!("{omitted} more violations")));
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
