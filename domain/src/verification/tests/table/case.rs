use super::*;
use crate::ground::axis::AxisClass;
use crate::ground::freshness::StaleBehavior;
use crate::ground::source::OracleTier::{self, CrossDomain, Primary, Secondary, Unverified};
use crate::verification::workflow::{EnforcementMode, OnBudget, OnTimeout, Strategy};
use crate::verification::{
    Candidate, Cut, Envelope, Failure, HumanLock, Inputs, Refusal, Reply, Stage, Tier,
};
use serde_json::json;
use strum::VariantArray;

/// Two oracles, `first` and `second`, that provide one axis. The second one always answers, in time and fresh.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    pub(super) tiers: (OracleTier, OracleTier),
    pub(super) values: Values,
    pub(super) threshold: Threshold,
    /// The strategy between different tiers and within one.
    pub(super) strategy: Strategy,
    pub(super) class: AxisClass,
    /// The freshness of the first oracle's answer, or of its cached answer.
    pub(super) freshness: Freshness,
    pub(super) reply: FirstReply,
    pub(super) kept: Kept,
    pub(super) on_timeout: OnTimeout,
    pub(super) mode: Mode,
    pub(super) on_budget: OnBudget,
    pub(super) takes_too_long: bool,
    pub(super) claim: Claim,
    pub(super) always_human: bool,
    pub(super) is_locked: bool,
}

/// The values of both oracles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Values {
    /// 10 and 10.04, with a precision of one digit after the point.
    Same,
    /// 12 and 10.
    FirstMore,
    /// 10 and 12.
    FirstLess,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Threshold {
    None,
    /// 2, which a difference of 2 does not exceed.
    Kept,
    /// 1.5.
    Exceeded,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Freshness {
    Fresh,
    Stale(StaleBehavior),
    /// On a state-sensitive axis, and older than its time to live.
    Expired,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FirstReply {
    Answered,
    AfterHardTimeout,
    HardTimeout,
    BudgetCut,
    Unavailable,
    CircuitOpen,
    WrongSignature,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    Nothing,
    Tolerated,
    TooOld,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Inline,
    AsyncAtFirst,
    AsyncLater,
    NonAuthoritative,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Claim {
    None,
    /// The first oracle's value.
    AsFirst,
    /// 99.
    Other,
    /// 99, and confirmed when asked.
    OtherConfirmed,
}

pub(super) const STALE: [StaleBehavior; 5] = [
    StaleBehavior::ServeStaleSilent,
    StaleBehavior::ServeStaleWithWarning,
    StaleBehavior::DegradeTier,
    StaleBehavior::BlockUntilFresh,
    StaleBehavior::FailClosed,
];
const TIERS: [(OracleTier, OracleTier); 6] = [
    (Primary, Primary),
    (Secondary, Secondary),
    (Primary, Secondary),
    (Secondary, CrossDomain),
    (CrossDomain, Primary),
    (CrossDomain, Unverified),
];
const VALUES: [Values; 3] = [Values::Same, Values::FirstMore, Values::FirstLess];
const MODES: [Mode; 4] = [Mode::Inline, Mode::AsyncAtFirst, Mode::AsyncLater, Mode::NonAuthoritative];
const ON_TIMEOUT: [OnTimeout; 3] =
    [OnTimeout::FailOpenNarrative, OnTimeout::FailClosedBlock, OnTimeout::ServeStale];
const ON_BUDGET: [OnBudget; 3] = [OnBudget::Escalate, OnBudget::DegradeToNarrative, OnBudget::FailClosed];
const KEPT: [Kept; 3] = [Kept::Nothing, Kept::Tolerated, Kept::TooOld];
const CLASSES: [AxisClass; 2] = [AxisClass::Measured, AxisClass::SelfReported];

const PLAIN: Case = Case {
    tiers: (Primary, Secondary),
    values: Values::FirstMore,
    threshold: Threshold::None,
    strategy: Strategy::HigherTierWins,
    class: AxisClass::Measured,
    freshness: Freshness::Fresh,
    reply: FirstReply::Answered,
    kept: Kept::Nothing,
    on_timeout: OnTimeout::FailClosedBlock,
    mode: Mode::Inline,
    on_budget: OnBudget::FailClosed,
    takes_too_long: false,
    claim: Claim::None,
    always_human: false,
    is_locked: false,
};

/// The cases after `make` has applied each of `choices` to each case.
fn each<T: Copy + 'static>(
    cases: impl Iterator<Item = Case>,
    choices: &'static [T],
    make: fn(&mut Case, T),
) -> impl Iterator<Item = Case> {
    cases.flat_map(move |case| {
        choices.iter().map(move |choice| {
            let mut case = case;
            make(&mut case, *choice);
            case
        })
    })
}

/// Tiers × strategy × values and threshold × class × freshness × result of a call × mode.
pub(super) fn sources_and_times() -> impl Iterator<Item = Case> {
    const APART: [(Values, Threshold); 4] = [
        (Values::Same, Threshold::None),
        (Values::FirstLess, Threshold::None),
        (Values::FirstMore, Threshold::Kept),
        (Values::FirstLess, Threshold::Exceeded),
    ];
    const FRESHNESS: [Freshness; 7] = [
        Freshness::Fresh,
        Freshness::Expired,
        Freshness::Stale(STALE[0]),
        Freshness::Stale(STALE[1]),
        Freshness::Stale(STALE[2]),
        Freshness::Stale(STALE[3]),
        Freshness::Stale(STALE[4]),
    ];
    const TIMES: [(FirstReply, Kept, OnTimeout); 7] = [
        (FirstReply::Answered, Kept::Nothing, OnTimeout::FailClosedBlock),
        (FirstReply::HardTimeout, Kept::Tolerated, OnTimeout::FailOpenNarrative),
        (FirstReply::HardTimeout, Kept::Tolerated, OnTimeout::FailClosedBlock),
        (FirstReply::HardTimeout, Kept::Tolerated, OnTimeout::ServeStale),
        (FirstReply::HardTimeout, Kept::TooOld, OnTimeout::ServeStale),
        (FirstReply::HardTimeout, Kept::Nothing, OnTimeout::ServeStale),
        (FirstReply::WrongSignature, Kept::Tolerated, OnTimeout::ServeStale),
    ];
    let cases = each(std::iter::once(PLAIN), &TIERS, |case, tiers| case.tiers = tiers);
    let cases = each(cases, Strategy::VARIANTS, |case, strategy| case.strategy = strategy);
    let cases = each(cases, &APART, |case, apart| (case.values, case.threshold) = apart);
    let cases = each(cases, &CLASSES, |case, class| case.class = class);
    let cases = each(cases, &FRESHNESS, |case, freshness| case.freshness = freshness);
    let cases = each(cases, &TIMES, |case, times| (case.reply, case.kept, case.on_timeout) = times);
    each(cases, &MODES, |case, mode| case.mode = mode)
}

/// Result of a call × cached answer × both timeout behaviors × mode × whether the budget is exceeded × freshness.
pub(super) fn times_and_budgets() -> impl Iterator<Item = Case> {
    const REPLIES: [FirstReply; 7] = [
        FirstReply::Answered,
        FirstReply::AfterHardTimeout,
        FirstReply::HardTimeout,
        FirstReply::BudgetCut,
        FirstReply::Unavailable,
        FirstReply::CircuitOpen,
        FirstReply::WrongSignature,
    ];
    const STRATEGIES: [Strategy; 3] =
        [Strategy::HigherTierWins, Strategy::RequireHuman, Strategy::DisputeSummary];
    const APART: [Values; 2] = [Values::Same, Values::FirstMore];
    const FRESHNESS: [Freshness; 2] = [Freshness::Fresh, Freshness::Stale(StaleBehavior::FailClosed)];
    let cases = each(std::iter::once(PLAIN), &REPLIES, |case, reply| case.reply = reply);
    let cases = each(cases, &KEPT, |case, kept| case.kept = kept);
    let cases = each(cases, &ON_TIMEOUT, |case, on_timeout| case.on_timeout = on_timeout);
    let cases = each(cases, &ON_BUDGET, |case, on_budget| case.on_budget = on_budget);
    let cases = each(cases, &[false, true], |case, too_long| case.takes_too_long = too_long);
    let cases = each(cases, &APART, |case, values| case.values = values);
    let cases = each(cases, &STRATEGIES, |case, strategy| case.strategy = strategy);
    let cases = each(cases, &FRESHNESS, |case, freshness| case.freshness = freshness);
    each(cases, &MODES, |case, mode| case.mode = mode)
}

/// Claims and locks × class × tiers × values × strategies × mode × whether the first oracle answers.
pub(super) fn claims_and_people() -> impl Iterator<Item = Case> {
    const STRATEGIES: [Strategy; 3] =
        [Strategy::HigherTierWins, Strategy::MostRecent, Strategy::WeightedAverage];
    const CLAIMS: [Claim; 4] = [Claim::None, Claim::AsFirst, Claim::Other, Claim::OtherConfirmed];
    const STATES: [(FirstReply, Freshness); 3] = [
        (FirstReply::Answered, Freshness::Fresh),
        (FirstReply::Answered, Freshness::Stale(StaleBehavior::FailClosed)),
        (FirstReply::HardTimeout, Freshness::Fresh),
    ];
    let cases = each(std::iter::once(PLAIN), &CLAIMS, |case, claim| case.claim = claim);
    let cases = each(cases, &[false, true], |case, always_human| case.always_human = always_human);
    let cases = each(cases, &[false, true], |case, is_locked| case.is_locked = is_locked);
    let cases = each(cases, &CLASSES, |case, class| case.class = class);
    let cases = each(cases, &TIERS, |case, tiers| case.tiers = tiers);
    let cases = each(cases, &VALUES, |case, values| case.values = values);
    let cases = each(cases, &STRATEGIES, |case, strategy| case.strategy = strategy);
    let cases = each(cases, &STATES, |case, state| (case.reply, case.freshness) = state);
    each(cases, &MODES, |case, mode| case.mode = mode)
}

impl Case {
    /// The requested axis.
    fn axis(&self) -> &'static str {
        match self.class {
            AxisClass::Measured => "dose",
            AxisClass::SelfReported => "weight",
        }
    }

    pub(super) fn said(&self) -> (&'static str, &'static str) {
        match self.values {
            Values::Same => ("10", "10.04"),
            Values::FirstMore => ("12", "10"),
            Values::FirstLess => ("10", "12"),
        }
    }

    pub(super) fn value_in(&self, envelope: &Envelope) -> Option<String> {
        envelope.axes.get(self.axis())?.value.as_ref().map(ToString::to_string)
    }

    /// The inputs of the decision.
    pub(super) fn inputs(&self) -> Inputs {
        let axis = self.axis();
        let always_human = if self.always_human { vec![axis] } else { Vec::new() };
        let threshold = match self.threshold {
            Threshold::None => json!(null),
            Threshold::Kept => json!(2),
            Threshold::Exceeded => json!("1.5"),
        };
        let (mode, stage) = match self.mode {
            Mode::Inline => (EnforcementMode::Inline, Stage::First),
            Mode::AsyncAtFirst => (EnforcementMode::Async, Stage::First),
            Mode::AsyncLater => (EnforcementMode::Async, Stage::Delayed),
            Mode::NonAuthoritative => (EnforcementMode::NonAuthoritativeOnly, Stage::First),
        };
        let tolerance = if self.on_timeout == OnTimeout::ServeStale { json!(600) } else { json!(null) };
        let settings = json!({
            "conflict_resolution": {
                "default_strategy": self.strategy, "same_tier_strategy": self.strategy,
                "escalation_delta_threshold": threshold, "always_human_axes": always_human
            },
            "oracle_latency": {"on_timeout": self.on_timeout, "stale_tolerance_seconds": tolerance},
            "authority_latency": {"authority_latency_budget_ms": 3000, "enforcement_mode": mode,
                                  "on_timeout_behavior": self.on_budget}
        });
        let workflow = workflow(&[axis], &["first", "second"], settings);
        let claimed = |value: &str, confirmed: bool| json!({"claimed": {axis: {"value": value, "claimed_by": "p-1", "confirmed": confirmed}}});
        let more = match self.claim {
            Claim::None => json!({}),
            Claim::AsFirst => claimed(self.said().0, false),
            Claim::Other => claimed("99", false),
            Claim::OtherConfirmed => claimed("99", true),
        };
        let mut inputs = inputs(workflow, &[axis], more);
        inputs.stage = stage;
        inputs.elapsed_ms = if self.takes_too_long { 3001 } else { 3000 };
        axis_of(&mut inputs, axis).state_sensitive = self.freshness == Freshness::Expired;
        answers(&mut inputs, "second", self.tiers.1, &[(axis, self.said().1)]);
        inputs.calls.insert("first".parse().expect("an id"), self.first_call());
        inputs.locks.extend(self.is_locked.then(|| self.lock(&inputs)));
        inputs
    }

    fn first_call(&self) -> crate::verification::Call {
        let mut candidate = self.candidate();
        let mut latency_ms = 100;
        let reply = match self.reply {
            FirstReply::Answered => Reply::Answered { candidate: Box::new(candidate.clone()) },
            FirstReply::AfterHardTimeout => {
                latency_ms = 5001;
                Reply::Answered { candidate: Box::new(candidate.clone()) }
            }
            FirstReply::HardTimeout => Reply::TimedOut { cut: Cut::HardTimeout },
            FirstReply::BudgetCut => Reply::TimedOut { cut: Cut::Budget },
            FirstReply::Unavailable => {
                Reply::Failed { failure: Failure::Unavailable, cause: "status 502".into() }
            }
            FirstReply::CircuitOpen => Reply::CircuitOpen { retry_after_ms: Some(30_000) },
            FirstReply::WrongSignature => {
                Reply::Refused { refusal: Refusal::Signature, cause: "it does not hold".into() }
            }
        };
        let mut first = call(self.tiers.0, &[self.axis()], reply);
        first.latency_ms = latency_ms;
        if self.kept == Kept::TooOld {
            candidate.observed_at = ago(601);
        }
        first.kept = (self.kept != Kept::Nothing).then(|| Box::new(candidate));
        first
    }

    fn candidate(&self) -> Candidate {
        let mut candidate = candidate("first", &[(self.axis(), self.said().0)]);
        // the other one was verified later
        candidate.record.verified_at = ago(100);
        candidate.observed_at = ago(100);
        match self.freshness {
            Freshness::Fresh => {}
            Freshness::Stale(behavior) => {
                candidate.freshness[0].stale = true;
                candidate.freshness[0].stale_behavior = behavior;
            }
            Freshness::Expired => candidate.record.ttl_seconds = Some(60),
        }
        candidate
    }

    /// A lock with the value 7.
    fn lock(&self, inputs: &Inputs) -> HumanLock {
        HumanLock {
            review_id: "verify:0".into(),
            workflow_id: inputs.workflow.workflow_id.clone(),
            ontology: inputs.workflow.ontology.clone(),
            thing: thing(),
            known_at: None,
            point_in_time: None,
            axis: self.axis().into(),
            value: crate::ground::value::Value::Text("7".into()),
            definition: None,
            verifier_id: "1000".into(),
            reason: "seen on paper".into(),
            verified_at: ago(60),
            valid_until: now() + jiff::SignedDuration::from_secs(60),
            evidence_hash: crate::base::digest::Sha256Hex::of(b""),
        }
    }

    /// The tier at which the first oracle's answer counts.
    pub(super) fn first_tier(&self) -> Tier {
        let tier = Tier::from(self.tiers.0);
        if self.freshness == Freshness::Stale(StaleBehavior::DegradeTier) { tier.lower() } else { tier }
    }
}
