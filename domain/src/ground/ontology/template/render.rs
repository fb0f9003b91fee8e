//! What a template makes of a record.

use super::{FACT_MAX_BYTES, Piece, Template, Told};
use crate::ground::id::TemplateId;
use crate::ground::value::{Typed, Value};
use std::collections::BTreeMap;

/// A fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// By which template.
    pub template_id: TemplateId,
    /// It.
    pub text: String,
    /// The paths of the values that it tells.
    pub tells: Vec<String>,
}

/// A fact is too long: what a source says of an axis is no short word.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("template `{template_id}` gives a fact of {bytes} bytes; at most {FACT_MAX_BYTES} are taken")]
pub struct TooLong {
    /// By which template.
    pub template_id: TemplateId,
    /// How long it is.
    pub bytes: usize,
}

/// What a record says: values, and definitions of those that have one, by the paths of their axes.
struct Said<'r> {
    axes: &'r BTreeMap<String, Value>,
    definitions: &'r BTreeMap<String, String>,
}

impl Template<'_> {
    /// The facts that it gives of a record with these values and definitions, by their paths: one, or one for each key of the
    /// group that it goes through, in the order of paths. None where a value is missing that it names, where one has a definition
    /// that it does not tell, or where rounding leaves nothing of one.
    ///
    /// # Errors
    /// Where a fact is too long.
    pub fn render(
        &self,
        axes: &BTreeMap<String, Value>,
        definitions: &BTreeMap<String, String>,
    ) -> Result<Vec<Rendered>, TooLong> {
        let said = Said { axes, definitions };
        let facts: Vec<_> = match self.group() {
            None => self.fact(&said, "").into_iter().collect(),
            Some(group) => {
                let keys = axes.keys().filter_map(|path| group.key_in(path));
                keys.filter_map(|key| self.fact(&said, key)).collect()
            }
        };
        match facts.iter().map(|fact| fact.text.len()).find(|bytes| *bytes > FACT_MAX_BYTES) {
            None => Ok(facts),
            Some(bytes) => Err(TooLong { template_id: self.template_id.clone(), bytes }),
        }
    }

    /// Whether it is only for definitions that it does not tell that the value at `path` is in no fact of it.
    #[must_use]
    pub fn lacks_definition(
        &self,
        path: &str,
        axes: &BTreeMap<String, Value>,
        definitions: &BTreeMap<String, String>,
    ) -> bool {
        if self.told_of(path).next().is_none() {
            return false;
        }
        let is_told = |path: &str| self.told_of(path).any(|told| told == Told::Definition);
        let told = definitions.iter().filter(|(path, _)| is_told(path));
        let told = told.map(|(path, definition)| (path.clone(), definition.clone())).collect();
        let tells =
            |facts: Vec<Rendered>| facts.iter().any(|fact| fact.tells.iter().any(|told| told == path));
        !is_told(path) && self.render(axes, &told).map_or(true, tells)
    }

    /// The fact of what is said under `key`, or of all where it goes through no group.
    fn fact(&self, said: &Said<'_>, key: &str) -> Option<Rendered> {
        let (mut text, mut tells) = (String::new(), Vec::new());
        for piece in &self.pieces {
            match piece {
                Piece::Text(words) => text.push_str(words),
                Piece::Key { in_words: false } => text.push_str(key),
                Piece::Key { in_words: true } => text.push_str(&key.replace(['_', '-'], " ")),
                Piece::Axis { axis, path, told } => {
                    let at = if path.contains('*') { axis.at_key(key) } else { path.clone() };
                    let value = said.axes.get(&at)?;
                    match told {
                        Told::Unit => text.push_str(axis.unit.as_deref()?),
                        Told::Definition => text.push_str(said.definitions.get(&at)?),
                        Told::Value(_)
                            if said.definitions.contains_key(&at) && !self.tells_definition(path) =>
                        {
                            return None;
                        }
                        Told::Value(figure) if figure.is_plain() => text.push_str(&value.to_string()),
                        Told::Value(figure) => match value.typed(axis).ok()? {
                            Typed::Number(number) => text.push_str(&figure.of(&number)?),
                            Typed::Bool(_) | Typed::Date(_) | Typed::Text(_) => return None,
                        },
                    }
                    if matches!(told, Told::Value(_)) {
                        tells.push(at);
                    }
                }
            }
        }
        Some(Rendered { template_id: self.template_id.clone(), text, tells })
    }

    /// Whether it says by which definition the value at `path` was measured.
    fn tells_definition(&self, path: &str) -> bool {
        self.axes().any(|(_, told_path, told)| told_path == path && told == Told::Definition)
    }
}
