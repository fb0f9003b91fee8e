//! Signs and units beside the numbers of a field.

use domain_base::unit::UcumUnit;
use std::collections::BTreeSet;

/// Signs of currencies, with the UCUM code of the currency if there is only one.
const CURRENCY_SIGNS: [(&str, Option<&str>); 14] = [
    ("€", Some("{EUR}")),
    ("£", Some("{GBP}")),
    ("₹", Some("{INR}")),
    ("₽", Some("{RUB}")),
    ("₩", Some("{KRW}")),
    ("zł", Some("{PLN}")),
    ("Kč", Some("{CZK}")),
    ("US$", Some("{USD}")),
    ("R$", Some("{BRL}")),
    ("A$", Some("{AUD}")),
    ("C$", Some("{CAD}")),
    ("$", None),
    ("¥", None),
    ("kr", None),
];
/// Codes of currencies. Another word of three capital letters before a number is probably a part of a code.
const CURRENCIES: [&str; 24] = [
    "EUR", "USD", "GBP", "CHF", "JPY", "CNY", "SEK", "NOK", "DKK", "PLN", "CZK", "HUF", "RON", "CAD", "AUD",
    "NZD", "INR", "BRL", "ZAR", "KRW", "MXN", "SGD", "HKD", "TRY",
];
/// The beginnings of bounds and estimates.
const BOUNDS: [char; 6] = ['<', '>', '≤', '≥', '~', '≈'];

/// The signs and units beside the numbers of a field.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CellAffix {
    /// Empty if there is none.
    pub(crate) prefix: String,
    /// Empty if there is none.
    pub(crate) suffix: String,
    /// Whether numbers in parentheses are negative.
    pub(crate) accounting: bool,
}

impl CellAffix {
    /// Whether there are only parentheses.
    pub(crate) const fn is_plain(&self) -> bool {
        self.prefix.is_empty() && self.suffix.is_empty()
    }

    /// The sign or the unit, as in the cells.
    pub(crate) fn unit(&self) -> Option<&str> {
        [self.suffix.as_str(), self.prefix.as_str()].into_iter().find(|text| !text.is_empty())
    }
}

/// Whether a text is a bound or an estimate, such as `<0.5`.
pub(super) fn is_bound(text: &str) -> bool {
    let number = text.trim_start_matches(|character: char| BOUNDS.contains(&character) || character == '=');
    number.len() < text.len()
        && number.trim_start().starts_with(|first: char| first.is_ascii_digit() || first == '.')
}

/// The UCUM code of a sign of a currency, of its code, or of a unit.
pub(crate) fn affix_code(text: &str) -> Option<String> {
    match CURRENCY_SIGNS.iter().find(|(sign, _)| *sign == text) {
        Some((_, code)) => code.map(str::to_owned),
        None if CURRENCIES.contains(&text) => Some(format!("{{{text}}}")),
        None => UcumUnit::from_spelling(text).ok().map(|unit| unit.code().to_owned()),
    }
}

/// The text beside the numbers, which is the same in all cells.
///
/// # Errors
/// The different texts; none if the cells are no numbers with a known sign or unit.
pub(super) fn find_affix(texts: &[&str]) -> Result<CellAffix, Vec<String>> {
    let split: Option<Vec<_>> = texts.iter().map(|text| split_affix(text)).collect();
    let Some(split) = split else { return Err(Vec::new()) };
    let accounting = split.iter().any(|affix| affix.accounting);
    let distinct: BTreeSet<_> = split.into_iter().map(|affix| CellAffix { accounting, ..affix }).collect();
    let mut affixes: Vec<_> = distinct.into_iter().collect();
    match affixes.pop() {
        Some(affix) if affixes.is_empty() && (accounting || !affix.is_plain()) => Ok(affix),
        last => {
            let shown = |affix: CellAffix| affix.unit().unwrap_or_default().to_owned();
            Err(affixes.into_iter().chain(last).map(shown).collect())
        }
    }
}

/// The text beside the number of one cell; `None` if the cell is no number, or the text is no known sign or unit.
fn split_affix(text: &str) -> Option<CellAffix> {
    let is_minus = |character: char| character == '-' || character == '−' || character == '+';
    let is_of_number = |character: char| {
        character.is_ascii_digit() || character == '.' || is_minus(character) || character == '('
    };
    let text = text.trim();
    let unsigned = text.trim_start_matches(is_minus);
    let (inner, is_enclosed) = match unsigned.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        Some(inner) => (inner.trim(), true),
        None => (unsigned, false),
    };
    let start = inner.find(is_of_number)?;
    let end =
        inner.rfind(|character: char| character.is_ascii_digit() || character == ')').map(|at| at + 1)?;
    let (prefix, suffix) = (inner.get(..start)?, inner.get(end..)?);
    let core = inner.get(start..end)?;
    let accounting = is_enclosed || core.starts_with('(');
    let is_spaced = suffix.starts_with(char::is_whitespace);
    let (prefix, suffix) = (prefix.trim(), suffix.trim());
    let is_known_prefix = prefix.is_empty() || is_currency(prefix);
    let is_known_suffix = suffix.is_empty() || is_currency(suffix) || is_unit(suffix, is_spaced);
    (is_known_prefix && is_known_suffix && (prefix.is_empty() || suffix.is_empty())).then(|| CellAffix {
        prefix: prefix.to_owned(),
        suffix: suffix.to_owned(),
        accounting,
    })
}

fn is_currency(text: &str) -> bool {
    CURRENCIES.contains(&text) || CURRENCY_SIGNS.iter().any(|(sign, _)| *sign == text)
}

/// Whether a text after a number is a unit. A single letter without a space is probably a part of a code, such as 5A.
fn is_unit(text: &str, is_spaced: bool) -> bool {
    let is_letter = text.chars().count() == 1 && text.chars().all(char::is_alphabetic);
    (is_spaced || !is_letter) && UcumUnit::from_spelling(text).is_ok()
}
