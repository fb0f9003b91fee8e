//! Quantities in a text by their value: numbers with units, ranges, dates and times of day.

use super::language::LanguageTables;
use super::unit::leading_unit;
use crate::plain_text::is_space;
use domain_base::decimal::Decimal;
use regex::{Captures, Regex};
use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

/// A quantity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Quantity {
    /// A number from `low` to `high`, which are equal if it is no range.
    Number { low: Decimal, high: Decimal, unit: String },
    /// A day, or only its month and its year. A part that the text does not name is `None`.
    Date { year: Option<u32>, month: Option<u8>, day: Option<u8> },
    /// A time of day, in minutes.
    /// `is_half_open`: it can be in the morning or in the afternoon, as 7:30.
    Time { minutes: u32, is_half_open: bool },
    /// From one day or time to another.
    Span(Box<Quantity>, Box<Quantity>),
    /// A date with two readings, such as 3/4/2026.
    Ambiguous(String),
}

/// How two quantities compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QuantityMatch {
    Equal,
    /// The claim has the fact's value, rounded to its own digits.
    Rounded,
    Different,
}

impl Quantity {
    /// Compares the quantity of a claim, which is an approximate one if `is_about`, with that of a fact.
    pub(super) fn compare(&self, fact: &Self, is_about: bool) -> QuantityMatch {
        match (self, fact) {
            (Self::Number { unit: one, .. }, Self::Number { unit: other, .. }) if one != other => {
                QuantityMatch::Different
            }
            (Self::Number { low, high, .. }, Self::Number { low: fact_low, high: fact_high, .. }) => {
                if low == fact_low && high == fact_high {
                    QuantityMatch::Equal
                } else if is_about && low == high && fact_low == fact_high && is_rounded(low, fact_low) {
                    QuantityMatch::Rounded
                } else {
                    QuantityMatch::Different
                }
            }
            (Self::Date { .. }, Self::Date { .. }) if self == fact => QuantityMatch::Equal,
            // a year is a number
            (Self::Number { low, high, unit }, Self::Date { year: Some(year), month: None, day: None })
                if unit.is_empty() && low == high && *low == Decimal::from(i64::from(*year)) =>
            {
                QuantityMatch::Equal
            }
            (Self::Time { .. }, Self::Time { .. }) if self == fact => QuantityMatch::Equal,
            (Self::Span(..), Self::Span(..)) if self == fact => QuantityMatch::Equal,
            _ => QuantityMatch::Different,
        }
    }

    /// Whether both are of one kind, so that one could be taken for the other.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Number { unit: one, .. }, Self::Number { unit: other, .. }) => one == other,
            (Self::Date { .. } | Self::Ambiguous(_), Self::Date { .. } | Self::Ambiguous(_)) => true,
            (Self::Time { .. }, Self::Time { .. }) | (Self::Span(..), Self::Span(..)) => true,
            _ => false,
        }
    }

    /// The number as a year, if it can be one.
    pub(super) fn as_year(&self) -> Option<Self> {
        let Self::Number { low, high, unit } = self else { return None };
        let year =
            low.to_i64().filter(|year| (1800..2200).contains(year) && low == high && unit.is_empty())?;
        Some(Self::Date { year: u32::try_from(year).ok(), month: None, day: None })
    }

    /// Its value and its unit, if it is one number.
    pub(super) fn as_number(&self) -> Option<(&Decimal, &str)> {
        match self {
            Self::Number { low, high, unit } if low == high => Some((low, unit)),
            _ => None,
        }
    }

    /// Its two years, if it is a range of them: "from 2020 to 2021".
    pub(super) fn as_years(&self) -> Option<[Self; 2]> {
        let Self::Number { low, high, unit } = self else { return None };
        if low >= high {
            return None;
        }
        let year = |value: &Decimal| {
            Self::Number { low: value.clone(), high: value.clone(), unit: unit.clone() }.as_year()
        };
        Some([year(low)?, year(high)?])
    }

    pub(super) const fn is_clock(&self) -> bool {
        matches!(self, Self::Time { .. })
    }

    /// Whether it is a day or a time, and no amount.
    pub(super) const fn is_time(&self) -> bool {
        !matches!(self, Self::Number { .. })
    }

    /// Whether it is a number of seconds or months.
    pub(super) fn is_duration(&self) -> bool {
        matches!(self, Self::Number { unit, .. } if matches!(&**unit, "s" | "month"))
    }

    /// Whether it is a number without a unit, which counts what the words beside it name.
    pub(super) fn is_count(&self) -> bool {
        matches!(self, Self::Number { unit, .. } if unit.is_empty())
    }
}

/// Whether `rounded` is `exact`, rounded to the digits of `rounded` that are not zero.
fn is_rounded(rounded: &Decimal, exact: &Decimal) -> bool {
    let text = rounded.to_string();
    let places = match text.split_once('.') {
        Some((_, fraction)) => i32::try_from(fraction.len()).unwrap_or(0),
        None => {
            let zeros = text.len() - text.trim_end_matches('0').len();
            -i32::try_from(zeros).unwrap_or(0)
        }
    };
    let is_rounded =
        exact.round(places, domain_base::decimal::Rounding::HalfUp).is_ok_and(|exact| exact == *rounded);
    // at most 5 % away
    let twenty_times =
        exact.checked_sub(rounded).and_then(|difference| difference.checked_mul(&Decimal::from(20_i64)));
    let is_near = Decimal::from(0_i64).checked_sub(exact).is_ok_and(|opposite| {
        let limits = exact.min(&opposite)..=exact.max(&opposite);
        twenty_times.is_ok_and(|difference| limits.contains(&&difference))
    });
    is_rounded && is_near
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number { low, high, unit } => {
                let space = if unit.is_empty() { "" } else { " " };
                if low == high {
                    write!(f, "{low}{space}{unit}")
                } else {
                    write!(f, "{low} to {high}{space}{unit}")
                }
            }
            Self::Date { year, month, day } => {
                let part = |part: Option<u32>, digits: usize| match part {
                    Some(part) => format!("{part:0digits$}"),
                    None => "–".repeat(digits),
                };
                write!(
                    f,
                    "{}-{}-{}",
                    part(*year, 4),
                    part(month.map(u32::from), 2),
                    part(day.map(u32::from), 2)
                )
            }
            Self::Time { minutes, is_half_open } => {
                let half = if *is_half_open { " a.m. or p.m." } else { "" };
                write!(f, "{:02}:{:02}{half}", minutes / 60, minutes % 60)
            }
            Self::Span(from, to) => write!(f, "{from} to {to}"),
            Self::Ambiguous(text) => f.write_str(text),
        }
    }
}

/// The units that are a multiple of a base unit: unit, base unit, number of base units.
const UNIT_MULTIPLES: [(&str, &str, &str); 13] = [
    ("min", "s", "60"),
    ("h", "s", "3600"),
    ("d", "s", "86400"),
    ("week", "s", "604800"),
    ("month", "month", "1"),
    ("year", "month", "12"),
    ("in", "m", "0.0254"),
    ("ft", "m", "0.3048"),
    ("t", "g", "1000000"),
    ("lb", "g", "453.59237"),
    ("oz", "g", "28.349523125"),
    ("USD", "$", "1"),
    ("GBP", "£", "1"),
];

/// Currencies before a number.
const CURRENCIES: [&str; 10] = ["€", "US$", "$", "£", "¥", "EUR ", "USD ", "GBP ", "CHF ", "JPY "];

/// English spellings that `unit.rs` lacks: spelling, base unit, number of base units.
const ENGLISH_UNITS: [(&str, &str, &str); 29] = [
    // money or weight
    ("pounds", "pound", "1"),
    ("pound", "pound", "1"),
    ("US dollars", "$", "1"),
    ("Swiss francs", "CHF", "1"),
    ("square metres", "m²", "1"),
    ("square meters", "m²", "1"),
    ("square metre", "m²", "1"),
    ("square meter", "m²", "1"),
    ("square kilometres", "m²", "1e6"),
    ("square kilometers", "m²", "1e6"),
    ("square kilometre", "m²", "1e6"),
    ("square kilometer", "m²", "1e6"),
    ("hectares", "m²", "1e4"),
    ("hectare", "m²", "1e4"),
    ("sqm", "m²", "1"),
    ("cubic metres", "m³", "1"),
    ("cubic meters", "m³", "1"),
    ("cubic metre", "m³", "1"),
    ("cubic meter", "m³", "1"),
    ("ha", "m²", "1e4"),
    ("km/h", "km/h", "1"),
    ("kph", "km/h", "1"),
    ("mph", "mi/h", "1"),
    ("CHF", "CHF", "1"),
    ("miles", "mi", "1"),
    ("percentage points", "% point", "1"),
    ("% points", "% point", "1"),
    ("cents", "cent", "1"),
    ("cent", "cent", "1"),
];

/// Units in German.
const GERMAN_UNITS: [(&str, &str, &str); 29] = [
    ("Hektar", "m²", "1e4"),
    ("Quadratmetern", "m²", "1"),
    ("Quadratmeter", "m²", "1"),
    ("Kubikmetern", "m³", "1"),
    ("Kubikmeter", "m³", "1"),
    ("Prozentpunkte", "% point", "1"),
    ("Prozent", "%", "1"),
    ("Jahre", "month", "12"),
    ("Jahren", "month", "12"),
    ("Jahr", "month", "12"),
    ("Monate", "month", "1"),
    ("Monaten", "month", "1"),
    ("Monat", "month", "1"),
    ("Wochen", "s", "604800"),
    ("Woche", "s", "604800"),
    ("Tage", "s", "86400"),
    ("Tagen", "s", "86400"),
    ("Tag", "s", "86400"),
    ("Stunden", "s", "3600"),
    ("Stunde", "s", "3600"),
    ("Minuten", "s", "60"),
    ("Minute", "s", "60"),
    ("Sekunden", "s", "1"),
    ("Kilometer", "m", "1000"),
    ("Zentimeter", "m", "0.01"),
    ("Millimeter", "m", "0.001"),
    ("Kilogramm", "g", "1000"),
    ("Gramm", "g", "1"),
    ("Grad", "°", "1"),
];

/// The words that multiply a number by a power of ten.
const ENGLISH_SCALES: [(&str, i32); 9] = [
    ("thousand", 3),
    ("million", 6),
    ("billion", 9),
    ("trillion", 12),
    ("k", 3),
    ("m", 6),
    ("mn", 6),
    ("bn", 9),
    ("hundred", 2),
];
const GERMAN_SCALES: [(&str, i32); 8] = [
    ("tausend", 3),
    ("million", 6),
    ("millionen", 6),
    ("milliarde", 9),
    ("milliarden", 9),
    ("billion", 12),
    ("billionen", 12),
    ("hundert", 2),
];

static NUMBER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^[-−–+]?\d+(?:[.,'’\u{a0}\u{2009}\u{202f}]\d+)*").expect("a valid pattern")
});
static ISO_DATE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^(\d{4})-(\d{2})-(\d{2})\b").expect("a valid pattern"));
static DOTTED_DATE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^(\d{1,2})\.\s?(\d{1,2})\.(?:\s?(\d{4})\b)?").expect("a valid pattern"));
static SLASHED_DATE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^(\d{1,2})/(\d{1,2})/(\d{4}|\d{2})\b").expect("a valid pattern"));
static DAY_MONTH: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^(\d{1,2})(?:st|nd|rd|th|\.)?\s(?:of\s)?(\p{L}{3,9})\b\.?(?:,?\s(\d{4})\b)?")
        .expect("a valid pattern")
});
static MONTH_DAY: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^(\p{L}{3,9})\.?\s(\d{1,2})(?:st|nd|rd|th)?\b(?:,?\s(\d{4})\b)?").expect("a valid pattern")
});
static MONTH_YEAR: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^(\p{L}{3,9})\.?,?\s(\d{4})\b").expect("a valid pattern"));
static HALF_DAY: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)^(\d{1,2})(?:[:.](\d{2}))?\s?(a|p)\.?m\b\.?").expect("a valid pattern")
});
static CLOCK: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^(\d{1,2}):(\d{2})(?:\s(?:Uhr|hours|h)\b)?").expect("a valid pattern"));
static UHR: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^(\d{1,2})(?:[.:](\d{2}))?\sUhr\b").expect("a valid pattern"));

/// "per kWh", "a month".
static RATE: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"^\s(?:(?:per|pro|je|each|every|for\s(?:each|every))\s\p{L}{1,20}|an?\s(?:hour|day|night|week|month|year|minute|second))\b";
    Regex::new(pattern).expect("a valid pattern")
});

/// The quantity at the beginning of `text`, and its length in bytes.
pub(super) fn leading_quantity(text: &str, language: &LanguageTables) -> Option<(Quantity, usize)> {
    let (quantity, length) = date(text, language)
        .or_else(|| time(text, language))
        .or_else(|| share(text))
        .or_else(|| number_with_unit(text, language))?;
    Some(match (quantity, text.get(length..).and_then(|rest| RATE.find(rest))) {
        (Quantity::Number { low, high, unit }, Some(rate)) => {
            let per = rate.as_str().rsplit(char::is_whitespace).next().unwrap_or_default().to_lowercase();
            let unit = format!("{unit}/{}", language.stem(&per));
            (Quantity::Number { low, high, unit }, length + rate.len())
        }
        (quantity, _) => (quantity, length),
    })
}

fn parsed<T: FromStr>(found: &Captures<'_>, group: usize) -> Option<T> {
    found.get(group)?.as_str().parse().ok()
}

fn date(text: &str, language: &LanguageTables) -> Option<(Quantity, usize)> {
    let is_month = |name: &str| {
        let starts_upper = name.starts_with(char::is_uppercase);
        starts_upper.then(|| language.months.get(name.to_lowercase().as_str()).copied()).flatten()
    };
    let end = |found: &Captures<'_>| found.get(0).map_or(0, |whole| whole.end());
    let valid = |year: Option<u32>, month: Option<u8>, day: Option<u8>| {
        let days = match month {
            Some(2) => 29,
            Some(4 | 6 | 9 | 11) => 30,
            _ => 31,
        };
        let fits = month.is_none_or(|month| (1..=12).contains(&month))
            && day.is_none_or(|day| (1..=days).contains(&day));
        fits.then_some(Quantity::Date { year, month, day })
    };
    if text.starts_with(|first: char| first.is_ascii_digit()) {
        if let Some(found) = ISO_DATE.captures(text) {
            return Some((valid(parsed(&found, 1), parsed(&found, 2), parsed(&found, 3))?, end(&found)));
        }
        let is_dotted = |found: &Captures<'_>| {
            found.get(3).is_some()
                || language.has_decimal_comma
                    && !text[end(found)..].starts_with(|next: char| next.is_ascii_digit())
        };
        if let Some(found) = DOTTED_DATE.captures(text).filter(is_dotted) {
            let (one, two): (u8, u8) = (parsed(&found, 1)?, parsed(&found, 2)?);
            if !language.is_german() && one != two && one <= 12 && two <= 12 {
                return Some((Quantity::Ambiguous(found[0].to_owned()), end(&found)));
            }
            return Some((valid(parsed(&found, 3), parsed(&found, 2), parsed(&found, 1))?, end(&found)));
        }
        if let Some(found) = SLASHED_DATE.captures(text) {
            let (one, two): (u8, u8) = (parsed(&found, 1)?, parsed(&found, 2)?);
            let year = parsed(&found, 3);
            let date = match (one > 12, two > 12) {
                (true, false) => valid(year, Some(two), Some(one))?,
                (false, true) => valid(year, Some(one), Some(two))?,
                (false, false) if one == two => valid(year, Some(one), Some(two))?,
                (false, false) => Quantity::Ambiguous(found[0].to_owned()),
                (true, true) => return None,
            };
            return Some((date, end(&found)));
        }
        let found = DAY_MONTH.captures(text)?;
        let month = is_month(found.get(2)?.as_str())?;
        return Some((valid(parsed(&found, 3), Some(month), parsed(&found, 1))?, end(&found)));
    }
    let letters = text.find(|next: char| !next.is_alphabetic()).unwrap_or(text.len());
    is_month(text.get(..letters)?)?;
    if let Some(found) = MONTH_YEAR.captures(text)
        && let Some(month) = is_month(found.get(1)?.as_str())
    {
        return Some((valid(parsed(&found, 2), Some(month), None)?, end(&found)));
    }
    let found = MONTH_DAY.captures(text)?;
    let month = is_month(found.get(1)?.as_str())?;
    Some((valid(parsed(&found, 3), Some(month), parsed(&found, 2))?, end(&found)))
}

fn time(text: &str, language: &LanguageTables) -> Option<(Quantity, usize)> {
    // most words are no time, and a pattern takes as long as all other steps
    if !text.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    if let Some(found) = HALF_DAY.captures(text) {
        let hours: u32 = parsed(&found, 1)?;
        let minutes: u32 = parsed(&found, 2).unwrap_or(0);
        let is_afternoon = found.get(3)?.as_str().eq_ignore_ascii_case("p");
        if !(1..=12).contains(&hours) || minutes > 59 {
            return None;
        }
        let hours = hours % 12 + if is_afternoon { 12 } else { 0 };
        // the full stop may end the sentence, too
        let time = Quantity::Time { minutes: hours * 60 + minutes, is_half_open: false };
        return Some((time, found.get(0)?.end()));
    }
    let found = UHR.captures(text).or_else(|| CLOCK.captures(text))?;
    let (hours, minutes): (u32, u32) = (parsed(&found, 1)?, parsed(&found, 2).unwrap_or(0));
    let digits = found.get(1)?.as_str();
    let is_half_open = !language.is_german() && (1..=12).contains(&hours) && !digits.starts_with('0');
    let time = Quantity::Time { minutes: hours * 60 + minutes, is_half_open };
    (hours < 25 && minutes < 60).then_some((time, found.get(0)?.end()))
}

/// Shares in words, in percent.
const SHARES: [(&str, i64); 12] = [
    ("a quarter of ", 25),
    ("one quarter of ", 25),
    ("three quarters of ", 75),
    ("half of ", 50),
    ("a fifth of ", 20),
    ("one fifth of ", 20),
    ("a tenth of ", 10),
    ("one in two ", 50),
    ("one in four ", 25),
    ("one in five ", 20),
    ("one in ten ", 10),
    ("ein viertel der ", 25),
];

/// A share in words, such as "a quarter of the loans"; not "a quarter of an hour".
fn share(text: &str) -> Option<(Quantity, usize)> {
    let is_start = |(words, _): &&(&str, i64)| {
        text.get(..words.len()).is_some_and(|start| start.eq_ignore_ascii_case(words))
    };
    let (words, percent) = SHARES.iter().find(is_start)?;
    let rest = &text[words.len()..];
    // "three quarters of growth"
    let is_period = words.contains("quarters") && !rest.starts_with("the ");
    let is_part = !is_period && !["a ", "an "].iter().any(|article| rest.starts_with(article));
    let value = Decimal::from(*percent);
    let quantity = Quantity::Number { low: value.clone(), high: value, unit: "%".to_owned() };
    // "of" remains
    let length = words.find(" of ").or_else(|| words.rfind(" der ")).unwrap_or(words.len() - 1);
    is_part.then_some((quantity, length))
}

fn number_with_unit(text: &str, language: &LanguageTables) -> Option<(Quantity, usize)> {
    let currency = CURRENCIES.iter().find(|currency| text.starts_with(**currency));
    let start = currency.map_or(0, |currency| currency.len());
    let (value, mut at) = number(text.get(start..)?, language)?;
    at += start;
    let (value, scaled) = scale(value, text.get(at..)?, currency.is_some(), language);
    at += scaled;
    if let Some(currency) = currency {
        let name = match currency.trim() {
            "EUR" => "€",
            "USD" | "US$" => "$",
            "GBP" => "£",
            "JPY" => "¥",
            other => other,
        };
        return Some((Quantity::Number { low: value.clone(), high: value, unit: name.to_owned() }, at));
    }
    let (value, unit, length) = with_unit(value, text.get(at..)?, language);
    let rest = text.get(at + length..)?;
    // digits within a word or a version are no number
    let is_word = rest.starts_with(|next: char| next.is_alphanumeric() || next == '_');
    let is_version =
        rest.strip_prefix('.').is_some_and(|rest| rest.starts_with(|next: char| next.is_ascii_digit()));
    let is_whole = !is_word && !is_version;
    is_whole.then_some((Quantity::Number { low: value.clone(), high: value, unit }, at + length))
}

/// The number at the beginning of `text`, in digits or in words, and its length.
fn number(text: &str, language: &LanguageTables) -> Option<(Decimal, usize)> {
    let and_half = |value: Decimal, end: usize| {
        let half = text.get(end..).and_then(|rest| rest.strip_prefix(" and a half"));
        let value = half.map_or_else(|| value.clone(), |_| value.checked_add(&HALF).unwrap_or(value.clone()));
        (value, end + half.map_or(0, |_| " and a half".len()))
    };
    if let Some(twice) = ["twice", "zweimal"].into_iter().find(|twice| text.starts_with(*twice)) {
        return Some((Decimal::from(2_i64), twice.len()));
    }
    if let Some(half) = ["half a ", "half an "].into_iter().find(|half| text.starts_with(*half)) {
        return Some((HALF.clone(), half.len() - 1));
    }
    if let Some((value, length)) = text.strip_prefix("minus ").and_then(|rest| number(rest, language)) {
        return Some((Decimal::from(0_i64).checked_sub(&value).ok()?, length + "minus ".len()));
    }
    let is_digit = |next: char| next.is_numeric() || "-−–+".contains(next);
    if let Some(found) = text.starts_with(is_digit).then(|| NUMBER.find(text)).flatten() {
        let value = read_digits(found.as_str(), language.has_decimal_comma)?;
        return Some(and_half(value, found.end()));
    }
    let end = word_end(text, |next| next.is_alphabetic() || next == '-');
    let word = text.get(..end)?.to_lowercase();
    let value = match language.numbers.get(word.as_str()) {
        Some(value) => *value,
        None => {
            let (tens, ones) = word.split_once('-')?;
            let (tens, ones) = (language.numbers.get(tens), language.numbers.get(ones));
            match (tens, ones) {
                (Some(tens @ 20..=90), Some(ones @ 1..=9)) => tens + ones,
                // "two-year": the number alone, the rest is its unit
                (Some(value), None) => return Some((Decimal::from(i64::from(*value)), word.find('-')?)),
                _ => return None,
            }
        }
    };
    Some(and_half(Decimal::from(i64::from(value)), end))
}

/// The end of the word at the beginning of `text`; 0 if it is longer than any word that is known.
fn word_end(text: &str, is_inside: impl Fn(char) -> bool) -> usize {
    text.char_indices()
        .take(40)
        .find(|(_, next)| !is_inside(*next))
        .map_or_else(|| if text.len() <= 40 { text.len() } else { 0 }, |(end, _)| end)
}

static HALF: LazyLock<Decimal> = LazyLock::new(|| "0.5".parse().unwrap_or_else(|_| Decimal::from(0_i64)));

/// The value of digits with separators; `None` if they have two readings.
fn read_digits(text: &str, has_decimal_comma: bool) -> Option<Decimal> {
    let (sign, digits) = match text.strip_prefix(['-', '−', '–']) {
        Some(digits) => ("-", digits),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let (point, thousands) = if has_decimal_comma { (',', '.') } else { ('.', ',') };
    let (whole, fraction) = digits.split_once(point).unwrap_or((digits, ""));
    let groups: Vec<&str> =
        whole.split(|c: char| c == thousands || "'’\u{a0}\u{2009}\u{202f}".contains(c)).collect();
    let is_grouped = match groups.as_slice() {
        [_] => true,
        [first, rest @ ..] => first.len() <= 3 && rest.iter().all(|group| group.len() == 3),
        [] => false,
    };
    let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    // "007" is a code
    let is_code = whole.len() > 1 && whole.starts_with('0');
    if is_code
        || !is_grouped
        || !groups.iter().all(|group| is_plain(group))
        || !is_plain(fraction)
        || digits.len() > 64
    {
        return None;
    }
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{}{point}{fraction}", groups.concat()).parse().ok()
}

/// `value`, multiplied by the word or the letter at the beginning of `text`, and the length of that.
fn scale(value: Decimal, text: &str, is_money: bool, language: &LanguageTables) -> (Decimal, usize) {
    let spaced = text.trim_start_matches([' ', '\u{a0}']);
    let end = word_end(spaced, char::is_alphabetic);
    let word = &spaced[..end];
    let is_apart = spaced.len() < text.len();
    let is_letter = word.len() <= 2;
    // "5 m" are metres, "5M" are millions
    let allowed = !is_letter
        || !is_apart && (matches!(word, "k" | "K" | "M" | "bn" | "mn") || is_money && word == "m")
        || word == "bn"
        || word == "mn";
    let scales = if language.is_german() { &GERMAN_SCALES[..] } else { &ENGLISH_SCALES };
    let found = scales.iter().find(|(name, _)| allowed && name.eq_ignore_ascii_case(word));
    match found {
        Some((_, power)) => (times(value, &format!("1e{power}")), text.len() - spaced.len() + end),
        None => (value, 0),
    }
}

/// `value` times a constant of this file. A product beyond the limits of decimals stays as it was.
fn times(value: Decimal, factor: &str) -> Decimal {
    factor.parse().ok().and_then(|factor| value.checked_mul(&factor).ok()).unwrap_or(value)
}

/// `value` in the base of the unit at the beginning of `text`, the base, and the length of the unit.
fn with_unit(value: Decimal, text: &str, language: &LanguageTables) -> (Decimal, String, usize) {
    let spaced =
        text.strip_prefix(['-', '\u{2011}']).unwrap_or_else(|| text.trim_start_matches([' ', '\u{a0}']));
    let before = text.len() - spaced.len();
    let listed = language.vocabulary.leading_unit(&value, spaced);
    let known = with_known_unit(value, spaced, (before, text.starts_with([' ', '\u{a0}'])), language);
    let listed = listed.map(|(value, base, length)| (value, base, before + length));
    listed.filter(|(.., length)| *length > known.2).unwrap_or(known)
}

/// The same by the tables, for the text `spaced` after `before` bytes.
fn with_known_unit(
    value: Decimal,
    spaced: &str,
    (before, text_is_spaced): (usize, bool),
    language: &LanguageTables,
) -> (Decimal, String, usize) {
    // "two hour-long meetings"
    let is_hyphenated =
        |rest: &str| rest.strip_prefix('-').is_some_and(|rest| rest.starts_with(char::is_alphabetic));
    let is_spaced = before == 1 && text_is_spaced;
    // "10 m/s" is no length
    let is_rate = |rest: &str| rest.strip_prefix('/').is_some_and(|of| of.starts_with(char::is_alphabetic));
    let is_end = |rest: &str| {
        !(rest.starts_with(char::is_alphanumeric) || is_rate(rest) || is_spaced && is_hyphenated(rest))
    };
    if let Some((spelling, unit, factor)) = ENGLISH_UNITS
        .iter()
        .chain(GERMAN_UNITS.iter().filter(|_| language.is_german()))
        .find(|(spelling, ..)| spaced.strip_prefix(spelling).is_some_and(is_end))
    {
        return (times(value, factor), (*unit).to_owned(), before + spelling.len());
    }
    let Some((unit, rest)) = leading_unit(spaced).filter(|(_, rest)| is_end(rest)) else {
        return (value, String::new(), 0);
    };
    let spelled = &spaced[..spaced.len() - rest.len()];
    let is_word_after = rest.starts_with(' ') && rest.trim_start().starts_with(char::is_alphabetic);
    if spelled == "in" && is_word_after {
        return (value, String::new(), 0);
    }
    let value = times(value, &format!("1e{}", unit.power));
    let length = before + spelled.len();
    match UNIT_MULTIPLES.iter().find(|(name, ..)| *name == unit.name) {
        Some((_, base, factor)) => (times(value, factor), (*base).to_owned(), length),
        None => (value, unit.name, length),
    }
}

/// Whether `text` begins with a unit, or with a word that multiplies a number. RULE-CONT-002 depends on it.
pub(crate) fn begins_with_unit(text: &str) -> bool {
    let word = text
        .trim_start_matches(is_space)
        .split(|next: char| !next.is_alphabetic())
        .next()
        .unwrap_or_default();
    let is_scale =
        ["thousand", "million", "billion", "trillion"].iter().any(|name| name.eq_ignore_ascii_case(word));
    is_scale || leading_unit(text).is_some()
}
