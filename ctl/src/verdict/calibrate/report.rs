//! The result of a calibration. `--json` writes these types, so the names of their fields are a stable interface.

use super::by_flag::{FlagPlaces, FlagTotals};
use super::by_tier::TierTotals;
use super::flips::DecisionFlips;
use super::histogram::CoherenceHistogram;
use oracled_domain::verdict::crosscheck::CrosscheckReason;
use oracled_domain::verdict::tmm::{OMEGA, PHI};
use oracled_domain::{CrosscheckJudgment, Flag, ProductTier};
use serde::Serialize;

/// The result of a calibration. The same corpus gives the same report, byte for byte.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct CalibrationReport {
    /// The corpus, as given on the command line, or `standard input`.
    pub corpus: String,
    /// Ω: a verdict is approved if its C is at least this.
    pub threshold: f64,
    /// Φ, the weight of V_r.
    pub phi: f64,
    /// Numbers of verdicts and of approvals.
    pub approval: TierTotals<ApprovalCounts>,
    /// The largest C among the rejected verdicts; null if none is rejected.
    pub highest_refused: Option<f64>,
    /// The smallest C among the approved verdicts; null if none is approved.
    pub lowest_approved: Option<f64>,
    /// C in bins, from the lowest.
    pub histogram: CoherenceHistogram,
    /// Every reason that occurs, in the order of the crosscheck's decision.
    pub reasons: Vec<ReasonCount>,
    /// Every flag that occurs, by name, in the fixed order of flags.
    pub flags: FlagTotals<FlagOccurrences>,
    /// The effect of single flags on the decisions.
    pub flips: DecisionFlips,
}

/// The numbers of judged, approved and rejected verdicts, and the approval rate.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub(crate) struct ApprovalCounts {
    /// Verdicts judged.
    pub verdicts: u64,
    /// Verdicts approved.
    pub approved: u64,
    /// Verdicts rejected.
    pub refused: u64,
    /// Approved divided by judged, from 0.0 to 1.0; null if none was judged.
    pub approval_rate: Option<f64>,
}

/// Number of decisions with a reason.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ReasonCount {
    /// The decision's `crosscheck_reason`.
    pub reason: CrosscheckReason,
    /// Verdicts with this reason.
    pub verdicts: TierTotals<u64>,
}

/// The frequency of a flag.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub(crate) struct FlagOccurrences {
    /// Verdicts with the flag, at one or more places.
    pub verdicts: TierTotals<u64>,
    /// Verdicts with the flag that are approved.
    pub approved: u64,
    /// Number of occurrences by place.
    #[serde(flatten)]
    pub places: FlagPlaces,
}

impl CalibrationReport {
    pub(crate) fn new(corpus: String) -> Self {
        Self {
            corpus,
            threshold: OMEGA,
            phi: PHI,
            approval: TierTotals::default(),
            highest_refused: None,
            lowest_approved: None,
            histogram: CoherenceHistogram::new(),
            reasons: Vec::new(),
            flags: FlagTotals::default(),
            flips: DecisionFlips::default(),
        }
    }

    pub(crate) fn add(&mut self, judgment: &CrosscheckJudgment) {
        let CrosscheckJudgment { tier, decision, .. } = judgment;
        let c = decision.coherence_score;
        for approval in self.approval.both_mut(*tier) {
            approval.add(decision.approved);
        }
        if decision.approved {
            self.lowest_approved = Some(self.lowest_approved.map_or(c, |lowest| lowest.min(c)));
        } else {
            self.highest_refused = Some(self.highest_refused.map_or(c, |highest| highest.max(c)));
        }
        self.histogram.add(*tier, c);
        self.count_reason(*tier, decision.crosscheck_reason);
        self.count_flags(*tier, &decision.flags, decision.approved);
        self.flips.add(judgment);
    }

    fn count_reason(&mut self, tier: ProductTier, reason: CrosscheckReason) {
        match self.reasons.iter_mut().find(|count| count.reason == reason) {
            Some(count) => count.verdicts.count(tier),
            None => {
                let mut verdicts = TierTotals::default();
                verdicts.count(tier);
                self.reasons.push(ReasonCount { reason, verdicts });
                self.reasons.sort_by_key(|count| count.reason);
            }
        }
    }

    fn count_flags(&mut self, tier: ProductTier, flags: &[Flag], approved: bool) {
        // flags are in their fixed order, so flags of one name are adjacent
        for same_name in flags.chunk_by(|one, other| one.into_str() == other.into_str()) {
            let Some(flag) = same_name.first() else { continue };
            let occurrences = self.flags.get_or_insert(flag);
            occurrences.verdicts.count(tier);
            occurrences.approved += u64::from(approved);
            for flag in same_name {
                occurrences.places.count(flag);
            }
        }
    }
}

impl ApprovalCounts {
    fn add(&mut self, approved: bool) {
        self.verdicts += 1;
        *(if approved { &mut self.approved } else { &mut self.refused }) += 1;
        self.approval_rate = Some(self.approved as f64 / self.verdicts as f64);
    }
}
