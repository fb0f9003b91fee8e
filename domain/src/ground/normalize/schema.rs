//! JSON Schemas for raw records.

use crate::ground::raw::Raw;
use crate::ground::rejection::{Rejection, Rule};
use jsonschema::{PatternOptions, Validator};
use serde_json::Value as Json;

/// A compiled pattern of a schema takes so much memory at the most.
const PATTERN_MAX_BYTES: usize = 1 << 20;

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
        if document.pointer(pointer).is_none() {
            return Err(format!("the schema has nothing at `{pointer}`"));
        }
        let patterns =
            PatternOptions::regex().size_limit(PATTERN_MAX_BYTES).dfa_size_limit(PATTERN_MAX_BYTES);
        let options = jsonschema::options().offline().with_pattern_options(patterns);
        let part = if pointer.is_empty() {
            document.clone()
        } else {
            // the part is looked at where it stands, since it may refer to others
            let mut whole = document.clone();
            let draft = whole.get("$schema").cloned();
            if let Some(members) = whole.as_object_mut() {
                members.retain(|name, _| ["definitions", "$defs"].contains(&name.as_str()));
            }
            let mut part = document.pointer(pointer).cloned().unwrap_or_default();
            if let (Some(part), Some(whole)) = (part.as_object_mut(), whole.as_object_mut()) {
                part.append(whole);
                part.extend(draft.map(|draft| ("$schema".to_owned(), draft)));
            }
            part
        };
        options.build(&part).map(|validator| Self { validator }).map_err(|error| error.to_string())
    }

    /// Whether `raw` keeps to it.
    pub(super) fn check(&self, raw: &Raw) -> Result<(), Rejection> {
        self.validator.validate(&raw.to_value()).map_err(|error| {
            let place = error.instance_path().to_string();
            Rejection::new(Rule::Schema, Some(place.as_str()).filter(|at| !at.is_empty()), error.to_string())
        })
    }
}
