use super::*;
use crate::workflow::{BudgetExceededBehavior, ConflictStrategy, EnforcementMode, OracleTimeoutBehavior};
use crate::{
    AnswerFault, CallFailure, CallTimeLimit, CandidateAnswer, DecisionInputs, DecisionStage, Envelope,
    HumanLock, OracleReply, VerificationTier,
};
use domain_ground::axis::AxisClass;
use domain_ground::freshness::StaleBehavior;
use domain_ground::source::OracleTier::{self, CrossDomain, Primary, Secondary, Unverified};
use serde_json::json;
use strum::VariantArray;

/// Two oracles, `first` and `second`, that provide one axis. The second one always answers, in time and fresh.
#[derive(Debug, Clone, Copy)]
pub(super) struct TableCase {
    pub(super) tiers: (OracleTier, OracleTier),
    pub(super) values: CaseValues,
    pub(super) threshold: CaseThreshold,
    /// The strategy between different tiers and within one.
    pub(super) strategy: ConflictStrategy,
    pub(super) class: AxisClass,
    /// The freshness of the first oracle's answer, or of its cached answer.
    pub(super) freshness: CaseFreshness,
    pub(super) reply: FirstReply,
    pub(super) cached: CaseCachedAnswer,
    pub(super) on_timeout: OracleTimeoutBehavior,
    pub(super) mode: CaseMode,
    pub(super) on_budget: BudgetExceededBehavior,
    pub(super) takes_too_long: bool,
    pub(super) claim: CaseClaim,
    pub(super) always_human: bool,
    pub(super) is_locked: bool,
}

/// The values of both oracles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CaseValues {
    /// 10 and 10.04, with a precision of one digit after the point.
    Same,
    /// 12 and 10.
    FirstMore,
    /// 10 and 12.
    FirstLess,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CaseThreshold {
    None,
    /// 2, which a difference of 2 does not exceed.
    Kept,
    /// 1.5.
    Exceeded,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CaseFreshness {
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
pub(super) enum CaseCachedAnswer {
    Nothing,
    Tolerated,
    TooOld,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CaseMode {
    Inline,
    AsyncAtFirst,
    AsyncLater,
    NonAuthoritative,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CaseClaim {
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
const VALUES: [CaseValues; 3] = [CaseValues::Same, CaseValues::FirstMore, CaseValues::FirstLess];
const MODES: [CaseMode; 4] =
    [CaseMode::Inline, CaseMode::AsyncAtFirst, CaseMode::AsyncLater, CaseMode::NonAuthoritative];
const ON_TIMEOUT: [OracleTimeoutBehavior; 3] = [
    OracleTimeoutBehavior::FailOpenNarrative,
    OracleTimeoutBehavior::FailClosedBlock,
    OracleTimeoutBehavior::ServeStale,
];
const ON_BUDGET: [BudgetExceededBehavior; 3] = [
    BudgetExceededBehavior::Escalate,
    BudgetExceededBehavior::DegradeToNarrative,
    BudgetExceededBehavior::FailClosed,
];
const KEPT: [CaseCachedAnswer; 3] =
    [CaseCachedAnswer::Nothing, CaseCachedAnswer::Tolerated, CaseCachedAnswer::TooOld];
const CLASSES: [AxisClass; 2] = [AxisClass::Measured, AxisClass::SelfReported];

const PLAIN: TableCase = TableCase {
    tiers: (Primary, Secondary),
    values: CaseValues::FirstMore,
    threshold: CaseThreshold::None,
    strategy: ConflictStrategy::HigherTierWins,
    class: AxisClass::Measured,
    freshness: CaseFreshness::Fresh,
    reply: FirstReply::Answered,
    cached: CaseCachedAnswer::Nothing,
    on_timeout: OracleTimeoutBehavior::FailClosedBlock,
    mode: CaseMode::Inline,
    on_budget: BudgetExceededBehavior::FailClosed,
    takes_too_long: false,
    claim: CaseClaim::None,
    always_human: false,
    is_locked: false,
};

/// The cases after `make` has applied each of `choices` to each case.
fn each<T: Copy + 'static>(
    cases: impl Iterator<Item = TableCase>,
    choices: &'static [T],
    make: fn(&mut TableCase, T),
) -> impl Iterator<Item = TableCase> {
    cases.flat_map(move |case| {
        choices.iter().map(move |choice| {
            let mut case = case;
            make(&mut case, *choice);
            case
        })
    })
}

/// Tiers × strategy × values and threshold × class × freshness × result of a call × mode.
pub(super) fn source_and_time_cases() -> impl Iterator<Item = TableCase> {
    const APART: [(CaseValues, CaseThreshold); 4] = [
        (CaseValues::Same, CaseThreshold::None),
        (CaseValues::FirstLess, CaseThreshold::None),
        (CaseValues::FirstMore, CaseThreshold::Kept),
        (CaseValues::FirstLess, CaseThreshold::Exceeded),
    ];
    const FRESHNESS: [CaseFreshness; 7] = [
        CaseFreshness::Fresh,
        CaseFreshness::Expired,
        CaseFreshness::Stale(STALE[0]),
        CaseFreshness::Stale(STALE[1]),
        CaseFreshness::Stale(STALE[2]),
        CaseFreshness::Stale(STALE[3]),
        CaseFreshness::Stale(STALE[4]),
    ];
    const TIMES: [(FirstReply, CaseCachedAnswer, OracleTimeoutBehavior); 7] = [
        (FirstReply::Answered, CaseCachedAnswer::Nothing, OracleTimeoutBehavior::FailClosedBlock),
        (FirstReply::HardTimeout, CaseCachedAnswer::Tolerated, OracleTimeoutBehavior::FailOpenNarrative),
        (FirstReply::HardTimeout, CaseCachedAnswer::Tolerated, OracleTimeoutBehavior::FailClosedBlock),
        (FirstReply::HardTimeout, CaseCachedAnswer::Tolerated, OracleTimeoutBehavior::ServeStale),
        (FirstReply::HardTimeout, CaseCachedAnswer::TooOld, OracleTimeoutBehavior::ServeStale),
        (FirstReply::HardTimeout, CaseCachedAnswer::Nothing, OracleTimeoutBehavior::ServeStale),
        (FirstReply::WrongSignature, CaseCachedAnswer::Tolerated, OracleTimeoutBehavior::ServeStale),
    ];
    let cases = each(std::iter::once(PLAIN), &TIERS, |case, tiers| case.tiers = tiers);
    let cases = each(cases, ConflictStrategy::VARIANTS, |case, strategy| case.strategy = strategy);
    let cases = each(cases, &APART, |case, apart| (case.values, case.threshold) = apart);
    let cases = each(cases, &CLASSES, |case, class| case.class = class);
    let cases = each(cases, &FRESHNESS, |case, freshness| case.freshness = freshness);
    let cases = each(cases, &TIMES, |case, times| (case.reply, case.cached, case.on_timeout) = times);
    each(cases, &MODES, |case, mode| case.mode = mode)
}

/// Result of a call × cached answer × both timeout behaviors × mode × whether the budget is exceeded × freshness.
pub(super) fn time_and_budget_cases() -> impl Iterator<Item = TableCase> {
    const REPLIES: [FirstReply; 7] = [
        FirstReply::Answered,
        FirstReply::AfterHardTimeout,
        FirstReply::HardTimeout,
        FirstReply::BudgetCut,
        FirstReply::Unavailable,
        FirstReply::CircuitOpen,
        FirstReply::WrongSignature,
    ];
    const STRATEGIES: [ConflictStrategy; 3] =
        [ConflictStrategy::HigherTierWins, ConflictStrategy::RequireHuman, ConflictStrategy::DisputeSummary];
    const APART: [CaseValues; 2] = [CaseValues::Same, CaseValues::FirstMore];
    const FRESHNESS: [CaseFreshness; 2] =
        [CaseFreshness::Fresh, CaseFreshness::Stale(StaleBehavior::FailClosed)];
    let cases = each(std::iter::once(PLAIN), &REPLIES, |case, reply| case.reply = reply);
    let cases = each(cases, &KEPT, |case, stored| case.cached = stored);
    let cases = each(cases, &ON_TIMEOUT, |case, on_timeout| case.on_timeout = on_timeout);
    let cases = each(cases, &ON_BUDGET, |case, on_budget| case.on_budget = on_budget);
    let cases = each(cases, &[false, true], |case, too_long| case.takes_too_long = too_long);
    let cases = each(cases, &APART, |case, values| case.values = values);
    let cases = each(cases, &STRATEGIES, |case, strategy| case.strategy = strategy);
    let cases = each(cases, &FRESHNESS, |case, freshness| case.freshness = freshness);
    each(cases, &MODES, |case, mode| case.mode = mode)
}

/// Claims and locks × class × tiers × values × strategies × mode × whether the first oracle answers.
pub(super) fn claim_and_reviewer_cases() -> impl Iterator<Item = TableCase> {
    const STRATEGIES: [ConflictStrategy; 3] =
        [ConflictStrategy::HigherTierWins, ConflictStrategy::MostRecent, ConflictStrategy::WeightedAverage];
    const CLAIMS: [CaseClaim; 4] =
        [CaseClaim::None, CaseClaim::AsFirst, CaseClaim::Other, CaseClaim::OtherConfirmed];
    const STATES: [(FirstReply, CaseFreshness); 3] = [
        (FirstReply::Answered, CaseFreshness::Fresh),
        (FirstReply::Answered, CaseFreshness::Stale(StaleBehavior::FailClosed)),
        (FirstReply::HardTimeout, CaseFreshness::Fresh),
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

impl TableCase {
    /// The requested axis.
    fn axis(&self) -> &'static str {
        match self.class {
            AxisClass::Measured => "dose",
            AxisClass::SelfReported => "weight",
        }
    }

    pub(super) fn stated_values(&self) -> (&'static str, &'static str) {
        match self.values {
            CaseValues::Same => ("10", "10.04"),
            CaseValues::FirstMore => ("12", "10"),
            CaseValues::FirstLess => ("10", "12"),
        }
    }

    pub(super) fn value_in(&self, envelope: &Envelope) -> Option<String> {
        envelope.axes.get(self.axis())?.value.as_ref().map(ToString::to_string)
    }

    pub(super) fn inputs(&self) -> DecisionInputs {
        let axis = self.axis();
        let always_human = if self.always_human { vec![axis] } else { Vec::new() };
        let threshold = match self.threshold {
            CaseThreshold::None => json!(null),
            CaseThreshold::Kept => json!(2),
            CaseThreshold::Exceeded => json!("1.5"),
        };
        let (mode, stage) = match self.mode {
            CaseMode::Inline => (EnforcementMode::Inline, DecisionStage::First),
            CaseMode::AsyncAtFirst => (EnforcementMode::Async, DecisionStage::First),
            CaseMode::AsyncLater => (EnforcementMode::Async, DecisionStage::Delayed),
            CaseMode::NonAuthoritative => (EnforcementMode::NonAuthoritativeOnly, DecisionStage::First),
        };
        let tolerance =
            if self.on_timeout == OracleTimeoutBehavior::ServeStale { json!(600) } else { json!(null) };
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
            CaseClaim::None => json!({}),
            CaseClaim::AsFirst => claimed(self.stated_values().0, false),
            CaseClaim::Other => claimed("99", false),
            CaseClaim::OtherConfirmed => claimed("99", true),
        };
        let mut inputs = inputs(workflow, &[axis], more);
        inputs.stage = stage;
        inputs.elapsed_ms = if self.takes_too_long { 3001 } else { 3000 };
        axis_of(&mut inputs, axis).state_sensitive = self.freshness == CaseFreshness::Expired;
        answers(&mut inputs, "second", self.tiers.1, &[(axis, self.stated_values().1)]);
        inputs.calls.insert("first".parse().expect("a valid id"), self.first_call());
        inputs.locks.extend(self.is_locked.then(|| self.lock(&inputs)));
        inputs
    }

    fn first_call(&self) -> crate::OracleCall {
        let mut candidate = self.candidate();
        let mut latency_ms = 100;
        let reply = match self.reply {
            FirstReply::Answered => OracleReply::Answered { candidate: Box::new(candidate.clone()) },
            FirstReply::AfterHardTimeout => {
                latency_ms = 5001;
                OracleReply::Answered { candidate: Box::new(candidate.clone()) }
            }
            FirstReply::HardTimeout => OracleReply::TimedOut { cut: CallTimeLimit::HardTimeout },
            FirstReply::BudgetCut => OracleReply::TimedOut { cut: CallTimeLimit::Budget },
            FirstReply::Unavailable => {
                OracleReply::Failed { failure: CallFailure::Unavailable, cause: "status 502".into() }
            }
            FirstReply::CircuitOpen => OracleReply::CircuitOpen { retry_after_ms: Some(30_000) },
            FirstReply::WrongSignature => {
                OracleReply::Refused { refusal: AnswerFault::Signature, cause: "it does not hold".into() }
            }
        };
        let mut first = call(self.tiers.0, &[self.axis()], reply);
        first.latency_ms = latency_ms;
        if self.cached == CaseCachedAnswer::TooOld {
            candidate.observed_at = ago(601);
        }
        first.kept = (self.cached != CaseCachedAnswer::Nothing).then(|| Box::new(candidate));
        first
    }

    fn candidate(&self) -> CandidateAnswer {
        let mut candidate = candidate("first", &[(self.axis(), self.stated_values().0)]);
        // the other one was verified later
        candidate.record.verified_at = ago(100);
        candidate.observed_at = ago(100);
        match self.freshness {
            CaseFreshness::Fresh => {}
            CaseFreshness::Stale(behavior) => {
                candidate.freshness[0].stale = true;
                candidate.freshness[0].stale_behavior = behavior;
            }
            CaseFreshness::Expired => candidate.record.ttl_seconds = Some(60),
        }
        candidate
    }

    /// A lock with the value 7.
    fn lock(&self, inputs: &DecisionInputs) -> HumanLock {
        HumanLock {
            review_id: "verify:0".into(),
            workflow_id: inputs.workflow.workflow_id.clone(),
            ontology: inputs.workflow.ontology.clone(),
            subject: sample_subject(),
            known_at: None,
            point_in_time: None,
            axis: self.axis().into(),
            value: domain_ground::value::AxisValue::Text("7".into()),
            definition: None,
            verifier_id: "1000".into(),
            verifier_name: None,
            reason: "seen on paper".into(),
            verified_at: ago(60),
            valid_until: now() + jiff::SignedDuration::from_secs(60),
            evidence_hash: domain_base::digest::Sha256Hex::of(b""),
        }
    }

    /// The tier at which the first oracle's answer counts.
    pub(super) fn first_tier(&self) -> VerificationTier {
        let tier = VerificationTier::from(self.tiers.0);
        if self.freshness == CaseFreshness::Stale(StaleBehavior::DegradeTier) { tier.lower() } else { tier }
    }
}
