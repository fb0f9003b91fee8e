//! Numbers with their noun, for people.

use std::fmt::Display;

/// A number with its noun, singular or plural.
#[must_use]
pub fn format_count(number: impl Display, one: &str, several: &str) -> String {
    let number = number.to_string();
    let noun = if number == "1" { one } else { several };
    format!("{number} {noun}")
}
