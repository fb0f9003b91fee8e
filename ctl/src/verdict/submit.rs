//! `oraclectl submit`.

use super::orders::format_report;
use crate::base::error::CtlError;
use crate::base::input::{read_facts, read_facts_from, read_text, regular_file_parser};
use crate::base::options::{GlobalOptions, encode_segment, id_parser};
use crate::base::output::{Output, format_decision, format_pairs, print_json};
use crate::base::program::examples;
use crate::rules::show_verdict_evaluation;
use domain_base::text_form::{visible_json, visible_line};
use domain_verdict::label::ProductTier;
use domain_verdict::order::OrderState;
use domain_verdict::wire::OrderReport;
use hyper::{Method, StatusCode};
use oracled_api::client::DaemonResponse;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;

/// Submit a verdict for delivery; without FILE the daemon requests it from the model
#[derive(Debug, clap::Args)]
#[command(after_help = examples(&["oraclectl submit cs_1 verdict.json --tier full --query 'Does ice float?'", "oraclectl submit cs_1 verdict.json --tier full --query 'Does ice float?' --facts facts.txt", "oraclectl submit cs_1 --tier full --query 'Does ice float?'"]))]
pub(crate) struct SubmitArgs {
    /// Session id
    #[arg(value_parser = id_parser())]
    session_id: String,
    /// The model's text; `-` reads standard input. Without FILE, the daemon requests a verdict from the model
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Tier that the customer bought: quick, full or strategy
    #[arg(long)]
    tier: ProductTier,
    /// Query of the customer
    #[arg(long)]
    query: String,
    /// Address of the customer, for the verdict mail
    #[arg(long, value_name = "ADDRESS")]
    customer_email: Option<String>,
    /// Facts to check the verdict against, one per line; the verdict must also pass the rules
    #[arg(long, value_name = "FILE", value_parser = regular_file_parser())]
    facts: Option<PathBuf>,
    /// Sources of facts to check the verdict against: a list of {"query": …} and {"verify": …}, as in
    /// `facts_from` of a request
    #[arg(long, value_name = "FILE.json", value_parser = regular_file_parser())]
    facts_from: Option<PathBuf>,
}

impl SubmitArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let raw = self.file.as_deref().map(read_text).transpose()?;
        let mut body = json!({"tier": self.tier, "query": self.query});
        let facts = self.facts.as_deref().map(read_facts).transpose()?;
        let more = [
            ("raw", raw.map(Value::from)),
            ("customer_email", self.customer_email.clone().map(Value::from)),
            ("facts", facts.map(Value::from)),
            ("facts_from", self.facts_from.as_deref().map(read_facts_from).transpose()?),
        ];
        for (name, value) in more {
            if let (Some(value), Some(members)) = (value, body.as_object_mut()) {
                members.insert(name.into(), value);
            }
        }
        let path = format!("/v1/verdicts/{}", encode_segment(&self.session_id));
        let answer = options.call_routes(Method::POST, &path, Some(body.to_string().into())).await;
        if let (false, Err(CtlError::Problem { document, .. })) = (options.json, &answer) {
            // a refusal is reported as an error, even if printing its grounds fails
            drop(show_grounds(document, out));
        }
        show_delivered(&answer?, options, out)
    }
}

/// Prints the grounds of a refusal: the decision of the crosscheck, and the evaluation by the rules.
fn show_grounds(document: &Value, out: &mut dyn Write) -> Result<(), CtlError> {
    if let Some(decided) = document.get("decision") {
        out.write_all(format_decision(decided).as_bytes())?;
    }
    document.get("evaluation").map_or(Ok(()), |evaluation| show_verdict_evaluation(out, evaluation))
}

/// The answer to a delivery. The verdict stays unparsed, since its digest covers the exact text.
#[derive(Deserialize)]
struct DeliveredVerdict {
    session_id: String,
    tier: String,
    query: String,
    cached_at: String,
    #[serde(default)]
    replayed: bool,
    regen: bool,
    original_verdict: Option<String>,
    divergence_level: Option<String>,
    disclaimer: Option<String>,
    notice: Option<String>,
    decision: Value,
    verdict: Box<RawValue>,
}

/// Prints a delivered verdict, or the order of a verdict that is not delivered yet.
pub(super) fn show_delivered(
    answer: &DaemonResponse,
    options: &GlobalOptions,
    out: &mut dyn Write,
) -> Result<(), CtlError> {
    if answer.status == StatusCode::ACCEPTED {
        let report: OrderReport = answer.json()?;
        if options.json {
            print_json(out, &report)?;
        } else {
            write!(out, "{}", format_report(&report))?;
        }
        let has_verdict = report.order.is_held_by_policy();
        let session_id = report.session_id;
        return Err(match report.order.state {
            OrderState::Held => CtlError::OrderHeld { session_id, has_verdict },
            _ => CtlError::NotDelivered(session_id),
        });
    }
    if options.json {
        return Ok(writeln!(out, "{}", visible_json(&String::from_utf8_lossy(&answer.body)))?);
    }
    let delivered: DeliveredVerdict = answer.json()?;
    let how = match (delivered.replayed, delivered.regen) {
        (true, _) => "was delivered before; this is the same verdict",
        (false, true) => "was delivered before and lost; this verdict is regenerated",
        (false, false) => "is delivered",
    };
    let mut head = vec![
        ("session", format!("{} {how}", delivered.session_id)),
        ("tier", delivered.tier),
        ("query", delivered.query),
        ("cached at", delivered.cached_at),
    ];
    if let Some(original) = delivered.original_verdict {
        let level = delivered.divergence_level.unwrap_or_else(|| "not compared".into());
        head.push(("first verdict", format!("{original}; divergence: {level}")));
    }
    write!(out, "{}{}", format_pairs(&head), format_decision(&delivered.decision))?;
    for text in [delivered.disclaimer, delivered.notice].into_iter().flatten() {
        writeln!(out, "{}", visible_line(&text))?;
    }
    Ok(writeln!(out, "{}", visible_json(delivered.verdict.get()))?)
}

/// Show the delivered verdict of a session; a lost verdict is regenerated
#[derive(Debug, clap::Args)]
#[command(after_help = examples(&["oraclectl verdict cs_1"]))]
pub(crate) struct VerdictArgs {
    /// Session id
    #[arg(value_parser = id_parser())]
    session_id: String,
    /// Print the document with the proof of its delivery, byte for byte; `oraclectl verify-log` verifies it without a daemon
    #[arg(long)]
    proof: bool,
}

impl VerdictArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Output) -> Result<(), CtlError> {
        let path = format!("/v1/verdicts/{}", encode_segment(&self.session_id));
        if self.proof {
            let answer = options.read_as_operator(&format!("{path}?proof=1")).await?;
            if answer.status == StatusCode::OK {
                let out = out.exact();
                out.write_all(&answer.body)?;
                return Ok(writeln!(out)?);
            }
            return show_delivered(&answer, options, out);
        }
        show_delivered(&options.read_as_operator(&path).await?, options, out)
    }
}

/// Check a verdict without delivering it; the check is logged
#[derive(Debug, clap::Args)]
#[command(after_help = examples(&["oraclectl crosscheck verdict.json --tier full"]))]
pub(crate) struct CrosscheckArgs {
    /// The model's text; `-` reads standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Tier of the verdict: quick, full or strategy
    #[arg(long)]
    tier: ProductTier,
    /// Session id for the log
    #[arg(long, default_value = "oraclectl", value_parser = id_parser())]
    session: String,
    /// Query for the log
    #[arg(long, default_value = "")]
    query: String,
}

impl CrosscheckArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let raw = read_text(&self.file)?;
        let Self { tier, session, query, .. } = self;
        let body = json!({"session_id": session, "tier": tier, "query": query, "raw": raw}).to_string();
        let answer = options.call_routes(Method::POST, "/v1/crosscheck", Some(body.into())).await?;
        let decided: Value = answer.json()?;
        let shown = if options.json {
            print_json(out, &decided)
        } else {
            out.write_all(format_decision(&decided).as_bytes()).map_err(CtlError::from)
        };
        // the exit status is the decision, even if printing fails
        let approved = decided.get("approved").and_then(Value::as_bool).unwrap_or(false);
        if approved { shown } else { Err(CtlError::NotApproved) }
    }
}
