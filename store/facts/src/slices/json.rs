//! The objects of a list within one JSON document.
//!
//! Values outside the list must be strict JSON, and are skipped. In a record, only brackets and strings are checked
//! to find its end, so that other faults affect only that record. This is our own scanner, since readers of whole
//! documents stop at the first invalid byte, even if only one record is invalid.

use super::{PayloadSliceError, UnnumberedSlice};
use crate::slices::{PayloadInput, is_white_space};
use domain_base::raw::{MAX_DEPTH, SourceValue};
use domain_base::text_form::into_nfc;
use domain_ground::format::RecordsPath;
use memchr::memchr2;
use std::io::Read;

/// The remaining records, and the rest of the document.
#[derive(Debug)]
pub(super) struct JsonListReader<R> {
    input: PayloadInput<R>,
    /// The lists and objects around the records, from the outside in, each with the path step taken in it.
    enclosing: Vec<(JsonContainer, String)>,
    /// Whether no record has been read yet.
    first: bool,
}

/// A kind of container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JsonContainer {
    List,
    Object,
}

impl JsonContainer {
    const fn close(self) -> u8 {
        match self {
            Self::List => b']',
            Self::Object => b'}',
        }
    }

    const fn expected_separator(self, first: bool) -> &'static str {
        match (self, first) {
            (Self::List, true) => "a value, or `]`",
            (Self::List, false) => "`,` or `]`",
            (Self::Object, true) => "a name, or `}`",
            (Self::Object, false) => "`,` or `}`",
        }
    }
}

impl<R: Read> JsonListReader<R> {
    /// Reads up to the first record.
    pub(super) fn open(input: PayloadInput<R>, path: &RecordsPath) -> Result<Self, PayloadSliceError> {
        let mut json = Self { input, enclosing: Vec::new(), first: true };
        for step in path.steps() {
            json.descend(step, path)?;
        }
        match json.enter()? {
            Some(JsonContainer::List) => Ok(json),
            _ => Err(json.no_list(path, "another value")),
        }
    }

    /// The next record. If there is none, the rest of the document has been read.
    pub(super) fn next(&mut self) -> Result<Option<UnnumberedSlice>, PayloadSliceError> {
        if !self.more(JsonContainer::List, self.first)? {
            self.skip_rest()?;
            return Ok(None);
        }
        self.first = false;
        let (offset, bytes) = self.extent()?;
        Ok(Some(UnnumberedSlice { offset, record: SourceValue::parse_object(&bytes), bytes: bytes.into() }))
    }

    /// Reads up to the value that `step` names in the next value.
    fn descend(&mut self, step: &str, path: &RecordsPath) -> Result<(), PayloadSliceError> {
        let Some(group) = self.enter()? else {
            return Err(self.no_list(path, "a scalar value"));
        };
        let mut index = 0_u64;
        while self.more(group, index == 0)? {
            let here = match group {
                JsonContainer::Object => self.name()? == step,
                JsonContainer::List => index.to_string() == step,
            };
            if here {
                self.enclosing.push((group, step.to_owned()));
                return Ok(());
            }
            self.skip_value(self.enclosing.len() + 1)?;
            index += 1;
        }
        Err(self.no_list(path, "the end of the list or object around it"))
    }

    /// Reads the rest of the document after the list.
    fn skip_rest(&mut self) -> Result<(), PayloadSliceError> {
        while let Some((group, step)) = self.enclosing.pop() {
            while self.more(group, false)? {
                if group == JsonContainer::Object && self.name()? == step {
                    return Err(PayloadSliceError::RepeatedName { offset: self.input.offset() });
                }
                self.skip_value(self.enclosing.len() + 1)?;
            }
        }
        self.input.skip_white_space()?;
        match self.input.peek()? {
            None => Ok(()),
            Some(_) => Err(self.broken("the end of the document")),
        }
    }

    /// Skips a value that is nested in `depth` lists and objects.
    fn skip_value(&mut self, depth: usize) -> Result<(), PayloadSliceError> {
        let Some(group) = self.enter()? else {
            self.scalar()?;
            return Ok(());
        };
        if depth >= MAX_DEPTH {
            return Err(self.broken("no further level of lists and objects"));
        }
        let mut first = true;
        while self.more(group, first)? {
            if group == JsonContainer::Object {
                self.name()?;
            }
            self.skip_value(depth + 1)?;
            first = false;
        }
        Ok(())
    }

    /// Skips the opening bracket of a list or an object, if it is next.
    fn enter(&mut self) -> Result<Option<JsonContainer>, PayloadSliceError> {
        self.input.skip_white_space()?;
        let group = match self.input.peek()? {
            Some(b'[') => JsonContainer::List,
            Some(b'{') => JsonContainer::Object,
            Some(_) => return Ok(None),
            None => return Err(self.broken("a value")),
        };
        self.input.skip_bytes(1);
        Ok(Some(group))
    }

    /// Skips the separator between two values of `group`, or its closing bracket. Returns whether another
    /// value follows.
    fn more(&mut self, group: JsonContainer, first: bool) -> Result<bool, PayloadSliceError> {
        self.input.skip_white_space()?;
        match self.input.peek()? {
            Some(byte) if byte == group.close() => {
                self.input.skip_bytes(1);
                Ok(false)
            }
            Some(b',') if !first => {
                self.input.skip_bytes(1);
                self.input.skip_white_space()?;
                Ok(true)
            }
            Some(byte) if first && byte != b',' => Ok(true),
            _ => Err(self.broken(group.expected_separator(first))),
        }
    }

    /// Reads a member's name, in Unicode NFC, and the colon after it.
    fn name(&mut self) -> Result<String, PayloadSliceError> {
        self.input.skip_white_space()?;
        if self.input.peek()? == Some(b'"')
            && let SourceValue::Text(name) = self.scalar()?
        {
            self.input.skip_white_space()?;
            if self.input.peek()? != Some(b':') {
                return Err(self.broken("`:`"));
            }
            self.input.skip_bytes(1);
            return Ok(into_nfc(name));
        }
        Err(self.broken("a name in quotes"))
    }

    /// Reads a scalar value.
    fn scalar(&mut self) -> Result<SourceValue, PayloadSliceError> {
        let (offset, bytes) = self.extent()?;
        SourceValue::parse(&bytes)
            .map_err(|_| PayloadSliceError::Json { offset, expected: "a value, or a name" })
    }

    /// Reads one value up to its end. Returns its offset and its bytes.
    fn extent(&mut self) -> Result<(u64, Vec<u8>), PayloadSliceError> {
        let offset = self.input.offset();
        let (mut extent, mut bytes) = (JsonValueScanner::default(), Vec::new());
        loop {
            let chunk = self.input.chunk()?;
            let (at_end, (count, ended)) = (chunk.is_empty(), extent.feed(chunk));
            self.input.take(count, &mut bytes, offset, 0)?;
            match ended {
                Some(Ok(())) if !bytes.is_empty() => return Ok((offset, bytes)),
                Some(Ok(())) => return Err(self.broken("a value")),
                Some(Err(expected)) => return Err(self.broken(expected)),
                None if at_end => return Err(self.broken("the rest of a value")),
                None => {}
            }
        }
    }

    fn broken(&self, expected: &'static str) -> PayloadSliceError {
        PayloadSliceError::Json { offset: self.input.offset(), expected }
    }

    fn no_list(&self, path: &RecordsPath, found: &'static str) -> PayloadSliceError {
        PayloadSliceError::NoList { path: path.as_str().to_owned(), found, offset: self.input.offset() }
    }
}

/// A partly scanned value.
#[derive(Debug, Default)]
struct JsonValueScanner {
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
    fn feed(&mut self, chunk: &[u8]) -> (usize, Option<JsonScanEnd>) {
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
