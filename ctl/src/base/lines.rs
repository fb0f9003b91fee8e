//! Files of lines: opened with a bar that shows how far they are read, and read one line at a time.

use indicatif::{ProgressBar, ProgressStyle};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// A line may have so many bytes, its end not counted.
pub(crate) const LINE_MAX_BYTES: usize = 4 * 1024 * 1024;

/// A file as it is read, and a bar that shows how far.
pub(crate) type Opened = (BufReader<Box<dyn Read + Send>>, ProgressBar);

/// A file as people know it.
pub(crate) fn name(file: &Path) -> String {
    if is_stdin(file) { "standard input".to_owned() } else { file.display().to_string() }
}

fn is_stdin(file: &Path) -> bool {
    file == Path::new("-")
}

/// Opens a file, or standard input where it is called `-`. The bar says what is `done` with its lines; indicatif
/// hides it where standard error is not a terminal.
pub(crate) fn open(file: &Path, done: &str) -> io::Result<Opened> {
    let (input, length_bytes): (Box<dyn Read + Send>, _) = if is_stdin(file) {
        (Box::new(io::stdin()), None)
    } else {
        let file = File::open(file)?;
        let metadata = file.metadata()?;
        // a pipe has no length to hold what is read against, and a file of the kernel's says that it has none
        let length_bytes = Some(metadata.len()).filter(|length| metadata.is_file() && *length > 0);
        (Box::new(file), length_bytes)
    };
    let bar = progress(length_bytes, done);
    Ok((BufReader::new(Box::new(bar.wrap_read(input))), bar))
}

pub(crate) fn progress(length_bytes: Option<u64>, done: &str) -> ProgressBar {
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
#[error("longer than 4 MiB, the most a line may have")]
pub(crate) struct TooLong;

/// One line that is not blank.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line<'l> {
    /// Its number, from 1, blank lines counted.
    pub(crate) number: u64,
    /// Its text, without white space around it.
    pub(crate) text: Result<&'l [u8], TooLong>,
}

/// Lines being read. Of each, as much is held as a line may have.
pub(crate) struct Lines<R> {
    input: R,
    line: Vec<u8>,
    number: u64,
    /// The rest of the line is still to be passed over.
    is_cut: bool,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { input, line: Vec::new(), number: 0, is_cut: false }
    }

    /// The next line that is not blank; nothing at the end.
    pub(crate) fn next_line(&mut self) -> io::Result<Option<Line<'_>>> {
        while self.read_line()? {
            if self.is_cut {
                return Ok(Some(Line { number: self.number, text: Err(TooLong) }));
            }
            if !self.line.trim_ascii().is_empty() {
                return Ok(Some(Line { number: self.number, text: Ok(self.line.trim_ascii()) }));
            }
        }
        Ok(None)
    }

    /// Reads one line without its end; of one that is too long, only as much as shows it to be.
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

/// What the reader of JSON stumbled over, without the place.
pub(crate) fn reason(error: &serde_json::Error) -> String {
    without_place(&error.to_string()).to_owned()
}

/// What a reader of JSON says, without the place: it counts lines within a text, of one line always line 1, and columns
/// of that text, which may not be the one that people see.
pub(crate) fn without_place(told: &str) -> &str {
    let is_place = |place: &str| place.split(" column ").all(|number| number.parse::<u64>().is_ok());
    told.rsplit_once(" at line ").filter(|(_, place)| is_place(place)).map_or(told, |(what, _)| what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &[u8]) -> Vec<(u64, Result<usize, TooLong>)> {
        let mut lines = Lines::new(text);
        let mut found = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            found.push((line.number, line.text.map(<[u8]>::len)));
        }
        found
    }

    #[test]
    fn lines_are_numbered_with_the_blank_ones_and_trimmed() {
        assert_eq!(all(b""), []);
        assert_eq!(all(b"\n \t\r\n"), []);
        assert_eq!(all(b"\none\r\n\n  four  \n\nsix"), [(2, Ok(3)), (4, Ok(4)), (6, Ok(3))]);
    }

    #[test]
    fn line_of_exactly_the_limit_and_the_line_after_a_longer_one_are_read() {
        let line = |bytes: usize| "x".repeat(bytes);
        let text = format!("{}\n{}\nthree\n", line(LINE_MAX_BYTES), line(LINE_MAX_BYTES + 70_000));
        assert_eq!(all(text.as_bytes()), [(1, Ok(LINE_MAX_BYTES)), (2, Err(TooLong)), (3, Ok(5))]);
        assert_eq!(all(line(LINE_MAX_BYTES + 1).as_bytes()), [(1, Err(TooLong))]);
        let blank = format!("{}\ntwo", " ".repeat(LINE_MAX_BYTES + 1));
        assert_eq!(all(blank.as_bytes()), [(1, Err(TooLong)), (2, Ok(3))]);
    }

    #[test]
    fn a_line_without_end_is_refused_in_bounded_memory() {
        for endless in [b' ', b'x'] {
            let mut lines = Lines::new(BufReader::new(io::repeat(endless)));
            assert_eq!(lines.next_line().unwrap(), Some(Line { number: 1, text: Err(TooLong) }));
            assert!(lines.line.capacity() <= 2 * (LINE_MAX_BYTES + 1), "{}", lines.line.capacity());
        }
    }

    #[test]
    fn the_place_is_taken_off_and_nothing_else() {
        for (told, left) in [
            ("expected ident at line 1 column 2", "expected ident"),
            ("unknown field ` at line 7`, at line 1 column 12", "unknown field ` at line 7`,"),
            ("`facts` has an entry at line ends", "`facts` has an entry at line ends"),
            ("it is too long", "it is too long"),
        ] {
            assert_eq!(without_place(told), left);
        }
    }
}
