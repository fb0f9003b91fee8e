//! Guidance on a retry, for a `blocked` envelope.

use super::CombinedDecision;
use crate::base::moment::format_span;
use crate::ground::axis::AxisClass;
use crate::ground::id::SourceId;
use crate::verification::call::{CallFailure, OracleReply};
use crate::verification::collected_answers::{MissingSource, MissingSourceReason};
use crate::verification::envelope::RetryAdvice;
use crate::verification::inputs::DecisionInputs;
use crate::verification::reason::AxisReason;
use std::collections::BTreeSet;

/// The guidance on a retry. The advice names the oracles and the delay, because it is also shown without the
/// other members.
pub(super) fn advise_retry(inputs: &DecisionInputs, ruling: &CombinedDecision<'_>) -> RetryAdvice {
    let has = |reason| ruling.reasons.contains(&reason);
    if has(AxisReason::QueueFull) {
        let advice = "too many questions wait for a reviewer already; ask again after some are resolved";
        return RetryAdvice { after_ms: None, oracles: Vec::new(), advice: advice.into() };
    }
    if !ruling.reverify.is_empty() {
        let oracles: Vec<_> = ruling.reverify.keys().map(|oracle_id| (*oracle_id).clone()).collect();
        let after_ms = inputs.workflow.oracle_latency.soft_timeout_ms;
        let advice =
            format!("{} must be queried again: {}", join_oracle_ids(&oracles), format_retry_delay(after_ms));
        return RetryAdvice { after_ms: Some(after_ms), oracles, advice };
    }
    if has(AxisReason::Stale) || has(AxisReason::Expired) {
        let oracles: Vec<_> = stale(inputs, ruling).into_iter().collect();
        let advice = format!(
            "the answer of {} is too old; ingest a newer release, or allow its age in the policy",
            join_oracle_ids(&oracles)
        );
        return RetryAdvice { after_ms: None, oracles, advice };
    }
    if has(AxisReason::OracleUnusable) {
        return advise_for_unusable(ruling);
    }
    if !ruling.missing.is_empty() {
        return advise_for_missing(inputs, ruling);
    }
    if has(AxisReason::BudgetExceeded) {
        let after_ms = inputs.workflow.oracle_latency.hard_timeout_ms;
        let advice = format!("the decision exceeded its time budget: {}", format_retry_delay(after_ms));
        return RetryAdvice { after_ms: Some(after_ms), oracles: Vec::new(), advice };
    }
    let helps = if can_be_confirmed(inputs, ruling) {
        "ask again after the claimant has confirmed the value"
    } else {
        "asking again does not help by itself"
    };
    let advice = format!("no trusted source of the workflow has a value: {helps}");
    RetryAdvice { after_ms: None, oracles: Vec::new(), advice }
}

/// The guidance if oracles failed, or gave answers that cannot be trusted.
fn advise_for_unusable(ruling: &CombinedDecision<'_>) -> RetryAdvice {
    let unusable = ruling.missing.iter().filter(|absent| absent.reason == MissingSourceReason::Unusable);
    // the causes, if all failures are of this kind
    let causes_of_all = |kind: CallFailure| {
        let causes = unusable.clone().map(|absent| match &absent.call.reply {
            OracleReply::Failed { failure, cause } if *failure == kind => Some(cause.as_str()),
            _ => None,
        });
        causes.collect::<Option<Vec<_>>>()
    };
    let oracles: Vec<_> = unusable.clone().map(|absent| absent.oracle_id.clone()).collect();
    let names = join_oracle_ids(&oracles);
    let advice = if causes_of_all(CallFailure::Rejected).is_some() {
        format!("{names} cannot answer this question; ask another one, or use another workflow")
    } else if let Some(causes) = causes_of_all(CallFailure::NotReady) {
        format!("ask again after an administrator has changed this: {}", causes.join("; "))
    } else {
        format!("an administrator has to check {names}: it failed, or its answer cannot be trusted")
    };
    RetryAdvice { after_ms: None, oracles, advice }
}

/// The guidance if oracles gave no answer.
fn advise_for_missing(inputs: &DecisionInputs, ruling: &CombinedDecision<'_>) -> RetryAdvice {
    let oracles: Vec<_> = ruling.missing.iter().map(|absent| absent.oracle_id.clone()).collect();
    let pauses = ruling.missing.iter().map(|absent| pause_ms(inputs, absent));
    let after_ms = pauses.collect::<Option<Vec<_>>>().and_then(|pauses| pauses.into_iter().max());
    let helps =
        after_ms.map_or_else(|| "an administrator has to close the circuit".to_owned(), format_retry_delay);
    RetryAdvice {
        after_ms,
        advice: format!("no answer came from {}: {helps}", join_oracle_ids(&oracles)),
        oracles,
    }
}

fn format_retry_delay(after_ms: u64) -> String {
    format!("ask again in {}", format_span(after_ms.div_ceil(1000)))
}

fn join_oracle_ids(oracles: &[SourceId]) -> String {
    oracles.iter().map(SourceId::as_str).collect::<Vec<_>>().join(", ")
}

/// Whether each axis without a value is self-reported and has a claim that is not confirmed.
fn can_be_confirmed(inputs: &DecisionInputs, ruling: &CombinedDecision<'_>) -> bool {
    let is_self_reported =
        |path: &str| inputs.axes.get(path).is_some_and(|axis| axis.class == AxisClass::SelfReported);
    let is_claimed = |path: &str| inputs.question.claimed.get(path).is_some_and(|claim| !claim.confirmed);
    let mut open = ruling.settled.iter().filter(|(_, settlement)| settlement.value.is_none()).peekable();
    open.peek().is_some() && open.all(|(path, _)| is_self_reported(path) && is_claimed(path))
}

/// The delay before a retry of an oracle, in milliseconds; `None` if an administrator must act first.
fn pause_ms(inputs: &DecisionInputs, absent: &MissingSource<'_>) -> Option<u64> {
    match &absent.call.reply {
        OracleReply::CircuitOpen { retry_after_ms } => *retry_after_ms,
        _ => Some(inputs.workflow.oracle_latency.hard_timeout_ms),
    }
}

fn stale(inputs: &DecisionInputs, ruling: &CombinedDecision<'_>) -> BTreeSet<SourceId> {
    let stale = ruling.settled.values().flat_map(|settlement| settlement.stale.iter());
    let known = stale.filter(|oracle_id| inputs.calls.contains_key(**oracle_id));
    known.map(|oracle_id| (*oracle_id).clone()).collect()
}
