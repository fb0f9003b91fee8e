//! The values and definitions that the candidates and claims of a review have.

use super::{ReviewCase, ReviewResolution, ReviewResolutionError};
use crate::base::wording::excerpt;
use crate::ground::axis::Axis;
use crate::ground::value::{AxisValue, TypedValue};
use crate::verification::candidate::StatedValue;
use crate::verification::reason::AxisReason;
use std::collections::{BTreeMap, BTreeSet};

/// The maximum length of a definition in a resolution, in bytes.
pub const DEFINITION_MAX_BYTES: usize = 1024;
/// The maximum number of values or definitions that an error lists.
const NAMED_MAX: usize = 8;

impl ReviewCase {
    /// The definitions of the candidates' values on an axis; "" is the axis's own.
    #[must_use]
    pub fn definitions_of(&self, path: &str) -> BTreeSet<&str> {
        let stated_values = self.candidates.values().filter_map(|candidate| candidate.values.get(path));
        stated_values.map(|stated| stated.definition.as_deref().unwrap_or_default()).collect()
    }

    /// Whether a resolution must name the definition of its value on an axis, because the candidates have
    /// different ones.
    #[must_use]
    pub fn is_definition_required(&self, path: &str) -> bool {
        let is_mismatch = |reasons: &BTreeSet<AxisReason>| reasons.contains(&AxisReason::DefinitionMismatch);
        self.axes.get(path).is_some_and(is_mismatch) || self.definitions_of(path).len() > 1
    }

    /// The definition of the candidates whose value on an axis is written `value`; `None` unless it is the
    /// same for all of them.
    #[must_use]
    pub fn only_definition_of(&self, path: &str, value: &str) -> Option<&str> {
        let stated_values = self.candidates.values().filter_map(|candidate| candidate.values.get(path));
        let matching = stated_values.filter(|stated| stated.value.to_string() == value);
        let mut definitions: BTreeSet<_> =
            matching.map(|stated| stated.definition.as_deref().unwrap_or_default()).collect();
        definitions.pop_first().filter(|_| definitions.is_empty())
    }

    /// The definition of the value of `resolution` on an axis; `None` for the axis's own. By default it is the common
    /// definition of the candidates.
    pub(super) fn definition_by(
        &self,
        resolution: &ReviewResolution,
        path: &str,
    ) -> Result<Option<String>, ReviewResolutionError> {
        let definitions = self.definitions_of(path);
        let definition = match resolution.definitions.get(path) {
            Some(given) if given.len() > DEFINITION_MAX_BYTES => {
                return Err(ReviewResolutionError::LongDefinition {
                    axis: path.to_owned(),
                    bytes: given.len(),
                });
            }
            Some(given) => given.trim(),
            None if self.is_definition_required(path) => {
                let definitions = definitions.into_iter().map(format_definition);
                return Err(ReviewResolutionError::NoDefinition {
                    axis: path.to_owned(),
                    definitions: join_first(definitions),
                });
            }
            None => definitions.first().copied().unwrap_or_default(),
        };
        Ok(Some(definition.to_owned()).filter(|definition| !definition.is_empty()))
    }

    /// Rejects a value that no candidate has with this definition, and no claim has.
    pub(super) fn check_value_offered(
        &self,
        path: &str,
        axis: &Axis,
        value: &TypedValue,
        definition: Option<&str>,
    ) -> Result<(), ReviewResolutionError> {
        let is_value = |offered: &AxisValue| offered.typed(axis).is_ok_and(|offered| offered == *value);
        let stated = || self.candidates.values().filter_map(|candidate| candidate.values.get(path));
        let claim = self.claimed.get(path).map(|claim| &claim.value);
        let is_offered =
            |stated: &StatedValue| stated.definition.as_deref() == definition && is_value(&stated.value);
        // a claim names no definition: it has the axis's own
        if stated().any(is_offered) || (definition.is_none() && claim.is_some_and(is_value)) {
            return Ok(());
        }
        let offered: BTreeSet<_> = stated()
            .map(|stated| format_value(&stated.value, stated.definition.as_deref()))
            .chain(claim.map(|claim| format_value(claim, None)))
            .collect();
        let offered = if offered.is_empty() { "nothing".into() } else { join_first(offered.into_iter()) };
        let value = format_value(&value.to_value(), definition);
        Err(ReviewResolutionError::ValueNotOffered { axis: path.to_owned(), value, offered })
    }

    /// Rejects definitions of axes that the review does not have.
    pub(super) fn check_definitions(
        &self,
        definitions: &BTreeMap<String, String>,
    ) -> Result<(), ReviewResolutionError> {
        let other = definitions.keys().find(|path| !self.axes.contains_key(*path));
        other.map_or(Ok(()), |path| Err(ReviewResolutionError::OtherDefinition { axis: path.clone() }))
    }
}

/// A value with its definition, for an error.
fn format_value(value: &AxisValue, definition: Option<&str>) -> String {
    let value_text = excerpt(&value.to_string());
    definition.map_or_else(|| value_text.clone(), |definition| format!("{value_text} ({definition})"))
}

/// A definition for an error; `""` is the axis's own.
fn format_definition(definition: &str) -> String {
    if definition.is_empty() { "`\"\"` (the axis's own)".into() } else { format!("`{definition}`") }
}

/// The first [`NAMED_MAX`] items, joined by commas.
fn join_first(items: impl Iterator<Item = String>) -> String {
    items.take(NAMED_MAX).collect::<Vec<_>>().join(", ")
}
