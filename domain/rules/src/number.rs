//! Exact numbers as digits: no rounding, and no limit of size.

use std::cmp::Ordering;

/// A number with all of its digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ExactNumber {
    negative: bool,
    /// Without leading zeros.
    whole: String,
    /// Without trailing zeros.
    fraction: String,
}

impl ExactNumber {
    /// Parses digits with a decimal point, with one kind of `separators` between thousands, and with a hyphen or minus
    /// as the sign.
    pub(super) fn parse(text: &str, separators: &[char]) -> Option<Self> {
        let (negative, digits) = match text.strip_prefix(['-', '−']) {
            Some(digits) => (true, digits),
            None => (false, text),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let whole = ungrouped(whole, separators)?;
        let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || !all_digits(&whole) || !all_digits(fraction) {
            return None;
        }
        Some(Self::of(negative, &whole, fraction))
    }

    /// The number as text, without superfluous zeros and without separators.
    pub(super) fn text(&self) -> String {
        let sign = if self.negative { "-" } else { "" };
        let whole = if self.whole.is_empty() { "0" } else { &self.whole };
        let point = if self.fraction.is_empty() { "" } else { "." };
        format!("{sign}{whole}{point}{}", self.fraction)
    }

    fn of(negative: bool, whole: &str, fraction: &str) -> Self {
        let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
        let negative = negative && !(whole.is_empty() && fraction.is_empty());
        Self { negative, whole: whole.to_owned(), fraction: fraction.to_owned() }
    }

    pub(super) fn cmp(&self, other: &Self) -> Ordering {
        let size = |number: &Self| (number.whole.len(), number.whole.clone(), number.fraction.clone());
        match (self.negative, other.negative) {
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
            (false, false) => size(self).cmp(&size(other)),
            (true, true) => size(other).cmp(&size(self)),
        }
    }
}

/// `whole` without its separators, if the same separator precedes every group of three digits. "1,5" and "0,123" are
/// rejected, because they may be fractions.
fn ungrouped(whole: &str, separators: &[char]) -> Option<String> {
    let Some(separator) = whole.chars().find(|character| separators.contains(character)) else {
        return Some(whole.to_owned());
    };
    let mut groups = whole.split(separator);
    let is_first = |group: &str| (1..=3).contains(&group.len()) && !group.starts_with('0');
    let is_grouped = groups.next().is_some_and(is_first) && groups.all(|group| group.len() == 3);
    is_grouped.then(|| whole.replace(separator, ""))
}
