//! Parquet files, which a program of its own reads and writes. The daemon gets their rows as NDJSON and reads no Parquet.

use crate::base::input::{self, OpenedFile};
use crate::base::output::print_note;
use crate::base::program::{start_error, tool};
use domain_ground::format::PayloadFormat;
use domain_ground::pipeline::PipelineRetrieval;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::mem;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};

/// The program that reads and writes Parquet files.
pub const PROGRAM: &str = "oraclectl-parquet";
/// Its exit code if standard error has the reason.
pub const REFUSED: i32 = 5;
/// That of a program of Rust that panicked.
const PANICKED: i32 = 101;
/// The most memory that it has to read a file, in bytes. It has a page of each column in memory.
pub const MEMORY_MAX_BYTES: u64 = 1 << 30;
/// The most processor time that it has to read a file, in seconds: a file of a few bytes can have rows without end.
pub const CPU_MAX_S: u64 = 3600;

/// The first bytes of a Parquet file.
const MAGIC: &[u8] = b"PAR1";

/// Whether a file begins as a Parquet file. A pipe does not, since it can be read only once.
pub(super) fn is_parquet(file: &Path) -> io::Result<bool> {
    if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Ok(false);
    }
    let mut start = Vec::new();
    File::open(file)?.take(MAGIC.len() as u64).read_to_end(&mut start)?;
    Ok(start == MAGIC)
}

/// The columns of a Parquet file that are left out, with a note; none if it does not begin as one.
///
/// # Errors
/// The file cannot be read, or is damaged.
pub(super) fn omitted_columns(file: &Path) -> io::Result<Vec<String>> {
    if !is_parquet(file)? {
        return Ok(Vec::new());
    }
    let omitted = mem::take(&mut ParquetRows::open(file)?.omitted);
    note_omitted(&omitted);
    Ok(omitted)
}

fn note_omitted(columns: &[String]) {
    if !columns.is_empty() {
        let columns = columns.join(", ");
        print_note(&format!("left out, since only texts, numbers, dates and times are read: {columns}"));
    }
}

/// The rows of a Parquet file as lines of JSON. Lists, maps and values without a meaning as text are left out.
struct ParquetRows {
    reader: Child,
    lines: BufReader<ChildStdout>,
    /// The columns that are left out.
    omitted: Vec<String>,
}

/// Opens a payload as [`input::open`] does. A Parquet file is read as lines of JSON, which must be what `retrieval` names. Without
/// `retrieval`, the caller reports the columns that are left out.
pub(super) fn open_payload(
    file: &Path,
    done: &str,
    retrieval: Option<&PipelineRetrieval>,
) -> io::Result<OpenedFile> {
    if !is_parquet(file)? {
        return refuse_parquet(input::open(file, done)?);
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
    if retrieval.is_some() {
        note_omitted(&rows.omitted);
    }
    let bar = input::progress_bar(None, done);
    Ok((BufReader::new(Box::new(bar.wrap_read(rows))), bar))
}

/// The same input, unless a pipe has a Parquet file, which is read from its end.
fn refuse_parquet((mut input, bar): OpenedFile) -> io::Result<OpenedFile> {
    if input.fill_buf()?.starts_with(MAGIC) {
        bar.finish_and_clear();
        let fault = "it is a Parquet file, which cannot be read from a pipe; give the name of the file";
        return Err(invalid(fault.to_owned()));
    }
    Ok((input, bar))
}

impl ParquetRows {
    /// Starts to read the file.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged.
    fn open(file: &Path) -> io::Result<Self> {
        let mut reader = start("read", File::open(file)?.into(), Stdio::piped())?;
        let output = reader.stdout.take().ok_or(ErrorKind::BrokenPipe)?;
        let mut rows = Self { reader, lines: BufReader::new(output), omitted: Vec::new() };
        let mut head = Vec::new();
        rows.lines.by_ref().take(input::LINE_MAX_BYTES as u64).read_until(b'\n', &mut head)?;
        if head.is_empty() {
            check_read(&mut rows.reader)?;
        }
        rows.omitted = serde_json::from_slice(&head)?;
        Ok(rows)
    }
}

/// Starts the program.
///
/// # Errors
/// It is not installed, or cannot be started.
pub(super) fn start(verb: &str, input: Stdio, output: Stdio) -> io::Result<Child> {
    let mut command = tool(PROGRAM).map_err(io::Error::other)?;
    let started = command.arg(verb).stdin(input).stdout(output).stderr(Stdio::piped()).spawn();
    started.map_err(|error| io::Error::other(start_error(PROGRAM, &error)))
}

/// Waits for the end of the program, and checks that it has done its work.
///
/// # Errors
/// It has not, with the reason.
pub(super) fn check_end(program: &mut Child) -> io::Result<()> {
    let mut reason = String::new();
    if let Some(errors) = program.stderr.take() {
        errors.take(input::LINE_MAX_BYTES as u64).read_to_string(&mut reason)?;
    }
    let ended = program.wait()?;
    match ended.code() {
        Some(0) => Ok(()),
        Some(REFUSED) => Err(invalid(reason.trim_end().to_owned())),
        _ => Err(io::Error::other(format!(
            "{PROGRAM} failed ({ended}); install it again from the same release, and repeat the command"
        ))),
    }
}

/// The reason why a file cannot be read, if the library caused it.
fn check_read(program: &mut Child) -> io::Result<()> {
    let failed = check_end(program);
    let Some(ended) = program.try_wait()? else { return failed };
    match (ended.code(), ended.signal()) {
        // the library panics for some damaged files
        (Some(PANICKED), _) => Err(invalid("the Parquet file is damaged".to_owned())),
        (None, Some(signal)) => Err(invalid(format!(
            "the Parquet file is damaged, or cannot be read with {MEMORY_MAX_BYTES} bytes of memory and {CPU_MAX_S} s of processor \
             time (its reader ended by signal {signal}); write it with smaller pages, or as NDJSON"
        ))),
        _ => failed,
    }
}

impl Read for ParquetRows {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.lines.read(into)?;
        if read == 0 && !into.is_empty() {
            check_read(&mut self.reader)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parquet_file_is_refused_on_a_pipe_and_other_input_stays_whole() {
        let opened = |text: &'static str| {
            let input: Box<dyn Read + Send> = Box::new(text.as_bytes());
            (BufReader::new(input), input::progress_bar(None, "read"))
        };
        assert!(refuse_parquet(opened("PAR1 rows PAR1")).is_err());
        for text in ["PAR", "city\nBern\n", ""] {
            let (mut input, _) = refuse_parquet(opened(text)).expect("it is no Parquet file");
            assert_eq!(io::read_to_string(&mut input).expect("UTF-8"), text);
        }
    }
}
