//! Exact decimal numbers, parsed from a source's own text without a binary float in between (seed:
//! `rfc-0002-ground-truth`, "Schema Normalization": `numeric_precision`, and "Ingestion Invariants" 2).
//!
//! `bigdecimal` would only replace the handling of signs and exponents around `num`'s integers: it rounds
//! repeating quotients, accepts `1_0`, and has neither these limits nor sort keys. `fastnum` rounds to a
//! fixed width, which is too narrow for products and units.

use crate::wording::excerpt;
use num::Integer;
use num::bigint::{BigInt, BigUint, Sign};
use num::traits::{Pow, ToPrimitive};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaType, Type};
use utoipa::{PartialSchema, ToSchema};

/// The maximum number of significant digits.
pub const DIGITS_MAX: usize = 64;
/// The maximum absolute magnitude. The magnitude is the power of ten of the first significant digit.
pub const MAGNITUDE_MAX: i64 = 64;
/// The maximum length of a text that is parsed as a number, in bytes: twice the longest canonical text, to allow for
/// redundant zeros.
pub const TEXT_MAX_BYTES: usize = 256;
/// The maximum number of digits after the point, in a number and for rounding.
pub const PLACES_MAX: i32 = 127;
/// The minimum number of digits after the point for rounding; -1 rounds to tens.
pub const PLACES_MIN: i32 = -64;
/// The pattern of a canonical text.
const CANONICAL: &str = r"^-?(0|[1-9][0-9]*)(\.[0-9]*[1-9])?$";
/// Before an exact division, the dividend is multiplied by ten to this power. Every terminating quotient is then an
/// integer: a divisor is less than 2 to the power of 213, so it has at most 212 factors of two and 91 of five.
const DIVISION_PLACES: u32 = 213;

/// The first byte of a negative number's sort key. Zero and positive numbers sort after it.
const KEY_NEGATIVE: u8 = 1;
const KEY_ZERO: u8 = 2;
const KEY_POSITIVE: u8 = 3;
/// The terminator of the digit pairs in a sort key. It is less than any pair, because a pair is stored as its
/// value plus one.
const KEY_END: u8 = 0;

/// Why a text is not a number, or a number cannot be computed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecimalError {
    /// The text is too long to parse.
    #[error("the number has {size_bytes} bytes (at most {TEXT_MAX_BYTES} allowed)")]
    Length {
        /// The length of the text, in bytes.
        size_bytes: usize,
    },
    /// The text is not a decimal number.
    #[error(
        "{text:?} is not a decimal number: digits with an optional sign, point and exponent, like -12.5e3"
    )]
    Syntax {
        /// The beginning of the text.
        text: String,
    },
    /// The number has too many significant digits.
    #[error("the number has {digits} significant digits (at most {DIGITS_MAX} allowed)")]
    Digits {
        /// The number of significant digits.
        digits: usize,
    },
    /// The number is too large, or too close to zero.
    #[error(
        "the first digit of the number is at 10^{magnitude} (10^-{MAGNITUDE_MAX} to 10^{MAGNITUDE_MAX} allowed)"
    )]
    Magnitude {
        /// The power of ten of the first significant digit.
        magnitude: i64,
    },
    /// The exact result has infinitely many digits.
    #[error("the exact result has infinitely many digits; it can only be rounded")]
    Endless,
    /// The divisor is zero.
    #[error("the divisor is zero")]
    DivisionByZero,
    /// The requested number of digits after the point is out of range.
    #[error(
        "a number cannot be rounded to {places} digits after the point ({PLACES_MIN} to {PLACES_MAX} allowed)"
    )]
    Places {
        /// The requested number of digits after the point.
        places: i32,
    },
}

/// An exact decimal number with at most 64 significant digits and a magnitude of -64 to 64. Zero has no magnitude.
///
/// Its text is canonical: no exponent, no redundant zeros, no `-0`, and a `0` before a leading point. Numbers are equal
/// if and only if their texts are.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct Decimal {
    sign: Sign,
    /// The power of ten of the first digit.
    magnitude: i64,
    /// The significant digits, without leading or trailing zeros; empty for zero.
    digits: Box<str>,
}

impl Decimal {
    /// The exact sum.
    ///
    /// # Errors
    ///
    /// If the result exceeds the limits on digits or magnitude.
    pub fn checked_add(&self, other: &Self) -> Result<Self, DecimalError> {
        let exponent = self.exponent().min(other.exponent());
        let aligned = |number: &Self| number.coefficient() * ten_to(number.exponent() - exponent);
        Self::from_parts(&(aligned(self) + aligned(other)), exponent)
    }

    /// The exact difference.
    ///
    /// # Errors
    ///
    /// As for [`Self::checked_add`].
    pub fn checked_sub(&self, other: &Self) -> Result<Self, DecimalError> {
        self.checked_add(&Self { sign: -other.sign, ..other.clone() })
    }

    /// The exact product.
    ///
    /// # Errors
    ///
    /// As for [`Self::checked_add`].
    pub fn checked_mul(&self, other: &Self) -> Result<Self, DecimalError> {
        let coefficient = self.coefficient() * other.coefficient();
        Self::from_parts(&coefficient, self.exponent() + other.exponent())
    }

    /// The exact quotient.
    ///
    /// # Errors
    ///
    /// If `divisor` is zero, or the quotient has infinitely many digits or exceeds the limits.
    pub fn div_exact(&self, divisor: &Self) -> Result<Self, DecimalError> {
        if divisor.sign == Sign::NoSign {
            return Err(DecimalError::DivisionByZero);
        }
        let dividend = self.coefficient() * ten_to(i64::from(DIVISION_PLACES));
        let divisor_coefficient = divisor.coefficient();
        let quotient = &dividend / &divisor_coefficient;
        if &quotient * divisor_coefficient != dividend {
            return Err(DecimalError::Endless);
        }
        let exponent = self.exponent() - divisor.exponent() - i64::from(DIVISION_PLACES);
        Self::from_parts(&quotient, exponent)
    }

    /// The quotient, rounded once to `places` digits after the point.
    ///
    /// # Errors
    ///
    /// If `divisor` is zero, `places` is outside -64 to 127, or the result exceeds the limits.
    pub fn div_rounded(&self, divisor: &Self, places: i32, rounding: Rounding) -> Result<Self, DecimalError> {
        let last = last_place(places)?;
        if divisor.sign == Sign::NoSign {
            return Err(DecimalError::DivisionByZero);
        }
        let shift = self.exponent() - divisor.exponent() - last;
        let dividend = Self { sign: self.sign * divisor.sign, ..self.clone() }.coefficient() * ten_to(shift);
        let divisor = Self { sign: Sign::Plus, ..divisor.clone() }.coefficient() * ten_to(-shift);
        Self::from_parts(&rounding.divide(&dividend, &divisor), last)
    }

    /// The number, rounded by `rounding` to at most `places` digits after the point. -1 rounds to tens, -2 to hundreds.
    ///
    /// # Errors
    ///
    /// If `places` is outside -64 to 127, or the result is too large.
    pub fn round(&self, places: i32, rounding: Rounding) -> Result<Self, DecimalError> {
        let exponent = last_place(places)?;
        if self.exponent() >= exponent {
            return Ok(self.clone());
        }
        let unit = ten_to(exponent - self.exponent());
        Self::from_parts(&rounding.divide(&self.coefficient(), &unit), exponent)
    }

    /// The number of digits after the point; negative if the number ends in zeros before the point.
    #[must_use]
    pub fn places(&self) -> i32 {
        i32::try_from(-self.exponent()).unwrap_or(PLACES_MAX)
    }

    /// Whether the number has no digits after the point.
    #[must_use]
    pub fn is_integer(&self) -> bool {
        self.exponent() >= 0
    }

    /// The number as an `i64`; `None` if it has a fraction or does not fit.
    #[must_use]
    pub fn to_i64(&self) -> Option<i64> {
        self.to_string().parse().ok()
    }

    /// The sort key: the order of keys is the order of numbers. No key is a prefix of another, so further
    /// bytes can follow it in a longer key.
    #[must_use]
    pub fn sort_key(&self) -> Vec<u8> {
        let first = match self.sign {
            Sign::Minus => KEY_NEGATIVE,
            Sign::NoSign => return vec![KEY_ZERO],
            Sign::Plus => KEY_POSITIVE,
        };
        // among negative numbers, larger amounts sort first
        let mask = if first == KEY_NEGATIVE { u8::MAX } else { 0 };
        let magnitude = u8::try_from(self.magnitude + MAGNITUDE_MAX).expect("checked at construction");
        let digit = |digit: Option<&u8>| digit.map_or(0, |digit| digit - b'0');
        let pairs = self.digits.as_bytes().chunks(2);
        let pairs = pairs.map(|pair| digit(pair.first()) * 10 + digit(pair.get(1)) + 1);
        let amount = std::iter::once(magnitude).chain(pairs).chain(std::iter::once(KEY_END));
        std::iter::once(first).chain(amount.map(|byte| byte ^ mask)).collect()
    }

    /// The significant digits as a signed integer.
    pub(super) fn coefficient(&self) -> BigInt {
        let digits = self.digits.parse::<u64>().map(BigUint::from);
        let digits = digits.or_else(|_| self.digits.parse::<BigUint>()).unwrap_or_default();
        BigInt::from_biguint(self.sign, digits)
    }

    /// The power of ten of the last digit.
    pub(super) fn exponent(&self) -> i64 {
        self.magnitude + 1 - self.digits.len() as i64
    }

    /// `coefficient` times ten to the power of `exponent`.
    ///
    /// # Errors
    ///
    /// If the result exceeds the limits.
    pub(super) fn from_parts(coefficient: &BigInt, exponent: i64) -> Result<Self, DecimalError> {
        let magnitude = coefficient.magnitude();
        let digits = magnitude.to_u64().map_or_else(|| magnitude.to_string(), |digits| digits.to_string());
        let magnitude = exponent + digits.len() as i64 - 1;
        Self::new(coefficient.sign() == Sign::Minus, magnitude, digits.trim_end_matches('0').into())
    }

    /// Creates a number from digits without leading or trailing zeros.
    fn new(is_negative: bool, magnitude: i64, digits: Box<str>) -> Result<Self, DecimalError> {
        if digits.is_empty() {
            return Ok(Self { sign: Sign::NoSign, magnitude: 0, digits });
        }
        if digits.len() > DIGITS_MAX {
            return Err(DecimalError::Digits { digits: digits.len() });
        }
        if !(-MAGNITUDE_MAX..=MAGNITUDE_MAX).contains(&magnitude) {
            return Err(DecimalError::Magnitude { magnitude });
        }
        let sign = if is_negative { Sign::Minus } else { Sign::Plus };
        Ok(Self { sign, magnitude, digits })
    }
}

/// The power of ten of the last of `places` digits after the point.
///
/// # Errors
///
/// If `places` is outside -64 to 127.
pub(super) fn last_place(places: i32) -> Result<i64, DecimalError> {
    if !(PLACES_MIN..=PLACES_MAX).contains(&places) {
        return Err(DecimalError::Places { places });
    }
    Ok(-i64::from(places))
}

/// Ten to the power of `power`; one if `power` is negative.
pub(super) fn ten_to(power: i64) -> BigInt {
    BigInt::from(10).pow(u32::try_from(power).unwrap_or_default())
}

impl std::str::FromStr for Decimal {
    type Err = DecimalError;

    /// Parses JSON numbers and other unambiguous spellings in tables: a leading `+`, leading zeros, and no
    /// digit on one side of the point (`007.50`, `.5`, `5.`). White space, thousands separators, a decimal
    /// comma, digits other than `0` to `9`, and words like `NaN` are errors.
    fn from_str(text: &str) -> Result<Self, DecimalError> {
        if text.len() > TEXT_MAX_BYTES {
            return Err(DecimalError::Length { size_bytes: text.len() });
        }
        let syntax = || DecimalError::Syntax { text: excerpt(text) };
        let (is_negative, unsigned) = signed(text);
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, power(exponent).ok_or_else(syntax)?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = if fraction.is_empty() { Cow::from(whole) } else { [whole, fraction].concat().into() };
        if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
            return Err(syntax());
        }
        let significant = digits.trim_start_matches('0');
        let leading = digits.len() - significant.len();
        let magnitude = exponent.saturating_add(whole.len() as i64 - 1 - leading as i64);
        Self::new(is_negative, magnitude, significant.trim_end_matches('0').into())
    }
}

/// Returns whether `text` begins with a minus, and the text after the sign.
fn signed(text: &str) -> (bool, &str) {
    match text.strip_prefix('-') {
        Some(unsigned) => (true, unsigned),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    }
}

/// Parses an exponent; `None` if `text` is not one. If it does not fit 64 bits, the result is the largest
/// `i64`, with its sign, which is far beyond the limits.
fn power(text: &str) -> Option<i64> {
    let (is_negative, digits) = signed(text);
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let power = digits.parse::<i64>().unwrap_or(i64::MAX);
    Some(if is_negative { -power } else { power })
}

/// Reads an optional field, for serde's `deserialize_with`: a JSON number, or a string, which keeps all digits.
///
/// # Errors
/// If the value is not a decimal number.
pub fn optional<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Decimal>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum DecimalInput {
        Number(serde_json::Number),
        Text(String),
    }
    let text = match Option::<DecimalInput>::deserialize(deserializer)? {
        None => return Ok(None),
        Some(DecimalInput::Number(number)) => number.to_string(),
        Some(DecimalInput::Text(text)) => text,
    };
    text.parse().map(Some).map_err(serde::de::Error::custom)
}

/// Reads a required field, as [`optional`] reads an optional one.
///
/// # Errors
/// If the value is null or not a decimal number.
pub fn required<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Decimal, D::Error> {
    let null = || serde::de::Error::custom("null is not a decimal number");
    optional(deserializer)?.ok_or_else(null)
}

impl TryFrom<String> for Decimal {
    type Error = DecimalError;

    fn try_from(text: String) -> Result<Self, DecimalError> {
        text.parse()
    }
}

impl From<i64> for Decimal {
    fn from(number: i64) -> Self {
        Self::from_parts(&number.into(), 0).expect("19 digits are within the bounds")
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.sign == Sign::Minus {
            f.write_str("-")?;
        }
        let digits = &*self.digits;
        let whole = usize::try_from(self.magnitude + 1).unwrap_or_default();
        match digits.split_at_checked(whole) {
            Some(("", fraction)) => {
                let places = fraction.len() + usize::try_from(-1 - self.magnitude).unwrap_or_default();
                write!(f, "0.{fraction:0>places$}")
            }
            Some((_, "")) | None => write!(f, "{digits:0<whole$}"),
            Some((whole, fraction)) => write!(f, "{whole}.{fraction}"),
        }
    }
}

impl Serialize for Decimal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl PartialSchema for Decimal {
    fn schema() -> RefOr<Schema> {
        let text = ObjectBuilder::new().schema_type(Type::String).pattern(Some(CANONICAL));
        text.description(Some("A number in decimal digits, without an exponent.")).into()
    }
}

impl ToSchema for Decimal {}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        let amount = |number: &Self, other: &Self| {
            number.magnitude.cmp(&other.magnitude).then_with(|| number.digits.cmp(&other.digits))
        };
        self.sign.cmp(&other.sign).then_with(|| match self.sign {
            Sign::Minus => amount(other, self),
            Sign::NoSign | Sign::Plus => amount(self, other),
        })
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

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

/// Every text that is parsed as a decimal matches this pattern.
const DECIMAL_PATTERN: &str = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$";

/// The schema of a decimal that is read from a text.
#[derive(Debug)]
pub enum DecimalText {}

/// The schema of a decimal that is read from a number or a text.
#[derive(Debug)]
pub enum DecimalNumber {}

fn describe_decimal(kind: impl Into<SchemaType>, description: &str) -> RefOr<Schema> {
    let builder = ObjectBuilder::new().schema_type(kind).pattern(Some(DECIMAL_PATTERN));
    builder.max_length(Some(TEXT_MAX_BYTES)).description(Some(description)).into()
}

impl PartialSchema for DecimalText {
    fn schema() -> RefOr<Schema> {
        describe_decimal(Type::String, "A decimal number as a string, such as \"0.5\".")
    }
}

impl PartialSchema for DecimalNumber {
    fn schema() -> RefOr<Schema> {
        let kinds = SchemaType::from_iter([Type::Number, Type::String]);
        describe_decimal(kinds, "A decimal number. As a string, such as \"0.5\", it keeps all its digits.")
    }
}

impl ToSchema for DecimalText {
    fn name() -> Cow<'static, str> {
        "DecimalText".into()
    }
}

impl ToSchema for DecimalNumber {
    fn name() -> Cow<'static, str> {
        "DecimalNumber".into()
    }
}

#[cfg(test)]
mod tests;
