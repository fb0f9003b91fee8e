//! Normalized records: their content, their identity, and their digests.

use super::ontology::Ontology;
use super::value::{TypedValue, append_text_key};
// utoipa maps every type with the name `AxisValue` to arbitrary JSON
use super::value::AxisValue;
use domain_base::digest::Sha256Hex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
        let of_axis = |axis: &crate::axis::Axis| self.axes.get(&axis.axis)?.typed(axis).ok();
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn source_record_ids_of_different_parts_differ() {
        let parts: [&[&str]; 7] =
            [&["a", "b"], &["a/b"], &["a%2Fb"], &["a", "", "b"], &["", "a", "b"], &["a", "b", ""], &["a\nb"]];
        let ids: BTreeSet<_> = parts.iter().map(|parts| source_record_id(parts.iter().copied())).collect();
        assert_eq!(ids.len(), parts.len(), "{ids:?}");
        assert_eq!(source_record_id(["ABW", "1960"]), "ABW/1960");
    }
}
