//! Documents that are handed in from files.

use super::lines::{name, reason};
use super::{CtlError, Options, read_text};
use hyper::Method;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::path::Path;

/// A document, and what it says of itself.
pub(super) struct Document {
    file: String,
    text: String,
    json: Value,
}

impl Document {
    /// Reads one from a file, or from standard input where that is called `-`.
    pub(super) fn read(file: &Path) -> Result<Self, CtlError> {
        let text = read_text(file)?;
        let file = name(file);
        match serde_json::from_str(&text) {
            Ok(json) => Ok(Self { file, text, json }),
            Err(error) => {
                let (line, column) = (error.line(), error.column());
                let cause = format!("line {line}, column {column}: {}", reason(&error));
                Err(CtlError::Document { file, cause })
            }
        }
    }

    /// The text that stands at a place, a JSON pointer.
    pub(super) fn text_at(&self, place: &str) -> Result<&str, CtlError> {
        let missing =
            || CtlError::Document { file: self.file.clone(), cause: format!("there is no text at {place}") };
        self.json.pointer(place).and_then(Value::as_str).ok_or_else(missing)
    }

    /// Hands it in as it is.
    pub(super) async fn put<T: DeserializeOwned>(self, options: &Options, path: &str) -> Result<T, CtlError> {
        Ok(options.on_control(Method::PUT, path, Some(self.text.into())).await?.json()?)
    }
}

/// What became of what was handed in, in words.
pub(super) const fn how(unchanged: bool) -> &'static str {
    if unchanged { "was registered so already" } else { "is registered" }
}
