//! The forms in which a template writes a number.

use crate::base::decimal::{Decimal, PLACES_MAX, PLACES_MIN, Rounding};

/// The number of digits between two commas.
const GROUP_DIGITS: usize = 3;

/// The names of the powers of ten in which a number may be written.
const SCALES: [(&str, i64); 4] =
    [("round", 1), ("thousand", 1_000), ("million", 1_000_000), ("billion", 1_000_000_000)];

/// A form of a number; by default it is its exact text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct NumberFormat {
    /// The scale and the number of decimal places; `None` if the number is not rounded.
    rounded: Option<(i64, i32)>,
    /// Whether commas separate the thousands.
    grouped: bool,
}

impl NumberFormat {
    /// Parses a form, such as `grouped`, `million:1` or `thousand:0:grouped`.
    pub(super) fn read(form: &str) -> Result<Self, String> {
        let unknown = || {
            let scales = SCALES.map(|(word, _)| format!("`{word}:N`")).join(", ");
            format!(
                "the forms are `unit`, `definition` and `grouped`, or rounding to N decimal places, {PLACES_MIN} to \
                 {PLACES_MAX}, with {scales}, each optionally followed by `:grouped`"
            )
        };
        let (form, grouped) = match form.strip_suffix("grouped") {
            Some("") => return Ok(Self { rounded: None, grouped: true }),
            Some(form) => (form.strip_suffix(':').ok_or_else(unknown)?, true),
            None => (form, false),
        };
        let (word, places) = form.split_once(':').ok_or_else(unknown)?;
        let (_, scale) = SCALES.into_iter().find(|(known, _)| *known == word).ok_or_else(unknown)?;
        let places = places.parse::<i32>().ok().filter(|places| (PLACES_MIN..=PLACES_MAX).contains(places));
        Ok(Self { rounded: Some((scale, places.ok_or_else(unknown)?)), grouped })
    }

    /// Whether the form is the exact text of the number.
    pub(super) fn is_plain(self) -> bool {
        self == Self::default()
    }

    /// Formats `number`. Ties round away from zero. `None` if a number other than zero rounds to zero, because the text
    /// would be false.
    pub(super) fn of(self, number: &Decimal) -> Option<String> {
        let number = match self.rounded {
            None => number.clone(),
            Some((scale, places)) => {
                let rounded = number.div_rounded(&Decimal::from(scale), places, Rounding::HalfUp).ok()?;
                let zero = Decimal::from(0);
                if rounded == zero && *number != zero {
                    return None;
                }
                rounded
            }
        };
        let text = number.to_string();
        Some(if self.grouped { grouped(&text) } else { text })
    }
}

/// Formats a number's text with commas between its thousands.
fn grouped(text: &str) -> String {
    let whole = text.find('.').unwrap_or(text.len());
    let mut out = String::with_capacity(text.len() + text.len() / GROUP_DIGITS);
    for (at, letter) in text.char_indices() {
        let left = whole.saturating_sub(at);
        let is_between = at > 0 && left > 0 && left.is_multiple_of(GROUP_DIGITS) && !out.ends_with('-');
        if is_between {
            out.push(',');
        }
        out.push(letter);
    }
    out
}
