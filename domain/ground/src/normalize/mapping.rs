//! Mappings of the fields of a raw record to axes.

use super::{MappedValue, RecordNormalizer, ValuesByPath, text_of};
use crate::axis::{Axis, is_group_key};
use crate::path::RawFieldPath;
use crate::pipeline::{TextTransform, UnknownWordHandling, WordTable};
use crate::rejection::{RecordRejection, RecordRule};
use crate::value::{AxisValueError, TypedValue};
use domain_base::decimal::Decimal;
use domain_base::raw::SourceValue;
use domain_base::text_form::is_blank;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The maximum number of values of one group in one record.
const GROUP_VALUES_MAX: usize = 10_000;

#[derive(Debug)]
pub(super) struct CompiledMapping {
    pub(super) source: RawFieldPath,
    /// The index of the axis in the ontology.
    pub(super) axis: usize,
    pub(super) required: bool,
    pub(super) default: Option<TypedValue>,
    /// The words for a missing value, without white space at both ends.
    pub(super) missing_values: Vec<String>,
    /// The path of the key in each element; by default the name of the member is the key.
    pub(super) key: Option<RawFieldPath>,
    pub(super) key_words: Option<WordTable>,
    /// The path of each value's unit.
    pub(super) unit: Option<RawFieldPath>,
    pub(super) transform: Option<TextTransform>,
    /// The definition by which its values were measured, if known.
    pub(super) definition: Option<CompiledMeasurementDefinition>,
}

/// The definition by which the values of an axis were measured.
#[derive(Debug)]
pub(super) enum CompiledMeasurementDefinition {
    Always(String),
    ByAxis { axis: String, words: WordTable },
}

/// A value from the record, or the result of a normalizer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DraftValue<'r> {
    /// A text in the source's own notation.
    Text(Cow<'r, str>),
    /// A value of another type, or one that is parsed already.
    Typed(TypedValue),
}

impl DraftValue<'_> {
    /// The text of the value, of any type.
    pub(super) fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Typed(typed) => typed.text(),
        }
    }
}

/// Parses `draft` as a number.
pub(super) fn number(draft: DraftValue<'_>, path: &str) -> Result<Decimal, RecordRejection> {
    if let DraftValue::Typed(TypedValue::Number(number)) = draft {
        return Ok(number);
    }
    let text = draft.text();
    text.parse().map_err(|error| {
        let reason = AxisValueError::new(&text, format!("a number: {error}")).to_string();
        RecordRejection::new(RecordRule::AxisType, Some(path), reason)
    })
}

/// A value for an axis, found by a mapping.
#[derive(Debug)]
pub(super) enum FoundAxisValue<'n, 'r> {
    /// A value of the record, to be normalized.
    Draft(DraftValue<'r>),
    /// The default value for a missing field. It is not normalized.
    Default(&'n TypedValue),
}

impl<'r> DraftValue<'r> {
    /// The value of `raw`; `None` if it is null or blank. Different spellings of a number give the same value.
    pub(super) fn of(raw: &'r SourceValue, path: &str) -> Result<Option<Self>, RecordRejection> {
        match raw {
            SourceValue::Null => Ok(None),
            SourceValue::Bool(value) => Ok(Some(Self::Typed(TypedValue::Bool(*value)))),
            SourceValue::Number(digits) => Ok(Some(match digits.parse() {
                Ok(number) => Self::Typed(TypedValue::Number(number)),
                // a number with too many digits is kept as a text, which a text axis accepts
                Err(_) => Self::Text(digits.into()),
            })),
            SourceValue::Text(text) => Ok(Some(Self::Text(text.into())).filter(|_| !is_blank(text))),
            SourceValue::List(_) | SourceValue::Object(_) => Err(RecordRejection::new(
                RecordRule::Mapping,
                Some(path),
                "a list or an object is in the place of a single value",
            )),
        }
    }

    fn apply_transform(self, transform: Option<TextTransform>) -> Self {
        match (self, transform) {
            (Self::Text(text), Some(TextTransform::Trim)) => Self::Text(text.trim().to_owned().into()),
            (Self::Text(text), Some(TextTransform::Lowercase)) => Self::Text(text.to_lowercase().into()),
            (Self::Text(text), Some(TextTransform::Uppercase)) => Self::Text(text.to_uppercase().into()),
            (draft, _) => draft,
        }
    }
}

impl RecordNormalizer {
    /// All values that the mappings find in `raw`.
    pub(super) fn map_values<'n, 'r>(
        &'n self,
        raw: &'r SourceValue,
        warnings: &mut Vec<RecordRejection>,
    ) -> Result<Vec<MappedValue<'n, 'r>>, RecordRejection> {
        let mut found: Vec<MappedValue<'n, 'r>> = Vec::new();
        for (mapping, axis) in self.with_axes() {
            if mapping.source.is_group() {
                self.map_group(raw, mapping, axis, &mut found, warnings)?;
            } else if !found.iter().any(|other| other.mapping.axis == mapping.axis) {
                found.extend(mapping.map_single(raw, axis)?);
            }
        }
        for (mapping, axis) in self.with_axes() {
            let is_needed = mapping.required || mapping.default.is_some();
            if !is_needed || found.iter().any(|other| other.mapping.axis == mapping.axis) {
                continue;
            }
            let Some(default) = &mapping.default else {
                let reason = format!("`{}` is missing, null or blank", mapping.source.as_str());
                return Err(RecordRejection::new(RecordRule::Mapping, Some(&axis.axis), reason));
            };
            let path = axis.axis.as_str().into();
            found.push(MappedValue { mapping, path, found: FoundAxisValue::Default(default), unit: None });
        }
        Ok(found)
    }

    /// The mappings with their axes, in the definition's order.
    pub(super) fn with_axes(&self) -> impl Iterator<Item = (&CompiledMapping, &Axis)> {
        self.mappings.iter().filter_map(|mapping| Some((mapping, self.ontology.axes.get(mapping.axis)?)))
    }

    fn map_group<'n, 'r>(
        &'n self,
        raw: &'r SourceValue,
        mapping: &'n CompiledMapping,
        axis: &Axis,
        found: &mut Vec<MappedValue<'n, 'r>>,
        warnings: &mut Vec<RecordRejection>,
    ) -> Result<(), RecordRejection> {
        let source = mapping.source.as_str();
        let refuse = |reason: String| RecordRejection::new(RecordRule::Mapping, Some(source), reason);
        for (index, element) in mapping.source.elements(raw).enumerate() {
            if index == GROUP_VALUES_MAX {
                return Err(refuse(format!("it has more than {GROUP_VALUES_MAX} elements")));
            }
            let key = match &mapping.key {
                Some(path) => path.find_within(element.raw).and_then(text_of),
                None => element.name.map(Cow::Borrowed),
            };
            let key = key.ok_or_else(|| refuse(format!("its element {index} has no name")))?;
            let Some(key) = mapping.translate_key(&key, warnings)? else { continue };
            let path = axis.at_key(key);
            let Some(raw_value) = mapping.source.find_within(element.raw) else { continue };
            let Some(draft) = mapping.draft(raw_value, &path)? else { continue };
            let unit = mapping.unit.as_ref().and_then(|unit| unit.find_within(element.raw)).and_then(text_of);
            found.push(MappedValue { mapping, path: path.into(), found: FoundAxisValue::Draft(draft), unit });
        }
        Ok(())
    }
}

/// The known definitions by which the values were measured, by path.
pub(super) fn definitions_of(
    values: &ValuesByPath<'_>,
    warnings: &mut Vec<RecordRejection>,
) -> Result<BTreeMap<String, String>, RecordRejection> {
    let mut definitions = BTreeMap::new();
    for (path, (mapping, _)) in values {
        let Some(definition) = &mapping.definition else { continue };
        if let Some(definition) = definition.of(path, values, warnings)? {
            definitions.insert(path.clone().into_owned(), definition.to_owned());
        }
    }
    Ok(definitions)
}

impl CompiledMeasurementDefinition {
    /// The definition by which the value at `path` was measured; `None` if it is not known.
    fn of(
        &self,
        path: &str,
        values: &ValuesByPath<'_>,
        warnings: &mut Vec<RecordRejection>,
    ) -> Result<Option<&str>, RecordRejection> {
        let (axis, words) = match self {
            Self::Always(definition) => return Ok(Some(definition)),
            Self::ByAxis { axis, words } => (axis, words),
        };
        let fault = match values.get(axis.as_str()).map(|(_, value)| value.text()) {
            Some(word) => match words.find(&word) {
                Some(definition) => return Ok(definition),
                None if words.otherwise == UnknownWordHandling::Keep => return Ok(None),
                None => AxisValueError::new(&word, format!("a word of the table of definitions by `{axis}`"))
                    .to_string(),
            },
            None => format!("`{axis}`, which selects the definition of the measurement, has no value"),
        };
        let rejection = RecordRejection::new(RecordRule::EnumMapping, Some(path), fault);
        if words.otherwise == UnknownWordHandling::Reject {
            return Err(rejection);
        }
        warnings.push(rejection);
        Ok(None)
    }
}

impl CompiledMapping {
    pub(super) fn map_single<'n, 'r>(
        &'n self,
        raw: &'r SourceValue,
        axis: &'n Axis,
    ) -> Result<Option<MappedValue<'n, 'r>>, RecordRejection> {
        let Some(found) = self.source.find(raw) else { return Ok(None) };
        let Some(draft) = self.draft(found, &axis.axis)? else { return Ok(None) };
        let unit = self.unit.as_ref().and_then(|unit| unit.find(raw)).and_then(text_of);
        let path = axis.axis.as_str().into();
        let found = FoundAxisValue::Draft(draft.apply_transform(self.transform));
        Ok(Some(MappedValue { mapping: self, path, found, unit }))
    }

    /// The value of `raw`; `None` if it is missing.
    fn draft<'r>(&self, raw: &'r SourceValue, path: &str) -> Result<Option<DraftValue<'r>>, RecordRejection> {
        let draft = DraftValue::of(raw, path)?;
        let is_missing = |written: &str| self.missing_values.iter().any(|word| word == written.trim());
        Ok(draft.filter(|_| match raw {
            SourceValue::Text(text) | SourceValue::Number(text) => !is_missing(text),
            _ => true,
        }))
    }

    /// The ontology's key for the element that the source calls `key`; `None` if the element is ignored.
    fn translate_key<'k>(
        &'k self,
        key: &'k str,
        warnings: &mut Vec<RecordRejection>,
    ) -> Result<Option<&'k str>, RecordRejection> {
        let refuse =
            |reason: String| RecordRejection::new(RecordRule::Mapping, Some(self.source.as_str()), reason);
        let words = self.key_words.as_ref();
        let called = match words.map(|words| (words.find(key), words.otherwise)) {
            Some((Some(called), _)) => called,
            None | Some((None, UnknownWordHandling::Keep)) => Some(key),
            Some((None, UnknownWordHandling::Reject)) => {
                return Err(refuse(format!("`{key}` is not in the table")));
            }
            Some((None, UnknownWordHandling::Warn)) => {
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
