//! The columns of a Parquet file, with the narrowest type that holds all values exactly, and their values as JSON.

use domain_ground::axis::AxisType;
use jiff::civil::{Date, DateTime, Time};
use jiff::{SignedDuration, Timestamp};
use parquet::basic::{ConvertedType, LogicalType, Repetition, TimeUnit, Type as PhysicalType};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, FixedLenByteArray, FixedLenByteArrayType, Int32Type,
    Int64Type, Int96,
};
use parquet::errors::ParquetError;
use parquet::file::writer::SerializedColumnWriter;
use parquet::schema::types::{ColumnDescriptor, Type, TypePtr};
use serde_json::{Number, Value as Json};
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
fn parse_unscaled(text: &str, places: usize) -> Option<i128> {
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
                values.push(parse_unscaled(text, *places)?.to_be_bytes().to_vec().into());
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

/// The longest text. A run reads records up to this length by default.
const VALUE_MAX_BYTES: usize = 1 << 20;
/// 1970-01-01 as a Julian day, in which Int96 counts days.
const EPOCH_JULIAN_DAY: i128 = 2_440_588;
const DAY_NANOSECONDS: i128 = 86_400_000_000_000;

pub(super) struct RowColumn {
    pub(super) index: usize,
    pub(super) path: Vec<String>,
    /// The definition level of a value that is not null.
    pub(super) value_level: i16,
    pub(super) meaning: ColumnMeaning,
}

/// The meaning of a column's values, beside their physical type.
#[derive(Debug, Clone, Copy)]
pub(super) enum ColumnMeaning {
    Physical,
    Unsigned,
    /// A decimal with this number of decimal places.
    Decimal(usize),
    Date,
    Time(TimeUnit),
    Timestamp {
        unit: TimeUnit,
        is_utc: bool,
    },
    Uuid,
}

impl ColumnMeaning {
    /// `None` for a column that is left out.
    pub(super) fn of(column: &ColumnDescriptor) -> Option<Self> {
        // lists and maps
        if column.max_rep_level() > 0 {
            return None;
        }
        let timestamp = |unit, is_utc| Self::Timestamp { unit, is_utc };
        Some(match (column.logical_type_ref(), column.converted_type()) {
            (Some(LogicalType::String | LogicalType::Enum | LogicalType::Json | LogicalType::Unknown), _)
            | (None, ConvertedType::UTF8 | ConvertedType::ENUM | ConvertedType::JSON) => Self::Physical,
            (Some(LogicalType::Integer(integer)), _) if integer.is_signed => Self::Physical,
            (Some(LogicalType::Integer(_)), _) => Self::Unsigned,
            (Some(LogicalType::Decimal(_)), _) | (None, ConvertedType::DECIMAL) => {
                Self::Decimal(usize::try_from(column.type_scale()).ok()?)
            }
            (Some(LogicalType::Date), _) | (None, ConvertedType::DATE) => Self::Date,
            (Some(LogicalType::Time(time)), _) => Self::Time(time.unit),
            (Some(LogicalType::Timestamp(time)), _) => timestamp(time.unit, time.is_adjusted_to_u_t_c),
            (Some(LogicalType::Uuid), _) => Self::Uuid,
            // BSON, shapes, half-precision numbers and so on
            (Some(_), _) | (None, ConvertedType::BSON | ConvertedType::INTERVAL) => return None,
            (None, ConvertedType::TIME_MILLIS) => Self::Time(TimeUnit::MILLIS),
            (None, ConvertedType::TIME_MICROS) => Self::Time(TimeUnit::MICROS),
            (None, ConvertedType::TIMESTAMP_MILLIS) => timestamp(TimeUnit::MILLIS, true),
            (None, ConvertedType::TIMESTAMP_MICROS) => timestamp(TimeUnit::MICROS, true),
            (
                None,
                ConvertedType::UINT_8
                | ConvertedType::UINT_16
                | ConvertedType::UINT_32
                | ConvertedType::UINT_64,
            ) => Self::Unsigned,
            (None, _) if column.physical_type() == PhysicalType::FIXED_LEN_BYTE_ARRAY => return None,
            (None, _) => Self::Physical,
        })
    }
}

impl RowColumn {
    /// The next `count` values as JSON.
    pub(super) fn read(&self, reader: &mut ColumnReader, count: usize) -> Result<Vec<Json>, ParquetError> {
        let level = self.value_level;
        match reader {
            ColumnReader::BoolColumnReader(reader) => {
                read_values(reader, count, level, |value| Ok(value.into()))
            }
            ColumnReader::Int32ColumnReader(reader) => {
                read_values(reader, count, level, |value| match self.meaning {
                    ColumnMeaning::Unsigned => Ok(value.cast_unsigned().into()),
                    _ => self.integer(value.into()),
                })
            }
            ColumnReader::Int64ColumnReader(reader) => {
                read_values(reader, count, level, |value| match self.meaning {
                    ColumnMeaning::Unsigned => Ok(value.cast_unsigned().into()),
                    _ => self.integer(value),
                })
            }
            ColumnReader::Int96ColumnReader(reader) => {
                read_values(reader, count, level, |value| timestamp(int96_nanoseconds(&value), true))
            }
            ColumnReader::FloatColumnReader(reader) => read_values(reader, count, level, float32),
            ColumnReader::DoubleColumnReader(reader) => {
                read_values(reader, count, level, |value| number(value, Number::from_f64(value)))
            }
            ColumnReader::ByteArrayColumnReader(reader) => {
                read_values(reader, count, level, |value| self.bytes(value.data()))
            }
            ColumnReader::FixedLenByteArrayColumnReader(reader) => {
                read_values(reader, count, level, |value| self.bytes(value.data()))
            }
        }
    }

    fn integer(&self, value: i64) -> Result<Json, ParquetError> {
        Ok(match self.meaning {
            ColumnMeaning::Decimal(places) => format_decimal(value.into(), places).into(),
            ColumnMeaning::Date => {
                let days = SignedDuration::try_from_hours(value.saturating_mul(24));
                let day = days.and_then(|days| Date::constant(1970, 1, 1).checked_add(days).ok());
                day.ok_or_else(|| out_of_range(value, "days"))?.to_string().into()
            }
            ColumnMeaning::Time(unit) => {
                let nanoseconds = SignedDuration::try_from_nanos_i128(nanoseconds(value, unit));
                let time = nanoseconds.and_then(|after| Time::midnight().checked_add(after).ok());
                time.ok_or_else(|| out_of_range(value, "parts of a day"))?.to_string().into()
            }
            ColumnMeaning::Timestamp { unit, is_utc } => timestamp(nanoseconds(value, unit), is_utc)?,
            _ => value.into(),
        })
    }

    fn bytes(&self, bytes: &[u8]) -> Result<Json, ParquetError> {
        match self.meaning {
            ColumnMeaning::Decimal(places) => Ok(format_decimal(unscaled(bytes)?, places).into()),
            ColumnMeaning::Uuid => {
                let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                let groups = [0..8, 8..12, 12..16, 16..20, 20..hex.len()];
                let groups = groups.into_iter().map(|range| hex.get(range).unwrap_or_default());
                Ok(groups.collect::<Vec<_>>().join("-").into())
            }
            _ if bytes.len() > VALUE_MAX_BYTES => {
                Err(general(format!("it has a value of {} bytes ({VALUE_MAX_BYTES} allowed)", bytes.len())))
            }
            _ => match str::from_utf8(bytes) {
                Ok(text) => Ok(text.into()),
                Err(_) => Err(general("it is binary; write it as text, or remove it")),
            },
        }
    }
}

/// The next `count` values. `None` values are null.
fn read_values<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    count: usize,
    value_level: i16,
    to_json: impl Fn(T::T) -> Result<Json, ParquetError>,
) -> Result<Vec<Json>, ParquetError> {
    let (mut values, mut levels, mut rows) = (Vec::new(), Vec::new(), 0);
    while rows < count {
        let (read, ..) = reader.read_records(count - rows, Some(&mut levels), None, &mut values)?;
        if read == 0 {
            return Err(general("it has fewer values than the file has rows"));
        }
        rows += read;
    }
    let mut values = values.into_iter();
    let mut next =
        || values.next().ok_or_else(|| general("it has fewer values than levels")).and_then(&to_json);
    if value_level == 0 {
        return (0..count).map(|_| next()).collect();
    }
    levels.into_iter().map(|level| if level == value_level { next() } else { Ok(Json::Null) }).collect()
}

/// A number as JSON; null for NaN, which programs write for a missing number.
fn number(value: f64, number: Option<Number>) -> Result<Json, ParquetError> {
    match number {
        Some(number) => Ok(Json::Number(number)),
        None if value.is_nan() => Ok(Json::Null),
        None => Err(general("it has an infinite number")),
    }
}

/// The shortest text of a single-precision number has fewer digits than that of the equal double.
fn float32(value: f32) -> Result<Json, ParquetError> {
    number(value.into(), value.to_string().parse().ok())
}

const fn nanoseconds(value: i64, unit: TimeUnit) -> i128 {
    let scale = match unit {
        TimeUnit::MILLIS => 1_000_000,
        TimeUnit::MICROS => 1_000,
        TimeUnit::NANOS => 1,
    };
    value as i128 * scale
}

/// The time of a value of 96 bits: nanoseconds of the day, then the Julian day.
fn int96_nanoseconds(value: &Int96) -> i128 {
    let part = |index| i128::from(value.data().get(index).copied().unwrap_or_default());
    (part(2) - EPOCH_JULIAN_DAY) * DAY_NANOSECONDS + (part(1) << 32) + part(0)
}

/// A time as text; without an offset if it is a local time of an unknown place.
fn timestamp(nanoseconds: i128, is_utc: bool) -> Result<Json, ParquetError> {
    // a `Timestamp` ends before 9999-12-31, which means no end in many files
    let after = SignedDuration::try_from_nanos_i128(nanoseconds);
    let at = after.and_then(|after| DateTime::constant(1970, 1, 1, 0, 0, 0, 0).checked_add(after).ok());
    let at = at.ok_or_else(|| general(format!("{nanoseconds} nanoseconds since 1970 are out of range")))?;
    Ok(if is_utc { format!("{at}Z") } else { at.to_string() }.into())
}

/// The number in these bytes, the most significant first.
pub(super) fn unscaled(bytes: &[u8]) -> Result<i128, ParquetError> {
    let fill = if bytes.first().is_some_and(|first| first.cast_signed() < 0) { u8::MAX } else { 0 };
    let (extra, digits) = bytes.split_at(bytes.len().saturating_sub(size_of::<i128>()));
    if digits.is_empty() || extra.iter().any(|byte| *byte != fill) {
        return Err(general(format!(
            "a decimal has {} bytes (1 to {} allowed)",
            bytes.len(),
            size_of::<i128>()
        )));
    }
    Ok(digits.iter().fold(if fill == 0 { 0 } else { -1 }, |number, byte| number << 8 | i128::from(*byte)))
}

/// A decimal with `places` decimal places.
pub(super) fn format_decimal(unscaled: i128, places: usize) -> String {
    let sign = if unscaled < 0 { "-" } else { "" };
    let digits = format!("{:0>width$}", unscaled.unsigned_abs(), width = places + 1);
    let (whole, fraction) = digits.split_at(digits.len() - places);
    if fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

fn out_of_range(value: i64, unit: &str) -> ParquetError {
    general(format!("{value} {unit} are out of range"))
}

pub(super) fn general(fault: impl ToString) -> ParquetError {
    ParquetError::General(fault.to_string())
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
        assert_eq!((parse_unscaled("-12.5", 3), parse_unscaled("0.125", 2)), (Some(-12_500), None));
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
