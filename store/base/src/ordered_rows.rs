//! Rows in key order: a key and its value, read one by one and merged.

use crate::error::StoreError;

/// A key and its value.
pub type SortedRow = (Vec<u8>, Vec<u8>);
/// A key and its value, borrowed until the next row is read.
pub type BorrowedRow<'r> = (&'r [u8], &'r [u8]);
/// The longest row, in bytes: key and value together.
pub const MAX_ROW_BYTES: usize = 4 << 20;

/// Checks the length of a row.
///
/// # Errors
/// `TooLarge`.
pub const fn check_row(key: &[u8], value: &[u8]) -> Result<(), StoreError> {
    check_size("a row", key.len() + value.len(), MAX_ROW_BYTES)
}

/// # Errors
/// `TooLarge` if `what` is larger than `max`, in bytes.
pub const fn check_size(what: &'static str, size: usize, max: usize) -> Result<(), StoreError> {
    if size > max {
        return Err(StoreError::TooLarge { what, size_bytes: size as u64, max_bytes: max as u64 });
    }
    Ok(())
}

/// Rows in key order, read one by one.
pub trait RowSource {
    /// Moves to the next row.
    ///
    /// # Errors
    /// The row cannot be read. There are no rows after an error.
    fn advance(&mut self) -> Result<(), StoreError>;

    /// The current row; `None` before the first row and after the last one.
    fn current(&self) -> Option<BorrowedRow<'_>>;
}

/// The rows of several sources in key order. For equal keys, rows of earlier sources come first.
#[derive(Debug)]
pub struct RowMerge<S> {
    sources: Vec<S>,
    has_begun: bool,
    /// The source of the current row.
    source: Option<usize>,
}

impl<S: RowSource> RowMerge<S> {
    /// Merges `sources`, of which none has been advanced yet.
    #[must_use]
    pub const fn new(sources: Vec<S>) -> Self {
        Self { sources, has_begun: false, source: None }
    }
}

impl<S: RowSource> RowSource for RowMerge<S> {
    fn advance(&mut self) -> Result<(), StoreError> {
        if !self.has_begun {
            self.has_begun = true;
            self.sources.iter_mut().try_for_each(S::advance)?;
        } else if let Some(current) = self.source.take().and_then(|source| self.sources.get_mut(source)) {
            current.advance()?;
        }
        let keys = self.sources.iter().enumerate();
        let keys = keys.filter_map(|(source, rows)| rows.current().map(|(key, _)| (key, source)));
        self.source = keys.min().map(|(_, source)| source);
        Ok(())
    }

    fn current(&self) -> Option<BorrowedRow<'_>> {
        self.sources.get(self.source?)?.current()
    }
}

impl<S: RowSource + ?Sized> RowSource for Box<S> {
    fn advance(&mut self) -> Result<(), StoreError> {
        (**self).advance()
    }

    fn current(&self) -> Option<BorrowedRow<'_>> {
        (**self).current()
    }
}

/// The distinct keys of a merge.
#[derive(Debug)]
pub struct MergedKeys<S> {
    rows: RowMerge<S>,
    key: Vec<u8>,
    has_begun: bool,
}

impl<S: RowSource> MergedKeys<S> {
    /// The distinct keys of `sources`, of which none has been advanced yet.
    #[must_use]
    pub const fn new(sources: Vec<S>) -> Self {
        Self { rows: RowMerge::new(sources), key: Vec::new(), has_begun: false }
    }

    /// The next key; `None` after the last one.
    ///
    /// # Errors
    /// A row cannot be read.
    pub fn advance(&mut self) -> Result<Option<&[u8]>, StoreError> {
        loop {
            self.rows.advance()?;
            let Some((key, _)) = self.rows.current() else { return Ok(None) };
            if !self.has_begun || key != self.key {
                self.has_begun = true;
                key.clone_into(&mut self.key);
                return Ok(Some(&self.key));
            }
        }
    }
}
