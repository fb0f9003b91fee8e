//! When two values are the same, and how far apart they are otherwise.

use crate::ground::decimal::{Decimal, Rounding};
use crate::ground::ontology::Axis;
use crate::ground::value::Typed;

/// Whether two values of `axis` are the same: numbers after the axis's precision, everything else as it stands.
pub(super) fn agree(axis: &Axis, one: &Typed, other: &Typed) -> bool {
    match (one, other, axis.precision) {
        (Typed::Number(one), Typed::Number(other), Some(places)) => {
            let rounded = |number: &Decimal| number.round(places, Rounding::HalfEven);
            one == other || matches!((rounded(one), rounded(other)), (Ok(one), Ok(other)) if one == other)
        }
        _ => one == other,
    }
}

/// How far two numbers are apart, whatever the precision; nothing for other values.
pub(super) fn delta(one: &Typed, other: &Typed) -> Option<Decimal> {
    let (Typed::Number(one), Typed::Number(other)) = (one, other) else { return None };
    let (low, high) = if one <= other { (one, other) } else { (other, one) };
    high.checked_sub(low).ok()
}
