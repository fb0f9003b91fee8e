//! The columns of a Parquet file, with the narrowest type that holds all values exactly.

use domain_ground::axis::AxisType;
use jiff::Timestamp;
use jiff::civil::Date;
use parquet::basic::{LogicalType, Repetition, TimeUnit, Type as PhysicalType};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, FixedLenByteArray, FixedLenByteArrayType, Int32Type, Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::writer::SerializedColumnWriter;
use parquet::schema::types::{Type, TypePtr};
use std::sync::Arc;

/// The most digits of a decimal that common readers accept.
const DECIMAL_DIGITS_MAX: usize = 38;
/// The digits that each 64-bit integer has room for.
const INTEGER_DIGITS_MAX: usize = 18;
/// Bytes of a decimal with [`DECIMAL_DIGITS_MAX`] digits.
const DECIMAL_BYTES: i32 = 16;

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnType {
    Boolean,
    Integer,
    /// A decimal with this number of digits, and of digits after the point.
    Decimal {
        digits: usize,
        places: usize,
    },
    Day,
    /// A time in microseconds, in UTC.
    Timestamp,
    Text,
}

/// The properties of the values of an axis.
#[derive(Debug)]
pub(super) struct ColumnProfile {
    axis: AxisType,
    /// The most digits before the point.
    whole: usize,
    /// The most digits after the point.
    places: usize,
    /// Whether all values are days.
    are_days: bool,
}

impl ColumnProfile {
    pub(super) const fn new(axis: AxisType) -> Self {
        Self { axis, whole: 1, places: 0, are_days: true }
    }

    pub(super) fn note(&mut self, value: &str) {
        let (whole, fraction) = split_number(value);
        self.whole = self.whole.max(whole.len());
        self.places = self.places.max(fraction.len());
        self.are_days &= value.parse::<Date>().is_ok() && value.len() == "2026-01-01".len();
    }

    pub(super) const fn column_type(&self) -> ColumnType {
        let digits = self.whole + self.places;
        match self.axis {
            AxisType::Boolean => ColumnType::Boolean,
            AxisType::Number | AxisType::Integer if self.places == 0 && digits <= INTEGER_DIGITS_MAX => {
                ColumnType::Integer
            }
            AxisType::Number | AxisType::Integer if digits <= DECIMAL_DIGITS_MAX => {
                ColumnType::Decimal { digits, places: self.places }
            }
            AxisType::Date if self.are_days => ColumnType::Day,
            _ => ColumnType::Text,
        }
    }
}

/// The digits before and after the point, without the sign.
fn split_number(text: &str) -> (&str, &str) {
    let digits = text.trim_start_matches('-');
    digits.split_once('.').unwrap_or((digits, ""))
}

/// The integer of a decimal with `places` digits after the point; `None` if `text` does not fit.
fn unscaled(text: &str, places: usize) -> Option<i128> {
    let (whole, fraction) = split_number(text);
    let missing = places.checked_sub(fraction.len())?;
    let digits: i128 = format!("{whole}{fraction}{}", "0".repeat(missing)).parse().ok()?;
    Some(if text.starts_with('-') { -digits } else { digits })
}

/// The values of a column that are not written yet.
#[derive(Debug)]
enum ColumnValues {
    Boolean(Vec<bool>),
    Integer(Vec<i64>),
    Decimal(Vec<FixedLenByteArray>, usize),
    Day(Vec<i32>),
    Timestamp(Vec<i64>),
    Text(Vec<ByteArray>),
}

#[derive(Debug)]
pub(super) struct ColumnBuffer {
    kind: ColumnType,
    values: ColumnValues,
    /// For each row, 1 if it has a value.
    levels: Vec<i16>,
}

impl ColumnBuffer {
    pub(super) const fn new(kind: ColumnType) -> Self {
        let values = match kind {
            ColumnType::Boolean => ColumnValues::Boolean(Vec::new()),
            ColumnType::Integer => ColumnValues::Integer(Vec::new()),
            ColumnType::Decimal { places, .. } => ColumnValues::Decimal(Vec::new(), places),
            ColumnType::Day => ColumnValues::Day(Vec::new()),
            ColumnType::Timestamp => ColumnValues::Timestamp(Vec::new()),
            ColumnType::Text => ColumnValues::Text(Vec::new()),
        };
        Self { kind, values, levels: Vec::new() }
    }

    /// The field of the schema.
    pub(super) fn field(&self, name: &str) -> Result<TypePtr, ParquetError> {
        let (physical, logical) = match self.kind {
            ColumnType::Boolean => (PhysicalType::BOOLEAN, None),
            ColumnType::Integer => (PhysicalType::INT64, None),
            ColumnType::Decimal { digits, places } => {
                let [precision, scale] =
                    [digits, places].map(|number| i32::try_from(number).unwrap_or(i32::MAX));
                let logical = LogicalType::decimal(scale, precision);
                let field = Type::primitive_type_builder(name, PhysicalType::FIXED_LEN_BYTE_ARRAY);
                let field = field.with_length(DECIMAL_BYTES).with_precision(precision).with_scale(scale);
                let field = field.with_logical_type(Some(logical)).with_repetition(Repetition::OPTIONAL);
                return Ok(Arc::new(field.build()?));
            }
            ColumnType::Day => (PhysicalType::INT32, Some(LogicalType::Date)),
            ColumnType::Timestamp => {
                (PhysicalType::INT64, Some(LogicalType::timestamp(true, TimeUnit::MICROS)))
            }
            ColumnType::Text => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
        };
        let field = Type::primitive_type_builder(name, physical).with_logical_type(logical);
        Ok(Arc::new(field.with_repetition(Repetition::OPTIONAL).build()?))
    }

    /// Adds the value of a row. Returns false if it does not fit the type.
    pub(super) fn push(&mut self, value: Option<&str>) -> bool {
        self.levels.push(i16::from(value.is_some()));
        value.is_none_or(|text| self.push_value(text).is_some())
    }

    fn push_value(&mut self, text: &str) -> Option<()> {
        match &mut self.values {
            ColumnValues::Boolean(values) => values.push(text.parse().ok()?),
            ColumnValues::Integer(values) => values.push(text.parse().ok()?),
            ColumnValues::Decimal(values, places) => {
                values.push(unscaled(text, *places)?.to_be_bytes().to_vec().into());
            }
            ColumnValues::Day(values) => {
                let day: Date = text.parse().ok()?;
                values.push(day.since(Date::constant(1970, 1, 1)).ok()?.get_days());
            }
            ColumnValues::Timestamp(values) => {
                values.push(text.parse::<Timestamp>().ok()?.as_microsecond());
            }
            ColumnValues::Text(values) => values.push(text.into()),
        }
        Some(())
    }

    /// Writes the rows, and forgets them.
    pub(super) fn write(&mut self, target: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        let levels = Some(self.levels.as_slice());
        match &mut self.values {
            ColumnValues::Boolean(values) => {
                target.typed::<BoolType>().write_batch(values, levels, None)?;
                values.clear();
            }
            ColumnValues::Integer(values) | ColumnValues::Timestamp(values) => {
                target.typed::<Int64Type>().write_batch(values, levels, None)?;
                values.clear();
            }
            ColumnValues::Decimal(values, _) => {
                target.typed::<FixedLenByteArrayType>().write_batch(values, levels, None)?;
                values.clear();
            }
            ColumnValues::Day(values) => {
                target.typed::<Int32Type>().write_batch(values, levels, None)?;
                values.clear();
            }
            ColumnValues::Text(values) => {
                target.typed::<ByteArrayType>().write_batch(values, levels, None)?;
                values.clear();
            }
        }
        self.levels.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_get_the_narrowest_type_that_holds_all_of_them() {
        let kind = |axis, values: &[&str]| {
            let mut profile = ColumnProfile::new(axis);
            values.iter().for_each(|value| profile.note(value));
            profile.column_type()
        };
        let many = "9".repeat(39);
        for (axis, values, expected) in [
            (AxisType::Integer, vec!["1", "-123456789012345678"], ColumnType::Integer),
            (AxisType::Integer, vec!["1234567890123456789"], ColumnType::Decimal { digits: 19, places: 0 }),
            (AxisType::Number, vec!["10.25", "-1234.5"], ColumnType::Decimal { digits: 6, places: 2 }),
            (AxisType::Number, vec![many.as_str()], ColumnType::Text),
            (AxisType::Date, vec!["2026-01-31"], ColumnType::Day),
            (AxisType::Date, vec!["2026-01-31", "2026-01-31T10:00:00Z"], ColumnType::Text),
            (AxisType::Year, vec!["2026"], ColumnType::Text),
            (AxisType::Boolean, vec!["true"], ColumnType::Boolean),
        ] {
            assert_eq!(kind(axis, &values), expected, "{values:?}");
        }
        assert_eq!((unscaled("-12.5", 3), unscaled("0.125", 2)), (Some(-12_500), None));
    }

    #[test]
    fn value_that_does_not_fit_is_refused() {
        for (kind, fits, other) in [
            (ColumnType::Integer, "7", "7.5"),
            (ColumnType::Decimal { digits: 3, places: 1 }, "7.5", "7.25"),
            (ColumnType::Day, "2026-01-31", "soon"),
            (ColumnType::Timestamp, "2026-01-31T00:00:00Z", "2026"),
        ] {
            let mut buffer = ColumnBuffer::new(kind);
            assert!(buffer.push(Some(fits)) && buffer.push(None) && !buffer.push(Some(other)), "{kind:?}");
        }
    }
}
