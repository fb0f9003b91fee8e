//! When a pipeline is pulled by itself (seed: `rfc-0002-ground-truth`, "Data Ingestion Pipeline", `retrieval.schedule`).

use cronexpr::{Crontab, FallbackTimezoneOption, ParseOptions, parse_crontab_with};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use std::fmt;

/// The longest schedule, in bytes.
pub const SCHEDULE_MAX_BYTES: usize = 256;
/// Its fields, in order.
const FIELDS: [&str; 5] = ["minute", "hour", "day of the month", "month", "day of the week"];

/// The cron library looks four years ahead, and three days less at the turn of some centuries.
const LOOK: SignedDuration = SignedDuration::from_hours(1458 * 24);
/// So many looks go over 44 years: a 29th of February that is a Sunday can be 40 years away.
const LOOKS: u32 = 12;
/// How much time must be left behind a look, lest the library runs over the end of all timestamps.
const ROOM: SignedDuration = SignedDuration::from_hours(5 * 366 * 24);

/// Why a text is no schedule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSchedule {
    /// It is too long to be one.
    #[error("a schedule of {size_bytes} bytes; allowed: {SCHEDULE_MAX_BYTES}")]
    TooLong {
        /// Its length.
        size_bytes: usize,
    },
    /// It has too few fields, or too many.
    #[error("a schedule of {found} words; allowed: {}, and a time zone's name", FIELDS.join(", "))]
    Fields {
        /// How many words it has.
        found: usize,
    },
    /// A field is of a form that is not taken.
    #[error("the {field} is `{given}`; allowed: numbers and names, with `*`, `,`, `-` and `/`")]
    Form {
        /// Which field.
        field: &'static str,
        /// What stands there.
        given: String,
    },
    /// A field says what it cannot.
    #[error("the schedule is not understood: {why}")]
    Value {
        /// What is wrong, and what is allowed.
        why: String,
    },
    /// There is no such time zone.
    #[error(
        "`{given}` is not a time zone; allowed: names of the IANA database as `Europe/Vienna`, `UTC` where none is given"
    )]
    Zone {
        /// What stands there.
        given: String,
    },
    /// It is well-formed, and there is no such day.
    #[error("the schedule never fires; allowed: days that exist")]
    Never,
}

/// When a pipeline is pulled by itself: a cron expression of five fields, with a time zone's name behind it or in UTC.
///
/// Where both the day of the month and the day of the week are given, either will do; where one of them begins with `*`,
/// both must hold (as Vixie's cron has it). Names are the first three letters of the English ones; 0 and 7 are Sunday.
///
/// A clock change makes a time of day that is skipped fire not at all on that day, and one that is repeated fire twice;
/// who minds takes UTC, or another time.
#[derive(Clone)]
pub struct Schedule {
    text: String,
    crontab: Crontab,
}

impl Schedule {
    /// The schedule that `text` is.
    ///
    /// # Errors
    /// Where it is none, or would never fire.
    pub fn parse(text: &str) -> Result<Self, BadSchedule> {
        if text.len() > SCHEDULE_MAX_BYTES {
            return Err(BadSchedule::TooLong { size_bytes: text.len() });
        }
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let zone = words.get(FIELDS.len());
        if words.len() != FIELDS.len() + usize::from(zone.is_some()) {
            return Err(BadSchedule::Fields { found: words.len() });
        }
        for (field, given) in FIELDS.into_iter().zip(&words) {
            if !given.split([',', '-', '/']).all(is_plain) {
                return Err(BadSchedule::Form { field, given: (*given).to_owned() });
            }
        }
        if let Some(zone) = zone.filter(|zone| TimeZone::get(zone).is_err()) {
            return Err(BadSchedule::Zone { given: (*zone).to_owned() });
        }
        let text = words.join(" ");
        let mut options = ParseOptions::default();
        options.fallback_timezone_option = FallbackTimezoneOption::UTC;
        let crontab = parse_crontab_with(&text, options).map_err(|error| not_understood(&error))?;
        let schedule = Self { text, crontab };
        schedule.next_after(Timestamp::UNIX_EPOCH).ok_or(BadSchedule::Never)?;
        Ok(schedule)
    }

    /// The first time after `after` at which it fires: a whole minute. None at the end of all timestamps.
    #[must_use]
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        let mut from = after;
        for _ in 0..LOOKS {
            from.checked_add(ROOM).ok()?;
            if let Ok(next) = self.crontab.find_next(from) {
                return Some(next.timestamp());
            }
            from = from.checked_add(LOOK).ok()?;
        }
        None
    }
}

/// Whether it is `*`, a number, or a name of three letters. The library knows more forms (`L`, `15W`, `5#3`), but finds no
/// last days in December.
fn is_plain(part: &str) -> bool {
    let number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let name = part.len() == 3 && part.bytes().all(|byte| byte.is_ascii_alphabetic());
    part == "*" || number || name
}

/// The library points at the place in a picture of two lines; behind it stands what is wrong.
fn not_understood(error: &cronexpr::Error) -> BadSchedule {
    let text = error.to_string();
    let why = text.rsplit_once("^ ").map_or(text.as_str(), |(_, why)| why);
    BadSchedule::Value { why: why.replace(char::is_control, " ") }
}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Schedule").field(&self.text).finish()
    }
}

#[cfg(test)]
mod tests;
