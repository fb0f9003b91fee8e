//! Newline-delimited JSON: one object a line.

use super::input::{PayloadInput, is_white_space};
use super::{PayloadSliceError, UnnumberedSlice};
use domain_base::raw::SourceValue;
use std::io::Read;

/// The remaining lines.
#[derive(Debug)]
pub(super) struct JsonLinesReader<R> {
    input: PayloadInput<R>,
}

impl<R: Read> JsonLinesReader<R> {
    pub(super) fn open(input: PayloadInput<R>) -> Self {
        Self { input }
    }

    /// The next line that is not blank.
    pub(super) fn next(&mut self) -> Result<Option<UnnumberedSlice>, PayloadSliceError> {
        self.input.skip_white_space()?;
        if self.input.peek()?.is_none() {
            return Ok(None);
        }
        let offset = self.input.offset();
        let mut bytes = Vec::new();
        self.input.line(&mut bytes, offset)?;
        let trailing = bytes.iter().rev().take_while(|byte| is_white_space(**byte)).count();
        bytes.truncate(bytes.len() - trailing);
        Ok(Some(UnnumberedSlice { offset, record: SourceValue::parse_object(&bytes), bytes: bytes.into() }))
    }
}
