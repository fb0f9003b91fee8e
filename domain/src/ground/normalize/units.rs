//! Conversion into the unit of an axis, with the factors kept: to find one takes longer than all else that is done to a value.

use super::mapping::{Draft, number};
use crate::base::decimal::{Decimal, Rounding};
use crate::base::unit::{Equivalence, Factor, Unit, UnitError};
use crate::ground::rejection::{Rejection, Rule};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

/// So many spellings of units have their factors kept, for each substance; others are reckoned out again each time.
const SPELLINGS_KEPT_MAX: usize = 256;
/// The name in a table that stands for every substance.
const ANY_SUBSTANCE: &str = "*";

/// Into the unit of the axis.
#[derive(Debug)]
pub(super) struct Units {
    /// The unit of every value; else each has its own beside it.
    from: Option<String>,
    to: Unit,
    /// What units come to that no unit knows, by the substance.
    table: BTreeMap<String, Vec<Equivalence>>,
    /// Digits behind the point, where a value would else not end.
    digits: Option<i32>,
    /// The factors found so far, by the substance, as far as the table has it, and the spelling.
    known: RwLock<BTreeMap<String, HashMap<String, Arc<Factor>>>>,
}

impl Units {
    /// The conversion of values in `from`, or in the unit beside each, to `to`.
    pub(super) fn new(
        from: Option<String>,
        to: Unit,
        table: BTreeMap<String, Vec<Equivalence>>,
        digits: Option<i32>,
    ) -> Self {
        Self { from, to, table, digits, known: RwLock::default() }
    }

    /// The value of `draft`, which is in `unit` where not all are in one, in the unit of the axis.
    pub(super) fn convert(
        &self,
        draft: Draft<'_>,
        unit: Option<&str>,
        substance: &str,
        path: &str,
    ) -> Result<Decimal, Rejection> {
        let refuse = |reason: String| Rejection::new(Rule::UnitConversion, Some(path), reason);
        let value = number(draft, path)?;
        let spelling =
            self.from.as_deref().or(unit).ok_or_else(|| refuse("nothing says which unit it is in".into()))?;
        let factor = self.factor(spelling, substance);
        let factor =
            factor.map_err(|error| refuse(format!("{error} (of `{spelling}`, for `{substance}`)")))?;
        let converted = match self.digits {
            Some(digits) => factor.apply_rounded(&value, digits, Rounding::HalfEven),
            None => factor.apply(&value),
        };
        converted.map_err(|error| refuse(error.to_string()))
    }

    /// What a number in the unit spelled `spelling` is multiplied by, for a substance.
    pub(super) fn factor(&self, spelling: &str, substance: &str) -> Result<Arc<Factor>, UnitError> {
        let substance = self.table.get_key_value(substance).map_or(ANY_SUBSTANCE, |(name, _)| name);
        // what is in there is right, whoever panicked beside it
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(factor) = known.get(substance).and_then(|factors| factors.get(spelling)) {
            return Ok(Arc::clone(factor));
        }
        drop(known);
        let factor = Arc::new(self.found(&Unit::from_spelling(spelling)?, substance)?);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let factors = known.entry(substance.to_owned()).or_default();
        if factors.len() < SPELLINGS_KEPT_MAX {
            factors.insert(spelling.to_owned(), Arc::clone(&factor));
        }
        Ok(factor)
    }

    /// The factor from `unit`: by what units are, or else by what the table says of the substance, or of all.
    fn found(&self, unit: &Unit, substance: &str) -> Result<Factor, UnitError> {
        let by_table = || {
            let names = [substance, ANY_SUBSTANCE].into_iter();
            let mut known = names.filter_map(|name| self.table.get(name)).flatten();
            known.find_map(|equivalence| Unit::conversion_by(unit, &self.to, equivalence).ok())
        };
        Unit::conversion(unit, &self.to).or_else(|error| by_table().ok_or(error))
    }
}
