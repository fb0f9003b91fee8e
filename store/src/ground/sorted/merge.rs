//! Several sources of rows in key order as one.

use super::Row;
use crate::base::error::StoreError;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// A row with where it came from. They are in the order of their keys, and of equal keys in that of the sources.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MergedRow {
    /// Its key, which others may have, too.
    pub key: Vec<u8>,
    /// The number of its source, from 0.
    pub source: usize,
    /// Its value.
    pub value: Vec<u8>,
}

/// The rows of several sources in key order; of equal keys those of the first source come first. It holds one row of
/// each, and ends with the first error.
#[derive(Debug)]
pub struct Merge<I> {
    sources: Vec<I>,
    heads: BinaryHeap<Reverse<MergedRow>>,
}

impl<I: Iterator<Item = Result<Row, StoreError>>> Merge<I> {
    /// Merges `sources`, each of which is in key order.
    ///
    /// # Errors
    /// Where the first row of one of them cannot be read.
    pub fn new(mut sources: Vec<I>) -> Result<Self, StoreError> {
        let mut heads = BinaryHeap::with_capacity(sources.len());
        for (source, rows) in sources.iter_mut().enumerate() {
            if let Some((key, value)) = rows.next().transpose()? {
                heads.push(Reverse(MergedRow { key, source, value }));
            }
        }
        Ok(Self { sources, heads })
    }
}

impl<I: Iterator<Item = Result<Row, StoreError>>> Iterator for Merge<I> {
    type Item = Result<MergedRow, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut head = self.heads.peek_mut()?;
        let source = head.0.source;
        match self.sources.get_mut(source).and_then(Iterator::next) {
            Some(Ok((key, value))) => {
                Some(Ok(std::mem::replace(&mut head.0, MergedRow { key, source, value })))
            }
            None => Some(Ok(PeekMut::pop(head).0)),
            Some(Err(error)) => {
                drop(head);
                self.heads.clear();
                Some(Err(error))
            }
        }
    }
}
