//! The value of a unit in base units, as an exact fraction.

use crate::base::decimal::{Decimal, ten_to};
use num::BigInt;
use num::rational::Ratio;
use num::traits::One;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The maximum number of bits in the numerator, and in the denominator, of a value: enough for the square of `Ym3`.
pub const FACTOR_BITS_MAX: u64 = 512;

/// An amount of base units, or a scale.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UnitMeasure {
    ratio: Ratio<BigInt>,
    /// The base units and annotations, with their exponents, of which none is zero.
    bases: BTreeMap<Cow<'static, str>, i32>,
    /// The code of the scale, with its prefix. A scale is not a multiple of another unit.
    scale: Option<String>,
}

impl UnitMeasure {
    /// The plain number one.
    pub(super) fn one() -> Self {
        Self::new(Ratio::one())
    }

    /// A plain number.
    pub(super) fn of(number: &Decimal) -> Self {
        let (coefficient, exponent) = (Ratio::from(number.coefficient()), number.exponent());
        Self::new(coefficient * ten_to(exponent) / ten_to(-exponent))
    }

    /// A plain number, of any size.
    pub(super) fn of_integer(number: BigInt) -> Self {
        Self::new(number.into())
    }

    pub(super) fn of_base(code: &'static str) -> Self {
        Self { bases: [(code.into(), 1)].into(), ..Self::one() }
    }

    /// This unit with an annotation, braces included. The annotation counts as a base unit, so `{USD}` and `{EUR}`
    /// differ.
    pub(super) fn annotated(mut self, annotation: &str) -> Self {
        *self.bases.entry(annotation.to_owned().into()).or_default() += 1;
        self
    }

    pub(super) fn of_scale(code: String) -> Self {
        Self { scale: Some(code), ..Self::one() }
    }

    fn new(ratio: Ratio<BigInt>) -> Self {
        Self { ratio, bases: BTreeMap::new(), scale: None }
    }

    /// The product of two measures that are not scales.
    pub(super) fn times(&self, other: &Self) -> Self {
        let mut bases = self.bases.clone();
        for (base, exponent) in &other.bases {
            *bases.entry(base.clone()).or_default() += exponent;
        }
        bases.retain(|_, exponent| *exponent != 0);
        Self { ratio: &self.ratio * &other.ratio, bases, scale: None }
    }

    /// The quotient of two measures that are neither scales nor zero.
    pub(super) fn over(&self, other: &Self) -> Self {
        self.times(&other.power(-1))
    }

    /// The measure to the power of `exponent`; it must be neither a scale nor zero.
    pub(super) fn power(&self, exponent: i32) -> Self {
        let bases = self.bases.iter().map(|(base, own)| (base.clone(), own * exponent));
        let bases = bases.filter(|(_, exponent)| *exponent != 0).collect();
        Self { ratio: self.ratio.pow(exponent), bases, scale: None }
    }

    /// The plain number, if the measure has no dimension.
    pub(super) fn number(&self) -> Option<&Ratio<BigInt>> {
        (self.bases.is_empty() && self.scale.is_none()).then_some(&self.ratio)
    }

    /// The code of the scale, if the measure is one.
    pub(super) fn scale(&self) -> Option<&str> {
        self.scale.as_deref()
    }

    /// Whether the value is greater than zero, and within the limits.
    pub(super) fn is_in_range(&self) -> bool {
        let fits = |number: &BigInt| (1..=FACTOR_BITS_MAX).contains(&number.bits());
        fits(self.ratio.numer()) && fits(self.ratio.denom())
    }

    /// Whether `other` is the same scale with the same annotation.
    pub(super) fn is_same_scale(&self, other: &Self) -> bool {
        self.scale.is_some() && self.scale == other.scale && self.bases == other.bases
    }

    /// The base units with their exponents, as text.
    pub(super) fn dimension(&self) -> String {
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
