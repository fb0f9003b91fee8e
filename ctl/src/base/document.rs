//! Documents that are handed in from files.

use super::lines::{name, reason};
use super::output::shortened;
use crate::base::error::CtlError;
use crate::base::input::read_text;
use crate::base::options::Options;
use hyper::Method;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::path::Path;

/// Of what stands in the place of a text so much is shown, in characters.
const OTHER_MAX_CHARS: usize = 40;

/// A document, and what it says of itself.
pub(crate) struct Document {
    file: String,
    kind: &'static str,
    text: String,
    json: Value,
}

impl Document {
    /// Reads one from a file, or from standard input where that is called `-`; `kind` is what it should be, with its article.
    pub(crate) fn read(file: &Path, kind: &'static str) -> Result<Self, CtlError> {
        let text = read_text(file)?;
        let file = name(file);
        match serde_json::from_str(&text) {
            Ok(json) => Ok(Self { file, kind, text, json }),
            Err(error) => {
                let (line, column) = (error.line(), error.column());
                let cause = format!("line {line}, column {column}: {}", reason(&error));
                Err(CtlError::Document { file, kind, cause })
            }
        }
    }

    /// The text of a field, or of a field of one (`pipeline.pipeline_id`).
    pub(crate) fn text_at(&self, field: &str) -> Result<&str, CtlError> {
        let wrong = |cause| CtlError::Document { file: self.file.clone(), kind: self.kind, cause };
        match self.json.pointer(&format!("/{}", field.replace('.', "/"))) {
            Some(Value::String(text)) => Ok(text),
            Some(other) => {
                let other = shortened(&other.to_string(), OTHER_MAX_CHARS);
                Err(wrong(format!("`{field}` is a text, in quotes, and {other} stands there")))
            }
            None => Err(wrong(format!("`{field}` is missing"))),
        }
    }

    /// Hands it in as it is.
    pub(crate) async fn put<T: DeserializeOwned>(self, options: &Options, path: &str) -> Result<T, CtlError> {
        Ok(options.on_control(Method::PUT, path, Some(self.text.into())).await?.json()?)
    }
}

/// What became of what was handed in, in words.
pub(crate) const fn how(unchanged: bool) -> &'static str {
    if unchanged { "was registered so already" } else { "is registered" }
}
