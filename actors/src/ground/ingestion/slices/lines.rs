//! Newline-delimited JSON: one object a line.

use super::input::{Input, is_white};
use super::{Piece, SliceError};
use oracled_domain::base::raw::Raw;
use std::io::Read;

/// The remaining lines.
#[derive(Debug)]
pub(super) struct Lines<R> {
    input: Input<R>,
}

impl<R: Read> Lines<R> {
    pub(super) fn open(input: Input<R>) -> Self {
        Self { input }
    }

    /// The next line that is not blank.
    pub(super) fn next(&mut self) -> Result<Option<Piece>, SliceError> {
        self.input.pass_white()?;
        if self.input.peek()?.is_none() {
            return Ok(None);
        }
        let offset = self.input.offset();
        let mut bytes = Vec::new();
        self.input.line(&mut bytes, offset)?;
        let behind = bytes.iter().rev().take_while(|byte| is_white(**byte)).count();
        bytes.truncate(bytes.len() - behind);
        Ok(Some(Piece { offset, record: Raw::parse_object(&bytes), bytes }))
    }
}
