//! Reads a Parquet file as lines of JSON, one for each row.
//!
//! The daemon gets these lines as NDJSON and reads no Parquet: the library allocates memory by sizes that are in the file, and panics
//! for some damaged files.

use crate::base::lines::{self, OpenedFile};
use crate::base::output_stream::print_note;
use oracled_domain::ground::format::PayloadFormat;
use oracled_domain::ground::pipeline::PipelineRetrieval;
use parquet::column::reader::ColumnReader;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use serde_json::{Map, Value as Json};
use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufReader, Cursor, ErrorKind, Read, Seek};
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::Once;
use values::{ColumnMeaning, RowColumn, general};

mod values;

/// The first bytes of a Parquet file.
const MAGIC: &[u8] = b"PAR1";
/// The most rows that are in memory.
const BATCH_ROWS: usize = 64;
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

/// The columns of a Parquet file that are left out; none if it does not begin as one.
///
/// # Errors
/// The file cannot be read, or is damaged.
pub(in crate::ground) fn omitted_columns(file: &Path) -> io::Result<Vec<String>> {
    Ok(ParquetRows::open(file)?.map(|rows| rows.omitted).unwrap_or_default())
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
        print_note(&format!(
            "left out, since only texts, numbers, dates and times are read: {}",
            rows.omitted.join(", ")
        ));
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
mod tests;
