//! The axes of an ontology.

use crate::base::blank::is_blank;
use crate::base::decimal::{self, Decimal, PLACES_MAX, PLACES_MIN};
use crate::base::unit::Unit;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use strum::IntoStaticStr;

/// The most values of an enumeration.
pub const ENUM_VALUES_MAX: usize = 10_000;
/// The longest path of an axis, in bytes.
const PATH_MAX_BYTES: usize = 128;
/// The longest key of a group, in bytes.
pub const GROUP_KEY_MAX_BYTES: usize = 64;

/// One axis: something that records have a value of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// Its path: names separated by full stops, where one may be `*`, a keyed group (`nutrients.*.amount`).
    pub axis: String,
    /// What its values are.
    #[serde(rename = "type")]
    pub kind: AxisType,
    /// The UCUM code of the unit that its values are in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// The values of an enumeration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
    /// Who can know it.
    pub class: AxisClass,
    /// Whether it says which real thing a record speaks of.
    #[serde(default, skip_serializing_if = "is_false")]
    pub identity: bool,
    /// Whether records are looked up by it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub indexed: bool,
    /// Whether its value may change at any moment, so that what is known of it must be of bounded age.
    #[serde(default, skip_serializing_if = "is_false")]
    pub state_sensitive: bool,
    /// The oldest that a value may be, in seconds, whatever a policy allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_ttl_seconds: Option<u64>,
    /// Digits behind the point up to which two values are the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<i32>,
    /// The difference up to which two values are the same, as a part of the larger magnitude: 0.01 is one hundredth.
    #[serde(default, deserialize_with = "decimal::optional", skip_serializing_if = "Option::is_none")]
    pub relative_tolerance: Option<Decimal>,
    /// Which way is the careful one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conservative: Option<Conservative>,
    /// What it is, for people.
    pub description: String,
}

/// What the values of an axis are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum AxisType {
    /// Decimal numbers.
    Number,
    /// Whole numbers.
    Integer,
    /// Text.
    String,
    /// True or false.
    Boolean,
    /// Days or moments, as RFC 3339 has them.
    Date,
    /// One of some words.
    Enum,
}

impl AxisType {
    /// Whether its values are numbers.
    #[must_use]
    pub const fn is_numeric(self) -> bool {
        matches!(self, Self::Number | Self::Integer)
    }
}

/// Who can know the value of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum AxisClass {
    /// Whoever it is about: an address, a preference.
    SelfReported,
    /// An instrument or an authority: a laboratory's value, a legal status.
    Measured,
}

/// Which of two values is the careful one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Conservative {
    /// The lower one.
    Lower,
    /// The higher one.
    Higher,
}

impl Axis {
    /// Whether it is a group of values by their keys.
    #[must_use]
    pub fn is_group(&self) -> bool {
        self.axis.split('.').any(|segment| segment == "*")
    }

    /// The path of the value under `key`; its own path where it is no group.
    #[must_use]
    pub fn at_key(&self, key: &str) -> String {
        match self.axis.split_once('*') {
            Some((before, after)) => [before, key, after].concat(),
            None => self.axis.clone(),
        }
    }

    /// The key that stands in `path` in the group's place, where `path` is one of this group.
    #[must_use]
    pub fn key_in<'p>(&self, path: &'p str) -> Option<&'p str> {
        let (before, after) = self.axis.split_once('*')?;
        let key = path.strip_prefix(before)?.strip_suffix(after)?;
        is_group_key(key).then_some(key)
    }

    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let (own, others) = (self.axis.split('.'), other.axis.split('.'));
        own.clone().count() == others.clone().count()
            && own.zip(others).all(|(own, other)| own == other || own == "*" || other == "*")
    }

    pub(super) fn validate(&self) -> Result<(), String> {
        let is_name = |segment: &str| {
            segment.starts_with(|first: char| first.is_ascii_lowercase())
                && segment
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        };
        let mut segments = self.axis.split('.');
        let begins_with_a_name = segments.next().is_some_and(is_name);
        let groups = segments.clone().filter(|segment| *segment == "*").count();
        let rest_is_sound = segments.all(|segment| segment == "*" || is_name(segment));
        if !begins_with_a_name || !rest_is_sound || groups > 1 || self.axis.len() > PATH_MAX_BYTES {
            return Err(format!(
                "a path is at most {PATH_MAX_BYTES} bytes of names (`a-z 0-9 _`, a letter first) separated by full \
                 stops, one of which may be `*`, though not the first"
            ));
        }
        if self.identity && (groups > 0 || self.kind == AxisType::Number) {
            return Err("an identity is no group, and no number that is not whole".into());
        }
        if self.indexed && groups > 0 {
            return Err("a group is not indexed".into());
        }
        let is_for_numbers = self.unit.is_some()
            || self.precision.is_some()
            || self.relative_tolerance.is_some()
            || self.conservative.is_some();
        if is_for_numbers && !self.kind.is_numeric() {
            return Err(
                "only numbers have a unit, a precision, a relative tolerance, or a conservative side".into(),
            );
        }
        let is_part = |part: &Decimal| *part >= Decimal::from(0) && *part < Decimal::from(1);
        if let Some(part) = self.relative_tolerance.as_ref().filter(|part| !is_part(part)) {
            return Err(format!("`relative_tolerance` is {part}; allowed: 0 or more, and less than 1"));
        }
        if let Some(unit) = &self.unit {
            unit.parse::<Unit>().map_err(|error| error.to_string())?;
        }
        if (self.kind == AxisType::Enum) == self.values.is_empty() {
            return Err("an enum names its `values`, and nothing else does".into());
        }
        let distinct: BTreeSet<_> = self.values.iter().collect();
        if distinct.len() != self.values.len()
            || distinct.len() > ENUM_VALUES_MAX
            || self.values.iter().any(|value| is_blank(value))
        {
            return Err(format!("`values` are different words, at most {ENUM_VALUES_MAX}"));
        }
        if self.precision.is_some_and(|places| !(PLACES_MIN..=PLACES_MAX).contains(&places)) {
            return Err(format!("`precision` is {PLACES_MIN} to {PLACES_MAX}"));
        }
        if self.max_ttl_seconds == Some(0) {
            return Err("`max_ttl_seconds` is 1 or more".into());
        }
        if self.state_sensitive && self.max_ttl_seconds.is_none() {
            return Err("what is `state_sensitive` needs `max_ttl_seconds`".into());
        }
        Ok(())
    }
}

/// Whether `key` can stand in a group's place.
#[must_use]
pub fn is_group_key(key: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=GROUP_KEY_MAX_BYTES).contains(&key.len()) && key.bytes().all(allowed)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it out so")]
const fn is_false(flag: &bool) -> bool {
    !*flag
}
