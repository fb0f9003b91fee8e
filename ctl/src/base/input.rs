//! Files that a verb reads.

use super::error::CtlError;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use clap::builder::{PathBufValueParser, TypedValueParser};
use domain_base::text_form::is_blank;
use indicatif::{ProgressBar, ProgressStyle};
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The largest file that is read, in bytes.
const FILE_MAX_BYTES: u64 = 256 * 1024 * 1024;

/// The text of a file, or of standard input if the name is `-`.
pub fn read_text(file: &Path) -> Result<String, CtlError> {
    let read =
        if file == Path::new("-") { read_all(io::stdin()) } else { File::open(file).and_then(read_all) };
    read.map_err(|cause| CtlError::Read { file: file.display().to_string(), cause })
}

/// All text of `source`, which can be foreign; an error if it has more than [`FILE_MAX_BYTES`].
pub fn read_all(source: impl Read) -> io::Result<String> {
    read_limited(source, FILE_MAX_BYTES)
}

fn read_limited(source: impl Read, bytes_max: u64) -> io::Result<String> {
    let mut text = Vec::new();
    source.take(bytes_max + 1).read_to_end(&mut text)?;
    if text.len() as u64 > bytes_max {
        return Err(io::Error::other(format!("it is too long; allowed: {bytes_max} bytes")));
    }
    String::from_utf8(text).map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8"))
}

/// The facts in a file, one per line. Blank lines are skipped.
pub fn read_facts(file: &Path) -> Result<Vec<String>, CtlError> {
    let text = read_text(file)?;
    Ok(text.lines().filter(|line| !is_blank(line)).map(str::to_owned).collect())
}

/// The list of a request's `read_facts_from`, read from a file.
pub fn read_facts_from(file: &Path) -> Result<serde_json::Value, CtlError> {
    let text = read_text(file)?;
    serde_json::from_str(&text).map_err(|error| CtlError::Read {
        file: file.display().to_string(),
        cause: io::Error::other(format!("invalid JSON: {error}")),
    })
}

/// Parses a file name. Rejects `-`, since another argument of the same command may already read standard input.
pub fn regular_file_parser() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|file| {
        if file == Path::new("-") { Err("`-` is not supported here; name a file") } else { Ok(file) }
    })
}

/// The key in the content of a file; `None` if it has another form.
pub fn decode_secret_key(content: &[u8]) -> Option<[u8; 32]> {
    BASE64_STANDARD.decode(content.trim_ascii_end()).ok()?.try_into().ok()
}

/// Maximum length of a line in bytes, without the line end.
pub const LINE_MAX_BYTES: usize = 4 * 1024 * 1024;

/// An open file, and a bar that shows how much of it was read.
pub type OpenedFile = (BufReader<Box<dyn Read + Send>>, ProgressBar);

/// The name of a file for messages.
pub fn display_name(file: &Path) -> String {
    if is_stdin(file) { "standard input".to_owned() } else { file.display().to_string() }
}

fn is_stdin(file: &Path) -> bool {
    file == Path::new("-")
}

/// Opens a file, or standard input if the name is `-`. The bar begins with the word `done`; indicatif hides the bar if
/// standard error is not a terminal.
pub fn open(file: &Path, done: &str) -> io::Result<OpenedFile> {
    let (input, length_bytes): (Box<dyn Read + Send>, _) = if is_stdin(file) {
        (Box::new(io::stdin()), None)
    } else {
        let file = File::open(file)?;
        let metadata = file.metadata()?;
        // a pipe has no length, and a file in /proc reports 0
        let length_bytes = Some(metadata.len()).filter(|length| metadata.is_file() && *length > 0);
        (Box::new(file), length_bytes)
    };
    let bar = progress_bar(length_bytes, done);
    Ok((BufReader::new(Box::new(bar.wrap_read(input))), bar))
}

pub fn progress_bar(length_bytes: Option<u64>, done: &str) -> ProgressBar {
    let (bar, template) = match length_bytes {
        Some(length) => (ProgressBar::new(length), "{bar:20} {percent:>3}%, {eta} left{wide_msg}"),
        None => (ProgressBar::no_length(), "{spinner} {bytes}{wide_msg}"),
    };
    with_style(bar, &format!("{done} {template}"))
}

/// The bar with this template of indicatif.
pub fn with_style(bar: ProgressBar, template: &str) -> ProgressBar {
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Shows on a terminal how long `work` has taken, until it completes.
pub async fn with_spinner<T>(text: &'static str, work: impl Future<Output = T>) -> T {
    let bar = with_style(ProgressBar::no_length().with_message(text), "{spinner} {elapsed} {wide_msg}");
    bar.enable_steady_tick(Duration::from_millis(200));
    let done = work.await;
    bar.finish_and_clear();
    done
}

/// The line has more bytes than [`LINE_MAX_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the line is longer than 4 MiB, the maximum")]
pub struct LineTooLong;

/// A line that is not blank.
#[derive(Debug, PartialEq, Eq)]
pub struct InputLine<'l> {
    /// The line number, from 1; blank lines count.
    pub number: u64,
    /// The text without surrounding white space.
    pub text: Result<&'l [u8], LineTooLong>,
}

/// Iterates over lines. The memory is bounded by [`LINE_MAX_BYTES`].
pub struct InputLineReader<R> {
    input: R,
    line: Vec<u8>,
    number: u64,
    /// Whether the rest of an overlong line is still to be skipped.
    is_cut: bool,
}

impl<R: BufRead> InputLineReader<R> {
    pub fn new(input: R) -> Self {
        Self { input, line: Vec::new(), number: 0, is_cut: false }
    }

    /// The next line that is not blank; `None` at the end.
    pub fn next_line(&mut self) -> io::Result<Option<InputLine<'_>>> {
        while self.read_line()? {
            if self.is_cut {
                return Ok(Some(InputLine { number: self.number, text: Err(LineTooLong) }));
            }
            if !self.line.trim_ascii().is_empty() {
                return Ok(Some(InputLine { number: self.number, text: Ok(self.line.trim_ascii()) }));
            }
        }
        Ok(None)
    }

    /// Reads one line without its end. Stops one byte after the limit if the line is too long.
    fn read_line(&mut self) -> io::Result<bool> {
        if self.is_cut {
            self.input.skip_until(b'\n')?;
        }
        self.line.clear();
        self.number += 1;
        let most = LINE_MAX_BYTES as u64 + 1;
        let read = self.input.by_ref().take(most).read_until(b'\n', &mut self.line)?;
        let is_whole = self.line.last() == Some(&b'\n');
        if is_whole {
            self.line.pop();
        }
        self.is_cut = !is_whole && self.line.len() > LINE_MAX_BYTES;
        Ok(read > 0)
    }
}

/// The message of a JSON error, without the position.
pub fn json_error_text(error: &serde_json::Error) -> String {
    strip_position(&error.to_string()).to_owned()
}

/// Removes the position from a message of a JSON parser. The parser counts lines and columns within the text
/// that it gets, which may be one line of a file.
pub fn strip_position(message: &str) -> &str {
    let is_position = |position: &str| position.split(" column ").all(|number| number.parse::<u64>().is_ok());
    message
        .rsplit_once(" at line ")
        .filter(|(_, position)| is_position(position))
        .map_or(message, |(text, _)| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_refused_if_it_is_longer_than_the_limit() {
        assert_eq!(read_limited(&b"four"[..], 4).ok().as_deref(), Some("four"));
        let error = read_limited(io::repeat(b'x'), 4).expect_err("it is endless");
        insta::assert_snapshot!("content_beyond_the_limit", error);
        assert!(read_limited(&b"\xff"[..], 4).is_err());
    }

    fn read_all_lines(text: &[u8]) -> Vec<(u64, Result<usize, LineTooLong>)> {
        let mut lines = InputLineReader::new(text);
        let mut found = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            found.push((line.number, line.text.map(<[u8]>::len)));
        }
        found
    }

    #[test]
    fn line_numbers_count_blank_lines_and_text_is_trimmed() {
        assert_eq!(read_all_lines(b""), []);
        assert_eq!(read_all_lines(b"\n \t\r\n"), []);
        assert_eq!(read_all_lines(b"\none\r\n\n  four  \n\nsix"), [(2, Ok(3)), (4, Ok(4)), (6, Ok(3))]);
    }

    #[test]
    fn line_at_the_limit_and_line_after_a_longer_one_are_read() {
        let line = |bytes: usize| "x".repeat(bytes);
        let text = format!("{}\n{}\nthree\n", line(LINE_MAX_BYTES), line(LINE_MAX_BYTES + 70_000));
        assert_eq!(
            read_all_lines(text.as_bytes()),
            [(1, Ok(LINE_MAX_BYTES)), (2, Err(LineTooLong)), (3, Ok(5))]
        );
        assert_eq!(read_all_lines(line(LINE_MAX_BYTES + 1).as_bytes()), [(1, Err(LineTooLong))]);
        let blank = format!("{}\ntwo", " ".repeat(LINE_MAX_BYTES + 1));
        assert_eq!(read_all_lines(blank.as_bytes()), [(1, Err(LineTooLong)), (2, Ok(3))]);
    }

    #[test]
    fn endless_line_is_rejected_in_bounded_memory() {
        for endless in [b' ', b'x'] {
            let mut lines = InputLineReader::new(BufReader::new(io::repeat(endless)));
            assert_eq!(lines.next_line().unwrap(), Some(InputLine { number: 1, text: Err(LineTooLong) }));
            assert!(lines.line.capacity() <= 2 * (LINE_MAX_BYTES + 1), "{}", lines.line.capacity());
        }
    }

    #[test]
    fn strip_position_removes_only_the_position() {
        for (message, left) in [
            ("expected ident at line 1 column 2", "expected ident"),
            ("unknown field ` at line 7`, at line 1 column 12", "unknown field ` at line 7`,"),
            ("`facts` has an entry at line ends", "`facts` has an entry at line ends"),
            ("it is too long", "it is too long"),
        ] {
            assert_eq!(strip_position(message), left);
        }
    }
}
