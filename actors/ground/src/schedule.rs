//! The schedules of pulls (seed: `rfc-0002-ground-truth`, "Data Ingestion Pipeline", `retrieval.schedule`).

use cronexpr::{Crontab, FallbackTimezoneOption, ParseOptions, parse_crontab_with};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use std::fmt;

/// The longest schedule, in bytes.
pub const SCHEDULE_MAX_BYTES: usize = 256;
/// The fields of a schedule, in order.
const FIELDS: [&str; 5] = ["minute", "hour", "day of the month", "month", "day of the week"];

/// The range of one search. The cron library searches four years ahead, and three days less at the turn of some
/// centuries.
const SEARCH_RANGE: SignedDuration = SignedDuration::from_hours(1458 * 24);
/// The most searches. They cover 44 years, since a 29th of February that is a Sunday can be 40 years away.
const SEARCHES_MAX: u32 = 12;
/// The time that must remain after the start of a search. Otherwise the library would pass the end of all timestamps.
const SEARCH_MARGIN: SignedDuration = SignedDuration::from_hours(5 * 366 * 24);

/// Why a text is not a schedule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PullScheduleError {
    /// The text is too long.
    #[error("the schedule has {size_bytes} bytes; allowed: at most {SCHEDULE_MAX_BYTES}")]
    TooLong {
        /// Its length, in bytes.
        size_bytes: usize,
    },
    /// The number of fields is wrong.
    #[error("the schedule has {found} words; allowed: {}, and optionally a time zone", FIELDS.join(", "))]
    Fields {
        /// Number of words found.
        found: usize,
    },
    /// A field has an unsupported form.
    #[error("the {field} is `{given}`; allowed: numbers and names, with `*`, `,`, `-` and `/`")]
    Form {
        /// The name of the field.
        field: &'static str,
        /// The text of the field.
        given: String,
    },
    /// The value of a field is invalid.
    #[error("the schedule is invalid: {why}")]
    Value {
        /// The fault, and the allowed values.
        why: String,
    },
    /// The time zone is unknown.
    #[error(
        "`{given}` is not a time zone; allowed: names of the IANA database, such as `Europe/Vienna`; the default is `UTC`"
    )]
    Zone {
        /// The text of the time zone.
        given: String,
    },
    /// The schedule is well-formed, but no day matches.
    #[error("the schedule never fires, since no such day exists")]
    Never,
}

/// A schedule of pulls: a cron expression of five fields, followed by the name of a time zone. The default zone is UTC.
///
/// If both the day of the month and the day of the week are given, one of them must match. If one of them begins with
/// `*`, both must match (as in Vixie cron). Names are the first three letters of the English names; 0 and 7 are Sunday.
///
/// At a clock change, a skipped time of day does not fire on that day, and a repeated one fires twice. UTC has no clock
/// changes.
#[derive(Clone)]
pub struct PullSchedule {
    text: String,
    crontab: Crontab,
}

impl PullSchedule {
    /// Parses a schedule.
    ///
    /// # Errors
    /// The text is not a schedule, or the schedule would never fire.
    pub fn parse(text: &str) -> Result<Self, PullScheduleError> {
        if text.len() > SCHEDULE_MAX_BYTES {
            return Err(PullScheduleError::TooLong { size_bytes: text.len() });
        }
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let zone = words.get(FIELDS.len());
        if words.len() != FIELDS.len() + usize::from(zone.is_some()) {
            return Err(PullScheduleError::Fields { found: words.len() });
        }
        for (field, given) in FIELDS.into_iter().zip(&words) {
            if !given.split([',', '-', '/']).all(is_plain) {
                return Err(PullScheduleError::Form { field, given: (*given).to_owned() });
            }
        }
        if let Some(zone) = zone.filter(|zone| TimeZone::get(zone).is_err()) {
            return Err(PullScheduleError::Zone { given: (*zone).to_owned() });
        }
        let text = words.join(" ");
        let mut options = ParseOptions::default();
        options.fallback_timezone_option = FallbackTimezoneOption::UTC;
        let crontab = parse_crontab_with(&text, options).map_err(|error| parse_schedule_error(&error))?;
        let schedule = Self { text, crontab };
        schedule.next_after(Timestamp::UNIX_EPOCH).ok_or(PullScheduleError::Never)?;
        Ok(schedule)
    }

    /// The first time after `after` at which the schedule fires: a whole minute. `None` near the end of all timestamps.
    #[must_use]
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        let mut from = after;
        for _ in 0..SEARCHES_MAX {
            from.checked_add(SEARCH_MARGIN).ok()?;
            if let Ok(next) = self.crontab.find_next(from) {
                return Some(next.timestamp());
            }
            from = from.checked_add(SEARCH_RANGE).ok()?;
        }
        None
    }
}

/// Whether `part` is `*`, a number, or a name of three letters. The library knows more forms (`L`, `15W`,
/// `5#3`), but its `L` fails for December.
fn is_plain(part: &str) -> bool {
    let number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let name = part.len() == 3 && part.bytes().all(|byte| byte.is_ascii_alphabetic());
    part == "*" || number || name
}

/// Converts an error of the library. Its text points at the fault with `^` in a picture of two lines, followed by the
/// cause.
fn parse_schedule_error(error: &cronexpr::Error) -> PullScheduleError {
    let text = error.to_string();
    let why = text.rsplit_once("^ ").map_or(text.as_str(), |(_, why)| why);
    PullScheduleError::Value { why: why.replace(char::is_control, " ") }
}

impl fmt::Debug for PullSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Schedule").field(&self.text).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn time(text: &str) -> Timestamp {
        text.parse().expect("a valid time")
    }

    fn refused(text: &str) -> String {
        PullSchedule::parse(text).expect_err("the schedule is invalid").to_string()
    }

    /// The first `count` times at which `schedule` fires after `after`.
    fn times(schedule: &str, after: &str, count: usize) -> Vec<String> {
        let schedule = PullSchedule::parse(schedule).expect("a valid schedule");
        let next = |at: &Timestamp| schedule.next_after(*at);
        std::iter::successors(next(&time(after)), next).take(count).map(|at| at.to_string()).collect()
    }

    #[test]
    fn schedule_fires_in_its_time_zone_or_in_utc() {
        let now = "2026-11-20T10:00:00Z";
        for (schedule, fires) in [
            ("30 4 * * *", ["2026-11-21T04:30:00Z", "2026-11-22T04:30:00Z"]),
            ("30 4 * * * UTC", ["2026-11-21T04:30:00Z", "2026-11-22T04:30:00Z"]),
            (" 30\t4 * * *  Europe/Vienna ", ["2026-11-21T03:30:00Z", "2026-11-22T03:30:00Z"]),
            ("0 0 1 * * Asia/Kolkata", ["2026-11-30T18:30:00Z", "2026-12-31T18:30:00Z"]),
            ("*/15 * * * *", ["2026-11-20T10:15:00Z", "2026-11-20T10:30:00Z"]),
            ("* * * * *", ["2026-11-20T10:01:00Z", "2026-11-20T10:02:00Z"]),
            ("0 12 * * sun", ["2026-11-22T12:00:00Z", "2026-11-29T12:00:00Z"]),
            ("0 12 * * 0", ["2026-11-22T12:00:00Z", "2026-11-29T12:00:00Z"]),
            ("0 12 31 DEC *", ["2026-12-31T12:00:00Z", "2027-12-31T12:00:00Z"]),
            ("0 12 29 2 *", ["2028-02-29T12:00:00Z", "2032-02-29T12:00:00Z"]),
            ("0 12 1 * 1", ["2026-11-23T12:00:00Z", "2026-11-30T12:00:00Z"]),
            ("5,10-12 9 * * 1-5", ["2026-11-23T09:05:00Z", "2026-11-23T09:10:00Z"]),
        ] {
            assert_eq!(times(schedule, now, 2), fires, "{schedule}");
        }
        assert_eq!(times("0 10 * * *", "2026-11-20T09:59:59.999999Z", 1), ["2026-11-20T10:00:00Z"]);
    }

    #[test]
    fn skipped_local_time_does_not_fire_and_a_repeated_one_fires_twice() {
        let schedule = "30 2 * * * Europe/Vienna";
        let spring = times(schedule, "2026-03-28T00:00:00Z", 2);
        assert_eq!(spring, ["2026-03-28T01:30:00Z", "2026-03-30T00:30:00Z"]);
        let autumn = times(schedule, "2026-10-24T12:00:00Z", 3);
        assert_eq!(autumn, ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"]);
        // an hourly schedule fires every hour
        let hourly = times("0 * * * * Europe/Vienna", "2026-10-24T23:30:00Z", 4);
        assert_eq!(
            hourly,
            ["2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z", "2026-10-25T03:00:00Z"]
        );
    }

    #[test]
    fn rare_date_is_found_decades_ahead() {
        assert_eq!(times("0 12 29 2 *", "2096-03-01T00:00:00Z", 1), ["2104-02-29T12:00:00Z"]);
        let sunday = times("0 0 29 2 */7", "2004-03-01T00:00:00Z", 2);
        assert_eq!(sunday, ["2032-02-29T00:00:00Z", "2060-02-29T00:00:00Z"]);
        assert_eq!(times("0 0 29 2 */7", "2088-03-01T00:00:00Z", 1), ["2128-02-29T00:00:00Z"]);
    }

    #[test]
    fn schedule_does_not_fire_near_the_end_of_all_timestamps() {
        let schedule = PullSchedule::parse("* * * * * Asia/Kolkata").expect("a valid schedule");
        assert_eq!(schedule.next_after(Timestamp::MAX), None);
        assert!(schedule.next_after(Timestamp::MIN).is_some());
        let rare = PullSchedule::parse("0 0 29 2 */7").expect("a valid schedule");
        for year in (9900..10_000).step_by(3) {
            let found = rare.next_after(time(&format!("{year:04}-01-01T00:00:00Z")));
            assert!(found.is_none_or(|at| at.to_string().contains("-02-29T")), "{found:?}");
        }
    }

    #[test]
    fn invalid_schedule_error_names_the_fault_and_what_is_allowed() {
        for (text, message) in [
            ("", "the schedule has 0 words; allowed: minute, hour, day of the month, month, day of the week"),
            ("* * * *", "the schedule has 4 words"),
            ("0 0 * * * * UTC", "the schedule has 7 words"),
            ("@daily", "the schedule has 1 words"),
            (
                "* * * * * Mars/Olympus",
                "`Mars/Olympus` is not a time zone; allowed: names of the IANA database",
            ),
            ("* * * * * ../../etc/passwd", "is not a time zone"),
            ("60 * * * *", "0..=59; found 60"),
            ("* 24 * * *", "0..=23; found 24"),
            ("* * 0 * *", "1..=31; found 0"),
            ("* * * 13 *", "1..=12; found 13"),
            ("* * * * 8", "0..=7; found 8"),
            ("99999999999999999999 * * * *", "the schedule is invalid"),
            ("*/0 * * * *", "the schedule is invalid"),
            ("10-5 * * * *", "ascending order; found 10-5"),
            ("* * L * *", "the day of the month is `L`; allowed: numbers and names"),
            ("* * 15W * *", "the day of the month is `15W`"),
            ("* * * * 5#3", "the day of the week is `5#3`"),
            ("H * * * *", "the minute is `H`"),
            ("é * * * *", "the minute is `é`"),
            ("1,,2 * * * *", "the minute is `1,,2`"),
            ("* * * foo *", "the schedule is invalid"),
            ("0 0 30 2 *", "the schedule never fires, since no such day exists"),
            ("0 0 31 4,6,9,11 *", "never fires"),
        ] {
            let error = refused(text);
            assert!(error.contains(message), "{text}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
        let long = format!("0{} * * * *", ",0".repeat(200));
        assert_eq!(refused(&long), "the schedule has 409 bytes; allowed: at most 256");
    }

    proptest! {
        #[test]
        fn parse_does_not_panic_for_any_text(text in "[0-9*,/LWH# a-zA-Z-]{0,40}|.{0,40}") {
            drop(PullSchedule::parse(&text));
        }

        #[test]
        fn next_time_is_a_later_whole_minute_that_matches_the_fields(
            minute in 0..60_i8, hour in 0..24_i8, day in 1..=28_i8, after_s in 0..4_000_000_000_i64,
        ) {
            let schedule = PullSchedule::parse(&format!("{minute} {hour} {day} * *")).expect("a valid schedule");
            let after = Timestamp::from_second(after_s).expect("a valid time");
            let next = schedule.next_after(after).expect("the schedule fires");
            let civil = next.to_zoned(TimeZone::UTC);
            prop_assert_eq!((civil.minute(), civil.hour(), civil.day(), civil.second()), (minute, hour, day, 0));
            prop_assert!(next > after && next.duration_since(after) <= SignedDuration::from_hours(32 * 24));
        }
    }
}
