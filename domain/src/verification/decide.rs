//! The decision: computes the envelope of a question.

mod assemble;
pub(super) mod dispute;
mod retry;

use super::call::Cut;
use super::envelope::{Envelope, EnvelopeKind};
use super::hearing::{Absence, Absent, Hearing, hear};
use super::inputs::{Inputs, Stage};
use super::reason::Reason;
use super::settle::{Settlement, Standing, is_to_be_asked_again, settle};
use super::statements::on_axis;
use super::workflow::{EnforcementMode, Granularity, OnBudget, OnTimeout};
use crate::ground::id::SourceId;
use dispute::named;
use std::collections::{BTreeMap, BTreeSet};

/// The combined result of all axes.
struct Ruling<'a> {
    /// The gravest kind of the axes.
    kind: EnvelopeKind,
    reasons: BTreeSet<Reason>,
    /// The requested axes, by their paths.
    settled: BTreeMap<&'a str, Settlement<'a>>,
    /// The kinds of the requested axes, by their paths.
    kinds: BTreeMap<&'a str, EnvelopeKind>,
    /// The oracles in conflict on any compared axis.
    contested: BTreeSet<&'a SourceId>,
    /// The oracles to query again, with the axes and the reasons.
    reverify: BTreeMap<&'a SourceId, (BTreeSet<String>, BTreeSet<Reason>)>,
    /// The registered oracles whose answers are needed and missing.
    missing: Vec<&'a Absent<'a>>,
}

/// Whether the oracles are queried for the question of `inputs`. They are not if nothing is verified, if the question does
/// not identify one entity, or while the decision is deferred.
#[must_use]
pub fn is_put_to_oracles(inputs: &Inputs) -> bool {
    let is_later = match inputs.workflow.authority_latency.enforcement_mode {
        EnforcementMode::NonAuthoritativeOnly => true,
        EnforcementMode::Async => inputs.stage == Stage::First,
        EnforcementMode::Inline => false,
    };
    !is_later && inputs.unfixed().is_empty()
}

/// Decides the question of `inputs`. The same inputs give the same envelope, byte for byte.
#[must_use]
pub fn decide(inputs: &Inputs) -> Envelope {
    let mode = inputs.workflow.authority_latency.enforcement_mode;
    let nothing_heard = Hearing::default();
    if mode == EnforcementMode::NonAuthoritativeOnly {
        let ruling = Ruling::bare(EnvelopeKind::NarrativeOnly, Reason::NonAuthoritative);
        return assemble::envelope(inputs, &nothing_heard, &ruling, Vec::new());
    }
    let unfixed: Vec<_> = inputs.unfixed().into_iter().map(str::to_owned).collect();
    if !unfixed.is_empty() {
        let ruling = Ruling::bare(EnvelopeKind::RequiresSpecification, Reason::ThingNotFixed);
        return assemble::envelope(inputs, &nothing_heard, &ruling, unfixed);
    }
    if mode == EnforcementMode::Async && inputs.stage == Stage::First {
        let ruling = Ruling::bare(EnvelopeKind::Provisional, Reason::Deferred);
        return assemble::envelope(inputs, &nothing_heard, &ruling, Vec::new());
    }
    let hearing = hear(inputs);
    let ruling = Ruling::of(inputs, &hearing);
    let envelope = assemble::envelope(inputs, &hearing, &ruling, Vec::new());
    named(inputs, envelope).unwrap_or_else(|| {
        let ruling = ruling.without_room();
        assemble::envelope(inputs, &hearing, &ruling, Vec::new())
    })
}

/// The envelope of a question that oracles answer, without a review.
pub(super) fn without_review(inputs: &Inputs) -> Envelope {
    let hearing = hear(inputs);
    assemble::envelope(inputs, &hearing, &Ruling::of(inputs, &hearing), Vec::new())
}

impl<'a> Ruling<'a> {
    /// The ruling over a question for which no oracle is queried.
    fn bare(kind: EnvelopeKind, reason: Reason) -> Self {
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

    fn of(inputs: &'a Inputs, hearing: &'a Hearing<'a>) -> Self {
        let asked = inputs.question.axes.iter().filter_map(|path| Some((path, inputs.axes.get(path)?)));
        let settled = asked.map(|(path, axis)| (path.as_str(), settle(inputs, hearing, path, axis)));
        let mut ruling = Self {
            kind: EnvelopeKind::Blocked,
            reasons: BTreeSet::new(),
            settled: settled.collect(),
            kinds: BTreeMap::new(),
            contested: BTreeSet::new(),
            reverify: BTreeMap::new(),
            missing: Vec::new(),
        };
        ruling.contested = ruling.in_conflict(inputs, hearing);
        ruling.spread(inputs, hearing);
        ruling.ask_again(inputs);
        let is_needed = |absent: &&Absent<'_>| {
            let open = |path: &String| {
                ruling.settled.get(path.as_str()).is_some_and(|settlement| !settlement.is_by_a_person())
            };
            // an empty list means that the oracle may have a value for any axis
            absent.call.axes.is_empty() || absent.call.axes.iter().any(open)
        };
        // if people have decided all axes, no oracle is needed
        let missing = hearing.absent.iter().filter(|_| !ruling.is_by_people(inputs));
        ruling.missing = missing.filter(is_needed).collect();
        ruling.lay_to_the_missing();
        ruling.rule(inputs, hearing);
        ruling
    }

    /// The oracles in conflict on any compared axis.
    fn in_conflict(&self, inputs: &'a Inputs, hearing: &'a Hearing<'a>) -> BTreeSet<&'a SourceId> {
        let asked = self.settled.values().flat_map(|settlement| settlement.contested_by.iter().copied());
        let beside = inputs.axes.iter().filter(|(path, _)| !self.settled.contains_key(path.as_str()));
        let beside = beside.flat_map(|(path, axis)| settle(inputs, hearing, path, axis).contested_by);
        asked.chain(beside).collect()
    }

    /// If a conflict affects all values of its oracles, marks the axes on which these oracles have a value.
    fn spread(&mut self, inputs: &'a Inputs, hearing: &'a Hearing<'a>) {
        let again = is_to_be_asked_again(inputs);
        let reason = match inputs.workflow.conflict_resolution.scope.granularity {
            _ if again => Reason::Reverification,
            Granularity::Oracle => Reason::OracleInvalidated,
            Granularity::Axis => return,
        };
        let contested = &self.contested;
        for (path, settlement) in &mut self.settled {
            let Some(axis) = inputs.axes.get(*path) else { continue };
            let said = on_axis(inputs, hearing, path, axis);
            if !settlement.is_by_a_person() && said.oracles().any(|oracle_id| contested.contains(oracle_id)) {
                settlement.add(reason);
            }
        }
    }

    /// Records the oracles to query again: oracles in conflict, for all their axes, if the workflow requires it; and
    /// oracles whose value has expired.
    fn ask_again(&mut self, inputs: &'a Inputs) {
        for oracle_id in self.contested.iter().filter(|_| is_to_be_asked_again(inputs)) {
            let axes = inputs.calls.get(*oracle_id).map(|call| call.axes.iter().cloned().collect());
            let reasons = [Reason::Reverification].into();
            self.reverify.insert(oracle_id, (axes.unwrap_or_default(), reasons));
        }
        for (path, settlement) in &self.settled {
            for oracle_id in &settlement.expired {
                let (axes, reasons) = self.reverify.entry(oracle_id).or_default();
                axes.insert((*path).to_owned());
                reasons.insert(Reason::Expired);
            }
        }
    }

    /// Attributes axes without a trusted value to the oracles that were asked for them and did not answer, because their
    /// values are unknown.
    fn lay_to_the_missing(&mut self) {
        for (path, settlement) in &mut self.settled {
            if !settlement.reasons.iter().any(|reason| reason.is_of_all_answers()) {
                continue;
            }
            let is_asked = |absent: &&&Absent<'_>| is_asked_for(&absent.call.axes, path);
            let missed = self.missing.iter().filter(is_asked).map(|absent| absent.absence.reason());
            let missed: BTreeSet<_> = missed.collect();
            if !missed.is_empty() {
                settlement.reasons.retain(|reason| !reason.is_of_all_answers());
                settlement.reasons.extend(missed);
            }
        }
    }

    /// Decides each axis by itself. The envelope gets the gravest kind of its axes.
    fn rule(&mut self, inputs: &'a Inputs, hearing: &Hearing<'_>) {
        for path in &inputs.question.axes {
            let ruled = self.settled.get(path.as_str()).map(|axis| self.rule_on(inputs, hearing, path, axis));
            let (kind, reason) = ruled.unwrap_or((EnvelopeKind::Blocked, None));
            self.kinds.insert(path, kind);
            let Some(settlement) = self.settled.get_mut(path.as_str()) else { continue };
            match reason {
                Some(reason @ Reason::SeveralThings) => settlement.discard(reason),
                Some(reason) => settlement.add(reason),
                None => {}
            }
            settlement.standing = standing_of(kind);
        }
        self.sum_up();
    }

    /// Decides the kind of one axis, and returns the reason to add to its settlement. The order of precedence: a reviewer's
    /// decision, an entity that is not identified, a decision that a reviewer must make, reasons that block the axis in any
    /// case, late or missing answers, and an axis that is not settled.
    fn rule_on(
        &self,
        inputs: &Inputs,
        hearing: &Hearing<'_>,
        path: &str,
        settlement: &Settlement<'_>,
    ) -> (EnvelopeKind, Option<Reason>) {
        if settlement.is_by_a_person() {
            return (EnvelopeKind::Authoritative, None);
        }
        let is_asked = |oracle_id: &SourceId| {
            inputs.calls.get(oracle_id).is_some_and(|call| is_asked_for(&call.axes, path))
        };
        if hearing.ambiguous.iter().any(|oracle_id| is_asked(oracle_id)) {
            return (EnvelopeKind::RequiresSpecification, Some(Reason::SeveralThings));
        }
        if settlement.standing == Standing::Escalated {
            return (EnvelopeKind::HumanReview, None);
        }
        if settlement.reasons.iter().any(|reason| reason.is_closing()) {
            return (EnvelopeKind::Blocked, None);
        }
        let missing = self.missing.iter().filter(|absent| is_asked_for(&absent.call.axes, path));
        let missing: BTreeSet<_> = missing.map(|absent| absent.absence).collect();
        if is_over_budget(inputs, &missing) {
            let kind = match inputs.workflow.authority_latency.on_timeout_behavior {
                OnBudget::Escalate => EnvelopeKind::HumanReview,
                OnBudget::DegradeToNarrative => EnvelopeKind::NarrativeOnly,
                OnBudget::FailClosed => EnvelopeKind::Blocked,
            };
            return (kind, Some(Reason::BudgetExceeded));
        }
        if missing.contains(&Absence::Unusable) {
            return (EnvelopeKind::Blocked, Some(Reason::OracleUnusable));
        }
        if !missing.is_empty() {
            let kind = match inputs.workflow.oracle_latency.on_timeout {
                OnTimeout::FailOpenNarrative => EnvelopeKind::NarrativeOnly,
                OnTimeout::FailClosedBlock | OnTimeout::ServeStale => EnvelopeKind::Blocked,
            };
            return (kind, Some(Reason::OracleUnreachable));
        }
        let kind = match settlement.standing {
            Standing::Settled => EnvelopeKind::Authoritative,
            Standing::Disputed => EnvelopeKind::DisputeSummary,
            Standing::Unsettled | Standing::Escalated => EnvelopeKind::Blocked,
        };
        (kind, None)
    }

    /// The same ruling if no further review can be opened: the axes for a reviewer are blocked.
    fn without_room(mut self) -> Self {
        for (path, kind) in &mut self.kinds {
            let Some(settlement) = self.settled.get_mut(path).filter(|_| *kind == EnvelopeKind::HumanReview)
            else {
                continue;
            };
            *kind = EnvelopeKind::Blocked;
            settlement.add(Reason::QueueFull);
            settlement.standing = standing_of(*kind);
        }
        self.sum_up();
        self
    }

    /// Computes the kind and the reasons of the envelope.
    fn sum_up(&mut self) {
        self.kind = self.kinds.values().copied().max().unwrap_or(EnvelopeKind::Blocked);
        self.reasons =
            self.settled.values().flat_map(|settlement| settlement.reasons.iter().copied()).collect();
    }

    /// The kind of the requested axis `path`.
    fn kind_of(&self, path: &str) -> EnvelopeKind {
        self.kinds.get(path).copied().unwrap_or(self.kind)
    }

    /// Whether people have decided all requested axes.
    fn is_by_people(&self, inputs: &Inputs) -> bool {
        self.settled.len() == inputs.question.axes.len()
            && self.settled.values().all(Settlement::is_by_a_person)
    }
}

/// Whether an oracle that was asked for `axes` may have a value for `path`. An empty list means all axes.
fn is_asked_for(axes: &[String], path: &str) -> bool {
    axes.is_empty() || axes.iter().any(|asked| asked == path)
}

/// The standing of an axis of this kind.
const fn standing_of(kind: EnvelopeKind) -> Standing {
    match kind {
        EnvelopeKind::Authoritative => Standing::Settled,
        EnvelopeKind::HumanReview => Standing::Escalated,
        EnvelopeKind::DisputeSummary => Standing::Disputed,
        EnvelopeKind::NarrativeOnly
        | EnvelopeKind::Blocked
        | EnvelopeKind::RequiresSpecification
        | EnvelopeKind::Provisional => Standing::Unsettled,
    }
}

/// Whether a waiting caller has waited longer than the budget, or the budget ended the call of a missing oracle.
fn is_over_budget(inputs: &Inputs, missing: &BTreeSet<Absence>) -> bool {
    let authority = &inputs.workflow.authority_latency;
    let waits = authority.enforcement_mode == EnforcementMode::Inline && inputs.stage == Stage::First;
    let was_cut = missing.contains(&Absence::TooSlow(Cut::Budget));
    waits && (was_cut || inputs.elapsed_ms > authority.authority_latency_budget_ms)
}
