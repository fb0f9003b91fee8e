//! Numbers in the notation of a source, such as `1.234,50`.

use super::decimal::Decimal;

/// The marks that may separate thousands.
const SEPARATORS: [char; 5] = ['.', ',', ' ', '\'', '_'];
/// Further spaces that print as one: no-break, narrow no-break, thin.
const SPACES: [char; 3] = ['\u{a0}', '\u{202f}', '\u{2009}'];
const APOSTROPHE: char = '’';
const MINUS: char = '−';

/// The longest text before or after a number, in bytes.
const AFFIX_MAX_BYTES: usize = 64;

/// How a source writes numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberNotation {
    /// The mark before the fraction, `.` or `,`.
    decimal_mark: char,
    /// The mark between groups of three digits before the decimal mark. If it is a space, all kinds of spaces count.
    thousands_separator: Option<char>,
    /// The text before each number, such as `$`; empty if there is none.
    prefix: String,
    /// The text after each number, such as `kg`; empty if there is none.
    suffix: String,
    /// Whether a number in parentheses is negative.
    accounting: bool,
}

impl NumberNotation {
    /// The notation with these marks.
    ///
    /// # Errors
    /// The fault of a mark that is not allowed, or used twice.
    pub fn new(decimal_mark: char, thousands_separator: Option<char>) -> Result<Self, String> {
        if !['.', ','].contains(&decimal_mark) {
            return Err(format!("`decimal_mark` is {decimal_mark:?} (`.` or `,` allowed)"));
        }
        if let Some(separator) = thousands_separator.filter(|separator| !SEPARATORS.contains(separator)) {
            let fault = "(`.`, `,`, a space, `'` or `_` allowed)";
            return Err(format!("`thousands_separator` is {separator:?} {fault}"));
        }
        if thousands_separator == Some(decimal_mark) {
            return Err(format!("`decimal_mark` and `thousands_separator` are both `{decimal_mark}`"));
        }
        let (prefix, suffix) = (String::new(), String::new());
        Ok(Self { decimal_mark, thousands_separator, prefix, suffix, accounting: false })
    }

    /// The notation with a text before and after each number, and with negative numbers in parentheses if `accounting`.
    ///
    /// # Errors
    /// The fault of a text that could hide a part of the number.
    pub fn with_affixes(self, prefix: &str, suffix: &str, accounting: bool) -> Result<Self, String> {
        let is_mark =
            |character: char| character.is_whitespace() || "+-()".contains(character) || character == MINUS;
        let is_number = |character: char| {
            character.is_ascii_digit() || SEPARATORS.contains(&character) || character == APOSTROPHE
        };
        for (name, affix, beside) in
            [("prefix", prefix, prefix.chars().next_back()), ("suffix", suffix, suffix.chars().next())]
        {
            if affix.len() > AFFIX_MAX_BYTES {
                return Err(format!(
                    "`{name}` has {} bytes (at most {AFFIX_MAX_BYTES} allowed)",
                    affix.len()
                ));
            }
            if affix.starts_with(is_mark) || affix.ends_with(is_mark) || beside.is_some_and(is_number) {
                return Err(format!(
                    "`{name}` is `{affix}`; it must not begin or end with white space, a sign or a parenthesis, nor have a digit \
                     or a mark of numbers next to the number"
                ));
            }
        }
        Ok(Self { prefix: prefix.to_owned(), suffix: suffix.to_owned(), accounting, ..self })
    }

    /// Parses `text`, of which white space at both ends is ignored, as is white space between the number and the texts beside it.
    /// `None` if it is not a number in this notation: a text whose groups do not have three digits, or whose first group begins with
    /// 0, is probably in another one.
    #[must_use]
    pub fn parse(&self, text: &str) -> Option<Decimal> {
        let (outer_sign, text) = self.split_sign(text.trim());
        let text = text.strip_prefix(&*self.prefix)?.strip_suffix(&*self.suffix)?;
        let text = if self.prefix.is_empty() { text } else { text.trim_start() };
        let text = if self.suffix.is_empty() { text } else { text.trim_end() };
        let (inner_sign, unsigned) = self.split_sign(text);
        let is_negative = match (outer_sign, inner_sign) {
            (Some(_), Some(_)) => return None,
            (outer, inner) => outer.or(inner).unwrap_or(false),
        };
        let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
            Some(at) => unsigned.split_at_checked(at)?,
            None => (unsigned, ""),
        };
        let (whole, fraction) = match mantissa.split_once(self.decimal_mark) {
            Some((whole, fraction)) => (whole, Some(fraction)),
            None => (mantissa, None),
        };
        let mut plain = String::from(if is_negative { "-" } else { "" });
        plain.push_str(&self.join_groups(whole)?);
        if let Some(fraction) = fraction {
            // not a sign, a separator or a second mark
            fraction.bytes().all(|byte| byte.is_ascii_digit()).then_some(())?;
            plain.push('.');
            plain.push_str(fraction);
        }
        plain.push_str(exponent);
        plain.parse().ok()
    }

    /// Whether the sign of `text` is negative, if it has a sign, and the text without it.
    fn split_sign<'t>(&self, text: &'t str) -> (Option<bool>, &'t str) {
        let enclosed = text.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
        if let Some(enclosed) = enclosed.filter(|_| self.accounting) {
            return (Some(true), enclosed.trim());
        }
        let unsigned = text.strip_prefix('+').map(|unsigned| (Some(false), unsigned));
        let negative = || text.strip_prefix(['-', MINUS]).map(|unsigned| (Some(true), unsigned));
        unsigned.or_else(negative).unwrap_or((None, text))
    }

    /// The digits of the groups. `None` if there is another character, a group of the wrong length, or a first group that begins
    /// with 0: `0.999` has a decimal point.
    fn join_groups(&self, whole: &str) -> Option<String> {
        let mut groups = whole.split(|character| self.is_separator(character));
        let first = groups.next()?;
        let mut digits = first.to_owned();
        for group in groups {
            if !(1..=3).contains(&first.len()) || first.starts_with('0') || group.len() != 3 {
                return None;
            }
            digits.push_str(group);
        }
        digits.bytes().all(|byte| byte.is_ascii_digit()).then_some(digits)
    }

    fn is_separator(&self, character: char) -> bool {
        match self.thousands_separator {
            Some(' ') => character == ' ' || SPACES.contains(&character),
            Some('\'') => ['\'', APOSTROPHE].contains(&character),
            separator => separator == Some(character),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(decimal_mark: char, separator: Option<char>, text: &str) -> Option<String> {
        let notation = NumberNotation::new(decimal_mark, separator).expect("a valid notation");
        notation.parse(text).map(|number| number.to_string())
    }

    #[test]
    fn number_is_parsed_with_its_marks() {
        for (mark, separator, text, expected) in [
            (',', Some('.'), "1.234.567,50", "1234567.5"),
            (',', Some('.'), "-0,5", "-0.5"),
            (',', Some(' '), "1 234 567", "1234567"),
            (',', Some(' '), "1\u{202f}234\u{a0}567,25", "1234567.25"),
            ('.', Some('\''), "1’234'567.5", "1234567.5"),
            ('.', Some(','), "12,345", "12345"),
            (',', None, "1234,5", "1234.5"),
            (',', None, ",5", "0.5"),
            (',', None, " +7\u{a0}", "7"),
            (',', None, "−1,5e3", "-1500"),
        ] {
            assert_eq!(parsed(mark, separator, text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn number_in_another_notation_is_refused() {
        for (mark, separator, text) in [
            (',', Some('.'), "1.5"),
            (',', Some('.'), "1234.567"),
            (',', Some('.'), ".234"),
            (',', Some('.'), "1.234.56"),
            (',', Some('.'), "1,234.5"),
            (',', Some('.'), "1,2,3"),
            (',', Some('.'), "1..234"),
            (',', None, "1.5"),
            (',', None, "1.234,5"),
            ('.', Some(','), "1,23,456"),
            ('.', Some(' '), "1 2"),
            (',', None, "- 5"),
            (',', None, "--5"),
            (',', None, "1,-5"),
            (',', None, ""),
            (',', None, ","),
            (',', None, "n/a"),
            (',', None, "5 %"),
        ] {
            assert_eq!(parsed(mark, separator, text), None, "{text}");
        }
    }

    #[test]
    fn grouped_number_is_refused_if_its_first_group_begins_with_zero() {
        for (mark, separator) in [(',', '.'), ('.', ','), ('.', ' '), ('.', '\''), ('.', '_')] {
            for digits in ["0~999", "0~001", "-0~500", "0~999~999", "00~123", "01~234", "000~000"] {
                let text = digits.replace('~', &separator.to_string());
                assert_eq!(parsed(mark, Some(separator), &text), None, "{text}");
            }
        }
        assert_eq!(parsed('.', Some(' '), "0\u{a0}999"), None);
        assert_eq!(parsed('.', Some('\''), "0’999"), None);
        for (text, expected) in [("0", "0"), ("0,999", "0.999"), ("-0,500", "-0.5"), ("10.000", "10000")] {
            assert_eq!(parsed(',', Some('.'), text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn notation_with_invalid_marks_is_refused() {
        for (mark, separator) in [(';', None), (',', Some(',')), ('.', Some(';')), ('.', Some('5'))] {
            assert!(NumberNotation::new(mark, separator).is_err(), "{mark} {separator:?}");
        }
    }

    #[test]
    fn affixes_number_is_parsed_without_the_text_beside_it() {
        let dot = || NumberNotation::new('.', Some(',')).expect("a valid notation");
        let comma = || NumberNotation::new(',', Some('.')).expect("a valid notation");
        for (marks, prefix, suffix, accounting, text, expected) in [
            (comma(), "", "€", false, "12,00 €", Some("12")),
            (comma(), "", "€", false, "-1.234,50\u{a0}€ ", Some("-1234.5")),
            (dot(), "$", "", false, "$12.50", Some("12.5")),
            (dot(), "$", "", false, "-$12.50", Some("-12.5")),
            (dot(), "$", "", false, "$-12.50", Some("-12.5")),
            (dot(), "$", "", false, "-$-12.50", None),
            (dot(), "$", "", false, "12.50", None),
            (dot(), "$", "", false, "€12.50", None),
            (dot(), "$", "", false, "($12.50)", None),
            (dot(), "$", "", true, "($1,212.50)", Some("-1212.5")),
            (dot(), "$", "", true, "$(12.50)", Some("-12.5")),
            (dot(), "$", "", true, "$ 12.50", Some("12.5")),
            (dot(), "EUR", "", false, "EUR 12.50", Some("12.5")),
            (dot(), "", "%", false, "12.5 %", Some("12.5")),
            (dot(), "", "%", false, "12.5%", Some("12.5")),
            (dot(), "", "%", false, "12.5", None),
            (dot(), "", "kg", false, "12 kg", Some("12")),
            (dot(), "", "kg", false, "12 g", None),
            (dot(), "", "kg", false, "kg", None),
            (dot(), "", "m2", false, "12 m2", Some("12")),
            (dot(), "~", "kg", false, "-~1.5kg", Some("-1.5")),
            (dot(), "", "", true, "(12.50)", Some("-12.5")),
            (dot(), "", "", true, "( 12.50 )", Some("-12.5")),
            (dot(), "", "", true, "12.50", Some("12.5")),
            (dot(), "", "", true, "-12.50", Some("-12.5")),
            (dot(), "", "", true, "(-12.50)", None),
            (dot(), "", "", true, "-(12.50)", None),
            (dot(), "", "", true, "((12.50))", None),
            (dot(), "", "", true, "(12.50", None),
            (dot(), "", "", true, "()", None),
            (comma(), "", "€", true, "(12,50) €", Some("-12.5")),
            (comma(), "", "€", true, "(12,50 €)", Some("-12.5")),
            (dot(), "", "", false, "(12.50)", None),
            (dot(), "", "", false, "<0.5", None),
        ] {
            let notation = marks.with_affixes(prefix, suffix, accounting).expect("valid affixes");
            let number = notation.parse(text).map(|number| number.to_string());
            assert_eq!(number.as_deref(), expected, "{text} in {notation:?}");
        }
    }

    #[test]
    fn affix_that_could_hide_a_part_of_the_number_is_refused() {
        let long = "x".repeat(AFFIX_MAX_BYTES + 1);
        for (prefix, suffix) in [
            ("-", ""),
            ("−", ""),
            ("+", ""),
            ("(", ")"),
            ("1", ""),
            ("$1", ""),
            ("$.", ""),
            (" $", ""),
            ("$ ", ""),
            ("", "0"),
            ("", "0kg"),
            ("", ",-"),
            ("", "kg "),
            (&long, ""),
        ] {
            let notation = NumberNotation::new('.', None).expect("a valid notation");
            assert!(notation.with_affixes(prefix, suffix, false).is_err(), "{prefix} {suffix}");
        }
    }

    proptest! {
        #[test]
        fn formatted_number_is_parsed_to_itself(whole in any::<i64>(), fraction in 0..1000_u32) {
            let digits = whole.unsigned_abs().to_string();
            let mut grouped = String::new();
            for (index, digit) in digits.chars().enumerate() {
                if index > 0 && (digits.len() - index) % 3 == 0 {
                    grouped.push('.');
                }
                grouped.push(digit);
            }
            let sign = if whole < 0 { "-" } else { "" };
            let expected: Decimal = format!("{sign}{digits}.{fraction:03}").parse().expect("a number");
            let notation = NumberNotation::new(',', Some('.')).expect("a valid notation");
            prop_assert_eq!(notation.parse(&format!("{sign}{grouped},{fraction:03}")), Some(expected));
        }
    }
}
