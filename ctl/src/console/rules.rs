//! A text checked against facts: its claims are colored by the result.

use super::layout::{PageError, PageResult, Section, page as render_page, table};
use super::{Console, ConsoleState};
use crate::console::layout::Fields;
use crate::console::source::{read_filters, read_sources};
use crate::ground::documents::list_documents;
use crate::rules::check::format_target;
use axum::extract::State;
use domain_base::document::Document;
use domain_base::text_form::is_blank;
use domain_ground::wire::SourceSummary;
use domain_rules::wordlist::Wordlist;
use domain_rules::{
    ClaimComparison, EvidenceFinding, RuleEvidence, RuleId, RuleResult, RuleVerdict, RulesEvaluation,
    TextLanguage,
};
use hyper::Method;
use maud::{Markup, html};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use strum::VariantArray;

pub(super) async fn page(State(console): State<ConsoleState>, fields: Fields) -> PageResult {
    let form = render_form(&read_sources(&console).await?, &read_wordlists(&console).await?, &fields);
    Ok(render_page(&console, Section::Rules, "Rules", &form))
}

pub(super) async fn check(State(console): State<ConsoleState>, fields: Fields) -> PageResult {
    let sources = read_sources(&console).await?;
    let evaluated = evaluate(&console, &sources, &fields).await;
    let body = html! {
        @match evaluated {
            Ok(evaluation) => (render_evaluation(fields.text("text"), &evaluation)),
            Err(error) => (error.render()),
        }
        (render_form(&sources, &read_wordlists(&console).await?, &fields))
    };
    Ok(render_page(&console, Section::Rules, "Rules", &body))
}

/// The names of the registered word lists.
async fn read_wordlists(console: &Console) -> Result<Vec<String>, PageError> {
    let lists = list_documents(&console.options, Wordlist::TYPE.into()).await?;
    Ok(lists.into_iter().map(|list| list.document_id).collect())
}

fn render_form(sources: &[SourceSummary], wordlists: &[String], fields: &Fields) -> Markup {
    html! {
        form.action method="post" action="/rules" {
            label { "Text" textarea name="text" rows="6" required { (fields.text("text")) } }
            label { "Facts, one on a line" textarea name="facts" rows="6" { (fields.text("facts")) } }
            label {
                "Facts from a source"
                select name="source" {
                    option value="" { "none" }
                    @for source in sources {
                        @let id = source.entry.oracle_id().as_str();
                        option value=(id) selected[fields.text("source") == id] { (id) }
                    }
                }
            }
            label {
                "Filters on its records, one on a line, such as area=ABW"
                textarea name="filters" rows="2" { (fields.text("filters")) }
            }
            label {
                "Rules"
                select name="rules" {
                    option value="" { "configured profile" }
                    @let supported = RuleId::Prec013.into_str();
                    option value=(supported) selected[fields.text("rules") == supported] { "supported claims (" (supported) ")" }
                }
            }
            label {
                "Language"
                select name="language" {
                    option value="" { "that of the word list, or English" }
                    @for language in TextLanguage::VARIANTS.iter().map(<&str>::from) {
                        option value=(language) selected[fields.text("language") == language] { (language) }
                    }
                }
            }
            label.check {
                input type="checkbox" name="derive" value="true" checked[fields.filled("derive").is_some()];
                "Accept sums, differences and percentage changes of two facts"
            }
            @if !wordlists.is_empty() {
                label {
                    "Word list"
                    select name="wordlist" {
                        option value="" { "none" }
                        @for list in wordlists {
                            option value=(list) selected[fields.text("wordlist") == list] { (list) }
                        }
                    }
                }
            }
            button type="submit" { "Check the text" }
        }
    }
}

async fn evaluate(
    console: &Console,
    sources: &[SourceSummary],
    fields: &Fields,
) -> Result<RulesEvaluation, PageError> {
    let facts: Vec<_> = fields.text("facts").lines().filter(|line| !is_blank(line)).collect();
    let mut request = BTreeMap::from([("candidate_output", json!(fields.required("text", "Text")?))]);
    if let Some(oracle_id) = fields.filled("source") {
        let source = sources.iter().find(|source| source.entry.oracle_id().as_str() == oracle_id);
        let axes = source.map(|source| source.entry.registration.axes_provided.clone()).unwrap_or_default();
        let filters = read_filters(fields)?;
        let query = json!({"oracle_id": oracle_id, "request": {"axes_requested": axes, "filters": filters}});
        request.insert("facts_from", json!([{"query": query}]));
    }
    if !facts.is_empty() || !request.contains_key("facts_from") {
        request.insert("facts", json!(facts));
    }
    if let Some(rule) = fields.filled("rules") {
        request.insert("rules", json!([rule]));
    }
    for name in ["language", "wordlist"] {
        if let Some(value) = fields.filled(name) {
            request.insert(name, json!(value));
        }
    }
    if fields.filled("derive").is_some() {
        request.insert("derive", json!(true));
    }
    let body = Some(serde_json::to_vec(&request).map_err(std::io::Error::from)?.into());
    Ok(console.options.call_routes(Method::POST, "/v1/rules/evaluate", body).await?.json()?)
}

/// The findings of the rules about a range of the text.
#[derive(Debug, Default)]
struct RangeFinding {
    /// Facts that support it.
    support: BTreeSet<String>,
    /// Violations and missing support.
    faults: BTreeSet<String>,
    /// Its comparisons with the fact that supports it, or with the nearest one.
    comparisons: Vec<ClaimComparison>,
}

fn render_evaluation(text: &str, evaluation: &RulesEvaluation) -> Markup {
    let ranges = find_ranges(text, evaluation);
    let causes = evaluation.rules.iter().filter_map(|rule| Some((rule.rule, rule.cause.as_ref()?)));
    let rows: Vec<_> =
        ranges.iter().map(|((start, end), finding)| range_row(text.get(*start..*end), finding)).collect();
    let metrics = &evaluation.metrics;
    html! {
        section aria-labelledby="result" {
            h2 #result { "Result: " span.status data-status=(evaluation.verdict.into_str()) { (evaluation.verdict.into_str()) } }
            p {
                (metrics.rules) " rules, " (metrics.facts) " facts, " (metrics.claims) " claims, "
                (metrics.unsupported_claims) " unsupported"
                @if !evaluation.language.is_default() { ", in language " (<&str>::from(evaluation.language)) }
                @if let Some(wordlist) = &evaluation.wordlist { ", with word list " (wordlist) }
                @if evaluation.derive { ", with calculations" }
            }
            p.text { (mark_ranges(text, &ranges)) }
            p.note { mark.supported { "supported" } " " mark.fault { "unsupported or contradicted" } " no mark: no rule examined it" }
            @for (rule, cause) in causes { p.alert { (rule.into_str()) ": " (cause) } }
            (table("Claims with their evidence", &["text", "result", "evidence"], &rows))
            (render_rules(&evaluation.rules))
        }
    }
}

/// The examined ranges of the text, with what was found about each.
fn find_ranges(text: &str, evaluation: &RulesEvaluation) -> BTreeMap<(usize, usize), RangeFinding> {
    let mut ranges: BTreeMap<_, RangeFinding> = BTreeMap::new();
    for rule in &evaluation.rules {
        for step in &rule.evidence {
            let Some(span) = &step.output.span else { continue };
            if text.get(span.start..span.end).is_none() {
                continue;
            }
            if !step.output.comparisons.is_empty() {
                let finding = ranges.entry((span.start, span.end)).or_default();
                finding.comparisons.clone_from(&step.output.comparisons);
                if step.output.finding == EvidenceFinding::Unsupported {
                    finding.support.insert(format!("nearest fact: {}", support_text(step, evaluation)));
                }
            }
            match step.output.finding {
                EvidenceFinding::Supported => {
                    let fact = support_text(step, evaluation);
                    ranges.entry((span.start, span.end)).or_default().support.insert(fact);
                }
                EvidenceFinding::Unsupported => {
                    let fault = format!("{}: no fact supports this claim", rule.rule.into_str());
                    ranges.entry((span.start, span.end)).or_default().faults.insert(fault);
                }
                _ => {}
            }
        }
        for violation in &rule.violations {
            for span in violation.span.iter().chain(&violation.related) {
                if text.get(span.start..span.end).is_some() {
                    let fault = format!("{}: {}", rule.rule.into_str(), violation.message);
                    ranges.entry((span.start, span.end)).or_default().faults.insert(fault);
                }
            }
        }
    }
    ranges
}

/// The fact that supports a claim, with the source that it comes from.
fn support_text(step: &RuleEvidence, evaluation: &RulesEvaluation) -> String {
    let origins = evaluation
        .facts_from
        .iter()
        .flat_map(|source| source.origins.iter().map(move |origin| (source, origin)));
    let of_source = origins.into_iter().find_map(|(source, origin)| {
        let fact = origin.facts.iter().find(|fact| Some(fact.fact) == step.output.fact)?;
        Some(format!("{} ({})", fact.text, format_target(&source.asked)))
    });
    of_source.unwrap_or_else(|| step.input.with.clone())
}

/// The text with its examined ranges marked. Where ranges overlap, a fault counts more than support.
fn mark_ranges(text: &str, ranges: &BTreeMap<(usize, usize), RangeFinding>) -> Markup {
    let mut cuts: BTreeSet<usize> = ranges.keys().flat_map(|(start, end)| [*start, *end]).collect();
    cuts.extend([0, text.len()]);
    let cuts: Vec<_> = cuts.into_iter().collect();
    html! {
        @for pair in cuts.windows(2) {
            @if let [start, end] = *pair {
                @let inside = || ranges.iter().filter(|((from, to), _)| *from <= start && end <= *to);
                @let part = text.get(start..end).unwrap_or_default();
                @if inside().any(|(_, finding)| !finding.faults.is_empty()) { mark.fault { (part) } }
                @else if inside().next().is_some() { mark.supported { (part) } }
                @else { (part) }
            }
        }
    }
}

fn range_row(text: Option<&str>, finding: &RangeFinding) -> Vec<Markup> {
    let word = if finding.faults.is_empty() { "supported" } else { "not supported, or contradicted" };
    let evidence = finding.faults.iter().chain(&finding.support);
    vec![
        html! { (text.unwrap_or_default()) },
        html! { (word) },
        html! {
            ul { @for text in evidence { li { (text) } } }
            @if !finding.comparisons.is_empty() { (comparison_table(&finding.comparisons)) }
        },
    ]
}

/// The comparisons of a claim with a fact, as a table.
fn comparison_table(comparisons: &[ClaimComparison]) -> Markup {
    html! {
        table {
            thead { tr { th { "compared" } th { "in the text" } th { "in the fact" } th { "result" } } }
            tbody {
                @for ClaimComparison { aspect, claim, fact, result } in comparisons {
                    @let (aspect, word): (&str, &str) = (aspect.into(), result.into());
                    tr {
                        td { (aspect) }
                        td { (claim) }
                        td { (fact) }
                        td { @if result.is_fault() { mark.fault { (word) } } @else { mark.supported { (word) } } }
                    }
                }
            }
        }
    }
}

fn render_rules(rules: &[RuleResult]) -> Markup {
    let failed = rules.iter().filter(|rule| rule.verdict != RuleVerdict::Pass);
    let row = |rule: &RuleResult| {
        vec![
            html! { (rule.rule.into_str()) },
            html! { (rule.verdict.into_str()) },
            html! { ul { @for violation in &rule.violations { li { (violation.message) @if !violation.text.is_empty() { ": " q { (violation.text) } } } } } },
        ]
    };
    table("Rules that do not pass", &["rule", "result", "violations"], &failed.map(row).collect::<Vec<_>>())
}
