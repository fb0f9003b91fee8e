//! Moments that are written as a day or as a time, and durations in words.

use crate::time_format::TimeFormat;
use crate::wording::ParseTextError;
use jiff::fmt::{rfc2822, strtime};
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp, civil};
use serde::de::{Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, de};
use std::fmt;
use std::str::FromStr;
use utoipa::ToSchema;

/// The maximum time by which the clock of a source or of a caller may be ahead of this host's clock.
pub const CLOCK_SKEW_MAX: SignedDuration = SignedDuration::from_secs(60);

/// A moment. A day without a time means midnight in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(into = "String")]
#[schema(value_type = String, pattern = "^[0-9]{4}-[0-9]{2}-[0-9]{2}", example = "2026-11-20")]
pub struct Moment(pub Timestamp);

/// The allowed texts. The last day is that of jiff's last timestamp.
const ALLOWED: &str =
    "a day such as 2026-11-20, or a time such as 2026-11-20T10:00:00Z, from the year 0 to 9999-12-30";

impl FromStr for Moment {
    type Err = ParseTextError;

    fn from_str(text: &str) -> Result<Self, ParseTextError> {
        Date::read(text)
            .and_then(|date| date.moment())
            .map(Self)
            .ok_or_else(|| ParseTextError::new("a time", text, ALLOWED))
    }
}

impl From<Moment> for String {
    fn from(Moment(at): Moment) -> Self {
        at.to_string()
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(MomentVisitor)
    }
}

/// A request names a time in the future.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` is {asked_for}, which is in the future (now: {now}); at most {} s ahead are allowed", CLOCK_SKEW_MAX.as_secs())]
pub struct FutureTimeError {
    /// The field of the request.
    pub field: &'static str,
    /// The value of the field.
    pub asked_for: Timestamp,
    /// When the request was read.
    pub now: Timestamp,
}

/// The earlier of `point_in_time` and `known_at` if it is before `now`, else `None`: the question is about the present.
/// Freshness is evaluated at this time.
#[must_use]
pub fn find_past_time(
    point_in_time: Option<Timestamp>,
    known_at: Option<Timestamp>,
    now: Timestamp,
) -> Option<Timestamp> {
    point_in_time.into_iter().chain(known_at).min().filter(|past| *past < now)
}

/// Checks that a field of a request is not in the future. It may be up to `CLOCK_SKEW_MAX` ahead of `now`.
///
/// # Errors
/// `FutureTimeError` if it is further ahead.
pub fn check_not_future(
    field: &'static str,
    asked_for: Option<Timestamp>,
    now: Timestamp,
) -> Result<(), FutureTimeError> {
    let ahead = asked_for.filter(|asked_for| asked_for.duration_since(now) > CLOCK_SKEW_MAX);
    ahead.map_or(Ok(()), |asked_for| Err(FutureTimeError { field, asked_for, now }))
}

struct MomentVisitor;

impl Visitor<'_> for MomentVisitor {
    type Value = Moment;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(ALLOWED)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Moment, E> {
        text.parse().map_err(|_: ParseTextError| E::invalid_value(Unexpected::Str(text), &self))
    }
}

/// Reads an optional field, for serde's `deserialize_with`.
///
/// # Errors
/// If the value is not a moment.
pub fn optional<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    Ok(Option::<Moment>::deserialize(deserializer)?.map(|Moment(at)| at))
}

/// A duration in words, rounded down to the largest of days, hours and minutes that it contains at least
/// twice; otherwise in seconds.
#[must_use]
pub fn format_span(seconds: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(86_400, "days"), (3600, "hours"), (60, "minutes")];
    let unit = UNITS.into_iter().find(|(unit_s, _)| seconds >= 2 * unit_s);
    match unit {
        Some((unit_s, name)) => format!("{} {name}", seconds / unit_s),
        None => format!("{seconds} {}", if seconds == 1 { "second" } else { "seconds" }),
    }
}

/// An age and its limit in words, as by [`span`]. Both are in seconds if their words would be equal although
/// they differ.
#[must_use]
pub fn format_age_and_limit(age_s: u64, limit_s: u64) -> (String, String) {
    let formatted = (format_span(age_s), format_span(limit_s));
    if formatted.0 == formatted.1 && age_s != limit_s {
        return (format!("{age_s} seconds"), format!("{limit_s} seconds"));
    }
    formatted
}

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

// The declared time zone of local times.
//
// Its rules are those of the IANA database within this program, not of the host, so that the same bytes are read in the
// same way everywhere.

/// A time zone, with the choice for local times that occur twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalTimeZone {
    zone: TimeZone,
    ambiguous: Option<AmbiguousTimeHandling>,
}

/// Which of two times a local time is that occurs twice, as when summer time ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AmbiguousTimeHandling {
    /// The earlier time.
    Earlier,
    /// The later time.
    Later,
}

/// Why a local time is not a moment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LocalTimeError {
    #[error("a time in {zone}, where the clocks skip it")]
    Skipped { zone: String },
    #[error("a single time in {zone}, where it occurs twice; set `ambiguous` to `earlier` or `later`")]
    Twice { zone: String },
    #[error("a time in the years 0000 to 9999 of UTC")]
    Range,
}

impl LocalTimeZone {
    /// The zone with this name of the IANA database.
    ///
    /// # Errors
    /// The database has no such name.
    pub fn new(name: &str, ambiguous: Option<AmbiguousTimeHandling>) -> Result<Self, String> {
        let zone = TimeZoneDatabase::bundled().get(name).ok().filter(|zone| !zone.is_unknown());
        let zone = zone.ok_or_else(|| {
            format!("`timezone` is `{name}`; a name such as `UTC` or `Europe/Vienna` is required")
        })?;
        Ok(Self { zone, ambiguous })
    }

    /// The moment of a local time.
    ///
    /// # Errors
    /// The clocks skip the time, or it occurs twice and there is no choice.
    pub fn moment(&self, local: civil::DateTime) -> Result<Timestamp, LocalTimeError> {
        let found = self.zone.to_ambiguous_timestamp(local);
        let zone = || self.zone.iana_name().unwrap_or("UTC").to_owned();
        let moment = match (found.offset(), self.ambiguous) {
            (AmbiguousOffset::Unambiguous { .. }, _) => found.unambiguous(),
            (AmbiguousOffset::Gap { .. }, _) => return Err(LocalTimeError::Skipped { zone: zone() }),
            (AmbiguousOffset::Fold { .. }, None) => return Err(LocalTimeError::Twice { zone: zone() }),
            (AmbiguousOffset::Fold { .. }, Some(AmbiguousTimeHandling::Earlier)) => found.earlier(),
            (AmbiguousOffset::Fold { .. }, Some(AmbiguousTimeHandling::Later)) => found.later(),
        };
        moment.map_err(|_| LocalTimeError::Range)
    }

    /// The first moment of a day.
    #[must_use]
    pub fn start_of(&self, day: civil::Date) -> Option<Timestamp> {
        day.to_zoned(self.zone.clone()).ok().map(|start| start.timestamp())
    }
}

/// The length of a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeriodLength {
    Month,
    Quarter,
    Year,
}

impl PeriodLength {
    /// Whether `text` is a period of this length in canonical form: `2024-03`, `2024-Q1` or `2024`, in the years 0000 to 9999.
    /// The order of the texts is the order of the periods.
    #[must_use]
    pub fn is_canonical(self, text: &str) -> bool {
        let Some((year, rest)) = text.split_at_checked(4) else { return false };
        let is_part = match (self, rest.as_bytes()) {
            (Self::Year, []) => true,
            (Self::Quarter, [b'-', b'Q', quarter]) => (b'1'..=b'4').contains(quarter),
            (Self::Month, [b'-', b'0', month]) => (b'1'..=b'9').contains(month),
            (Self::Month, [b'-', b'1', month]) => (b'0'..=b'2').contains(month),
            _ => false,
        };
        is_part && year.bytes().all(|byte| byte.is_ascii_digit())
    }

    /// A period in canonical form, as errors describe it.
    #[must_use]
    pub const fn example(self) -> &'static str {
        match self {
            Self::Month => "a month such as 2024-03",
            Self::Quarter => "a quarter such as 2024-Q1",
            Self::Year => "a year such as 2024",
        }
    }
}

/// A format of periods, in `strftime` syntax with `%q` for the number of a quarter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeriodFormat {
    length: PeriodLength,
    /// The format as written.
    given: String,
    format: TimeFormat,
    /// Whether its month is the number of a quarter, since jiff formats `%q` and does not parse it.
    is_quarter: bool,
}

impl PeriodFormat {
    /// Compiles a format, which must name a whole period.
    ///
    /// # Errors
    /// The fault of the format.
    pub fn new(length: PeriodLength, given: &str) -> Result<Self, String> {
        // the fourth month is in the second quarter
        let probe = civil::date(2024, 4, 1);
        let written = strtime::format(given, probe).map_err(|error| error.to_string())?;
        let with_month = given.replace("%q", "%m");
        let is_quarter = length == PeriodLength::Quarter && with_month != given;
        let format =
            if is_quarter { TimeFormat::with_quarter(&with_month)? } else { TimeFormat::new(given)? };
        let format = Self { length, given: given.to_owned(), format, is_quarter };
        if format.parse(&written).is_none() {
            return Err(format!("it does not name {}", length.example()));
        }
        Ok(format)
    }

    /// The format as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.given
    }

    /// Parses `text`. Returns the canonical form.
    #[must_use]
    pub fn parse(&self, text: &str) -> Option<String> {
        let parts = self.format.parts(text)?;
        let year = parts.year().filter(|year| (0..=9999).contains(year))?;
        // a day that does not exist names no period
        if parts.day().is_some() {
            parts.to_date().ok()?;
        }
        let canonical = match self.length {
            PeriodLength::Year => format!("{year:04}"),
            PeriodLength::Month => format!("{year:04}-{:02}", parts.month()?),
            PeriodLength::Quarter if self.is_quarter => {
                format!("{year:04}-Q{}", parts.month().filter(|quarter| *quarter <= 4)?)
            }
            PeriodLength::Quarter => format!("{year:04}-Q{}", (parts.month()? + 2) / 3),
        };
        Some(canonical)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn span_uses_the_largest_unit_that_fits_twice() {
        for (seconds, words) in [
            (0, "0 seconds"),
            (1, "1 second"),
            (119, "119 seconds"),
            (120, "2 minutes"),
            (3600, "60 minutes"),
            (7200, "2 hours"),
            (172_799, "47 hours"),
            (172_800, "2 days"),
            (22_436_818, "259 days"),
        ] {
            assert_eq!(format_span(seconds), words);
        }
    }

    #[test]
    fn age_and_limit_are_in_seconds_if_their_words_are_equal() {
        for (age_s, limit_s, age, limit) in [
            (105, 600, "105 seconds", "10 minutes"),
            (606, 600, "606 seconds", "600 seconds"),
            (600, 600, "10 minutes", "10 minutes"),
            (86_400 * 5, 86_400 * 2, "5 days", "2 days"),
        ] {
            assert_eq!(format_age_and_limit(age_s, limit_s), (age.to_owned(), limit.to_owned()));
        }
    }

    #[test]
    fn moment_of_a_day_is_midnight_in_utc() {
        for (text, at) in [
            ("2026-11-20", "2026-11-20T00:00:00Z"),
            ("2026-11-20T10:00:00+02:00", "2026-11-20T08:00:00Z"),
            ("-000001-01-01", ""),
            ("2026-11-20T10:00:00", ""),
            ("20261120", ""),
            ("9999-12-30", "9999-12-30T00:00:00Z"),
            ("9999-12-31", ""),
            ("tomorrow", ""),
            ("", ""),
        ] {
            let expected = at.parse().map(Moment).ok();
            assert_eq!(text.parse::<Moment>().ok(), expected, "{text}");
            let read = serde_json::from_value::<Moment>(text.into());
            assert_eq!(read.ok(), expected, "{text}");
        }
    }

    #[test]
    fn moment_error_names_the_allowed_forms() {
        for json in ["5", "\"2018\"", "null", "[]"] {
            let message = serde_json::from_str::<Moment>(json).expect_err("the text is invalid").to_string();
            assert!(message.contains("a day such as 2026-11-20, or a time such as"), "{message}");
        }
    }

    mod date {
        use crate::moment::*;
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

    mod time_zone {
        use crate::moment::*;

        fn moment(
            zone: &str,
            ambiguous: Option<AmbiguousTimeHandling>,
            local: &str,
        ) -> Result<String, LocalTimeError> {
            let zone = LocalTimeZone::new(zone, ambiguous).expect("a known zone");
            zone.moment(local.parse().expect("a local time")).map(|moment| moment.to_string())
        }

        #[test]
        fn local_time_is_read_by_the_rules_of_its_zone() {
            for (zone, local, expected) in [
                ("UTC", "2026-11-26T10:00", "2026-11-26T10:00:00Z"),
                ("Europe/Vienna", "2026-11-26T10:00", "2026-11-26T09:00:00Z"),
                ("Europe/Vienna", "2026-07-26T10:00", "2026-07-26T08:00:00Z"),
                ("America/New_York", "2026-07-26T10:00", "2026-07-26T14:00:00Z"),
                ("Asia/Kathmandu", "2026-07-26T10:00", "2026-07-26T04:15:00Z"),
                ("Europe/Vienna", "2026-03-29T01:59:59", "2026-03-29T00:59:59Z"),
                ("Europe/Vienna", "2026-03-29T03:00", "2026-03-29T01:00:00Z"),
            ] {
                assert_eq!(moment(zone, None, local).as_deref(), Ok(expected), "{local} in {zone}");
            }
        }

        #[test]
        fn local_time_that_is_skipped_or_occurs_twice_is_refused() {
            let zone = || "Europe/Vienna".to_owned();
            for (ambiguous, local, expected) in [
                (None, "2026-03-29T02:00", Err(LocalTimeError::Skipped { zone: zone() })),
                (None, "2026-03-29T02:59:59", Err(LocalTimeError::Skipped { zone: zone() })),
                (
                    Some(AmbiguousTimeHandling::Later),
                    "2026-03-29T02:30",
                    Err(LocalTimeError::Skipped { zone: zone() }),
                ),
                (None, "2026-10-25T02:30", Err(LocalTimeError::Twice { zone: zone() })),
                (
                    Some(AmbiguousTimeHandling::Earlier),
                    "2026-10-25T02:30",
                    Ok("2026-10-25T00:30:00Z".to_owned()),
                ),
                (
                    Some(AmbiguousTimeHandling::Later),
                    "2026-10-25T02:30",
                    Ok("2026-10-25T01:30:00Z".to_owned()),
                ),
            ] {
                assert_eq!(moment("Europe/Vienna", ambiguous, local), expected, "{local} {ambiguous:?}");
            }
        }

        #[test]
        fn zone_without_a_known_name_is_refused() {
            for name in ["", "CEST", "Europe/Wien", "+01:00", "Etc/Unknown", "../etc/passwd"] {
                assert!(LocalTimeZone::new(name, None).is_err(), "{name}");
            }
        }

        #[test]
        fn day_starts_at_its_first_moment() {
            let start = |zone: &str, day: &str| {
                let zone = LocalTimeZone::new(zone, None).expect("a known zone");
                zone.start_of(day.parse().expect("a day")).map(|moment| moment.to_string())
            };
            assert_eq!(start("Europe/Vienna", "2026-11-26").as_deref(), Some("2026-11-25T23:00:00Z"));
            // the clocks skipped midnight
            assert_eq!(start("America/Sao_Paulo", "2018-11-04").as_deref(), Some("2018-11-04T03:00:00Z"));
        }
    }

    mod period {
        use crate::moment::PeriodFormat;
        use crate::moment::PeriodLength::{Month, Quarter, Year};

        #[test]
        fn period_is_canonical_only_in_its_own_form() {
            let valid = [
                (Year, "2024"),
                (Year, "0000"),
                (Quarter, "2024-Q1"),
                (Quarter, "9999-Q4"),
                (Month, "2024-09"),
                (Month, "2024-12"),
            ];
            for (length, text) in valid {
                assert!(length.is_canonical(text), "{text}");
                for other in [Year, Quarter, Month].into_iter().filter(|other| *other != length) {
                    assert!(!other.is_canonical(text), "{text} as {other:?}");
                }
            }
            for text in [
                "",
                "24",
                "20245",
                "+204",
                "2024-Q0",
                "2024-Q5",
                "2024Q1",
                "2024-00",
                "2024-13",
                "2024-1",
                "ä24",
                "2024-01-01",
            ] {
                assert!([Year, Quarter, Month].iter().all(|length| !length.is_canonical(text)), "{text}");
            }
        }

        #[test]
        fn period_is_parsed_in_the_given_format() {
            for (length, format, text, expected) in [
                (Year, "FY%Y", "FY2024", Some("2024")),
                (Year, "%d.%m.%Y", "31.12.2024", Some("2024")),
                (Month, "%b %Y", "Mar 2024", Some("2024-03")),
                (Month, "%YM%m", "2024M11", Some("2024-11")),
                (Month, "%b %y", "Mar 24", Some("2024-03")),
                (Month, "%b %Y", "Mar 24", None),
                (Year, "%Y", "24", None),
                (Month, "%d.%m.%Y", "31.02.2024", None),
                (Quarter, "%YQ%q", "2024Q4", Some("2024-Q4")),
                (Quarter, "Q%q/%Y", "Q1/2024", Some("2024-Q1")),
                (Quarter, "%YQ%q", "2024Q5", None),
                (Quarter, "%YQ%q", "2024Q12", None),
                (Quarter, "%Y-%m", "2024-03", Some("2024-Q1")),
                (Quarter, "%Y-%m", "2024-04", Some("2024-Q2")),
                (Quarter, "%Y-%m-%d", "2024-12-31", Some("2024-Q4")),
                (Quarter, "%YQ%q", "24Q1", None),
                (Quarter, "%Y%q", "20241", Some("2024-Q1")),
                (Quarter, "%Y%q", "20245", None),
                (Quarter, "%Y%q", "202412", None),
            ] {
                let format = PeriodFormat::new(length, format).expect("a valid format");
                assert_eq!(format.parse(text).as_deref(), expected, "{text} in {format:?}");
            }
            for (length, format) in
                [(Month, "%Y"), (Quarter, "%Y"), (Quarter, "Q%q"), (Year, "%m"), (Year, "%C")]
            {
                assert!(PeriodFormat::new(length, format).is_err(), "{format} as {length:?}");
            }
        }

        #[test]
        fn canonical_periods_sort_by_time() {
            for sorted in [
                ["0999", "1999", "2000"],
                ["1999-Q4", "2000-Q1", "2000-Q2"],
                ["1999-12", "2000-02", "2000-10"],
            ] {
                assert!(sorted.is_sorted());
            }
        }
    }
}
