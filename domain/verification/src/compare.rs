//! Comparison of two values: whether they agree, and how much they differ.

use domain_base::decimal::{Decimal, Rounding};
use domain_ground::axis::Axis;
use domain_ground::value::TypedValue;

/// Whether two values of `axis` agree. Numbers agree if they are equal after rounding to the axis's
/// precision, or within its relative tolerance. Other values agree if they are equal.
pub(super) fn is_agreement(axis: &Axis, one: &TypedValue, other: &TypedValue) -> bool {
    if one == other {
        return true;
    }
    let (TypedValue::Number(a), TypedValue::Number(b)) = (one, other) else { return false };
    let rounds_alike = |places: i32| {
        let rounded = |number: &Decimal| number.round(places, Rounding::HalfEven);
        matches!((rounded(a), rounded(b)), (Ok(a), Ok(b)) if a == b)
    };
    axis.precision.is_some_and(rounds_alike)
        || axis.relative_tolerance.as_ref().is_some_and(|part| !is_ratio_exceeded(a, b, part))
}

/// The difference of two numbers, without rounding; `None` for other values.
pub(super) fn delta(one: &TypedValue, other: &TypedValue) -> Option<Decimal> {
    let (TypedValue::Number(one), TypedValue::Number(other)) = (one, other) else { return None };
    difference(one, other)
}

/// Whether two numbers differ by more than `part` of the larger magnitude. True if the difference cannot be computed.
pub(super) fn is_ratio_exceeded(one: &Decimal, other: &Decimal, part: &Decimal) -> bool {
    let limit = magnitude(one).max(magnitude(other)).and_then(|larger| larger.checked_mul(part).ok());
    difference(one, other).zip(limit).is_none_or(|(difference, limit)| difference > limit)
}

/// Whether two numbers differ in sign, or the larger magnitude is more than `factor` times the smaller one.
pub(super) fn is_factor_exceeded(one: &Decimal, other: &Decimal, factor: &Decimal) -> bool {
    let zero = Decimal::from(0);
    if one == other {
        return false;
    }
    if (*one < zero) != (*other < zero) || *one == zero || *other == zero {
        return true;
    }
    let (one, other) = (magnitude(one), magnitude(other));
    let limit = one.clone().min(other.clone()).and_then(|smaller| smaller.checked_mul(factor).ok());
    one.max(other).zip(limit).is_none_or(|(larger, limit)| larger > limit)
}

fn difference(one: &Decimal, other: &Decimal) -> Option<Decimal> {
    let (low, high) = if one <= other { (one, other) } else { (other, one) };
    high.checked_sub(low).ok()
}

fn magnitude(number: &Decimal) -> Option<Decimal> {
    let zero = Decimal::from(0);
    if *number < zero { zero.checked_sub(number).ok() } else { Some(number.clone()) }
}
