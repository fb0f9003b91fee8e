//! Normalized records: their content, their identity, their digests, and their bytes.
//!
//! A row is the content of a record in bytes: typed values that filters compare without decoding them. It consists of
//! the length of the content's JSON, the length of its values, the values, and the definitions. A value or a definition
//! is a cell. A cell starts with the index of its axis in the ontology, times two, plus one for a group. The group's
//! key, if any, and the value follow. Values are bytes that sort like the values: sort keys of numbers and dates, and
//! texts unchanged.

use super::ontology::Ontology;
use super::value::{AxisValue, TypedValue, append_text_key};
use crate::axis::{Axis, AxisType};
use crate::id::{PipelineId, SourceId};
use domain_base::decimal::MAGNITUDE_MAX;
use domain_base::digest::Sha256Hex;
use domain_base::varint::{put, put_part, take, take_part};
use jiff::Timestamp;
use serde::ser::{Error as _, SerializeMap as _, SerializeStruct as _};
use serde::{Deserialize, Serialize, Serializer};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::iter::repeat_n;

// utoipa maps every type with the name `AxisValue` to arbitrary JSON

/// The content of a record: the values of its axes, and the definitions by which they were measured, if any.
///
/// Its JSON is canonical (RFC 8785): members are sorted and there are no fractions, because numbers are texts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RecordContent {
    /// Values by the paths of their axes.
    pub axes: BTreeMap<String, AxisValue>,
    /// Definitions by the same paths.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub definitions: BTreeMap<String, String>,
}

/// The identity of the real-world entity of a record: the values of the ontology's identity axes, in the ontology's
/// order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordIdentity(Vec<TypedValue>);

impl RecordContent {
    /// The canonical JSON, which is stored and of which the digest is computed.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("plain data with string keys serializes")
    }

    /// The RFC's `normalized_hash`.
    #[must_use]
    pub fn digest(&self) -> Sha256Hex {
        Sha256Hex::of(&self.to_json())
    }

    /// The identity. `None` if a part is missing or is not a value of its axis.
    #[must_use]
    pub fn identity(&self, ontology: &Ontology) -> Option<RecordIdentity> {
        let of_axis = |axis: &Axis| self.axes.get(&axis.axis)?.typed(axis).ok();
        ontology.identity().map(of_axis).collect::<Option<Vec<_>>>().map(RecordIdentity)
    }
}

impl RecordIdentity {
    /// An identity of these values, in the ontology's order.
    #[must_use]
    pub const fn new(values: Vec<TypedValue>) -> Self {
        Self(values)
    }

    /// The values, in the ontology's order.
    #[must_use]
    pub fn values(&self) -> &[TypedValue] {
        &self.0
    }

    /// Bytes that sort like identities. The key of the first values is a prefix of the key of all values.
    #[must_use]
    pub fn key(&self) -> Vec<u8> {
        let mut key = Vec::with_capacity(32);
        self.0.iter().for_each(|value| value.append_key(&mut key));
        key
    }

    /// The key of a source record with this identity. Keys sort by identity, then by the id of the source record. An id
    /// contains no control characters; a 0 byte precedes it and two end it.
    #[must_use]
    pub fn record_key(&self, source_record_id: &str) -> Vec<u8> {
        let mut key = self.key();
        key.push(0);
        append_text_key(source_record_id, &mut key);
        key
    }
}

/// The id of a source record from its `parts`, joined by `/`. Any `/`, `%` and control characters in a part are
/// escaped.
#[must_use]
pub fn source_record_id<'p>(parts: impl IntoIterator<Item = &'p str>) -> String {
    let mut id = String::new();
    for (index, part) in parts.into_iter().enumerate() {
        if index > 0 {
            id.push('/');
        }
        for letter in part.chars() {
            if letter == '/' || letter == '%' || letter.is_control() {
                id.push_str(&format!("%{:02X}", u32::from(letter)));
            } else {
                id.push(letter);
            }
        }
    }
    id
}

/// The origin of one version of a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ProvenanceRecord {
    /// The id of the normalized record.
    pub record_id: String,
    /// The id of the source.
    pub oracle_id: SourceId,
    /// The version of the source.
    pub source_version: String,
    /// The source's own id of the record.
    pub source_record_id: String,
    /// The URL from which the payload was pulled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_url: Option<String>,
    /// The time at which the daemon ingested it.
    pub ingested_at: Timestamp,
    /// The id of the pipeline that ingested it.
    pub ingestion_pipeline_id: PipelineId,
    /// The id of the run that ingested it.
    pub ingestion_run_id: Sha256Hex,
    /// The SHA-256 of the raw record.
    pub raw_hash: Sha256Hex,
    /// The SHA-256 of the normalized record's canonical JSON; kept when that JSON is pruned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub normalized_hash: Option<Sha256Hex>,
    /// The transformations applied to the raw record.
    pub transformations_applied: Vec<String>,
    /// The time from which it is valid.
    pub valid_from: Timestamp,
    /// The time until which it is valid; null while it is valid.
    pub valid_until: Option<Timestamp>,
    /// The id of the record that superseded it.
    pub superseded_by: Option<String>,
    /// The later source version that does not confirm the statement, because it rejected this record, or a record that
    /// cannot be identified. The statement stays in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unconfirmed_by: Option<String>,
    /// How it was verified.
    pub verification_status: RecordVerificationStatus,
    /// Who verified it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified_by: Option<String>,
    /// When it was verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified_at: Option<Timestamp>,
    /// The location of the raw record.
    pub raw: RawRecordLocation,
    /// Whether its content was pruned because it was no longer valid.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pruned: bool,
}

/// The location of a raw record in its payload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RawRecordLocation {
    /// The SHA-256 of the payload.
    pub raw_sha256: Sha256Hex,
    /// The number of the record in the payload, from 0.
    pub position: u64,
    /// The offset of its first byte.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u32,
}

/// How a record was verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RecordVerificationStatus {
    /// Not verified: the pipeline recorded warnings about it.
    Unverified,
    /// Verified by the pipeline: its schema and its checks hold.
    AutoVerified,
}

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
    let sign = text.len();
    text.reserve(2 * pairs.len() + 1);
    for pair in pairs {
        let pair = (pair ^ mask).checked_sub(1)?;
        text.extend([pair / 10, pair % 10].map(|digit| char::from(b'0' + digit)));
    }
    text.truncate(text.trim_end_matches('0').len());
    let digits = text.len() - sign;
    match usize::try_from(whole) {
        Ok(whole) if whole > 0 && digits > whole => text.insert(sign + whole, '.'),
        Ok(whole) if whole > 0 => text.extend(repeat_n('0', whole - digits)),
        _ => {
            let zeros = usize::try_from(-whole).ok()?;
            text.insert_str(sign, &format!("0.{}", "0".repeat(zeros)));
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests;
