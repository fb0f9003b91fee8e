//! Reads a Parquet file as lines of JSON, one for each row.
//!
//! The daemon gets these lines as NDJSON and reads no Parquet: the library allocates memory by sizes that are in the file, and panics
//! for some damaged files. A file of 12 KB can take 4 GB, so `oraclectl` reads it in a process of its own, whose memory has a limit.

use crate::base::lines::{self, OpenedFile};
use crate::base::output_stream::print_note;
use oracled_domain::ground::format::PayloadFormat;
use oracled_domain::ground::pipeline::PipelineRetrieval;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::mem;
use std::os::unix::process::CommandExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

mod reader;
mod values;

pub(crate) use reader::run_reader;

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

/// Opens a payload as [`lines::open`] does. A Parquet file is read as lines of JSON, which must be what `retrieval` names.
pub(in crate::ground) fn open_payload(
    file: &Path,
    done: &str,
    retrieval: Option<&PipelineRetrieval>,
) -> io::Result<OpenedFile> {
    if !is_parquet(file)? {
        return lines::open(file, done);
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
    let bar = lines::progress_bar(None, done);
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
        rows.lines.by_ref().take(lines::LINE_MAX_BYTES as u64).read_until(b'\n', &mut head)?;
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
            errors.take(lines::LINE_MAX_BYTES as u64).read_to_string(&mut reason)?;
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
