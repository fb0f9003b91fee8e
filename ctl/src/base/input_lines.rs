//! Reads files line by line, with a progress bar.

use indicatif::{ProgressBar, ProgressStyle};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

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
    match ProgressStyle::with_template(&format!("{done} {template}")) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
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
