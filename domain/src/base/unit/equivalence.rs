//! Factors that hold for one substance (seed: `rfc-0002-ground-truth`, "Schema Normalization": `conversion_table`).

use super::measure::Measure;
use super::{Unit, UnitError};
use crate::base::decimal::Decimal;

/// What one unit of a substance is in another unit: an international unit of vitamin D is 0.025 `ug`, a `mol` of glucose
/// 180.156 `g`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Equivalence {
    /// The one by the other; for this substance it is one.
    measure: Measure,
}

impl Equivalence {
    /// That one `unit` is `amount` of `other`.
    ///
    /// # Errors
    ///
    /// If `amount` is not more than zero, or one of the two is a reading on a scale.
    pub fn new(unit: &Unit, amount: &Decimal, other: &Unit) -> Result<Self, UnitError> {
        if *amount <= Decimal::from(0) {
            return Err(UnitError::Amount { amount: amount.clone() });
        }
        if unit.measure.scale().or(other.measure.scale()).is_some() {
            return Err(UnitError::Scale { from: unit.code.clone(), to: other.code.clone() });
        }
        let other = other.measure.times(&Measure::of(amount));
        Ok(Self { measure: unit.measure.over(&other) })
    }

    pub(super) fn measure(&self) -> &Measure {
        &self.measure
    }
}
