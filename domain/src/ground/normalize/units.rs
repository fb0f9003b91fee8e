//! Conversion to the unit of an axis. Factors are cached, because computing one takes longer than all other work on a
//! value.

use super::mapping::{DraftValue, number};
use crate::base::decimal::{Decimal, Rounding};
use crate::base::unit::{ConversionFactor, SubstanceEquivalence, UcumUnit, UnitError};
use crate::ground::rejection::{RecordRejection, RecordRule};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

/// The maximum number of unit spellings for each substance whose factors are cached; the factors of others are computed
/// each time.
const SPELLINGS_KEPT_MAX: usize = 256;
/// The name in a table that matches every substance.
const ANY_SUBSTANCE: &str = "*";

/// A conversion to the unit of an axis.
#[derive(Debug)]
pub(super) struct UnitConverter {
    /// The unit of every value; `None` if each value has its own unit in a field.
    from: Option<String>,
    to: UcumUnit,
    /// The equivalents of units that have no general conversion, by substance.
    table: BTreeMap<String, Vec<SubstanceEquivalence>>,
    /// The decimal places to round to; by default the result must be exact.
    digits: Option<i32>,
    /// The factors found so far, by substance as named in the table, then by spelling of the unit.
    known: RwLock<BTreeMap<String, HashMap<String, Arc<ConversionFactor>>>>,
}

impl UnitConverter {
    /// A conversion to `to` from `from`, or from the unit of each value.
    pub(super) fn new(
        from: Option<String>,
        to: UcumUnit,
        table: BTreeMap<String, Vec<SubstanceEquivalence>>,
        digits: Option<i32>,
    ) -> Self {
        Self { from, to, table, digits, known: RwLock::default() }
    }

    /// Converts `draft` to the unit of the axis. `unit` is its own unit, which is used if there is no common one.
    pub(super) fn convert(
        &self,
        draft: DraftValue<'_>,
        unit: Option<&str>,
        substance: &str,
        path: &str,
    ) -> Result<Decimal, RecordRejection> {
        let refuse = |reason: String| RecordRejection::new(RecordRule::UnitConversion, Some(path), reason);
        let value = number(draft, path)?;
        let spelling = self.from.as_deref().or(unit).ok_or_else(|| refuse("its unit is not given".into()))?;
        let factor = self.factor(spelling, substance);
        let factor =
            factor.map_err(|error| refuse(format!("{error} (of `{spelling}`, for `{substance}`)")))?;
        let converted = match self.digits {
            Some(digits) => factor.apply_rounded(&value, digits, Rounding::HalfEven),
            None => factor.apply(&value),
        };
        converted.map_err(|error| refuse(error.to_string()))
    }

    /// The factor for a number in the unit with this spelling, for a substance.
    pub(super) fn factor(&self, spelling: &str, substance: &str) -> Result<Arc<ConversionFactor>, UnitError> {
        let substance = self.table.get_key_value(substance).map_or(ANY_SUBSTANCE, |(name, _)| name);
        // the cached factors are valid even if another thread panicked
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(factor) = known.get(substance).and_then(|factors| factors.get(spelling)) {
            return Ok(Arc::clone(factor));
        }
        drop(known);
        let factor = Arc::new(self.find_factor(&UcumUnit::from_spelling(spelling)?, substance)?);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let factors = known.entry(substance.to_owned()).or_default();
        if factors.len() < SPELLINGS_KEPT_MAX {
            factors.insert(spelling.to_owned(), Arc::clone(&factor));
        }
        Ok(factor)
    }

    /// The factor from `unit`: by the definition of the units, else by the table's entry for the substance or for all
    /// substances.
    fn find_factor(&self, unit: &UcumUnit, substance: &str) -> Result<ConversionFactor, UnitError> {
        let by_table = || {
            let names = [substance, ANY_SUBSTANCE].into_iter();
            let mut known = names.filter_map(|name| self.table.get(name)).flatten();
            known.find_map(|equivalence| UcumUnit::conversion_by(unit, &self.to, equivalence).ok())
        };
        UcumUnit::conversion(unit, &self.to).or_else(|error| by_table().ok_or(error))
    }
}
