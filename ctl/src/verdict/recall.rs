//! `oraclectl recall`.

use crate::audit::log::SinceTime;
use crate::base::error::CtlError;
use crate::base::options::{GlobalOptions, encode_segment, id_parser, limit_parser};
use crate::base::output::{print_json, shorten_line, warn_of_omitted_rows};
use crate::base::program::examples;
use domain_base::text_form::visible_text;
use domain_base::wording::format_count;
use domain_rules::references::RECORD_LOCATOR;
use domain_verdict::recall::{RecalledClaim, RecalledStatement, RecalledVerdict};
use domain_verdict::wire::{RecallResponse, UnknownReliance};
use hyper::Method;
use std::io::Write;

/// The most verdicts in an answer.
const VERDICTS_MAX: usize = 1000;
/// The maximum length of a fact or a claim, in characters.
const TEXT_MAX_CHARS: usize = 160;

/// List the delivered verdicts that relied on statements of a source that differ now
///
/// For each verdict it shows the statements then and now, and the result of the same rules with the present facts. Nothing that was
/// delivered is changed.
#[derive(Debug, clap::Args)]
#[command(after_help = examples(&["oraclectl recall --source world-bank --run 3f2a9c01", "oraclectl recall --source world-bank --since 7d"]))]
pub(crate) struct RecallArgs {
    /// Source of the statements
    #[arg(long, value_name = "SOURCE", value_parser = id_parser())]
    source: String,
    #[command(flatten)]
    scope: RecallScopeArgs,
    /// Only verdicts after this entry of the log
    #[arg(long, value_name = "ENTRY")]
    after: Option<u64>,
    /// Maximum number of verdicts, up to 1000 [default: 20]
    #[arg(short = 'n', long, value_name = "N", value_parser = limit_parser(VERDICTS_MAX))]
    limit: Option<usize>,
}

#[derive(Debug, clap::Args)]
#[group(multiple = false)]
struct RecallScopeArgs {
    /// Only records that this run changed: the run's id, or 8 or more of its first digits
    #[arg(long, value_name = "RUN", value_parser = id_parser())]
    run: Option<String>,
    /// Only the record with this id, or this locator (urn:oracled:record:ID)
    #[arg(long, value_name = "ID", value_parser = id_parser())]
    record: Option<String>,
    /// Only records that runs changed since a time (2026-11-20T10:00:00Z), or in the last period (15m, 2h, 7d)
    #[arg(long, value_name = "TIME")]
    since: Option<SinceTime>,
}

impl RecallArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let RecallScopeArgs { run, record, since } = &self.scope;
        let params = [
            ("run", run.clone()),
            ("record", record.as_deref().map(|id| id.strip_prefix(RECORD_LOCATOR).unwrap_or(id).to_owned())),
            ("since", since.as_ref().map(|since| since.to_timestamp().to_string())),
            ("after", self.after.map(|after| after.to_string())),
            ("limit", self.limit.map(|limit| limit.to_string())),
        ];
        let answer = read_recall(options, &self.source, &params).await?;
        if options.json {
            return print_json(out, &answer);
        }
        writeln!(out, "{}", describe(&answer))?;
        for line in describe_omissions(&answer) {
            writeln!(out, "{line}")?;
        }
        for verdict in &answer.verdicts {
            writeln!(out, "\n{}", describe_verdict(verdict))?;
        }
        if let Some(next) = &answer.next {
            warn_of_omitted_rows(Some(next));
        }
        Ok(())
    }
}

/// Reads the verdicts that relied on statements of `source`, with these parameters.
pub(crate) async fn read_recall(
    options: &GlobalOptions,
    source: &str,
    params: &[(&str, Option<String>)],
) -> Result<RecallResponse, CtlError> {
    let param = |(name, value): &(&str, Option<String>)| {
        value.as_ref().map(|value| format!("&{name}={}", encode_segment(value)))
    };
    let params: String = params.iter().filter_map(param).collect();
    let path = format!("/v1/recalls?oracle_id={}{params}", encode_segment(source));
    Ok(options.call_control(Method::GET, &path, None).await?.json()?)
}

/// The number of verdicts, and as of when.
pub(crate) fn describe(answer: &RecallResponse) -> String {
    let RecallResponse { oracle_id, source_version, up_to_entry, total, .. } = answer;
    let version =
        source_version.as_deref().map(|version| format!(" as of version {version}")).unwrap_or_default();
    let relied = if *total == 1 { "relies" } else { "rely" };
    let count = format_count(*total, "delivered verdict", "delivered verdicts");
    format!(
        "{count} {relied} on statements of {oracle_id} that differ now{version}, up to entry {up_to_entry}"
    )
}

/// The causes for which verdicts may be missing, a line each.
pub(crate) fn describe_omissions(answer: &RecallResponse) -> Vec<String> {
    let RecallResponse { up_to_entry, last_entry, first_entry, off, unknown, .. } = answer;
    let mut lines = Vec::new();
    if answer.is_behind() {
        lines.push(format!(
            "perhaps more: entries {} to {last_entry} of the log are not included yet; ask again",
            up_to_entry + 1
        ));
    }
    if *off > 0 {
        let count = format_count(*off, "verdict", "verdicts");
        lines.push(format!("not listed: {count} of applications with `recall = \"off\"`"));
    }
    if *first_entry > 1 {
        lines.push(format!("not included: verdicts that were evaluated before entry {first_entry}, which were dropped from the log"));
    }
    let UnknownReliance { not_listed, erased, damaged, pruned } = *unknown;
    let causes = [
        (not_listed, "they relied on more statements than their entries list"),
        (erased, "the values of their entries were erased"),
        (pruned, "the content of their statements was pruned"),
    ];
    for (count, cause) in causes.into_iter().filter(|(count, _)| *count > 0) {
        let count = format_count(count, "verdict", "verdicts");
        lines.push(format!("perhaps more: it is not known on what {count} relied: {cause}"));
    }
    if damaged > 0 {
        let count = format_count(damaged, "entry or verdict", "entries or verdicts");
        lines.push(format!(
            "perhaps more: {count} cannot be read; see `oraclectl doctor` and `oraclectl verify-log`"
        ));
    }
    lines
}

/// A verdict with its statements then and now.
pub(super) fn describe_verdict(verdict: &RecalledVerdict) -> String {
    let RecalledVerdict { session_id, entry, evaluated_at, result, cause, statements, .. } = verdict;
    let result: &str = result.into();
    let cause: Option<&str> = cause.as_ref().map(Into::into);
    let cause = cause.map(|cause| format!(" ({})", cause.replace('_', " "))).unwrap_or_default();
    let head =
        format!("session {session_id}: {}{cause}, entry {entry} of {evaluated_at}", result.replace('_', " "));
    let statements = statements.iter().map(describe_statement);
    [head].into_iter().chain(statements).collect::<Vec<_>>().join("\n")
}

fn describe_statement(statement: &RecalledStatement) -> String {
    let RecalledStatement { reference, then, now, now_version, checked } = statement;
    let short = |text: &str| shorten_line(&visible_text(text), TEXT_MAX_CHARS);
    let then = then.as_deref().map_or_else(|| "not stored".to_owned(), short);
    let now = match now.first() {
        None => "no such statement".to_owned(),
        Some(_) => now.iter().map(|fact| short(fact)).collect::<Vec<_>>().join("; "),
    };
    let version = |version: &Option<String>| {
        version.as_deref().map(|version| format!(" ({version})")).unwrap_or_default()
    };
    let mut lines = vec![
        format!("  record {}", reference.record_id),
        format!("    then{}: {then}", version(&reference.source_version)),
        format!("    now{}: {now}", version(now_version)),
    ];
    for RecalledClaim { claim, text, result } in checked {
        let result: &str = result.into();
        let field = claim.field.as_deref().unwrap_or("text");
        lines.push(format!("    claim in {field}: {}: {}", short(text), result.replace('_', " ")));
    }
    lines.join("\n")
}
