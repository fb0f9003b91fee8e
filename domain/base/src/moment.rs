//! Moments that are written as a day or as a time, and durations in words.

use super::date::Date;
use jiff::{SignedDuration, Timestamp};
use serde::de::{self, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
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

/// A text is not a moment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not {ALLOWED}")]
pub struct ParseMomentError;

/// The allowed texts. The last day is that of jiff's last timestamp.
const ALLOWED: &str =
    "a day such as 2026-11-20, or a time such as 2026-11-20T10:00:00Z, from the year 0 to 9999-12-30";

impl FromStr for Moment {
    type Err = ParseMomentError;

    fn from_str(text: &str) -> Result<Self, ParseMomentError> {
        Date::read(text).and_then(|date| date.moment()).map(Self).ok_or(ParseMomentError)
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
        text.parse().map_err(|ParseMomentError| E::invalid_value(Unexpected::Str(text), &self))
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
            let expected = at.parse().map(Moment).map_err(|_| ParseMomentError);
            assert_eq!(text.parse::<Moment>(), expected, "{text}");
            let read = serde_json::from_value::<Moment>(text.into());
            assert_eq!(read.ok(), expected.ok(), "{text}");
        }
    }

    #[test]
    fn moment_error_names_the_allowed_forms() {
        for json in ["5", "\"2018\"", "null", "[]"] {
            let message = serde_json::from_str::<Moment>(json).expect_err("the text is invalid").to_string();
            assert!(message.contains("a day such as 2026-11-20, or a time such as"), "{message}");
        }
    }
}
