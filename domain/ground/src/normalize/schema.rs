//! JSON Schemas for raw records.
//!
//! Registration limits schemas: a schema contains everything that it refers to, has no recursion, and is not too large
//! with all references expanded. The time to check a record is therefore limited by the size of the record.

use crate::rejection::{RecordRejection, RecordRule};
use domain_base::raw::SourceValue;
use domain_base::text_form::to_nfc;
use jsonschema::{PatternOptions, Registry, Validator};
use serde_json::{Value as Json, json};

/// The maximum memory of a compiled pattern, in bytes.
const PATTERN_MAX_BYTES: usize = 1 << 20;
/// The maximum number of patterns in a schema.
const PATTERNS_MAX: usize = 64;
/// The maximum number of values in a schema with all references expanded.
const VALUES_MAX: usize = 10_000;
/// The maximum nesting depth of values.
const DEPTH_MAX: usize = 64;
/// The maximum work to check one record: the number of values of the schema with references expanded, times the number
/// of values of the record.
const WORK_MAX: u64 = 20_000_000;
/// The bytes of text in a record that count as one value.
const TEXT_BYTES_A_VALUE: usize = 64;
/// The maximum length of a failing value that is quoted, in bytes.
const QUOTED_MAX_BYTES: usize = 100;
/// The URI of a schema while it is compiled.
const URI: &str = "urn:schema";

#[derive(Debug)]
pub(super) struct CompiledSchema {
    validator: Validator,
    /// The number of its values, with references expanded.
    values: usize,
    /// Whether the schema may compare each value of a record with all others.
    is_quadratic: bool,
}

impl CompiledSchema {
    /// Compiles the part of `document` at `pointer` (RFC 6901), or all of it.
    ///
    /// The schema must contain everything that it refers to, because nothing is fetched. Patterns are matched in linear
    /// time.
    pub(super) fn new(document: &Json, pointer: &str) -> Result<Self, String> {
        let (document, pointer) = (&in_nfc(document), &*to_nfc(pointer));
        let part = document.pointer(pointer);
        let part = part.ok_or_else(|| format!("the schema has nothing at `{pointer}`"))?;
        check_names(document, true, is_of_draft_4(document))?;
        let mut size = SchemaSize { document, values: 0, patterns: 0, is_quadratic: false };
        size.count_part(part, 0, 1)?;
        let SchemaSize { values, is_quadratic: looks_back, .. } = size;
        let patterns =
            PatternOptions::regex().size_limit(PATTERN_MAX_BYTES).dfa_size_limit(PATTERN_MAX_BYTES);
        // the part is compiled in its place, because it may refer to other parts
        let mut reference = json!({ "$ref": format!("{URI}#{pointer}") });
        if let (Some(draft), Some(members)) = (document.get("$schema"), reference.as_object_mut()) {
            members.insert("$schema".to_owned(), draft.clone());
        }
        let registry = Registry::new().add(URI, document).and_then(|builder| builder.prepare());
        let registry = registry.map_err(|error| error.to_string())?;
        let options = jsonschema::options().offline().with_pattern_options(patterns).with_registry(&registry);
        options
            .build(&reference)
            .map(|validator| Self { validator, values, is_quadratic: looks_back })
            .map_err(|error| {
                let found: String = error.instance().to_string().chars().take(QUOTED_MAX_BYTES).collect();
                format!("{error} (`{found}` at `{}` of the schema)", error.instance_path())
            })
    }

    /// Checks `raw` against the schema.
    pub(super) fn check(&self, raw: &SourceValue) -> Result<(), RecordRejection> {
        let record = raw.to_value();
        let work = self.count_work(&record);
        if work > WORK_MAX {
            let reason = format!(
                "checking it takes {work} units of work; at most {WORK_MAX} are allowed: split the record or shorten the schema"
            );
            return Err(RecordRejection::new(RecordRule::Schema, None, reason));
        }
        self.validator.validate(&record).map_err(|error| {
            let pointer = error.instance_path().to_string();
            let reason = if error.instance().to_string().len() > QUOTED_MAX_BYTES {
                error.masked_with("the value").to_string()
            } else {
                error.to_string()
            };
            // the path in the record may contain names of the record; the path in the schema belongs to the definition
            let bound = format!("it breaks `{}` of the schema", error.schema_path());
            RecordRejection::new(
                RecordRule::Schema,
                Some(pointer.as_str()).filter(|at| !at.is_empty()),
                reason,
            )
            .with_bound(bound)
        })
    }
}

impl CompiledSchema {
    /// The work to check `record`.
    fn count_work(&self, record: &Json) -> u64 {
        let values = values_in(record) as u64;
        let times = if self.is_quadratic { values } else { 1 };
        values.saturating_mul(times).saturating_mul(self.values as u64)
    }
}

/// The number of values in `json`. A text counts by its length.
fn values_in(json: &Json) -> usize {
    let of_text = |text: &str| 1 + text.len() / TEXT_BYTES_A_VALUE;
    match json {
        Json::String(text) => of_text(text),
        Json::Array(items) => 1 + items.iter().map(values_in).sum::<usize>(),
        Json::Object(members) => {
            1 + members.iter().map(|(name, member)| of_text(name) + values_in(member)).sum::<usize>()
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => 1,
    }
}

/// The schema with its names and texts in Unicode NFC, as those of records are.
fn in_nfc(part: &Json) -> Json {
    match part {
        Json::String(text) => Json::String(to_nfc(text).into_owned()),
        Json::Array(items) => items.iter().map(in_nfc).collect(),
        Json::Object(members) => {
            let members = members.iter().map(|(name, member)| (to_nfc(name).into_owned(), in_nfc(member)));
            Json::Object(members.collect())
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => part.clone(),
    }
}

fn is_of_draft_4(document: &Json) -> bool {
    document.get("$schema").and_then(Json::as_str).is_some_and(|draft| draft.contains("draft-04"))
}

/// Rejects names that give a part of the schema its own base or draft. A pointer in such a part would refer
/// to another part than the one that is counted.
fn check_names(part: &Json, is_root: bool, draft_4: bool) -> Result<(), String> {
    match part {
        Json::Array(items) => items.iter().try_for_each(|item| check_names(item, false, draft_4)),
        Json::Object(members) => members.iter().try_for_each(|(name, member)| {
            let is_base = matches!(name.as_str(), "$id" | "$schema") || draft_4 && name == "id";
            if is_base && !is_root && member.is_string() {
                return Err(format!(
                    "`{name}` is {member} inside the schema; it is only allowed at the top level"
                ));
            }
            check_names(member, false, draft_4)
        }),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => Ok(()),
    }
}

/// The size of a schema, as counted so far.
struct SchemaSize<'d> {
    document: &'d Json,
    values: usize,
    patterns: usize,
    is_quadratic: bool,
}

impl SchemaSize<'_> {
    /// Counts `part` of the schema and the parts that it refers to. `part` is at `depth`, and is applied `times` times.
    fn count_part(&mut self, part: &Json, depth: usize, times: usize) -> Result<(), String> {
        self.values = self.values.saturating_add(times);
        if self.values > VALUES_MAX || depth > DEPTH_MAX {
            return Err(format!(
                "the schema is too large or recursive (with references expanded, at most {VALUES_MAX} values, nested \
                 {DEPTH_MAX} deep, allowed)"
            ));
        }
        match part {
            Json::Array(items) => items.iter().try_for_each(|item| self.count_part(item, depth + 1, times)),
            Json::Object(members) => {
                let looks_back = ["unevaluatedProperties", "unevaluatedItems"];
                let looks_back = looks_back.iter().any(|name| members.contains_key(*name));
                self.is_quadratic |= looks_back;
                // the validator applies the other members of the schema again, to find the evaluated ones
                let times = if looks_back { times.saturating_mul(2) } else { times };
                members.iter().try_for_each(|(name, member)| {
                self.patterns += match (name.as_str(), member) {
                    ("pattern", Json::String(_)) => 1,
                    ("patternProperties", Json::Object(patterns)) => patterns.len(),
                    _ => 0,
                };
                if self.patterns > PATTERNS_MAX {
                    return Err(format!("the schema has too many patterns (at most {PATTERNS_MAX} allowed)"));
                }
                match (name.as_str(), member) {
                    ("$ref" | "$dynamicRef" | "$recursiveRef", Json::String(reference)) => {
                        let target = reference.strip_prefix('#').filter(|_| name == "$ref");
                        let target = target.filter(|pointer| !pointer.contains('%')).and_then(|pointer| self.document.pointer(pointer));
                        let target = target.ok_or_else(|| {
                            format!(
                                "`{name}` is `{reference}`; a schema can only refer to its own parts, by `$ref` and a pointer \
                                 like `#/definitions/code`, without `%`"
                            )
                        })?;
                        self.count_part(target, depth + 1, times)
                    }
                    _ => self.count_part(member, depth + 1, times),
                }
            })
            }
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => Ok(()),
        }
    }
}
