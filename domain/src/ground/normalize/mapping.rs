//! Mappings of the fields of a raw record to axes.

use super::{Mapped, Normalizer, Values, text_of};
use crate::base::blank::is_blank;
use crate::base::decimal::Decimal;
use crate::base::raw::Raw;
use crate::ground::axis::{Axis, is_group_key};
use crate::ground::path::Path;
use crate::ground::pipeline::Transform;
use crate::ground::pipeline::tables::{Otherwise, Words};
use crate::ground::rejection::{Rejection, Rule};
use crate::ground::value::{NotOfAxis, Typed};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The maximum number of values of one group in one record.
const GROUP_VALUES_MAX: usize = 10_000;

/// A compiled mapping.
#[derive(Debug)]
pub(super) struct Mapping {
    pub(super) source: Path,
    /// The index of the axis in the ontology.
    pub(super) axis: usize,
    pub(super) required: bool,
    pub(super) default: Option<Typed>,
    /// The path of the key in each element; by default the name of the member is the key.
    pub(super) key: Option<Path>,
    pub(super) key_words: Option<Words>,
    /// The path of each value's unit.
    pub(super) unit: Option<Path>,
    pub(super) transform: Option<Transform>,
    /// The definition by which its values were measured, if known.
    pub(super) definition: Option<Definition>,
}

/// The definition by which the values of an axis were measured.
#[derive(Debug)]
pub(super) enum Definition {
    Always(String),
    ByAxis { axis: String, words: Words },
}

/// A value from the record, or the result of a normalizer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Draft<'r> {
    /// A text in the source's own notation.
    Text(Cow<'r, str>),
    /// A value of another type, or one that is parsed already.
    Typed(Typed),
}

impl Draft<'_> {
    /// The text of the value, of any type.
    pub(super) fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Typed(typed) => typed.text(),
        }
    }
}

/// Parses `draft` as a number.
pub(super) fn number(draft: Draft<'_>, path: &str) -> Result<Decimal, Rejection> {
    if let Draft::Typed(Typed::Number(number)) = draft {
        return Ok(number);
    }
    let text = draft.text();
    text.parse().map_err(|error| {
        let reason = NotOfAxis::new(&text, format!("a number: {error}")).to_string();
        Rejection::new(Rule::AxisType, Some(path), reason)
    })
}

/// A value for an axis, found by a mapping.
#[derive(Debug)]
pub(super) enum Found<'n, 'r> {
    /// A value of the record, to be normalized.
    Draft(Draft<'r>),
    /// The default value for a missing field. It is not normalized.
    Default(&'n Typed),
}

impl<'r> Draft<'r> {
    /// The value of `raw`; `None` if it is null or blank. Different spellings of a number give the same value.
    pub(super) fn of(raw: &'r Raw, path: &str) -> Result<Option<Self>, Rejection> {
        match raw {
            Raw::Null => Ok(None),
            Raw::Bool(value) => Ok(Some(Self::Typed(Typed::Bool(*value)))),
            Raw::Number(digits) => Ok(Some(match digits.parse() {
                Ok(number) => Self::Typed(Typed::Number(number)),
                // a number with too many digits is kept as a text, which a text axis accepts
                Err(_) => Self::Text(digits.into()),
            })),
            Raw::Text(text) => Ok(Some(Self::Text(text.into())).filter(|_| !is_blank(text))),
            Raw::List(_) | Raw::Object(_) => Err(Rejection::new(
                Rule::Mapping,
                Some(path),
                "a list or an object is in the place of a single value",
            )),
        }
    }

    fn transformed(self, transform: Option<Transform>) -> Self {
        match (self, transform) {
            (Self::Text(text), Some(Transform::Trim)) => Self::Text(text.trim().to_owned().into()),
            (Self::Text(text), Some(Transform::Lowercase)) => Self::Text(text.to_lowercase().into()),
            (Self::Text(text), Some(Transform::Uppercase)) => Self::Text(text.to_uppercase().into()),
            (draft, _) => draft,
        }
    }
}

impl Normalizer {
    /// All values that the mappings find in `raw`.
    pub(super) fn mapped<'n, 'r>(
        &'n self,
        raw: &'r Raw,
        warnings: &mut Vec<Rejection>,
    ) -> Result<Vec<Mapped<'n, 'r>>, Rejection> {
        let mut found: Vec<Mapped<'n, 'r>> = Vec::new();
        for (mapping, axis) in self.with_axes() {
            if mapping.source.is_group() {
                self.map_group(raw, mapping, axis, &mut found, warnings)?;
            } else if !found.iter().any(|other| other.mapping.axis == mapping.axis) {
                found.extend(mapping.one(raw, axis)?);
            }
        }
        for (mapping, axis) in self.with_axes() {
            let is_needed = mapping.required || mapping.default.is_some();
            if !is_needed || found.iter().any(|other| other.mapping.axis == mapping.axis) {
                continue;
            }
            let Some(default) = &mapping.default else {
                let reason = format!("`{}` is missing, null or blank", mapping.source.as_str());
                return Err(Rejection::new(Rule::Mapping, Some(&axis.axis), reason));
            };
            let path = axis.axis.as_str().into();
            found.push(Mapped { mapping, path, found: Found::Default(default), unit: None });
        }
        Ok(found)
    }

    /// The mappings with their axes, in the definition's order.
    pub(super) fn with_axes(&self) -> impl Iterator<Item = (&Mapping, &Axis)> {
        self.mappings.iter().filter_map(|mapping| Some((mapping, self.ontology.axes.get(mapping.axis)?)))
    }

    fn map_group<'n, 'r>(
        &'n self,
        raw: &'r Raw,
        mapping: &'n Mapping,
        axis: &Axis,
        found: &mut Vec<Mapped<'n, 'r>>,
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
                None => element.name.map(Cow::Borrowed),
            };
            let key =
                key.ok_or_else(|| refuse(format!("its element {place} has no name")))?;
            let Some(key) = mapping.called(&key, warnings)? else { continue };
            let path = axis.at_key(key);
            let Some(raw_value) = mapping.source.find_within(element.raw) else { continue };
            let Some(draft) = Draft::of(raw_value, &path)? else { continue };
            let unit = mapping.unit.as_ref().and_then(|unit| unit.find_within(element.raw)).and_then(text_of);
            found.push(Mapped { mapping, path: path.into(), found: Found::Draft(draft), unit });
        }
        Ok(())
    }
}

/// The known definitions by which the values were measured, by path.
pub(super) fn definitions_of(
    values: &Values<'_>,
    warnings: &mut Vec<Rejection>,
) -> Result<BTreeMap<String, String>, Rejection> {
    let mut definitions = BTreeMap::new();
    for (path, (mapping, _)) in values {
        let Some(definition) = &mapping.definition else { continue };
        if let Some(definition) = definition.of(path, values, warnings)? {
            definitions.insert(path.clone().into_owned(), definition.to_owned());
        }
    }
    Ok(definitions)
}

impl Definition {
    /// The definition by which the value at `path` was measured; `None` if it is not known.
    fn of(
        &self,
        path: &str,
        values: &Values<'_>,
        warnings: &mut Vec<Rejection>,
    ) -> Result<Option<&str>, Rejection> {
        let (axis, words) = match self {
            Self::Always(definition) => return Ok(Some(definition)),
            Self::ByAxis { axis, words } => (axis, words),
        };
        let fault = match values.get(axis.as_str()).map(|(_, value)| value.text()) {
            Some(word) => match words.entries.get(&*word) {
                Some(definition) => return Ok(definition.as_deref()),
                None if words.otherwise == Otherwise::Keep => return Ok(None),
                None => NotOfAxis::new(&word, format!("a word of the table of definitions by `{axis}`"))
                    .to_string(),
            },
            None => format!("`{axis}`, which selects the definition of the measurement, has no value"),
        };
        let rejection = Rejection::new(Rule::EnumMapping, Some(path), fault);
        if words.otherwise == Otherwise::Reject {
            return Err(rejection);
        }
        warnings.push(rejection);
        Ok(None)
    }
}

impl Mapping {
    pub(super) fn one<'n, 'r>(
        &'n self,
        raw: &'r Raw,
        axis: &'n Axis,
    ) -> Result<Option<Mapped<'n, 'r>>, Rejection> {
        let Some(found) = self.source.find(raw) else { return Ok(None) };
        let Some(draft) = Draft::of(found, &axis.axis)? else { return Ok(None) };
        let unit = self.unit.as_ref().and_then(|unit| unit.find(raw)).and_then(text_of);
        let path = axis.axis.as_str().into();
        let found = Found::Draft(draft.transformed(self.transform));
        Ok(Some(Mapped { mapping: self, path, found, unit }))
    }

    /// The ontology's key for the element that the source calls `key`; `None` if the element is ignored.
    fn called<'k>(
        &'k self,
        key: &'k str,
        warnings: &mut Vec<Rejection>,
    ) -> Result<Option<&'k str>, Rejection> {
        let refuse = |reason: String| Rejection::new(Rule::Mapping, Some(self.source.as_str()), reason);
        let words = self.key_words.as_ref();
        let called = match words.map(|words| (words.entries.get(key), words.otherwise)) {
            Some((Some(called), _)) => called.as_deref(),
            None | Some((None, Otherwise::Keep)) => Some(key),
            Some((None, Otherwise::Reject)) => return Err(refuse(format!("`{key}` is not in the table"))),
            Some((None, Otherwise::Warn)) => {
                warnings.push(refuse(format!("`{key}` is not in the table")));
                None
            }
        };
        match called {
            Some(called) if !is_group_key(called) => Err(refuse(format!(
                "`{called}` cannot be part of a path (`A-Z a-z 0-9 _ -` allowed); give it a name in a table"
            ))),
            called => Ok(called),
        }
    }
}
