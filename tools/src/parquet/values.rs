//! The values of a Parquet column as JSON.

use jiff::SignedDuration;
use jiff::civil::{Date, DateTime, Time};
use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type as PhysicalType};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{DataType, Int96};
use parquet::errors::ParquetError;
use parquet::schema::types::ColumnDescriptor;
use serde_json::{Number, Value as Json};

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
