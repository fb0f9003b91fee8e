//! Patterns of definitions.

use super::wording::reword_pattern_error;
use regex::{Regex, RegexBuilder};

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
