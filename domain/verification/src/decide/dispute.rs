//! The axes that an envelope leaves to a reviewer, and the id of their review.

use super::without_review;
use crate::call::{CallFailure, OracleReply};
use crate::candidate::CandidateAnswer;
use crate::envelope::{Envelope, EnvelopeKind};
use crate::inputs::DecisionInputs;
use crate::reason::AxisReason;
use crate::stored_state::{CLAIMS_OPEN_MAX, OPEN_MAX, OpenReview};
use crate::workflow::Workflow;
use domain_base::digest::{Sha256Hex, digest_of_json};
use domain_ground::id::SourceId;
use domain_ground::source::OracleTier;
use domain_ground::value::AxisValue;
use std::collections::{BTreeMap, BTreeSet};

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
    digest_of_json(&(workflow_id, ontology, &question.thing, axes, answers, claimed))
}
