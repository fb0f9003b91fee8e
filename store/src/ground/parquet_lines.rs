//! Reads a Parquet payload as lines of JSON: the archive has text, so that each record has its place and its digest.

use jiff::civil::Date;
use jiff::{Timestamp, ToSpan};
use parquet::errors::ParquetError;
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::record::reader::RowIter;
use parquet::record::{Field, Row};
use serde_json::{Map, Number, Value as Json};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek};
use std::path::Path;

/// The records of a Parquet file, each as one line of JSON.
pub(super) struct ParquetLines {
    /// The payload. Its index is at its end, so it is read completely first.
    spool: Option<File>,
    rows: Option<RowIter<'static>>,
    line: Vec<u8>,
    /// The bytes of `line` that were read.
    read: usize,
}

impl ParquetLines {
    /// Lines of a payload that is stored in a file without a name in `dir` meanwhile.
    pub(super) fn new(dir: &Path) -> io::Result<Self> {
        Ok(Self { spool: Some(tempfile::tempfile_in(dir)?), rows: None, line: Vec::new(), read: 0 })
    }

    /// Reads text. The first call reads `payload` to its end.
    pub(super) fn read(&mut self, payload: &mut impl Read, into: &mut [u8]) -> io::Result<usize> {
        if let Some(mut spool) = self.spool.take() {
            io::copy(payload, &mut spool)?;
            spool.rewind()?;
            let reader = SerializedFileReader::new(spool).map_err(|error| invalid(error.to_string()))?;
            self.rows = Some(reader.into_iter());
        }
        while self.read == self.line.len() {
            let Some(row) = self.rows.as_mut().and_then(Iterator::next) else { return Ok(0) };
            let row = row.map_err(|error: ParquetError| invalid(error.to_string()))?;
            self.line = serde_json::to_vec(&object(&row).map_err(invalid)?)?;
            self.line.push(b'\n');
            self.read = 0;
        }
        let rest = self.line.get(self.read..).unwrap_or_default();
        let count = rest.len().min(into.len());
        into.get_mut(..count).unwrap_or_default().copy_from_slice(rest.get(..count).unwrap_or_default());
        self.read += count;
        Ok(count)
    }
}

fn invalid(fault: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, fault)
}

/// A row as JSON.
fn object(row: &Row) -> Result<Json, String> {
    let members = row.get_column_iter().map(|(name, field)| {
        let value = value(field).map_err(|fault| format!("column `{name}`: {fault}"))?;
        Ok((name.clone(), value))
    });
    Ok(Json::Object(members.collect::<Result<Map<_, _>, String>>()?))
}

/// A value as JSON. Decimals, dates and times are texts, with all their digits.
fn value(field: &Field) -> Result<Json, String> {
    let float = |number: f64| match Number::from_f64(number) {
        Some(number) => Ok(Json::Number(number)),
        // programs write a missing number as NaN
        None if number.is_nan() => Ok(Json::Null),
        None => Err("it has an infinite number".to_owned()),
    };
    let moment = |at: Result<Timestamp, jiff::Error>| at.map(|at| Json::from(at.to_string()));
    let out_of_range = |error: jiff::Error| error.to_string();
    Ok(match field {
        Field::Null => Json::Null,
        Field::Bool(value) => (*value).into(),
        Field::Byte(number) => (*number).into(),
        Field::Short(number) => (*number).into(),
        Field::Int(number) => (*number).into(),
        Field::Long(number) => (*number).into(),
        Field::UByte(number) => (*number).into(),
        Field::UShort(number) => (*number).into(),
        Field::UInt(number) => (*number).into(),
        Field::ULong(number) => (*number).into(),
        Field::Float16(number) => float(number.to_f64())?,
        // the shortest text of a single-precision number has fewer digits than that of the equal double
        Field::Float(number) if number.is_finite() => {
            Json::Number(number.to_string().parse().map_err(|error: serde_json::Error| error.to_string())?)
        }
        Field::Float(number) => float(f64::from(*number))?,
        Field::Double(number) => float(*number)?,
        Field::Str(text) => text.as_str().into(),
        Field::Decimal(_) | Field::TimeMillis(_) | Field::TimeMicros(_) => field.to_string().into(),
        Field::Date(days) => {
            let day = Date::constant(1970, 1, 1).checked_add((*days).days()).map_err(out_of_range)?;
            day.to_string().into()
        }
        Field::TimestampMillis(at) => moment(Timestamp::from_millisecond(*at)).map_err(out_of_range)?,
        Field::TimestampMicros(at) => moment(Timestamp::from_microsecond(*at)).map_err(out_of_range)?,
        Field::Bytes(_) => return Err("it is binary; write it as text, or leave it out".to_owned()),
        Field::Group(row) => object(row)?,
        Field::ListInternal(list) => list.elements().iter().map(value).collect::<Result<_, _>>()?,
        Field::MapInternal(map) => {
            let entry = |(key, member): &(Field, Field)| match value(key)? {
                Json::String(name) => Ok((name, value(member)?)),
                _ => Err("it has a map whose keys are not texts".to_owned()),
            };
            Json::Object(map.entries().iter().map(entry).collect::<Result<Map<_, _>, String>>()?)
        }
    })
}
