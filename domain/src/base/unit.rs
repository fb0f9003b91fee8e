//! Units of measurement by their UCUM codes, and exact conversion between them (seed: `rfc-0002-ground-truth`, "Schema
//! Normalization": `unit_conversion`).
//!
//! A unit is known by what it comes to in UCUM's base units. Two that come to the same dimensions differ by a factor,
//! which is a fraction of whole numbers; nothing is rounded unless that is asked for. In UCUM an annotation (`{USD}`)
//! has no dimension. Here each is a dimension of its own: dollars are not euros, and persons are not households.
//! Reading a unit and finding a factor take some microseconds, applying one a tenth of one: whoever converts a million
//! records keeps the factors.

mod equivalence;
mod factor;
mod measure;
mod parser;
mod spelling;
mod table;

pub use equivalence::Equivalence;
pub use factor::Factor;
pub use measure::FACTOR_BITS_MAX;
pub use parser::{EXPONENT_MAX, NESTING_MAX};

use super::decimal::Decimal;
use measure::Measure;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The longest code, and the longest spelling, of a unit, in bytes.
pub const CODE_MAX_BYTES: usize = 128;

/// Why there is no such unit, or no conversion.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// Too long to be looked at, or empty.
    #[error("the code of a unit has 1 to {CODE_MAX_BYTES} bytes; this one has {size_bytes}")]
    Length {
        /// How long it is.
        size_bytes: usize,
    },
    /// No UCUM code by its form.
    #[error("{code:?} is no UCUM code: expected {expected} at byte {at}")]
    Syntax {
        /// The code.
        code: String,
        /// Where it ceases to be one, in bytes.
        at: usize,
        /// What could stand there.
        expected: &'static str,
    },
    /// Parentheses in parentheses.
    #[error("{code:?} has parentheses more than {NESTING_MAX} deep")]
    Nesting {
        /// The code.
        code: String,
    },
    /// A unit that the table does not have.
    #[error("{unit:?} in {code:?} is no unit that is known here (UCUM's codes are case-sensitive)")]
    Unknown {
        /// The code.
        code: String,
        /// The part of it.
        unit: String,
    },
    /// A prefix on a unit that takes none.
    #[error("{unit:?} in {code:?} has a prefix, which UCUM does not allow there")]
    Prefix {
        /// The code.
        code: String,
        /// The part of it.
        unit: String,
    },
    /// An exponent that is too large.
    #[error("{code:?} has an exponent outside -{EXPONENT_MAX} to {EXPONENT_MAX}")]
    Exponent {
        /// The code.
        code: String,
    },
    /// A number that is zero, or a unit too large or too small.
    #[error("{code:?} comes to zero, or to more than {FACTOR_BITS_MAX} bits of the base units")]
    Range {
        /// The code.
        code: String,
    },
    /// A reading on a scale as a part of another unit.
    #[error("{code:?} reckons with {scale:?}, which is a reading on a scale and stands alone")]
    ScaleInTerm {
        /// The code.
        code: String,
        /// The part of it.
        scale: String,
    },
    /// A reading on a scale, and something else.
    #[error("`{from}` does not convert to `{to}`: a reading on a scale converts to itself alone")]
    Scale {
        /// Of what.
        from: String,
        /// To what.
        to: String,
    },
    /// Units that measure different things.
    #[error(
        "`{from}` does not convert to `{to}`: the one measures {from_dimension}, the other {to_dimension}, and only a factor \
         given for a substance could lie between them"
    )]
    Dimension {
        /// Of what.
        from: String,
        /// In base units.
        from_dimension: String,
        /// To what.
        to: String,
        /// In base units.
        to_dimension: String,
    },
    /// A unit and its inverse.
    #[error(
        "`{from}` does not convert to `{to}`, because one is the inverse of the other; use the `reciprocal` normalizer"
    )]
    Inverse {
        /// Of what.
        from: String,
        /// To what.
        to: String,
    },
    /// A factor for a substance that is zero or less.
    #[error("a factor between units is more than zero; {amount} is not")]
    Amount {
        /// The factor.
        amount: Decimal,
    },
    /// A spelling that is neither in the table of aliases nor a code.
    #[error("{spelling:?} is neither a known spelling of a unit nor a UCUM code")]
    Spelling {
        /// The spelling, or its beginning.
        spelling: String,
    },
}

/// A unit of measurement, by its UCUM code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Unit {
    code: String,
    measure: Measure,
}

impl Unit {
    /// The UCUM code, as it was written.
    #[must_use]
    pub fn code(&self) -> &str {
        &self.code
    }

    /// The unit that `spelling` means where it stands in a source's data.
    ///
    /// There a common spelling comes first (`G` is the gram, `MG` the milligram, `ML` the millilitre, `IU` the international
    /// unit), and a UCUM code second (in which `G` would be the gauss, `MG` a million of them and `ML` the megalitre). So a
    /// source that writes UCUM is read by `parse`, as ontologies and pipelines are. What means several things in the wild, as `cal` and `Cal` for a thousand
    /// calories, has no spelling here beside its code. Only the whole spelling is looked up, not a part of it.
    ///
    /// # Errors
    ///
    /// [`UnitError::Spelling`] if it is neither.
    pub fn from_spelling(spelling: &str) -> Result<Self, UnitError> {
        spelling::code_of(spelling).unwrap_or(spelling).parse().map_err(|_| {
            let spelling = spelling.chars().take(CODE_MAX_BYTES).collect();
            UnitError::Spelling { spelling }
        })
    }

    /// What a number of `from` is multiplied by to be a number of `to`.
    ///
    /// # Errors
    ///
    /// If the two measure different things, if one is the inverse of the other, or if one is a reading on a scale
    /// (`Cel`, `[pH]`) and the other is another unit.
    pub fn conversion(from: &Self, to: &Self) -> Result<Factor, UnitError> {
        let quotient = Self::quotient(from, to)?;
        quotient.number().map(Factor::new).ok_or_else(|| Self::mismatch(from, to))
    }

    /// As [`Self::conversion`], for a substance of which `equivalence` holds: between mass and international units of a
    /// vitamin, or mass and amount of a substance whose molar mass is known, in either direction.
    ///
    /// # Errors
    ///
    /// As for [`Self::conversion`], if that leads from the one to the other neither.
    pub fn conversion_by(from: &Self, to: &Self, equivalence: &Equivalence) -> Result<Factor, UnitError> {
        let quotient = Self::quotient(from, to)?;
        let one = equivalence.measure();
        let ways = [&quotient, &quotient.over(one), &quotient.times(one)];
        let number = ways.iter().find_map(|way| way.number());
        number.map(Factor::new).ok_or_else(|| Self::mismatch(from, to))
    }

    /// What `from` is in terms of `to`.
    fn quotient(from: &Self, to: &Self) -> Result<Measure, UnitError> {
        let (of, by) = (&from.measure, &to.measure);
        if of.is_same_scale(by) {
            return Ok(Measure::one());
        }
        if of.scale().or(by.scale()).is_some() {
            return Err(UnitError::Scale { from: from.code.clone(), to: to.code.clone() });
        }
        let (quotient, product) = (of.over(by), of.times(by));
        // `mg` and `/mg` have different dimensions, `%` and `/%` only different factors
        let is_inverse = match quotient.number() {
            None => product.number().is_some(),
            Some(_) => product == Measure::one() && quotient != Measure::one(),
        };
        if is_inverse {
            return Err(UnitError::Inverse { from: from.code.clone(), to: to.code.clone() });
        }
        Ok(quotient)
    }

    fn mismatch(from: &Self, to: &Self) -> UnitError {
        UnitError::Dimension {
            from_dimension: from.measure.dimension(),
            to_dimension: to.measure.dimension(),
            from: from.code.clone(),
            to: to.code.clone(),
        }
    }
}

impl TryFrom<String> for Unit {
    type Error = UnitError;

    fn try_from(code: String) -> Result<Self, UnitError> {
        parser::measure(&code).map(|measure| Self { code, measure })
    }
}

impl std::str::FromStr for Unit {
    type Err = UnitError;

    fn from_str(code: &str) -> Result<Self, UnitError> {
        parser::measure(code).map(|measure| Self { code: code.to_owned(), measure })
    }
}

impl From<Unit> for String {
    fn from(unit: Unit) -> Self {
        unit.code
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.code)
    }
}

#[cfg(test)]
mod tests;
