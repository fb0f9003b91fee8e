//! The tool `oraclectl-parquet`: reads a Parquet file as lines of JSON, and writes the export of a source as a Parquet file.
//!
//! The library allocates memory by sizes that are in the file, and panics for some damaged files. A file of 12 KB can take 4 GB. So
//! this is a program with limits of its own, which `oraclectl` starts.

mod columns;

use crate::parquet::columns::{ColumnBuffer, ColumnMeaning, ColumnProfile, ColumnType, RowColumn, general};
use clap::Parser;
use domain_ground::id::SourceId;
use domain_ground::ontology::Ontology;
use domain_ground::record::RecordContent;
use nix::sys::prctl::set_dumpable;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
pub use oracled_ctl::ground::parquet::PROGRAM;
use oracled_ctl::ground::parquet::{CPU_MAX_S, MEMORY_MAX_BYTES, REFUSED};
use oracled_ctl::ground::source::{ExportEnd, ExportHead};
use parquet::basic::{Compression, ZstdLevel};
use parquet::column::reader::ColumnReader;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use serde::Deserialize;
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Seek, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::Arc;
use std::{io, mem, panic};

/// The longest reason, in characters.
const FAULT_MAX_CHARS: usize = 1000;

/// Read and write Parquet files for oraclectl
#[derive(Debug, Parser)]
#[command(name = PROGRAM, version)]
enum ParquetCommand {
    /// Print the rows of the Parquet file that is the standard input
    ///
    /// The first line lists the columns that are left out, since only texts, numbers, dates and times are read.
    Read,
    /// Write a Parquet file of the records on standard input
    ///
    /// The first line has the source and its ontology, and the last one the number of records between them.
    Write,
}

/// Runs the program.
#[must_use]
pub fn main() -> ExitCode {
    // a core dump would contain the rows
    if let Err(error) = set_dumpable(false) {
        drop(writeln!(io::stderr(), "cannot turn core dumps off: {error}"));
        return ExitCode::from(REFUSED as u8);
    }
    let command = ParquetCommand::parse();
    // oraclectl reports a panic
    panic::set_hook(Box::new(|_| {}));
    match run(&command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let fault = match error {
                ParquetError::General(fault) => fault,
                error => error.to_string(),
            };
            // a long text would block the pipe: it can quote names from the file
            let fault: String = fault.chars().take(FAULT_MAX_CHARS).collect();
            drop(writeln!(io::stderr(), "{fault}"));
            ExitCode::from(REFUSED as u8)
        }
    }
}

fn run(command: &ParquetCommand) -> Result<(), ParquetError> {
    match command {
        ParquetCommand::Read => {
            limit(Resource::RLIMIT_AS, MEMORY_MAX_BYTES)?;
            limit(Resource::RLIMIT_CPU, CPU_MAX_S)?;
            write_rows(File::from(io::stdin().as_fd().try_clone_to_owned()?), &mut io::stdout().lock())
        }
        ParquetCommand::Write => {
            let target = File::from(io::stdout().as_fd().try_clone_to_owned()?);
            write_export(io::stdin().lock(), target)
        }
    }
}

fn limit(resource: Resource, most: u64) -> Result<(), ParquetError> {
    let limited =
        getrlimit(resource).and_then(|(_, hard)| setrlimit(resource, most.min(hard), most.min(hard)));
    limited.map_err(|errno| general(io::Error::from(errno)))
}

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
fn write_export(mut input: impl BufRead, target: File) -> Result<(), ParquetError> {
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
    let avoid_axis_name = |mut name: String| {
        while ontology.axis(&name).is_some() {
            name.insert_str(0, "provenance.");
        }
        name
    };
    let mut columns = Vec::new();
    for ((_, path), (profile, has_definition)) in axes {
        let buffer = ColumnBuffer::new(profile.column_type());
        if has_definition {
            let (name, source) =
                (avoid_axis_name(format!("{path}.definition")), ColumnSource::Definition(path.clone()));
            columns.push(ExportColumn { name, source, buffer: ColumnBuffer::new(ColumnType::Text) });
        }
        columns.push(ExportColumn { name: path.clone(), source: ColumnSource::Axis(path), buffer });
    }
    columns.extend(FIXED.map(|(name, kind)| {
        let own = match name {
            "position" | "offset" | "len" => format!("raw_{name}"),
            _ => name.to_owned(),
        };
        ExportColumn {
            name: avoid_axis_name(own),
            source: ColumnSource::Fixed(name),
            buffer: ColumnBuffer::new(kind),
        }
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

/// The most rows that are in memory.
const BATCH_ROWS: usize = 64;

/// The rows of a file.
struct RowReader {
    file: SerializedFileReader<File>,
    columns: Vec<RowColumn>,
    next_group: usize,
    /// The readers of the current row group, by column.
    readers: Vec<ColumnReader>,
    rows_left: usize,
    /// The columns that are left out.
    omitted: Vec<String>,
}

/// Writes the columns that are left out, and the rows.
fn write_rows(file: File, out: &mut impl Write) -> Result<(), ParquetError> {
    let mut rows = RowReader::open(file)?;
    let mut text = serde_json::to_vec(&rows.omitted).map_err(general)?;
    text.push(b'\n');
    out.write_all(&text)?;
    while let Some(batch) = rows.read_batch()? {
        out.write_all(&batch)?;
    }
    Ok(())
}

impl RowReader {
    fn open(file: File) -> Result<Self, ParquetError> {
        let file = SerializedFileReader::new(file)?;
        for column in file.metadata().row_groups().iter().flat_map(|group| group.columns()) {
            check_compression(column.compression())?;
        }
        let (mut columns, mut omitted) = (Vec::<RowColumn>::new(), Vec::new());
        for (index, column) in file.metadata().file_metadata().schema_descr().columns().iter().enumerate() {
            let path = column.path().parts().to_vec();
            if columns.iter().any(|known| known.path == path) {
                return Err(general(format!("two columns have the name `{}`", path.join("."))));
            }
            match ColumnMeaning::of(column) {
                Some(meaning) => {
                    columns.push(RowColumn { index, path, value_level: column.max_def_level(), meaning });
                }
                None => omitted.push(path.join(".")),
            }
        }
        Ok(Self { file, columns, next_group: 0, readers: Vec::new(), rows_left: 0, omitted })
    }

    /// The lines of the next rows; `None` at the end.
    fn read_batch(&mut self) -> Result<Option<Vec<u8>>, ParquetError> {
        while self.rows_left == 0 {
            if self.next_group == self.file.num_row_groups() {
                return Ok(None);
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
        Ok(Some(text))
    }
}

/// Checks that this program can decompress the columns of a file.
fn check_compression(compression: Compression) -> Result<(), ParquetError> {
    let name = match compression {
        Compression::BROTLI(_) => "BROTLI",
        Compression::LZO => "LZO",
        _ => return Ok(()),
    };
    Err(general(format!(
        "the Parquet file has the compression {name}; write it with ZSTD, SNAPPY, GZIP or LZ4, or without compression"
    )))
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

#[cfg(test)]
mod tests;
