//! Reads a Parquet file as lines of JSON, one for each row.
//!
//! The daemon gets these lines as NDJSON and reads no Parquet: the library allocates memory by sizes that are in the file, and panics
//! for some damaged files. A file of 12 KB can take 4 GB, so `oraclectl` reads it in a process of its own, whose memory has a limit.

mod values;

use crate::base::input_lines::{self, OpenedFile};
use crate::base::output_stream::print_note;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use oracled_domain::ground::format::PayloadFormat;
use oracled_domain::ground::pipeline::PipelineRetrieval;
use parquet::column::reader::ColumnReader;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use serde_json::{Map, Value as Json};
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::{env, mem, panic};
use values::{ColumnMeaning, RowColumn, general};

/// The first bytes of a Parquet file.
const MAGIC: &[u8] = b"PAR1";
/// The first argument of the process that reads the file.
const READER_VERB: &str = "read-parquet-rows";
/// The exit code of that process if standard error has the reason.
const READER_REFUSED: u8 = 5;
/// The most memory of that process, in bytes. It has a page of each column in memory.
const MEMORY_MAX_BYTES: u64 = 1 << 30;

/// Whether a file begins as a Parquet file. A pipe does not, since it can be read only once.
pub(in crate::ground) fn is_parquet(file: &Path) -> io::Result<bool> {
    if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Ok(false);
    }
    let mut start = Vec::new();
    File::open(file)?.take(MAGIC.len() as u64).read_to_end(&mut start)?;
    Ok(start == MAGIC)
}

/// The columns of a Parquet file that are left out; none if it does not begin as one.
///
/// # Errors
/// The file cannot be read, or is damaged.
pub(in crate::ground) fn omitted_columns(file: &Path) -> io::Result<Vec<String>> {
    if is_parquet(file)? { Ok(mem::take(&mut ParquetRows::open(file)?.omitted)) } else { Ok(Vec::new()) }
}

/// The rows of a Parquet file as lines of JSON. Lists, maps and values without a meaning as text are left out.
struct ParquetRows {
    reader: Child,
    lines: BufReader<ChildStdout>,
    /// The columns that are left out.
    omitted: Vec<String>,
}

/// Opens a payload as [`input_lines::open`] does. A Parquet file is read as lines of JSON, which must be what `retrieval` names.
pub(in crate::ground) fn open_payload(
    file: &Path,
    done: &str,
    retrieval: Option<&PipelineRetrieval>,
) -> io::Result<OpenedFile> {
    if !is_parquet(file)? {
        return input_lines::open(file, done);
    }
    let rows = ParquetRows::open(file)?;
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
    let bar = input_lines::progress_bar(None, done);
    Ok((BufReader::new(Box::new(bar.wrap_read(rows))), bar))
}

impl ParquetRows {
    /// Starts to read the file.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged.
    fn open(file: &Path) -> io::Result<Self> {
        // the program itself, even if an upgrade has replaced its file
        let mut command = Command::new("/proc/self/exe");
        command.arg0(crate::NAME).arg(READER_VERB).arg(file).stdin(Stdio::null());
        let mut reader = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let output = reader.stdout.take().ok_or(ErrorKind::BrokenPipe)?;
        let mut rows = Self { reader, lines: BufReader::new(output), omitted: Vec::new() };
        let mut head = Vec::new();
        rows.lines.by_ref().take(input_lines::LINE_MAX_BYTES as u64).read_until(b'\n', &mut head)?;
        if head.is_empty() {
            rows.check_end()?;
        }
        rows.omitted = serde_json::from_slice(&head)?;
        Ok(rows)
    }

    /// Checks that the process has read the whole file. It has closed its output.
    fn check_end(&mut self) -> io::Result<()> {
        let ended = self.reader.wait()?;
        let mut reason = String::new();
        if let Some(errors) = self.reader.stderr.take() {
            errors.take(input_lines::LINE_MAX_BYTES as u64).read_to_string(&mut reason)?;
        }
        match (ended.code(), ended.signal()) {
            (Some(0), _) => Ok(()),
            (Some(code), _) if code == i32::from(READER_REFUSED) => Err(invalid(reason)),
            // the library panics for some damaged files
            (Some(_), _) => Err(invalid("the Parquet file is damaged".to_owned())),
            (None, signal) => Err(invalid(format!(
                "the Parquet file is damaged, or cannot be read with {MEMORY_MAX_BYTES} bytes of memory (its reader ended by signal \
                 {}); write it with smaller pages, or as NDJSON",
                signal.unwrap_or_default()
            ))),
        }
    }
}

impl Read for ParquetRows {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.lines.read(into)?;
        if read == 0 && !into.is_empty() {
            self.check_end()?;
        }
        Ok(read)
    }
}

impl Drop for ParquetRows {
    fn drop(&mut self) {
        // it has ended already, unless only the beginning of the file was needed
        drop(self.reader.kill());
        drop(self.reader.wait());
    }
}

fn invalid(fault: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, fault)
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

/// Reads the file that the command line names, if this process was started for that. It writes a line with the columns that are left
/// out, and then the rows; or the reason to standard error.
pub(crate) fn run_reader() -> Option<ExitCode> {
    let mut arguments = env::args_os().skip(1);
    if arguments.next()? != READER_VERB {
        return None;
    }
    let file = arguments.next()?;
    // the parent reports a panic
    panic::set_hook(Box::new(|_| {}));
    let read = limit_memory().and_then(|()| write_rows(Path::new(&file), &mut io::stdout().lock()));
    Some(match read {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let fault = match error {
                ParquetError::General(fault) => fault,
                error => error.to_string(),
            };
            drop(io::stderr().write_all(fault.as_bytes()));
            ExitCode::from(READER_REFUSED)
        }
    })
}

fn limit_memory() -> Result<(), ParquetError> {
    let limited = getrlimit(Resource::RLIMIT_AS).and_then(|(_, hard)| {
        let limit = MEMORY_MAX_BYTES.min(hard);
        setrlimit(Resource::RLIMIT_AS, limit, limit)
    });
    limited.map_err(|errno| general(io::Error::from(errno)))
}

/// Writes the columns that are left out, and the rows.
fn write_rows(file: &Path, out: &mut impl Write) -> Result<(), ParquetError> {
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
    fn open(file: &Path) -> Result<Self, ParquetError> {
        let file = SerializedFileReader::new(File::open(file)?)?;
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
