//! How large a record may become: one that has no room where records are kept is one record rejected, and no run that fails.

use super::Values;
use crate::ground::ontology::Ontology;
use crate::ground::rejection::{Rejection, Rule};
use std::collections::BTreeMap;

/// The longest text by which records are looked up or told apart, in bytes.
const KEY_MAX_BYTES: usize = 2048;
/// The most that all paths, values and definitions of a record have together, in bytes; its JSON has six times that at most.
const CONTENT_MAX_BYTES: usize = 512 * 1024;

/// Whether there is room for the values and their definitions; values by which records are looked up are in keys.
pub(super) fn check_values(
    values: &Values<'_>,
    definitions: &BTreeMap<String, String>,
    ontology: &Ontology,
) -> Result<(), Rejection> {
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
            let reason = format!("records are looked up by it: it has more than {KEY_MAX_BYTES} bytes");
            return Err(Rejection::new(Rule::AxisType, Some(path), reason));
        }
    }
    if size_bytes <= CONTENT_MAX_BYTES {
        return Ok(());
    }
    let reason = format!("the record would have {size_bytes} bytes, {CONTENT_MAX_BYTES} at most");
    Err(Rejection::new(Rule::Mapping, None, reason))
}

/// Whether there is room for the id, which is in keys.
pub(super) fn check_id(id: &str) -> Result<(), Rejection> {
    if id.len() <= KEY_MAX_BYTES {
        return Ok(());
    }
    let reason = format!("its id has {} bytes, {KEY_MAX_BYTES} at most", id.len());
    Err(Rejection::new(Rule::Mapping, None, reason))
}
