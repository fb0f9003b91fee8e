//! Fact templates: sentences that turn records into facts, against which text is checked (seed: `oracle-a-rules`, whose
//! facts are sentences; by the decisions on how to read the seeds, the ontology defines the sentences).
//!
//! A template is a sentence with the paths of axes in braces. It gives a fact for each record that has values on all of
//! these axes. A value with its own definition is only included if the template also includes the definition.

use super::super::id::FactTemplateId;
use super::Ontology;
use crate::axis::Axis;
use crate::value::{AxisValue, TypedValue};
use domain_base::decimal::{Decimal, PLACES_MAX, PLACES_MIN, Rounding};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// The maximum number of templates in an ontology.
pub const TEMPLATES_MAX: usize = 64;
/// The maximum length of a template, in bytes.
pub const TEMPLATE_MAX_BYTES: usize = 512;
/// The maximum length of a fact, in bytes.
pub const FACT_MAX_BYTES: usize = 2_048;

/// A sentence that turns a record into a fact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FactTemplate {
    /// The id, unique within the ontology.
    pub template_id: FactTemplateId,
    /// The sentence: `{axis}` is replaced by the value, `{axis:…}` by a form of it, `{{` and `}}` by braces.
    pub template: String,
}

/// A parsed template.
#[derive(Debug, Clone)]
pub struct ParsedFactTemplate<'o> {
    template_id: &'o FactTemplateId,
    pieces: Vec<FactTemplatePiece<'o>>,
}

/// A piece of a sentence.
#[derive(Debug, Clone)]
enum FactTemplatePiece<'o> {
    /// Literal text.
    Text(String),
    /// The key of a value of a group, with spaces between its words or unchanged.
    Key {
        in_words: bool,
    },
    Axis {
        axis: &'o Axis,
        path: String,
        property: AxisProperty,
    },
}

/// The property of an axis that a template includes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AxisProperty {
    Value(NumberFormat),
    /// The UCUM code of the unit of the axis.
    Unit,
    /// The definition by which the value was measured.
    Definition,
}

impl<'o> ParsedFactTemplate<'o> {
    /// Parses `written` for `ontology`.
    ///
    /// # Errors
    /// The first fault, with the allowed form.
    pub fn read(written: &'o FactTemplate, ontology: &'o Ontology) -> Result<Self, String> {
        let text = written.template.as_str();
        if !(1..=TEMPLATE_MAX_BYTES).contains(&text.len()) {
            return Err(format!("it has {} bytes (1 to {TEMPLATE_MAX_BYTES} allowed)", text.len()));
        }
        let mut pieces = Vec::new();
        for piece in split(text)? {
            pieces.push(match piece {
                TemplateTextPart::Text(text) => FactTemplatePiece::Text(text),
                TemplateTextPart::Braces(within) => parse_piece(within, ontology)?,
            });
        }
        let template = Self { template_id: &written.template_id, pieces };
        template.validate()?;
        Ok(template)
    }

    /// All templates of `ontology`, which must be valid.
    #[must_use]
    pub fn all(ontology: &'o Ontology) -> Vec<Self> {
        let read = |written| Self::read(written, ontology).ok();
        ontology.fact_templates.iter().filter_map(read).collect()
    }

    /// Whether the template can give a fact if only `axes` were requested: paths of axes, of whole groups or of single
    /// values of groups. Identity axes are always returned.
    #[must_use]
    pub fn is_renderable_from(&self, axes: &[String]) -> bool {
        let covers = |axis: &Axis, path: &str| {
            let is_matching = |requested: &String| {
                let is_of_axis = *requested == axis.axis || axis.key_in(requested).is_some();
                is_of_axis && (requested == path || requested.contains('*') || path.contains('*'))
            };
            axis.identity || axes.iter().any(is_matching)
        };
        self.axes().all(|(axis, path, _)| covers(axis, path))
    }

    /// The paths in the template that are not identities and therefore must be requested.
    pub fn requested_paths(&self) -> impl Iterator<Item = &str> {
        self.axes().filter(|(axis, ..)| !axis.identity).map(|(_, path, _)| path)
    }

    /// Whether the template includes the value at `path`.
    #[must_use]
    pub fn has_value_at(&self, path: &str) -> bool {
        self.properties_at(path).any(|property| matches!(property, AxisProperty::Value(_)))
    }

    /// The properties of the axis at `path` that the template includes.
    fn properties_at(&self, path: &str) -> impl Iterator<Item = AxisProperty> {
        let is_there = move |axis: &Axis, named: &str| {
            named == path || named.contains('*') && axis.key_in(path).is_some()
        };
        self.axes().filter_map(move |(axis, named, property)| is_there(axis, named).then_some(property))
    }

    #[must_use]
    pub const fn id(&self) -> &FactTemplateId {
        self.template_id
    }

    fn axes(&self) -> impl Iterator<Item = (&'o Axis, &str, AxisProperty)> {
        self.pieces.iter().filter_map(|piece| match piece {
            FactTemplatePiece::Axis { axis, path, property } => Some((*axis, path.as_str(), *property)),
            FactTemplatePiece::Text(_) | FactTemplatePiece::Key { .. } => None,
        })
    }

    /// The group whose values the template iterates over, if any.
    fn group(&self) -> Option<&'o Axis> {
        self.axes().find(|(_, path, _)| path.contains('*')).map(|(axis, ..)| axis)
    }

    fn validate(&self) -> Result<(), String> {
        if self.axes().next().is_none() {
            return Err("it names no axis, so it would give the same fact for every record".into());
        }
        let has_key = self.pieces.iter().any(|piece| matches!(piece, FactTemplatePiece::Key { .. }));
        let Some(group) = self.group() else {
            let lacks = "`{*}` is the key of a group, but the template names no path with `*`";
            return if has_key { Err(lacks.into()) } else { Ok(()) };
        };
        let before = |path: &str| path.split_once('*').map(|(before, _)| before.to_owned());
        let other =
            self.axes().find(|(_, path, _)| path.contains('*') && before(path) != before(&group.axis));
        match other {
            Some((_, path, _)) => Err(format!(
                "`{}` and `{path}` belong to different groups; a template can only use one",
                group.axis
            )),
            None => Ok(()),
        }
    }
}

/// A piece of a template's text.
enum TemplateTextPart<'t> {
    Text(String),
    /// The text between braces.
    Braces(&'t str),
}

/// Splits `text` at its braces; `{{` and `}}` are literal braces.
fn split(text: &str) -> Result<Vec<TemplateTextPart<'_>>, String> {
    let (mut pieces, mut words, mut rest) = (Vec::new(), String::new(), text);
    while let Some(at) = rest.find(['{', '}']) {
        let (before, from) = rest.split_at(at);
        words.push_str(before);
        if let Some(after) = from.strip_prefix("{{") {
            words.push('{');
            rest = after;
        } else if let Some(after) = from.strip_prefix("}}") {
            words.push('}');
            rest = after;
        } else if let Some(after) = from.strip_prefix('{') {
            let (within, after) =
                after.split_once('}').ok_or("a `{` is not closed; write `{{` for a literal brace")?;
            pieces.push(TemplateTextPart::Text(std::mem::take(&mut words)));
            pieces.push(TemplateTextPart::Braces(within));
            rest = after;
        } else {
            return Err("a `}` has no `{`; write `}}` for a literal brace".into());
        }
    }
    words.push_str(rest);
    pieces.push(TemplateTextPart::Text(words));
    Ok(pieces)
}

/// Parses the text between braces: a path and, optionally, a form.
fn parse_piece<'o>(within: &str, ontology: &'o Ontology) -> Result<FactTemplatePiece<'o>, String> {
    let (path, form) = within.split_once(':').map_or((within, None), |(path, form)| (path, Some(form)));
    if path == "*" {
        return match form {
            None => Ok(FactTemplatePiece::Key { in_words: false }),
            Some("words") => Ok(FactTemplatePiece::Key { in_words: true }),
            Some(_) => Err(format!("`{{{within}}}`: the forms of a key are `{{*}}` and `{{*:words}}`")),
        };
    }
    let known = || ontology.axes.iter().map(|axis| axis.axis.as_str()).collect::<Vec<_>>().join(", ");
    let axis = ontology.axis(path);
    let axis =
        axis.ok_or_else(|| format!("`{{{within}}}` does not name an axis; the axes are: {}", known()))?;
    let property = match form {
        None => AxisProperty::Value(NumberFormat::default()),
        Some("definition") => AxisProperty::Definition,
        Some("unit") if axis.unit.is_some() => AxisProperty::Unit,
        Some("unit") => return Err(format!("`{{{within}}}`: the axis has no unit")),
        Some(form) => {
            let figure = NumberFormat::read(form).map_err(|fault| format!("`{{{within}}}`: {fault}"))?;
            if !axis.kind.is_numeric() {
                return Err(format!(
                    "`{{{within}}}`: only a number can have this form, but the axis has type {}",
                    axis.kind.into_str()
                ));
            }
            AxisProperty::Value(figure)
        }
    };
    Ok(FactTemplatePiece::Axis { axis, path: path.to_owned(), property })
}

/// The number of digits between two commas.
const GROUP_DIGITS: usize = 3;

/// The names of the powers of ten in which a number may be written.
const SCALES: [(&str, i64); 4] =
    [("round", 1), ("thousand", 1_000), ("million", 1_000_000), ("billion", 1_000_000_000)];

/// A form of a number; by default it is its exact text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct NumberFormat {
    /// The scale and the number of decimal places; `None` if the number is not rounded.
    rounded: Option<(i64, i32)>,
    /// Whether commas separate the thousands.
    grouped: bool,
}

impl NumberFormat {
    /// Parses a form, such as `grouped`, `million:1` or `thousand:0:grouped`.
    fn read(form: &str) -> Result<Self, String> {
        let unknown = || {
            let scales = SCALES.map(|(word, _)| format!("`{word}:N`")).join(", ");
            format!(
                "the forms are `unit`, `definition` and `grouped`, or rounding to N decimal places, {PLACES_MIN} to \
                 {PLACES_MAX}, with {scales}, each optionally followed by `:grouped`"
            )
        };
        let (form, grouped) = match form.strip_suffix("grouped") {
            Some("") => return Ok(Self { rounded: None, grouped: true }),
            Some(form) => (form.strip_suffix(':').ok_or_else(unknown)?, true),
            None => (form, false),
        };
        let (word, places) = form.split_once(':').ok_or_else(unknown)?;
        let (_, scale) = SCALES.into_iter().find(|(known, _)| *known == word).ok_or_else(unknown)?;
        let places = places.parse::<i32>().ok().filter(|places| (PLACES_MIN..=PLACES_MAX).contains(places));
        Ok(Self { rounded: Some((scale, places.ok_or_else(unknown)?)), grouped })
    }

    /// Whether the form is the exact text of the number.
    fn is_plain(self) -> bool {
        self == Self::default()
    }

    /// Formats `number`. Ties round away from zero. `None` if a number other than zero rounds to zero, because the text
    /// would be false.
    fn of(self, number: &Decimal) -> Option<String> {
        let number = match self.rounded {
            None => number.clone(),
            Some((scale, places)) => {
                let rounded = number.div_rounded(&Decimal::from(scale), places, Rounding::HalfUp).ok()?;
                let zero = Decimal::from(0);
                if rounded == zero && *number != zero {
                    return None;
                }
                rounded
            }
        };
        let text = number.to_string();
        Some(if self.grouped { grouped(&text) } else { text })
    }
}

/// Formats a number's text with commas between its thousands.
fn grouped(text: &str) -> String {
    let whole = text.find('.').unwrap_or(text.len());
    let mut out = String::with_capacity(text.len() + text.len() / GROUP_DIGITS);
    for (at, letter) in text.char_indices() {
        let left = whole.saturating_sub(at);
        let is_between = at > 0 && left > 0 && left.is_multiple_of(GROUP_DIGITS) && !out.ends_with('-');
        if is_between {
            out.push(',');
        }
        out.push(letter);
    }
    out
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedFact {
    pub template_id: FactTemplateId,
    pub text: String,
    /// The paths of the values that it contains.
    pub paths: Vec<String>,
}

/// A fact is too long, because the source has a long text on an axis.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("template `{template_id}` gives a fact of {bytes} bytes (at most {FACT_MAX_BYTES} allowed)")]
pub struct FactTooLongError {
    pub template_id: FactTemplateId,
    /// The length of the fact, in bytes.
    pub bytes: usize,
}

/// The content of a record: values, and the definitions of some of them, by the paths of their axes.
struct FactTemplateInput<'r> {
    axes: &'r BTreeMap<String, AxisValue>,
    definitions: &'r BTreeMap<String, String>,
}

impl ParsedFactTemplate<'_> {
    /// Renders the facts of a record with these values and definitions, by their paths. The result is one fact, or one
    /// for each key of the template's group, in the order of paths. It is empty if a value of the template is missing,
    /// if a value has a definition that the template does not include, or if a value other than zero rounds to zero.
    ///
    /// # Errors
    /// A fact is too long.
    pub fn render(
        &self,
        axes: &BTreeMap<String, AxisValue>,
        definitions: &BTreeMap<String, String>,
    ) -> Result<Vec<RenderedFact>, FactTooLongError> {
        let input = FactTemplateInput { axes, definitions };
        let facts: Vec<_> = match self.group() {
            None => self.fact(&input, "").into_iter().collect(),
            Some(group) => {
                let keys = axes.keys().filter_map(|path| group.key_in(path));
                keys.filter_map(|key| self.fact(&input, key)).collect()
            }
        };
        match facts.iter().map(|fact| fact.text.len()).find(|bytes| *bytes > FACT_MAX_BYTES) {
            None => Ok(facts),
            Some(bytes) => Err(FactTooLongError { template_id: self.template_id.clone(), bytes }),
        }
    }

    /// Whether the value at `path` is in no fact only because the template does not include definitions.
    #[must_use]
    pub fn is_missing_definition(
        &self,
        path: &str,
        axes: &BTreeMap<String, AxisValue>,
        definitions: &BTreeMap<String, String>,
    ) -> bool {
        if self.properties_at(path).next().is_none() {
            return false;
        }
        let has_definition = |path: &str| self.properties_at(path).any(|one| one == AxisProperty::Definition);
        let included = definitions.iter().filter(|(path, _)| has_definition(path));
        let included = included.map(|(path, definition)| (path.clone(), definition.clone())).collect();
        let has_value =
            |facts: Vec<RenderedFact>| facts.iter().any(|fact| fact.paths.iter().any(|at| at == path));
        !has_definition(path) && self.render(axes, &included).map_or(true, has_value)
    }

    /// The fact for `key`, or for the whole record if the template has no group.
    fn fact(&self, input: &FactTemplateInput<'_>, key: &str) -> Option<RenderedFact> {
        let (mut text, mut paths) = (String::new(), Vec::new());
        for piece in &self.pieces {
            match piece {
                FactTemplatePiece::Text(words) => text.push_str(words),
                FactTemplatePiece::Key { in_words: false } => text.push_str(key),
                FactTemplatePiece::Key { in_words: true } => text.push_str(&key.replace(['_', '-'], " ")),
                FactTemplatePiece::Axis { axis, path, property } => {
                    let at = if path.contains('*') { axis.at_key(key) } else { path.clone() };
                    let value = input.axes.get(&at)?;
                    match property {
                        AxisProperty::Unit => text.push_str(axis.unit.as_deref()?),
                        AxisProperty::Definition => text.push_str(input.definitions.get(&at)?),
                        AxisProperty::Value(_)
                            if input.definitions.contains_key(&at) && !self.has_definition_at(path) =>
                        {
                            return None;
                        }
                        AxisProperty::Value(figure) if figure.is_plain() => text.push_str(&value.to_string()),
                        AxisProperty::Value(figure) => match value.typed(axis).ok()? {
                            TypedValue::Number(number) => text.push_str(&figure.of(&number)?),
                            TypedValue::Bool(_) | TypedValue::Date(_) | TypedValue::Text(_) => return None,
                        },
                    }
                    if matches!(property, AxisProperty::Value(_)) {
                        paths.push(at);
                    }
                }
            }
        }
        Some(RenderedFact { template_id: self.template_id.clone(), text, paths })
    }

    /// Whether the template includes the definition of the value at `path`.
    fn has_definition_at(&self, path: &str) -> bool {
        self.axes().any(|(_, axis_path, property)| axis_path == path && property == AxisProperty::Definition)
    }
}

#[cfg(test)]
mod tests;
