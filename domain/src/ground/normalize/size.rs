//! Limits for the size of a record. A record that exceeds a limit is rejected; the run continues.

use super::ValuesByPath;
use crate::ground::ontology::Ontology;
use crate::ground::rejection::{RecordRejection, RecordRule};
use std::collections::BTreeMap;

/// The maximum length of a text that is part of a key or an index, in bytes.
const KEY_MAX_BYTES: usize = 2048;
/// The maximum size of all paths, values and definitions of a record, in bytes; its JSON is at most six times as large.
const CONTENT_MAX_BYTES: usize = 512 * 1024;

/// Checks the size of the values and their definitions, and of the values that become parts of keys.
pub(super) fn check_values(
    values: &ValuesByPath<'_>,
    definitions: &BTreeMap<String, String>,
    ontology: &Ontology,
) -> Result<(), RecordRejection> {
    let mut size_bytes: usize =
        definitions.iter().map(|(path, definition)| path.len() + definition.len()).sum();
    let mut identity_bytes = 0;
    for (path, (mapping, value)) in values {
        let text = value.text();
        size_bytes += path.len() + text.len();
        let Some(axis) = ontology.axes.get(mapping.axis).filter(|axis| axis.identity || axis.indexed) else {
            continue;
        };
        identity_bytes += if axis.identity { text.len() } else { 0 };
        if text.len().max(identity_bytes) > KEY_MAX_BYTES {
            let reason = format!("its value, a lookup key, has more than {KEY_MAX_BYTES} bytes");
            return Err(RecordRejection::new(RecordRule::AxisType, Some(path), reason));
        }
    }
    if size_bytes <= CONTENT_MAX_BYTES {
        return Ok(());
    }
    let reason = format!("the record has {size_bytes} bytes (at most {CONTENT_MAX_BYTES} allowed)");
    Err(RecordRejection::new(RecordRule::Mapping, None, reason))
}

/// Checks the size of the id, which is part of keys.
pub(super) fn check_id(id: &str) -> Result<(), RecordRejection> {
    if id.len() <= KEY_MAX_BYTES {
        return Ok(());
    }
    let reason = format!("its id has {} bytes (at most {KEY_MAX_BYTES} allowed)", id.len());
    Err(RecordRejection::new(RecordRule::Mapping, None, reason))
}
