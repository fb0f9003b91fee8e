//! Strict JSON: an unknown or repeated name is an error with its position. serde alone silently keeps the
//! last of two equal names in a map.

use super::{shorten_error, shorten_error_with_path};
use crate::platform::problem::{Problem, ProblemCode};
use domain_base::document::AnyDocument;
use domain_base::duplicate_keys::DuplicateKeyCheck;
use oracled_domain::documents::DocumentKind;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::de::SliceRead;
use serde_json::error::Category;
use serde_path_to_error::Track;

/// Reads `text` as a `T`. `kind` names it in errors (`a request`). A name must not occur twice in one object,
/// even if `T` ignores it.
///
/// # Errors
/// `InvalidJson` if the text is not JSON, else a problem with `code` and the position of the fault.
pub(crate) fn read<T: DeserializeOwned>(text: &[u8], kind: &str, code: ProblemCode) -> Result<T, Problem> {
    read_with(text, kind, code, |json| T::deserialize(json))
}

/// Reads `text` as a document of this kind, as strictly as [`read`].
///
/// # Errors
/// `InvalidJson`, `InvalidDocument`.
pub(crate) fn read_document(text: &[u8], kind: DocumentKind) -> Result<AnyDocument, Problem> {
    read_with(text, "a document", ProblemCode::InvalidDocument, |json| kind.read(json))
}

fn read_with<T>(
    text: &[u8],
    kind: &str,
    code: ProblemCode,
    read: impl FnOnce(JsonWithPath<'_, '_>) -> Result<T, serde_json::Error>,
) -> Result<T, Problem> {
    let DuplicateKeyCheck = read_as(
        text,
        |json| DuplicateKeyCheck::deserialize(json),
        |error| match error.inner().classify() {
            Category::Data => Problem::new(code, shorten_error_with_path(&error)),
            Category::Io | Category::Syntax | Category::Eof => {
                Problem::invalid_json(shorten_error(error.inner()))
            }
        },
    )?;
    // serde also accepts an array with the fields in their order
    if text.trim_ascii_start().starts_with(b"[") {
        return Err(Problem::new(code, format!("{kind} must be an object, not an array")));
    }
    // the text is JSON, so any error means a wrong type, even if serde classifies the error as syntax
    read_as(text, read, |error| Problem::new(code, shorten_error_with_path(&error)))
}

/// JSON whose errors have the path of the fault.
type JsonWithPath<'a, 'j> =
    serde_path_to_error::Deserializer<'a, 'a, &'a mut serde_json::Deserializer<SliceRead<'j>>>;

fn read_as<T>(
    text: &[u8],
    read: impl FnOnce(JsonWithPath<'_, '_>) -> Result<T, serde_json::Error>,
    not_taken: impl FnOnce(serde_path_to_error::Error<serde_json::Error>) -> Problem,
) -> Result<T, Problem> {
    let mut json = serde_json::Deserializer::from_slice(text);
    let mut track = Track::new();
    let value = read(serde_path_to_error::Deserializer::new(&mut json, &mut track));
    let value = value.map_err(|error| not_taken(serde_path_to_error::Error::new(track.path(), error)))?;
    json.end().map_err(|error| Problem::invalid_json(shorten_error(&error)))?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read_error<T: DeserializeOwned>(text: &str) -> (&'static str, String) {
        let problem = read::<T>(text.as_bytes(), "a request", ProblemCode::InvalidRequest);
        let problem = problem.err().expect("the body is rejected");
        (problem.document.code.as_str(), problem.to_string())
    }

    #[test]
    fn repeated_name_is_reported_with_its_position() {
        for (text, prefix) in [
            (r#"{"a": 1, "a": 1}"#, "the name `a` "),
            (r#"{"a": [0, {"b": 1, "c": {}, "b": 2}]}"#, "a[1]: the name `b` "),
            (r#"{"a": {"b": {"x": 1}, "\u0062": null}}"#, "a: the name `b` "),
        ] {
            let (code, message) = read_error::<Value>(text);
            assert_eq!(code, "invalid_request", "{message}");
            assert!(
                message.starts_with(prefix) && message.contains("occurs twice in one object"),
                "{message}"
            );
        }
        let text = br#"{"a": {"b": 1}, "b": [{"a": 1}, {"a": 1.5}]}"#;
        let read: Value =
            read(text, "a request", ProblemCode::InvalidRequest).expect("no name occurs twice in one object");
        assert_eq!(read, json!({"a": {"b": 1}, "b": [{"a": 1}, {"a": 1.5}]}));
    }

    #[test]
    fn unknown_name_is_reported_with_its_position() {
        use domain_ground::ontology::Ontology;
        let text = r#"{"ontology_id": "ab", "version": "1", "axes": [
            {"axis": "x", "type": "number", "class": "measured", "unti": "g", "description": "x"}]}"#;
        let (code, message) = read_error::<Ontology>(text);
        assert_eq!(code, "invalid_request", "{message}");
        assert!(message.starts_with("axes[0].unti: unknown field `unti`"), "{message}");
    }

    #[test]
    fn text_that_is_not_json_is_invalid_json() {
        for text in ["", "{", "{} {}", "{'a': 1}", "\u{feff}{}"] {
            assert_eq!(read_error::<Value>(text).0, "invalid_json", "{text}");
        }
        assert_eq!(read_error::<Value>("[1]").0, "invalid_request");
    }
}
