//! Backtest: the decisions of the log that another policy, other rules or another day's facts would change.

use super::chart::{BarRow, bars};
use super::forms::Fields;
use super::layout::{PageError, PageHead, PageResult, Section, page as render_page};
use super::parts::{
    Tone, badge, card, group_digits, group_in_text, message, session_link, table, with_code, words,
};
use super::{Console, ConsoleState};
use crate::audit::log::SinceTime;
use crate::verdict::what_if::{EXAMPLES_SHOWN, calculate as send, describe, describe_further};
use axum::extract::State;
use domain_base::wording::format_count;
use domain_rules::RuleId;
use domain_verdict::label::ProductTier;
use domain_verdict::what_if::{GateOutcome, WhatIfCause, WhatIfReport, WhatIfRequest, WhatIfTransition};
use maud::{Markup, html};

pub(super) async fn page(State(console): State<ConsoleState>, fields: Fields) -> PageResult {
    render(&console, &fields, &html! {}).await
}

pub(super) async fn calculate(State(console): State<ConsoleState>, fields: Fields) -> PageResult {
    let result = match read_report(&console, &fields).await {
        Ok(report) => render_report(&report),
        Err(error) => error.render(),
    };
    render(&console, &fields, &result).await
}

async fn render(console: &Console, fields: &Fields, result: &Markup) -> PageResult {
    let form = html! { div.body { (render_form(fields)) } };
    let body = html! { (result) (card("Decisions of the log, calculated again", &html! {}, &form)) };
    let head = PageHead::below("/rules", "Rules", "What if");
    Ok(render_page(console, Section::Rules, head, &body).await)
}

fn render_form(fields: &Fields) -> Markup {
    html! {
        form.action method="post" action="/what-if" {
            label.f {
                "Policy: a configuration file with [gate]"
                textarea name="gate" rows="6" placeholder="[gate]\nhold = [\"verdict_conflict\"]" { (fields.text("gate")) }
                span.hint { "Empty: the policy of the configuration." }
            }
            label.f {
                "Rules in place of those of each request with facts, separated by commas"
                input type="text" name="rules" value=(fields.text("rules")) placeholder=(RuleId::Prec013) autocomplete="off";
            }
            label.f {
                "Word list in place of that of each request with facts"
                input type="text" name="wordlist" value=(fields.text("wordlist")) autocomplete="off";
            }
            label.f {
                "Facts that sources stated as of a day, or a period ago"
                input type="text" name="facts_as_of" value=(fields.text("facts_as_of")) placeholder="2026-11-20" autocomplete="off";
            }
            label.f {
                "Since a day, or a period ago"
                input type="text" name="since" value=(fields.text("since")) placeholder="90d" autocomplete="off";
            }
            label.f {
                "Tier"
                select name="tier" {
                    option value="" { "all" }
                    @for tier in ProductTier::ALL {
                        option value=(tier) selected[fields.text("tier") == tier.into_str()] { (tier) }
                    }
                }
            }
            button.btn.primary type="submit" { "Calculate" }
        }
    }
}

async fn read_report(console: &Console, fields: &Fields) -> Result<WhatIfReport, PageError> {
    let rule = |id: &str| id.trim().parse().map_err(|error| PageError::input(format!("`Rules`: {error}")));
    let rules = fields.filled("rules").map(|ids| ids.split(',').map(rule).collect::<Result<_, _>>());
    let request = WhatIfRequest {
        gate: fields.filled("gate").map(str::to_owned),
        rules: rules.transpose()?,
        wordlist: fields.parsed("wordlist", "Word list")?,
        facts_as_of: fields.parsed("facts_as_of", "Facts")?.map(SinceTime::to_timestamp),
        since: fields.parsed("since", "Since")?.map(SinceTime::to_timestamp),
        tier: fields.parsed("tier", "Tier")?,
    };
    Ok(send(&console.options, &request, |_| {}).await?)
}

const fn tone(outcome: GateOutcome) -> Tone {
    match outcome {
        GateOutcome::Approved => Tone::Ok,
        GateOutcome::Held => Tone::Held,
        GateOutcome::Refused | GateOutcome::Failed | GateOutcome::Rejected => Tone::Refused,
    }
}

fn render_report(report: &WhatIfReport) -> Markup {
    let lines = describe(report);
    let changed = || report.transitions.iter().filter(|transition| transition.then != transition.now);
    let (said, missing) = lines.split_at_checked(2).unwrap_or_default();
    let rows: Vec<_> = report.transitions.iter().map(bar).collect();
    let table_rows: Vec<_> = changed().flat_map(example_rows).collect();
    let heading = ["then", "now", "session", "causes", "#entry"];
    let further: Vec<_> = changed().filter_map(describe_further).collect();
    html! {
        (card("Result", &html! { span.count.neutral { (group_digits(&report.changed.to_string())) } }, &html! {
            div.body {
                @for line in said { p { (group_in_text(line)) "." } }
                @for line in missing { (message(Tone::Held, &html! { (group_in_text(line)) })) }
                (bars(&rows))
            }
        }))
        @if report.changed > 0 {
            (card("Examples of decisions that change", &html! {}, &html! {
                (table("Decisions that change", &heading, &table_rows))
                @if !further.is_empty() { div.body { @for text in &further { p.note { (with_code(text)) } } } }
            }))
        }
    }
}

/// The bar of a transition: its share of the calculated decisions, in the tone of the result now.
fn bar(transition: &WhatIfTransition) -> BarRow {
    let WhatIfTransition { then, now, decisions, percent, .. } = transition;
    let name = match then == now {
        true => format!("{} as before", words(now.into_str())),
        false => format!("{} → {}", then.into_str(), now.into_str()),
    };
    let shown = if then == now { Tone::Neutral } else { tone(*now) };
    let causes: Vec<_> = transition.causes.iter().map(describe_cause).collect();
    let causes = causes.join(", ");
    BarRow {
        name,
        parts: vec![(shown, percent / 100.0)],
        text: group_digits(&decisions.to_string()),
        note: Some(if causes.is_empty() {
            format!("{percent:.2} %")
        } else {
            format!("{percent:.2} %: {causes}")
        }),
    }
}

/// A flag, a rule or a minimum in words. The dimension of a flag is in parentheses.
fn cause_words(cause: &str) -> String {
    match cause.split_once(':') {
        Some((flag, place)) => format!("{} ({})", words(flag), words(place)),
        None => words(cause),
    }
}

/// A cause with the number of its decisions.
fn describe_cause(WhatIfCause { cause, decisions, claims }: &WhatIfCause) -> String {
    let cause = cause_words(cause);
    match claims {
        0 => format!("{cause} {decisions}"),
        claims => format!("{cause} {decisions} ({})", format_count(claims, "claim", "claims")),
    }
}

fn example_rows(transition: &WhatIfTransition) -> Vec<Vec<Markup>> {
    let outcome = |outcome: GateOutcome| badge(tone(outcome), outcome.into_str());
    let rows = transition.examples.iter().take(EXAMPLES_SHOWN).map(|example| {
        vec![
            outcome(transition.then),
            outcome(transition.now),
            session_link(example.session_id.as_str()),
            html! { (example.causes.iter().map(|cause| cause_words(cause)).collect::<Vec<_>>().join(", ")) @for claim in &example.claims { p.note { (claim) } } },
            html! { a href=(format!("/log/{}", example.entry)) { (example.entry) } },
        ]
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cause_is_a_flag_in_words_with_its_dimension() {
        assert_eq!(cause_words("empty_analysis:Change Rate"), "empty analysis (Change Rate)");
        assert_eq!(cause_words("RULE-PREC-013"), "RULE-PREC-013");
        let cause = |claims| WhatIfCause { cause: "short_summary".to_owned(), decisions: 3, claims };
        assert_eq!(describe_cause(&cause(0)), "short summary 3");
        assert_eq!(describe_cause(&cause(1)), "short summary 3 (1 claim)");
    }
}
