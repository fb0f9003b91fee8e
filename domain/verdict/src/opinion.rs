//! Several opinions on the verdict of one order: how many answers of which models must agree on its label, and how sure the share of a
//! label is.

use crate::generation::VerdictGeneration;
use crate::label::VerdictLabel;
use domain_base::digest::Sha256Hex;
use domain_base::event::{EntryMembers, Event, EventClass};
use domain_upstream::upstream_id::UpstreamId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The most opinions on one verdict.
pub const OPINIONS_MAX: u32 = 9;
/// The probability that a share lies below its interval, and that it lies above.
const TAIL: f64 = 0.025;
/// The halvings of a bisection, after which its error is below that of the rounding.
const HALVINGS: u32 = 40;
/// The error of a bisection. It would round a limit such as 0.025 down.
const BISECTION_ERROR: f64 = 1.0 / (1_u64 << HALVINGS) as f64;
/// The last decimal place of the limits of an interval.
const PLACE: f64 = 1e4;

/// How many opinions of which models decide on a verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpinionPlan {
    /// The number of opinions, at most [`OPINIONS_MAX`]. Fewer are requested if they decide already.
    pub count: u32,
    /// The number of opinions that must have the same label: more than half of `count`, so that only one label can have it.
    pub agree: u32,
    /// The models, which are asked in turn.
    pub models: Vec<UpstreamId>,
    /// Whether the order is held if too few opinions agree; otherwise it fails.
    pub holds_disagreed: bool,
}

impl OpinionPlan {
    /// The model of the next opinion after `given` of them.
    #[must_use]
    pub fn next_model(&self, given: usize) -> Option<&UpstreamId> {
        self.models.get(given.checked_rem(self.models.len())?)
    }

    /// The tally of `opinions`.
    pub fn tally<'o>(&self, opinions: impl IntoIterator<Item = &'o OpenOpinion>) -> OpinionTally {
        let mut numbers = OpinionNumbers::new();
        for OpenOpinion { oracle_id, verdict_label, .. } in opinions {
            let of_model = numbers.entry(oracle_id.clone()).or_default();
            *of_model.entry(*verdict_label).or_default() += 1;
        }
        OpinionTally::of(self.count, self.agree, &numbers)
    }
}

/// The number of opinions by model and label.
pub(crate) type OpinionNumbers = BTreeMap<UpstreamId, BTreeMap<VerdictLabel, u32>>;

/// An opinion on the verdict of an open order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenOpinion {
    /// The model.
    pub oracle_id: UpstreamId,
    pub verdict_label: VerdictLabel,
    /// The answer. Only the first one with a label may be delivered, so further ones have none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub answer: Option<SealedAnswer>,
}

/// An approved answer of a model that may be delivered later.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SealedAnswer {
    /// The number of its attempt.
    #[serde(default)]
    pub attempt: u32,
    /// The number of the entry of its attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt_seq: Option<u64>,
    /// How the model generated it.
    pub generation: VerdictGeneration,
    /// Its delivery document, encrypted.
    pub sealed: String,
    /// The SHA-256 of the facts and rules that it was checked against; absent if there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check_sha256: Option<Sha256Hex>,
}

/// The labels of the opinions on a verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct OpinionTally {
    /// The number of opinions that were to be requested at most.
    pub count: u32,
    /// The number of opinions that must have the same label.
    pub agree: u32,
    /// The label that enough opinions have; null as long as none has.
    pub agreed_label: Option<VerdictLabel>,
    /// The labels by model.
    pub shares: Vec<OpinionShare>,
}

/// How often a model gave a label.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct OpinionShare {
    /// The model.
    pub oracle_id: UpstreamId,
    /// The label.
    pub verdict_label: VerdictLabel,
    /// The number of opinions of the model with the label.
    pub opinions: u32,
    /// The number of opinions of the model.
    pub of: u32,
    /// The lower limit of the 95 % Clopper-Pearson interval of the label's share in all answers of the model.
    pub share_min: f64,
    /// The upper limit of the interval.
    pub share_max: f64,
}

/// The decision by the opinions on a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpinionDecision {
    /// Another opinion is required.
    Open,
    /// Enough opinions have this label.
    Agreed(VerdictLabel),
    /// No label can have enough opinions any longer.
    Disagreed,
}

impl OpinionTally {
    pub(crate) fn of(count: u32, agree: u32, numbers: &OpinionNumbers) -> Self {
        let mut of_labels = BTreeMap::<_, u32>::new();
        let mut shares = Vec::new();
        for (oracle_id, labels) in numbers {
            let of = labels.values().sum();
            for (verdict_label, opinions) in labels {
                *of_labels.entry(*verdict_label).or_default() += opinions;
                shares.push(OpinionShare::of(oracle_id.clone(), *verdict_label, *opinions, of));
            }
        }
        let agreed_label = of_labels.into_iter().find(|(_, opinions)| *opinions >= agree);
        Self { count, agree, agreed_label: agreed_label.map(|(label, _)| label), shares }
    }

    /// The numbers of which the tally consists.
    pub(crate) fn numbers(&self) -> OpinionNumbers {
        let mut numbers = OpinionNumbers::new();
        for OpinionShare { oracle_id, verdict_label, opinions, .. } in &self.shares {
            numbers.entry(oracle_id.clone()).or_default().insert(*verdict_label, *opinions);
        }
        numbers
    }

    /// The number of opinions with each label.
    #[must_use]
    pub fn labels(&self) -> BTreeMap<VerdictLabel, u32> {
        let mut labels = BTreeMap::new();
        for share in &self.shares {
            *labels.entry(share.verdict_label).or_default() += share.opinions;
        }
        labels
    }

    /// The decision. It does not depend on the opinions that are left.
    #[must_use]
    pub fn decision(&self) -> OpinionDecision {
        if let Some(label) = self.agreed_label {
            return OpinionDecision::Agreed(label);
        }
        let labels = self.labels();
        let left = self.count.saturating_sub(labels.values().sum());
        let most = labels.into_values().max().unwrap_or_default();
        if most.saturating_add(left) < self.agree {
            OpinionDecision::Disagreed
        } else {
            OpinionDecision::Open
        }
    }

    /// The labels in one line: `GREEN 2, RED 1`.
    #[must_use]
    pub fn describe(&self) -> String {
        let labels = self.labels().into_iter().map(|(label, opinions)| format!("{label} {opinions}"));
        labels.collect::<Vec<_>>().join(", ")
    }
}

impl OpinionShare {
    fn of(oracle_id: UpstreamId, verdict_label: VerdictLabel, opinions: u32, of: u32) -> Self {
        let (low, high) = clopper_pearson(opinions, of);
        // rounded to the outside, so that the interval stays one of at least 95 %
        let (share_min, share_max) = ((low * PLACE).floor() / PLACE, (high * PLACE).ceil() / PLACE);
        Self { oracle_id, verdict_label, opinions, of, share_min, share_max }
    }
}

/// An approved answer of a model became an opinion on the verdict of an order (`orders.opinions`). If the opinions agree then, the
/// first answer with the agreed label is delivered or held in the same commit. If they cannot agree any longer, `order_stopped` is in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct OrderOpinion {
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The model, by its name among the oracles.
    pub oracle_id: UpstreamId,
    /// The label of the answer.
    pub verdict_label: VerdictLabel,
    /// The SHA-256 of the answer.
    pub verdict_sha256: Sha256Hex,
    /// The labels of all opinions up to this one.
    #[serde(flatten)]
    pub tally: OpinionTally,
}

impl Event for OrderOpinion {
    const NAME: &'static str = "order_opinion";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = true;

    fn summary(entry: EntryMembers<'_>) -> String {
        let agreed = entry.text_after(", agreed: ", "agreed_label");
        format!("attempt {}{agreed}", entry.words(&["attempt", "oracle_id", "verdict_label"]))
    }
}

/// The 95 % Clopper-Pearson interval of the probability of an event that occurred `successes` times in `trials`.
///
/// Its limits are quantiles of beta distributions. With few trials, the sum of the binomial distribution is exact and shorter than the
/// incomplete beta function.
fn clopper_pearson(successes: u32, trials: u32) -> (f64, f64) {
    let below = |probability| at_least(successes, trials, probability) < TAIL;
    let above = |probability| 1.0 - at_least(successes.saturating_add(1), trials, probability) > TAIL;
    let low = if successes == 0 { 0.0 } else { last_true(below) + BISECTION_ERROR };
    let high = if successes >= trials { 1.0 } else { last_true(above) };
    (low, high)
}

/// The probability of at least `successes` in `trials` of an event with this probability, which is neither 0 nor 1.
fn at_least(successes: u32, trials: u32, probability: f64) -> f64 {
    let other = 1.0 - probability;
    let (mut sum, mut exactly) = (0.0, (0..trials).fold(1.0, |product, _| product * other));
    for occurred in 0..=trials {
        if occurred >= successes {
            sum += exactly;
        }
        let ways = f64::from(trials - occurred) / f64::from(occurred + 1);
        exactly *= ways * probability / other;
    }
    sum
}

/// The largest number from 0 to 1 for which `holds`, which holds up to a number and not beyond.
fn last_true(holds: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if holds(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests;
