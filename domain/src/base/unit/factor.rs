//! The exact factor between two units.

use crate::base::decimal::{Decimal, DecimalError, Rounding, last_place, ten_to};
use num::rational::Ratio;
use num::{BigInt, Integer};

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
    pub(super) fn new(ratio: &Ratio<BigInt>) -> Self {
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
