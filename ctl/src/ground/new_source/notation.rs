//! The form of the values of a field: numbers in a notation, dates, periods, words for missing values.

use super::remark::SourceRemark;
use domain_base::decimal::Decimal;
use domain_base::moment::{Date, PeriodFormat, PeriodLength};
use domain_base::number_notation::NumberNotation;
use domain_base::time_format::{ParsedTime, TimeFormat};
use domain_base::unit::UcumUnit;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;

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
const DATES: [&str; 17] = [
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
    "%y-%m-%d",
    "%d-%m-%y",
];
/// The formats of the days of times, in addition to [`DATES`].
const TIMED_DAYS: [&str; 1] = ["%Y-%m-%d"];
/// The formats of times after a day.
const TIMES: [&str; 7] =
    [" %H:%M:%S", " %H:%M", "T%H:%M:%S", "T%H:%M", " %H:%M:%S%.f", " %I:%M:%S %p", " %I:%M %p"];
/// Formats of dates and times without marks. Each can also be a number.
const COMPACT_DATES: [&str; 3] = ["%Y%m%d", "%Y%m%d%H%M", "%Y%m%d%H%M%S"];
const COMPACT_MONTH: &str = "%Y%m";
/// The years of numbers that are read as dates, whatever the name of their field.
const COMPACT_YEARS: Range<&str> = "1900".."2100";
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

/// The texts by which the usual format of dates is found, if not all are in one.
const DATES_COMPARED: usize = 200;
/// The most values that a remark names as examples.
const EXAMPLES: usize = 5;
/// The most words of letters in a number or a date, such as those of `31 January 2024 10:30 PM`. A hash has more.
const NUMBER_WORDS_MAX: usize = 3;
/// The fewest digits of an integer that is probably a code: 64-bit numbers of spreadsheets have fewer.
const CODE_DIGITS: usize = 16;
/// How many times larger than all other numbers a number of nines is, if it probably means that a value is missing.
const SENTINEL_RATIO: f64 = 10.0;

/// The decimal mark, and the thousands separator.
type NumberMarks = (char, Option<char>);
/// Numbers in a notation.
type NumberReading = (NumberMarks, Vec<Decimal>);

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
    /// The decimal mark, if the numbers can be read with this one only.
    pub(super) known_mark: Option<char>,
}

impl FoundForm {
    fn new(form: ValueForm, remarks: impl IntoIterator<Item = SourceRemark>) -> Self {
        Self { form, missing_values: Vec::new(), remarks: remarks.into_iter().collect(), known_mark: None }
    }

    /// Whether the numbers can be read with either decimal mark.
    pub(super) fn has_either_mark(&self) -> bool {
        self.remarks.iter().any(|remark| matches!(remark, SourceRemark::DecimalMark { .. }))
    }
}

/// The decimal mark that other fields of the records have, and the first such field.
#[derive(Debug, Clone)]
pub(super) struct FieldMark {
    pub(super) mark: char,
    pub(super) field: String,
}

/// The form of `values`. `period` is the format of a field with the names of unpivoted columns. Numbers that can be read with either
/// decimal mark have `mark`.
pub(super) fn find_form(
    label: &str,
    values: &[Option<String>],
    period: Option<Option<&'static str>>,
    mark: Option<&FieldMark>,
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
        if texts.is_empty() { FoundForm::new(ValueForm::Text, None) } else { form_of(label, &texts, mark) };
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

fn form_of(label: &str, texts: &[&str], mark: Option<&FieldMark>) -> FoundForm {
    let label = label.to_lowercase();
    let found = boolean_form(texts)
        .or_else(|| year_form(&label, texts))
        .or_else(|| code_form(&label, texts))
        .or_else(|| number_form(texts, mark))
        .or_else(|| period_form(texts))
        .or_else(|| date_form(texts))
        .or_else(|| affix_form(texts, mark));
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
    let found =
        |format, remark| FoundForm::new(ValueForm::Period { length: PeriodLength::Year, format }, remark);
    if is_named && texts.iter().all(is_year) {
        return Some(found(None, None));
    }
    let is_short = |text: &&str| text.len() == 2 && is_of_digits(text);
    let mut words = label.split(|character: char| !character.is_alphabetic());
    let is_year_word = words.any(|word| YEAR_WORDS.contains(&word));
    (is_year_word && texts.iter().all(is_short)).then(|| found(Some("%y"), Some(SourceRemark::TwoDigitYears)))
}

fn is_of_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Texts that look like numbers or dates, and are names: codes, sections, seasons; or dates that look like numbers.
fn code_form(label: &str, texts: &[&str]) -> Option<FoundForm> {
    // a code such as 007, or a telephone number
    let is_code = |text: &&str| {
        let digits = text.strip_prefix('+').filter(|digits| digits.len() > 6).unwrap_or(text);
        digits.len() > 1 && (digits.starts_with('0') || digits.len() < text.len()) && is_of_digits(digits)
    };
    if texts.iter().any(is_code) {
        return Some(FoundForm::new(ValueForm::Text, None));
    }
    let words = |words: &[&str]| words.iter().any(|word| label.contains(word));
    if let Some(found) = compact_form(words(&DATE_WORDS), texts) {
        return Some(found);
    }
    if let Some(code) = texts.iter().find(|text| exponent_code(text).is_some())
        && texts.iter().all(|text| is_of_digits(text) || exponent_code(text).is_some())
    {
        let value = (*code).to_owned();
        return Some(FoundForm::new(ValueForm::Text, [SourceRemark::ExponentCodes { value }]));
    }
    if texts.iter().all(|text| is_season(text)) {
        return Some(FoundForm::new(ValueForm::Text, [SourceRemark::Season]));
    }
    let has_point = |text: &&str| text.contains('.');
    if words(&SECTION_WORDS) && texts.iter().any(has_point) && number_form(texts, None).is_some() {
        return Some(FoundForm::new(ValueForm::Text, [SourceRemark::SectionNumbers]));
    }
    None
}

/// The parts of a text such as 1E5: digits around the letter. Writers of numbers add a point or a sign.
fn exponent_code(text: &str) -> Option<(&str, &str)> {
    text.split_once(['e', 'E']).filter(|(before, after)| is_of_digits(before) && is_of_digits(after))
}

/// Dates without marks, such as 20240131. In a field whose name does not mean a date, they have a probable year.
fn compact_form(is_named: bool, texts: &[&str]) -> Option<FoundForm> {
    let is_probable =
        |text: &&str| is_named || text.get(..4).is_some_and(|year| COMPACT_YEARS.contains(&year));
    if !texts.iter().all(|text| is_of_digits(text) && is_probable(text)) {
        return None;
    }
    let remarks = [SourceRemark::CompactDates {
        value: texts.first().copied().unwrap_or_default().to_owned(),
        are_read: true,
    }];
    if texts.iter().all(|text| text.len() == 6) && is_period(PeriodLength::Month, COMPACT_MONTH, texts) {
        let form = ValueForm::Period { length: PeriodLength::Month, format: Some(COMPACT_MONTH) };
        return Some(FoundForm::new(form, remarks));
    }
    let format = COMPACT_DATES.into_iter().find(|format| is_date(format, texts))?;
    let is_local = format.contains("%H");
    let form = ValueForm::Date { format: Some(format.to_owned()), is_local };
    let local = is_local.then_some(SourceRemark::LocalTimes);
    Some(FoundForm::new(form, remarks.into_iter().chain(local)))
}

/// The remark on numbers of which most can be dates.
fn compact_dates(texts: &[&str]) -> Option<SourceRemark> {
    let dates = || texts.iter().filter(|text| compact_form(false, &[**text]).is_some());
    let value = (*dates().next()?).to_owned();
    (dates().count() * 2 > texts.len()).then_some(SourceRemark::CompactDates { value, are_read: false })
}

/// Whether a text such as 2008-09 is a season from one year to the next. It is also the form of a month.
pub(super) fn is_season(text: &str) -> bool {
    let Some((year, next)) = text.split_once('-') else { return false };
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

/// The formats of days and times that are tried.
fn date_formats() -> impl Iterator<Item = String> {
    let timed = TIMED_DAYS.iter().chain(&DATES).flat_map(|day| TIMES.map(|time| format!("{day}{time}")));
    DATES.into_iter().map(str::to_owned).chain(timed)
}

fn date_form(texts: &[&str]) -> Option<FoundForm> {
    if texts.iter().all(|text| Date::read(text).is_some()) {
        return Some(FoundForm::new(ValueForm::Date { format: None, is_local: false }, None));
    }
    if !texts.iter().all(|text| text.bytes().any(|byte| byte.is_ascii_digit())) {
        return None;
    }
    let found: Vec<_> = date_formats().filter(|format| is_date(format, texts)).collect();
    let Some(format) = found.first().cloned() else { return short_years(texts) };
    let parsed = |format: &str| -> Vec<_> {
        let format = TimeFormat::new(format).ok();
        texts.iter().map(|text| format.as_ref().and_then(|format| format.parse(text))).collect()
    };
    let times = parsed(&format);
    let mut remarks = Vec::new();
    if let Some(other) = found.iter().skip(1).find(|other| parsed(other) != times) {
        remarks.push(SourceRemark::DateOrder { format: format.clone(), other: other.clone() });
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

fn number_form(texts: &[&str], mark: Option<&FieldMark>) -> Option<FoundForm> {
    let plain: Option<Vec<Decimal>> = texts.iter().map(|text| text.parse().ok()).collect();
    let Some(numbers) = plain else { return numbers_found(texts, find_readings(texts, None), None, mark) };
    // 1.234 can be a number with a decimal point, or one thousand and more
    let thousands = texts.iter().any(|text| text.contains('.')).then_some((',', Some('.')));
    let thousands = thousands.and_then(|marks| Some((marks, parse_all(texts, marks, None)?)));
    let readings = [Some((('.', None), numbers)), thousands].into_iter().flatten().collect();
    let mut found = numbers_found(texts, readings, None, mark)?;
    let is_ordinary = !found.has_either_mark();
    if let ValueForm::Number { notation, .. } = &mut found.form
        && is_ordinary
    {
        *notation = None;
    }
    Some(found)
}

fn affix_form(texts: &[&str], mark: Option<&FieldMark>) -> Option<FoundForm> {
    let affix = find_affix(texts).ok()?;
    let readings = find_readings(texts, Some(&affix));
    numbers_found(texts, readings, Some(affix), mark)
}

/// The form of numbers that can be read in these ways. If the numbers differ, those with the decimal mark of another field are taken,
/// else the first.
fn numbers_found(
    texts: &[&str],
    mut readings: Vec<NumberReading>,
    affix: Option<CellAffix>,
    mark: Option<&FieldMark>,
) -> Option<FoundForm> {
    let (_, first) = readings.first()?;
    let is_ambiguous = readings.iter().any(|(_, numbers)| numbers != first);
    let like_others = mark.filter(|_| is_ambiguous).and_then(|of| {
        let index = readings.iter().position(|((mark, _), _)| *mark == of.mark)?;
        Some((index, of.field.clone()))
    });
    let (index, as_in) = like_others.map_or((0, None), |(index, field)| (index, Some(field)));
    let (notation, numbers) = readings.swap_remove(index);
    let mut remarks = Vec::new();
    if is_ambiguous {
        remarks.push(SourceRemark::DecimalMark { as_in });
    }
    if let Some(affix) = &affix {
        if !affix.is_plain() {
            remarks.push(SourceRemark::Affix);
        }
        if affix.accounting {
            remarks.push(SourceRemark::Accounting);
        }
    }
    remarks.extend(sentinel(texts, &numbers));
    remarks.extend(equal_numbers(texts, &numbers));
    remarks.extend(code_remarks(texts));
    remarks.extend(compact_dates(texts));
    let is_integer = numbers.iter().all(Decimal::is_integer);
    let has_marks = || texts.iter().any(|text| text.contains(['.', ',']));
    let known_mark = (!is_ambiguous && has_marks()).then_some(notation.0);
    let form = ValueForm::Number { is_integer, notation: Some(notation), affix };
    Some(FoundForm { known_mark, ..FoundForm::new(form, remarks) })
}

/// The notations in which all texts are numbers, with the numbers.
fn find_readings(texts: &[&str], affix: Option<&CellAffix>) -> Vec<NumberReading> {
    let readings = NOTATIONS.into_iter().filter_map(|marks| Some((marks, parse_all(texts, marks, affix)?)));
    readings.collect()
}

/// The number in a text, if all notations in which it is a number give the same one.
pub(crate) fn read_number(text: &str) -> Option<Decimal> {
    let mut readings = find_readings(&[text], None).into_iter().flat_map(|(_, numbers)| numbers);
    let first = readings.next()?;
    readings.all(|number| number == first).then_some(first)
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

/// Numbers of nines, such as -9.99, -999 or 9999.9, that are negative among others that are not, or far from all others.
fn sentinel(texts: &[&str], numbers: &[Decimal]) -> Option<SourceRemark> {
    let is_of_nines = |text: &str| {
        let digits = text.strip_prefix('-').unwrap_or(text);
        let nines = if digits.len() < text.len() { 2 } else { 3 };
        digits.matches('9').count() >= nines
            && digits.bytes().all(|byte| matches!(byte, b'9' | b'0' | b'.' | b','))
    };
    let size = |number: &Decimal| number.to_string().parse::<f64>().unwrap_or_default();
    let pairs = texts.iter().zip(numbers.iter().map(size));
    let (marks, others): (Vec<_>, Vec<_>) = pairs.partition(|(text, _)| is_of_nines(text));
    let is_negative = others.iter().any(|(_, number)| *number < 0.0);
    let largest = others.iter().map(|(_, number)| number.abs()).fold(0.0, f64::max);
    let is_sentinel = |number: f64| {
        (number < 0.0 && !is_negative) || (largest > 0.0 && number.abs() > largest * SENTINEL_RATIO)
    };
    let values =
        marks.into_iter().filter(|(_, number)| is_sentinel(*number)).map(|(text, _)| (*text).to_owned());
    let values: BTreeSet<_> = values.collect();
    (!values.is_empty()).then(|| SourceRemark::Sentinel { values: values.into_iter().collect() })
}

/// The remarks on integers that can be codes.
fn code_remarks(texts: &[&str]) -> impl Iterator<Item = SourceRemark> {
    let find = |is_code: &dyn Fn(&str) -> bool| {
        texts.iter().find(|text| is_code(text)).map(|text| (*text).to_owned())
    };
    let has_exponent =
        |text: &str| text.split_once(['e', 'E']).is_some_and(|(before, _)| is_of_digits(before));
    let is_long = |text: &str| text.len() >= CODE_DIGITS && is_of_digits(text);
    let exponent = find(&has_exponent).map(|value| SourceRemark::Exponents { value });
    exponent.into_iter().chain(find(&is_long).map(|value| SourceRemark::LongNumbers { value }))
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
    if numbers.len() * 2 <= texts.len() {
        return None;
    }
    let words: BTreeSet<_> = words.into_iter().collect();
    // such a word is a value that is written in another way, and not a word for a missing one
    if words.iter().any(|word| is_number_like(word)) {
        return Some(unread(words));
    }
    let words = words.into_iter().map(str::to_owned).collect();
    Some(SourceRemark::MostlyNumbers { numbers: numbers.len(), values: texts.len(), words })
}

/// Whether a text is probably a number, a date or a time, also with a sign or a unit, and in a form that is not read.
pub(super) fn is_number_like(text: &str) -> bool {
    let number = text.trim_start_matches(|first: char| !first.is_alphanumeric());
    let digits = number.chars().filter(|character| character.is_numeric()).count();
    let letters = number.chars().filter(|character| character.is_alphabetic()).count();
    // the letters of 1e5, of 2024-01-31T10:00Z, or of a short unit
    let has_few_letters = letters < digits || (letters <= 3 && number.contains(' '));
    let is_infinite = || ["inf", "infinity"].contains(&number.to_lowercase().as_str());
    number.starts_with(char::is_numeric) && has_few_letters || is_infinite()
}

/// The remark on texts of which some are [number-like](is_number_like).
fn unread<'t>(texts: impl IntoIterator<Item = &'t str>) -> SourceRemark {
    let (numbers, others): (Vec<_>, Vec<_>) = texts.into_iter().partition(|text| is_number_like(text));
    // a day, a time or a range, such as 18-24, has a mark between two of its numbers
    let has_parts = |text: &&str| {
        let mut parts = text.split(['-', ':', '/']);
        parts.any(|part| part.ends_with(char::is_numeric))
            && parts.any(|part| part.starts_with(char::is_numeric))
    };
    let is_measured = !numbers.iter().any(has_parts);
    let values = numbers.into_iter().chain(others).take(EXAMPLES).map(str::to_owned).collect();
    SourceRemark::Unread { values, is_measured }
}

/// The remark on a field in which most texts are number-like, but no numbers or dates of a form that is read.
fn mostly_unread(texts: &[&str]) -> Option<SourceRemark> {
    let has_few_words = |text: &str| {
        let words = text.split(|character: char| !character.is_alphabetic());
        words.filter(|word| !word.is_empty()).count() <= NUMBER_WORDS_MAX
    };
    let found: Vec<_> =
        texts.iter().copied().filter(|text| is_number_like(text) && has_few_words(text)).collect();
    let is_found = found.len() * 2 > texts.len();
    is_found.then(|| unread(found.into_iter().collect::<BTreeSet<_>>()))
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
    mostly_numbers(texts, |text| is_plain(text) || find_affix(&[text]).is_ok())
        .or_else(|| date_remark(texts))
        .or_else(|| mostly_unread(texts))
}

/// Why a field in which most texts are dates, times or periods is read as text.
fn date_remark(texts: &[&str]) -> Option<SourceRemark> {
    type Reader = Box<dyn Fn(&str) -> bool>;
    let read = |format: &str| TimeFormat::new(format).ok();
    let formats = date_formats().filter_map(|format| read(&format));
    let of_formats = formats.map(|format| -> Reader { Box::new(move |text| format.parse(text).is_some()) });
    let of_periods = [PeriodLength::Month, PeriodLength::Quarter]
        .map(|length| -> Reader { Box::new(move |text| length.is_canonical(text)) });
    let of_dates: Reader = Box::new(|text| Date::read(text).is_some());
    let readers: Vec<_> = [of_dates].into_iter().chain(of_periods).chain(of_formats).collect();
    let compared = texts.get(..DATES_COMPARED).unwrap_or(texts);
    let count = |reader: &Reader| compared.iter().filter(|text| reader(text)).count();
    let is_dated = |text: &&&str| readers.iter().any(|reader| reader(text));
    if compared.iter().filter(is_dated).count() * 2 < compared.len() {
        return None;
    }
    let usual = readers.iter().rev().max_by_key(|reader| count(reader))?;
    let (dates, others): (Vec<&str>, Vec<&str>) = texts.iter().copied().partition(|text| usual(text));
    let shapes: HashSet<_> = dates.iter().map(|text| date_shape(text)).collect();
    let does_not_exist = |text: &&&str| shapes.contains(&date_shape(text)) && !is_dated(text);
    if let Some(value) = others.iter().find(does_not_exist) {
        return Some(SourceRemark::NoSuchDate { value: (*value).to_owned() });
    }
    let values = dates.first().into_iter().chain(others.first()).map(|text| (*text).to_owned());
    Some(SourceRemark::MixedDates { values: values.collect() })
}

/// The form of a date: words, numbers of one or two digits, and longer numbers are each the same.
fn date_shape(text: &str) -> String {
    let mut shape = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_same: fn(char) -> bool = match first {
            _ if first.is_ascii_digit() => |character| character.is_ascii_digit(),
            _ if first.is_alphabetic() => char::is_alphabetic,
            _ => |_| false,
        };
        let after = rest.trim_start_matches(is_same);
        let run = rest.len() - after.len();
        rest = match run {
            0 => {
                shape.push(first);
                rest.get(first.len_utf8()..).unwrap_or_default()
            }
            _ if first.is_alphabetic() => {
                shape.push('a');
                after
            }
            digits => {
                shape.push_str(&"0".repeat(digits.max(2)));
                after
            }
        };
    }
    shape
}

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
pub(super) struct CellAffix {
    /// Empty if there is none.
    pub(super) prefix: String,
    /// Empty if there is none.
    pub(super) suffix: String,
    /// Whether numbers in parentheses are negative.
    pub(super) accounting: bool,
}

impl CellAffix {
    /// Whether there are only parentheses.
    pub(super) const fn is_plain(&self) -> bool {
        self.prefix.is_empty() && self.suffix.is_empty()
    }

    /// The sign or the unit, as in the cells.
    pub(super) fn unit(&self) -> Option<&str> {
        [self.suffix.as_str(), self.prefix.as_str()].into_iter().find(|text| !text.is_empty())
    }
}

/// Whether a text is a bound or an estimate, such as `<0.5`.
fn is_bound(text: &str) -> bool {
    let number = text.trim_start_matches(|character: char| BOUNDS.contains(&character) || character == '=');
    number.len() < text.len()
        && number.trim_start().starts_with(|first: char| first.is_ascii_digit() || first == '.')
}

/// The UCUM code of a sign of a currency, of its code, or of a unit.
pub(super) fn affix_code(text: &str) -> Option<String> {
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
fn find_affix(texts: &[&str]) -> Result<CellAffix, Vec<String>> {
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

#[cfg(test)]
mod tests;
