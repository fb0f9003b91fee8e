//! C in bins. No bin crosses Ω, so each bin has only rejected or only approved verdicts.

use super::by_tier::TierTotals;
use oracled_domain::ProductTier;
use oracled_domain::verdict::tmm::OMEGA;
use serde::Serialize;

/// The edges of the bins, ascending. Bins are narrower above Ω, where all approved verdicts lie within 0.026.
const EDGES: [f64; 17] =
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

/// The bins, from the lowest C to C = 1.0, with the empty ones.
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
        let ends = EDGES.into_iter().chain([1.0]);
        let mut from = None;
        let bins = ends.map(|to| bin(from.replace(to), to)).collect();
        Self { bins }
    }

    pub(crate) fn add(&mut self, tier: ProductTier, c: f64) {
        let holds = |bin: &CoherenceBin| c < bin.to || (bin.from.is_none() && c <= bin.to);
        let home = self.bins.iter().position(holds).unwrap_or(EDGES.len());
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
pub(crate) fn format_edge(c: f64) -> String {
    if c == OMEGA { "Ω".to_owned() } else { format!("{c:?}") }
}
