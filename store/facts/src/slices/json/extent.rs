//! Finds the end of a JSON value by its brackets and strings alone.

use super::super::input::is_white_space;
use memchr::memchr2;

/// A partly scanned value.
#[derive(Debug, Default)]
pub(super) struct JsonValueScanner {
    state: JsonScanState,
    /// The closing brackets of the open lists and objects, from the outside in. It is never longer than the value.
    open: Vec<u8>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum JsonScanState {
    #[default]
    Start,
    Bare,
    Text,
    /// After a backslash in a string.
    Escaped,
    /// After a string. The next byte shows whether the string really ended. A missing or extra quote would
    /// otherwise swap the inside and the outside of strings.
    AfterText,
}

/// The value has ended; or the text that is allowed in place of the next byte.
type JsonScanEnd = Result<(), &'static str>;

impl JsonValueScanner {
    /// Scans more of the value. Returns the number of bytes of `chunk` that belong to it, and whether it ends
    /// after them. A value without any bytes is invalid.
    pub(super) fn feed(&mut self, chunk: &[u8]) -> (usize, Option<JsonScanEnd>) {
        let mut rest = chunk;
        while let [byte, tail @ ..] = rest {
            let seen = chunk.len() - rest.len();
            match self.state {
                JsonScanState::Text => {
                    let Some(found_at) = memchr2(b'"', b'\\', rest) else { return (chunk.len(), None) };
                    let (_, mark) = rest.split_at(found_at);
                    let [mark, tail @ ..] = mark else { return (chunk.len(), None) };
                    rest = tail;
                    self.state =
                        if *mark == b'"' { JsonScanState::AfterText } else { JsonScanState::Escaped };
                    if self.state == JsonScanState::AfterText && self.open.is_empty() {
                        return (chunk.len() - rest.len(), Some(Ok(())));
                    }
                    continue;
                }
                JsonScanState::Escaped => self.state = JsonScanState::Text,
                JsonScanState::Start | JsonScanState::Bare | JsonScanState::AfterText => {
                    match self.step(*byte) {
                        JsonByteRole::Inside => {}
                        JsonByteRole::Last => return (seen + 1, Some(Ok(()))),
                        JsonByteRole::After => return (seen, Some(Ok(()))),
                        JsonByteRole::Invalid(expected) => return (seen, Some(Err(expected))),
                    }
                }
            }
            rest = tail;
        }
        // the end of the document ends only a scalar value
        let at_end = chunk.is_empty() && self.state == JsonScanState::Bare && self.open.is_empty();
        (chunk.len(), at_end.then_some(Ok(())))
    }

    /// Scans a byte outside of strings.
    fn step(&mut self, byte: u8) -> JsonByteRole {
        if self.state == JsonScanState::AfterText
            && !is_white_space(byte)
            && !matches!(byte, b',' | b':' | b']' | b'}')
        {
            return JsonByteRole::Invalid("`,`, `:`, `]` or `}` after a string");
        }
        match byte {
            b'"' if self.state == JsonScanState::Start || !self.open.is_empty() => {
                self.state = JsonScanState::Text;
                return JsonByteRole::Inside;
            }
            b'[' => self.open.push(b']'),
            b'{' => self.open.push(b'}'),
            b']' | b'}' => match self.open.pop() {
                Some(close) if close == byte && self.open.is_empty() => return JsonByteRole::Last,
                Some(close) if close == byte => {}
                Some(b']') => return JsonByteRole::Invalid("`]`, which closes the open list"),
                Some(_) => return JsonByteRole::Invalid("`}`, which closes the open object"),
                None => return JsonByteRole::After,
            },
            b',' if self.open.is_empty() => return JsonByteRole::After,
            _ if is_white_space(byte) => {
                return if self.open.is_empty() { JsonByteRole::After } else { JsonByteRole::Inside };
            }
            _ => {}
        }
        self.state = JsonScanState::Bare;
        JsonByteRole::Inside
    }
}

/// The role of a byte outside of strings.
enum JsonByteRole {
    /// The byte is part of the value.
    Inside,
    /// The byte is the last one of the value.
    Last,
    /// The byte comes after the value.
    After,
    /// The byte is not allowed here.
    Invalid(&'static str),
}
