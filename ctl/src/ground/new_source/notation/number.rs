//! Numbers in a notation. The decimal mark of numbers that can be read with either mark is found by their majority, and by the rest of
//! the file.

use super::affix::{CellAffix, find_affix};
use super::{
    EXCEPTION_OF, FieldHints, FieldMark, FoundForm, NumberMarks, ValueForm, compact_dates, is_of_digits,
};
use crate::ground::new_source::remark::{MarkOrigin, SourceRemark};
use domain_base::decimal::Decimal;
use domain_base::number_notation::NumberNotation;
use std::collections::{BTreeSet, HashMap, HashSet};

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
/// The fewest digits of an integer that is probably a code: 64-bit numbers of spreadsheets have fewer.
const CODE_DIGITS: usize = 16;
/// How many times larger than all other numbers a number of nines is, if it probably means that a value is missing.
const SENTINEL_RATIO: f64 = 10.0;
/// The fewest numbers such as 1.234, and the fewest without a mark, that together show whether it separates thousands.
const MARKED_MIN: usize = 20;
/// The fewest numbers without a mark that show it.
const WHOLE_MIN: usize = 5;

/// Numbers in a notation.
struct NumberReading<'t> {
    marks: NumberMarks,
    texts: Vec<&'t str>,
    numbers: Vec<Decimal>,
}

pub(super) fn number_form(texts: &[&str], hints: FieldHints<'_>) -> Option<FoundForm> {
    let mut found = numbers_found(texts, None, hints)?;
    let is_plain = texts.iter().all(|text| text.parse::<Decimal>().is_ok()) && !found.has_either_mark();
    if let ValueForm::Number { notation, .. } = &mut found.form
        && is_plain
    {
        *notation = None;
    }
    Some(found)
}

pub(super) fn affix_form(texts: &[&str], hints: FieldHints<'_>) -> Option<FoundForm> {
    let affix = find_affix(texts).ok()?;
    numbers_found(texts, Some(affix), hints)
}

/// The form of numbers. If they can be read in several ways, those with the decimal mark of other fields are taken, else those with
/// the mark that they show together, else those with a usual mark unless some values show another one, else the first.
fn numbers_found(texts: &[&str], affix: Option<CellAffix>, hints: FieldHints<'_>) -> Option<FoundForm> {
    let shown = ShownMarks::of(texts);
    let mut readings = find_readings(texts, affix.as_ref());
    let is_json = hints.is_json_number || hints.has_json_numbers;
    if is_json {
        readings.retain(|reading| reading.marks == ('.', None));
    }
    // a usual mark does not overrule those that values show
    let has_default = differ(&readings);
    let against = readings.first().and_then(|first| shown.against(first.marks.0)).filter(|_| !is_json);
    readings.extend(against.and_then(|mark| read_most(texts, mark, affix.as_ref())));
    let is_ambiguous = differ(&readings);
    let (of_field, by_default) = match hints.mark {
        Some(mark) if matches!(mark.origin, MarkOrigin::Field(_)) => (Some(mark.clone()), None),
        mark => (None, mark.filter(|_| has_default).cloned()),
    };
    let mut marks = of_field.into_iter().chain(shown.usual()).chain(by_default).filter(|_| is_ambiguous);
    let chosen = marks.find_map(|FieldMark { mark, origin }| {
        let index = readings.iter().position(|reading| reading.marks.0 == mark)?;
        Some((index, Some(origin)))
    });
    let (index, as_in) = chosen.unwrap_or((0, None));
    let NumberReading { marks, texts, numbers } = readings.into_iter().nth(index)?;
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
    remarks.extend(sentinel(&texts, &numbers));
    remarks.extend(equal_numbers(&texts, &numbers));
    remarks.extend(code_remarks(&texts, hints.is_json_number));
    remarks.extend(compact_dates(&texts));
    let is_integer = numbers.iter().all(Decimal::is_integer);
    let is_known = !is_ambiguous && !is_json;
    let known_mark = shown.count(marks.0).filter(|_| is_known).map(|count| (marks.0, count));
    let form = ValueForm::Number { is_integer, notation: Some(marks), affix };
    Some(FoundForm { known_mark, ..FoundForm::new(form, remarks) })
}

/// Whether the numbers depend on the notation.
fn differ(readings: &[NumberReading<'_>]) -> bool {
    readings
        .split_first()
        .is_some_and(|(first, others)| others.iter().any(|other| other.numbers != first.numbers))
}

/// The notations in which all texts are numbers, with the numbers.
fn find_readings<'t>(texts: &[&'t str], affix: Option<&CellAffix>) -> Vec<NumberReading<'t>> {
    let readings = NOTATIONS.into_iter().filter_map(|marks| {
        let notation = notation(marks, affix)?;
        let numbers = texts.iter().map(|text| notation.parse(text)).collect::<Option<Vec<_>>>()?;
        Some(NumberReading { marks, texts: texts.to_vec(), numbers })
    });
    // without a mark, all notations give the same numbers
    let has_marks = texts.iter().any(|text| text.contains(['.', ',']));
    readings.take(if has_marks { NOTATIONS.len() } else { 1 }).collect()
}

/// The first notation with the decimal mark `mark` in which nearly all texts are numbers.
fn read_most<'t>(texts: &[&'t str], mark: char, affix: Option<&CellAffix>) -> Option<NumberReading<'t>> {
    NOTATIONS.into_iter().filter(|marks| marks.0 == mark).find_map(|marks| {
        let notation = notation(marks, affix)?;
        let read = texts.iter().filter_map(|text| Some((*text, notation.parse(text)?)));
        let (read, numbers): (Vec<_>, Vec<_>) = read.unzip();
        let exceptions = texts.len() - read.len();
        (exceptions * EXCEPTION_OF <= texts.len()).then_some(NumberReading { marks, texts: read, numbers })
    })
}

fn notation((mark, separator): NumberMarks, affix: Option<&CellAffix>) -> Option<NumberNotation> {
    let notation = NumberNotation::new(mark, separator).ok()?;
    match affix {
        Some(affix) => notation.with_affixes(&affix.prefix, &affix.suffix, affix.accounting).ok(),
        None => Some(notation),
    }
}

/// The number in a text, if all notations in which it is a number give the same one.
pub(crate) fn read_number(text: &str) -> Option<Decimal> {
    let mut readings = find_readings(&[text], None).into_iter().flat_map(|reading| reading.numbers);
    let first = readings.next()?;
    readings.all(|number| number == first).then_some(first)
}

/// Whether a text is a number in one of the notations.
pub(crate) fn is_number(text: &str) -> bool {
    !find_readings(&[text], None).is_empty()
}

/// How many values show which decimal mark.
#[derive(Debug, Default)]
struct ShownMarks {
    points: MarkCount,
    commas: MarkCount,
    /// Numbers without a mark from 100 on, except numbers of nines. Smaller ones are usual beside decimals and beside thousands.
    whole: usize,
    /// Those of them with more than three digits.
    long: usize,
}

#[derive(Debug, Default)]
struct MarkCount {
    /// The values in which it can only be the decimal mark.
    decimal: usize,
    /// The values such as 1.234, in which it is the decimal mark or separates thousands.
    either: usize,
}

impl ShownMarks {
    fn of(texts: &[&str]) -> Self {
        let mut shown = Self::default();
        texts.iter().for_each(|text| shown.note(text));
        shown
    }

    fn note(&mut self, text: &str) {
        let is_of_number = |character: char| character.is_ascii_digit() || ".,".contains(character);
        let number = text.trim_matches(|character: char| !is_of_number(character));
        let Some((before, rest)) = number.rfind(['.', ',']).and_then(|at| number.split_at_checked(at)) else {
            if !is_of_nines(text) {
                let digits = if is_of_digits(number) { number.trim_start_matches('0').len() } else { 0 };
                self.whole += usize::from(digits >= 3);
                self.long += usize::from(digits > 3);
            }
            return;
        };
        let mark = if rest.starts_with('.') { '.' } else { ',' };
        let after = rest.get(1..).unwrap_or_default();
        let is_group = is_of_digits(before) && before.len() <= 3 && !before.starts_with('0');
        if is_group && is_of_digits(after) && after.len() == 3 {
            self.count_mut(mark).either += 1;
        } else if before.contains(mark) {
            // a decimal mark occurs once
            self.count_mut(other_mark(mark)).decimal += 1;
        } else {
            self.count_mut(mark).decimal += 1;
        }
    }

    const fn count_mut(&mut self, mark: char) -> &mut MarkCount {
        if mark == '.' { &mut self.points } else { &mut self.commas }
    }

    const fn of_mark(&self, mark: char) -> &MarkCount {
        if mark == '.' { &self.points } else { &self.commas }
    }

    /// The number of values that show this decimal mark; `None` if no value has a mark.
    fn count(&self, mark: char) -> Option<usize> {
        let has_marks = [&self.points, &self.commas].iter().any(|count| count.decimal + count.either > 0);
        has_marks.then(|| self.of_mark(mark).decimal.max(1))
    }

    /// The other mark, if only a few values show that `mark` is the decimal mark, and most can be read with either.
    const fn against(&self, mark: char) -> Option<char> {
        let decimal = self.of_mark(mark).decimal;
        if decimal == 0 || decimal * EXCEPTION_OF > self.points.either + self.commas.either {
            return None;
        }
        Some(other_mark(mark))
    }

    /// The decimal mark by the numbers without a mark: with at most three digits, the thousands are separated. A few such numbers
    /// show nothing.
    fn usual(&self) -> Option<FieldMark> {
        let mark = if self.points.either < self.commas.either { ',' } else { '.' };
        let either = self.of_mark(mark).either;
        if either < MARKED_MIN || self.whole < WHOLE_MIN || self.whole * EXCEPTION_OF < either {
            return None;
        }
        let is_grouped = self.long * EXCEPTION_OF <= self.whole;
        let mark = if is_grouped { other_mark(mark) } else { mark };
        Some(FieldMark { mark, origin: MarkOrigin::Lengths })
    }
}

const fn other_mark(mark: char) -> char {
    if mark == '.' { ',' } else { '.' }
}

/// Whether a text is a number of nines, such as -9.99, -999 or 9999.9, which often means that a value is missing.
fn is_of_nines(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let nines = if digits.len() < text.len() { 2 } else { 3 };
    digits.matches('9').count() >= nines
        && digits.bytes().all(|byte| matches!(byte, b'9' | b'0' | b'.' | b','))
}

/// The numbers of nines that are negative among others that are not, or far from all others.
fn sentinel(texts: &[&str], numbers: &[Decimal]) -> Option<SourceRemark> {
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

/// The remarks on integers that can be codes. A number of JSON with an exponent is none.
fn code_remarks(texts: &[&str], is_json_number: bool) -> impl Iterator<Item = SourceRemark> {
    let find = |is_code: &dyn Fn(&str) -> bool| {
        texts.iter().find(|text| is_code(text)).map(|text| (*text).to_owned())
    };
    let has_exponent =
        |text: &str| text.split_once(['e', 'E']).is_some_and(|(before, _)| is_of_digits(before));
    let is_long = |text: &str| text.len() >= CODE_DIGITS && is_of_digits(text);
    let exponent = find(&has_exponent).filter(|_| !is_json_number);
    let exponent = exponent.map(|value| SourceRemark::Exponents { value });
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
