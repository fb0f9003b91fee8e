//! Templates of facts: how what a record says is put into words, so that text can be checked against it (seed:
//! `oracle-a-rules`, whose facts are sentences; the decisions on how to read the seeds leave the sentences to the ontology).
//!
//! A template is a sentence with the paths of axes in braces. It gives a fact of every record that has a value of each of them,
//! and none of any other. A value that was measured by a definition of its own is only told together with that.

mod figure;
mod render;

pub use render::{Rendered, TooLong};

use super::super::id::TemplateId;
use super::Ontology;
use crate::ground::axis::Axis;
use figure::Figure;
use serde::{Deserialize, Serialize};

/// The most templates of an ontology.
pub const TEMPLATES_MAX: usize = 64;
/// The longest template, in bytes.
pub const TEMPLATE_MAX_BYTES: usize = 512;
/// The longest fact that one gives, in bytes.
pub const FACT_MAX_BYTES: usize = 2_048;

/// A template as it stands in an ontology.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FactTemplate {
    /// What it is called, once in an ontology.
    pub template_id: TemplateId,
    /// The sentence: `{axis}` stands for a value, `{axis:…}` for a form of it, `{{` and `}}` for braces.
    pub template: String,
}

/// A template that was read.
#[derive(Debug, Clone)]
pub struct Template<'o> {
    template_id: &'o TemplateId,
    pieces: Vec<Piece<'o>>,
}

/// A piece of a sentence.
#[derive(Debug, Clone)]
enum Piece<'o> {
    /// Words.
    Text(String),
    /// The key of a value of a group; with spaces between its words or as it is.
    Key { in_words: bool },
    /// What is told of an axis, which is written `path`.
    Axis { axis: &'o Axis, path: String, told: Told },
}

/// What is told of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    /// Its value.
    Value(Figure),
    /// The UCUM code of its unit.
    Unit,
    /// By which definition the value was measured.
    Definition,
}

impl<'o> Template<'o> {
    /// What `written` means in `ontology`.
    ///
    /// # Errors
    /// What is wrong with it, and what is allowed.
    pub fn read(written: &'o FactTemplate, ontology: &'o Ontology) -> Result<Self, String> {
        let text = written.template.as_str();
        if !(1..=TEMPLATE_MAX_BYTES).contains(&text.len()) {
            return Err(format!("it has {} bytes; 1 to {TEMPLATE_MAX_BYTES} are taken", text.len()));
        }
        let mut pieces = Vec::new();
        for piece in split(text)? {
            pieces.push(match piece {
                Split::Text(text) => Piece::Text(text),
                Split::Braces(within) => piece_of(within, ontology)?,
            });
        }
        let template = Self { template_id: &written.template_id, pieces };
        template.validate()?;
        Ok(template)
    }

    /// All templates of `ontology`, which is valid.
    #[must_use]
    pub fn all(ontology: &'o Ontology) -> Vec<Self> {
        let read = |written| Self::read(written, ontology).ok();
        ontology.fact_templates.iter().filter_map(read).collect()
    }

    /// Whether it can give a fact of a record of which `axes` were asked for: paths of axes, of a whole group or of one of it.
    /// Identities are always given.
    #[must_use]
    pub fn is_made_of(&self, axes: &[String]) -> bool {
        let covers = |axis: &Axis, path: &str| {
            let asked = |asked: &String| {
                let is_of_axis = *asked == axis.axis || axis.key_in(asked).is_some();
                is_of_axis && (asked == path || asked.contains('*') || path.contains('*'))
            };
            axis.identity || axes.iter().any(asked)
        };
        self.axes().all(|(axis, path, _)| covers(axis, path))
    }

    /// The paths that it names and that are no identities: what has to be asked for.
    pub fn needs(&self) -> impl Iterator<Item = &str> {
        self.axes().filter(|(axis, ..)| !axis.identity).map(|(_, path, _)| path)
    }

    /// Whether it tells the value at `path`, of what has all that it is made of.
    #[must_use]
    pub fn tells(&self, path: &str) -> bool {
        self.told_of(path).any(|told| matches!(told, Told::Value(_)))
    }

    /// What it tells of the axis at `path`.
    fn told_of(&self, path: &str) -> impl Iterator<Item = Told> {
        let is_there = move |axis: &Axis, named: &str| {
            named == path || named.contains('*') && axis.key_in(path).is_some()
        };
        self.axes().filter_map(move |(axis, named, told)| is_there(axis, named).then_some(told))
    }

    /// What it is called.
    #[must_use]
    pub const fn id(&self) -> &TemplateId {
        self.template_id
    }

    fn axes(&self) -> impl Iterator<Item = (&'o Axis, &str, Told)> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Axis { axis, path, told } => Some((*axis, path.as_str(), *told)),
            Piece::Text(_) | Piece::Key { .. } => None,
        })
    }

    /// The path of a group that it goes through value by value, if it does.
    fn group(&self) -> Option<&'o Axis> {
        self.axes().find(|(_, path, _)| path.contains('*')).map(|(axis, ..)| axis)
    }

    fn validate(&self) -> Result<(), String> {
        if self.axes().next().is_none() {
            return Err("it names no axis: it would say the same of every record".into());
        }
        let has_key = self.pieces.iter().any(|piece| matches!(piece, Piece::Key { .. }));
        let Some(group) = self.group() else {
            let lacks = "`{*}` is the key of a value of a group, and the template names no path with `*`";
            return if has_key { Err(lacks.into()) } else { Ok(()) };
        };
        let before = |path: &str| path.split_once('*').map(|(before, _)| before.to_owned());
        let other =
            self.axes().find(|(_, path, _)| path.contains('*') && before(path) != before(&group.axis));
        match other {
            Some((_, path, _)) => Err(format!(
                "`{}` and `{path}` are of different groups; a template goes through one",
                group.axis
            )),
            None => Ok(()),
        }
    }
}

/// A piece of a template's text.
enum Split<'t> {
    Text(String),
    /// What stands between braces.
    Braces(&'t str),
}

/// `text` cut at its braces, in which `{{` and `}}` are braces of the text itself.
fn split(text: &str) -> Result<Vec<Split<'_>>, String> {
    let (mut pieces, mut words, mut rest) = (Vec::new(), String::new(), text);
    while let Some(at) = rest.find(['{', '}']) {
        let (before, from) = rest.split_at(at);
        words.push_str(before);
        if let Some(behind) = from.strip_prefix("{{") {
            words.push('{');
            rest = behind;
        } else if let Some(behind) = from.strip_prefix("}}") {
            words.push('}');
            rest = behind;
        } else if let Some(behind) = from.strip_prefix('{') {
            let (within, behind) =
                behind.split_once('}').ok_or("a `{` is not closed; `{{` is a brace itself")?;
            pieces.push(Split::Text(std::mem::take(&mut words)));
            pieces.push(Split::Braces(within));
            rest = behind;
        } else {
            return Err("a `}` closes nothing; `}}` is a brace itself".into());
        }
    }
    words.push_str(rest);
    pieces.push(Split::Text(words));
    Ok(pieces)
}

/// What `within` braces means: a path, and how what is there is told.
fn piece_of<'o>(within: &str, ontology: &'o Ontology) -> Result<Piece<'o>, String> {
    let (path, form) = within.split_once(':').map_or((within, None), |(path, form)| (path, Some(form)));
    if path == "*" {
        return match form {
            None => Ok(Piece::Key { in_words: false }),
            Some("words") => Ok(Piece::Key { in_words: true }),
            Some(_) => Err(format!("`{{{within}}}`: a key is told as `{{*}}` or `{{*:words}}`")),
        };
    }
    let known = || ontology.axes.iter().map(|axis| axis.axis.as_str()).collect::<Vec<_>>().join(", ");
    let axis = ontology.axis(path);
    let axis = axis.ok_or_else(|| format!("`{{{within}}}` names no axis; there are {}", known()))?;
    let told = match form {
        None => Told::Value(Figure::default()),
        Some("definition") => Told::Definition,
        Some("unit") if axis.unit.is_some() => Told::Unit,
        Some("unit") => return Err(format!("`{{{within}}}`: the axis has no unit")),
        Some(form) => {
            let figure = Figure::read(form).map_err(|fault| format!("`{{{within}}}`: {fault}"))?;
            if !axis.kind.is_numeric() {
                return Err(format!(
                    "`{{{within}}}`: only a number is told so, and this is a {}",
                    axis.kind.into_str()
                ));
            }
            Told::Value(figure)
        }
    };
    Ok(Piece::Axis { axis, path: path.to_owned(), told })
}

#[cfg(test)]
mod tests;
