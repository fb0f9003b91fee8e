//! Dates in canonical form: a day or a moment, ordered by time.

use jiff::fmt::rfc2822;
use jiff::tz::TimeZone;
use jiff::{Timestamp, civil};
use std::fmt;

/// The length of an RFC 3339 day (`2020-01-31`), in bytes.
const DAY_BYTES: usize = 10;

/// An RFC 3339 day (`2020-01-31`) or moment (`2020-01-31T10:00:00Z`, in UTC), in the years 0 to 9999.
///
/// A day is not converted to a moment, because its start depends on the time zone. Dates are ordered by time;
/// a day sorts before the moments of that day in UTC. Dates are equal if and only if their texts are.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date {
    /// The text without a moment's `Z`, because `Z` sorts after the point of a fraction.
    key: String,
}

impl Date {
    /// Parses an RFC 3339 day or moment; `None` for any other text.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        if text.len() == DAY_BYTES {
            let day = Self::from_day(text.parse().ok()?)?;
            return Some(day).filter(|day| day.key == text);
        }
        read_moment(text).and_then(Self::from_moment)
    }

    /// Converts a day; `None` before the year 0.
    #[must_use]
    pub fn from_day(day: civil::Date) -> Option<Self> {
        (day.year() >= 0).then(|| Self { key: day.to_string() })
    }

    /// Converts a moment; `None` if its year in UTC is before 0.
    #[must_use]
    pub fn from_moment(moment: Timestamp) -> Option<Self> {
        let text = moment.to_string();
        let key = text.strip_suffix('Z').filter(|key| !key.starts_with('-'))?;
        Some(Self { key: key.to_owned() })
    }

    /// The moment; for a day, midnight in UTC. `None` after jiff's last timestamp, which is on 9999-12-30.
    #[must_use]
    pub fn moment(&self) -> Option<Timestamp> {
        match self.day() {
            Some(day) => day.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp()),
            None => self.to_string().parse().ok(),
        }
    }

    /// The day; `None` for a moment.
    #[must_use]
    pub fn day(&self) -> Option<civil::Date> {
        self.is_day().then(|| self.key.parse().ok()).flatten()
    }

    /// The sort key: the order of keys is the order of dates.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    fn is_day(&self) -> bool {
        self.key.len() == DAY_BYTES
    }
}

/// Parses an RFC 3339 moment. The seconds may be omitted (`2020-01-31T10:00Z`), as in ISO 8601.
///
/// jiff also parses basic forms, signed years, weeks and annotations, reads second 60 as 59, and takes an offset of 25 hours.
#[must_use]
pub fn read_moment(text: &str) -> Option<Timestamp> {
    let has_digits = |from: usize, mark: u8| match text.as_bytes().get(from..from + 3) {
        Some([tens, ones, after]) => tens.is_ascii_digit() && ones.is_ascii_digit() && *after == mark,
        _ => false,
    };
    let has_marks = has_digits(2, b'-') && has_digits(5, b'-') && has_digits(11, b':');
    let second = text.get(16..).and_then(|rest| rest.strip_prefix(':'));
    let offset = text.get(16..).and_then(|rest| rest.split_once(['+', '-']));
    let exists = second.is_none_or(|second| !second.starts_with("60"))
        && offset.is_none_or(|(_, hours)| hours.get(..2).is_some_and(|hours| hours < "24"));
    let is_plain = has_marks && exists && !text.contains('[');
    is_plain.then(|| text.parse().ok()).flatten()
}

/// Parses a date of HTTP (RFC 9110, 5.6.7), such as `Thu, 26 Nov 2026 10:00:00 GMT`. Its year has four digits.
///
/// jiff also parses years of two and three digits, and reads second 60 as 59.
#[must_use]
pub fn read_http_date(text: &str) -> Option<Timestamp> {
    let mut words = text.split_ascii_whitespace().rev().skip(1);
    let (time, year) = (words.next()?, words.next()?);
    let is_year = year.len() == 4 && year.bytes().all(|byte| byte.is_ascii_digit());
    let is_sound = is_year && !time.ends_with(":60");
    is_sound.then(|| rfc2822::DateTimeParser::new().parse_timestamp(text).ok()).flatten()
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.key, if self.is_day() { "" } else { "Z" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn canonical(text: &str) -> Option<String> {
        Date::read(text).map(|date| date.to_string())
    }

    #[test]
    fn date_keeps_a_day_and_converts_a_moment_to_utc() {
        let cases = [
            ("2020-01-31", Some("2020-01-31")),
            ("2020-01-31T12:00:00+02:00", Some("2020-01-31T10:00:00Z")),
            ("2020-01-31T10:00:00Z", Some("2020-01-31T10:00:00Z")),
            ("2020-01-31T10:00:00.50Z", Some("2020-01-31T10:00:00.5Z")),
            ("0000-01-01", Some("0000-01-01")),
            ("0000-01-01T00:00:00Z", Some("0000-01-01T00:00:00Z")),
            ("2020-01-31T10:00Z", Some("2020-01-31T10:00:00Z")),
            ("2020-01-31t10:00:00z", Some("2020-01-31T10:00:00Z")),
            ("2020-01-31 10:00:00+00:00", Some("2020-01-31T10:00:00Z")),
            ("2020-01-31T10:00:00.123456789+23:59", Some("2020-01-30T10:01:00.123456789Z")),
            ("2020-02-30", None),
            ("2020-1-31", None),
            ("20200131", None),
            ("2020-01-31T10:00:00", None),
            ("yesterday", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(canonical(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn date_rejects_a_year_outside_0_to_9999_in_utc() {
        for text in [
            "0000-01-01T00:00:00+02:00",
            "9999-12-31T23:59:59-02:00",
            "-000001-12-31T22:00:00Z",
            "-000001-12-31",
            "-001-12-31",
            "+010000-01-01T00:00:00Z",
        ] {
            assert_eq!(canonical(text), None, "{text}");
        }
        assert_eq!(Date::from_day(civil::date(-1, 12, 31)), None);
    }

    #[test]
    fn date_rejects_a_time_that_does_not_exist() {
        for text in [
            "2020-06-15T12:34:60Z",
            "2020-06-15T12:34:60.5Z",
            "2016-12-31T23:59:60Z",
            "2016-12-31T23:59:60+00:00",
            "2020-06-15T12:34:61Z",
            "2020-06-15T24:00:00Z",
            "2020-06-15T23:60:00Z",
            "2020-02-30T00:00:00Z",
            "2021-02-29T00:00:00Z",
            "2020-06-15T12:34:00+24:00",
            "2020-06-15T12:34:00-25:00",
            "2020-06-15T12:34:00+02:60",
        ] {
            assert_eq!(canonical(text), None, "{text}");
        }
    }

    #[test]
    fn date_rejects_a_form_of_its_own() {
        for text in [
            "2020-06-15T12Z",
            "2020-06-15T1234Z",
            "2020-06-15T123460Z",
            "20200615T123460Z",
            "2020-W25-1T12:34:00Z",
            "2020-06-15T12:34:00Z[UTC]",
            "2020-06-15T12:34:00",
            "2020-06-15T12:34:00ä02:00",
        ] {
            assert_eq!(canonical(text), None, "{text}");
        }
    }

    #[test]
    fn http_date_has_a_year_of_four_digits_and_a_second_that_exists() {
        for (text, expected) in [
            ("Thu, 26 Nov 2026 10:00:59 GMT", Some("2026-11-26T10:00:59Z")),
            ("26 Nov 2026 10:00:00 +0200", Some("2026-11-26T08:00:00Z")),
            ("Thu, 26 Nov 2026 10:00 GMT", Some("2026-11-26T10:00:00Z")),
            ("Thu, 26 Nov 2026 10:00:60 GMT", None),
            ("Wed, 26 Nov 2026 10:00:00 GMT", None),
            ("Mon, 30 Feb 2026 10:00:00 GMT", None),
            ("26 Nov 26 10:00:00 GMT", None),
            ("26 Nov 126 10:00:00 GMT", None),
            ("26 Nov 2026", None),
            ("", None),
        ] {
            assert_eq!(read_http_date(text).map(|at| at.to_string()).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn canonical_date_parses_to_itself() {
        for text in ["2020-01-31", "1969-12-31T23:59:59.123456789-11:30"] {
            let once = canonical(text).expect("a valid date");
            assert_eq!(canonical(&once), Some(once.clone()));
        }
    }

    #[test]
    fn dates_sort_by_time_and_a_day_before_its_moments() {
        let texts = [
            "2020-01-30T23:59:59.999999999Z",
            "2020-01-31",
            "2020-01-31T00:00:00Z",
            "2020-01-31T00:00:00.000000001Z",
            "2020-01-31T00:00:00.5Z",
            "2020-01-31T00:00:00.51Z",
            "2020-01-31T00:00:01Z",
            "2020-02-01",
        ];
        let dates: Vec<_> = texts.iter().map(|text| Date::read(text).expect("a date")).collect();
        assert!(dates.is_sorted_by(|one, next| one < next), "{dates:?}");
    }

    /// A moment; half of them are whole seconds.
    fn moment() -> impl Strategy<Value = Timestamp> {
        let nanosecond = prop_oneof![Just(0), 0..1_000_000_000_i32];
        (0..3_i64, nanosecond)
            .prop_map(|(second, nanosecond)| Timestamp::new(second, nanosecond).expect("a moment"))
    }

    proptest! {
        #[test]
        fn moments_sort_by_time(one in moment(), other in moment()) {
            let date = |moment| Date::from_moment(moment).expect("a date in the range");
            prop_assert_eq!(date(one).cmp(&date(other)), one.cmp(&other));
            prop_assert_eq!(date(one).key().cmp(date(other).key()), one.cmp(&other));
            prop_assert_eq!(date(one).moment(), Some(one));
        }
    }
}
