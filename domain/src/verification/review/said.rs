//! What was said of an axis of a review, and by which definition it is decided.

use super::{BadResolution, Resolution, Review};
use crate::base::wording::excerpt;
use crate::ground::axis::Axis;
use crate::ground::value::{Typed, Value};
use crate::verification::candidate::Stated;
use crate::verification::reason::Reason;
use std::collections::{BTreeMap, BTreeSet};

/// The longest definition of a resolution, in bytes.
pub const DEFINITION_MAX_BYTES: usize = 1024;
/// So many of the definitions, or values, that were said are named to whoever decides otherwise.
const NAMED_MAX: usize = 8;

impl Review {
    /// By which definitions the candidates mean what they say of an axis; "" is the axis's own.
    #[must_use]
    pub fn definitions_of(&self, path: &str) -> BTreeSet<&str> {
        let said = self.candidates.values().filter_map(|candidate| candidate.values.get(path));
        said.map(|stated| stated.definition.as_deref().unwrap_or_default()).collect()
    }

    /// Whether a resolution has to say by which definition it decides an axis: its candidates do not all mean the same.
    #[must_use]
    pub fn asks_for_definition(&self, path: &str) -> bool {
        let is_mismatch = |reasons: &BTreeSet<Reason>| reasons.contains(&Reason::DefinitionMismatch);
        self.axes.get(path).is_some_and(is_mismatch) || self.definitions_of(path).len() > 1
    }

    /// The only definition by which a candidate says the value that is written `value` of an axis, where there is one.
    #[must_use]
    pub fn only_definition_of(&self, path: &str, value: &str) -> Option<&str> {
        let said = self.candidates.values().filter_map(|candidate| candidate.values.get(path));
        let saying = said.filter(|stated| stated.value.to_string() == value);
        let mut definitions: BTreeSet<_> =
            saying.map(|stated| stated.definition.as_deref().unwrap_or_default()).collect();
        definitions.pop_first().filter(|_| definitions.is_empty())
    }

    /// The definition by which `resolution` decides an axis; nothing for the axis's own. Where it does not say, it is that of
    /// all candidates.
    pub(super) fn definition_by(
        &self,
        resolution: &Resolution,
        path: &str,
    ) -> Result<Option<String>, BadResolution> {
        let said = self.definitions_of(path);
        let definition = match resolution.definitions.get(path) {
            Some(given) if given.len() > DEFINITION_MAX_BYTES => {
                return Err(BadResolution::LongDefinition { axis: path.to_owned(), bytes: given.len() });
            }
            Some(given) => given.trim(),
            None if self.asks_for_definition(path) => {
                let said = said.into_iter().map(quoted);
                return Err(BadResolution::NoDefinition { axis: path.to_owned(), said: some(said) });
            }
            None => said.first().copied().unwrap_or_default(),
        };
        Ok(Some(definition.to_owned()).filter(|definition| !definition.is_empty()))
    }

    /// Refuses a value that neither a candidate says by this definition, nor a claim.
    pub(super) fn check_said(
        &self,
        path: &str,
        axis: &Axis,
        value: &Typed,
        definition: Option<&str>,
    ) -> Result<(), BadResolution> {
        let is_it = |said: &Value| said.typed(axis).is_ok_and(|said| said == *value);
        let stated = || self.candidates.values().filter_map(|candidate| candidate.values.get(path));
        let claim = self.claimed.get(path).map(|claim| &claim.value);
        let is_said = |stated: &Stated| stated.definition.as_deref() == definition && is_it(&stated.value);
        // nobody says by which definition they claim: by the axis's own
        if stated().any(is_said) || (definition.is_none() && claim.is_some_and(is_it)) {
            return Ok(());
        }
        let said: BTreeSet<_> = stated()
            .map(|stated| meant(&stated.value, stated.definition.as_deref()))
            .chain(claim.map(|claim| meant(claim, None)))
            .collect();
        let said = if said.is_empty() { "nothing".into() } else { some(said.into_iter()) };
        let value = meant(&value.to_value(), definition);
        Err(BadResolution::NobodySays { axis: path.to_owned(), value, said })
    }

    /// Refuses definitions of axes that are not decided.
    pub(super) fn check_definitions(
        &self,
        definitions: &BTreeMap<String, String>,
    ) -> Result<(), BadResolution> {
        let other = definitions.keys().find(|path| !self.axes.contains_key(*path));
        other.map_or(Ok(()), |path| Err(BadResolution::OtherDefinition { axis: path.clone() }))
    }
}

/// A value as it is told, with its definition.
fn meant(value: &Value, definition: Option<&str>) -> String {
    let told = excerpt(&value.to_string());
    definition.map_or_else(|| told.clone(), |definition| format!("{told} ({definition})"))
}

/// A definition as it is told; `""` means something, too.
fn quoted(definition: &str) -> String {
    if definition.is_empty() { "`\"\"` (the axis's own)".into() } else { format!("`{definition}`") }
}

/// As many of these as are named, one behind the other.
fn some(said: impl Iterator<Item = String>) -> String {
    said.take(NAMED_MAX).collect::<Vec<_>>().join(", ")
}
