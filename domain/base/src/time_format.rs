//! Formats of dates and times in `strftime` syntax, read strictly.
//!
//! jiff's own parser is tolerant: `%Y` takes one to four digits, so that `31.12.24` becomes a day of the year 24, and it
//! reads second 60 as 59. Here a year has the digits that its format says, and a time that does not exist is refused.

use jiff::fmt::strtime::BrokenDownTime;
use jiff::{Timestamp, civil};

const DAY_SECONDS: u32 = 24 * 60 * 60;

/// The directives that stand for several others.
const COMPOSITE: [(char, &str); 4] =
    [('F', "%Y-%m-%d"), ('T', "%H:%M:%S"), ('R', "%H:%M"), ('D', "%m/%d/%y")];

/// A format of dates or times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeFormat {
    /// The format as written.
    given: String,
    /// The format with composite directives written out.
    expanded: String,
    checks: Vec<DigitCheck>,
    is_local: bool,
}

/// A time as a text in a format names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParsedTime {
    /// A day without an hour.
    Day(civil::Date),
    /// A time with an offset, or a number of seconds.
    Moment(Timestamp),
    /// A time without an offset.
    Local(civil::DateTime),
}

/// A directive whose digits jiff does not check.
#[derive(Debug, Clone, PartialEq, Eq)]
struct DigitCheck {
    /// The format before the directive.
    before: String,
    rule: DigitRule,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DigitRule {
    /// Exactly this number of digits.
    Exact(usize),
    /// This number of digits if another digit comes directly before: in `%Y%m%d`, `2024111` has two readings.
    AfterDigit(usize),
    /// A number other than 60, with at most this number of digits.
    Second(usize),
}

/// A directive of a format.
struct Directive<'f> {
    /// Its flag, width, colons or point.
    options: &'f str,
    letter: char,
    /// The format after it.
    rest: &'f str,
}

impl<'f> Directive<'f> {
    /// The directive after a `%`.
    fn split(after_percent: &'f str) -> Result<Self, String> {
        let is_option = |character: char| "-_^#:.".contains(character) || character.is_ascii_digit();
        let letter_at = after_percent.find(|character| !is_option(character));
        let (options, tail) = after_percent.split_at(letter_at.unwrap_or(after_percent.len()));
        let mut tail = tail.chars();
        let letter = tail.next().ok_or("it ends within a directive")?;
        Ok(Self { options, letter, rest: tail.as_str() })
    }

    /// The usual number of digits; `None` if it is not a number, or one of any length.
    const fn digits(&self) -> Option<usize> {
        match self.letter {
            'u' | 'w' => Some(1),
            'd' | 'e' | 'g' | 'H' | 'I' | 'k' | 'l' | 'M' | 'm' | 'S' | 'U' | 'V' | 'W' | 'y' => Some(2),
            'j' => Some(3),
            'G' | 'Y' => Some(4),
            _ => None,
        }
    }

    fn width(&self) -> usize {
        self.options.trim_start_matches(|option: char| !option.is_ascii_digit()).parse().unwrap_or(0)
    }

    /// The check of its digits, if it needs one. `after_number` is whether digits may come directly before it.
    fn check(&self, after_number: bool) -> Result<Option<DigitRule>, String> {
        let Some(digits) = self.digits() else { return Ok(None) };
        Ok(match self.letter {
            'G' | 'g' | 'Y' | 'y' if !self.options.is_empty() => {
                let Self { options, letter, .. } = self;
                return Err(format!(
                    "`%{options}{letter}` is not supported: a year has four digits (`%Y`) or two (`%y`)"
                ));
            }
            'G' | 'g' | 'Y' | 'y' => Some(DigitRule::Exact(digits)),
            'S' => Some(DigitRule::Second(digits.max(self.width()))),
            _ if after_number => Some(DigitRule::AfterDigit(digits)),
            _ => None,
        })
    }
}

impl TimeFormat {
    /// Compiles a format.
    ///
    /// # Errors
    /// The fault of the format.
    pub fn new(given: &str) -> Result<Self, String> {
        Self::compile(given, false)
    }

    /// Compiles a format whose month (`%m`) is the number of a quarter, which has one digit.
    pub(super) fn with_quarter(given: &str) -> Result<Self, String> {
        Self::compile(given, true)
    }

    fn compile(given: &str, has_quarter: bool) -> Result<Self, String> {
        let expanded = expand(given)?;
        let (mut checks, mut letters) = (Vec::new(), String::new());
        let (mut rest, mut after_number) = (expanded.as_str(), false);
        while let Some((literal, after_percent)) = rest.split_once('%') {
            after_number &= literal.chars().all(char::is_whitespace);
            let directive = Directive::split(after_percent)?;
            let before = expanded.len() - after_percent.len() - 1;
            let before = expanded.get(..before).unwrap_or_default();
            let rule = match directive.check(after_number)? {
                Some(DigitRule::AfterDigit(_)) if has_quarter && directive.letter == 'm' => {
                    Some(DigitRule::AfterDigit(1))
                }
                rule => rule,
            };
            let full = match rule {
                Some(DigitRule::Second(digits)) if after_number => Some(DigitRule::AfterDigit(digits)),
                _ => None,
            };
            let rules = [rule, full].into_iter().flatten();
            checks.extend(rules.map(|rule| DigitCheck { before: before.to_owned(), rule }));
            after_number = directive.digits().is_some();
            letters.push(directive.letter);
            rest = directive.rest;
        }
        let is_local = check_letters(&letters)?;
        Ok(Self { given: given.to_owned(), expanded, checks, is_local })
    }

    /// The format as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.given
    }

    /// Whether it reads times without an offset.
    #[must_use]
    pub const fn is_local(&self) -> bool {
        self.is_local
    }

    /// Parses a day or a time. `None` if `text` is not in this format, or names a time that does not exist.
    #[must_use]
    pub fn parse(&self, text: &str) -> Option<ParsedTime> {
        let parts = self.parts(text)?;
        // the parser takes offsets up to 25:59:59, and RFC 3339 up to 23:59
        if parts.offset().is_some_and(|offset| offset.seconds().unsigned_abs() >= DAY_SECONDS) {
            return None;
        }
        if parts.offset().is_some() || parts.timestamp().is_some() {
            return parts.to_timestamp().ok().map(ParsedTime::Moment);
        }
        if parts.hour().is_none() {
            return parts.to_date().ok().map(ParsedTime::Day);
        }
        parts.to_datetime().ok().map(ParsedTime::Local)
    }

    /// The parts of `text`, each in its range.
    pub(super) fn parts(&self, text: &str) -> Option<BrokenDownTime> {
        let parts = BrokenDownTime::parse(&self.expanded, text).ok()?;
        self.checks.iter().all(|check| check.holds(text, &parts)).then_some(parts)
    }
}

impl DigitCheck {
    fn holds(&self, text: &str, parts: &BrokenDownTime) -> bool {
        // jiff has read 60 as 59
        if matches!(self.rule, DigitRule::Second(_)) && parts.second() != Some(59) {
            return true;
        }
        let start = match self.before.as_str() {
            "" => Ok(0),
            before => BrokenDownTime::parse_prefix(before, text).map(|(_, end)| end),
        };
        let Ok((before, field)) = start.map(|start| text.as_bytes().split_at(start.min(text.len()))) else {
            return false;
        };
        let white = field.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let digits = field.iter().skip(white).take_while(|byte| byte.is_ascii_digit());
        match self.rule {
            DigitRule::Exact(count) => digits.take(count).count() == count,
            DigitRule::AfterDigit(count) => {
                white > 0
                    || !before.last().is_some_and(u8::is_ascii_digit)
                    || digits.take(count).count() == count
            }
            DigitRule::Second(most) => {
                let second = digits.take(most).fold(0_u32, |second, digit| {
                    second.saturating_mul(10).saturating_add(u32::from(digit - b'0'))
                });
                second < 60
            }
        }
    }
}

/// The format with composite directives written out.
fn expand(given: &str) -> Result<String, String> {
    let (mut expanded, mut rest) = (String::new(), given);
    while let Some((literal, after_percent)) = rest.split_once('%') {
        expanded.push_str(literal);
        let directive = Directive::split(after_percent)?;
        match COMPOSITE.into_iter().find(|(letter, _)| *letter == directive.letter) {
            Some((_, parts)) => expanded.push_str(parts),
            None => {
                expanded.push('%');
                expanded.push_str(directive.options);
                expanded.push(directive.letter);
            }
        }
        rest = directive.rest;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

/// Checks which directives a format has. Returns whether it reads times without an offset.
fn check_letters(letters: &str) -> Result<bool, String> {
    let has = |any: &[char]| letters.contains(any);
    let has_hour = has(&['H', 'I', 'k', 'l']);
    // the offset of a named zone changes over the years, and the payload does not contain it
    let fault = if has(&['Q']) {
        "names of time zones (`%Q`, `%:Q`) are not supported; use an offset (`%z`, `%:z`)"
    } else if has(&['C']) {
        "`%C` is not supported: a year has four digits (`%Y`) or two (`%y`)"
    } else if has(&['I', 'l']) != has(&['P', 'p']) {
        "an hour of 1 to 12 (`%I`) and `%p` need each other; use `%H` for an hour of 0 to 23"
    } else if !has_hour && has(&['M', 'S', 'f', 'N']) {
        "it has minutes or seconds without an hour (`%H`)"
    } else {
        return Ok(has_hour && !has(&['z', 's']));
    };
    Err(fault.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(format: &str, text: &str) -> Option<String> {
        let format = TimeFormat::new(format).expect("a valid format");
        Some(match format.parse(text)? {
            ParsedTime::Day(day) => day.to_string(),
            ParsedTime::Moment(moment) => moment.to_string(),
            ParsedTime::Local(local) => local.to_string(),
        })
    }

    #[test]
    fn year_has_the_digits_of_its_format() {
        for (format, text, expected) in [
            ("%d.%m.%Y", "31.12.2024", Some("2024-12-31")),
            ("%d.%m.%Y", "1.2.0024", Some("0024-02-01")),
            ("%d.%m.%Y", "31.12.24", None),
            ("%d.%m.%Y", "31.12.024", None),
            ("%d.%m.%Y", "31.12.+2024", None),
            ("%d.%m.%Y", "31.12.-2024", None),
            ("%d.%m.%Y", "31.12.20245", None),
            ("%d.%m. %Y", "31.12.  2024", Some("2024-12-31")),
            ("%d.%m. %Y", "31.12. 24", None),
            ("%d.%m.%y", "31.12.24", Some("2024-12-31")),
            ("%d.%m.%y", "31.12.68", Some("2068-12-31")),
            ("%d.%m.%y", "31.12.69", Some("1969-12-31")),
            ("%d.%m.%y", "31.12.2024", None),
            ("%d.%m.%y", "31.12.4", None),
            ("%D", "12/31/24", Some("2024-12-31")),
            ("%D", "12/31/4", None),
            ("%F", "2024-12-31", Some("2024-12-31")),
            ("%F", "24-12-31", None),
            ("%F", "224-12-31", None),
            ("%G-W%V-%u", "2026-W48-4", Some("2026-11-26")),
            ("%G-W%V-%u", "26-W48-4", None),
            ("%g-W%V-%u", "26-W48-4", Some("2026-11-26")),
            ("%b %d, %Y", "Jan 2, 24", None),
            ("Jahr %Y, %j", "Jahr 2024, 366", Some("2024-12-31")),
            ("%%%Y%%%m%%%d", "%2024%12%31", Some("2024-12-31")),
            ("%Y年%m月%d日", "2024年12月31日", Some("2024-12-31")),
            ("%Y年%m月%d日", "24年12月31日", None),
        ] {
            assert_eq!(parsed(format, text).as_deref(), expected, "{text} in {format}");
        }
    }

    #[test]
    fn time_that_does_not_exist_is_refused() {
        for (format, text, expected) in [
            ("%F %T", "2020-06-15 12:34:59", Some("2020-06-15T12:34:59")),
            ("%F %T", "2020-06-15 12:34:60", None),
            ("%F %T", "2016-12-31 23:59:60", None),
            ("%F %H:%M:%03S", "2016-12-31 23:59:060", None),
            ("%F %H:%M:%03S", "2016-12-31 23:59:059", Some("2016-12-31T23:59:59")),
            ("%F %T%.f", "2020-06-15 12:34:60.5", None),
            ("%F %T%.f", "2020-06-15 12:34:59.5", Some("2020-06-15T12:34:59.5")),
            ("%F %T %z", "2020-06-15 12:34:60 +0000", None),
            ("%F %T %z", "2020-06-15 12:34:56 +0200", Some("2020-06-15T10:34:56Z")),
            ("%F %T %z", "2020-06-15 12:34:56 +2400", None),
            ("%F %T %:z", "2020-06-15 12:34:56 -25:00", None),
            ("%F %T %:z", "2020-06-15 12:34:56 +23:59", Some("2020-06-14T12:35:56Z")),
            ("%F %R", "2020-06-15 24:00", None),
            ("%F %R", "2020-06-15 23:60", None),
            ("%F", "2020-02-30", None),
            ("%F", "2021-02-29", None),
            ("%Y %j", "2023 366", None),
            ("%G-W%V-%u", "2026-W54-1", None),
            ("%a %F", "Mon 2026-11-26", None),
            ("%a %F", "Thu 2026-11-26", Some("2026-11-26")),
            ("%F %I %p", "2020-06-15 12 AM", Some("2020-06-15T00:00:00")),
            ("%F %I %p", "2020-06-15 13 PM", None),
            ("%F %T %z", "9999-12-31 23:59:59 -2300", None),
            ("%s", "60", Some("1970-01-01T00:01:00Z")),
        ] {
            assert_eq!(parsed(format, text).as_deref(), expected, "{text} in {format}");
        }
    }

    #[test]
    fn digits_without_a_separator_are_read_only_in_full() {
        for (format, text, expected) in [
            ("%Y%m%d", "20240102", Some("2024-01-02")),
            ("%Y%m%d", "2024102", None),
            ("%Y%m%d", "202412", None),
            ("%y%m%d", "240102", Some("2024-01-02")),
            ("%y%m%d", "24012", None),
            ("%F %H%M", "2024-01-02 123", None),
            ("%F %H%M", "2024-01-02 0123", Some("2024-01-02T01:23:00")),
            ("%Y %m %d", "2024 1 2", Some("2024-01-02")),
            ("%Y %m %d", "202412 3", Some("2024-12-03")),
            ("%Y %m %d", "2024123", None),
            ("%d.%m.%Y", "1.2.2024", Some("2024-02-01")),
            ("%Y%j", "2024001", Some("2024-01-01")),
            ("%Y%j", "20241", None),
            ("%Y%m%dT%H%M%S", "20240102T12345", None),
            ("%Y%m%dT%H%M%S", "20240102T123405", Some("2024-01-02T12:34:05")),
            ("%F %H:%M:%S", "2024-01-02 12:34:5", Some("2024-01-02T12:34:05")),
        ] {
            assert_eq!(parsed(format, text).as_deref(), expected, "{text} in {format}");
        }
    }

    #[test]
    fn format_reads_local_times_if_it_has_an_hour_and_no_offset() {
        for (format, is_local) in [
            ("%F %T", true),
            ("%F %I %p", true),
            ("%F %R", true),
            ("%F", false),
            ("%F %T%z", false),
            ("%F %T %:z", false),
            ("%s", false),
            ("%F %%H", false),
        ] {
            assert_eq!(TimeFormat::new(format).map(|format| format.is_local()), Ok(is_local), "{format}");
        }
    }

    #[test]
    fn format_with_an_unclear_year_or_hour_is_refused() {
        for format in ["%5Y-%m", "%-Y", "%_y", "%C%y", "%F %I", "%F %H %p", "%F %M", "%F %S", "%F %", "%F %-"]
        {
            assert!(TimeFormat::new(format).is_err(), "{format}");
        }
    }
}
