//! Whether it helps to ask again, for whoever is told nothing.

use super::Ruling;
use crate::ground::id::SourceId;
use crate::ground::ontology::AxisClass;
use crate::verification::call::{Failure, Reply};
use crate::verification::envelope::Retry;
use crate::verification::hearing::{Absence, Absent};
use crate::verification::inputs::Inputs;
use crate::verification::reason::Reason;
use std::collections::BTreeSet;

pub(super) fn guidance(inputs: &Inputs, ruling: &Ruling<'_>) -> Retry {
    let ids = |absences: &[&Absent<'_>]| absences.iter().map(|absent| absent.oracle_id.clone()).collect();
    let has = |reason| ruling.reasons.contains(&reason);
    if has(Reason::QueueFull) {
        let advice = "a person has to decide, and too many questions wait for people already: reviewers have to resolve some first";
        return Retry { after_ms: None, oracles: Vec::new(), advice: advice.into() };
    }
    if !ruling.reverify.is_empty() {
        let oracles = ruling.reverify.keys().map(|oracle_id| (*oracle_id).clone()).collect();
        let advice = "ask again: these oracles have to be asked anew".into();
        return Retry { after_ms: Some(0), oracles, advice };
    }
    if has(Reason::Stale) || has(Reason::Expired) {
        let advice = "what these oracles say is older than their policies or the ontology allow: they need a newer release, or \
                      an administrator another policy";
        let oracles = stale(inputs, ruling).into_iter().collect();
        return Retry { after_ms: None, oracles, advice: advice.into() };
    }
    if has(Reason::OracleUnusable) {
        let unusable = ruling.missing.iter().copied();
        let unusable = unusable.filter(|absent| absent.absence == Absence::Unusable);
        let cannot_be_asked = |absent: &Absent<'_>| {
            matches!(absent.call.reply, Reply::Failed { failure: Failure::Rejected, .. })
        };
        let advice = if unusable.clone().all(cannot_be_asked) {
            "these oracles cannot answer such a question: ask another one, or a workflow without them"
        } else {
            "these oracles failed, or gave answers that cannot be trusted: an administrator has to look at them"
        };
        let unusable: Vec<_> = unusable.collect();
        return Retry { after_ms: None, oracles: ids(&unusable), advice: advice.into() };
    }
    if !ruling.missing.is_empty() {
        let pauses = ruling.missing.iter().map(|absent| pause_ms(inputs, absent));
        let after_ms = pauses.collect::<Option<Vec<_>>>().and_then(|pauses| pauses.into_iter().max());
        let advice = match after_ms {
            Some(_) => "ask again after this time: these oracles did not answer",
            None => "an administrator has to let these oracles be called again",
        };
        return Retry { after_ms, oracles: ids(&ruling.missing), advice: advice.into() };
    }
    if has(Reason::BudgetExceeded) {
        let after_ms = Some(inputs.workflow.oracle_latency.hard_timeout_ms);
        let advice = "ask again after this time: the decision took longer than it may".into();
        return Retry { after_ms, oracles: Vec::new(), advice };
    }
    if can_be_confirmed(inputs, ruling) {
        let advice = "no trusted oracle of the workflow has a value: ask again once whoever claims one has confirmed it";
        return Retry { after_ms: None, oracles: Vec::new(), advice: advice.into() };
    }
    let advice = "no trusted oracle of the workflow has a value: asking again does not help by itself";
    Retry { after_ms: None, oracles: Vec::new(), advice: advice.into() }
}

/// Whether all that has no value is claimed by whoever knows it, and only not confirmed.
fn can_be_confirmed(inputs: &Inputs, ruling: &Ruling<'_>) -> bool {
    let is_self_reported =
        |path: &str| inputs.axes.get(path).is_some_and(|axis| axis.class == AxisClass::SelfReported);
    let is_claimed = |path: &str| inputs.question.claimed.get(path).is_some_and(|claim| !claim.confirmed);
    let mut open = ruling.settled.iter().filter(|(_, settlement)| settlement.value.is_none()).peekable();
    open.peek().is_some() && open.all(|(path, _)| is_self_reported(path) && is_claimed(path))
}

/// After how long it makes sense to ask an oracle again, in milliseconds; nothing where that is up to an administrator.
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
