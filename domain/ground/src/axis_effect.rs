//! The effect of a release on the values of each axis, for the gates of axes.
//!
//! Only records of the release that replace or confirm a record in force are compared. On an axis that is a group, each
//! value counts, and each key counts by itself as well, since a release can empty or mis-scale a single one.

use super::axis::Axis;
use super::ontology::Ontology;
use crate::record::{ContentCell, ContentRow, number_of};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// The maximum number of keys of groups that count by themselves. Values of further keys count only for their group.
const KEYS_MAX: usize = 512;
/// The maximum number of changed numbers of an axis that are searched for a common factor. Of more numbers, an even
/// sample of at least half as many is searched.
const CHANGES_MAX: usize = 4096;
/// The error of a factor that was computed with 64-bit floats, relative to the factor.
const FLOAT_ERROR: f64 = 1e-15;

/// The effect of a release on an axis, over its records that replace or confirm a record in force.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AxisEffect {
    /// Values in force before it. A record counts once, and on a group once for each key.
    pub filled: u64,
    /// Values among them without a value in their place.
    pub unfilled: u64,
    /// Values among them with another value, or none, in their place.
    pub changed: u64,
    /// Numbers other than zero that another number other than zero replaces or confirms.
    pub numbers: u64,
    /// What most of the changed numbers have in common.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub common_change: Option<CommonChange>,
}

/// A change that numbers have in common, within their last digits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CommonChange {
    /// The kind of the common change.
    pub of: CommonChangeKind,
    /// The common factor or product.
    pub value: String,
    /// How many numbers have it in common. Over 4,096 changed numbers it is an estimate.
    pub numbers: u64,
}

/// A quantity that is equal for all changed numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CommonChangeKind {
    /// The new number divided by the old one: another scale, unit or sign.
    Factor,
    /// The new number times the old one: inverses.
    Product,
}

/// The effects on all axes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AxisEffects {
    /// The records of the release that replace or confirm a record in force.
    pub records: u64,
    /// By axis, as the ontology names it.
    pub axes: BTreeMap<String, AxisEffect>,
    /// For groups, by the path of a value: the name of its axis, and its effect.
    pub keys: BTreeMap<String, (String, AxisEffect)>,
}

/// Compares the records of a release with those that they replace or confirm.
#[derive(Debug)]
pub struct AxisEffectGauge<'o> {
    ontology: &'o Ontology,
    records: u64,
    /// By the index of the axis.
    axes: Vec<PathEffect>,
    /// By the index of the axis and the key.
    keys: BTreeMap<(usize, Vec<u8>), PathEffect>,
}

/// The effect so far on an axis, or on a key of a group.
#[derive(Debug, Clone, Default)]
struct PathEffect {
    filled: u64,
    unfilled: u64,
    changed: u64,
    numbers: u64,
    changes: ChangeSample,
}

/// A bounded sample of changed numbers.
#[derive(Debug, Clone, Default)]
struct ChangeSample {
    /// The kept changes, each with its number among all changes.
    kept: Vec<(u64, NumberChange)>,
    seen: u64,
    /// A change is kept if the hash of its number ends in this many zero bits.
    skipped_bits: u32,
}

/// The smallest and the largest factor and product of an old and a new number that have the written digits.
#[derive(Debug, Clone, Copy)]
struct NumberChange {
    factor: (f64, f64),
    product: (f64, f64),
}

/// A number other than zero, and half a unit of its last digit.
#[derive(Debug, Clone, Copy)]
struct MeasuredNumber {
    value: f64,
    half_digit: f64,
}

impl<'o> AxisEffectGauge<'o> {
    /// A gauge for rows of this ontology.
    #[must_use]
    pub fn new(ontology: &'o Ontology) -> Self {
        let axes = vec![PathEffect::default(); ontology.axes.len()];
        Self { ontology, records: 0, axes, keys: BTreeMap::new() }
    }

    /// Compares a record in force with the record that replaces or confirms it.
    pub fn compare(&mut self, before: &ContentRow<'_>, after: &ContentRow<'_>) {
        self.records += 1;
        let mut after = after.values().peekable();
        for old in before.values() {
            // the values of both rows are in the order of their paths
            while after.next_if(|new| self.path_order(new, &old) == Ordering::Less).is_some() {}
            let new = after.next_if(|new| self.path_order(new, &old) == Ordering::Equal);
            self.count(&old, new.map(|new| new.bytes));
        }
    }

    fn path_order(&self, left: &ContentCell<'_>, right: &ContentCell<'_>) -> Ordering {
        if (left.axis_index, left.key) == (right.axis_index, right.key) {
            return Ordering::Equal;
        }
        self.path_bytes(left).cmp(self.path_bytes(right))
    }

    /// The bytes of the path of a value.
    fn path_bytes<'c>(&'c self, cell: &ContentCell<'c>) -> impl Iterator<Item = u8> + 'c {
        let axis = self.ontology.axes.get(cell.axis_index).map_or("", |axis| &axis.axis);
        let (before, after) = axis.split_once('*').unwrap_or((axis, ""));
        let parts = [before.as_bytes(), cell.key.unwrap_or_default(), after.as_bytes()];
        parts.into_iter().flatten().copied()
    }

    fn count(&mut self, old: &ContentCell<'_>, new: Option<&[u8]>) {
        let Some(axis) = self.ontology.axes.get(old.axis_index).filter(|axis| !axis.identity) else { return };
        let numbers = new
            .filter(|_| axis.kind.is_numeric())
            .and_then(|new| Some((MeasuredNumber::read(old.bytes)?, MeasuredNumber::read(new)?)));
        let count = |effect: &mut PathEffect| effect.count(new, new == Some(old.bytes), numbers);
        if let Some(effect) = self.axes.get_mut(old.axis_index) {
            count(effect);
        }
        let Some(key) = old.key else { return };
        let key = (old.axis_index, key.to_vec());
        if let Some(effect) = self.keys.get_mut(&key) {
            count(effect);
        } else if self.keys.len() < KEYS_MAX {
            count(self.keys.entry(key).or_default());
        }
    }

    /// The effects of all compared records.
    #[must_use]
    pub fn into_effects(self) -> AxisEffects {
        let axes = self.ontology.axes.iter().zip(self.axes);
        let axes = axes.filter(|(_, effect)| effect.filled > 0);
        let keys = self.keys.into_iter().filter_map(|((index, key), effect)| {
            let axis = self.ontology.axes.get(index)?;
            Some((axis.at_key(str::from_utf8(&key).ok()?), (axis.axis.clone(), effect.finish())))
        });
        AxisEffects {
            records: self.records,
            axes: axes.map(|(axis, effect): (&Axis, _)| (axis.axis.clone(), effect.finish())).collect(),
            keys: keys.collect(),
        }
    }
}

impl PathEffect {
    fn count(
        &mut self,
        new: Option<&[u8]>,
        is_same: bool,
        numbers: Option<(MeasuredNumber, MeasuredNumber)>,
    ) {
        self.filled += 1;
        self.unfilled += u64::from(new.is_none());
        self.changed += u64::from(!is_same);
        let Some((old, new)) = numbers else { return };
        self.numbers += 1;
        if !is_same && let Some(change) = NumberChange::of(old, new) {
            self.changes.push(change);
        }
    }

    fn finish(self) -> AxisEffect {
        let Self { filled, unfilled, changed, numbers, changes } = self;
        AxisEffect { filled, unfilled, changed, numbers, common_change: changes.common_change() }
    }
}

impl MeasuredNumber {
    /// Reads the bytes of a number in a row; `None` for zero.
    fn read(bytes: &[u8]) -> Option<Self> {
        let text = number_of(bytes)?;
        let value: f64 = text.parse().ok().filter(|value| *value != 0.0)?;
        // zeros before the point are digits like others
        let places = text.split_once('.').map_or(0, |(_, fraction)| fraction.len());
        let half_digit = 0.5 * 10_f64.powi(-i32::try_from(places).ok()?);
        Some(Self { value, half_digit })
    }

    /// The smallest and the largest amount with the written digits.
    fn amounts(self) -> (f64, f64) {
        let amount = self.value.abs();
        (amount - self.half_digit, amount + self.half_digit)
    }
}

impl NumberChange {
    /// The change; `None` if the numbers may be the same number with other digits.
    fn of(old: MeasuredNumber, new: MeasuredNumber) -> Option<Self> {
        let ((old_least, old_most), (new_least, new_most)) = (old.amounts(), new.amounts());
        let is_flipped = old.value.is_sign_negative() != new.value.is_sign_negative();
        let interval = |least: f64, most: f64| {
            let (least, most) = (least * (1.0 - FLOAT_ERROR), most * (1.0 + FLOAT_ERROR));
            if is_flipped { (-most, -least) } else { (least, most) }
        };
        let factor = interval(new_least / old_most, new_most / old_least);
        let product = interval(new_least * old_least, new_most * old_most);
        (factor.0 > 1.0 || factor.1 < 1.0).then_some(Self { factor, product })
    }
}

impl ChangeSample {
    fn push(&mut self, change: NumberChange) {
        if self.is_kept(self.seen) {
            self.kept.push((self.seen, change));
        }
        self.seen += 1;
        while self.kept.len() > CHANGES_MAX {
            self.skipped_bits += 1;
            let bits = self.skipped_bits;
            self.kept.retain(|(number, _)| mixed(*number).trailing_zeros() >= bits);
        }
    }

    fn is_kept(&self, number: u64) -> bool {
        mixed(number).trailing_zeros() >= self.skipped_bits
    }

    fn common_change(&self) -> Option<CommonChange> {
        let of_kind = |of: CommonChangeKind| {
            let intervals = self.kept.iter().map(|(_, change)| match of {
                CommonChangeKind::Factor => change.factor,
                CommonChangeKind::Product => change.product,
            });
            let (count, least, most) = deepest_overlap(intervals)?;
            let numbers = u128::from(self.seen) * u128::from(count) / self.kept.len().max(1) as u128;
            let numbers = u64::try_from(numbers).unwrap_or(u64::MAX);
            Some(CommonChange { of, value: shortest_within(least, most), numbers })
        };
        let factor = of_kind(CommonChangeKind::Factor)?;
        let product = of_kind(CommonChangeKind::Product)?;
        Some(if product.numbers > factor.numbers { product } else { factor })
    }
}

/// The largest number of intervals that share a point, and the smallest and the largest point that they share.
fn deepest_overlap(intervals: impl Iterator<Item = (f64, f64)>) -> Option<(u64, f64, f64)> {
    let (mut starts, mut ends): (Vec<f64>, Vec<f64>) = intervals.unzip();
    starts.sort_unstable_by(f64::total_cmp);
    ends.sort_unstable_by(f64::total_cmp);
    let (mut ended, mut deepest) = (0, None::<(usize, f64, f64)>);
    for (index, start) in starts.into_iter().enumerate() {
        while ends.get(ended).is_some_and(|end| *end < start) {
            ended += 1;
        }
        let depth = (index + 1).saturating_sub(ended);
        if deepest.is_none_or(|(most, ..)| depth > most) {
            deepest = ends.get(ended).map(|end| (depth, start, *end));
        }
    }
    deepest.map(|(depth, least, most)| (depth as u64, least, most))
}

/// The number with the fewest digits from `least` to `most`.
fn shortest_within(least: f64, most: f64) -> String {
    let middle = least + (most - least) / 2.0;
    let rounded = (0..17).filter_map(|places| format!("{middle:.places$e}").parse::<f64>().ok());
    rounded.into_iter().find(|number| (least..=most).contains(number)).unwrap_or(middle).to_string()
}

/// Mixes the bits of a number, so that a sample has no period (the finalizer of SplitMix64).
const fn mixed(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests;
