//! Conversion factors for one substance (seed: `rfc-0002-ground-truth`, "Schema Normalization": `conversion_table`).

use super::measure::UnitMeasure;
use super::{UcumUnit, UnitError};
use crate::base::decimal::Decimal;

/// One unit of a substance in another unit: an international unit of vitamin D is 0.025 `ug`, a `mol` of
/// glucose is 180.156 `g`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubstanceEquivalence {
    /// The quotient of both sides, which is one for this substance.
    measure: UnitMeasure,
}

impl SubstanceEquivalence {
    /// Declares that one `unit` is `amount` of `other`.
    ///
    /// # Errors
    ///
    /// If `amount` is not greater than zero, or one of the units is a scale.
    pub fn new(unit: &UcumUnit, amount: &Decimal, other: &UcumUnit) -> Result<Self, UnitError> {
        if *amount <= Decimal::from(0) {
            return Err(UnitError::Amount { amount: amount.clone() });
        }
        if unit.measure.scale().or(other.measure.scale()).is_some() {
            return Err(UnitError::Scale { from: unit.code.clone(), to: other.code.clone() });
        }
        let other = other.measure.times(&UnitMeasure::of(amount));
        Ok(Self { measure: unit.measure.over(&other) })
    }

    pub(super) fn measure(&self) -> &UnitMeasure {
        &self.measure
    }
}
