//! Errors about texts, and the rewording of the errors of serde and regex: on one line, without Rust type names.
//!
//! Numbers with their noun.

use regex::{Regex, RegexBuilder};
use std::borrow::Cow;
use std::fmt::Display;

/// The maximum length of input that an error quotes, in characters.
pub const QUOTED_MAX_CHARS: usize = 80;

/// The beginning of a caller's text, to quote in an error. The text may be as long as a request.
#[must_use]
pub fn excerpt(text: &str) -> String {
    text.chars().take(QUOTED_MAX_CHARS).collect()
}

/// A text that is not what it must be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not {what}; allowed: {allowed}")]
pub struct ParseTextError {
    /// The name of a valid text, with an article: "a tier".
    pub what: &'static str,
    /// The beginning of the text.
    pub given: String,
    /// The allowed texts.
    pub allowed: Cow<'static, str>,
}

impl ParseTextError {
    pub fn new(what: &'static str, given: &str, allowed: impl Into<Cow<'static, str>>) -> Self {
        Self { what, given: excerpt(given), allowed: allowed.into() }
    }
}

/// Rewords a message of serde that names Rust types.
#[must_use]
pub fn reword_serde_error(message: &str) -> String {
    let (what, place) = message.split_at(message.rfind(" at line ").unwrap_or(message.len()));
    if what == "expected value" {
        // serde reports this if an enum is expected: one of several words, or an object whose only member is one of them
        return format!("invalid type: expected one of the allowed words{place}");
    }
    if what == "invalid type: unit variant, expected struct variant" {
        return format!("the word alone is not enough; write an object whose only member is the word{place}");
    }
    let Some((given, expected)) =
        what.rsplit_once(", expected ").filter(|(given, _)| is_invalid_input(given))
    else {
        return message.to_owned();
    };
    format!("{}, expected {}{place}", reword_given(given), reword_expected(expected))
}

fn is_invalid_input(given: &str) -> bool {
    ["type: ", "value: ", "length "]
        .iter()
        .any(|what| given.strip_prefix("invalid ").is_some_and(|given| given.starts_with(what)))
}

fn reword_given(given: &str) -> String {
    match given {
        "invalid type: map" => "invalid type: object".into(),
        "invalid type: sequence" => "invalid type: list".into(),
        "invalid type: unit variant" => "invalid type: the word alone".into(),
        _ => given.replacen("invalid type: floating point ", "invalid type: number ", 1),
    }
}

fn reword_expected(expected: &str) -> &str {
    match expected {
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number of at least 0",
        "f32" | "f64" => "a number",
        "a map" | "map" => "an object",
        "a sequence" => "a list",
        "a string" | "a borrowed string" => "a text",
        "a boolean" => "true or false",
        "unit" | "unit variant" => "the word alone",
        _ if expected.starts_with("struct ") || expected == "struct variant" => "an object",
        _ if expected.starts_with("internally tagged enum ") => "an object",
        _ if expected.starts_with("adjacently tagged enum ") => "an object",
        _ if expected.starts_with("enum ") => "one of the allowed words",
        _ => expected,
    }
}

/// The fault of a pattern, without the diagram that regex draws.
#[must_use]
pub fn reword_pattern_error(error: &regex::Error) -> String {
    let message = error.to_string();
    let what = message.rsplit_once("error: ").map_or(message.as_str(), |(_, what)| what);
    format!("it is not a pattern: {}", what.trim().replace('\n', " "))
}

/// The maximum length of a pattern, in bytes.
const PATTERN_MAX_BYTES: usize = 1024;
/// The maximum memory of a compiled pattern, in bytes.
const COMPILED_MAX_BYTES: usize = 256 * 1024;

/// Compiles a pattern that must match a whole text.
///
/// # Errors
/// The fault of the pattern.
pub fn compile_pattern(pattern: &str) -> Result<Regex, String> {
    if !(1..=PATTERN_MAX_BYTES).contains(&pattern.len()) {
        return Err(format!("a text of 1 to {PATTERN_MAX_BYTES} bytes is required"));
    }
    let built = |pattern: &str| {
        RegexBuilder::new(pattern).size_limit(COMPILED_MAX_BYTES).dfa_size_limit(COMPILED_MAX_BYTES).build()
    };
    // the pattern alone first: it must not close the added parentheses
    let whole = built(pattern).and_then(|_| built(&format!("^(?:{pattern})$")));
    whole.map_err(|error| reword_pattern_error(&error).to_string())
}

/// A number with its noun, singular or plural.
#[must_use]
pub fn format_count(number: impl Display, one: &str, several: &str) -> String {
    let number = number.to_string();
    let noun = if number == "1" { one } else { several };
    format!("{number} {noun}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serde_error_that_names_rust_types_is_reworded() {
        for (message, plain_words) in [
            (
                "invalid type: string \"x\", expected struct Axis at line 1 column 59",
                "invalid type: string \"x\", expected an object at line 1 column 59",
            ),
            ("invalid type: map, expected a sequence", "invalid type: object, expected a list"),
            (
                "invalid type: floating point `1.5`, expected i32",
                "invalid type: number `1.5`, expected a whole number",
            ),
            (
                "invalid value: integer `-1`, expected u64",
                "invalid value: integer `-1`, expected a whole number of at least 0",
            ),
            (
                "invalid type: unit variant, expected struct variant at line 1 column 9",
                "the word alone is not enough; write an object whose only member is the word at line 1 column 9",
            ),
            (
                "invalid type: integer `3`, expected struct variant Format::Csv",
                "invalid type: integer `3`, expected an object",
            ),
            (
                "invalid type: string \"m\", expected adjacently tagged enum Trigger",
                "invalid type: string \"m\", expected an object",
            ),
            (
                "invalid length 0, expected struct QueryRequest with 8 elements",
                "invalid length 0, expected an object",
            ),
            (
                "expected value at line 1 column 82",
                "invalid type: expected one of the allowed words at line 1 column 82",
            ),
        ] {
            assert_eq!(reword_serde_error(message), plain_words);
        }
    }

    #[test]
    fn serde_error_without_type_names_is_kept() {
        for message in [
            "invalid type: string \"a, expected u64\", expected a day",
            "unknown field `a, expected i32`, expected `b` or `c`",
            "missing field `a`",
            "it is wrong, expected u64",
            "",
        ] {
            assert_eq!(reword_serde_error(message), message);
        }
    }

    #[test]
    fn fault_of_a_pattern_is_on_one_line() {
        for pattern in ["(", "a{2,1}", "(?x)\n[", "(a{1000}){1000}", "\\p{Nope}"] {
            let error =
                RegexBuilder::new(pattern).size_limit(1000).build().expect_err("the value is invalid");
            let message = reword_pattern_error(&error);
            assert!(message.starts_with("it is not a pattern: ") && !message.contains('\n'), "{message}");
            assert!(message.len() < 100, "{message}");
        }
    }
}
