//! The counts of regenerations by original and regenerated verdict.

use super::{DivergenceCheck, DivergenceLevel, OriginalLabel};
use crate::verdict::label::VerdictLabel;
use serde::{Deserialize, Serialize};

/// Regenerations, counted by the first verdict and the regenerated one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DivergenceTable {
    /// All pairs, in the order of labels; the unknown original comes last.
    pub cells: Vec<DivergenceCell>,
}

/// One pair of verdicts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DivergenceCell {
    /// The first verdict.
    pub original_verdict: OriginalLabel,
    /// The regenerated verdict.
    pub regen_verdict: VerdictLabel,
    /// Their difference; null if the first verdict is not known.
    pub divergence_level: Option<DivergenceLevel>,
    /// The number of regenerations.
    pub count: u64,
}

impl Default for DivergenceTable {
    fn default() -> Self {
        let originals = VerdictLabel::ALL.map(Some).into_iter().chain([None]).map(OriginalLabel);
        let cells = originals.flat_map(|original_verdict| {
            VerdictLabel::ALL.map(|regen_verdict| DivergenceCell {
                original_verdict,
                regen_verdict,
                divergence_level: original_verdict
                    .0
                    .map(|original| DivergenceLevel::between(original, regen_verdict)),
                count: 0,
            })
        });
        Self { cells: cells.collect() }
    }
}

impl DivergenceTable {
    /// Counts one regeneration.
    pub fn count(&mut self, check: &DivergenceCheck) {
        let pair = (check.original_verdict, check.regen_verdict);
        for cell in &mut self.cells {
            cell.count += u64::from((cell.original_verdict, cell.regen_verdict) == pair);
        }
    }

    /// The number of regenerations at this level; for `None`, those whose original is not known.
    #[must_use]
    pub fn at(&self, level: Option<DivergenceLevel>) -> u64 {
        self.cells.iter().filter(|cell| cell.divergence_level == level).map(|cell| cell.count).sum()
    }
}
