//! Units of measurement by their UCUM codes, and exact conversion between them (seed: `rfc-0002-ground-truth`, "Schema
//! Normalization": `unit_conversion`).
//!
//! A unit is defined by its value in UCUM's base units. Two units with the same dimensions differ by a
//! factor, which is an exact fraction; a conversion rounds only on request. In UCUM an annotation (`{USD}`)
//! has no dimension. Here each annotation is a dimension of its own: dollars are not euros, and persons are
//! not households. Parsing a unit and finding a factor take some microseconds, and applying a factor a tenth
//! of a microsecond. A caller that converts a million records should therefore keep the factors.

mod parser;

use super::decimal::{Decimal, DecimalError, Rounding, last_place, ten_to};
use num::rational::Ratio;
use num::traits::One;
use num::{BigInt, Integer};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

pub use parser::{EXPONENT_MAX, NESTING_MAX};

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
        code_of(spelling).unwrap_or(spelling).parse().map_err(|_| {
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

    fn measure(&self) -> &UnitMeasure {
        &self.measure
    }
}

/// The factor that converts a number of one unit to a number of another: a positive fraction.
///
/// The power of ten is stored separately, so the denominator has no factor of two or five. A product that the
/// denominator does not divide has infinitely many digits after the point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversionFactor {
    numerator: BigInt,
    denominator: BigInt,
    exponent: i64,
}

impl ConversionFactor {
    /// Creates a factor from `ratio`, which must not be zero.
    fn new(ratio: &Ratio<BigInt>) -> Self {
        let (twos, denominator) = without(2, ratio.denom().clone());
        let (fives, denominator) = without(5, denominator);
        let places = twos.max(fives);
        let numerator =
            ratio.numer() * BigInt::from(2).pow(places - twos) * BigInt::from(5).pow(places - fives);
        let (tens, numerator) = without(10, numerator);
        Self { numerator, denominator, exponent: i64::from(tens) - i64::from(places) }
    }

    /// The exact product.
    ///
    /// # Errors
    ///
    /// [`DecimalError::Endless`] if the product has infinitely many digits; other errors if it exceeds the limits.
    pub fn apply(&self, number: &Decimal) -> Result<Decimal, DecimalError> {
        let product = number.coefficient() * &self.numerator;
        let (quotient, rest) = product.div_rem(&self.denominator);
        if rest != BigInt::ZERO {
            return Err(DecimalError::Endless);
        }
        Decimal::from_parts(&quotient, number.exponent() + self.exponent)
    }

    /// The product, rounded once to `places` digits after the point.
    ///
    /// # Errors
    ///
    /// If `places` is outside -64 to 127, or the result exceeds the limits.
    pub fn apply_rounded(
        &self,
        number: &Decimal,
        places: i32,
        rounding: Rounding,
    ) -> Result<Decimal, DecimalError> {
        let last = last_place(places)?;
        let shift = number.exponent() + self.exponent - last;
        let dividend = number.coefficient() * &self.numerator * ten_to(shift);
        let divisor = &self.denominator * ten_to(-shift);
        Decimal::from_parts(&rounding.divide(&dividend, &divisor), last)
    }
}

/// Returns how often `prime` divides `number`, which must not be zero, and the remaining factor.
fn without(prime: u32, mut number: BigInt) -> (u32, BigInt) {
    let mut times = 0;
    loop {
        let (quotient, rest) = number.div_rem(&prime.into());
        if rest != BigInt::ZERO {
            return (times, number);
        }
        number = quotient;
        times += 1;
    }
}

/// The maximum number of bits in the numerator, and in the denominator, of a value: enough for the square of `Ym3`.
pub const FACTOR_BITS_MAX: u64 = 512;

/// An amount of base units, or a scale.
#[derive(Debug, Clone, PartialEq, Eq)]
struct UnitMeasure {
    ratio: Ratio<BigInt>,
    /// The base units and annotations, with their exponents, of which none is zero.
    bases: BTreeMap<Cow<'static, str>, i32>,
    /// The code of the scale, with its prefix. A scale is not a multiple of another unit.
    scale: Option<String>,
}

impl UnitMeasure {
    /// The plain number one.
    fn one() -> Self {
        Self::new(Ratio::one())
    }

    /// A plain number.
    fn of(number: &Decimal) -> Self {
        let (coefficient, exponent) = (Ratio::from(number.coefficient()), number.exponent());
        Self::new(coefficient * ten_to(exponent) / ten_to(-exponent))
    }

    /// A plain number, of any size.
    fn of_integer(number: BigInt) -> Self {
        Self::new(number.into())
    }

    fn of_base(code: &'static str) -> Self {
        Self { bases: [(code.into(), 1)].into(), ..Self::one() }
    }

    /// This unit with an annotation, braces included. The annotation counts as a base unit, so `{USD}` and `{EUR}`
    /// differ.
    fn annotated(mut self, annotation: &str) -> Self {
        *self.bases.entry(annotation.to_owned().into()).or_default() += 1;
        self
    }

    fn of_scale(code: String) -> Self {
        Self { scale: Some(code), ..Self::one() }
    }

    fn new(ratio: Ratio<BigInt>) -> Self {
        Self { ratio, bases: BTreeMap::new(), scale: None }
    }

    /// The product of two measures that are not scales.
    fn times(&self, other: &Self) -> Self {
        let mut bases = self.bases.clone();
        for (base, exponent) in &other.bases {
            *bases.entry(base.clone()).or_default() += exponent;
        }
        bases.retain(|_, exponent| *exponent != 0);
        Self { ratio: &self.ratio * &other.ratio, bases, scale: None }
    }

    /// The quotient of two measures that are neither scales nor zero.
    fn over(&self, other: &Self) -> Self {
        self.times(&other.power(-1))
    }

    /// The measure to the power of `exponent`; it must be neither a scale nor zero.
    fn power(&self, exponent: i32) -> Self {
        let bases = self.bases.iter().map(|(base, own)| (base.clone(), own * exponent));
        let bases = bases.filter(|(_, exponent)| *exponent != 0).collect();
        Self { ratio: self.ratio.pow(exponent), bases, scale: None }
    }

    /// The plain number, if the measure has no dimension.
    fn number(&self) -> Option<&Ratio<BigInt>> {
        (self.bases.is_empty() && self.scale.is_none()).then_some(&self.ratio)
    }

    /// The code of the scale, if the measure is one.
    fn scale(&self) -> Option<&str> {
        self.scale.as_deref()
    }

    /// Whether the value is greater than zero, and within the limits.
    fn is_in_range(&self) -> bool {
        let fits = |number: &BigInt| (1..=FACTOR_BITS_MAX).contains(&number.bits());
        fits(self.ratio.numer()) && fits(self.ratio.denom())
    }

    /// Whether `other` is the same scale with the same annotation.
    fn is_same_scale(&self, other: &Self) -> bool {
        self.scale.is_some() && self.scale == other.scale && self.bases == other.bases
    }

    /// The base units with their exponents, as text.
    fn dimension(&self) -> String {
        let power = |(base, exponent): (&Cow<'_, str>, &i32)| match exponent {
            1 => base.clone().into_owned(),
            _ => format!("{base}{exponent}"),
        };
        match self.scale() {
            Some(scale) => scale.to_owned(),
            None if self.bases.is_empty() => "1".to_owned(),
            None => self.bases.iter().map(power).collect::<Vec<_>>().join("."),
        }
    }
}

/// Common spellings with the intended code. Each is either not a UCUM code, or rarely used as one. `µ` is
/// listed both as the micro sign and as the Greek letter.
const SPELLINGS: &[(&str, &str)] = &[
    // mass
    ("G", "g"),
    ("gm", "g"),
    ("gram", "g"),
    ("grams", "g"),
    ("KG", "kg"),
    ("Kg", "kg"),
    ("kilogram", "kg"),
    ("kilograms", "kg"),
    ("MG", "mg"),
    ("milligram", "mg"),
    ("milligrams", "mg"),
    ("UG", "ug"),
    ("\u{b5}g", "ug"),
    ("\u{3bc}g", "ug"),
    ("mcg", "ug"),
    ("MCG", "ug"),
    ("microgram", "ug"),
    ("micrograms", "ug"),
    ("NG", "ng"),
    ("lb", "[lb_av]"),
    ("lbs", "[lb_av]"),
    ("pound", "[lb_av]"),
    ("pounds", "[lb_av]"),
    ("oz", "[oz_av]"),
    ("ounce", "[oz_av]"),
    ("ounces", "[oz_av]"),
    ("tonne", "t"),
    ("tonnes", "t"),
    // volume
    ("liter", "L"),
    ("liters", "L"),
    ("litre", "L"),
    ("litres", "L"),
    ("ML", "mL"),
    ("milliliter", "mL"),
    ("milliliters", "mL"),
    ("millilitre", "mL"),
    ("millilitres", "mL"),
    ("DL", "dL"),
    ("UL", "uL"),
    ("\u{b5}L", "uL"),
    ("\u{3bc}L", "uL"),
    ("\u{b5}l", "ul"),
    ("\u{3bc}l", "ul"),
    // energy
    ("KCAL", "kcal"),
    ("Kcal", "kcal"),
    ("kilocalorie", "kcal"),
    ("kilocalories", "kcal"),
    ("KJ", "kJ"),
    ("kj", "kJ"),
    ("kilojoule", "kJ"),
    ("kilojoules", "kJ"),
    // amount
    ("IU", "[IU]"),
    ("iu", "[IU]"),
    ("mole", "mol"),
    ("moles", "mol"),
    ("\u{b5}mol", "umol"),
    ("\u{3bc}mol", "umol"),
    // length
    ("meter", "m"),
    ("meters", "m"),
    ("metre", "m"),
    ("metres", "m"),
    ("KM", "km"),
    ("CM", "cm"),
    ("MM", "mm"),
    ("\u{b5}m", "um"),
    ("\u{3bc}m", "um"),
    ("inch", "[in_i]"),
    ("inches", "[in_i]"),
    ("ft", "[ft_i]"),
    ("foot", "[ft_i]"),
    ("feet", "[ft_i]"),
    ("mile", "[mi_i]"),
    ("miles", "[mi_i]"),
    // time
    ("sec", "s"),
    ("second", "s"),
    ("seconds", "s"),
    ("minute", "min"),
    ("minutes", "min"),
    ("hr", "h"),
    ("hour", "h"),
    ("hours", "h"),
    ("day", "d"),
    ("days", "d"),
    ("week", "wk"),
    ("weeks", "wk"),
    // temperature and shares
    ("\u{b0}C", "Cel"),
    ("\u{2103}", "Cel"),
    ("\u{b0}F", "[degF]"),
    ("\u{2109}", "[degF]"),
    ("percent", "%"),
    ("ppm", "[ppm]"),
    ("ppb", "[ppb]"),
    ("mmHg", "mm[Hg]"),
];

/// The UCUM code of a known spelling.
fn code_of(spelling: &str) -> Option<&'static str> {
    SPELLINGS.iter().find(|(known, _)| *known == spelling).map(|(_, code)| *code)
}

/// Every spelling with its code.
#[cfg(test)]
fn spellings() -> &'static [(&'static str, &'static str)] {
    SPELLINGS
}

#[cfg(test)]
mod tests;
