//! Guidance on a retry, for a `blocked` envelope.

use super::Ruling;
use crate::base::moment::span;
use crate::ground::axis::AxisClass;
use crate::ground::id::SourceId;
use crate::verification::call::{Failure, Reply};
use crate::verification::envelope::Retry;
use crate::verification::hearing::{Absence, Absent};
use crate::verification::inputs::Inputs;
use crate::verification::reason::Reason;
use std::collections::BTreeSet;

/// The guidance on a retry. The advice names the oracles and the delay, because it is also shown without the other members.
pub(super) fn guidance(inputs: &Inputs, ruling: &Ruling<'_>) -> Retry {
    let has = |reason| ruling.reasons.contains(&reason);
    if has(Reason::QueueFull) {
        let advice = "too many questions wait for a reviewer already; ask again after some are resolved";
        return Retry { after_ms: None, oracles: Vec::new(), advice: advice.into() };
    }
    if !ruling.reverify.is_empty() {
        let oracles: Vec<_> = ruling.reverify.keys().map(|oracle_id| (*oracle_id).clone()).collect();
        let after_ms = inputs.workflow.oracle_latency.soft_timeout_ms;
        let advice = format!("this needs another answer from {}: {}", names(&oracles), again(after_ms));
        return Retry { after_ms: Some(after_ms), oracles, advice };
    }
    if has(Reason::Stale) || has(Reason::Expired) {
        let oracles: Vec<_> = stale(inputs, ruling).into_iter().collect();
        let advice = format!(
            "the answer of {} is too old; ingest a newer release, or allow its age in the policy",
            names(&oracles)
        );
        return Retry { after_ms: None, oracles, advice };
    }
    if has(Reason::OracleUnusable) {
        return of_unusable(ruling);
    }
    if !ruling.missing.is_empty() {
        return of_missing(inputs, ruling);
    }
    if has(Reason::BudgetExceeded) {
        let after_ms = inputs.workflow.oracle_latency.hard_timeout_ms;
        let advice = format!("the decision exceeded its time budget: {}", again(after_ms));
        return Retry { after_ms: Some(after_ms), oracles: Vec::new(), advice };
    }
    let helps = if can_be_confirmed(inputs, ruling) {
        "ask again after the claimant has confirmed the value"
    } else {
        "asking again does not help by itself"
    };
    let advice = format!("no trusted source of the workflow has a value: {helps}");
    Retry { after_ms: None, oracles: Vec::new(), advice }
}

/// The guidance if oracles failed, or gave answers that cannot be trusted.
fn of_unusable(ruling: &Ruling<'_>) -> Retry {
    let unusable = ruling.missing.iter().filter(|absent| absent.absence == Absence::Unusable);
    let cannot_be_asked =
        |absent: &&Absent<'_>| matches!(absent.call.reply, Reply::Failed { failure: Failure::Rejected, .. });
    let is_the_question = unusable.clone().all(cannot_be_asked);
    let oracles: Vec<_> = unusable.map(|absent| absent.oracle_id.clone()).collect();
    let names = names(&oracles);
    let advice = if is_the_question {
        format!("{names} cannot answer this question; ask another one, or use another workflow")
    } else {
        format!(
            "an administrator has to check {names}: it failed, or its answer cannot be trusted"
        )
    };
    Retry { after_ms: None, oracles, advice }
}

/// The guidance if oracles gave no answer.
fn of_missing(inputs: &Inputs, ruling: &Ruling<'_>) -> Retry {
    let oracles: Vec<_> = ruling.missing.iter().map(|absent| absent.oracle_id.clone()).collect();
    let pauses = ruling.missing.iter().map(|absent| pause_ms(inputs, absent));
    let after_ms = pauses.collect::<Option<Vec<_>>>().and_then(|pauses| pauses.into_iter().max());
    let helps = after_ms
        .map_or_else(|| "an administrator has to close the circuit".to_owned(), again);
    Retry { after_ms, advice: format!("no answer came from {}: {helps}", names(&oracles)), oracles }
}

fn again(after_ms: u64) -> String {
    format!("ask again in {}", span(after_ms.div_ceil(1000)))
}

fn names(oracles: &[SourceId]) -> String {
    oracles.iter().map(SourceId::as_str).collect::<Vec<_>>().join(", ")
}

/// Whether each axis without a value is self-reported and has a claim that is not confirmed.
fn can_be_confirmed(inputs: &Inputs, ruling: &Ruling<'_>) -> bool {
    let is_self_reported =
        |path: &str| inputs.axes.get(path).is_some_and(|axis| axis.class == AxisClass::SelfReported);
    let is_claimed = |path: &str| inputs.question.claimed.get(path).is_some_and(|claim| !claim.confirmed);
    let mut open = ruling.settled.iter().filter(|(_, settlement)| settlement.value.is_none()).peekable();
    open.peek().is_some() && open.all(|(path, _)| is_self_reported(path) && is_claimed(path))
}

/// The delay before a retry of an oracle, in milliseconds; `None` if an administrator must act first.
fn pause_ms(inputs: &Inputs, absent: &Absent<'_>) -> Option<u64> {
    match &absent.call.reply {
        Reply::CircuitOpen { retry_after_ms } => *retry_after_ms,
        _ => Some(inputs.workflow.oracle_latency.hard_timeout_ms),
    }
}

fn stale(inputs: &Inputs, ruling: &Ruling<'_>) -> BTreeSet<SourceId> {
    let stale = ruling.settled.values().flat_map(|settlement| settlement.stale.iter());
    let known = stale.filter(|oracle_id| inputs.calls.contains_key(**oracle_id));
    known.map(|oracle_id| (*oracle_id).clone()).collect()
}
