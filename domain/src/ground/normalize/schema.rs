//! JSON Schemas for raw records.
//!
//! What a schema may ask for is bounded when it is registered: it holds everything that it refers to, nothing in it holds
//! itself, and written out in full it is not too long. So a record is checked in a time that its own size bounds.

use crate::ground::raw::Raw;
use crate::ground::rejection::{Rejection, Rule};
use jsonschema::{PatternOptions, Registry, Validator};
use serde_json::{Value as Json, json};

/// A compiled pattern of a schema takes so much memory at the most.
const PATTERN_MAX_BYTES: usize = 1 << 20;
/// The most patterns of a schema.
const PATTERNS_MAX: usize = 64;
/// The most values in a schema, with what it refers to written out in each place.
const VALUES_MAX: usize = 10_000;
/// How deep they may lie in one another.
const DEPTH_MAX: usize = 64;
/// The longest value that is quoted where it fails, in bytes.
const QUOTED_MAX_BYTES: usize = 100;
/// What a schema is called while it is compiled.
const URI: &str = "urn:schema";

/// A schema made ready.
#[derive(Debug)]
pub(super) struct Schema {
    validator: Validator,
}

impl Schema {
    /// The part of `document` that is at `pointer` (RFC 6901), or all of it.
    ///
    /// Whatever the schema refers to must be in it: nothing is fetched. Patterns are matched in linear time.
    pub(super) fn new(document: &Json, pointer: &str) -> Result<Self, String> {
        let part = document.pointer(pointer);
        let part = part.ok_or_else(|| format!("the schema has nothing at `{pointer}`"))?;
        Size { document, values: 0, patterns: 0 }.take(part, 0)?;
        let patterns =
            PatternOptions::regex().size_limit(PATTERN_MAX_BYTES).dfa_size_limit(PATTERN_MAX_BYTES);
        // the part is looked at where it stands, since it may refer to others
        let mut reference = json!({ "$ref": format!("{URI}#{pointer}") });
        if let (Some(draft), Some(members)) = (document.get("$schema"), reference.as_object_mut()) {
            members.insert("$schema".to_owned(), draft.clone());
        }
        let registry = Registry::new().add(URI, document).and_then(|builder| builder.prepare());
        let registry = registry.map_err(|error| error.to_string())?;
        let options = jsonschema::options().offline().with_pattern_options(patterns).with_registry(&registry);
        options.build(&reference).map(|validator| Self { validator }).map_err(|error| {
            let found: String = error.instance().to_string().chars().take(QUOTED_MAX_BYTES).collect();
            format!("{error} (`{found}` at `{}` of the schema)", error.instance_path())
        })
    }

    /// Whether `raw` keeps to it.
    pub(super) fn check(&self, raw: &Raw) -> Result<(), Rejection> {
        self.validator.validate(&raw.to_value()).map_err(|error| {
            let place = error.instance_path().to_string();
            let reason = if error.instance().to_string().len() > QUOTED_MAX_BYTES {
                error.masked_with("the value").to_string()
            } else {
                error.to_string()
            };
            // the place in the record may hold names of the record: that in the schema is the definition's own
            let bound = format!("it breaks `{}` of the schema", error.schema_path());
            Rejection::new(Rule::Schema, Some(place.as_str()).filter(|at| !at.is_empty()), reason)
                .of_bound(bound)
        })
    }
}

/// How much a schema asks for.
struct Size<'d> {
    document: &'d Json,
    values: usize,
    patterns: usize,
}

impl Size<'_> {
    /// Takes in `part` of the schema, which lies `depth` deep, and what it refers to.
    fn take(&mut self, part: &Json, depth: usize) -> Result<(), String> {
        self.values += 1;
        if self.values > VALUES_MAX || depth > DEPTH_MAX {
            return Err(format!(
                "with what it refers to written out in each place, a schema has at most {VALUES_MAX} values, {DEPTH_MAX} \
                 deep, so that none holds itself"
            ));
        }
        match part {
            Json::Array(items) => items.iter().try_for_each(|item| self.take(item, depth + 1)),
            Json::Object(members) => members.iter().try_for_each(|(name, member)| {
                self.patterns += match (name.as_str(), member) {
                    ("pattern", Json::String(_)) => 1,
                    ("patternProperties", Json::Object(patterns)) => patterns.len(),
                    _ => 0,
                };
                if self.patterns > PATTERNS_MAX {
                    return Err(format!("a schema has at most {PATTERNS_MAX} patterns"));
                }
                match (name.as_str(), member) {
                    ("$ref" | "$dynamicRef" | "$recursiveRef", Json::String(reference)) => {
                        let target = reference.strip_prefix('#').filter(|_| name == "$ref");
                        let target = target.and_then(|pointer| self.document.pointer(pointer));
                        let target = target.ok_or_else(|| {
                            format!(
                                "`{name}` is `{reference}`; a schema refers to its own parts alone, by `$ref` and a pointer \
                                 like `#/definitions/code`"
                            )
                        })?;
                        self.take(target, depth + 1)
                    }
                    _ => self.take(member, depth + 1),
                }
            }),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => Ok(()),
        }
    }
}
