//! Renders the facts of a record.

use super::{AxisProperty, FACT_MAX_BYTES, FactTemplatePiece, ParsedFactTemplate};
use crate::ground::id::FactTemplateId;
use crate::ground::value::{AxisValue, TypedValue};
use std::collections::BTreeMap;

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
