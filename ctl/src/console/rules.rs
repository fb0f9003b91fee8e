//! A text checked against facts: its claims are colored by the result.

use super::catalog::read_sources;
use super::facts::read_filters;
use super::forms::Fields;
use super::layout::{PageError, PageHead, PageResult, Section, page as render_page};
use super::parts::{Tone, badge, card, icon, message, table_card};
use super::{Console, ConsoleState};
use crate::ground::documents::list_documents;
use crate::rules::check::format_target;
use axum::extract::State;
use domain_base::document::Document;
use domain_base::text_form::is_blank;
use domain_base::wording::format_count;
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
    let body = card("Check a text", &html! {}, &html! { div.body { (form) } });
    Ok(render_page(&console, Section::Rules, head(None), &body).await)
}

pub(super) async fn check(State(console): State<ConsoleState>, fields: Fields) -> PageResult {
    let sources = read_sources(&console).await?;
    let evaluated = evaluate(&console, &sources, &fields).await;
    let form = render_form(&sources, &read_wordlists(&console).await?, &fields);
    let (sub, result) = match &evaluated {
        Ok(evaluation) => {
            (Some(render_result(evaluation)), render_evaluation(fields.text("text"), evaluation))
        }
        Err(error) => (None, error.render()),
    };
    let body = html! {
        div.split {
            div { (result) }
            div { (card("Check a text", &html! {}, &html! { div.body { (form) } })) }
        }
    };
    Ok(render_page(&console, Section::Rules, head(sub), &body).await)
}

fn head(sub: Option<Markup>) -> PageHead {
    let actions = Some(html! { a.btn href="/what-if" { "What if" } });
    PageHead { sub, actions, ..PageHead::titled("Rules") }
}

/// The names of the registered word lists.
async fn read_wordlists(console: &Console) -> Result<Vec<String>, PageError> {
    let lists = list_documents(&console.options, Wordlist::TYPE.into()).await?;
    Ok(lists.into_iter().map(|list| list.document_id).collect())
}

fn render_form(sources: &[SourceSummary], wordlists: &[String], fields: &Fields) -> Markup {
    html! {
        form.action method="post" action="/rules" {
            label.f { "Text" textarea #text name="text" rows="6" required { (fields.text("text")) } }
            label.f { "Facts, one on a line" textarea name="facts" rows="6" { (fields.text("facts")) } }
            label.f {
                "Facts from a source"
                select name="source" {
                    option value="" { "none" }
                    @for source in sources {
                        @let id = source.entry.oracle_id().as_str();
                        option value=(id) selected[fields.text("source") == id] { (id) }
                    }
                }
            }
            label.f {
                "Filters on its records, one on a line, such as area=ABW"
                textarea name="filters" rows="2" { (fields.text("filters")) }
            }
            label.f {
                "Rules"
                select name="rules" {
                    option value="" { "configured profile" }
                    @let supported = RuleId::Prec013.into_str();
                    option value=(supported) selected[fields.text("rules") == supported] { "supported claims (" (supported) ")" }
                }
            }
            label.f {
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
                label.f {
                    "Word list"
                    select name="wordlist" {
                        option value="" { "none" }
                        @for list in wordlists {
                            option value=(list) selected[fields.text("wordlist") == list] { (list) }
                        }
                    }
                }
            }
            button.btn.primary type="submit" { "Check the text " kbd { "Ctrl Enter" } }
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
        let source = source.ok_or_else(|| PageError::input(format!("no source has the id {oracle_id}")))?;
        let axes = source.entry.registration.axes_provided.clone();
        let filters = read_filters(console, source, fields).await?;
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
    /// Whether a rule found a violation, or a fact differs, and not only that no fact supports it.
    is_contradicted: bool,
    /// Its comparisons with the fact that supports it, or with the nearest one.
    comparisons: Vec<ClaimComparison>,
}

impl RangeFinding {
    /// The tone with its word.
    fn state(&self) -> (Tone, &'static str) {
        match (self.faults.is_empty(), self.is_contradicted) {
            (true, _) => (Tone::Ok, "supported"),
            (false, true) => (Tone::Refused, "contradicted"),
            (false, false) => (Tone::Waiting, "no fact"),
        }
    }
}

/// The result in words.
fn render_result(evaluation: &RulesEvaluation) -> Markup {
    let tone = if evaluation.verdict == RuleVerdict::Pass { Tone::Ok } else { Tone::Refused };
    let metrics = &evaluation.metrics;
    html! {
        (badge(tone, evaluation.verdict.into_str()))
        span { (format_count(metrics.rules, "rule", "rules")) } span { (format_count(metrics.facts, "fact", "facts")) }
        span { (format_count(metrics.claims, "claim", "claims")) ", " (metrics.unsupported_claims) " unsupported" }
        @if !evaluation.language.is_default() { span { "language " (<&str>::from(evaluation.language)) } }
        @if let Some(wordlist) = &evaluation.wordlist { span { "word list " (wordlist) } }
        @if evaluation.derive { span { "with calculations" } }
    }
}

fn render_evaluation(text: &str, evaluation: &RulesEvaluation) -> Markup {
    let ranges = find_ranges(text, evaluation);
    let causes = evaluation.rules.iter().filter_map(|rule| Some((rule.rule, rule.cause.as_ref()?)));
    let legend = html! {
        ul.legend {
            li { span.claim.ok { "supported" } } li { span.claim.refused { "contradicted" } } li { span.claim.waiting { "no fact" } }
            li { "unmarked: no rule examined it" }
        }
    };
    html! {
        @for (rule, cause) in causes { (message(Tone::Refused, &html! { (rule.into_str()) ": " (cause) })) }
        (card("The text", &legend, &html! { div.body { p.text { (mark_ranges(text, &ranges)) } } }))
        @if !ranges.is_empty() {
            (card("Evidence", &html! { span.count.neutral { (ranges.len()) } }, &html! {
                ol { @for (number, ((start, end), finding)) in ranges.iter().enumerate() { (render_finding(number + 1, text.get(*start..*end), finding)) } }
            }))
        }
        (render_rules(&evaluation.rules))
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
                finding.is_contradicted |=
                    step.output.comparisons.iter().any(|compared| compared.result.is_fault());
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
        // a rule that looks for support contradicts a claim only by a comparison with a fact
        let seeks_support =
            rule.evidence.iter().any(|step| step.output.finding == EvidenceFinding::Unsupported);
        for violation in &rule.violations {
            for span in violation.span.iter().chain(&violation.related) {
                if text.get(span.start..span.end).is_some() {
                    let fault = format!("{}: {}", rule.rule.into_str(), violation.message);
                    let finding = ranges.entry((span.start, span.end)).or_default();
                    finding.faults.insert(fault);
                    finding.is_contradicted |= !seeks_support;
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

/// The text with its examined ranges marked, each with the number of its evidence. Where ranges overlap, a fault counts more than
/// support.
fn mark_ranges(text: &str, ranges: &BTreeMap<(usize, usize), RangeFinding>) -> Markup {
    let mut cuts: BTreeSet<usize> = ranges.keys().flat_map(|(start, end)| [*start, *end]).collect();
    cuts.extend([0, text.len()]);
    let cuts: Vec<_> = cuts.into_iter().collect();
    html! {
        @for pair in cuts.windows(2) {
            @if let [start, end] = *pair {
                @let inside = ranges.iter().enumerate().filter(|(_, ((from, to), _))| *from <= start && end <= *to);
                @let part = text.get(start..end).unwrap_or_default();
                @match inside.min_by_key(|(_, (_, finding))| (finding.faults.is_empty(), !finding.is_contradicted)) {
                    Some((number, ((_, to), finding))) => {
                        a.claim.(finding.state().0.name()) href=(format!("#c{}", number + 1)) { (part) @if end == *to { sup { (number + 1) } } }
                    },
                    None => (part),
                }
            }
        }
    }
}

fn render_finding(number: usize, text: Option<&str>, finding: &RangeFinding) -> Markup {
    let (tone, word) = finding.state();
    html! {
        li.ev #(format!("c{number}")) {
            span.no.(tone.name()) { (number) }
            div.in {
                p.ttl { span { "“" (text.unwrap_or_default()) "”" } (badge(tone, word)) }
                @if !finding.comparisons.is_empty() { (render_comparisons(&finding.comparisons)) }
                @for fault in &finding.faults { p.miss.(tone.name()) { (icon(tone.name())) span { (fault) } } }
                @for support in &finding.support { p.xs.muted { (support) } }
            }
        }
    }
}

/// The comparisons of a claim with a fact, as a table.
fn render_comparisons(comparisons: &[ClaimComparison]) -> Markup {
    html! {
        div.cmp role="table" aria-label="Comparison with the fact" {
            div.cr.heads role="row" { @for name in ["compared", "in the text", "in the fact", "result"] { span.h role="columnheader" { (name) } } }
            @for ClaimComparison { aspect, claim, fact, result } in comparisons {
                @let (aspect, word): (&str, &str) = (aspect.into(), result.into());
                @let tone = if result.is_fault() { Tone::Refused } else { Tone::Ok };
                div.cr role="row" {
                    span.l.nm.muted role="cell" { (aspect) }
                    span.l.a role="cell" { (claim) }
                    span.l.b role="cell" { (fact) }
                    span.l.res.(tone.name()) role="cell" { (icon(tone.name())) (word) }
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
    let rows: Vec<_> = failed.map(row).collect();
    if rows.is_empty() {
        html! {}
    } else {
        table_card("Rules that do not pass", &["rule", "result", "violations"], &rows)
    }
}
