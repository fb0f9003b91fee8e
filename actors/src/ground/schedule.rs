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
mod tests;
