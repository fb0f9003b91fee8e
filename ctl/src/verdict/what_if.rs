//! `oraclectl what-if`.

use crate::audit::log::SinceTime;
use crate::base::error::CtlError;
use crate::base::input::{read_text, with_style};
use crate::base::options::{GlobalOptions, response_lines};
use crate::base::output::{format_table, print_json, shorten_line};
use crate::base::program::examples;
use domain_base::text_form::visible_text;
use domain_base::wording::format_count;
use domain_ground::version_name::WordlistName;
use domain_rules::RuleId;
use domain_verdict::label::ProductTier;
use domain_verdict::what_if::{
    EXAMPLES_MAX, NotCalculatedCause, WhatIfExample, WhatIfLine, WhatIfProgress, WhatIfReport, WhatIfRequest,
    WhatIfTerms, WhatIfTransition,
};
use hyper::Method;
use indicatif::ProgressBar;
use oracled_api::client::{ClientError, DaemonClient};
use std::io::{self, Write};
use std::path::PathBuf;

/// The most decisions that are shown of each transition.
pub(crate) const EXAMPLES_SHOWN: usize = 5;
/// The maximum length of a claim, in characters.
const CLAIM_MAX_CHARS: usize = 120;

/// Show which decisions of the log would change with another policy, other rules or another day's facts
///
/// The daemon calculates each decision again from stored inputs, and changes nothing. Without --gate, the policy is that of its
/// configuration.
#[derive(Debug, clap::Args)]
#[command(after_help = examples(&["oraclectl what-if --gate new.toml --since 90d", "oraclectl what-if --rules RULE-PREC-013 --tier full", "oraclectl what-if --facts-as-of 2026-03-06"]))]
pub(crate) struct WhatIfArgs {
    /// Configuration file whose tables [gate] and [applications.NAME.gate] are the policy; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    gate: Option<PathBuf>,
    /// Rules in place of those of each request with facts
    #[arg(long, value_name = "ID,…", value_delimiter = ',')]
    rules: Option<Vec<RuleId>>,
    /// Registered word list in place of that of each request with facts
    #[arg(long, value_name = "NAME[@VERSION]")]
    wordlist: Option<WordlistName>,
    /// Facts that sources stated as of a time (2026-11-20T10:00:00Z), or a period ago (7d), about the same records
    #[arg(long, value_name = "TIME")]
    facts_as_of: Option<SinceTime>,
    /// Only decisions since a time (2026-11-20T10:00:00Z), or of the last period (15m, 2h, 90d)
    #[arg(long, value_name = "TIME")]
    since: Option<SinceTime>,
    /// Only verdicts of this tier
    #[arg(long, value_name = "TIER")]
    tier: Option<ProductTier>,
}

impl WhatIfArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let request = WhatIfRequest {
            gate: self.gate.as_deref().map(read_text).transpose()?,
            rules: self.rules.clone(),
            wordlist: self.wordlist.clone(),
            facts_as_of: self.facts_as_of.map(SinceTime::to_timestamp),
            since: self.since.map(SinceTime::to_timestamp),
            tier: self.tier,
        };
        let bar = with_style(ProgressBar::new(0), "{bar:20} {percent:>3}%, {eta} left, {msg}");
        let report = calculate(options, &request, |progress| draw(&bar, progress)).await;
        bar.finish_and_clear();
        let report = report?;
        if options.json {
            return print_json(out, &report);
        }
        writeln!(out, "{}", describe(&report).join("\n"))?;
        if report.transitions.is_empty() {
            return Ok(());
        }
        let heading = ["then", "now", "decisions", "percent", "causes"];
        writeln!(out, "\n{}", format_table(heading, report.transitions.iter().map(row).collect()))?;
        for transition in &report.transitions {
            for example in transition.examples.iter().take(EXAMPLES_SHOWN) {
                writeln!(out, "{}", describe_example(transition, example))?;
            }
            if let Some(further) = describe_further(transition) {
                writeln!(out, "{further}")?;
            }
        }
        Ok(())
    }
}

fn draw(bar: &ProgressBar, progress: WhatIfProgress) {
    let WhatIfProgress { decisions, first_entry, entry, up_to_entry } = progress;
    bar.set_length(up_to_entry.saturating_sub(first_entry));
    bar.set_position(entry.saturating_sub(first_entry));
    bar.set_message(format_count(decisions, "decision", "decisions"));
}

/// Lets the daemon calculate the decisions. `progress` gets how much of the log was read.
pub(crate) async fn calculate(
    options: &GlobalOptions,
    request: &WhatIfRequest,
    mut progress: impl FnMut(WhatIfProgress),
) -> Result<WhatIfReport, CtlError> {
    let body = serde_json::to_vec(request).map_err(io::Error::from)?;
    let mut client = DaemonClient::connect(&options.control_path()?).await?;
    let answer = client.open_without_timeout(Method::POST, "/v1/what-if", body.into()).await?;
    let mut lines = response_lines(answer).await?;
    while let Some(line) = lines.next_line().await? {
        let line = serde_json::from_slice(&line);
        match line.map_err(|error| ClientError::Unreadable(error.to_string()))? {
            WhatIfLine::Progress(read) => progress(read),
            WhatIfLine::Report(report) => return Ok(*report),
        }
    }
    Err(ClientError::Unreadable("the answer has no report".into()).into())
}

/// The terms of the comparison, and the groups of decisions.
pub(crate) fn describe(report: &WhatIfReport) -> Vec<String> {
    let WhatIfReport { up_to_entry, first_entry, now, decisions, from_text, from_flags, changed, .. } =
        report;
    let WhatIfTerms { is_requested_gate, rules, wordlist, facts_as_of, since, tier, .. } = now;
    let tier = tier.map(|tier| format!(" on {tier} verdicts")).unwrap_or_default();
    let since = since.map(|since| format!(" since {since}")).unwrap_or_default();
    let count = format_count(*decisions, "decision", "decisions");
    let gate = if *is_requested_gate { "the given policy" } else { "the policy of the configuration" };
    let rules = rules.as_ref().map(|rules| {
        let rules = rules.iter().map(ToString::to_string).collect::<Vec<_>>();
        format!("the rules {}", rules.join(", "))
    });
    let terms = [
        Some(gate.to_owned()),
        rules,
        wordlist.as_ref().map(|list| format!("the word list {list}")),
        facts_as_of.map(|at| format!("the facts as of {at}")),
    ];
    let terms = terms.into_iter().flatten().collect::<Vec<_>>().join(", ");
    let calculated = from_text + from_flags;
    let percent = if calculated == 0 { 0.0 } else { *changed as f64 / calculated as f64 * 100.0 };
    let mut lines = vec![
        format!("{count}{tier}{since} up to entry {up_to_entry}, with {terms}"),
        format!(
            "{changed} of {calculated} calculated decisions change ({percent:.2} %): {from_text} from stored text, {from_flags} from stored flags"
        ),
    ];
    let not = report.not_calculated.iter().map(|count| {
        let decisions = format_count(count.decisions, "decision", "decisions");
        format!("not possible: {decisions}: {}", explain(count.cause))
    });
    lines.extend(not);
    if report.unreadable_entries > 0 {
        let entries = format_count(report.unreadable_entries, "entry", "entries");
        lines.push(format!(
            "not included: {entries} of the log that cannot be read; see `oraclectl doctor` and `oraclectl verify-log`"
        ));
    }
    if *first_entry > 1 {
        lines.push(format!(
            "not included: decisions before entry {first_entry}, which were dropped from the log"
        ));
    }
    lines
}

const fn explain(cause: NotCalculatedCause) -> &'static str {
    match cause {
        NotCalculatedCause::Erased => "their values were erased from the log",
        NotCalculatedCause::TextNotStored => "the result depends on a text that is not stored",
        NotCalculatedCause::FactsNotStored => "the result depends on facts that are not stored",
        NotCalculatedCause::Verification => {
            "their facts are from a verification, which is a decision over several sources"
        }
        NotCalculatedCause::CutMembers => "rules would check members that were cut from the text",
        NotCalculatedCause::NoRelease => "a source had no release that was ingested by that time",
        NotCalculatedCause::CheckRefused => "a request with these rules or this word list would be refused",
        NotCalculatedCause::Damaged => {
            "an entry, the stored verdict, its session or a source cannot be read; see `oraclectl doctor`"
        }
        NotCalculatedCause::InternalError => "the calculation failed; report this as a bug",
    }
}

/// The number of changed decisions that are not shown, and how to see them; `None` if all are shown.
pub(crate) fn describe_further(transition: &WhatIfTransition) -> Option<String> {
    let WhatIfTransition { then, now, decisions, examples, .. } = transition;
    let further = decisions.saturating_sub(examples.len().min(EXAMPLES_SHOWN) as u64);
    let further = (then != now && further > 0)
        .then(|| format_count(further, "further decision", "further decisions"))?;
    let (then, now) = (then.into_str(), now.into_str());
    Some(format!(
        "{then} → {now}: {further}: `oraclectl what-if --json` lists up to {EXAMPLES_MAX}; use `--since` and `--tier` to select fewer"
    ))
}

/// The causes of changed decisions, each with its number.
pub(crate) fn describe_causes(transition: &WhatIfTransition) -> String {
    let causes = transition.causes.iter().map(|cause| {
        let claims = if cause.claims == 0 {
            String::new()
        } else {
            format!(" ({})", format_count(cause.claims, "claim", "claims"))
        };
        format!("{} {}{claims}", cause.cause, cause.decisions)
    });
    causes.collect::<Vec<_>>().join(", ")
}

fn row(transition: &WhatIfTransition) -> [String; 5] {
    let WhatIfTransition { then, now, decisions, percent, .. } = transition;
    let causes = if then == now { "no change".to_owned() } else { describe_causes(transition) };
    [
        then.into_str().to_owned(),
        now.into_str().to_owned(),
        decisions.to_string(),
        format!("{percent:.2}"),
        causes,
    ]
}

fn describe_example(transition: &WhatIfTransition, example: &WhatIfExample) -> String {
    let WhatIfTransition { then, now, .. } = transition;
    let WhatIfExample { session_id, entry, causes, claims } = example;
    let (then, now, causes) = (then.into_str(), now.into_str(), causes.join(", "));
    let claim =
        |claim: &String| format!("\n    claim: {}", shorten_line(&visible_text(claim), CLAIM_MAX_CHARS));
    let claims: String = claims.iter().map(claim).collect();
    format!("{then} → {now}: session {session_id}, entry {entry}: {causes}{claims}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain_verdict::what_if::GateOutcome;

    #[test]
    fn further_decisions_are_counted_with_the_way_to_see_them() {
        let example = |entry| WhatIfExample {
            session_id: "cs_1".parse().expect("a valid id"),
            entry,
            causes: Vec::new(),
            claims: Vec::new(),
        };
        let further = |now, examples: u64| {
            describe_further(&WhatIfTransition {
                then: GateOutcome::Approved,
                now,
                decisions: examples,
                percent: 1.0,
                causes: Vec::new(),
                examples: (0..examples).map(example).collect(),
            })
        };
        assert_eq!(further(GateOutcome::Held, 5), None);
        assert_eq!(further(GateOutcome::Approved, 9), None);
        let further = further(GateOutcome::Held, 7).expect("two are not shown");
        assert!(
            further.starts_with("approved → held: 2 further decisions: `oraclectl what-if --json`"),
            "{further}"
        );
    }
}
