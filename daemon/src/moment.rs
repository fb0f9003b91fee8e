//! Moments as people write them: a day, or a time of a day.

use domain::ground::date::Date;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// A moment. A day without a time is its midnight in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Moment(pub Timestamp);

/// Why a text is not one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it is neither a day such as 2026-11-20 nor a time such as 2026-11-20T10:00:00Z")]
pub struct BadMoment;

impl FromStr for Moment {
    type Err = BadMoment;

    fn from_str(text: &str) -> Result<Self, BadMoment> {
        Date::read(text).and_then(|date| date.moment()).map(Self).ok_or(BadMoment)
    }
}

impl TryFrom<String> for Moment {
    type Error = BadMoment;

    fn try_from(text: String) -> Result<Self, BadMoment> {
        text.parse()
    }
}

impl From<Moment> for String {
    fn from(Moment(at): Moment) -> Self {
        at.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_its_midnight_in_utc() {
        for (text, at) in [
            ("2026-11-20", "2026-11-20T00:00:00Z"),
            ("2026-11-20T10:00:00+02:00", "2026-11-20T08:00:00Z"),
            ("-000001-01-01", ""),
            ("2026-11-20T10:00:00", ""),
            ("20261120", ""),
            ("tomorrow", ""),
            ("", ""),
        ] {
            let wanted = at.parse().map(Moment).map_err(|_| BadMoment);
            assert_eq!(text.parse::<Moment>(), wanted, "{text}");
        }
    }
}
