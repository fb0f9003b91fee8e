//! Rounding modes (seed: `rfc-0002-ground-truth`, `numeric_precision`).

use num::Integer;
use num::bigint::{BigInt, Sign};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// How a number is rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rounding {
    /// To the nearest number, and from halfway to the even one: 2.5 becomes 2, 3.5 becomes 4.
    HalfEven,
    /// To the nearest number, and from halfway away from zero: 2.5 becomes 3, -2.5 becomes -3.
    HalfUp,
    /// Towards zero.
    Truncate,
}

impl Rounding {
    /// Divides `dividend` by `divisor`, which must be positive, and rounds to an integer.
    pub(crate) fn divide(self, dividend: &BigInt, divisor: &BigInt) -> BigInt {
        let (quotient, rest) = dividend.div_rem(divisor);
        let half = (rest.magnitude() * 2_u32).cmp(divisor.magnitude());
        let is_away = match self {
            Self::HalfEven => half == Ordering::Greater || half == Ordering::Equal && quotient.is_odd(),
            Self::HalfUp => half != Ordering::Less,
            Self::Truncate => false,
        };
        match (is_away, dividend.sign()) {
            (false, _) | (_, Sign::NoSign) => quotient,
            (true, Sign::Plus) => quotient + 1,
            (true, Sign::Minus) => quotient - 1,
        }
    }
}
