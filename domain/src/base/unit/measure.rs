//! What a unit comes to in base units, as an exact fraction of whole numbers.

use crate::base::decimal::{Decimal, ten_to};
use num::BigInt;
use num::rational::Ratio;
use num::traits::One;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The most bits above or below the fraction stroke of what a unit comes to: there is room for `Ym3` twice.
pub const FACTOR_BITS_MAX: u64 = 512;

/// So many of the base units, or a scale.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Measure {
    ratio: Ratio<BigInt>,
    /// The base units and the annotations in it, with their exponents. No exponent is zero.
    bases: BTreeMap<Cow<'static, str>, i32>,
    /// The code with its prefix of what is no multiple of anything.
    scale: Option<String>,
}

impl Measure {
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

    /// One of a base unit.
    pub(super) fn of_base(code: &'static str) -> Self {
        Self { bases: [(code.into(), 1)].into(), ..Self::one() }
    }

    /// This unit with an annotation, braces included. The annotation counts as a base unit, so `{USD}` and `{EUR}`
    /// differ.
    pub(super) fn annotated(mut self, annotation: &str) -> Self {
        *self.bases.entry(annotation.to_owned().into()).or_default() += 1;
        self
    }

    /// A scale of this code.
    pub(super) fn of_scale(code: String) -> Self {
        Self { scale: Some(code), ..Self::one() }
    }

    fn new(ratio: Ratio<BigInt>) -> Self {
        Self { ratio, bases: BTreeMap::new(), scale: None }
    }

    /// The product of two that are no scales.
    pub(super) fn times(&self, other: &Self) -> Self {
        let mut bases = self.bases.clone();
        for (base, exponent) in &other.bases {
            *bases.entry(base.clone()).or_default() += exponent;
        }
        bases.retain(|_, exponent| *exponent != 0);
        Self { ratio: &self.ratio * &other.ratio, bases, scale: None }
    }

    /// The quotient of two that are no scales and not zero.
    pub(super) fn over(&self, other: &Self) -> Self {
        self.times(&other.power(-1))
    }

    /// This to the power of `exponent`, if it is no scale and not zero.
    pub(super) fn power(&self, exponent: i32) -> Self {
        let bases = self.bases.iter().map(|(base, own)| (base.clone(), own * exponent));
        let bases = bases.filter(|(_, exponent)| *exponent != 0).collect();
        Self { ratio: self.ratio.pow(exponent), bases, scale: None }
    }

    /// The number that this is, where it measures nothing.
    pub(super) fn number(&self) -> Option<&Ratio<BigInt>> {
        (self.bases.is_empty() && self.scale.is_none()).then_some(&self.ratio)
    }

    /// The code of the scale that this is.
    pub(super) fn scale(&self) -> Option<&str> {
        self.scale.as_deref()
    }

    /// Whether it is more than zero, and within the bounds.
    pub(super) fn is_in_range(&self) -> bool {
        let fits = |number: &BigInt| (1..=FACTOR_BITS_MAX).contains(&number.bits());
        fits(self.ratio.numer()) && fits(self.ratio.denom())
    }

    /// Whether `other` is the same scale, of something with the same annotation.
    pub(super) fn is_same_scale(&self, other: &Self) -> bool {
        self.scale.is_some() && self.scale == other.scale && self.bases == other.bases
    }

    /// The base units that are in it, with their exponents.
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
