//! The format of a payload, by which it is split into raw records (seed: `rfc-0002-ground-truth`, "Data Ingestion
//! Pipeline").

pub mod payload_kind;

use domain_base::text_form::{into_nfc, is_blank, to_nfc};
use domain_base::wording::{compile_pattern, excerpt};
use regex::Regex;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::HashSet;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// The longest path to the records, in characters.
pub const PATH_MAX_CHARS: usize = 1024;
/// The maximum number of steps in a path.
pub const PATH_MAX_STEPS: usize = 32;
/// The longest mark of comments, in characters.
const COMMENT_MARK_MAX_CHARS: usize = 8;

// absent options are serialized with their defaults, so that both forms of a format have the same digest
/// The format of a payload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum PayloadFormat {
    /// One JSON document (RFC 8259) that contains a list of objects.
    Json {
        /// The JSON Pointer to the list.
        records: RecordsPath,
    },
    /// One JSON object per line; blank lines are skipped.
    Ndjson,
    /// Comma-separated values (RFC 4180) with a header line; empty lines are skipped.
    Csv {
        /// The character between two fields; `,` by default.
        #[serde(default)]
        delimiter: CsvDelimiter,
        /// Whether a field in double quotes may contain delimiters and line breaks; true by default.
        #[serde(default = "quoted")]
        quote: bool,
        /// The number of lines before the header line; 0 by default.
        #[serde(default, skip_serializing_if = "is_zero")]
        skip_lines: u16,
        /// The beginning of lines that are comments, such as `#`; they are skipped.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        comment: Option<CommentMark>,
        /// The names of the columns of a payload without a header line. A column with a blank name is ignored.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        columns: Vec<String>,
        /// Columns that become records of their own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unpivot: Option<ColumnUnpivot>,
    },
    /// Tab-separated values with a header line and without quotes; empty lines are skipped.
    Tsv {
        /// The number of lines before the header line; 0 by default.
        #[serde(default, skip_serializing_if = "is_zero")]
        skip_lines: u16,
        /// The beginning of lines that are comments, such as `#`; they are skipped.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        comment: Option<CommentMark>,
        /// The names of the columns of a payload without a header line. A column with a blank name is ignored.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        columns: Vec<String>,
        /// Columns that become records of their own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unpivot: Option<ColumnUnpivot>,
    },
}

/// Turns a wide table into a long one: each cell of the selected columns that is not blank becomes a record. It has the other
/// columns of its row, the name of its column, and its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ColumnUnpivot {
    /// The pattern that matches the whole names of the selected columns, such as `[0-9]{4}`.
    pub columns: String,
    /// The field for the name of the column.
    pub name: String,
    /// The field for the value of the cell.
    pub value: String,
}

/// How the lines of a CSV or a TSV are read.
#[derive(Debug, Clone, Copy)]
pub struct TableForm<'f> {
    pub delimiter: CsvDelimiter,
    pub quote: bool,
    pub skip_lines: u16,
    pub comment: Option<&'f CommentMark>,
    /// Empty if the payload has a header line.
    pub columns: &'f [String],
    pub unpivot: Option<&'f ColumnUnpivot>,
}

impl PayloadFormat {
    /// How the lines are read, if the payload is a table.
    #[must_use]
    pub fn table(&self) -> Option<TableForm<'_>> {
        let (delimiter, quote, skip_lines, comment, columns, unpivot) = match self {
            Self::Csv { delimiter, quote, skip_lines, comment, columns, unpivot } => {
                (*delimiter, *quote, *skip_lines, comment, columns, unpivot)
            }
            Self::Tsv { skip_lines, comment, columns, unpivot } => {
                (CsvDelimiter::TAB, false, *skip_lines, comment, columns, unpivot)
            }
            Self::Json { .. } | Self::Ndjson => return None,
        };
        let (comment, unpivot) = (comment.as_ref(), unpivot.as_ref());
        Some(TableForm { delimiter, quote, skip_lines, comment, columns, unpivot })
    }
}

impl TableForm<'_> {
    /// Checks the names of the columns, and the columns that become records of their own.
    ///
    /// # Errors
    /// The fault, with the name of its option.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        let mut seen = HashSet::new();
        if let Some(name) = self.columns.iter().find(|name| !is_blank(name) && !seen.insert(to_nfc(name))) {
            return Err(("columns", format!("it has `{}` twice", excerpt(name))));
        }
        let unpivot = self.unpivot.map_or(Ok(()), |unpivot| unpivot.compile().map(drop));
        unpivot.map_err(|fault| ("unpivot", fault))
    }
}

/// Why a text is not the beginning of comments.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a mark of comments (1 to {COMMENT_MARK_MAX_CHARS} visible ASCII characters without `\"` allowed)"
)]
pub struct CommentMarkError(String);

/// The beginning of lines that are comments: 1 to 8 visible ASCII characters without `"`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(try_from = "String", into = "String")]
#[schema(value_type = String, pattern = "^[!#-~]{1,8}$")]
pub struct CommentMark(String);

impl CommentMark {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for CommentMark {
    type Error = CommentMarkError;

    fn try_from(text: String) -> Result<Self, CommentMarkError> {
        let is_allowed = |byte: u8| byte.is_ascii_graphic() && byte != b'"';
        if (1..=COMMENT_MARK_MAX_CHARS).contains(&text.len()) && text.bytes().all(is_allowed) {
            Ok(Self(text))
        } else {
            Err(CommentMarkError(excerpt(&text)))
        }
    }
}

impl From<CommentMark> for String {
    fn from(mark: CommentMark) -> Self {
        mark.0
    }
}

impl ColumnUnpivot {
    /// The pattern of the selected columns.
    ///
    /// # Errors
    /// The fault of the pattern, or of a name.
    pub fn compile(&self) -> Result<Regex, String> {
        let Self { columns, name, value } = self;
        if is_blank(name) || is_blank(value) || to_nfc(name) == to_nfc(value) {
            return Err(format!("`name` (`{name}`) and `value` (`{value}`) must be two different names"));
        }
        compile_pattern(&to_nfc(columns)).map_err(|fault| format!("`columns`: {fault}"))
    }
}

// serde passes a reference
#[expect(clippy::trivially_copy_pass_by_ref)]
const fn is_zero(lines: &u16) -> bool {
    *lines == 0
}

/// The compression of a payload as its source publishes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PayloadCompression {
    /// gzip (RFC 1952), with one or more members.
    Gzip,
    /// Zstandard (RFC 8878), with one or more frames.
    Zstd,
}

/// The encoding of a payload's text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum TextEncoding {
    #[default]
    #[serde(rename = "utf-8")]
    Utf8,
    /// Latin-1, read as Windows-1252, which has printable characters in the place of control characters.
    #[serde(rename = "latin-1")]
    Latin1,
    #[serde(rename = "utf-16le")]
    Utf16Le,
    #[serde(rename = "utf-16be")]
    Utf16Be,
}

impl TextEncoding {
    #[must_use]
    pub fn is_utf_8(&self) -> bool {
        *self == Self::Utf8
    }
}

const fn quoted() -> bool {
    true
}

/// Why a text is not a path to the records.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordsPathError {
    /// The path is too long or has too many steps.
    #[error(
        "the path to the records is too long (at most {PATH_MAX_CHARS} characters and {PATH_MAX_STEPS} steps allowed): \
         {chars} characters and {steps} steps"
    )]
    Length {
        /// The number of characters.
        chars: usize,
        /// The number of steps.
        steps: usize,
    },
    /// The path is not empty and does not begin with a slash.
    #[error(
        "the path to the records is invalid: it is empty or begins with `/` (RFC 6901), as in `/data/items`"
    )]
    Start,
    /// A `~` without `0` or `1` after it.
    #[error("the path to the records has an invalid escape: write `~0` for `~` and `~1` for `/` (RFC 6901)")]
    Escape,
}

/// The JSON Pointer (RFC 6901) to the list of records in a JSON document; empty if the document is the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RecordsPath {
    text: String,
    steps: Vec<String>,
}

impl PartialSchema for RecordsPath {
    fn schema() -> RefOr<Schema> {
        let text = ObjectBuilder::new().schema_type(Type::String).max_length(Some(PATH_MAX_CHARS));
        let text = text.pattern(Some("^(/([^~]|~[01])*)?$"));
        let description = "A JSON Pointer (RFC 6901) such as `/data/items`; empty for the whole document.";
        text.description(Some(description)).into()
    }
}

impl ToSchema for RecordsPath {
    fn name() -> Cow<'static, str> {
        "RecordsPath".into()
    }
}

impl RecordsPath {
    /// The pointer as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The unescaped reference tokens in Unicode NFC, from the root on.
    #[must_use]
    pub fn steps(&self) -> &[String] {
        &self.steps
    }
}

impl TryFrom<String> for RecordsPath {
    type Error = RecordsPathError;

    fn try_from(text: String) -> Result<Self, RecordsPathError> {
        let (chars, steps) = (text.chars().count(), text.matches('/').count());
        if chars > PATH_MAX_CHARS || steps > PATH_MAX_STEPS {
            return Err(RecordsPathError::Length { chars, steps });
        }
        if !text.is_empty() && !text.starts_with('/') {
            return Err(RecordsPathError::Start);
        }
        let steps =
            text.split('/').skip(1).map(|step| unescaped(step).map(into_nfc)).collect::<Result<_, _>>()?;
        Ok(Self { text, steps })
    }
}

impl From<RecordsPath> for String {
    fn from(path: RecordsPath) -> Self {
        path.text
    }
}

/// A step with its escapes resolved.
fn unescaped(step: &str) -> Result<String, RecordsPathError> {
    let mut parts = step.split('~');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (mark, rest) = match (part.strip_prefix('0'), part.strip_prefix('1')) {
            (Some(rest), _) => ('~', rest),
            (_, Some(rest)) => ('/', rest),
            _ => return Err(RecordsPathError::Escape),
        };
        text.push(mark);
        text.push_str(rest);
    }
    Ok(text)
}

/// Why a character is not a delimiter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{given:?} is not a delimiter (one ASCII character allowed, except letters, digits, `\"` and line breaks)"
)]
pub struct CsvDelimiterError {
    given: char,
}

/// The delimiter of a CSV: one ASCII character that is not a letter, a digit, `"` or a line break.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(try_from = "char", into = "char")]
#[schema(value_type = String, pattern = r"^[\x00-\x09\x0b\x0c\x0e-!#-/:-@\[-`{-\x7f]$")]
pub struct CsvDelimiter(u8);

impl CsvDelimiter {
    /// The delimiter of a TSV.
    pub const TAB: Self = Self(b'\t');

    #[must_use]
    pub const fn byte(self) -> u8 {
        self.0
    }
}

impl Default for CsvDelimiter {
    fn default() -> Self {
        Self(b',')
    }
}

impl TryFrom<char> for CsvDelimiter {
    type Error = CsvDelimiterError;

    fn try_from(given: char) -> Result<Self, CsvDelimiterError> {
        match u8::try_from(given) {
            Ok(byte)
                if byte.is_ascii()
                    && !byte.is_ascii_alphanumeric()
                    && !matches!(byte, b'"' | b'\r' | b'\n') =>
            {
                Ok(Self(byte))
            }
            _ => Err(CsvDelimiterError { given }),
        }
    }
}

impl From<CsvDelimiter> for char {
    fn from(delimiter: CsvDelimiter) -> Self {
        Self::from(delimiter.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<PayloadFormat, serde_json::Error> {
        serde_json::from_str(json)
    }

    fn written(json: &str) -> String {
        serde_json::to_string(&read(json).unwrap()).unwrap()
    }

    #[test]
    fn format_serializes_with_all_options() {
        assert_eq!(written(r#"{"json":{"records":"/3166-1"}}"#), r#"{"json":{"records":"/3166-1"}}"#);
        assert_eq!(written(r#""ndjson""#), r#""ndjson""#);
        assert_eq!(written(r#"{"csv":{}}"#), r#"{"csv":{"delimiter":",","quote":true}}"#);
        assert_eq!(
            written(r#"{"csv":{"delimiter":";","quote":false}}"#),
            r#"{"csv":{"delimiter":";","quote":false}}"#
        );
        assert_eq!(written(r#"{"tsv":{}}"#), r#"{"tsv":{}}"#);
        let named = r##"{"tsv":{"skip_lines":1,"comment":"#","columns":["a",""]}}"##;
        assert_eq!(written(named), named);
    }

    #[test]
    fn format_error_names_unknown_format_or_field() {
        for (json, named) in [
            (r#"{"xml":{}}"#, "`xml`"),
            (r#"{"json":{}}"#, "`records`"),
            (r#"{"json":{"records":"","path":""}}"#, "`path`"),
            (r#"{"csv":{"header":false}}"#, "`header`"),
            (r#"{"tsv":{"quote":true}}"#, "`quote`"),
            (r#"{"csv":{"delimiter":"a"}}"#, "'a'"),
            (r#"{"csv":{"delimiter":"ü"}}"#, "'ü'"),
            (r#"{"csv":{"delimiter":"\""}}"#, "'\"'"),
            (r#"{"csv":{"delimiter":"\n"}}"#, "'\\n'"),
            (r#"{"csv":{"comment":""}}"#, "``"),
            (r##"{"tsv":{"comment":"# "}}"##, "`# `"),
            (r#"{"json":{"records":"data"}}"#, "begins with `/`"),
            (r#"{"json":{"records":"/a~2b"}}"#, "`~0`"),
            (r#"{"json":{"records":"/a~"}}"#, "`~0`"),
        ] {
            let error = read(json).unwrap_err().to_string();
            assert!(error.contains(named), "{json}: {error}");
        }
    }

    #[test]
    fn columns_with_a_repeated_name_are_refused() {
        let fault = |json: &str| {
            let format = read(json).unwrap();
            format.table().unwrap().check().err().map(|(option, _)| option)
        };
        assert_eq!(fault(r#"{"tsv":{"columns":["a","b","a"]}}"#), Some("columns"));
        assert_eq!(fault(r#"{"tsv":{"columns":["a",""," "]}}"#), None);
    }

    #[test]
    fn records_path_splits_json_pointer_into_steps() {
        let steps = |text: &str| RecordsPath::try_from(text.to_owned()).map(|path| path.steps().to_vec());
        assert_eq!(steps("").unwrap(), [""; 0]);
        assert_eq!(steps("/").unwrap(), [""]);
        assert_eq!(steps("/data/0/a~1b~0c").unwrap(), ["data", "0", "a/b~c"]);
        assert_eq!(steps("/~01").unwrap(), ["~1"], "an escape is resolved once");
        assert!(steps(&"/a".repeat(PATH_MAX_STEPS)).is_ok());
        assert!(matches!(steps(&"/a".repeat(PATH_MAX_STEPS + 1)), Err(RecordsPathError::Length { .. })));
        assert!(matches!(
            steps(&format!("/{}", "a".repeat(PATH_MAX_CHARS))),
            Err(RecordsPathError::Length { .. })
        ));
    }
}
