//! How a template writes a number.

use crate::base::decimal::{Decimal, PLACES_MAX, PLACES_MIN, Rounding};

/// Digits between two commas.
const GROUP_DIGITS: usize = 3;

/// The words for the powers of ten that a number may be counted in.
const SCALES: [(&str, i64); 4] =
    [("round", 1), ("thousand", 1_000), ("million", 1_000_000), ("billion", 1_000_000_000)];

/// A form of a number; by default it is its exact text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Figure {
    /// What it is counted in, and up to how many digits behind the point.
    rounded: Option<(i64, i32)>,
    /// Whether commas stand between the thousands.
    grouped: bool,
}

impl Figure {
    /// The form that is written `form`: `grouped`, or `million:1`, or `thousand:0:grouped`.
    pub(super) fn read(form: &str) -> Result<Self, String> {
        let unknown = || {
            let scales = SCALES.map(|(word, _)| format!("`{word}:N`")).join(", ");
            format!(
                "it is told as `unit`, `definition`, `grouped`, or rounded to N digits behind the point, {PLACES_MIN} to \
                 {PLACES_MAX}, as {scales}, each with `:grouped` behind it or without"
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

    /// Whether it is a number's exact text.
    pub(super) fn is_plain(self) -> bool {
        self == Self::default()
    }

    /// `number` in this form. Half-way it is rounded away from zero. Nothing where only zero is left of it, which would say
    /// that there is none.
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

/// The number that is `text` with commas between its thousands.
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
