use super::*;
use crate::parquet::columns::{format_decimal, unscaled};
use parquet::basic::BrotliLevel;
use parquet::data_type::{
    ByteArray, ByteArrayType, DataType, DoubleType, FixedLenByteArrayType, FloatType, Int32Type, Int64Type,
    Int96, Int96Type,
};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use serde_json::json;
use std::io::BufRead;
use std::path::Path;
use std::sync::Arc;
use std::{fs, panic};
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
                column_writer.typed::<ByteArrayType>().write_batch(&[], levels, levels).map(drop).unwrap();
            }
            _ => write_first::<FixedLenByteArrayType>(column_writer, vec![0; 12].into(), 1),
        }
        column.close().unwrap();
        number += 1;
    }
    group.close().unwrap();
    writer.close().unwrap();
}

fn read(path: &Path) -> Result<(Vec<Json>, Vec<String>), ParquetError> {
    let mut text = Vec::new();
    write_rows(File::open(path).unwrap(), &mut text)?;
    let mut lines = text.lines().map(|line| serde_json::from_str(&line.expect("UTF-8")).expect("JSON"));
    let omitted = serde_json::from_value(lines.next().expect("a line")).expect("names");
    Ok((lines.collect(), omitted))
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
        let at = (n * 7919) % whole.len();
        damaged[at] ^= 1 << (n % 8);
        fs::write(&path, &damaged).unwrap();
        // the library panics for some
        refused += usize::from(!matches!(panic::catch_unwind(|| read(&path)), Ok(Ok(_))));
    }
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    assert!(read(&path).is_err());
    assert!((1..400).contains(&refused), "{refused} of 400 were refused");
}

#[test]
fn compression_is_refused_if_it_cannot_be_read() {
    for compression in [Compression::UNCOMPRESSED, Compression::SNAPPY, Compression::LZ4_RAW] {
        assert!(check_compression(compression).is_ok());
    }
    for compression in [Compression::BROTLI(BrotliLevel::default()), Compression::LZO] {
        assert!(check_compression(compression).is_err());
    }
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
