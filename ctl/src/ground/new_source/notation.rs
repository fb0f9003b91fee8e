//! The form of the values of a field: numbers in a notation, dates, periods, words for missing values.

use super::affix::{CellAffix, find_affix, is_bound};
use super::remark::SourceRemark;
use oracled_domain::base::date::Date;
use oracled_domain::base::decimal::Decimal;
use oracled_domain::base::number_notation::NumberNotation;
use oracled_domain::base::period::{PeriodFormat, PeriodLength};
use oracled_domain::base::time_format::{ParsedTime, TimeFormat};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Words that mean that a value is missing, in lower case.
const MISSING: [&str; 12] =
    ["n/a", "na", "#n/a", "n.a.", "n.a", "null", "(null)", "none", "nil", "nan", "missing", "\\n"];
/// The longest text of punctuation only, such as `..` or `***`, that means that a value is missing.
const MARKER_MAX_CHARS: usize = 5;
/// The null of database exports, which is no value in a field of texts either.
const DATABASE_NULL: &str = "\\N";
/// Words for true and false, in lower case. The first of each pair is true.
const BOOLEANS: [(&str, &str); 7] =
    [("true", "false"), ("yes", "no"), ("y", "n"), ("t", "f"), ("ja", "nein"), ("oui", "non"), ("si", "no")];
/// The notations of numbers that are tried: the decimal mark and the thousands separator.
const NOTATIONS: [NumberMarks; 7] = [
    ('.', None),
    ('.', Some(',')),
    (',', None),
    (',', Some('.')),
    ('.', Some(' ')),
    (',', Some(' ')),
    ('.', Some('\'')),
];
/// The formats of dates that are tried.
const DATES: [&str; 15] = [
    "%d.%m.%Y",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%Y/%m/%d",
    "%d-%m-%Y",
    "%m-%d-%Y",
    "%Y.%m.%d",
    "%d %b %Y",
    "%d %B %Y",
    "%d-%b-%Y",
    "%b %d, %Y",
    "%B %d, %Y",
    "%d.%m.%y",
    "%d/%m/%y",
    "%m/%d/%y",
];
/// The formats of the days of times, in addition to [`DATES`].
const TIMED_DAYS: [&str; 1] = ["%Y-%m-%d"];
/// The formats of times after a day.
const TIMES: [&str; 5] = [" %H:%M:%S", " %H:%M", "T%H:%M:%S", "T%H:%M", " %H:%M:%S%.f"];
const COMPACT_DATE: &str = "%Y%m%d";
/// The formats of months and quarters that are tried.
const PERIODS: [(PeriodLength, &str); 8] = [
    (PeriodLength::Month, "%YM%m"),
    (PeriodLength::Month, "%b %Y"),
    (PeriodLength::Month, "%B %Y"),
    (PeriodLength::Month, "%m/%Y"),
    (PeriodLength::Quarter, "%YQ%q"),
    (PeriodLength::Quarter, "%Y Q%q"),
    (PeriodLength::Quarter, "Q%q %Y"),
    (PeriodLength::Quarter, "Q%q/%Y"),
];
/// Parts of the names of fields with years.
const YEAR_WORDS: [&str; 5] = ["year", "jahr", "ann", "año", "rok"];
/// The names of fields with periods of any length, which can be years.
const PERIOD_NAMES: [&str; 4] = ["time_period", "period", "time", "date"];
/// Parts of the names of fields with numbers of sections or versions.
const SECTION_WORDS: [&str; 8] =
    ["section", "version", "chapter", "clause", "paragraph", "article", "kapitel", "abschnitt"];
/// Parts of the names of fields with dates.
const DATE_WORDS: [&str; 5] = ["date", "day", "datum", "tag", "fecha"];

/// The decimal mark, and the thousands separator.
pub(super) type NumberMarks = (char, Option<char>);

/// The form of the values of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ValueForm {
    /// Numbers, with their notation if it is not the ordinary one.
    Number {
        is_integer: bool,
        notation: Option<NumberMarks>,
        affix: Option<CellAffix>,
    },
    /// The words for true and false, if they are not the ordinary ones.
    Boolean {
        words: Vec<(String, bool)>,
    },
    /// Days or times, with their format if it is not RFC 3339.
    Date {
        format: Option<String>,
        is_local: bool,
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
        !matches!(self, Self::Number { is_integer: false, .. } | Self::Boolean { .. })
    }
}

/// The form of the values of a field, and the guesses in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundForm {
    pub(super) form: ValueForm,
    /// The words for missing values.
    pub(super) missing_values: Vec<String>,
    pub(super) remarks: Vec<SourceRemark>,
}

impl FoundForm {
    fn new(form: ValueForm, remarks: impl IntoIterator<Item = SourceRemark>) -> Self {
        Self { form, missing_values: Vec::new(), remarks: remarks.into_iter().collect() }
    }
}

/// The form of `values`. `period` is the format of a field with the names of unpivoted columns.
pub(super) fn find_form(
    label: &str,
    values: &[Option<String>],
    period: Option<Option<&'static str>>,
) -> FoundForm {
    let present = || values.iter().flatten().map(|value| value.trim());
    let missing: BTreeSet<_> = present().filter(|value| is_missing(value)).map(str::to_owned).collect();
    let texts: Vec<_> = present().filter(|value| !is_missing(value)).collect();
    if let Some(format) = period
        && let Some(length) = period_length(&present().collect::<Vec<_>>(), format)
    {
        return FoundForm::new(ValueForm::Period { length, format }, None);
    }
    let mut found =
        if texts.is_empty() { FoundForm::new(ValueForm::Text, None) } else { form_of(label, &texts) };
    if found.form != ValueForm::Text {
        if !missing.is_empty() {
            found.remarks.push(SourceRemark::MissingWords);
        }
        found.missing_values = missing.into_iter().collect();
        return found;
    }
    // in a field of texts, such a word can be a value
    let (nulls, words): (Vec<_>, Vec<_>) = missing.into_iter().partition(|word| word == DATABASE_NULL);
    if !nulls.is_empty() {
        found.remarks.push(SourceRemark::MissingWords);
    }
    if !words.is_empty() {
        found.remarks.push(SourceRemark::KeptWords { words });
    }
    found.missing_values = nulls;
    found
}

/// Whether a text is a word or a mark for a missing value.
pub(super) fn is_missing(value: &str) -> bool {
    let is_marker = value.chars().count() <= MARKER_MAX_CHARS
        && value.chars().all(|character| !character.is_alphanumeric() && !character.is_whitespace());
    is_marker || MISSING.contains(&value.to_lowercase().as_str())
}

fn period_length(texts: &[&str], format: Option<&str>) -> Option<PeriodLength> {
    [PeriodLength::Year, PeriodLength::Month, PeriodLength::Quarter].into_iter().find(|length| match format {
        Some(format) => is_period(*length, format, texts),
        None => texts.iter().all(|text| length.is_canonical(text)),
    })
}

fn is_period(length: PeriodLength, format: &str, texts: &[&str]) -> bool {
    let format = PeriodFormat::new(length, format);
    format.is_ok_and(|format| texts.iter().all(|text| format.parse(text).is_some()))
}

fn form_of(label: &str, texts: &[&str]) -> FoundForm {
    let label = label.to_lowercase();
    let found = boolean_form(texts)
        .or_else(|| year_form(&label, texts))
        .or_else(|| code_form(&label, texts))
        .or_else(|| number_form(texts))
        .or_else(|| period_form(texts))
        .or_else(|| date_form(texts))
        .or_else(|| affix_form(texts));
    found.unwrap_or_else(|| FoundForm::new(ValueForm::Text, text_remark(texts)))
}

fn boolean_form(texts: &[&str]) -> Option<FoundForm> {
    let words: BTreeSet<_> = texts.iter().copied().collect();
    if words.len() > 6 {
        return None;
    }
    let lower: BTreeSet<_> = words.iter().map(|word| word.to_lowercase()).collect();
    let (yes, no) = BOOLEANS.into_iter().find(|(yes, no)| {
        let is_pair = lower.contains(*yes) && lower.contains(*no);
        lower.iter().all(|word| word == yes || word == no) && (is_pair || *yes == "true")
    })?;
    let is_canonical = words.iter().all(|word| *word == "true" || *word == "false");
    if is_canonical {
        return Some(FoundForm::new(ValueForm::Boolean { words: Vec::new() }, None));
    }
    // the words in every case that the sample has, and both of the pair
    let mut words: Vec<_> =
        words.into_iter().map(|word| (word.to_owned(), word.to_lowercase() == yes)).collect();
    for (word, value) in [(yes, true), (no, false)] {
        if !words.iter().any(|(_, given)| *given == value) {
            let is_upper = words.iter().all(|(given, _)| given.to_uppercase() == *given);
            words.push((if is_upper { word.to_uppercase() } else { word.to_owned() }, value));
        }
    }
    Some(FoundForm::new(ValueForm::Boolean { words }, [SourceRemark::BooleanWords]))
}

fn year_form(label: &str, texts: &[&str]) -> Option<FoundForm> {
    let is_year = |text: &&str| PeriodLength::Year.is_canonical(text) && ("1000".."2300").contains(text);
    let is_named = YEAR_WORDS.iter().any(|word| label.contains(word)) || PERIOD_NAMES.contains(&label);
    let is_found = is_named && texts.iter().all(is_year);
    let form = ValueForm::Period { length: PeriodLength::Year, format: None };
    is_found.then(|| FoundForm::new(form, None))
}

/// Texts that look like numbers or dates, and are names: codes, sections, seasons; or dates that look like numbers.
fn code_form(label: &str, texts: &[&str]) -> Option<FoundForm> {
    // a code such as 007, or a telephone number
    let is_code = |text: &&str| {
        let digits = text.strip_prefix('+').filter(|digits| digits.len() > 6).unwrap_or(text);
        digits.len() > 1
            && (digits.starts_with('0') || digits.len() < text.len())
            && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    if texts.iter().any(is_code) {
        return Some(FoundForm::new(ValueForm::Text, None));
    }
    let words = |words: &[&str]| words.iter().any(|word| label.contains(word));
    if words(&DATE_WORDS) && is_date(COMPACT_DATE, texts) {
        let form = ValueForm::Date { format: Some(COMPACT_DATE.to_owned()), is_local: false };
        return Some(FoundForm::new(form, [SourceRemark::CompactDates]));
    }
    if texts.iter().all(|text| is_season(text)) {
        return Some(FoundForm::new(ValueForm::Text, [SourceRemark::Season]));
    }
    let has_point = |text: &&str| text.contains('.');
    if words(&SECTION_WORDS) && texts.iter().any(has_point) && number_form(texts).is_some() {
        return Some(FoundForm::new(ValueForm::Text, [SourceRemark::SectionNumbers]));
    }
    None
}

/// Whether a text such as 2008-09 is a season from one year to the next. It is also the form of a month.
pub(super) fn is_season(text: &str) -> bool {
    let Some((year, next)) = text.split_once('-') else { return false };
    let is_of_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (Ok(first), Ok(second)) = (year.parse::<u32>(), next.parse::<u32>()) else { return false };
    year.len() == 4
        && next.len() == 2
        && is_of_digits(year)
        && is_of_digits(next)
        && (first + 1) % 100 == second
}

fn period_form(texts: &[&str]) -> Option<FoundForm> {
    let canonical = [PeriodLength::Month, PeriodLength::Quarter]
        .into_iter()
        .find(|length| texts.iter().all(|text| length.is_canonical(text)))
        .map(|length| (length, None));
    let formatted = || {
        let found = PERIODS.into_iter().find(|(length, format)| is_period(*length, format, texts));
        found.map(|(length, format)| (length, Some(format)))
    };
    let (length, format) = canonical.or_else(formatted)?;
    Some(FoundForm::new(ValueForm::Period { length, format }, None))
}

fn is_date(format: &str, texts: &[&str]) -> bool {
    let format = TimeFormat::new(format);
    format.is_ok_and(|format| texts.iter().all(|text| format.parse(text).is_some()))
}

fn date_form(texts: &[&str]) -> Option<FoundForm> {
    if texts.iter().all(|text| Date::read(text).is_some()) {
        return Some(FoundForm::new(ValueForm::Date { format: None, is_local: false }, None));
    }
    if !texts.iter().all(|text| text.bytes().any(|byte| byte.is_ascii_digit())) {
        return None;
    }
    let timed = TIMED_DAYS.iter().chain(&DATES).flat_map(|day| TIMES.map(|time| format!("{day}{time}")));
    let formats = DATES.into_iter().map(str::to_owned).chain(timed);
    let found: Vec<_> = formats.filter(|format| is_date(format, texts)).collect();
    let Some(format) = found.first().cloned() else { return short_years(texts) };
    let parsed = |format: &str| -> Vec<_> {
        let format = TimeFormat::new(format).ok();
        texts.iter().map(|text| format.as_ref().and_then(|format| format.parse(text))).collect()
    };
    let times = parsed(&format);
    let mut remarks = Vec::new();
    if found.iter().skip(1).any(|other| parsed(other) != times) {
        remarks.push(SourceRemark::DateOrder);
    }
    if format.contains("%y") {
        remarks.push(SourceRemark::TwoDigitYears);
    }
    let is_local = times.iter().any(|time| matches!(time, Some(ParsedTime::Local(_))));
    if is_local {
        remarks.push(SourceRemark::LocalTimes);
    }
    Some(FoundForm::new(ValueForm::Date { format: Some(format), is_local }, remarks))
}

/// Dates of which most have a year of four digits, and the others one of two.
fn short_years(texts: &[&str]) -> Option<FoundForm> {
    DATES.into_iter().filter(|format| format.contains("%Y")).find_map(|long| {
        let short = TimeFormat::new(&long.replace("%Y", "%y")).ok()?;
        let format = TimeFormat::new(long).ok()?;
        let others: Vec<_> = texts.iter().filter(|text| format.parse(text).is_none()).collect();
        let is_found =
            others.len() * 2 <= texts.len() && others.iter().all(|text| short.parse(text).is_some());
        let remark = SourceRemark::ShortYears { values: others.len() };
        let form = ValueForm::Date { format: Some(long.to_owned()), is_local: false };
        is_found.then(|| FoundForm::new(form, [remark]))
    })
}

fn number_form(texts: &[&str]) -> Option<FoundForm> {
    let plain: Option<Vec<Decimal>> = texts.iter().map(|text| text.parse().ok()).collect();
    if let Some(numbers) = plain {
        // 1.234 can be a number with a decimal point, or one thousand and more
        let is_ambiguous =
            parse_all(texts, (',', Some('.')), None).is_some() && texts.iter().any(|text| text.contains('.'));
        let notation = is_ambiguous.then_some(('.', None));
        return Some(numbers_found(texts, &numbers, notation, is_ambiguous, None));
    }
    let (marks, numbers, is_ambiguous) = find_notation(texts, None)?;
    Some(numbers_found(texts, &numbers, Some(marks), is_ambiguous, None))
}

fn affix_form(texts: &[&str]) -> Option<FoundForm> {
    let affix = find_affix(texts).ok()?;
    let (marks, numbers, is_ambiguous) = find_notation(texts, Some(&affix))?;
    Some(numbers_found(texts, &numbers, Some(marks), is_ambiguous, Some(affix)))
}

fn numbers_found(
    texts: &[&str],
    numbers: &[Decimal],
    notation: Option<NumberMarks>,
    is_ambiguous: bool,
    affix: Option<CellAffix>,
) -> FoundForm {
    let mut remarks = Vec::new();
    if is_ambiguous {
        remarks.push(SourceRemark::DecimalMark);
    }
    if let Some(affix) = &affix {
        if !affix.is_plain() {
            remarks.push(SourceRemark::Affix);
        }
        if affix.accounting {
            remarks.push(SourceRemark::Accounting);
        }
    }
    remarks.extend(sentinel(texts, numbers));
    remarks.extend(equal_numbers(texts, numbers));
    let is_integer = numbers.iter().all(Decimal::is_integer);
    FoundForm::new(ValueForm::Number { is_integer, notation, affix }, remarks)
}

/// The first notation in which all texts are numbers, the numbers, and whether they are others in another notation.
fn find_notation(texts: &[&str], affix: Option<&CellAffix>) -> Option<(NumberMarks, Vec<Decimal>, bool)> {
    let mut notations =
        NOTATIONS.into_iter().filter_map(|marks| Some((marks, parse_all(texts, marks, affix)?)));
    let (marks, numbers) = notations.next()?;
    let is_ambiguous = notations.any(|(_, others)| others != numbers);
    Some((marks, numbers, is_ambiguous))
}

fn parse_all(
    texts: &[&str],
    (mark, separator): NumberMarks,
    affix: Option<&CellAffix>,
) -> Option<Vec<Decimal>> {
    let notation = NumberNotation::new(mark, separator).ok()?;
    let notation = match affix {
        Some(affix) => notation.with_affixes(&affix.prefix, &affix.suffix, affix.accounting).ok()?,
        None => notation,
    };
    texts.iter().map(|text| notation.parse(text)).collect()
}

/// A negative number of nines, such as -9.99 or -999, in a field whose other numbers are not negative.
fn sentinel(texts: &[&str], numbers: &[Decimal]) -> Option<SourceRemark> {
    let is_of_nines = |text: &str| {
        let digits = text.strip_prefix('-').unwrap_or_default();
        digits.matches('9').count() > 1
            && digits.bytes().all(|byte| matches!(byte, b'9' | b'0' | b'.' | b','))
    };
    let zero = Decimal::from(0);
    let negative: BTreeSet<_> =
        texts.iter().zip(numbers).filter(|(_, number)| **number < zero).map(|(text, _)| *text).collect();
    let is_found = negative.len() == 1 && numbers.iter().any(|number| *number >= zero);
    let value = negative.into_iter().next().filter(|value| is_found && is_of_nines(value))?;
    Some(SourceRemark::Sentinel { value: value.to_owned() })
}

/// Two different texts with a fraction that are the same number, in a field in which no text occurs twice: probably names, such as
/// 1.1 and 1.10.
fn equal_numbers(texts: &[&str], numbers: &[Decimal]) -> Option<SourceRemark> {
    let mut texts_by_number = HashMap::new();
    let mut seen = HashSet::new();
    if !texts.iter().all(|text| seen.insert(*text)) {
        return None;
    }
    texts.iter().zip(numbers).filter(|(text, _)| text.contains('.')).find_map(|(text, number)| {
        let first = *texts_by_number.entry(number.to_string()).or_insert(*text);
        let (one, other) = (first.to_owned(), (*text).to_owned());
        (first != *text).then_some(SourceRemark::EqualNumbers { one, other })
    })
}

/// The remark on a field in which more than half of the texts are numbers, if it is such a field.
fn mostly_numbers(texts: &[&str], is_number: impl Fn(&str) -> bool) -> Option<SourceRemark> {
    let (numbers, words): (Vec<&str>, Vec<&str>) = texts.iter().copied().partition(|text| is_number(text));
    let words: BTreeSet<_> = words.into_iter().map(str::to_owned).collect();
    (numbers.len() * 2 > texts.len()).then(|| SourceRemark::MostlyNumbers {
        numbers: numbers.len(),
        values: texts.len(),
        words: words.into_iter().collect(),
    })
}

/// Why a field that has numbers or dates is read as text.
fn text_remark(texts: &[&str]) -> Option<SourceRemark> {
    if let Some(bound) = texts.iter().find(|text| is_bound(text)) {
        return Some(SourceRemark::Bounds { value: (*bound).to_owned() });
    }
    let is_plain = |text: &str| NOTATIONS.iter().any(|marks| parse_all(&[text], *marks, None).is_some());
    if let Some(remark) = mostly_numbers(texts, is_plain) {
        return Some(remark);
    }
    if let Err(affixes) = find_affix(texts)
        && affixes.len() > 1
    {
        return Some(SourceRemark::MixedAffixes { affixes });
    }
    if let Some(remark) = mostly_numbers(texts, |text| is_plain(text) || find_affix(&[text]).is_ok()) {
        return Some(remark);
    }
    let is_date_like =
        |text: &&&str| Date::read(text).is_some() || DATES.iter().any(|format| is_date(format, &[**text]));
    let dates = texts.iter().filter(is_date_like).count();
    (dates * 2 >= texts.len()).then_some(SourceRemark::MixedDates)
}

#[cfg(test)]
mod tests;
