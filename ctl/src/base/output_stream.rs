//! The standard streams. All output goes through them, so that no foreign text can control a terminal or hide text.

use domain_base::visible::{visible_colored_text, visible_line, visible_text};
use std::io::{self, IsTerminal, StdoutLock, Write};

/// The output of a verb. What is written is shown to people, with escapes for characters that hide or reorder text.
pub trait Output: Write {
    /// The same output for bytes that a program reads. On a terminal, they get escapes too.
    fn exact(&mut self) -> &mut dyn Write;
}

/// Standard output.
pub(crate) struct StandardOutput {
    stream: StdoutLock<'static>,
    is_terminal: bool,
    /// The beginning of a character whose other bytes are not written yet.
    incomplete: Vec<u8>,
}

impl StandardOutput {
    pub(crate) fn new() -> Self {
        let stream = io::stdout().lock();
        Self { is_terminal: stream.is_terminal(), stream, incomplete: Vec::new() }
    }

    fn write_visible(&mut self, bytes: &[u8]) -> io::Result<()> {
        let text = String::from_utf8_lossy(bytes);
        if self.is_terminal {
            return self.stream.write_all(visible_colored_text(&text).as_bytes());
        }
        self.stream.write_all(visible_text(&text).as_bytes())
    }
}

impl Write for StandardOutput {
    fn write(&mut self, written: &[u8]) -> io::Result<usize> {
        let mut bytes = std::mem::take(&mut self.incomplete);
        bytes.extend_from_slice(written);
        let whole = match std::str::from_utf8(&bytes) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => bytes.len(),
        };
        self.incomplete = bytes.split_off(whole);
        self.write_visible(&bytes)?;
        Ok(written.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let incomplete = std::mem::take(&mut self.incomplete);
        self.write_visible(&incomplete)?;
        self.stream.flush()
    }
}

impl Output for StandardOutput {
    fn exact(&mut self) -> &mut dyn Write {
        if self.is_terminal { self } else { &mut self.stream }
    }
}

#[cfg(test)]
impl Output for Vec<u8> {
    fn exact(&mut self) -> &mut dyn Write {
        self
    }
}

/// Prints a line on standard error. Without a reader, the line is lost.
pub fn print_note(line: &str) {
    drop(writeln!(io::stderr(), "{}", visible_line(line)));
}
