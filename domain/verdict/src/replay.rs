//! The replay of decisions: each logged decision is computed again from its inputs, and compared.
//!
//! The inputs are in the log, except for texts: those of delivered verdicts, with their facts, are stored beside it. If an input
//! is missing, the outcome names it.

use crate::crosscheck::{
    ApprovedVerdict, CrosscheckDecision, CrosscheckInspection, CrosscheckReason, UnexpectedFieldHandling,
    decide_with, inspect_with_cut, judge_with,
};
use crate::divergence::{
    DivergenceCheck, LabelComparison, OriginalLabel, RegenVariance, RegenVarianceWindow, VARIANCE_THRESHOLD,
};
use crate::event::{
    InfrastructureVariance, PolicyApplied, RegenDivergenceCheck, TmmCrosscheck, VerdictCached,
};
use crate::flag::Flag;
use crate::label::{ProductTier, VerdictLabel};
use crate::opinion::{OpinionTally, OrderOpinion};
use crate::policy::PolicyCause;
use crate::rules_gate::examine;
use crate::session::SessionRecord;
use crate::tmm::{OMEGA, PHI};
use domain_audit::leaf::LogLineError;
use domain_audit::replay::{
    LoggedDecision, MemberDifference, MissingInput, ReplayOutcome, ReplayStop, ReplayedDecision,
};
use domain_base::digest::Sha256Hex;
use domain_base::event::Event;
use domain_base::payload::VerdictPayload;
use domain_base::session_id::SessionId;
use domain_rules::event::{RuleEntry, RulesEntry, RulesEvaluated};
use domain_rules::{CandidateCheck, FactSet, RuleSettings, RuleVerdict};
use domain_verification::event::{ReviewOpened, SourceAsked, VerificationDecided};
use domain_verification::replay::{VerificationHistory, continues_calls};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use std::collections::VecDeque;

/// The events that are decisions, which are computed again.
const REPLAYED: &[&str] = &[
    TmmCrosscheck::NAME,
    RulesEvaluated::NAME,
    PolicyApplied::NAME,
    OrderOpinion::NAME,
    VerdictCached::NAME,
    RegenDivergenceCheck::NAME,
    InfrastructureVariance::NAME,
    SourceAsked::NAME,
    VerificationDecided::NAME,
    ReviewOpened::NAME,
];

/// The entry with this line; `None` if it is no decision.
///
/// # Errors
/// The line is not an entry.
pub fn read_decision(line: &str) -> Result<Option<LoggedDecision<'_>>, LogLineError> {
    LoggedDecision::read(line, REPLAYED)
}

/// The replay of the decisions of a log, in their order.
#[derive(Debug)]
pub struct DecisionReplay {
    /// Whether all entries of the log are replayed.
    is_whole: bool,
    verdicts: VerdictHistory,
    verifications: VerificationHistory,
}

impl DecisionReplay {
    /// A replay of all decisions of a log if `is_whole`, else of some of them.
    #[must_use]
    pub fn new(is_whole: bool) -> Self {
        Self { is_whole, verdicts: VerdictHistory::default(), verifications: VerificationHistory::default() }
    }

    /// Notes that entries before the next one are missing.
    pub fn note_missing_entries(&mut self) {
        self.is_whole = false;
    }

    /// Replays the next decision. `stored` is the verdict that its session had after the commit of the decision. Calls of
    /// sources are replayed with the decision that follows from them.
    pub fn add(
        &mut self,
        entry: &LoggedDecision<'_>,
        stored: Option<&StoredVerdict>,
    ) -> Vec<ReplayedDecision> {
        let mut replayed =
            if continues_calls(entry.event) { Vec::new() } else { self.verifications.end_calls() };
        let outcome = match entry.event {
            SourceAsked::NAME => {
                replayed.extend(self.verifications.add_call(entry));
                return replayed;
            }
            VerificationDecided::NAME => {
                replayed.extend(self.verifications.decide(entry, self.is_whole));
                return replayed;
            }
            TmmCrosscheck::NAME => self.verdicts.crosscheck(entry, stored),
            RulesEvaluated::NAME => replay_rules(entry, stored),
            PolicyApplied::NAME => self.verdicts.policy(entry),
            OrderOpinion::NAME => replay_opinion(entry),
            VerdictCached::NAME => self.verdicts.cached(entry, stored),
            RegenDivergenceCheck::NAME => self.verdicts.divergence(entry, stored),
            InfrastructureVariance::NAME => self.verdicts.variance(entry),
            _ => self.verifications.review(entry),
        };
        let outcome = outcome.unwrap_or_else(ReplayOutcome::from);
        replayed.push(ReplayedDecision { seq: entry.seq, event: entry.event, outcome });
        replayed
    }

    /// Ends the replay. Returns the calls whose decision is missing.
    pub fn finish(mut self) -> Vec<ReplayedDecision> {
        self.verifications.end_calls()
    }
}

/// The member with the SHA-256 of the evaluation that permitted a delivery.
const EVALUATION: &str = "evaluation_sha256";
/// The number of latest variances with which an escalation is compared.
const VARIANCES_MAX: usize = 256;

/// The verdict of a session, as it is stored or was delivered.
#[derive(Debug)]
pub struct StoredVerdict {
    /// The text of the verdict.
    pub verdict: Box<RawValue>,
    /// The SHA-256 of the evaluation that the delivery names. The verdict's card shows that evaluation.
    pub evaluation_sha256: Option<Sha256Hex>,
    /// The session, unless it was changed after the verdict was stored.
    pub session: Option<SessionRecord>,
}

impl StoredVerdict {
    /// Reads the stored document of a delivered verdict.
    ///
    /// # Errors
    /// The document is malformed.
    pub fn read(delivery: &[u8], session: Option<SessionRecord>) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct DeliveredText {
            verdict: Box<RawValue>,
            #[serde(default)]
            evaluation_sha256: Option<Sha256Hex>,
        }
        let DeliveredText { verdict, evaluation_sha256 } = serde_json::from_slice(delivery)?;
        Ok(Self { verdict, evaluation_sha256, session })
    }

    fn has_sha256(&self, sha256: &Sha256Hex) -> bool {
        Sha256Hex::of(self.verdict.get().as_bytes()) == *sha256
    }

    /// The verdict, if the gate approves it for `tier`.
    fn approve(&self, tier: ProductTier) -> Option<ApprovedVerdict> {
        let payload = VerdictPayload::json(&self.verdict);
        judge_with(UnexpectedFieldHandling::Deliver, tier, payload).outcome.ok()
    }
}

/// The earlier decisions from which later ones follow.
#[derive(Debug, Default)]
struct VerdictHistory {
    /// The last crosscheck: the SHA-256 of its text, its flags and its score.
    crosscheck: Option<(Sha256Hex, Vec<Flag>, f64)>,
    /// The last verdict that was stored.
    cached: Option<(Option<SessionId>, Sha256Hex, VerdictLabel)>,
    regens: RegenVarianceWindow,
    variances: VecDeque<RegenVariance>,
}

impl VerdictHistory {
    fn crosscheck(
        &mut self,
        entry: &LoggedDecision<'_>,
        stored: Option<&StoredVerdict>,
    ) -> Result<ReplayOutcome, ReplayStop> {
        self.crosscheck = None;
        let reason: CrosscheckReason = entry.read_member("crosscheck_reason")?;
        let label: Option<VerdictLabel> = entry.read_member("verdict_label")?;
        let (evidence, v_r, e_d): (f64, f64, f64) =
            (entry.read_member("v_t")?, entry.read_member("v_r")?, entry.read_member("e_d")?);
        if entry.is_hidden("flags") {
            // the score follows from the three values; the reason names the flags that it depends on
            let flags = match reason {
                CrosscheckReason::DimensionConflict => vec![Flag::VerdictConflict],
                CrosscheckReason::UnexpectedField => vec![Flag::UnexpectedField(String::new())],
                _ => Vec::new(),
            };
            let inspection = CrosscheckInspection::of(evidence, label, flags);
            let inspection = CrosscheckInspection { v_r: v_r.max(0.0), e_d: e_d.max(0.0), ..inspection };
            let differences = entry.compare(&crosscheck_members(reason, &inspection));
            return Ok(ReplayOutcome::of(differences, Some(entry.missing_values(["flags"]))));
        }
        let flags: Vec<Flag> = entry.read_member("flags")?;
        let sha256: Sha256Hex = entry.read_member("verdict_sha256")?;
        self.crosscheck = Some((sha256.clone(), flags.clone(), entry.read_member("coherence_score")?));
        let no_label = [Flag::MalformedJson, Flag::VerdictMissing, Flag::VerdictInvalid];
        let label = label.filter(|_| !flags.iter().any(|flag| no_label.contains(flag)));
        // the decision adds this flag
        let flags = flags.into_iter().filter(|flag| *flag != Flag::DegenerateManifold).collect();
        let mut inspection = CrosscheckInspection::of(evidence, label, flags);
        let text = stored.filter(|stored| stored.has_sha256(&sha256));
        if let Some(text) = text {
            inspection = inspect_with_cut(entry.read_member("tier")?, &text.verdict, inspection.flags);
        }
        let missing = match text {
            Some(_) => None,
            None if entry.value("approved") == false => Some(MissingInput::RejectedText),
            None => Some(MissingInput::VerdictText),
        };
        Ok(ReplayOutcome::of(entry.compare(&crosscheck_members(reason, &inspection)), missing))
    }

    fn policy(&self, entry: &LoggedDecision<'_>) -> Result<ReplayOutcome, ReplayStop> {
        let causes: Vec<PolicyCause> = entry.read_member("causes")?;
        let sha256: Sha256Hex = entry.read_member("verdict_sha256")?;
        let Some((_, flags, score)) = self.crosscheck.as_ref().filter(|(judged, ..)| *judged == sha256)
        else {
            return Ok(ReplayOutcome::NotReproducible(MissingInput::OtherEntries));
        };
        let applying: Vec<_> = causes.iter().filter(|cause| cause.applies(flags, *score)).collect();
        let differences = entry.compare(&json!({ "causes": applying }));
        Ok(ReplayOutcome::of(differences, Some(MissingInput::Configuration)))
    }

    fn cached(
        &mut self,
        entry: &LoggedDecision<'_>,
        stored: Option<&StoredVerdict>,
    ) -> Result<ReplayOutcome, ReplayStop> {
        self.cached = None;
        let sha256: Sha256Hex = entry.read_member("verdict_sha256")?;
        let label: VerdictLabel = entry.read_member("verdict_label")?;
        self.cached = Some((entry.session_id.clone(), sha256.clone(), label));
        let Some(text) = stored.filter(|stored| stored.has_sha256(&sha256)) else {
            return Ok(ReplayOutcome::NotReproducible(MissingInput::VerdictText));
        };
        let approved = text.approve(entry.read_member("tier")?);
        let label = approved.as_ref().map(ApprovedVerdict::label);
        let mut differences = entry.compare(&json!({ "verdict_label": label }));
        // entries of earlier versions name no evaluation
        if !entry.value(EVALUATION).is_null() {
            differences.extend(entry.compare(&json!({ EVALUATION: text.evaluation_sha256 })));
        }
        let is_hidden = entry.is_hidden(EVALUATION);
        Ok(ReplayOutcome::of(differences, is_hidden.then(|| entry.missing_values([EVALUATION]))))
    }

    fn divergence(
        &mut self,
        entry: &LoggedDecision<'_>,
        stored: Option<&StoredVerdict>,
    ) -> Result<ReplayOutcome, ReplayStop> {
        let original: OriginalLabel = entry.read_member("original_verdict")?;
        let regenerated: VerdictLabel = entry.read_member("regen_verdict")?;
        let check: Result<DivergenceCheck, _> = serde_json::from_str(entry.line);
        if let Ok(check) = &check {
            self.regens.note(check);
            if self.variances.len() == VARIANCES_MAX {
                self.variances.pop_front();
            }
            self.variances.push_back(self.regens.variance());
        }
        let mut differences = entry.compare(&LabelComparison::of(original, regenerated));
        // the entry of the verdict's storage is in the same commit
        let cached = self.cached.as_ref().filter(|(session_id, ..)| *session_id == entry.session_id);
        if let Some((_, sha256, label)) = cached {
            differences.extend(entry.compare(&json!({ "regen_verdict": label })));
            let stored = stored.filter(|stored| stored.has_sha256(sha256));
            if let Some(session) = stored.and_then(|stored| stored.session.as_ref()) {
                let first = session.original.as_ref().map(|original| original.verdict_label);
                differences.extend(entry.compare(&json!({ "original_verdict": OriginalLabel(first) })));
            }
        }
        Ok(ReplayOutcome::of(differences, None))
    }

    /// An escalation, if all entries before it were replayed.
    fn variance(&self, entry: &LoggedDecision<'_>) -> Result<ReplayOutcome, ReplayStop> {
        let (regens, diverged): (usize, usize) =
            (entry.read_member("regens")?, entry.read_member("diverged")?);
        let variance = RegenVariance::of(regens, diverged);
        let computed = json!({ "rate": variance.rate, "escalated": true, "threshold": VARIANCE_THRESHOLD });
        let mut differences = entry.compare(&computed);
        if !variance.escalated {
            differences.extend(entry.compare(&json!({ "escalated": false })));
        }
        // regenerations at the same time are logged in another order than the watch sees them
        let missing = (!self.variances.contains(&variance)).then_some(MissingInput::RegenerationOrder);
        Ok(ReplayOutcome::of(differences, missing))
    }
}

/// The members of the entry that follow from `inspection`. The logged reason shows how members that were not judged were
/// handled.
fn crosscheck_members(reason: CrosscheckReason, inspection: &CrosscheckInspection) -> serde_json::Value {
    let unexpected = match reason {
        CrosscheckReason::UnexpectedField => UnexpectedFieldHandling::Refuse,
        _ => UnexpectedFieldHandling::Strip,
    };
    let decision = decide_with(unexpected, inspection);
    let CrosscheckDecision { approved, coherence_score, verdict_label, flags, crosscheck_reason, .. } =
        decision;
    json!({
        "verdict_label": verdict_label, "coherence_score": coherence_score, "threshold": OMEGA, "phi": PHI,
        "approved": approved, "flags": flags, "crosscheck_reason": crosscheck_reason,
        "v_t": inspection.v_t, "v_r": inspection.v_r, "e_d": inspection.e_d,
    })
}

/// Computes the agreement and the intervals again from the numbers of the labels.
fn replay_opinion(entry: &LoggedDecision<'_>) -> Result<ReplayOutcome, ReplayStop> {
    let tally = OpinionTally {
        count: entry.read_member("count")?,
        agree: entry.read_member("agree")?,
        agreed_label: None,
        shares: entry.read_member("shares")?,
    };
    let again = OpinionTally::of(tally.count, tally.agree, &tally.numbers());
    let differences = entry.compare(&json!({ "agreed_label": again.agreed_label, "shares": again.shares }));
    Ok(ReplayOutcome::of(differences, None))
}

fn replay_rules(
    entry: &LoggedDecision<'_>,
    stored: Option<&StoredVerdict>,
) -> Result<ReplayOutcome, ReplayStop> {
    let rules: Vec<RuleEntry> = entry.read_member("rules")?;
    let verdict = RuleVerdict::combine(rules.iter().map(|rule| rule.verdict));
    let overall = entry.compare(&json!({ "verdict": verdict }));
    let digests = ["candidate_sha256", "facts_sha256", "facts_from", "input_sha256", "evaluation_sha256"];
    let missing = if digests.iter().any(|name| entry.is_hidden(name)) {
        entry.missing_values(digests)
    } else {
        match evaluate_again(entry, &rules, stored)? {
            Some(differences) => return Ok(ReplayOutcome::of(differences, None)),
            None => MissingInput::TextAndFacts,
        }
    };
    Ok(ReplayOutcome::of(overall, Some(missing)))
}

/// Evaluates the stored text with the check of its session. `None` if they are not those of the entry.
fn evaluate_again(
    entry: &LoggedDecision<'_>,
    rules: &[RuleEntry],
    stored: Option<&StoredVerdict>,
) -> Result<Option<Vec<MemberDifference>>, ReplayStop> {
    let found = stored.and_then(|stored| Some((stored, stored.session.as_ref()?)));
    let Some((stored, session)) = found else { return Ok(None) };
    let Some(approved) = stored.approve(session.tier) else { return Ok(None) };
    // the policy can add rules to those of the session's check; the entry names all of them
    let rules = Some(rules.iter().map(|rule| rule.rule).collect());
    let check = session.check.as_deref().cloned().unwrap_or_default();
    let check = CandidateCheck { rules, ..check };
    let evaluation =
        examine(approved, &check, &FactSet::compile(&check.facts), &RuleSettings::default()).evaluation;
    let logged = |name: &str| entry.read_member::<Sha256Hex>(name);
    let is_of_entry = logged("candidate_sha256")? == evaluation.candidate_sha256
        && logged("facts_sha256")? == evaluation.facts_sha256
        && (logged("input_sha256")? == evaluation.input_sha256
            || logged("evaluation_sha256")? == evaluation.sha256);
    if !is_of_entry {
        return Ok(None);
    }
    let case_id = if entry.is_hidden("case_id") { None } else { entry.read_member("case_id")? };
    let mut computed = RulesEntry { case_id, ..RulesEntry::of(&evaluation, entry.read_member("path")?) };
    // entries of earlier versions have no references
    if entry.value("facts_from").get("relied_on").is_none()
        && let Some(facts_from) = &mut computed.facts_from
    {
        (facts_from.relied_on, facts_from.relied_on_omitted) = (None, 0);
    }
    Ok(Some(entry.compare_all(&computed)))
}

#[cfg(test)]
mod tests;
