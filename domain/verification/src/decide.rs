//! The decision: computes the envelope of a question.

mod assemble;

use super::axis_settlement::{AxisSettlement, AxisStatus, is_reverification_required, settle};
use super::envelope::{Envelope, EnvelopeKind};
use super::inputs::{DecisionInputs, DecisionStage};
use super::oracle_call::CallTimeLimit;
use super::reason::AxisReason;
use super::statements::collect_statements;
use super::workflow::{BudgetExceededBehavior, ConflictGranularity, EnforcementMode, OracleTimeoutBehavior};
use crate::oracle_call::{CallFailure, OracleReply};
use crate::statements::{CollectedAnswers, MissingSource, MissingSourceReason, collect_answers};
use crate::stored_state::{CLAIMS_OPEN_MAX, OPEN_MAX, OpenReview};
use crate::verification_record::CandidateAnswer;
use crate::workflow::Workflow;
use domain_base::digest::{Sha256Hex, digest_of_json};
use domain_ground::id::SourceId;
use domain_ground::source::OracleTier;
use domain_ground::value::AxisValue;
use std::collections::{BTreeMap, BTreeSet};

/// The combined result of all axes.
struct CombinedDecision<'a> {
    /// The gravest kind of the axes.
    kind: EnvelopeKind,
    reasons: BTreeSet<AxisReason>,
    /// The requested axes, by their paths.
    settled: BTreeMap<&'a str, AxisSettlement<'a>>,
    /// The kinds of the requested axes, by their paths.
    kinds: BTreeMap<&'a str, EnvelopeKind>,
    /// The oracles in conflict on any compared axis.
    contested: BTreeSet<&'a SourceId>,
    /// The oracles to query again, with the axes and the reasons.
    reverify: BTreeMap<&'a SourceId, (BTreeSet<String>, BTreeSet<AxisReason>)>,
    /// The registered oracles whose answers are needed and missing.
    missing: Vec<&'a MissingSource<'a>>,
}

/// Whether the oracles are queried for the question of `inputs`. They are not if nothing is verified, if the
/// question does not identify one subject, or while the decision is deferred.
#[must_use]
pub fn is_query_required(inputs: &DecisionInputs) -> bool {
    let is_later = match inputs.workflow.authority_latency.enforcement_mode {
        EnforcementMode::NonAuthoritativeOnly => true,
        EnforcementMode::Async => inputs.stage == DecisionStage::First,
        EnforcementMode::Inline => false,
    };
    !is_later && inputs.unspecified_axes().is_empty()
}

/// Decides the question of `inputs`. The same inputs give the same envelope, byte for byte.
#[must_use]
pub fn decide(inputs: &DecisionInputs) -> Envelope {
    let mode = inputs.workflow.authority_latency.enforcement_mode;
    let nothing_heard = CollectedAnswers::default();
    if mode == EnforcementMode::NonAuthoritativeOnly {
        let ruling =
            CombinedDecision::without_oracles(EnvelopeKind::NarrativeOnly, AxisReason::NonAuthoritative);
        return assemble::envelope(inputs, &nothing_heard, &ruling, Vec::new());
    }
    let unfixed: Vec<_> = inputs.unspecified_axes().into_iter().map(str::to_owned).collect();
    if !unfixed.is_empty() {
        let ruling = CombinedDecision::without_oracles(
            EnvelopeKind::RequiresSpecification,
            AxisReason::SubjectNotFixed,
        );
        return assemble::envelope(inputs, &nothing_heard, &ruling, unfixed);
    }
    if mode == EnforcementMode::Async && inputs.stage == DecisionStage::First {
        let ruling = CombinedDecision::without_oracles(EnvelopeKind::Provisional, AxisReason::Deferred);
        return assemble::envelope(inputs, &nothing_heard, &ruling, Vec::new());
    }
    let collected = collect_answers(inputs);
    let ruling = CombinedDecision::of(inputs, &collected);
    let envelope = assemble::envelope(inputs, &collected, &ruling, Vec::new());
    with_review_id(inputs, envelope).unwrap_or_else(|| {
        let ruling = ruling.without_new_review();
        assemble::envelope(inputs, &collected, &ruling, Vec::new())
    })
}

/// The envelope of a question that oracles answer, without a review.
pub(super) fn without_review(inputs: &DecisionInputs) -> Envelope {
    let collected = collect_answers(inputs);
    assemble::envelope(inputs, &collected, &CombinedDecision::of(inputs, &collected), Vec::new())
}

impl<'a> CombinedDecision<'a> {
    /// The ruling over a question for which no oracle is queried.
    fn without_oracles(kind: EnvelopeKind, reason: AxisReason) -> Self {
        Self {
            kind,
            reasons: [reason].into(),
            settled: BTreeMap::new(),
            kinds: BTreeMap::new(),
            contested: BTreeSet::new(),
            reverify: BTreeMap::new(),
            missing: Vec::new(),
        }
    }

    fn of(inputs: &'a DecisionInputs, collected: &'a CollectedAnswers<'a>) -> Self {
        let requested = inputs.question.axes.iter().filter_map(|path| Some((path, inputs.axes.get(path)?)));
        let settled = requested.map(|(path, axis)| (path.as_str(), settle(inputs, collected, path, axis)));
        let mut ruling = Self {
            kind: EnvelopeKind::Blocked,
            reasons: BTreeSet::new(),
            settled: settled.collect(),
            kinds: BTreeMap::new(),
            contested: BTreeSet::new(),
            reverify: BTreeMap::new(),
            missing: Vec::new(),
        };
        ruling.contested = ruling.find_conflicting_oracles(inputs, collected);
        ruling.spread_conflicts(inputs, collected);
        ruling.collect_reverifications(inputs);
        let is_needed = |absent: &&MissingSource<'_>| {
            let open = |path: &String| {
                ruling.settled.get(path.as_str()).is_some_and(|settlement| !settlement.is_decided_by_human())
            };
            // an empty list means that the oracle may have a value for any axis
            absent.call.axes.is_empty() || absent.call.axes.iter().any(open)
        };
        // if people have decided all axes, no oracle is needed
        let missing = collected.missing.iter().filter(|_| !ruling.is_decided_by_humans(inputs));
        ruling.missing = missing.filter(is_needed).collect();
        ruling.attribute_missing_axes();
        ruling.decide_axes(inputs, collected);
        ruling
    }

    /// The oracles in conflict on any compared axis.
    fn find_conflicting_oracles(
        &self,
        inputs: &'a DecisionInputs,
        collected: &'a CollectedAnswers<'a>,
    ) -> BTreeSet<&'a SourceId> {
        let contested = self.settled.values().flat_map(|settlement| settlement.contested_by.iter().copied());
        let others = inputs.axes.iter().filter(|(path, _)| !self.settled.contains_key(path.as_str()));
        let others = others.flat_map(|(path, axis)| settle(inputs, collected, path, axis).contested_by);
        contested.chain(others).collect()
    }

    /// If a conflict affects all values of its oracles, marks the axes on which these oracles have a value.
    fn spread_conflicts(&mut self, inputs: &'a DecisionInputs, collected: &'a CollectedAnswers<'a>) {
        let again = is_reverification_required(inputs);
        let reason = match inputs.workflow.conflict_resolution.scope.granularity {
            _ if again => AxisReason::Reverification,
            ConflictGranularity::Oracle => AxisReason::OracleInvalidated,
            ConflictGranularity::Axis => return,
        };
        let contested = &self.contested;
        for (path, settlement) in &mut self.settled {
            let Some(axis) = inputs.axes.get(*path) else { continue };
            let statements = collect_statements(inputs, collected, path, axis);
            if !settlement.is_decided_by_human()
                && statements.oracles().any(|oracle_id| contested.contains(oracle_id))
            {
                settlement.add(reason);
            }
        }
    }

    /// Records the oracles to query again: oracles in conflict, for all their axes, if the workflow requires it; and
    /// oracles whose value has expired.
    fn collect_reverifications(&mut self, inputs: &'a DecisionInputs) {
        for oracle_id in self.contested.iter().filter(|_| is_reverification_required(inputs)) {
            let axes = inputs.calls.get(*oracle_id).map(|call| call.axes.iter().cloned().collect());
            let reasons = [AxisReason::Reverification].into();
            self.reverify.insert(oracle_id, (axes.unwrap_or_default(), reasons));
        }
        for (path, settlement) in &self.settled {
            for oracle_id in &settlement.expired {
                let (axes, reasons) = self.reverify.entry(oracle_id).or_default();
                axes.insert((*path).to_owned());
                reasons.insert(AxisReason::Expired);
            }
        }
    }

    /// Attributes axes without a trusted value to the oracles that were asked for them and did not answer,
    /// because their values are unknown.
    fn attribute_missing_axes(&mut self) {
        for (path, settlement) in &mut self.settled {
            if !settlement.reasons.iter().any(|reason| reason.is_all_answers_required()) {
                continue;
            }
            let is_asked = |absent: &&&MissingSource<'_>| is_requested(&absent.call.axes, path);
            let missed = self.missing.iter().filter(is_asked).map(|absent| absent.reason.reason());
            let missed: BTreeSet<_> = missed.collect();
            if !missed.is_empty() {
                settlement.reasons.retain(|reason| !reason.is_all_answers_required());
                settlement.reasons.extend(missed);
            }
        }
    }

    /// Decides each axis by itself. The envelope gets the gravest kind of its axes.
    fn decide_axes(&mut self, inputs: &'a DecisionInputs, collected: &CollectedAnswers<'_>) {
        for path in &inputs.question.axes {
            let ruled =
                self.settled.get(path.as_str()).map(|axis| self.decide_axis(inputs, collected, path, axis));
            let (kind, reason) = ruled.unwrap_or((EnvelopeKind::Blocked, None));
            self.kinds.insert(path, kind);
            let Some(settlement) = self.settled.get_mut(path.as_str()) else { continue };
            match reason {
                Some(reason @ AxisReason::SeveralSubjects) => settlement.discard(reason),
                Some(reason) => settlement.add(reason),
                None => {}
            }
            settlement.status = axis_status(kind);
            if let (Some(claim), Some(axis)) = (inputs.question.claimed.get(path), inputs.axes.get(path)) {
                settlement.warn_of_unused_claim(path, axis, claim);
            }
        }
        self.summarize();
    }

    /// Decides the kind of one axis, and returns the reason to add to its settlement. The order of
    /// precedence: a reviewer's decision, a subject that is not identified, a decision that a reviewer must
    /// make, reasons that block the axis in any case, late or missing answers, and an axis that is not
    /// settled.
    fn decide_axis(
        &self,
        inputs: &DecisionInputs,
        collected: &CollectedAnswers<'_>,
        path: &str,
        settlement: &AxisSettlement<'_>,
    ) -> (EnvelopeKind, Option<AxisReason>) {
        if settlement.is_decided_by_human() {
            return (EnvelopeKind::Authoritative, None);
        }
        let is_asked = |oracle_id: &SourceId| {
            inputs.calls.get(oracle_id).is_some_and(|call| is_requested(&call.axes, path))
        };
        if collected.ambiguous.iter().any(|oracle_id| is_asked(oracle_id)) {
            return (EnvelopeKind::RequiresSpecification, Some(AxisReason::SeveralSubjects));
        }
        if settlement.status == AxisStatus::Escalated {
            return (EnvelopeKind::HumanReview, None);
        }
        if settlement.reasons.iter().any(|reason| reason.is_blocking()) {
            return (EnvelopeKind::Blocked, None);
        }
        let missing = self.missing.iter().filter(|absent| is_requested(&absent.call.axes, path));
        let missing: BTreeSet<_> = missing.map(|absent| absent.reason).collect();
        if is_over_budget(inputs, &missing) {
            let kind = match inputs.workflow.authority_latency.on_timeout_behavior {
                BudgetExceededBehavior::Escalate => EnvelopeKind::HumanReview,
                BudgetExceededBehavior::DegradeToNarrative => EnvelopeKind::NarrativeOnly,
                BudgetExceededBehavior::FailClosed => EnvelopeKind::Blocked,
            };
            return (kind, Some(AxisReason::BudgetExceeded));
        }
        if missing.contains(&MissingSourceReason::Unusable) {
            return (EnvelopeKind::Blocked, Some(AxisReason::OracleUnusable));
        }
        if !missing.is_empty() {
            let kind = match inputs.workflow.oracle_latency.on_timeout {
                OracleTimeoutBehavior::FailOpenNarrative => EnvelopeKind::NarrativeOnly,
                OracleTimeoutBehavior::FailClosedBlock | OracleTimeoutBehavior::ServeStale => {
                    EnvelopeKind::Blocked
                }
            };
            return (kind, Some(AxisReason::OracleUnreachable));
        }
        let kind = match settlement.status {
            AxisStatus::Settled => EnvelopeKind::Authoritative,
            AxisStatus::Disputed => EnvelopeKind::DisputeSummary,
            AxisStatus::Unsettled | AxisStatus::Escalated => EnvelopeKind::Blocked,
        };
        (kind, None)
    }

    /// The same ruling if no further review can be opened: the axes for a reviewer are blocked.
    fn without_new_review(mut self) -> Self {
        for (path, kind) in &mut self.kinds {
            let Some(settlement) = self.settled.get_mut(path).filter(|_| *kind == EnvelopeKind::HumanReview)
            else {
                continue;
            };
            *kind = EnvelopeKind::Blocked;
            settlement.add(AxisReason::QueueFull);
            settlement.status = axis_status(*kind);
        }
        self.summarize();
        self
    }

    /// Computes the kind and the reasons of the envelope.
    fn summarize(&mut self) {
        self.kind = self.kinds.values().copied().max().unwrap_or(EnvelopeKind::Blocked);
        self.reasons =
            self.settled.values().flat_map(|settlement| settlement.reasons.iter().copied()).collect();
    }

    /// The kind of the requested axis `path`.
    fn kind_of(&self, path: &str) -> EnvelopeKind {
        self.kinds.get(path).copied().unwrap_or(self.kind)
    }

    /// Whether people have decided all requested axes.
    fn is_decided_by_humans(&self, inputs: &DecisionInputs) -> bool {
        self.settled.len() == inputs.question.axes.len()
            && self.settled.values().all(AxisSettlement::is_decided_by_human)
    }
}

/// Whether an oracle that was asked for `axes` may have a value for `path`. An empty list means all axes.
fn is_requested(axes: &[String], path: &str) -> bool {
    axes.is_empty() || axes.iter().any(|requested| requested == path)
}

/// The standing of an axis of this kind.
const fn axis_status(kind: EnvelopeKind) -> AxisStatus {
    match kind {
        EnvelopeKind::Authoritative => AxisStatus::Settled,
        EnvelopeKind::HumanReview => AxisStatus::Escalated,
        EnvelopeKind::DisputeSummary => AxisStatus::Disputed,
        EnvelopeKind::NarrativeOnly
        | EnvelopeKind::Blocked
        | EnvelopeKind::RequiresSpecification
        | EnvelopeKind::Provisional => AxisStatus::Unsettled,
    }
}

/// Whether a waiting caller has waited longer than the budget, or the budget ended the call of a missing oracle.
fn is_over_budget(inputs: &DecisionInputs, missing: &BTreeSet<MissingSourceReason>) -> bool {
    let authority = &inputs.workflow.authority_latency;
    let waits = authority.enforcement_mode == EnforcementMode::Inline && inputs.stage == DecisionStage::First;
    let was_cut = missing.contains(&MissingSourceReason::TooSlow(CallTimeLimit::Budget));
    waits && (was_cut || inputs.elapsed_ms > authority.authority_latency_budget_ms)
}

/// The axes to decide, and their evidence.
pub(crate) struct ReviewDispute {
    pub(crate) axes: BTreeMap<String, BTreeSet<AxisReason>>,
    pub(crate) candidates: BTreeMap<SourceId, CandidateAnswer>,
    /// Whether no axis would need a reviewer without the claims.
    pub(crate) of_claim: bool,
    pub(crate) evidence_hash: Sha256Hex,
}

impl ReviewDispute {
    pub(crate) fn of(inputs: &DecisionInputs, envelope: &Envelope) -> Option<Self> {
        let axes = axes_for_reviewer(envelope);
        if axes.is_empty() {
            return None;
        }
        let candidates = candidates(inputs, envelope);
        let mut without_claims = axes.clone();
        if !inputs.question.claimed.is_empty() {
            let mut bare = inputs.clone();
            bare.question.claimed.clear();
            without_claims = axes_for_reviewer(&without_review(&bare));
            without_claims.retain(|path, _| axes.contains_key(path));
        }
        let of_claim = without_claims.is_empty();
        // the claimant is not part of the evidence, and claims count only if no dispute between sources is
        // left: a client that invents claims does not open a review for each
        let (disputed, claimed) =
            if of_claim { (&axes, claimed(inputs, &axes)) } else { (&without_claims, BTreeMap::new()) };
        let evidence_hash = evidence_hash(inputs, envelope, disputed, &claimed, &candidates);
        Some(Self { axes, candidates, of_claim, evidence_hash })
    }
}

/// The axes that `envelope` leaves to a reviewer, with the reasons.
fn axes_for_reviewer(envelope: &Envelope) -> BTreeMap<String, BTreeSet<AxisReason>> {
    let for_a_person = envelope.axes.iter().filter(|(_, axis)| axis.kind == EnvelopeKind::HumanReview);
    for_a_person.map(|(path, axis)| (path.clone(), axis.reasons.clone())).collect()
}

/// The claimed values of `axes`.
fn claimed<'i>(
    inputs: &'i DecisionInputs,
    axes: &BTreeMap<String, BTreeSet<AxisReason>>,
) -> BTreeMap<&'i str, &'i AxisValue> {
    let claimed = inputs.question.claimed.iter().filter(|(path, _)| axes.contains_key(*path));
    claimed.map(|(path, claim)| (path.as_str(), &claim.value)).collect()
}

/// `envelope` with the id of its review, if a reviewer decides: an open review of the same dispute, or else a new one.
/// `None` if no further review can be opened.
pub(crate) fn with_review_id(inputs: &DecisionInputs, mut envelope: Envelope) -> Option<Envelope> {
    let Some(dispute) = ReviewDispute::of(inputs, &envelope) else { return Some(envelope) };
    // reviews opened by claims alone, and other reviews, have separate limits
    let open: Vec<_> = inputs.open_reviews.iter().filter(|open| open.of_claim == dispute.of_claim).collect();
    let open_max = if dispute.of_claim { CLAIMS_OPEN_MAX } else { OPEN_MAX };
    let covers = |open: &&&OpenReview| {
        open.ontology == envelope.ontology && dispute.axes.keys().all(|axis| open.axes.contains(axis))
    };
    let known = match open.iter().find(|open| open.evidence_hash == dispute.evidence_hash) {
        // at the limit, a dispute joins the latest review with its axes: values that change constantly do not
        // each open one
        None if open.len() >= open_max => Some(open.iter().rev().find(covers)?),
        None if inputs.queue_is_full => return None,
        known => known,
    };
    envelope.review_id =
        Some(known.map_or_else(|| envelope.execution_id.clone(), |open| open.review_id.clone()));
    Some(envelope.with_digest())
}

/// The answers of the oracles, each with its record as it counted. For an oracle that was too slow or not reachable,
/// its last cached answer, if any, so that the reviewer has a starting point.
fn candidates(inputs: &DecisionInputs, envelope: &Envelope) -> BTreeMap<SourceId, CandidateAnswer> {
    let found = envelope.candidates.iter().filter_map(|outcome| {
        let call = inputs.calls.get(&outcome.oracle_id)?;
        let candidate = match (&call.reply, outcome.stale, &outcome.record) {
            (OracleReply::Answered { candidate }, false, Some(_)) => candidate,
            (_, true, _)
            | (OracleReply::TimedOut { .. } | OracleReply::CircuitOpen { .. }, ..)
            | (OracleReply::Failed { failure: CallFailure::Unavailable, .. }, ..) => call.kept.as_ref()?,
            _ => return None,
        };
        let mut candidate = (**candidate).clone();
        if let Some(record) = &outcome.record {
            candidate.record = record.clone();
        }
        Some((outcome.oracle_id.clone(), candidate))
    });
    found.collect()
}

/// The SHA-256 of the question without its times, of the values and versions of the answers, and of the
/// claims. Times do not count, and neither do unverified oracles or cached answers of missing oracles.
fn evidence_hash(
    inputs: &DecisionInputs,
    envelope: &Envelope,
    axes: &BTreeMap<String, BTreeSet<AxisReason>>,
    claimed: &BTreeMap<&str, &AxisValue>,
    candidates: &BTreeMap<SourceId, CandidateAnswer>,
) -> Sha256Hex {
    let question = &inputs.question;
    let counted = envelope.candidates.iter().filter(|outcome| {
        outcome.record.is_some() && outcome.registered_tier != Some(OracleTier::Unverified)
    });
    let answers = counted.filter_map(|outcome| {
        let candidate = candidates.get(&outcome.oracle_id)?;
        Some((&outcome.oracle_id, (&candidate.values, candidate.record.source_version.as_deref())))
    });
    let answers: BTreeMap<_, _> = answers.collect();
    let Workflow { workflow_id, ontology, .. } = &inputs.workflow;
    digest_of_json(&(workflow_id, ontology, &question.subject, axes, answers, claimed))
}
