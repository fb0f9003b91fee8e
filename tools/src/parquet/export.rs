//! Writes the export of a source as a Parquet file.

use super::columns::{ColumnBuffer, ColumnProfile, ColumnType};
use super::values::general;
use domain_ground::id::SourceId;
use domain_ground::ontology::Ontology;
use domain_ground::record::RecordContent;
use oracled_ctl::ground::source::export::{ExportEnd, ExportHead};
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use serde::Deserialize;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Seek, Write};
use std::mem;
use std::sync::Arc;

/// Number of rows that are held in memory and written together.
const GROUP_ROWS: usize = 64 * 1024;

/// The columns after those of the axes: the two time axes, and the provenance. Each is a member of the line or of its provenance,
/// or the last name of a member of `raw`.
const FIXED: [(&str, ColumnType); 20] = [
    ("record_id", ColumnType::Text),
    ("source_record_id", ColumnType::Text),
    ("source_version", ColumnType::Text),
    ("valid_from", ColumnType::Timestamp),
    ("valid_until", ColumnType::Timestamp),
    ("known_from", ColumnType::Timestamp),
    ("known_until", ColumnType::Timestamp),
    ("superseded_by", ColumnType::Text),
    ("unconfirmed_by", ColumnType::Text),
    ("ingestion_pipeline_id", ColumnType::Text),
    ("ingestion_run_id", ColumnType::Text),
    ("source_url", ColumnType::Text),
    ("verification_status", ColumnType::Text),
    ("normalized_hash", ColumnType::Text),
    ("raw_hash", ColumnType::Text),
    ("raw_sha256", ColumnType::Text),
    ("position", ColumnType::Integer),
    ("offset", ColumnType::Integer),
    ("len", ColumnType::Integer),
    (PRUNED, ColumnType::Boolean),
];
/// The member of a line's provenance that is present if its content was pruned.
const PRUNED: &str = "pruned";

/// A line of the export.
#[derive(Deserialize)]
struct ExportLine {
    provenance: BTreeMap<String, Json>,
    record: Option<RecordContent>,
    /// The two periods of time.
    #[serde(flatten)]
    times: BTreeMap<String, Json>,
}

/// The record of a line; its other members are skipped.
#[derive(Deserialize)]
struct RecordLine {
    record: Option<RecordContent>,
}

/// A column: an axis, the definition of an axis, or a fixed one.
struct ExportColumn {
    name: String,
    source: ColumnSource,
    buffer: ColumnBuffer,
}

enum ColumnSource {
    Axis(String),
    Definition(String),
    Fixed(&'static str),
}

/// Writes the records between the first and the last line of `input`. It keeps them in a temporary file, since the types of the
/// columns are known only at their end.
///
/// # Errors
/// The input ends without its last line, and nothing is written; or a file cannot be read or written.
pub(super) fn write_export(mut input: impl BufRead, target: File) -> Result<(), ParquetError> {
    let mut line = Vec::new();
    input.read_until(b'\n', &mut line)?;
    let ExportHead { oracle_id, ontology } = read_line(&line)?;
    let (mut columns, stored) = find_columns(input, &ontology)?;
    let fields = columns.iter().map(|column| column.buffer.field(&column.name)).collect::<Result<_, _>>();
    let schema = Type::group_type_builder("records").with_fields(fields?).build()?;
    let mut writer = SerializedFileWriter::new(target, Arc::new(schema), properties(&oracle_id, &ontology))?;
    let mut rows = 0;
    for line in stored.lines() {
        let line: ExportLine = read_line(line?.as_bytes())?;
        for column in &mut columns {
            let value = column.source.value(&line);
            if !column.buffer.push(value.as_deref()) {
                return Err(general(format!("column `{}` has a value of another type", column.name)));
            }
        }
        rows += 1;
        if rows == GROUP_ROWS {
            write_group(&mut writer, &mut columns)?;
            rows = 0;
        }
    }
    write_group(&mut writer, &mut columns)?;
    writer.close()?;
    Ok(())
}

impl ColumnSource {
    /// The value of a line as text; `None` if it has none.
    fn value(&self, line: &ExportLine) -> Option<String> {
        let record = line.record.as_ref();
        match self {
            Self::Axis(path) => record?.axes.get(path).map(ToString::to_string),
            Self::Definition(path) => record?.definitions.get(path).cloned(),
            Self::Fixed(name) => {
                let member = line.times.get(*name).or_else(|| line.provenance.get(*name));
                let member = member.or_else(|| line.provenance.get("raw")?.get(*name));
                match member {
                    None if *name == PRUNED => Some(false.to_string()),
                    None | Some(Json::Null) => None,
                    Some(Json::String(text)) => Some(text.clone()),
                    Some(other) => Some(other.to_string()),
                }
            }
        }
    }
}

fn read_line<'l, L: Deserialize<'l>>(line: &'l [u8]) -> Result<L, ParquetError> {
    serde_json::from_slice(line).map_err(general)
}

/// The columns, and the lines of the records: the axes in the order of the ontology, then those that are the same for each source.
fn find_columns(
    mut input: impl BufRead,
    ontology: &Ontology,
) -> Result<(Vec<ExportColumn>, BufReader<File>), ParquetError> {
    let mut stored = BufWriter::new(tempfile::tempfile()?);
    let mut axes: BTreeMap<(usize, String), (ColumnProfile, bool)> = BTreeMap::new();
    let (mut line, mut following, mut records) = (Vec::new(), Vec::new(), 0);
    input.read_until(b'\n', &mut line)?;
    while input.read_until(b'\n', &mut following)? > 0 {
        stored.write_all(&line)?;
        records += 1;
        let RecordLine { record } = read_line(&line)?;
        let RecordContent { axes: values, definitions } = record.unwrap_or_default();
        for (path, value) in values {
            let Some((place, axis)) = ontology.place(&path) else { continue };
            let is_defined = definitions.contains_key(&path);
            let (profile, has_definition) =
                axes.entry((place, path)).or_insert_with(|| (ColumnProfile::new(axis.kind), false));
            profile.note(&value.to_string());
            *has_definition |= is_defined;
        }
        line.clear();
        mem::swap(&mut line, &mut following);
    }
    // a caller that was killed has not written the last line
    match serde_json::from_slice(&line) {
        Ok(ExportEnd { records: announced }) if announced == records => {}
        _ => {
            return Err(general(format!(
                "the export ends after {records} records without its last line; repeat it"
            )));
        }
    }
    let mut columns = Vec::new();
    for ((_, path), (profile, has_definition)) in axes {
        let buffer = ColumnBuffer::new(profile.column_type());
        if has_definition {
            let (name, source) = (format!("{path}.definition"), ColumnSource::Definition(path.clone()));
            columns.push(ExportColumn { name, source, buffer: ColumnBuffer::new(ColumnType::Text) });
        }
        columns.push(ExportColumn { name: path.clone(), source: ColumnSource::Axis(path), buffer });
    }
    columns.extend(FIXED.map(|(name, kind)| {
        let is_taken = ontology.axis(name).is_some();
        let shown = match name {
            "position" | "offset" | "len" => format!("raw_{name}"),
            _ if is_taken => format!("provenance.{name}"),
            _ => name.to_owned(),
        };
        ExportColumn { name: shown, source: ColumnSource::Fixed(name), buffer: ColumnBuffer::new(kind) }
    }));
    let mut stored = stored.into_inner().map_err(io::IntoInnerError::into_error)?;
    stored.rewind()?;
    Ok((columns, BufReader::new(stored)))
}

/// The properties of the file: its compression, and the source with the units of its axes as metadata.
fn properties(oracle_id: &SourceId, ontology: &Ontology) -> Arc<WriterProperties> {
    let units = ontology.axes.iter().filter_map(|axis| {
        let unit = axis.unit.clone()?;
        Some(KeyValue::new(format!("unit:{}", axis.axis), unit))
    });
    let own = [("oracle_id", oracle_id.to_string()), ("ontology", ontology.reference().to_string())];
    let metadata = own.map(|(name, value)| KeyValue::new(name.to_owned(), value)).into_iter().chain(units);
    let properties = WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default()));
    Arc::new(properties.set_key_value_metadata(Some(metadata.collect())).build())
}

fn write_group(
    writer: &mut SerializedFileWriter<File>,
    columns: &mut [ExportColumn],
) -> Result<(), ParquetError> {
    let mut group = writer.next_row_group()?;
    for column in columns {
        let mut target = group
            .next_column()?
            .ok_or_else(|| ParquetError::General("the schema has fewer columns".into()))?;
        column.buffer.write(&mut target)?;
        target.close()?;
    }
    group.close()?;
    Ok(())
}
