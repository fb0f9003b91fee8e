//! JSON read strictly: what is misspelt, or stands twice, is told of with its place. serde takes the last of two members of one
//! name without a word where those are no fields of a type.

use super::{told, told_with_place};
use crate::platform::problem::{Problem, ProblemCode};
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;
use std::collections::HashSet;
use std::fmt;

/// Reads `text` as a `T`, which is `kind` (`a request`). No name may stand twice in one object, whatever `T` makes of it.
///
/// # Errors
/// `InvalidJson` where it is not JSON; a problem with `code` and the position of the fault otherwise.
pub(crate) fn read<T: DeserializeOwned>(text: &[u8], kind: &str, code: ProblemCode) -> Result<T, Problem> {
    let Distinct = read_as(text, |error| match error.inner().classify() {
        Category::Data => Problem::new(code, told_with_place(&error)),
        Category::Io | Category::Syntax | Category::Eof => Problem::invalid_json(told(error.inner())),
    })?;
    // serde would take an array as the fields in their order, without their names
    if text.trim_ascii_start().starts_with(b"[") {
        return Err(Problem::new(code, format!("{kind} is an object, not an array")));
    }
    // it is JSON: whatever is wrong now is not what is wanted, also where serde calls that a fault of syntax
    read_as(text, |error| Problem::new(code, told_with_place(&error)))
}

fn read_as<T: DeserializeOwned>(
    text: &[u8],
    not_taken: impl FnOnce(serde_path_to_error::Error<serde_json::Error>) -> Problem,
) -> Result<T, Problem> {
    let mut json = serde_json::Deserializer::from_slice(text);
    let value = serde_path_to_error::deserialize(&mut json).map_err(not_taken)?;
    json.end().map_err(|error| Problem::invalid_json(told(&error)))?;
    Ok(value)
}

/// The sign that no name stands twice in an object.
struct Distinct;

impl<'de> Deserialize<'de> for Distinct {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        json.deserialize_any(DistinctVisitor)
    }
}

struct DistinctVisitor;

impl<'de> Visitor<'de> for DistinctVisitor {
    type Value = Distinct;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Distinct, E> {
        Ok(Distinct)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Distinct, E> {
        Ok(Distinct)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Distinct, E> {
        Ok(Distinct)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Distinct, E> {
        Ok(Distinct)
    }

    fn visit_str<E>(self, _: &str) -> Result<Distinct, E> {
        Ok(Distinct)
    }

    fn visit_unit<E>(self) -> Result<Distinct, E> {
        Ok(Distinct)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Distinct, A::Error> {
        while let Some(Distinct) = list.next_element()? {}
        Ok(Distinct)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Distinct, A::Error> {
        let mut names = HashSet::new();
        while let Some(name) = members.next_key::<String>()? {
            if names.contains(&name) {
                return Err(A::Error::custom(format_args!("the name `{name}` stands twice in one object")));
            }
            let Distinct = members.next_value()?;
            names.insert(name);
        }
        Ok(Distinct)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn complaint<T: DeserializeOwned>(text: &str) -> (&'static str, String) {
        let problem = read::<T>(text.as_bytes(), "a request", ProblemCode::InvalidRequest);
        let problem = problem.err().expect("it is not taken");
        (problem.document.code.as_str(), problem.to_string())
    }

    #[test]
    fn a_name_that_stands_twice_is_told_of_with_its_place() {
        for (text, place) in [
            (r#"{"a": 1, "a": 1}"#, "the name `a` "),
            (r#"{"a": [0, {"b": 1, "c": {}, "b": 2}]}"#, "a[1]: the name `b` "),
            (r#"{"a": {"b": {"x": 1}, "\u0062": null}}"#, "a: the name `b` "),
        ] {
            let (code, told) = complaint::<Value>(text);
            assert_eq!(code, "invalid_request", "{told}");
            assert!(told.starts_with(place) && told.contains("stands twice in one object"), "{told}");
        }
        let text = br#"{"a": {"b": 1}, "b": [{"a": 1}, {"a": 1.5}]}"#;
        let read: Value =
            read(text, "a request", ProblemCode::InvalidRequest).expect("no name stands twice in one object");
        assert_eq!(read, json!({"a": {"b": 1}, "b": [{"a": 1}, {"a": 1.5}]}));
    }

    #[test]
    fn what_is_not_known_is_told_of_with_its_place() {
        use oracled_domain::ground::ontology::Ontology;
        let text = r#"{"ontology_id": "ab", "version": "1", "axes": [
            {"axis": "x", "type": "number", "class": "measured", "unti": "g", "description": "x"}]}"#;
        let (code, told) = complaint::<Ontology>(text);
        assert_eq!(code, "invalid_request", "{told}");
        assert!(told.starts_with("axes[0].unti: unknown field `unti`"), "{told}");
    }

    #[test]
    fn what_is_not_json_is_that() {
        for text in ["", "{", "{} {}", "{'a': 1}", "\u{feff}{}"] {
            assert_eq!(complaint::<Value>(text).0, "invalid_json", "{text}");
        }
        assert_eq!(complaint::<Value>("[1]").0, "invalid_request");
    }
}
