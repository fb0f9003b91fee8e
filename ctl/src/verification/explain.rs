//! `oraclectl explain` of a decision over several sources.

use super::verify;
use crate::base::error::CtlError;
use crate::base::options::{GlobalOptions, encode_segment};
use crate::base::output::{OutputStyle, format_pairs, format_table, format_user, print_json};
use domain_ground::id::SourceId;
use domain_verification::replay::ErasedVerification;
use domain_verification::wire::{ExplainResponse, ExplainedDecision};
use domain_verification::{DecisionInputs, DecisionStage, EnvelopeKind, OracleCall, decide};
use hyper::Method;
use std::io::Write;

/// Shows a logged decision with its inputs, and reproduces it.
pub(crate) async fn explain_decision(
    execution_id: &str,
    options: &GlobalOptions,
    out: &mut dyn Write,
) -> Result<(), CtlError> {
    let path = format!("/v1/executions/{}", encode_segment(execution_id));
    let explained: ExplainResponse = options.call_control(Method::GET, &path, None).await?.json()?;
    if options.json {
        print_json(out, &explained)?;
    } else {
        for (index, decision) in explained.decisions.iter().enumerate() {
            if index > 0 {
                writeln!(out)?;
            }
            show_decision(out, decision)?;
        }
        for (index, erased) in explained.erased.iter().enumerate() {
            if index + explained.decisions.len() > 0 {
                writeln!(out)?;
            }
            show_erased(out, erased)?;
        }
    }
    let is_reproduced =
        explained.decisions.iter().all(|decision| decision.reproduced && is_reproduced_here(decision));
    is_reproduced.then_some(()).ok_or(CtlError::NotReproduced)
}

/// Whether this program makes the same decision from the inputs. The check does not rely on the daemon's result.
fn is_reproduced_here(ExplainedDecision { inputs, envelope, .. }: &ExplainedDecision) -> bool {
    decide(inputs).to_json() == envelope.to_json()
}

/// Shows what the log still has of a decision.
fn show_erased(out: &mut dyn Write, decision: &ErasedVerification) -> Result<(), CtlError> {
    let ErasedVerification { seq, execution_id, workflow_id, timestamp, kind, reasons, erased } = decision;
    let reasons: Vec<_> = reasons.iter().map(|reason| <&str>::from(*reason)).collect();
    let mut pairs = vec![
        ("decision", format!("{execution_id}, log entry {seq}")),
        ("workflow", workflow_id.to_string()),
        ("decided at", timestamp.to_string()),
        ("kind", <&str>::from(*kind).to_owned()),
    ];
    if !reasons.is_empty() {
        pairs.push(("reasons", reasons.join(", ")));
    }
    pairs.push(("erased", erased.join(", ")));
    writeln!(out, "{}", format_pairs(&pairs))?;
    Ok(writeln!(out, "\nit cannot be reproduced, because these values were erased from the log")?)
}

fn show_decision(out: &mut dyn Write, decision: &ExplainedDecision) -> Result<(), CtlError> {
    let ExplainedDecision { inputs, envelope, reproduced } = decision;
    let claims = inputs.question.claimed.iter();
    let claims = claims.map(|(path, claim)| (path, &claim.value, claim.claimed_by.as_str(), claim.confirmed));
    let claims = verify::format_claims(claims);
    verify::show_envelope(out, envelope, &claims, OutputStyle::for_stdout())?;
    let mut pairs = vec![
        ("asked at", inputs.asked_at.to_string()),
        ("for", inputs.question.axes.join(", ")),
        ("taken", format_stage(inputs, envelope.kind)),
        ("workflow", format!("SHA-256 {}", envelope.workflow_sha256)),
    ];
    pairs.extend(inputs.locks.iter().map(|lock| {
        let (by, until) = (format_user(&lock.verifier_id, lock.verifier_name.as_deref()), lock.valid_until);
        ("decided by a reviewer", format!("{} by {by} until {until}", lock.axis))
    }));
    writeln!(out, "\n{}", format_pairs(&pairs))?;
    if !inputs.calls.is_empty() {
        let rows = inputs.calls.iter().map(call_row).collect();
        writeln!(
            out,
            "{}",
            format_table(["source", "asked at", "answered at", "took", "axes", "outcome"], rows)
        )?;
    }
    let origin = match (reproduced, is_reproduced_here(decision)) {
        (true, true) => "reproduced from the log, bit for bit",
        (false, _) => {
            "as it was returned then; this version of the daemon makes another envelope from the same inputs"
        }
        (true, false) => {
            "reproduced by the daemon; this oraclectl has another version and makes another envelope"
        }
    };
    Ok(writeln!(out, "\n{origin}: envelope {}, inputs {}", envelope.sha256, envelope.inputs_sha256)?)
}

/// When the decision was made, in relation to the caller's wait.
fn format_stage(inputs: &DecisionInputs, kind: EnvelopeKind) -> String {
    let who = match inputs.stage {
        DecisionStage::First if kind == EnvelopeKind::Provisional => {
            "before any source was queried; their answers follow later"
        }
        DecisionStage::First => "while the caller waited",
        DecisionStage::Delayed => "after the caller stopped waiting",
    };
    let again = if inputs.reverified { ", after sources were queried again" } else { "" };
    format!("after {} ms, {who}{again}", inputs.elapsed_ms)
}

/// The row of a call.
fn call_row((oracle_id, call): (&SourceId, &OracleCall)) -> [String; 6] {
    let at = |at: Option<jiff::Timestamp>| at.map_or_else(|| "-".into(), |at| format!("{at:.3}"));
    let cached = if call.cache_hit { ", from the cache and fresh" } else { "" };
    [
        oracle_id.to_string(),
        at(call.asked_at),
        at(call.ended_at),
        format!("{} ms", call.latency_ms),
        call.axes.join(", "),
        format!("{}{cached}", verify::describe_reply(&call.reply)),
    ]
}
