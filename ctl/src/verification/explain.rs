//! `oraclectl explain`.

use super::verify::{show, words};
use crate::base::error::CtlError;
use crate::base::look::Look;
use crate::base::options::{Options, segment};
use crate::base::output::{by_whom, json, pairs, table};
use hyper::Method;
use oracled_api::verification::{ExplainResponse, ExplainedDecision};
use oracled_domain::ground::id::SourceId;
use oracled_domain::verification::{Call, EnvelopeKind, Inputs, Stage, decide};
use std::io::Write;

/// Show a logged decision with its inputs, and reproduce it
#[derive(Debug, clap::Args)]
pub(crate) struct Explain {
    /// The execution id in the decision's envelope
    execution_id: String,
}

impl Explain {
    pub(crate) async fn run(&self, options: &Options, out: &mut dyn Write) -> Result<(), CtlError> {
        let path = format!("/v1/executions/{}", segment(&self.execution_id));
        let explained: ExplainResponse = options.on_control(Method::GET, &path, None).await?.json()?;
        if options.json {
            json(out, &explained)?;
        } else {
            for (index, decision) in explained.decisions.iter().enumerate() {
                if index > 0 {
                    writeln!(out)?;
                }
                shown(out, decision)?;
            }
        }
        let is_reproduced =
            explained.decisions.iter().all(|decision| decision.reproduced && is_taken_so(decision));
        is_reproduced.then_some(()).ok_or(CtlError::NotReproduced)
    }
}

/// Whether this program makes the same decision from the inputs. The check does not rely on the daemon's result.
fn is_taken_so(ExplainedDecision { inputs, envelope, .. }: &ExplainedDecision) -> bool {
    decide(inputs).to_json() == envelope.to_json()
}

fn shown(out: &mut dyn Write, decision: &ExplainedDecision) -> Result<(), CtlError> {
    let ExplainedDecision { inputs, envelope, reproduced } = decision;
    show::envelope(out, envelope, Look::of_stdout())?;
    let mut asked = vec![
        ("asked at", inputs.asked_at.to_string()),
        ("for", inputs.question.axes.join(", ")),
        ("taken", when(inputs, envelope.kind)),
        ("workflow", format!("SHA-256 {}", envelope.workflow_sha256)),
    ];
    asked.extend(inputs.question.claimed.iter().map(|(path, claim)| {
        let confirmed = if claim.confirmed { ", confirmed" } else { "" };
        ("claimed", format!("{path} {} by {}{confirmed}", claim.value, claim.claimed_by))
    }));
    asked.extend(inputs.locks.iter().map(|lock| {
        let (by, until) = (by_whom(&lock.verifier_id), lock.valid_until);
        ("decided by a reviewer", format!("{} by {by} until {until}", lock.axis))
    }));
    writeln!(out, "\n{}", pairs(&asked))?;
    if !inputs.calls.is_empty() {
        let rows = inputs.calls.iter().map(row).collect();
        writeln!(out, "{}", table(["source", "asked at", "answered at", "took", "axes", "outcome"], rows))?;
    }
    let made = match (reproduced, is_taken_so(decision)) {
        (true, true) => "reproduced from the log, bit for bit",
        (false, _) => {
            "as it was returned then; this version of the daemon makes another envelope from the same inputs"
        }
        (true, false) => {
            "reproduced by the daemon; this oraclectl has another version and makes another envelope"
        }
    };
    Ok(writeln!(out, "\n{made}: envelope {}, inputs {}", envelope.sha256, envelope.inputs_sha256)?)
}

/// When the decision was made, in relation to the caller's wait.
fn when(inputs: &Inputs, kind: EnvelopeKind) -> String {
    let who = match inputs.stage {
        Stage::First if kind == EnvelopeKind::Provisional => {
            "before any source was queried; their answers follow later"
        }
        Stage::First => "while the caller waited",
        Stage::Delayed => "after the caller stopped waiting",
    };
    let again = if inputs.reverified { ", after sources were queried again" } else { "" };
    format!("after {} ms, {who}{again}", inputs.elapsed_ms)
}

/// The row of a call.
fn row((oracle_id, call): (&SourceId, &Call)) -> [String; 6] {
    let at = |at: Option<jiff::Timestamp>| at.map_or_else(|| "-".into(), |at| format!("{at:.3}"));
    let cached = if call.cache_hit { ", from the cache and fresh" } else { "" };
    [
        oracle_id.to_string(),
        at(call.asked_at),
        at(call.ended_at),
        format!("{} ms", call.latency_ms),
        call.axes.join(", "),
        format!("{}{cached}", words::reply(&call.reply)),
    ]
}
