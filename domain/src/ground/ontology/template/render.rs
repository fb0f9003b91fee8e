//! Renders the facts of a record.

use super::{AxisProperty, FACT_MAX_BYTES, FactTemplatePiece, ParsedFactTemplate};
use crate::ground::id::TemplateId;
use crate::ground::value::{AxisValue, TypedValue};
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedFact {
    pub template_id: TemplateId,
    pub text: String,
    /// The paths of the values that it contains.
    pub tells: Vec<String>,
}

/// A fact is too long, because the source has a long text on an axis.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("template `{template_id}` gives a fact of {bytes} bytes (at most {FACT_MAX_BYTES} allowed)")]
pub struct FactTooLongError {
    pub template_id: TemplateId,
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
        let said = FactTemplateInput { axes, definitions };
        let facts: Vec<_> = match self.group() {
            None => self.fact(&said, "").into_iter().collect(),
            Some(group) => {
                let keys = axes.keys().filter_map(|path| group.key_in(path));
                keys.filter_map(|key| self.fact(&said, key)).collect()
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
        let is_told = |path: &str| self.properties_at(path).any(|told| told == AxisProperty::Definition);
        let told = definitions.iter().filter(|(path, _)| is_told(path));
        let told = told.map(|(path, definition)| (path.clone(), definition.clone())).collect();
        let tells =
            |facts: Vec<RenderedFact>| facts.iter().any(|fact| fact.tells.iter().any(|told| told == path));
        !is_told(path) && self.render(axes, &told).map_or(true, tells)
    }

    /// The fact for `key`, or for the whole record if the template has no group.
    fn fact(&self, said: &FactTemplateInput<'_>, key: &str) -> Option<RenderedFact> {
        let (mut text, mut tells) = (String::new(), Vec::new());
        for piece in &self.pieces {
            match piece {
                FactTemplatePiece::Text(words) => text.push_str(words),
                FactTemplatePiece::Key { in_words: false } => text.push_str(key),
                FactTemplatePiece::Key { in_words: true } => text.push_str(&key.replace(['_', '-'], " ")),
                FactTemplatePiece::Axis { axis, path, property: told } => {
                    let at = if path.contains('*') { axis.at_key(key) } else { path.clone() };
                    let value = said.axes.get(&at)?;
                    match told {
                        AxisProperty::Unit => text.push_str(axis.unit.as_deref()?),
                        AxisProperty::Definition => text.push_str(said.definitions.get(&at)?),
                        AxisProperty::Value(_)
                            if said.definitions.contains_key(&at) && !self.has_definition_at(path) =>
                        {
                            return None;
                        }
                        AxisProperty::Value(figure) if figure.is_plain() => text.push_str(&value.to_string()),
                        AxisProperty::Value(figure) => match value.typed(axis).ok()? {
                            TypedValue::Number(number) => text.push_str(&figure.of(&number)?),
                            TypedValue::Bool(_) | TypedValue::Date(_) | TypedValue::Text(_) => return None,
                        },
                    }
                    if matches!(told, AxisProperty::Value(_)) {
                        tells.push(at);
                    }
                }
            }
        }
        Some(RenderedFact { template_id: self.template_id.clone(), text, tells })
    }

    /// Whether the template includes the definition of the value at `path`.
    fn has_definition_at(&self, path: &str) -> bool {
        self.axes().any(|(_, told_path, told)| told_path == path && told == AxisProperty::Definition)
    }
}
