//! The axes of an ontology.

use domain_base::decimal::{self, Decimal, DecimalNumber, PLACES_MAX, PLACES_MIN};
use domain_base::moment::PeriodLength;
use domain_base::text_form::is_blank;
use domain_base::text_form::to_nfc;
use domain_base::unit::UcumUnit;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use strum::IntoStaticStr;
use utoipa::ToSchema;

/// The most values of an enumeration.
pub const ENUM_VALUES_MAX: usize = 10_000;
/// The longest path of an axis, in bytes.
const PATH_MAX_BYTES: usize = 128;
/// The longest key of a group, in bytes.
pub const GROUP_KEY_MAX_BYTES: usize = 64;

/// An axis: a property that records have a value of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// The path: names separated by dots. One name may be `*`, which makes the axis a keyed group (`nutrients.*.amount`).
    pub axis: String,
    /// The type of its values.
    #[serde(rename = "type")]
    pub kind: AxisType,
    /// The UCUM code of the unit of its values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// The allowed values; required for `enum` and only allowed there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
    /// Whether values are measured or self-reported.
    pub class: AxisClass,
    /// Whether it identifies the subject of a record; false by default.
    #[serde(default, skip_serializing_if = "is_false")]
    pub identity: bool,
    /// Whether records are indexed by it; false by default.
    #[serde(default, skip_serializing_if = "is_false")]
    pub indexed: bool,
    /// Whether its value may change at any time, so that `max_ttl_seconds` is required; false by default.
    #[serde(default, skip_serializing_if = "is_false")]
    pub state_sensitive: bool,
    /// The maximum age of a value in seconds, whatever a freshness policy allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_ttl_seconds: Option<u64>,
    /// The number of decimal places to which two values are compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<i32>,
    /// The difference up to which two values count as equal, relative to the larger magnitude: 0.01 is 1 %.
    #[serde(default, deserialize_with = "decimal::optional", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<DecimalNumber>)]
    pub relative_tolerance: Option<Decimal>,
    /// The conservative direction, for the strategy `use_conservative`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conservative: Option<ConservativeSide>,
    /// A description for readers.
    pub description: String,
}

/// The type of an axis's values. A `date` is a day or a time in RFC 3339 form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum AxisType {
    /// Decimal numbers.
    Number,
    /// Integers.
    Integer,
    /// Text.
    String,
    /// True or false.
    Boolean,
    /// Days or times in RFC 3339 form.
    Date,
    /// Months, such as `2024-03`.
    Month,
    /// Quarters, such as `2024-Q1`.
    Quarter,
    /// Years, such as `2024`.
    Year,
    /// One of the axis's `values`.
    Enum,
}

impl AxisType {
    /// Whether its values are numbers.
    #[must_use]
    pub const fn is_numeric(self) -> bool {
        matches!(self, Self::Number | Self::Integer)
    }

    /// Whether its values have an order: numbers, dates and periods.
    #[must_use]
    pub const fn is_ordered(self) -> bool {
        self.is_numeric() || matches!(self, Self::Date) || self.period().is_some()
    }

    /// The length of its periods; `None` if its values are not periods.
    #[must_use]
    pub const fn period(self) -> Option<PeriodLength> {
        match self {
            Self::Month => Some(PeriodLength::Month),
            Self::Quarter => Some(PeriodLength::Quarter),
            Self::Year => Some(PeriodLength::Year),
            _ => None,
        }
    }
}

/// The origin of an axis's values: `measured` by an instrument or an authority, or `self_reported` by the subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum AxisClass {
    /// Reported by the subject: an address, a preference.
    SelfReported,
    /// Measured by an instrument or set by an authority: a laboratory value, a legal status.
    Measured,
}

/// The conservative one of two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConservativeSide {
    /// The lower value.
    Lower,
    /// The higher value.
    Higher,
}

impl Axis {
    /// Whether the axis is a group of values by key.
    #[must_use]
    pub fn is_group(&self) -> bool {
        self.axis.split('.').any(|segment| segment == "*")
    }

    /// The path of the value under `key`; the axis's own path if it is not a group.
    #[must_use]
    pub fn at_key(&self, key: &str) -> String {
        match self.axis.split_once('*') {
            Some((before, after)) => [before, key, after].concat(),
            None => self.axis.clone(),
        }
    }

    /// The key that `path` has in place of `*`. `None` if `path` does not belong to this group.
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
                "the path is invalid: at most {PATH_MAX_BYTES} bytes allowed, names of `a-z 0-9 _` with a letter first, \
                 separated by dots; one name after the first may be `*`"
            ));
        }
        if self.identity && (groups > 0 || self.kind == AxisType::Number) {
            return Err("an identity axis cannot be a group or of type `number`".into());
        }
        if self.indexed && groups > 0 {
            return Err("a group cannot be indexed".into());
        }
        let is_for_numbers = self.unit.is_some()
            || self.precision.is_some()
            || self.relative_tolerance.is_some()
            || self.conservative.is_some();
        if is_for_numbers && !self.kind.is_numeric() {
            return Err(
                "only numeric axes have a unit, a precision, a relative tolerance or a conservative side"
                    .into(),
            );
        }
        let is_part = |part: &Decimal| *part >= Decimal::from(0) && *part < Decimal::from(1);
        if let Some(part) = self.relative_tolerance.as_ref().filter(|part| !is_part(part)) {
            return Err(format!("`relative_tolerance` is {part}; allowed: 0 or more, and less than 1"));
        }
        if let Some(unit) = &self.unit {
            unit.parse::<UcumUnit>().map_err(|error| error.to_string())?;
        }
        if (self.kind == AxisType::Enum) == self.values.is_empty() {
            return Err("`values` is required for an `enum` and not allowed for other types".into());
        }
        let distinct: BTreeSet<_> = self.values.iter().map(|value| to_nfc(value)).collect();
        if distinct.len() != self.values.len()
            || distinct.len() > ENUM_VALUES_MAX
            || self.values.iter().any(|value| is_blank(value))
        {
            return Err(format!("`values` must be distinct and not blank, at most {ENUM_VALUES_MAX}"));
        }
        if self.precision.is_some_and(|places| !(PLACES_MIN..=PLACES_MAX).contains(&places)) {
            return Err(format!("`precision` is out of range ({PLACES_MIN} to {PLACES_MAX} allowed)"));
        }
        if self.max_ttl_seconds == Some(0) {
            return Err("`max_ttl_seconds` is 0 (1 or more allowed)".into());
        }
        if self.state_sensitive && self.max_ttl_seconds.is_none() {
            return Err("`state_sensitive` requires `max_ttl_seconds`".into());
        }
        Ok(())
    }
}

/// Whether `key` is a valid key of a group: 1 to 64 ASCII letters, digits, `_` or `-`.
#[must_use]
pub fn is_group_key(key: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=GROUP_KEY_MAX_BYTES).contains(&key.len()) && key.bytes().all(allowed)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_false(flag: &bool) -> bool {
    !*flag
}
