//! The result of a calibration. `--json` writes these types, so the names of their fields are a stable interface.

use domain_verdict::crosscheck::{CrosscheckInspection, CrosscheckJudgment, CrosscheckReason, decide};
use domain_verdict::flag::Flag;
use domain_verdict::label::ProductTier;
use domain_verdict::tmm::{OMEGA, PHI};
use serde::Serialize;
use std::collections::BTreeMap;

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

/// One value for each tier, and one for all of them together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(crate) struct TierTotals<T> {
    /// All tiers together.
    pub all: T,
    /// Tier `quick`.
    pub quick: T,
    /// Tier `full`.
    pub full: T,
    /// Tier `strategy`.
    pub strategy: T,
}

impl<T> TierTotals<T> {
    /// The value of one tier.
    #[must_use]
    pub(crate) const fn get(&self, tier: ProductTier) -> &T {
        match tier {
            ProductTier::Quick => &self.quick,
            ProductTier::Full => &self.full,
            ProductTier::Strategy => &self.strategy,
        }
    }

    /// All values with their names, `all` first.
    pub(crate) fn named_values(&self) -> [(&'static str, &T); 4] {
        let [quick, full, strategy] = ProductTier::ALL.map(|tier| (tier.into_str(), self.get(tier)));
        [("all", &self.all), quick, full, strategy]
    }

    /// The two values that a verdict of `tier` counts towards.
    fn both_mut(&mut self, tier: ProductTier) -> [&mut T; 2] {
        let one = match tier {
            ProductTier::Quick => &mut self.quick,
            ProductTier::Full => &mut self.full,
            ProductTier::Strategy => &mut self.strategy,
        };
        [&mut self.all, one]
    }
}

impl TierTotals<u64> {
    pub(crate) fn count(&mut self, tier: ProductTier) {
        for count in self.both_mut(tier) {
            *count += 1;
        }
    }
}

/// Maximum number of places of one flag that are counted by name. `unexpected_field` has places from the
/// model's own text, and a corpus may have any number of them.
const PLACES_NAMED: usize = 256;

/// One `T` for each flag name that occurs, in the fixed order of flags. The number of names is at most the
/// number of kinds of flag.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub(crate) struct FlagTotals<T> {
    names: Vec<FlagTotal<T>>,
}

/// The counts of one flag name.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct FlagTotal<T> {
    /// The flag's name, without a place.
    pub flag: &'static str,
    /// Its weight in V_r (dimensionless).
    pub v_r: f64,
    /// Its E_D (dimensionless).
    pub e_d: f64,
    /// The counts; in the JSON their fields are next to `flag`.
    #[serde(flatten)]
    pub counts: T,
    /// A flag with this name. It determines the position in the list.
    #[serde(skip)]
    order: Flag,
}

/// Counts by the place that a flag names: `Curvature` in `empty_analysis:Curvature`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub(crate) struct FlagPlaces {
    /// By place, for the first 256 places in the corpus. Empty for a flag without places.
    pub places: BTreeMap<String, u64>,
    /// The number of occurrences at all further places.
    pub other_places: u64,
}

impl<T> Default for FlagTotals<T> {
    fn default() -> Self {
        Self { names: Vec::new() }
    }
}

impl<T: Default> FlagTotals<T> {
    /// Returns the counts for the name of `flag`. A new name starts with the default counts.
    pub(crate) fn get_or_insert(&mut self, flag: &Flag) -> &mut T {
        let known = self.names.iter().position(|named| named.flag == flag.into_str());
        let index = known.unwrap_or_else(|| self.insert(flag));
        &mut self.names.get_mut(index).expect("the entry exists, or was just added").counts
    }

    fn insert(&mut self, flag: &Flag) -> usize {
        let index = self.names.partition_point(|named| named.order < *flag);
        let (v_r, e_d) = (flag.v_r(), flag.e_d());
        let named = FlagTotal { flag: flag.into_str(), v_r, e_d, counts: T::default(), order: flag.clone() };
        self.names.insert(index, named);
        index
    }

    /// The names that occur, in the fixed order of flags.
    #[must_use]
    pub(crate) fn names(&self) -> &[FlagTotal<T>] {
        &self.names
    }
}

impl FlagPlaces {
    /// Counts the place of `flag`, if it has one.
    pub(crate) fn count(&mut self, flag: &Flag) {
        let text = flag.to_string();
        let Some((_, place)) = text.split_once(':') else { return };
        if let Some(count) = self.places.get_mut(place) {
            *count += 1;
        } else if self.places.len() < PLACES_NAMED {
            self.places.insert(place.to_owned(), 1);
        } else {
            self.other_places += 1;
        }
    }

    /// The places with their counts: the most frequent first, equally frequent ones by name.
    pub(crate) fn by_frequency(&self) -> Vec<(&str, u64)> {
        let mut places: Vec<(&str, u64)> =
            self.places.iter().map(|(place, count)| (place.as_str(), *count)).collect();
        places.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        places
    }
}

/// The edges of the bins, ascending. Bins are narrower above Ω, where all approved verdicts lie within 0.026.
const BIN_EDGES: [f64; 17] =
    [-1.0, 0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, OMEGA, 0.98, 0.985, 0.99, 0.995, 1.0];

/// The verdicts with C in a range.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct CoherenceBin {
    /// The smallest C of the bin, inclusive; null for the first bin, which has no lower limit. (The second
    /// bin excludes its
    /// -1.0: malformed JSON has a C of -1.0 and is in the first bin.)
    pub from: Option<f64>,
    /// The largest C of the bin, exclusive. It is inclusive in the first bin (C <= -1.0) and in the last,
    /// whose limits are both 1.0.
    pub to: f64,
    /// Whether C is at least Ω in the whole bin.
    pub at_least_omega: bool,
    /// The verdicts in the bin.
    pub verdicts: TierTotals<u64>,
}

/// The bins, from the lowest C to C = 1.0, with the empty ones. No bin crosses Ω, so each bin has only rejected or only
/// approved verdicts.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub(crate) struct CoherenceHistogram {
    bins: Vec<CoherenceBin>,
}

impl CoherenceHistogram {
    pub(crate) fn new() -> Self {
        let bin = |from: Option<f64>, to| CoherenceBin {
            from,
            to,
            at_least_omega: from.is_some_and(|from| from >= OMEGA),
            verdicts: TierTotals::default(),
        };
        let ends = BIN_EDGES.into_iter().chain([1.0]);
        let mut from = None;
        let bins = ends.map(|to| bin(from.replace(to), to)).collect();
        Self { bins }
    }

    pub(crate) fn add(&mut self, tier: ProductTier, c: f64) {
        let holds = |bin: &CoherenceBin| c < bin.to || (bin.from.is_none() && c <= bin.to);
        let home = self.bins.iter().position(holds).unwrap_or(BIN_EDGES.len());
        if let Some(bin) = self.bins.get_mut(home) {
            bin.verdicts.count(tier);
        }
    }

    /// The bins, from the lowest C.
    #[must_use]
    pub(crate) fn bins(&self) -> &[CoherenceBin] {
        &self.bins
    }
}

impl CoherenceBin {
    /// The bin's range for people, such as `0.9 to Ω`.
    #[must_use]
    pub(crate) fn label(&self) -> String {
        match self.from {
            None => format!("at most {:.1}", self.to),
            Some(from) if from == self.to => format!("{from:.1}"),
            Some(-1.0) => "negative".to_owned(),
            Some(from) => format!("{} to {}", format_edge(from), format_edge(self.to)),
        }
    }
}

/// An edge between bins for people.
fn format_edge(c: f64) -> String {
    if c == OMEGA { "Ω".to_owned() } else { format!("{c:?}") }
}

/// The effect of single flags on the decisions over a whole corpus: each judgment is repeated with one flag less, or one flag more.
///
/// Only the flag's weight in the formula changes:
///
/// - V_t stays the same. (Repairing the cause of `empty_analysis`, for example, would also add evidence to V_t.)
/// - **One less**: V_r loses the flag's weight; E_D is the largest of the remaining flags. Other flags with the same
///   cause remain: a missing analysis has `field_missing` and `empty_analysis`, and each is removed separately.
/// - **One more**: V_r gains the flag's weight; E_D becomes the flag's own if that is larger. The trials cover the
///   flags that the verdict lacks and that the mapping can raise in its tier ([`Flag::first_tier`]), even if this
///   verdict's text cannot cause them.
/// - [`decide`] decides on the changed values, and `approved` is the result. So a rejection for `malformed_json`
///   always flips: such a text has no other flags.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub(crate) struct DecisionFlips {
    /// Rejected verdicts that would be approved with one flag less.
    pub to_approval: ApprovalFlips,
    /// Approved verdicts that would be rejected with one flag more.
    pub to_refusal: RefusalFlips,
}

/// Rejected verdicts, with each of their flags removed separately.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub(crate) struct ApprovalFlips {
    /// Rejected verdicts.
    pub refused: TierTotals<u64>,
    /// Rejected verdicts that are approved if one certain flag is removed. The others depend on two or more flags.
    pub by_one_flag: TierTotals<u64>,
    /// By flag name, in the order of the flags: `verdicts` are the rejected ones with the flag.
    pub flags: FlagTotals<FlagTrials>,
}

/// Approved verdicts, with each missing flag of their tier added separately.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub(crate) struct RefusalFlips {
    /// Approved verdicts.
    pub approved: TierTotals<u64>,
    /// Approved verdicts that are rejected if one certain flag with a weight in V_r is added. (A flag with an
    /// E_D rejects every verdict, so it is not counted.)
    pub by_one_v_r_flag: TierTotals<u64>,
    /// By flag name, in the order of the flags: `verdicts` are the approved ones that the flag can be added to.
    pub flags: FlagTotals<FlagTrials>,
}

/// The effect of removing or adding single flags of one name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub(crate) struct FlagTrials {
    /// Verdicts in the trial.
    pub verdicts: u64,
    /// Verdicts whose decision flips by one flag of this name, at any place.
    pub flips: u64,
    /// Number of flipped decisions by place.
    #[serde(flatten)]
    pub places: FlagPlaces,
}

impl DecisionFlips {
    pub(crate) fn add(&mut self, judgment: &CrosscheckJudgment) {
        let CrosscheckJudgment { tier, inspection, decision, .. } = judgment;
        if decision.approved {
            self.to_refusal.add(*tier, inspection);
        } else {
            self.to_approval.add(*tier, inspection);
        }
    }
}

impl ApprovalFlips {
    fn add(&mut self, tier: ProductTier, inspection: &CrosscheckInspection) {
        self.refused.count(tier);
        let flags = || inspection.flags.iter().filter(|flag| has_weight(flag));
        let trials: Vec<(&Flag, bool)> =
            flags().map(|flag| (flag, decide(&remove_flag(inspection, flag)).approved)).collect();
        if trials.iter().any(|(_, flips)| *flips) {
            self.by_one_flag.count(tier);
        }
        count_trials(&mut self.flags, &trials);
    }
}

impl RefusalFlips {
    fn add(&mut self, tier: ProductTier, inspection: &CrosscheckInspection) {
        self.approved.count(tier);
        let raisable = raisable_flags(tier);
        let trials: Vec<(&Flag, bool)> = raisable
            .iter()
            .filter(|flag| !inspection.flags.contains(flag))
            .map(|flag| (flag, !decide(&add_flag(inspection, flag)).approved))
            .collect();
        if trials.iter().any(|(flag, flips)| *flips && flag.v_r() > 0.0) {
            self.by_one_v_r_flag.count(tier);
        }
        count_trials(&mut self.flags, &trials);
    }
}

/// The inspection without `flag`, at the same V_t.
fn remove_flag(inspection: &CrosscheckInspection, flag: &Flag) -> CrosscheckInspection {
    let flags: Vec<Flag> = inspection.flags.iter().filter(|other| *other != flag).cloned().collect();
    CrosscheckInspection {
        // weights are multiples of 0.5, so the difference is exact
        v_r: inspection.v_r - flag.v_r(),
        e_d: flags.iter().map(Flag::e_d).fold(0.0, f64::max),
        flags,
        ..inspection.clone()
    }
}

/// The inspection with `flag` added, at the same V_t.
fn add_flag(inspection: &CrosscheckInspection, flag: &Flag) -> CrosscheckInspection {
    let mut flags = inspection.flags.clone();
    flags.push(flag.clone());
    flags.sort();
    CrosscheckInspection {
        v_r: inspection.v_r + flag.v_r(),
        e_d: inspection.e_d.max(flag.e_d()),
        flags,
        ..inspection.clone()
    }
}

fn has_weight(flag: &Flag) -> bool {
    flag.v_r() > 0.0 || flag.e_d() > 0.0
}

/// Counts the trials of one verdict: once for each name, and once for each place that flips.
fn count_trials(flags: &mut FlagTotals<FlagTrials>, trials: &[(&Flag, bool)]) {
    // flags are in their fixed order, so flags of one name are adjacent
    for of_one_name in trials.chunk_by(|(one, _), (other, _)| one.into_str() == other.into_str()) {
        let Some((flag, _)) = of_one_name.first() else { continue };
        let count = flags.get_or_insert(flag);
        count.verdicts += 1;
        count.flips += u64::from(of_one_name.iter().any(|(_, flips)| *flips));
        for (flag, _) in of_one_name.iter().filter(|(_, flips)| *flips) {
            count.places.count(flag);
        }
    }
}

/// All flags with a weight that the mapping can raise in `tier`, in the order of the flags.
fn raisable_flags(tier: ProductTier) -> Vec<Flag> {
    let mut flags: Vec<Flag> =
        Flag::all().filter(|flag| flag.first_tier().is_some_and(|first| first <= tier)).collect();
    flags.sort();
    flags
}

#[cfg(test)]
mod tests;
