//! The form of the values of a field: numbers in a notation, dates, periods, words for missing values.

mod affix;
mod number;

use super::remark::{MarkOrigin, SourceRemark};
pub(super) use affix::affix_code;
use affix::{CellAffix, find_affix, is_bound};
use domain_base::moment::{Date, PeriodFormat, PeriodLength};
use domain_base::text_form::without_marks;
use domain_base::time_format::{ParsedTime, TimeFormat};
pub(super) use number::is_number;
pub(crate) use number::read_number;
use number::{affix_form, number_form};
use std::collections::{BTreeSet, HashSet};
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
/// One of each 100 values can be an exception to the form of a field, or to an identity.
pub(super) const EXCEPTION_OF: usize = 100;
/// The most values that a remark names as examples.
const EXAMPLES: usize = 5;
/// The beginnings of names of months without accents, in English, German, French, Spanish, Italian, Portuguese, Dutch and Polish.
const MONTH_BEGINNINGS: [&str; 44] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec", "mai", "okt", "dez",
    "fev", "avr", "jui", "aou", "ene", "abr", "ago", "dic", "gen", "mag", "giu", "lug", "set", "ott", "out",
    "maa", "mrt", "mei", "sty", "lut", "kwi", "maj", "cze", "lip", "sie", "wrz", "paz", "lis", "gru",
];
/// The most words of letters in a number or a date, such as those of `31 January 2024 10:30 PM`. A hash has more.
const NUMBER_WORDS_MAX: usize = 3;
/// The decimal mark, and the thousands separator.
type NumberMarks = (char, Option<char>);

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
    /// The decimal mark, if the numbers can be read with this one only, and the number of values that show it.
    pub(super) known_mark: Option<(char, usize)>,
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

/// A decimal mark that numbers probably have, and why.
#[derive(Debug, Clone)]
pub(super) struct FieldMark {
    pub(super) mark: char,
    pub(super) origin: MarkOrigin,
}

/// The knowledge about a field beside its values.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FieldHints<'h> {
    /// The format of a field with the names of unpivoted columns, if they are periods; `Some(None)` for the canonical form.
    pub(super) period: Option<Option<&'static str>>,
    /// The mark of numbers that can be read with either decimal mark.
    pub(super) mark: Option<&'h FieldMark>,
    /// Whether the values are numbers of JSON, which have one notation.
    pub(super) is_json_number: bool,
    /// Whether some of the values are such numbers.
    pub(super) has_json_numbers: bool,
}

/// The form of `values`.
pub(super) fn find_form(label: &str, values: &[Option<String>], hints: FieldHints<'_>) -> FoundForm {
    let present = || values.iter().flatten().map(|value| value.trim());
    let missing: BTreeSet<_> = present().filter(|value| is_missing(value)).map(str::to_owned).collect();
    let texts: Vec<_> = present().filter(|value| !is_missing(value)).collect();
    if let Some(format) = hints.period
        && let Some(length) = period_length(&present().collect::<Vec<_>>(), format)
    {
        return FoundForm::new(ValueForm::Period { length, format }, None);
    }
    let mut found =
        if texts.is_empty() { FoundForm::new(ValueForm::Text, None) } else { form_of(label, &texts, hints) };
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

fn form_of(label: &str, texts: &[&str], hints: FieldHints<'_>) -> FoundForm {
    let label = label.to_lowercase();
    let found = boolean_form(texts)
        .or_else(|| year_form(&label, texts))
        .or_else(|| code_form(&label, texts, hints))
        .or_else(|| number_form(texts, hints))
        .or_else(|| period_form(texts))
        .or_else(|| date_form(texts))
        .or_else(|| affix_form(texts, hints))
        .or_else(|| nearly_dated_form(texts));
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
fn code_form(label: &str, texts: &[&str], hints: FieldHints<'_>) -> Option<FoundForm> {
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
        && !hints.is_json_number
        && texts.iter().all(|text| is_of_digits(text) || exponent_code(text).is_some())
    {
        let value = (*code).to_owned();
        return Some(FoundForm::new(ValueForm::Text, [SourceRemark::ExponentCodes { value }]));
    }
    if texts.iter().all(|text| is_season(text)) {
        return Some(FoundForm::new(ValueForm::Text, [SourceRemark::Season]));
    }
    let has_point = |text: &&str| text.contains('.');
    if words(&SECTION_WORDS) && texts.iter().any(has_point) && number_form(texts, hints).is_some() {
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

/// Dates or periods, of which a few values are none: a run rejects them.
fn nearly_dated_form(texts: &[&str]) -> Option<FoundForm> {
    let exceptions_max = texts.len() / EXCEPTION_OF;
    if exceptions_max == 0 {
        return None;
    }
    date_readers().iter().find_map(|reader| {
        let exceptions = texts.iter().copied().filter(|text| !reader(text));
        let exceptions: Vec<_> = exceptions.take(exceptions_max + 1).collect();
        if exceptions.len() > exceptions_max {
            return None;
        }
        let dates: Vec<_> = texts.iter().copied().filter(|text| reader(text)).collect();
        let mut found = period_form(&dates).or_else(|| date_form(&dates))?;
        let records = exceptions.len();
        let values = exceptions.into_iter().take(EXAMPLES).map(str::to_owned).collect();
        found.remarks.push(SourceRemark::RejectedDates { values, records });
        Some(found)
    })
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
    let is_measured = !numbers.is_empty() && !numbers.iter().any(has_parts);
    let values = numbers.into_iter().chain(others).take(EXAMPLES).map(str::to_owned).collect();
    SourceRemark::Unread { values, is_measured }
}

/// The remark on a field in which most texts are number-like, but no numbers or dates of a form that is read.
fn mostly_unread(texts: &[&str]) -> Option<SourceRemark> {
    let has_few_words = |text: &str| {
        let words = text.split(|character: char| !character.is_alphabetic());
        words.filter(|word| !word.is_empty()).count() <= NUMBER_WORDS_MAX
    };
    let is_found = |text: &&str| is_number_like(text) && has_few_words(text) || has_month_name(text);
    let found: Vec<_> = texts.iter().copied().filter(is_found).collect();
    let is_found = found.len() * 2 > texts.len();
    is_found.then(|| unread(found.into_iter().collect::<BTreeSet<_>>()))
}

/// Whether a text is a name of a month, perhaps of a language whose names are not read, with a year, and perhaps a day.
fn has_month_name(text: &str) -> bool {
    let plain = without_marks(text).to_lowercase();
    let mut words =
        plain.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty());
    let is_year = |word: &str| word.len() == 4 && is_of_digits(word);
    let is_month = |word: &str| {
        word.bytes().all(|byte| byte.is_ascii_alphabetic())
            && MONTH_BEGINNINGS.iter().any(|beginning| word.starts_with(beginning))
    };
    let (mut has_year, mut has_month) = (false, false);
    let is_date = words.all(|word| {
        let (year, month) = (is_year(word) && !has_year, is_month(word) && !has_month);
        (has_year, has_month) = (has_year || year, has_month || month);
        year || month || (word.len() <= 2 && is_of_digits(word))
    });
    is_date && has_year && has_month
}

/// Why a field that has numbers or dates is read as text.
fn text_remark(texts: &[&str]) -> Option<SourceRemark> {
    if let Some(bound) = texts.iter().find(|text| is_bound(text)) {
        return Some(SourceRemark::Bounds { value: (*bound).to_owned() });
    }
    if let Some(remark) = mostly_numbers(texts, is_number) {
        return Some(remark);
    }
    if let Err(affixes) = find_affix(texts)
        && affixes.len() > 1
    {
        return Some(SourceRemark::MixedAffixes { affixes });
    }
    mostly_numbers(texts, |text| is_number(text) || find_affix(&[text]).is_ok())
        .or_else(|| date_remark(texts))
        .or_else(|| mostly_unread(texts))
}

type DateReader = Box<dyn Fn(&str) -> bool>;

/// The forms of dates, times and periods that are read.
fn date_readers() -> Vec<DateReader> {
    let of_dates: DateReader = Box::new(|text| Date::read(text).is_some());
    let of_periods = [PeriodLength::Month, PeriodLength::Quarter]
        .map(|length| -> DateReader { Box::new(move |text| length.is_canonical(text)) });
    let periods = PERIODS.into_iter().filter_map(|(length, format)| PeriodFormat::new(length, format).ok());
    let of_period_formats =
        periods.map(|format| -> DateReader { Box::new(move |text| format.parse(text).is_some()) });
    let formats = date_formats().filter_map(|format| TimeFormat::new(&format).ok());
    let of_formats =
        formats.map(|format| -> DateReader { Box::new(move |text| format.parse(text).is_some()) });
    [of_dates].into_iter().chain(of_periods).chain(of_period_formats).chain(of_formats).collect()
}

/// Why a field in which most texts are dates, times or periods is read as text.
fn date_remark(texts: &[&str]) -> Option<SourceRemark> {
    let readers = date_readers();
    let compared = texts.get(..DATES_COMPARED).unwrap_or(texts);
    let count = |reader: &DateReader| compared.iter().filter(|text| reader(text)).count();
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

#[cfg(test)]
mod tests;
