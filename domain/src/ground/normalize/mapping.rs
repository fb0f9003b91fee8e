//! Fields become axes: which value of a raw record goes where.

use super::{Mapped, Normalizer, text_of};
use crate::ground::ontology::{Axis, is_group_key};
use crate::ground::path::Path;
use crate::ground::pipeline::Transform;
use crate::ground::pipeline::tables::{Otherwise, Words};
use crate::ground::raw::Raw;
use crate::ground::rejection::{Rejection, Rule};
use crate::ground::value::Typed;
use std::collections::{BTreeMap, BTreeSet};

/// The most values of one group in one record.
const GROUP_VALUES_MAX: usize = 10_000;

/// A mapping made ready.
#[derive(Debug)]
pub(super) struct Mapping {
    pub(super) source: Path,
    /// The axis's place in the ontology.
    pub(super) axis: usize,
    pub(super) required: bool,
    pub(super) default: Option<Draft>,
    /// Where the key of each element stands; its own name where nothing is said.
    pub(super) key: Option<Path>,
    pub(super) key_words: Option<Words>,
    /// Where each value's unit stands.
    pub(super) unit: Option<Path>,
    pub(super) transform: Option<Transform>,
}

/// By which definition the values of an axis were measured.
#[derive(Debug)]
pub(super) enum Definition {
    Always(String),
    ByAxis { axis: String, words: BTreeMap<String, Option<String>> },
}

/// A value as it stands in the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Draft {
    Bool(bool),
    /// A number or a text, in the source's own writing.
    Text(String),
    /// What a normalizer has made of it.
    Typed(Typed),
}

impl Draft {
    /// The value that `raw` holds; nothing where it is null or blank.
    pub(super) fn of(raw: &Raw, path: &str) -> Result<Option<Self>, Rejection> {
        match raw {
            Raw::Bool(value) => Ok(Some(Self::Bool(*value))),
            Raw::List(_) | Raw::Object(_) => Err(Rejection::new(
                Rule::Mapping,
                Some(path),
                "a list or an object stands where one value should",
            )),
            _ => Ok(text_of(raw).map(Self::Text)),
        }
    }

    fn transformed(self, transform: Option<Transform>) -> Self {
        match (self, transform) {
            (Self::Text(text), Some(Transform::Trim)) => Self::Text(text.trim().to_owned()),
            (Self::Text(text), Some(Transform::Lowercase)) => Self::Text(text.to_lowercase()),
            (Self::Text(text), Some(Transform::Uppercase)) => Self::Text(text.to_uppercase()),
            (draft, _) => draft,
        }
    }
}

impl Normalizer {
    /// Every value that the mappings find in `raw`.
    pub(super) fn mapped<'n>(
        &'n self,
        raw: &Raw,
        warnings: &mut Vec<Rejection>,
    ) -> Result<Vec<Mapped<'n>>, Rejection> {
        let (mut found, mut filled) = (Vec::new(), BTreeSet::new());
        for mapping in &self.mappings {
            let Some(axis) = self.ontology.axes.get(mapping.axis) else { continue };
            let before = found.len();
            if mapping.source.is_group() {
                self.map_group(raw, mapping, axis, &mut found, warnings)?;
            } else if !filled.contains(axis.axis.as_str())
                && let Some(mapped) = mapping.one(raw, axis)?
            {
                found.push(mapped);
            }
            if found.len() > before {
                filled.insert(axis.axis.as_str());
            }
        }
        for mapping in self.mappings.iter().filter(|mapping| mapping.required || mapping.default.is_some()) {
            let Some(axis) =
                self.ontology.axes.get(mapping.axis).filter(|axis| !filled.contains(axis.axis.as_str()))
            else {
                continue;
            };
            let Some(default) = &mapping.default else {
                let reason = format!("`{}` is missing, null or blank", mapping.source.as_str());
                return Err(Rejection::new(Rule::Mapping, Some(&axis.axis), reason));
            };
            filled.insert(axis.axis.as_str());
            found.push(Mapped { axis, path: axis.axis.clone(), draft: default.clone(), unit: None });
        }
        Ok(found)
    }

    fn map_group<'n>(
        &'n self,
        raw: &Raw,
        mapping: &Mapping,
        axis: &'n Axis,
        found: &mut Vec<Mapped<'n>>,
        warnings: &mut Vec<Rejection>,
    ) -> Result<(), Rejection> {
        let source = mapping.source.as_str();
        let refuse = |reason: String| Rejection::new(Rule::Mapping, Some(source), reason);
        for (place, element) in mapping.source.elements(raw).enumerate() {
            if place == GROUP_VALUES_MAX {
                return Err(refuse(format!("it has more than {GROUP_VALUES_MAX} elements")));
            }
            let key = match &mapping.key {
                Some(path) => path.find_within(element.raw).and_then(text_of),
                None => element.name.map(str::to_owned),
            };
            let key =
                key.ok_or_else(|| refuse(format!("its element {place} has nothing to be called by")))?;
            let Some(key) = mapping.called(key, warnings)? else { continue };
            let path = axis.at_key(&key);
            let Some(raw_value) = mapping.source.find_within(element.raw) else { continue };
            let Some(draft) = Draft::of(raw_value, &path)? else { continue };
            if found.iter().any(|other| other.path == path) {
                return Err(refuse(format!("two of its elements are called `{key}`")));
            }
            let unit = mapping.unit.as_ref().and_then(|unit| unit.find_within(element.raw)).and_then(text_of);
            found.push(Mapped { axis, path, draft: draft.transformed(mapping.transform), unit });
        }
        Ok(())
    }

    /// By which definition the value of `axis` was measured, if that is told.
    pub(super) fn definition(
        &self,
        axis: &Axis,
        values: &BTreeMap<String, (&Axis, Typed)>,
    ) -> Option<String> {
        match self.definitions.get(&axis.axis)? {
            Definition::Always(definition) => Some(definition.clone()),
            Definition::ByAxis { axis, words } => {
                let (_, value) = values.get(axis)?;
                words.get(&value.to_value().to_string())?.clone()
            }
        }
    }
}

impl Mapping {
    fn one<'n>(&self, raw: &Raw, axis: &'n Axis) -> Result<Option<Mapped<'n>>, Rejection> {
        let Some(found) = self.source.find(raw) else { return Ok(None) };
        let Some(draft) = Draft::of(found, &axis.axis)? else { return Ok(None) };
        let unit = self.unit.as_ref().and_then(|unit| unit.find(raw)).and_then(text_of);
        Ok(Some(Mapped { axis, path: axis.axis.clone(), draft: draft.transformed(self.transform), unit }))
    }

    /// What the ontology calls the element that the source calls `key`; nothing where it is not taken.
    fn called(&self, key: String, warnings: &mut Vec<Rejection>) -> Result<Option<String>, Rejection> {
        let source = self.source.as_str();
        let key = match &self.key_words {
            None => key,
            Some(words) => match (words.entries.get(&key), words.otherwise) {
                (Some(called), _) => match called {
                    Some(called) => called.clone(),
                    None => return Ok(None),
                },
                (None, Otherwise::Keep) => key,
                (None, otherwise) => {
                    let reason = format!("nothing is known of `{key}`");
                    let rejection = Rejection::new(Rule::Mapping, Some(source), reason);
                    if otherwise == Otherwise::Reject {
                        return Err(rejection);
                    }
                    warnings.push(rejection);
                    return Ok(None);
                }
            },
        };
        if is_group_key(&key) {
            return Ok(Some(key));
        }
        let reason =
            format!("`{key}` cannot stand in a path: a key has `A-Z a-z 0-9 _ -`; name it in a table");
        Err(Rejection::new(Rule::Mapping, Some(source), reason))
    }
}
