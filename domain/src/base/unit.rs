//! Units of measurement by their UCUM codes, and exact conversion between them (seed: `rfc-0002-ground-truth`, "Schema
//! Normalization": `unit_conversion`).
//!
//! A unit is defined by its value in UCUM's base units. Two units with the same dimensions differ by a
//! factor, which is an exact fraction; a conversion rounds only on request. In UCUM an annotation (`{USD}`)
//! has no dimension. Here each annotation is a dimension of its own: dollars are not euros, and persons are
//! not households. Parsing a unit and finding a factor take some microseconds, and applying a factor a tenth
//! of a microsecond. A caller that converts a million records should therefore keep the factors.

mod equivalence;
mod factor;
mod measure;
mod parser;
mod spelling;
mod table;

pub use equivalence::SubstanceEquivalence;
pub use factor::ConversionFactor;
pub use measure::FACTOR_BITS_MAX;
pub use parser::{EXPONENT_MAX, NESTING_MAX};

use super::decimal::Decimal;
use measure::UnitMeasure;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The maximum length of a code, and of a spelling, in bytes.
pub const CODE_MAX_BYTES: usize = 128;

/// Why a text is not a unit, or a unit does not convert to another.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// The code is empty or too long.
    #[error("the unit code has {size_bytes} bytes (1 to {CODE_MAX_BYTES} allowed)")]
    Length {
        /// The length of the code, in bytes.
        size_bytes: usize,
    },
    /// The code does not follow UCUM's grammar.
    #[error("{code:?} is not a UCUM code: expected {expected} at byte {at}")]
    Syntax {
        code: String,
        /// The offset of the fault, in bytes.
        at: usize,
        /// The element that is allowed there.
        expected: &'static str,
    },
    /// Parentheses are nested too deeply.
    #[error("{code:?} nests parentheses more than {NESTING_MAX} levels deep")]
    Nesting { code: String },
    /// A unit is not in the table.
    #[error("{unit:?} in {code:?} is not a known unit; UCUM codes are case-sensitive, such as m, kg and Cel")]
    Unknown {
        code: String,
        /// The unknown part of the code.
        unit: String,
    },
    /// A unit has a prefix that it does not allow.
    #[error("{unit:?} in {code:?} has a prefix, which UCUM does not allow there")]
    Prefix {
        code: String,
        /// The part of the code with the prefix.
        unit: String,
    },
    /// An exponent is too large.
    #[error("{code:?} has an exponent outside -{EXPONENT_MAX} to {EXPONENT_MAX}")]
    Exponent { code: String },
    /// The value in base units is zero, or too large or too small.
    #[error("{code:?} is zero, or has a value of more than {FACTOR_BITS_MAX} bits in base units")]
    Range { code: String },
    /// A scale (such as `Cel`) is combined with other units.
    #[error("{code:?} combines {scale:?} with other units, but a scale can only be used alone")]
    ScaleInTerm { code: String, scale: String },
    /// A scale (such as `Cel`) does not convert to another unit.
    #[error("`{from}` does not convert to `{to}`: a scale only converts to itself")]
    Scale {
        /// The unit to convert from.
        from: String,
        /// The unit to convert to.
        to: String,
    },
    /// The units measure different quantities.
    #[error(
        "`{from}` does not convert to `{to}`: the dimensions {from_dimension} and {to_dimension} differ, and no factor for the \
         substance connects them"
    )]
    Dimension {
        /// The unit to convert from.
        from: String,
        /// Its dimension in base units.
        from_dimension: String,
        /// The unit to convert to.
        to: String,
        /// Its dimension in base units.
        to_dimension: String,
    },
    /// One unit is the inverse of the other.
    #[error(
        "`{from}` does not convert to `{to}`, because one is the inverse of the other; use the `reciprocal` normalizer"
    )]
    Inverse {
        /// The unit to convert from.
        from: String,
        /// The unit to convert to.
        to: String,
    },
    /// The factor for a substance is zero or less.
    #[error("the factor {amount} between units is not positive")]
    Amount {
        /// The factor.
        amount: Decimal,
    },
    /// The spelling is neither in the table of aliases nor a code.
    #[error("{spelling:?} is neither a known spelling of a unit nor a UCUM code")]
    Spelling {
        /// The spelling, or its beginning.
        spelling: String,
    },
}

/// A unit of measurement, by its UCUM code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct UcumUnit {
    code: String,
    measure: UnitMeasure,
}

impl UcumUnit {
    /// The UCUM code as written.
    #[must_use]
    pub fn code(&self) -> &str {
        &self.code
    }

    /// The unit that `spelling` means in a source's data.
    ///
    /// A common spelling takes precedence (`G` is the gram, `MG` the milligram, `ML` the milliliter, `IU` the
    /// international unit) over a UCUM code (in which `G` is the gauss, `MG` the megagauss and `ML` the
    /// megaliter). Ontologies, pipelines, and sources that write UCUM are therefore parsed with `parse`. An
    /// ambiguous spelling has no alias, only its code: `cal` and `Cal`, for example, are also used for a
    /// thousand calories. Only the whole spelling is looked up, not a part of it.
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

    /// The factor that converts a number of `from` to a number of `to`.
    ///
    /// # Errors
    ///
    /// If the two have different dimensions, if one is the inverse of the other, or if one is a scale (`Cel`,
    /// `[pH]`) and the other is another unit.
    pub fn conversion(from: &Self, to: &Self) -> Result<ConversionFactor, UnitError> {
        let quotient = Self::quotient(from, to)?;
        quotient.number().map(ConversionFactor::new).ok_or_else(|| Self::mismatch(from, to))
    }

    /// Like [`Self::conversion`], with a factor for one substance: between mass and international units of a
    /// vitamin, or between mass and amount of a substance with a known molar mass, in either direction.
    ///
    /// # Errors
    ///
    /// As for [`Self::conversion`], if `equivalence` does not connect the two units either.
    pub fn conversion_by(
        from: &Self,
        to: &Self,
        equivalence: &SubstanceEquivalence,
    ) -> Result<ConversionFactor, UnitError> {
        let quotient = Self::quotient(from, to)?;
        let one = equivalence.measure();
        let ways = [&quotient, &quotient.over(one), &quotient.times(one)];
        let number = ways.iter().find_map(|way| way.number());
        number.map(ConversionFactor::new).ok_or_else(|| Self::mismatch(from, to))
    }

    /// The quotient of `from` and `to`, in base units.
    fn quotient(from: &Self, to: &Self) -> Result<UnitMeasure, UnitError> {
        let (of, by) = (&from.measure, &to.measure);
        if of.is_same_scale(by) {
            return Ok(UnitMeasure::one());
        }
        if of.scale().or(by.scale()).is_some() {
            return Err(UnitError::Scale { from: from.code.clone(), to: to.code.clone() });
        }
        let (quotient, product) = (of.over(by), of.times(by));
        // `mg` and `/mg` have different dimensions, `%` and `/%` only different factors
        let is_inverse = match quotient.number() {
            None => product.number().is_some(),
            Some(_) => product == UnitMeasure::one() && quotient != UnitMeasure::one(),
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

impl TryFrom<String> for UcumUnit {
    type Error = UnitError;

    fn try_from(code: String) -> Result<Self, UnitError> {
        parser::measure(&code).map(|measure| Self { code, measure })
    }
}

impl std::str::FromStr for UcumUnit {
    type Err = UnitError;

    fn from_str(code: &str) -> Result<Self, UnitError> {
        parser::measure(code).map(|measure| Self { code: code.to_owned(), measure })
    }
}

impl From<UcumUnit> for String {
    fn from(unit: UcumUnit) -> Self {
        unit.code
    }
}

impl fmt::Display for UcumUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.code)
    }
}

#[cfg(test)]
mod tests;
