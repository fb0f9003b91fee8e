//! Backtest: the logged decisions of the gate, calculated again with another policy, other rules or the facts of another day.
//!
//! A decision is calculated by the functions of the gate from the stored text. Without a text, it is calculated from the flags, the
//! evidence and the results of rules in the log, as far as these determine it.

use crate::crosscheck::{
    CrosscheckDecision, CrosscheckInspection, UnexpectedFieldHandling, decide_with, inspect_with_cut,
    judge_with,
};
use crate::delivery::VerdictDelivery;
use crate::event::{CrosscheckError, PolicyApplied, TmmCrosscheck, VerdictCached};
use crate::flag::Flag;
use crate::label::{ProductTier, VerdictLabel};
use crate::opinion::OrderOpinion;
use crate::policy::{DeliveryPolicies, PolicyAction, PolicyCause};
use crate::rules_gate::{RulesGateRejection, examine};
use crate::session::{SessionRecord, effect_of_hold};
use domain_base::digest::Sha256Hex;
use domain_base::event::{Event, event_in, read_open};
use domain_base::gate_path::GatePath;
use domain_base::moment;
use domain_base::payload::VerdictPayload;
use domain_base::session_id::SessionId;
use domain_ground::version_name::{WordlistName, WordlistRef};
use domain_rules::event::{RuleEntry, RulesEvaluated};
use domain_rules::wordlist::CompiledWordlist;
use domain_rules::{CandidateCheck, FactSet, RuleId, RuleSettings, RuleVerdict};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use strum::IntoStaticStr;

/// The most examples of each transition in a report.
pub const EXAMPLES_MAX: usize = 1000;
/// The most claims that an example quotes.
const QUOTED_CLAIMS_MAX: usize = 3;
/// The maximum length of a quoted claim, in characters.
const CLAIM_MAX_CHARS: usize = 200;

/// The decision of the gate on a verdict.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    IntoStaticStr,
    utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum GateOutcome {
    /// It may be delivered.
    Approved,
    /// The policy holds it for an operator.
    Held,
    /// The policy refuses it.
    Refused,
    /// Rules fail, or cannot be applied.
    Failed,
    /// The crosscheck rejects it.
    Rejected,
}

/// Why a decision cannot be calculated again.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    IntoStaticStr,
    utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum NotCalculatedCause {
    /// The values of its entry were erased.
    Erased,
    /// The result depends on a text that is not stored: that of a rejected or held verdict, or of one that was purged or replaced.
    TextNotStored,
    /// The result depends on facts that are not stored.
    FactsNotStored,
    /// The facts of another day are asked for, and its facts are from a verification, which is a decision over several sources.
    Verification,
    /// The facts of another day are asked for, and a source had no release that was ingested by that time.
    NoRelease,
    /// Rules would check members that were cut from the text.
    CutMembers,
    /// A request with these rules or this word list would be refused: they do not use all of what it expects, or are for another language.
    CheckRefused,
    /// An entry of it, the stored verdict, its session or a source cannot be read.
    Damaged,
    /// The calculation failed by an internal error.
    InternalError,
}

/// A decision of the gate, as it was logged.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct LoggedGateDecision {
    /// The number of the entry `tmm_crosscheck`.
    pub seq: u64,
    /// The session; `None` if it was erased.
    #[serde(default, deserialize_with = "read_open")]
    pub session_id: Option<SessionId>,
    pub timestamp: Timestamp,
    pub tier: ProductTier,
    path: GatePath,
    approved: bool,
    verdict_label: Option<VerdictLabel>,
    #[serde(default, deserialize_with = "read_open")]
    flags: Option<Vec<Flag>>,
    v_t: f64,
    pub verdict_sha256: Sha256Hex,
    /// The last evaluation by rules.
    #[serde(skip)]
    rules: Option<LoggedRules>,
    #[serde(skip)]
    policy: Option<LoggedPolicy>,
    /// Whether an entry after it, which can be of the same decision, cannot be read.
    #[serde(skip)]
    is_damaged: bool,
}

/// An evaluation of a verdict by rules, as it was logged.
#[derive(Debug, Clone, PartialEq, Deserialize)]
struct LoggedRules {
    #[serde(default, deserialize_with = "read_open")]
    session_id: Option<SessionId>,
    verdict: RuleVerdict,
    rules: Vec<RuleEntry>,
    #[serde(default, deserialize_with = "read_open")]
    facts_sha256: Option<Sha256Hex>,
}

/// The action of a policy, as it was logged.
#[derive(Debug, Clone, PartialEq, Deserialize)]
struct LoggedPolicy {
    action: PolicyAction,
    #[serde(default, deserialize_with = "read_open")]
    causes: Option<Vec<PolicyCause>>,
}

/// The text that an entry is about, and its session; `None` if it was erased.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
struct LoggedText {
    #[serde(default, deserialize_with = "read_open")]
    session_id: Option<SessionId>,
    verdict_sha256: Sha256Hex,
}

/// Reads the decisions of the gate from entries of the log in their order. The entries of a decision follow one another, except those of
/// opinions: the gate decides on one of them when they agree.
#[derive(Debug, Default)]
pub struct GateDecisionReader {
    current: Option<LoggedGateDecision>,
    /// The opinions on which the gate has not decided.
    opinions: BTreeMap<LoggedText, LoggedGateDecision>,
}

impl GateDecisionReader {
    /// Reads an entry. Returns the decision before it, if it is complete.
    ///
    /// # Errors
    /// The line is no entry.
    pub fn read(&mut self, line: &str) -> Result<Option<LoggedGateDecision>, serde_json::Error> {
        let event = event_in(line);
        match (event, self.current.as_mut()) {
            (Some(TmmCrosscheck::NAME), _) => {
                let next: LoggedGateDecision = serde_json::from_str(line)?;
                let is_delivery = !matches!(next.path, GatePath::Check | GatePath::Try);
                return Ok(std::mem::replace(&mut self.current, is_delivery.then_some(next)));
            }
            (Some(RulesEvaluated::NAME), Some(current)) => {
                let rules: LoggedRules = serde_json::from_str(line)?;
                if rules.session_id == current.session_id {
                    current.rules = Some(rules);
                    return Ok(None);
                }
            }
            (Some(PolicyApplied::NAME), _) => {
                let (policy, text): (LoggedPolicy, LoggedText) =
                    (serde_json::from_str(line)?, serde_json::from_str(line)?);
                let (before, decided) = self.take_decided(&text);
                self.current = decided.map(|decided| LoggedGateDecision { policy: Some(policy), ..decided });
                return Ok(before);
            }
            (Some(OrderOpinion::NAME), Some(_)) => {
                let text: LoggedText = serde_json::from_str(line)?;
                if let Some(opinion) = self.current.take_if(|current| current.is_about(&text)) {
                    // the first answer with a text is the one that may be delivered
                    self.opinions.entry(text).or_insert(opinion);
                }
            }
            (Some(VerdictCached::NAME), None) if !self.opinions.is_empty() => {
                let text: LoggedText = serde_json::from_str(line)?;
                let (_, delivered) = self.take_decided(&text);
                self.opinions.retain(|opinion, _| opinion.session_id != text.session_id);
                return Ok(delivered);
            }
            // the rules could not be applied, and the caller got an error
            (Some(CrosscheckError::NAME), _) => self.current = None,
            _ => {}
        }
        Ok(self.current.take())
    }

    /// Skips an entry that cannot be read. `line` is its line, if there is one. Returns the decision before it, which is complete only if the
    /// entry begins another one.
    pub fn skip(&mut self, line: Option<&str>) -> Option<LoggedGateDecision> {
        let is_next = line.and_then(event_in) == Some(TmmCrosscheck::NAME);
        let current = self.current.take()?;
        Some(LoggedGateDecision { is_damaged: !is_next, ..current })
    }

    /// The decision on `text`, and before it the current one if that is another.
    fn take_decided(
        &mut self,
        text: &LoggedText,
    ) -> (Option<LoggedGateDecision>, Option<LoggedGateDecision>) {
        match self.current.take() {
            Some(current) if current.is_about(text) => (None, Some(current)),
            before => (before, self.opinions.remove(text)),
        }
    }

    /// The last decision.
    #[must_use]
    pub fn finish(self) -> Option<LoggedGateDecision> {
        self.current
    }
}

impl LoggedGateDecision {
    fn is_about(&self, text: &LoggedText) -> bool {
        self.session_id == text.session_id && self.verdict_sha256 == text.verdict_sha256
    }

    #[must_use]
    pub fn outcome(&self) -> GateOutcome {
        let is_failed = self.rules.as_ref().is_some_and(|rules| rules.verdict != RuleVerdict::Pass);
        match self.policy.as_ref().map(|policy| policy.action) {
            _ if !self.approved => GateOutcome::Rejected,
            _ if is_failed => GateOutcome::Failed,
            Some(PolicyAction::Hold) => GateOutcome::Held,
            Some(PolicyAction::Refuse) => GateOutcome::Refused,
            None => GateOutcome::Approved,
        }
    }

    /// Whether a check can have been in force without an evaluation in the log: rules follow only after the approval.
    #[must_use]
    pub fn can_have_check(&self) -> bool {
        self.rules.is_some() || !self.approved
    }

    /// A check with the rules that were applied, if all have passed.
    fn passed_rules(&self) -> Option<Arc<CandidateCheck>> {
        let rules = self.rules.as_ref().filter(|rules| rules.verdict == RuleVerdict::Pass)?;
        let rules = Some(rules.rules.iter().map(|entry| entry.rule).collect());
        Some(Arc::new(CandidateCheck { rules, ..CandidateCheck::default() }))
    }

    fn causes(&self) -> Vec<DecisionCause> {
        match self.outcome() {
            GateOutcome::Approved => Vec::new(),
            GateOutcome::Rejected => DecisionCause::of_flags(self.flags.iter().flatten()),
            GateOutcome::Failed => {
                DecisionCause::of_rules(self.rules.iter().flat_map(|rules| rules.rules.iter()))
            }
            GateOutcome::Held | GateOutcome::Refused => {
                let causes = self.policy.iter().filter_map(|policy| policy.causes.as_ref()).flatten();
                causes.map(DecisionCause::of_policy).collect()
            }
        }
    }
}

/// A cause of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecisionCause {
    /// The name of a flag, a minimum coherence, or a rule.
    pub name: String,
    /// The number of claims that a rule finds fault with.
    pub claims: u64,
}

impl DecisionCause {
    fn named(name: impl ToString) -> Self {
        Self { name: name.to_string(), claims: 0 }
    }

    /// The model chooses the names of unexpected members, so they count as one cause.
    fn of_flag(flag: &Flag) -> Self {
        if flag.is_unexpected() { Self::named(flag.into_str()) } else { Self::named(flag) }
    }

    fn of_flags<'f>(flags: impl Iterator<Item = &'f Flag>) -> Vec<Self> {
        let mut causes: Vec<_> = flags.map(Self::of_flag).collect();
        causes.dedup();
        causes
    }

    fn of_policy(cause: &PolicyCause) -> Self {
        match cause {
            PolicyCause::Flag(flag) => Self::of_flag(flag),
            PolicyCause::CoherenceMin(_) => Self::named(cause),
        }
    }

    fn of_rules<'r>(rules: impl Iterator<Item = &'r RuleEntry>) -> Vec<Self> {
        let failed = rules.filter(|entry| entry.verdict != RuleVerdict::Pass);
        failed.map(|entry| Self::named(entry.rule)).collect()
    }
}

/// The gate with which decisions are calculated.
#[derive(Debug)]
pub struct WhatIfGate<'g> {
    pub unexpected_fields: UnexpectedFieldHandling,
    pub policies: &'g DeliveryPolicies,
    /// The rules in place of those of each request with facts.
    pub rules: Option<&'g [RuleId]>,
    /// The word list in place of that of each request with facts.
    pub wordlist: Option<Arc<CompiledWordlist>>,
    /// Whether it has other rules, another word list or the facts of another day.
    pub changes_checks: bool,
    pub settings: &'g RuleSettings,
}

/// The stored data of the session of a decision.
#[derive(Debug, Default)]
pub struct StoredInputs {
    pub session: Option<SessionRecord>,
    pub delivery: Option<VerdictDelivery>,
    /// The check of the session, or the one that rejected its verdict.
    pub check: Option<Arc<CandidateCheck>>,
    /// The same with the facts of another day, if they are asked for.
    pub check_on_day: Option<Result<CandidateCheck, NotCalculatedCause>>,
}

/// A decision that was calculated again.
#[derive(Debug, Clone, PartialEq)]
pub struct CalculatedDecision {
    pub outcome: GateOutcome,
    /// Whether the text was available.
    pub is_from_text: bool,
    pub causes: Vec<DecisionCause>,
    /// The texts of the first claims that rules find fault with.
    pub claims: Vec<String>,
}

/// The faults that rules find.
#[derive(Default)]
struct RuleFaults {
    causes: Vec<DecisionCause>,
    claims: Vec<String>,
}

impl WhatIfGate<'_> {
    /// Calculates a decision as the gate would decide now.
    ///
    /// # Errors
    /// The cause for which that is not possible.
    pub fn calculate(
        &self,
        logged: &LoggedGateDecision,
        stored: &StoredInputs,
    ) -> Result<CalculatedDecision, NotCalculatedCause> {
        let session_id = logged.session_id.as_ref().ok_or(NotCalculatedCause::Erased)?;
        if logged.is_damaged {
            return Err(NotCalculatedCause::Damaged);
        }
        let text = stored.delivery.as_ref().filter(|found| *found.approved.sha256() == logged.verdict_sha256);
        let inspection = inspection_of(logged, text)?;
        let decision = decide_with(self.unexpected_fields, &inspection);
        let calculated = |outcome, causes| CalculatedDecision {
            outcome,
            is_from_text: text.is_some(),
            causes,
            claims: Vec::new(),
        };
        if !decision.approved {
            let causes = DecisionCause::of_flags(decision.flags.iter());
            return Ok(calculated(GateOutcome::Rejected, causes));
        }
        let policy = self.policies.find(session_id.application(), logged.tier);
        let required = policy.map(|policy| policy.rules.as_slice()).unwrap_or_default();
        let RuleFaults { causes, claims } = self.apply_rules(logged, stored, text, &decision, required)?;
        if !causes.is_empty() {
            return Ok(CalculatedDecision { claims, ..calculated(GateOutcome::Failed, causes) });
        }
        let original = stored.session.as_ref().and_then(|session| session.original.as_ref());
        // at its first delivery, the session had no first verdict
        let is_earlier = |at: Option<Timestamp>| at.is_none_or(|at| at < logged.timestamp);
        let original = original.filter(|original| is_earlier(original.delivered_at));
        let effect = effect_of_hold(original, &logged.verdict_sha256, logged.path);
        let applied = policy.and_then(|policy| policy.decide_in_session(&decision, effect));
        Ok(applied.map_or_else(
            || calculated(GateOutcome::Approved, Vec::new()),
            |applied| {
                let outcome = match applied.action {
                    PolicyAction::Hold => GateOutcome::Held,
                    PolicyAction::Refuse => GateOutcome::Refused,
                };
                let mut causes: Vec<_> = applied.causes.iter().map(DecisionCause::of_policy).collect();
                causes.dedup();
                calculated(outcome, causes)
            },
        ))
    }

    /// Applies the rules of the check and those that the policy requires, as the gate does. Without a text, the logged result of each
    /// rule counts, if it had the same facts.
    fn apply_rules(
        &self,
        logged: &LoggedGateDecision,
        stored: &StoredInputs,
        text: Option<&VerdictDelivery>,
        decision: &CrosscheckDecision,
        required: &[RuleId],
    ) -> Result<RuleFaults, NotCalculatedCause> {
        let own = match self.check_of(logged, stored) {
            // rules that have all passed pass again, whichever of them the request has named
            Err(NotCalculatedCause::FactsNotStored) if text.is_none() && !self.changes_checks => {
                logged.passed_rules().ok_or(NotCalculatedCause::FactsNotStored).map(Some)?
            }
            own => own?,
        };
        let Some(check) = CandidateCheck::with_required(own.as_ref(), required, self.settings) else {
            return Ok(RuleFaults::default());
        };
        let delivers_cut = |judged: &[Flag]| {
            let mut unexpected = decision.flags.iter().filter(|flag| flag.is_unexpected());
            self.unexpected_fields == UnexpectedFieldHandling::Deliver
                && unexpected.any(|flag| !judged.contains(flag))
        };
        let Some(delivery) = text else {
            if delivers_cut(&[]) {
                return Err(NotCalculatedCause::CutMembers);
            }
            let facts = |check: &CandidateCheck| FactSet::sha256_of(&check.facts);
            let has_same_facts = match &stored.check_on_day {
                Some(Ok(on_day)) => stored.check.as_deref().map(facts) == Some(facts(on_day)),
                _ => true,
            };
            let logged = logged.rules.as_ref().filter(|_| has_same_facts && self.wordlist.is_none());
            let logged = logged.ok_or(NotCalculatedCause::TextNotStored)?;
            let result = |rule: &RuleId| logged.rules.iter().find(|entry| entry.rule == *rule);
            let applied = || check.rules.iter().flatten();
            let causes = DecisionCause::of_rules(applied().filter_map(result));
            // a rule that fails decides, whatever the others find
            if causes.is_empty() && applied().any(|rule| result(rule).is_none()) {
                return Err(NotCalculatedCause::TextNotStored);
            }
            return Ok(RuleFaults { causes, claims: Vec::new() });
        };
        let payload = VerdictPayload::json(delivery.approved.verdict());
        let judgment = judge_with(self.unexpected_fields, logged.tier, payload);
        if delivers_cut(&judgment.inspection.flags) {
            return Err(NotCalculatedCause::CutMembers);
        }
        let approved = judgment.outcome.map_err(|_| NotCalculatedCause::InternalError)?;
        let examined = examine(approved, &check, &FactSet::compile(&check.facts), self.settings);
        let Err(RulesGateRejection { rejection, claims }) = examined.outcome else {
            return Ok(RuleFaults::default());
        };
        let failed = examined.evaluation.rules.iter().filter(|result| result.verdict != RuleVerdict::Pass);
        let cause = |rule: RuleId| {
            let numbered = rejection.rules.iter().find(|rejecting| rejecting.rule == rule);
            let claims = numbered.map_or(0, |rejecting| rejecting.claims.len() as u64);
            DecisionCause { claims, ..DecisionCause::named(rule) }
        };
        let cut = |text: String| text.chars().take(CLAIM_MAX_CHARS).collect();
        Ok(RuleFaults {
            causes: failed.map(|result| cause(result.rule)).collect(),
            claims: claims.into_iter().take(QUOTED_CLAIMS_MAX).map(|claim| cut(claim.text)).collect(),
        })
    }

    /// The check of the request of a decision, with the facts, the rules and the word list of this gate.
    fn check_of(
        &self,
        logged: &LoggedGateDecision,
        stored: &StoredInputs,
    ) -> Result<Option<Arc<CandidateCheck>>, NotCalculatedCause> {
        let facts_sha256 = logged.rules.as_ref().and_then(|rules| rules.facts_sha256.as_ref());
        let is_of_facts =
            |facts: &[String]| facts_sha256.is_none_or(|sha256| *sha256 == FactSet::sha256_of(facts));
        let stored_check = stored.check.as_ref().filter(|_| logged.can_have_check());
        let Some(check) = stored_check else {
            // without a check, the policy's rules are applied without facts
            return if is_of_facts(&[]) { Ok(None) } else { Err(NotCalculatedCause::FactsNotStored) };
        };
        if !is_of_facts(&check.facts) {
            return Err(NotCalculatedCause::FactsNotStored);
        }
        let on_day = stored.check_on_day.clone().transpose()?;
        if on_day.is_none() && self.rules.is_none() && self.wordlist.is_none() {
            return Ok(Some(Arc::clone(check)));
        }
        let mut check = on_day.unwrap_or_else(|| CandidateCheck::clone(check));
        if let Some(wordlist) = &self.wordlist {
            if wordlist.document().language != check.language {
                return Err(NotCalculatedCause::CheckRefused);
            }
            check.wordlist = Some(Arc::clone(wordlist));
        }
        check.rules = self.rules.map(<[RuleId]>::to_vec).or(check.rules);
        if self.rules.is_some() || self.wordlist.is_some() {
            // the stored check has the configured number, which no request has to name a rule for
            let configured = check.expected.max_unsupported_claims.take();
            check.validate(self.settings).map_err(|_| NotCalculatedCause::CheckRefused)?;
            check.expected.max_unsupported_claims = configured;
        }
        Ok(Some(Arc::new(check)))
    }
}

/// The inspection of the stored text, or else that of the entry.
fn inspection_of(
    logged: &LoggedGateDecision,
    text: Option<&VerdictDelivery>,
) -> Result<CrosscheckInspection, NotCalculatedCause> {
    if let Some(delivery) = text {
        let flags = delivery.approved.decision().flags.clone();
        return Ok(inspect_with_cut(logged.tier, delivery.approved.verdict(), flags));
    }
    let flags = logged.flags.iter().flatten().filter(|flag| **flag != Flag::DegenerateManifold).cloned();
    let flags = logged.flags.as_ref().map(|_| flags.collect()).ok_or(NotCalculatedCause::Erased)?;
    Ok(CrosscheckInspection::of(logged.v_t, logged.verdict_label, flags))
}

/// `POST /v1/what-if`. Without `gate`, the policy of the daemon's configuration applies.
#[derive(Debug, Clone, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WhatIfRequest {
    /// The text of a configuration file, in TOML. Its tables `[gate]` and `[applications.NAME.gate]` are the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<String>,
    /// The rules in place of those of each request with facts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<Vec<RuleId>>,
    /// The registered word list in place of that of each request with facts: `NAME` or `NAME@VERSION`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wordlist: Option<WordlistName>,
    /// The time as of which sources state the facts.
    #[serde(default, deserialize_with = "moment::optional", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<moment::Moment>)]
    pub facts_as_of: Option<Timestamp>,
    /// Only decisions since this time.
    #[serde(default, deserialize_with = "moment::optional", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<moment::Moment>)]
    pub since: Option<Timestamp>,
    /// Only decisions on verdicts of this tier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<ProductTier>,
}

/// A line of the answer of `POST /v1/what-if`. The last line is the report.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WhatIfLine {
    /// How much of the log was read.
    Progress(WhatIfProgress),
    /// The result.
    Report(Box<WhatIfReport>),
}

/// How much of the log was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WhatIfProgress {
    /// The number of decisions so far.
    pub decisions: u64,
    /// The first entry that is read.
    pub first_entry: u64,
    /// The last entry that was read.
    pub entry: u64,
    /// The last entry that will be read.
    pub up_to_entry: u64,
}

/// The decisions of the log that another policy, other rules or other facts would change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WhatIfReport {
    /// When the calculation began. The log was read as of this time.
    pub began_at: Timestamp,
    /// The last entry of the log at that time.
    pub up_to_entry: u64,
    /// The first entry of the log. Decisions before it were dropped.
    pub first_entry: u64,
    /// The gate of the calculation. Decisions are compared with those that the log has.
    pub now: WhatIfTerms,
    /// The number of decisions on verdicts for delivery.
    pub decisions: u64,
    /// Those that were calculated from the stored text.
    pub from_text: u64,
    /// Those that were calculated from the flags, the evidence and the results of rules in the log.
    pub from_flags: u64,
    /// Those that cannot be calculated, by cause.
    pub not_calculated: Vec<NotCalculatedCount>,
    /// The number of entries of the log that cannot be read. Their decisions are not counted.
    pub unreadable_entries: u64,
    /// Those whose result differs.
    pub changed: u64,
    /// The calculated decisions by result then and now.
    pub transitions: Vec<WhatIfTransition>,
}

/// The gate of a calculation, and the decisions that it is about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WhatIfTerms {
    /// Whether the policy is that of the request; otherwise it is that of the daemon's configuration.
    pub is_requested_gate: bool,
    /// The SHA-256 of its table `[gate]`, as hosts of a cluster compare it.
    pub gate_sha256: String,
    /// The rules in place of those of each request with facts; null for its own rules.
    pub rules: Option<Vec<RuleId>>,
    /// The word list in place of that of each request with facts; null for its own word list.
    pub wordlist: Option<WordlistRef>,
    /// The time as of which sources state the facts; null for the stored facts.
    pub facts_as_of: Option<Timestamp>,
    /// The earliest decision; null for all.
    pub since: Option<Timestamp>,
    /// The tier; null for all.
    pub tier: Option<ProductTier>,
}

/// Decisions that cannot be calculated for one cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct NotCalculatedCount {
    /// The cause.
    pub cause: NotCalculatedCause,
    /// The number of decisions.
    pub decisions: u64,
}

/// The decisions with one result then and one now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WhatIfTransition {
    /// The result in the log.
    pub then: GateOutcome,
    /// The calculated result.
    pub now: GateOutcome,
    /// The number of decisions.
    pub decisions: u64,
    /// Their share of the calculated decisions, in percent.
    pub percent: f64,
    /// The causes of the result now, or of the result then if the verdict is approved now; empty if the result is the same.
    pub causes: Vec<WhatIfCause>,
    /// The first decisions, at most 1000; empty if the result is the same.
    pub examples: Vec<WhatIfExample>,
}

/// A cause of changed decisions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WhatIfCause {
    /// A flag, a minimum coherence, or a rule.
    pub cause: String,
    /// The number of decisions.
    pub decisions: u64,
    /// The number of claims in them that a rule finds fault with; 0 if the text is not stored.
    pub claims: u64,
}

/// A decision that changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WhatIfExample {
    /// The session.
    pub session_id: SessionId,
    /// The number of the entry `tmm_crosscheck`.
    pub entry: u64,
    /// The causes.
    pub causes: Vec<String>,
    /// The first claims that rules find fault with, at most 3, each cut to 200 characters.
    pub claims: Vec<String>,
}

/// The count of decisions by result.
#[derive(Debug, Default)]
pub struct WhatIfCounts {
    pub from_text: u64,
    pub from_flags: u64,
    /// The entries that cannot be read.
    pub unreadable_entries: u64,
    not_calculated: BTreeMap<NotCalculatedCause, u64>,
    transitions: BTreeMap<(GateOutcome, GateOutcome), TransitionCount>,
}

#[derive(Debug, Default)]
struct TransitionCount {
    decisions: u64,
    /// The decisions and claims by cause.
    causes: BTreeMap<String, (u64, u64)>,
    examples: Vec<WhatIfExample>,
}

impl WhatIfCounts {
    /// Counts a decision with its result now.
    pub fn add(&mut self, logged: &LoggedGateDecision, now: Result<CalculatedDecision, NotCalculatedCause>) {
        let now = match now {
            Ok(now) => now,
            Err(cause) => return *self.not_calculated.entry(cause).or_default() += 1,
        };
        let from = if now.is_from_text { &mut self.from_text } else { &mut self.from_flags };
        *from += 1;
        let then = logged.outcome();
        let count = self.transitions.entry((then, now.outcome)).or_default();
        count.decisions += 1;
        if then == now.outcome {
            return;
        }
        let causes = if now.outcome == GateOutcome::Approved { logged.causes() } else { now.causes };
        for cause in &causes {
            let (decisions, claims) = count.causes.entry(cause.name.clone()).or_default();
            *decisions += 1;
            *claims += cause.claims;
        }
        if let Some(session_id) = logged.session_id.clone().filter(|_| count.examples.len() < EXAMPLES_MAX) {
            let causes = causes.into_iter().map(|cause| cause.name).collect();
            count.examples.push(WhatIfExample { session_id, entry: logged.seq, causes, claims: now.claims });
        }
    }

    /// Adds the counts of later decisions.
    pub fn append(&mut self, later: Self) {
        self.from_text += later.from_text;
        self.from_flags += later.from_flags;
        self.unreadable_entries += later.unreadable_entries;
        for (cause, decisions) in later.not_calculated {
            *self.not_calculated.entry(cause).or_default() += decisions;
        }
        for (key, later) in later.transitions {
            let count = self.transitions.entry(key).or_default();
            count.decisions += later.decisions;
            for (cause, (decisions, claims)) in later.causes {
                let sums = count.causes.entry(cause).or_default();
                *sums = (sums.0 + decisions, sums.1 + claims);
            }
            let rest = EXAMPLES_MAX.saturating_sub(count.examples.len());
            count.examples.extend(later.examples.into_iter().take(rest));
        }
    }

    /// The number of all decisions.
    #[must_use]
    pub fn decisions(&self) -> u64 {
        self.from_text + self.from_flags + self.not_calculated.values().sum::<u64>()
    }

    /// The decisions that cannot be calculated.
    #[must_use]
    pub fn not_calculated(&self) -> Vec<NotCalculatedCount> {
        let counts = self.not_calculated.iter();
        counts.map(|(cause, decisions)| NotCalculatedCount { cause: *cause, decisions: *decisions }).collect()
    }

    /// The calculated decisions.
    #[must_use]
    pub fn into_transitions(self) -> Vec<WhatIfTransition> {
        let calculated = self.from_text + self.from_flags;
        let transition = |((then, now), count): ((GateOutcome, GateOutcome), TransitionCount)| {
            let cause = |(cause, (decisions, claims))| WhatIfCause { cause, decisions, claims };
            let mut causes: Vec<_> = count.causes.into_iter().map(cause).collect();
            causes.sort_by_key(|cause| std::cmp::Reverse(cause.decisions));
            WhatIfTransition {
                then,
                now,
                decisions: count.decisions,
                percent: count.decisions as f64 / calculated as f64 * 100.0,
                causes,
                examples: count.examples,
            }
        };
        self.transitions.into_iter().map(transition).collect()
    }
}

#[cfg(test)]
mod tests;
