//! The content of a record in bytes: typed values that filters compare without decoding them.
//!
//! A row consists of the length of the content's JSON, the length of its values, the values, and the definitions. A
//! value or a definition is a cell. A cell starts with the index of its axis in the ontology, times two, plus one for a
//! group. The group's key, if any, and the value follow. Values are bytes that sort like the values: sort keys of
//! numbers and dates, and texts unchanged.

use super::axis::{Axis, AxisType};
use super::ontology::Ontology;
use super::record::RecordContent;
use super::value::{AxisValue, TypedValue};
use domain_base::decimal::MAGNITUDE_MAX;
use domain_base::varint::{put, put_part, take, take_part};
use serde::ser::{Error as _, SerializeMap as _, SerializeStruct as _};
use serde::{Serialize, Serializer};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The length of a date without a time of day, in bytes.
const DAY_BYTES: usize = 10;

/// A row in bytes.
#[derive(Debug, Clone, Copy)]
pub struct ContentRow<'b> {
    json_bytes: usize,
    values: &'b [u8],
    definitions: &'b [u8],
}

/// A value or a definition of a row.
#[derive(Debug, Clone, Copy)]
pub(super) struct ContentCell<'b> {
    /// The index of its axis in the ontology.
    pub(super) axis_index: usize,
    /// The key, if the axis is a group.
    pub(super) key: Option<&'b [u8]>,
    /// The bytes of a value, or a definition.
    pub(super) bytes: &'b [u8],
}

/// Consecutive cells. The iterator ends at the first cell that cannot be read.
struct ContentCellIterator<'b>(&'b [u8]);

impl RecordContent {
    /// The row of the content. `json_bytes` is the length of its JSON. `None` if a path or a value does not belong to
    /// the ontology.
    #[must_use]
    pub fn to_row(&self, json_bytes: usize, ontology: &Ontology) -> Option<Vec<u8>> {
        let mut values = Vec::with_capacity(json_bytes);
        for (path, value) in &self.axes {
            let (axis_index, axis) = ontology.place(path)?;
            put_value(&mut values, axis_index, axis.key_in(path), &value.typed(axis).ok()?);
        }
        self.row_of(json_bytes, &values, ontology)
    }

    /// The row of the content, where `values` are the cells of its values.
    pub(super) fn row_of(&self, json_bytes: usize, values: &[u8], ontology: &Ontology) -> Option<Vec<u8>> {
        let mut row = Vec::with_capacity(values.len() + 8);
        put(&mut row, json_bytes as u64);
        put_part(&mut row, values);
        for (path, definition) in &self.definitions {
            let (axis_index, axis) = ontology.place(path)?;
            put_cell(&mut row, axis_index, axis.key_in(path), definition.as_bytes());
        }
        Some(row)
    }
}

/// Appends the cell of a value.
pub(super) fn put_value(bytes: &mut Vec<u8>, axis_index: usize, key: Option<&str>, value: &TypedValue) {
    put_cell(bytes, axis_index, key, &value.row_bytes());
}

fn put_cell(bytes: &mut Vec<u8>, axis_index: usize, key: Option<&str>, part: &[u8]) {
    put(bytes, 2 * axis_index as u64 + u64::from(key.is_some()));
    if let Some(key) = key {
        put_part(bytes, key.as_bytes());
    }
    put_part(bytes, part);
}

impl TypedValue {
    /// Bytes that sort like the values of one axis.
    pub(super) fn row_bytes(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Bool(value) => vec![u8::from(*value)].into(),
            Self::Number(number) => number.sort_key().into(),
            Self::Date(date) => date.key().as_bytes().into(),
            Self::Text(text) => text.as_bytes().into(),
        }
    }
}

impl<'b> ContentRow<'b> {
    /// Reads the row in `bytes`; `None` if they are not a row.
    #[must_use]
    pub fn read(mut bytes: &'b [u8]) -> Option<Self> {
        let json_bytes = usize::try_from(take(&mut bytes)?).ok()?;
        Some(Self { json_bytes, values: take_part(&mut bytes)?, definitions: bytes })
    }

    /// The length of the content's JSON.
    #[must_use]
    pub const fn json_bytes(&self) -> usize {
        self.json_bytes
    }

    /// The cells of its values, in the order of their paths.
    pub(super) fn values(&self) -> impl Iterator<Item = ContentCell<'b>> {
        ContentCellIterator(self.values)
    }

    /// The content; `None` if the row cannot be read with this ontology.
    #[must_use]
    pub fn content(&self, ontology: &Ontology) -> Option<RecordContent> {
        let axes = decoded(self.values, ontology, |bytes, axis| value_of(bytes, axis.kind))?;
        let definitions =
            decoded(self.definitions, ontology, |bytes, _| Some(str::from_utf8(bytes).ok()?.to_owned()))?;
        Some(RecordContent { axes, definitions })
    }
}

/// The content of a row, which serializes as its [`RecordContent`] does, without decoding it first.
#[derive(Debug, Clone, Copy)]
pub struct RowContent<'b> {
    /// The row.
    pub row: ContentRow<'b>,
    /// The ontology of the row.
    pub ontology: &'b Ontology,
}

/// The cells of a row, as an object with the paths as names.
struct CellMap<'b> {
    cells: &'b [u8],
    ontology: &'b Ontology,
    read: fn(&[u8], AxisType) -> Option<AxisValue>,
}

impl Serialize for RowContent<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { row: ContentRow { values, definitions, .. }, ontology } = *self;
        let text = |bytes: &[u8], _| Some(AxisValue::Text(str::from_utf8(bytes).ok()?.to_owned()));
        let mut content = serializer.serialize_struct("RecordContent", 2)?;
        content.serialize_field("axes", &CellMap { cells: values, ontology, read: value_of })?;
        if !definitions.is_empty() {
            content.serialize_field("definitions", &CellMap { cells: definitions, ontology, read: text })?;
        }
        content.end()
    }
}

impl Serialize for CellMap<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let unreadable = || S::Error::custom("a cell of the row cannot be read");
        let mut members = serializer.serialize_map(None)?;
        let mut cells = ContentCellIterator(self.cells);
        for ContentCell { axis_index, key, bytes } in cells.by_ref() {
            let axis = self.ontology.axes.get(axis_index).ok_or_else(unreadable)?;
            let value = (self.read)(bytes, axis.kind).ok_or_else(unreadable)?;
            match key.map(|key| str::from_utf8(key).map(|key| axis.at_key(key))) {
                Some(path) => members.serialize_entry(&path.map_err(|_| unreadable())?, &value)?,
                None => members.serialize_entry(&axis.axis, &value)?,
            }
        }
        if cells.0.is_empty() { members.end() } else { Err(unreadable()) }
    }
}

fn decoded<T>(
    cells: &[u8],
    ontology: &Ontology,
    read: impl Fn(&[u8], &Axis) -> Option<T>,
) -> Option<BTreeMap<String, T>> {
    let mut cells = ContentCellIterator(cells);
    let mut decoded = Vec::new();
    for ContentCell { axis_index, key, bytes } in cells.by_ref() {
        let axis = ontology.axes.get(axis_index)?;
        let path = match key {
            Some(key) => axis.at_key(str::from_utf8(key).ok()?),
            None => axis.axis.clone(),
        };
        decoded.push((path, read(bytes, axis)?));
    }
    cells.0.is_empty().then(|| decoded.into_iter().collect())
}

impl<'b> Iterator for ContentCellIterator<'b> {
    type Item = ContentCell<'b>;

    fn next(&mut self) -> Option<ContentCell<'b>> {
        let mut rest = self.0;
        let head = take(&mut rest)?;
        let key = if head & 1 == 1 { Some(take_part(&mut rest)?) } else { None };
        let cell =
            ContentCell { axis_index: usize::try_from(head >> 1).ok()?, key, bytes: take_part(&mut rest)? };
        self.0 = rest;
        Some(cell)
    }
}

fn value_of(bytes: &[u8], kind: AxisType) -> Option<AxisValue> {
    Some(match kind {
        AxisType::Boolean => AxisValue::Bool(*bytes.first()? != 0),
        AxisType::Number | AxisType::Integer => AxisValue::Text(number_of(bytes)?),
        AxisType::Date => {
            let mut text = str::from_utf8(bytes).ok()?.to_owned();
            if text.len() > DAY_BYTES {
                text.push('Z');
            }
            AxisValue::Text(text)
        }
        AxisType::String | AxisType::Enum | AxisType::Month | AxisType::Quarter | AxisType::Year => {
            AxisValue::Text(str::from_utf8(bytes).ok()?.to_owned())
        }
    })
}

/// The canonical text of the number with this sort key (`Decimal::sort_key`).
pub(super) fn number_of(key: &[u8]) -> Option<String> {
    let (first, amount) = key.split_first()?;
    let (mask, mut text) = match first {
        1 => (u8::MAX, "-".to_owned()),
        2 => return Some("0".to_owned()),
        _ => (0, String::new()),
    };
    let (magnitude, pairs) = amount.split_first()?;
    let whole = i64::from(magnitude ^ mask) - MAGNITUDE_MAX + 1;
    let (_end, pairs) = pairs.split_last()?;
    let mut digits = String::with_capacity(2 * pairs.len());
    for pair in pairs {
        let pair = (pair ^ mask).checked_sub(1)?;
        digits.extend([pair / 10, pair % 10].map(|digit| char::from(b'0' + digit)));
    }
    let digits = digits.trim_end_matches('0');
    let written = match usize::try_from(whole) {
        Ok(whole) if whole > 0 => match digits.split_at_checked(whole) {
            Some((whole, fraction)) if !fraction.is_empty() => write!(text, "{whole}.{fraction}"),
            _ => write!(text, "{digits:0<whole$}"),
        },
        _ => {
            let places = digits.len() + usize::try_from(-whole).ok()?;
            write!(text, "0.{digits:0>places$}")
        }
    };
    written.is_ok().then_some(text)
}

#[cfg(test)]
mod tests;
