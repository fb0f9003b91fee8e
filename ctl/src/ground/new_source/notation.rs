//! The form of the values of a field: numbers in a notation, dates, periods, words for missing values.

use oracled_domain::base::date::Date;
use oracled_domain::base::decimal::Decimal;
use oracled_domain::base::number_notation::NumberNotation;
use oracled_domain::base::period::{PeriodFormat, PeriodLength};
use oracled_domain::base::time_format::TimeFormat;
use std::collections::BTreeSet;

/// Words that mean that a value is missing, in lower case.
const MISSING: [&str; 17] = [
    "n/a", "na", "#n/a", "n.a.", "null", "none", "nil", "nan", "missing", "-", "--", "–", "—", ".", "..",
    "...", "?",
];
/// The notations of numbers that are tried: the decimal mark and the thousands separator.
const NOTATIONS: [(char, Option<char>); 6] =
    [('.', Some(',')), (',', None), (',', Some('.')), ('.', Some(' ')), (',', Some(' ')), ('.', Some('\''))];
/// The formats of dates that are tried.
const DATES: [&str; 9] = [
    "%d.%m.%Y",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%Y/%m/%d",
    "%d-%m-%Y",
    "%d %b %Y",
    "%b %d, %Y",
    "%Y-%m-%d %H:%M:%S",
    "%d.%m.%Y %H:%M",
];
/// The formats of months and quarters that are tried.
const PERIODS: [(PeriodLength, &str); 7] = [
    (PeriodLength::Month, "%YM%m"),
    (PeriodLength::Month, "%b %Y"),
    (PeriodLength::Month, "%m/%Y"),
    (PeriodLength::Quarter, "%YQ%q"),
    (PeriodLength::Quarter, "%Y Q%q"),
    (PeriodLength::Quarter, "Q%q %Y"),
    (PeriodLength::Quarter, "Q%q/%Y"),
];
/// Parts of the names of fields with years.
const YEAR_WORDS: [&str; 5] = ["year", "jahr", "ann", "año", "rok"];

/// The form of the values of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ValueForm {
    /// Numbers, with their notation if it is not the ordinary one.
    Number {
        is_integer: bool,
        notation: Option<(char, Option<char>)>,
        is_ambiguous: bool,
    },
    Boolean,
    /// Days or times, with their format if it is not RFC 3339.
    Date {
        format: Option<&'static str>,
        is_ambiguous: bool,
    },
    Period {
        length: PeriodLength,
        format: Option<&'static str>,
    },
    Text,
}

impl ValueForm {
    pub(super) const fn is_number(&self) -> bool {
        matches!(self, Self::Number { .. })
    }

    pub(super) const fn is_time(&self) -> bool {
        matches!(self, Self::Date { .. } | Self::Period { .. })
    }

    /// Whether an axis of this form can identify a record.
    pub(super) const fn can_identify(&self) -> bool {
        !matches!(self, Self::Number { is_integer: false, .. })
    }
}

/// The form of `values`, and the words among them that mean that a value is missing. `period` is the format of a field with the
/// names of unpivoted columns.
pub(super) fn find_form(
    label: &str,
    values: &[Option<String>],
    period: Option<Option<&'static str>>,
) -> (ValueForm, Vec<String>) {
    let present = || values.iter().flatten().map(|value| value.trim());
    let is_missing = |value: &&str| MISSING.contains(&value.to_lowercase().as_str());
    let missing: BTreeSet<_> = present().filter(is_missing).map(str::to_owned).collect();
    let texts: Vec<_> = present().filter(|value| !is_missing(value)).collect();
    if let Some(format) = period
        && let Some(length) = period_length(&texts, format)
    {
        return (ValueForm::Period { length, format }, Vec::new());
    }
    let form = if texts.is_empty() { ValueForm::Text } else { form_of(label, &texts) };
    // in a field of texts, such a word can be a value
    let missing = if form == ValueForm::Text { Vec::new() } else { missing.into_iter().collect() };
    (form, missing)
}

fn period_length(texts: &[&str], format: Option<&str>) -> Option<PeriodLength> {
    [PeriodLength::Year, PeriodLength::Month, PeriodLength::Quarter].into_iter().find(|length| match format {
        Some(format) => PeriodFormat::new(*length, format)
            .is_ok_and(|format| texts.iter().all(|text| format.parse(text).is_some())),
        None => texts.iter().all(|text| length.is_canonical(text)),
    })
}

fn form_of(label: &str, texts: &[&str]) -> ValueForm {
    let all = |holds: &dyn Fn(&str) -> bool| texts.iter().all(|text| holds(text));
    if all(&|text| text == "true" || text == "false") {
        return ValueForm::Boolean;
    }
    let label = label.to_lowercase();
    let is_year = |text: &str| PeriodLength::Year.is_canonical(text) && ("1000".."2300").contains(&text);
    if YEAR_WORDS.iter().any(|word| label.contains(word)) && all(&is_year) {
        return ValueForm::Period { length: PeriodLength::Year, format: None };
    }
    // a code such as 007 is not a number
    let is_code = |text: &&str| {
        text.len() > 1 && text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    if !texts.iter().any(is_code)
        && let Some(form) = number_form(texts)
    {
        return form;
    }
    for length in [PeriodLength::Month, PeriodLength::Quarter] {
        if all(&|text| length.is_canonical(text)) {
            return ValueForm::Period { length, format: None };
        }
    }
    if all(&|text| Date::read(text).is_some()) {
        return ValueForm::Date { format: None, is_ambiguous: false };
    }
    let mut dates = DATES.into_iter().filter(|format| {
        TimeFormat::new(format).is_ok_and(|format| all(&|text| format.parse(text).is_some()))
    });
    if let Some(format) = dates.next() {
        return ValueForm::Date { format: Some(format), is_ambiguous: dates.next().is_some() };
    }
    let mut periods = PERIODS.into_iter();
    let is_in = |(length, format): &(PeriodLength, &str)| {
        PeriodFormat::new(*length, format).is_ok_and(|format| all(&|text| format.parse(text).is_some()))
    };
    match periods.find(is_in) {
        Some((length, format)) => ValueForm::Period { length, format: Some(format) },
        None => ValueForm::Text,
    }
}

fn number_form(texts: &[&str]) -> Option<ValueForm> {
    let number = |numbers: Option<Vec<Decimal>>, notation: Option<(char, Option<char>)>, is_ambiguous| {
        let is_integer = numbers?.iter().all(Decimal::is_integer);
        Some(ValueForm::Number { is_integer, notation, is_ambiguous })
    };
    let plain: Option<Vec<Decimal>> = texts.iter().map(|text| text.parse().ok()).collect();
    if plain.is_some() {
        // 1.234 can be a number with a decimal point, or one thousand and more
        let is_ambiguous =
            parse_all(texts, (',', Some('.'))).is_some() && texts.iter().any(|text| text.contains('.'));
        return number(plain, None, is_ambiguous);
    }
    let mut notations = NOTATIONS.into_iter().filter_map(|marks| Some((marks, parse_all(texts, marks)?)));
    let (marks, numbers) = notations.next()?;
    let is_ambiguous = notations.any(|(_, others)| others != numbers);
    number(Some(numbers), Some(marks), is_ambiguous)
}

fn parse_all(texts: &[&str], (mark, separator): (char, Option<char>)) -> Option<Vec<Decimal>> {
    let notation = NumberNotation::new(mark, separator).ok()?;
    texts.iter().map(|text| notation.parse(text)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(label: &str, values: &[&str]) -> (ValueForm, Vec<String>) {
        let values: Vec<_> = values.iter().map(|value| Some((*value).to_owned())).collect();
        find_form(label, &values, None)
    }

    fn number(is_integer: bool, notation: Option<(char, Option<char>)>, is_ambiguous: bool) -> ValueForm {
        ValueForm::Number { is_integer, notation, is_ambiguous }
    }

    #[test]
    fn form_of_values_is_recognized() {
        let period = |length, format| ValueForm::Period { length, format };
        let date = |format, is_ambiguous| ValueForm::Date { format, is_ambiguous };
        for (label, values, expected) in [
            ("n", &["1", "-2"][..], number(true, None, false)),
            ("n", &["1.5", "2"], number(false, None, false)),
            ("n", &["1.234", "2.000"], number(false, None, true)),
            ("n", &["1,5", "1234,25"], number(false, Some((',', None)), false)),
            ("n", &["1.234,5", "2"], number(false, Some((',', Some('.'))), false)),
            ("n", &["1,234.5", "2"], number(false, Some(('.', Some(','))), false)),
            ("n", &["1,234", "2"], number(true, Some(('.', Some(','))), true)),
            ("n", &["1 234", "2"], number(true, Some(('.', Some(' '))), false)),
            ("code", &["007", "123"], ValueForm::Text),
            ("Year", &["1999", "2000"], period(PeriodLength::Year, None)),
            ("count", &["1999", "2000"], number(true, None, false)),
            ("m", &["2024-01"], period(PeriodLength::Month, None)),
            ("q", &["Q1 2024", "Q4 2024"], period(PeriodLength::Quarter, Some("Q%q %Y"))),
            ("day", &["2024-01-31"], date(None, false)),
            ("day", &["31.01.2024"], date(Some("%d.%m.%Y"), false)),
            ("day", &["31/01/2024"], date(Some("%d/%m/%Y"), false)),
            ("day", &["01/02/2024"], date(Some("%d/%m/%Y"), true)),
            ("flag", &["true", "false"], ValueForm::Boolean),
            ("name", &["a", "1"], ValueForm::Text),
        ] {
            assert_eq!(found(label, values).0, expected, "{label} {values:?}");
        }
    }

    #[test]
    fn words_for_missing_values_are_found_in_other_forms_than_text() {
        assert_eq!(
            found("n", &["1", "n/a", "N/A", ".."]),
            (number(true, None, false), ["..", "N/A", "n/a"].map(str::to_owned).to_vec())
        );
        assert_eq!(found("name", &["a", "n/a"]), (ValueForm::Text, Vec::new()));
        assert_eq!(found("name", &["n/a"]).0, ValueForm::Text);
    }
}
