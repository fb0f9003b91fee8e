//! The value of an axis: exact, with one text for equal values.

use crate::axis::{Axis, AxisType};
use domain_base::decimal::Decimal;
use domain_base::moment::{Date, PeriodLength};
use domain_base::text_form::to_nfc;
use domain_base::wording::excerpt;
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize};
use std::borrow::Cow;
use std::fmt;
use utoipa::ToSchema;

/// The longest text of a value, in bytes.
pub const TEXT_MAX_BYTES: usize = 64 * 1024;

/// A value as in a record's canonical JSON, in which each number, date and enum value is a text in one canonical form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum AxisValue {
    /// True or false.
    Bool(bool),
    /// Any other value, as text.
    Text(String),
}

/// A value with its type, for comparisons.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum TypedValue {
    /// True or false.
    Bool(bool),
    Number(Decimal),
    /// A day or a time.
    Date(Date),
    /// A text, a value of an enum, or a period.
    Text(String),
}

/// Why a value does not fit its axis.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{quoted}` is not {expected}")]
pub struct AxisValueError {
    /// The beginning of the value found.
    quoted: String,
    /// The kind of value that is required.
    expected: String,
}

impl AxisValueError {
    /// An error about `text`, where `expected` describes a valid value.
    #[must_use]
    pub fn new(text: &str, expected: impl Into<String>) -> Self {
        Self { quoted: excerpt(text), expected: expected.into() }
    }
}

impl AxisValue {
    /// The typed value on `axis`.
    ///
    /// # Errors
    /// The value does not fit the axis.
    pub fn typed(&self, axis: &Axis) -> Result<TypedValue, AxisValueError> {
        match self {
            Self::Bool(value) => TypedValue::from_bool(*value, axis),
            Self::Text(text) => TypedValue::from_text(text, axis),
        }
    }
}

impl<'de> Deserialize<'de> for AxisValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AxisValueVisitor)
    }
}

/// Deserializes without a detour, because millions of records are read.
struct AxisValueVisitor;

impl Visitor<'_> for AxisValueVisitor {
    type Value = AxisValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, true or false")
    }

    fn visit_bool<E>(self, value: bool) -> Result<AxisValue, E> {
        Ok(AxisValue::Bool(value))
    }

    fn visit_str<E>(self, text: &str) -> Result<AxisValue, E> {
        Ok(AxisValue::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<AxisValue, E> {
        Ok(AxisValue::Text(text))
    }
}

impl fmt::Display for AxisValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => write!(f, "{value}"),
            Self::Text(text) => f.pad(text),
        }
    }
}

impl TypedValue {
    /// Parses `text` as a value on `axis`. A text becomes Unicode NFC, so that texts which differ only in how accents are written
    /// are equal.
    ///
    /// # Errors
    /// The text is not a value of the axis.
    pub fn from_text(text: &str, axis: &Axis) -> Result<Self, AxisValueError> {
        let not = |expected: &str| AxisValueError::new(text, expected);
        match axis.kind {
            AxisType::Number | AxisType::Integer => {
                let number: Decimal = text.parse().map_err(|error| not(&format!("a number: {error}")))?;
                Self::from_number(number, axis)
            }
            AxisType::String => match to_nfc(text) {
                long if long.len() > TEXT_MAX_BYTES => {
                    Err(not(&format!("a text of at most {TEXT_MAX_BYTES} bytes")))
                }
                text => Ok(Self::Text(text.into_owned())),
            },
            AxisType::Boolean => match text {
                "true" => Ok(Self::Bool(true)),
                "false" => Ok(Self::Bool(false)),
                _ => Err(not("true or false")),
            },
            AxisType::Date => Date::read(text)
                .map(Self::Date)
                .ok_or_else(|| not("a date of RFC 3339, in the years 0000 to 9999 of UTC")),
            AxisType::Month | AxisType::Quarter | AxisType::Year => match axis.kind.period() {
                Some(length) if length.is_canonical(text) => Ok(Self::Text(text.to_owned())),
                length => Err(not(length.map_or("a period", PeriodLength::example))),
            },
            AxisType::Enum => {
                let text = to_nfc(text);
                let is_ascii = text.is_ascii();
                let is_same = |value: &String| *value == text || (!is_ascii && to_nfc(value) == text);
                axis.values
                    .iter()
                    .any(is_same)
                    .then(|| Self::Text(text.into_owned()))
                    .ok_or_else(|| not(&format!("one of {}", axis.values.join(", "))))
            }
        }
    }

    /// `value` as a value on `axis`.
    ///
    /// # Errors
    /// The axis is not boolean.
    pub fn from_bool(value: bool, axis: &Axis) -> Result<Self, AxisValueError> {
        if axis.kind == AxisType::Boolean {
            Ok(Self::Bool(value))
        } else {
            Err(AxisValueError::new(
                if value { "true" } else { "false" },
                format!("a {}", axis.kind.into_str()),
            ))
        }
    }

    /// `number` as a value on `axis`.
    ///
    /// # Errors
    /// The number is not a value of the axis.
    pub fn from_number(number: Decimal, axis: &Axis) -> Result<Self, AxisValueError> {
        match axis.kind {
            AxisType::Number => Ok(Self::Number(number)),
            AxisType::Integer if number.is_integer() => Ok(Self::Number(number)),
            AxisType::Integer => Err(AxisValueError::new(&number.to_string(), "a whole number")),
            _ => Self::from_text(&number.to_string(), axis),
        }
    }

    /// The form of the value in a record.
    #[must_use]
    pub fn to_value(&self) -> AxisValue {
        self.clone().into_value()
    }

    /// As [`Self::to_value`], but consumes the value.
    #[must_use]
    pub fn into_value(self) -> AxisValue {
        match self {
            Self::Bool(value) => AxisValue::Bool(value),
            Self::Number(number) => AxisValue::Text(number.to_string()),
            Self::Date(date) => AxisValue::Text(date.to_string()),
            Self::Text(text) => AxisValue::Text(text),
        }
    }

    /// The value as text, in the form that [`AxisValue`] displays.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Bool(value) => if *value { "true" } else { "false" }.into(),
            Self::Number(number) => number.to_string().into(),
            Self::Date(date) => date.to_string().into(),
            Self::Text(text) => text.into(),
        }
    }

    /// Appends bytes that sort like the values of one axis; no key is a prefix of another one.
    pub fn append_key(&self, key: &mut Vec<u8>) {
        match self {
            Self::Bool(value) => key.push(u8::from(*value)),
            Self::Number(number) => key.extend_from_slice(&number.sort_key()),
            Self::Date(date) => append_text_key(date.key(), key),
            Self::Text(text) => append_text_key(text, key),
        }
    }
}

/// Appends `text` so that bytes appended after it do not change the order of texts. A 0 byte is followed by a 255, and
/// two 0 bytes end the text.
pub fn append_text_key(text: &str, key: &mut Vec<u8>) {
    for byte in text.bytes() {
        key.push(byte);
        if byte == 0 {
            key.push(u8::MAX);
        }
    }
    key.extend_from_slice(&[0, 0]);
}
