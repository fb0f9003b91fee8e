//! Reads a Parquet file as lines of JSON, one for each row.
//!
//! The daemon gets these lines as NDJSON and reads no Parquet: the library allocates memory by sizes that are in the file, and panics
//! for some damaged files.

use crate::base::lines::{self, OpenedFile};
use jiff::SignedDuration;
use jiff::civil::{Date, DateTime, Time};
use oracled_domain::ground::format::PayloadFormat;
use oracled_domain::ground::pipeline::PipelineRetrieval;
use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type as PhysicalType};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{DataType, Int96};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::schema::types::ColumnDescriptor;
use serde_json::{Map, Number, Value as Json};
use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufReader, Cursor, ErrorKind, Read, Seek};
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::Once;

/// The first bytes of a Parquet file.
const MAGIC: &[u8] = b"PAR1";
/// The most rows that are in memory.
const BATCH_ROWS: usize = 64;
/// The longest text. A run reads records up to this length by default.
const VALUE_MAX_BYTES: usize = 1 << 20;
/// 1970-01-01 as a Julian day, in which Int96 counts days.
const EPOCH_JULIAN_DAY: i128 = 2_440_588;
const DAY_NANOSECONDS: i128 = 86_400_000_000_000;

/// Makes panics of the library silent, since they become errors.
static QUIET_HOOK: Once = Once::new();
thread_local! {
    /// Whether this thread is in the library.
    static IS_READING: Cell<bool> = const { Cell::new(false) };
}

/// Whether a file begins as a Parquet file. A pipe does not, since it can be read only once.
pub(in crate::ground) fn is_parquet(file: &Path) -> io::Result<bool> {
    Ok(ParquetRows::open_file(file)?.is_some())
}

/// The rows of a Parquet file as lines of JSON. Lists, maps and values without a meaning as text are left out.
struct ParquetRows {
    file: SerializedFileReader<File>,
    columns: Vec<RowColumn>,
    next_group: usize,
    /// The readers of the current row group, by column.
    readers: Vec<ColumnReader>,
    rows_left: usize,
    lines: Cursor<Vec<u8>>,
    /// The columns that are left out.
    omitted: Vec<String>,
}

struct RowColumn {
    index: usize,
    path: Vec<String>,
    /// The definition level of a value that is not null.
    value_level: i16,
    meaning: ColumnMeaning,
}

/// The meaning of a column's values, beside their physical type.
#[derive(Debug, Clone, Copy)]
enum ColumnMeaning {
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

/// Opens a payload as [`lines::open`] does. A Parquet file is read as lines of JSON, which must be what `retrieval` names.
pub(in crate::ground) fn open_payload(
    file: &Path,
    done: &str,
    retrieval: Option<&PipelineRetrieval>,
) -> io::Result<OpenedFile> {
    let Some(rows) = ParquetRows::open(file)? else { return lines::open(file, done) };
    let is_plain = |retrieval: &PipelineRetrieval| {
        retrieval.format == PayloadFormat::Ndjson
            && retrieval.encoding.is_utf_8()
            && retrieval.compression.is_none()
    };
    if !retrieval.is_none_or(is_plain) {
        let fault = "a Parquet file is read as NDJSON, and the pipeline names another format; set `format: ndjson`, without \
                     `encoding` and `compression`";
        return Err(invalid(fault.to_owned()));
    }
    if !rows.omitted.is_empty() {
        eprintln!(
            "left out, since only texts, numbers, dates and times are read: {}",
            rows.omitted.join(", ")
        );
    }
    let bar = lines::progress_bar(None, done);
    Ok((BufReader::new(Box::new(bar.wrap_read(rows))), bar))
}

impl ParquetRows {
    /// The rows of the file; `None` if it does not begin as a Parquet file.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged.
    fn open(file: &Path) -> io::Result<Option<Self>> {
        let Some(file) = Self::open_file(file)? else { return Ok(None) };
        let file = guard(|| SerializedFileReader::new(file))?;
        let (mut columns, mut omitted) = (Vec::<RowColumn>::new(), Vec::new());
        for (index, column) in file.metadata().file_metadata().schema_descr().columns().iter().enumerate() {
            let path = column.path().parts().to_vec();
            if columns.iter().any(|known| known.path == path) {
                return Err(invalid(format!("two columns have the name `{}`", path.join("."))));
            }
            match ColumnMeaning::of(column) {
                Some(meaning) => {
                    columns.push(RowColumn { index, path, value_level: column.max_def_level(), meaning });
                }
                None => omitted.push(path.join(".")),
            }
        }
        let (readers, lines) = (Vec::new(), Cursor::default());
        Ok(Some(Self { file, columns, next_group: 0, readers, rows_left: 0, lines, omitted }))
    }

    /// The file; `None` if it does not begin as a Parquet file, or is a pipe, which can be read only once.
    fn open_file(file: &Path) -> io::Result<Option<File>> {
        if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
            return Ok(None);
        }
        let mut file = File::open(file)?;
        let mut start = Vec::new();
        file.by_ref().take(MAGIC.len() as u64).read_to_end(&mut start)?;
        file.rewind()?;
        Ok(Some(file).filter(|_| start == MAGIC))
    }

    /// Reads the next rows. Returns false at the end.
    fn read_batch(&mut self) -> Result<bool, ParquetError> {
        while self.rows_left == 0 {
            if self.next_group == self.file.num_row_groups() {
                return Ok(false);
            }
            let group = self.file.get_row_group(self.next_group)?;
            self.next_group += 1;
            self.rows_left = usize::try_from(group.metadata().num_rows()).map_err(general)?;
            let readers = self.columns.iter().map(|column| group.get_column_reader(column.index));
            self.readers = readers.collect::<Result<_, _>>()?;
        }
        let mut rows = vec![Map::new(); self.rows_left.min(BATCH_ROWS)];
        for (column, reader) in self.columns.iter().zip(&mut self.readers) {
            let named = |error| ParquetError::General(format!("column `{}`: {error}", column.path.join(".")));
            let values = column.read(reader, rows.len()).map_err(named)?;
            for (row, value) in rows.iter_mut().zip(values) {
                insert(row, &column.path, value);
            }
        }
        self.rows_left -= rows.len();
        let mut text = Vec::new();
        for row in rows {
            serde_json::to_writer(&mut text, &row).map_err(general)?;
            text.push(b'\n');
        }
        self.lines = Cursor::new(text);
        Ok(true)
    }
}

impl Read for ParquetRows {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.lines.read(into)?;
            if read > 0 || into.is_empty() || !guard(|| self.read_batch())? {
                return Ok(read);
            }
        }
    }
}

impl ColumnMeaning {
    /// `None` for a column that is left out.
    fn of(column: &ColumnDescriptor) -> Option<Self> {
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
    fn read(&self, reader: &mut ColumnReader, count: usize) -> Result<Vec<Json>, ParquetError> {
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

/// Inserts a value at a path of names.
fn insert(row: &mut Map<String, Json>, path: &[String], value: Json) {
    match path {
        [] => {}
        [name] => drop(row.insert(name.clone(), value)),
        [name, rest @ ..] => {
            if let Json::Object(inner) = row.entry(name.clone()).or_insert_with(|| Json::Object(Map::new())) {
                insert(inner, rest, value);
            }
        }
    }
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
    // a `Timestamp` ends before 9999-12-31, which stands for no end in many files
    let after = SignedDuration::try_from_nanos_i128(nanoseconds);
    let at = after.and_then(|after| DateTime::constant(1970, 1, 1, 0, 0, 0, 0).checked_add(after).ok());
    let at = at.ok_or_else(|| general(format!("{nanoseconds} nanoseconds since 1970 are out of range")))?;
    Ok(if is_utc { format!("{at}Z") } else { at.to_string() }.into())
}

/// The number in these bytes, the most significant first.
fn unscaled(bytes: &[u8]) -> Result<i128, ParquetError> {
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
fn format_decimal(unscaled: i128, places: usize) -> String {
    let sign = if unscaled < 0 { "-" } else { "" };
    let digits = format!("{:0>width$}", unscaled.unsigned_abs(), width = places + 1);
    let (whole, fraction) = digits.split_at(digits.len() - places);
    if fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

fn out_of_range(value: i64, unit: &str) -> ParquetError {
    general(format!("{value} {unit} are out of range"))
}

fn general(fault: impl ToString) -> ParquetError {
    ParquetError::General(fault.to_string())
}

fn invalid(fault: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, fault)
}

/// Calls the library, which panics for some damaged files.
fn guard<T>(read: impl FnOnce() -> Result<T, ParquetError>) -> io::Result<T> {
    QUIET_HOOK.call_once(|| {
        let hook = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !IS_READING.get() {
                hook(panic);
            }
        }));
    });
    IS_READING.set(true);
    let result = panic::catch_unwind(AssertUnwindSafe(read));
    IS_READING.set(false);
    match result {
        Ok(Ok(read)) => Ok(read),
        Ok(Err(ParquetError::General(fault))) => Err(invalid(fault)),
        Ok(Err(error)) => Err(invalid(error.to_string())),
        Err(_) => Err(invalid("the Parquet file is damaged".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::data_type::{
        ByteArray, ByteArrayType, DoubleType, FixedLenByteArrayType, FloatType, Int32Type, Int64Type,
        Int96Type,
    };
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
    use parquet::schema::parser::parse_message_type;
    use serde_json::json;
    use std::fs;
    use std::sync::Arc;
    use tempfile::TempDir;

    /// Writes a value and a null.
    fn write_first<T: DataType>(column: &mut SerializedColumnWriter<'_>, value: T::T, level: i16) {
        column.typed::<T>().write_batch(&[value], Some(&[level, 0]), None).unwrap();
    }

    /// Writes two rows; the second one is null in all optional columns.
    fn write(path: &Path) {
        let schema = "message rows {
            required binary name (UTF8); required int32 day (DATE); optional int32 whole (DECIMAL(9,0));
            optional int64 cents (DECIMAL(18,2)); optional fixed_len_byte_array(20) wide (DECIMAL(38,3));
            optional int64 nanos (TIMESTAMP(NANOS,true)); optional int64 local (TIMESTAMP(MICROS,false));
            optional int96 old; optional int32 clock (TIME(MILLIS,true)); optional int64 big (INTEGER(64,false));
            optional float single; optional double missing; optional group place { optional binary city (UTF8); }
            optional group tags (LIST) { repeated group list { optional binary element (UTF8); } }
            optional fixed_len_byte_array(12) span (INTERVAL); }";
        let schema = Arc::new(parse_message_type(schema).unwrap());
        let properties = Arc::new(WriterProperties::builder().build());
        let mut writer = SerializedFileWriter::new(File::create(path).unwrap(), schema, properties).unwrap();
        let mut group = writer.next_row_group().unwrap();
        let mut int96 = Int96::new();
        int96.set_data(1_000, 0, 2_440_589);
        let wide = [vec![u8::MAX; 4], (-1_234_567_890_123_456_789_012_i128).to_be_bytes().to_vec()].concat();
        let mut number = 0;
        while let Some(mut column) = group.next_column().unwrap() {
            let column_writer = &mut column;
            match number {
                0 => {
                    let names = [ByteArray::from("Bern"), ByteArray::from("Basel")];
                    column_writer.typed::<ByteArrayType>().write_batch(&names, None, None).unwrap();
                }
                1 => {
                    let days = [19_723, 20_000];
                    column_writer.typed::<Int32Type>().write_batch(&days, None, None).unwrap();
                }
                2 => write_first::<Int32Type>(column_writer, 120, 1),
                3 => write_first::<Int64Type>(column_writer, -5, 1),
                4 => write_first::<FixedLenByteArrayType>(column_writer, wide.clone().into(), 1),
                5 => write_first::<Int64Type>(column_writer, 1_000_000_001, 1),
                6 => write_first::<Int64Type>(column_writer, 1_500_000, 1),
                7 => write_first::<Int96Type>(column_writer, int96, 1),
                8 => write_first::<Int32Type>(column_writer, 3_600_500, 1),
                9 => write_first::<Int64Type>(column_writer, -1, 1),
                10 => write_first::<FloatType>(column_writer, 0.1, 1),
                11 => write_first::<DoubleType>(column_writer, f64::NAN, 1),
                12 => write_first::<ByteArrayType>(column_writer, "Köniz".into(), 2),
                13 => {
                    let levels = Some(&[0_i16, 0][..]);
                    column_writer
                        .typed::<ByteArrayType>()
                        .write_batch(&[], levels, levels)
                        .map(drop)
                        .unwrap();
                }
                _ => write_first::<FixedLenByteArrayType>(column_writer, vec![0; 12].into(), 1),
            }
            column.close().unwrap();
            number += 1;
        }
        group.close().unwrap();
        writer.close().unwrap();
    }

    fn read(path: &Path) -> io::Result<(Vec<Json>, Vec<String>)> {
        let mut rows = ParquetRows::open(path)?.expect("a Parquet file");
        let mut text = String::new();
        rows.read_to_string(&mut text)?;
        let lines = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        Ok((lines, rows.omitted))
    }

    #[test]
    fn values_keep_their_digits_and_their_meaning() {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("rows.parquet");
        write(&path);
        let (lines, omitted) = read(&path).unwrap();
        let first = json!({"name": "Bern", "day": "2024-01-01", "whole": "120", "cents": "-0.05",
            "wide": "-1234567890123456789.012", "nanos": "1970-01-01T00:00:01.000000001Z",
            "local": "1970-01-01T00:00:01.5", "old": "1970-01-02T00:00:00.000001Z", "clock": "01:00:00.5",
            "big": u64::MAX, "single": 0.1, "missing": null, "place": {"city": "Köniz"}});
        assert_eq!(lines[0], first);
        let second = lines[1].as_object().unwrap();
        assert_eq!(second["name"], "Basel");
        let nulls = second.iter().filter(|(_, value)| value.is_null()).count();
        assert_eq!((lines.len(), nulls, &second["place"]), (2, 10, &json!({"city": null})));
        assert_eq!(omitted, ["tags.list.element", "span"]);
    }

    #[test]
    fn damaged_file_is_an_error_or_gives_rows() {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("rows.parquet");
        write(&path);
        let whole = fs::read(&path).unwrap();
        let mut refused = 0;
        for n in 0..400 {
            let mut damaged = whole.clone();
            let at = MAGIC.len() + (n * 7919) % (whole.len() - MAGIC.len());
            damaged[at] ^= 1 << (n % 8);
            fs::write(&path, &damaged).unwrap();
            refused += usize::from(read(&path).is_err());
        }
        fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        assert!(read(&path).is_err());
        assert!((1..400).contains(&refused), "{refused} of 400 were refused");
    }

    #[test]
    fn decimal_has_all_digits_of_its_bytes() {
        for (bytes, places, text) in
            [(&[5][..], 2, "0.05"), (&[0xff], 0, "-1"), (&[0, 0x80], 1, "12.8"), (&[0x80], 3, "-0.128")]
        {
            assert_eq!(format_decimal(unscaled(bytes).unwrap(), places), text);
        }
        assert!(unscaled(&[]).is_err() && unscaled(&[1; 17]).is_err());
        assert_eq!(unscaled(&[0xff; 20]).unwrap(), -1);
    }
}
