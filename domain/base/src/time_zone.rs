//! The declared time zone of local times.
//!
//! Its rules are those of the IANA database within this program, not of the host, so that the same bytes are read in the
//! same way everywhere.

use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};
use jiff::{Timestamp, civil};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

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

#[cfg(test)]
mod tests {
    use super::*;

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
            (Some(AmbiguousTimeHandling::Earlier), "2026-10-25T02:30", Ok("2026-10-25T00:30:00Z".to_owned())),
            (Some(AmbiguousTimeHandling::Later), "2026-10-25T02:30", Ok("2026-10-25T01:30:00Z".to_owned())),
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
