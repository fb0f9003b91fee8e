//! Days and moments in one form each, in the order of time.

use jiff::tz::TimeZone;
use jiff::{Timestamp, civil};
use std::fmt;

/// A day of RFC 3339 has so many bytes.
const DAY_BYTES: usize = 10;

/// A day (`2020-01-31`) or a moment (`2020-01-31T10:00:00Z`, in UTC) of RFC 3339, of the years 0 to 9999.
///
/// A day stays a day: which moment it begins at depends on where. The order is that of time, where a day comes before the
/// moments that it has in UTC; dates are equal if and only if their texts are.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date {
    /// Without a moment's `Z`: that would stand behind the point of a fraction in the order of texts.
    key: String,
}

impl Date {
    /// The date that `text` is, in RFC 3339's form; nothing for other texts.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        if text.len() == DAY_BYTES {
            let day = Self::of_day(text.parse().ok()?)?;
            return Some(day).filter(|day| day.key == text);
        }
        // what else is taken for a moment has no `-` there: basic forms, and years with a sign
        Self::of_moment(text.parse().ok()?).filter(|_| text.get(4..5) == Some("-"))
    }

    /// The date that `day` is; nothing before the year 0.
    #[must_use]
    pub fn of_day(day: civil::Date) -> Option<Self> {
        (day.year() >= 0).then(|| Self { key: day.to_string() })
    }

    /// The date that `moment` is; nothing where its year in UTC lies before the year 0.
    #[must_use]
    pub fn of_moment(moment: Timestamp) -> Option<Self> {
        let text = moment.to_string();
        let key = text.strip_suffix('Z').filter(|key| !key.starts_with('-'))?;
        Some(Self { key: key.to_owned() })
    }

    /// The moment that it names; that of a day is its midnight in UTC. Nothing beyond what there are timestamps for, which
    /// end with the day before the last.
    #[must_use]
    pub fn moment(&self) -> Option<Timestamp> {
        if self.is_day() {
            let midnight = self.key.parse::<civil::Date>().ok()?.to_zoned(TimeZone::UTC);
            return midnight.ok().map(|zoned| zoned.timestamp());
        }
        self.to_string().parse().ok()
    }

    /// A text whose order is that of dates.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    fn is_day(&self) -> bool {
        self.key.len() == DAY_BYTES
    }
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
    fn days_stay_days_and_moments_are_in_utc() {
        let cases = [
            ("2020-01-31", Some("2020-01-31")),
            ("2020-01-31T12:00:00+02:00", Some("2020-01-31T10:00:00Z")),
            ("2020-01-31T10:00:00Z", Some("2020-01-31T10:00:00Z")),
            ("2020-01-31T10:00:00.50Z", Some("2020-01-31T10:00:00.5Z")),
            ("0000-01-01", Some("0000-01-01")),
            ("0000-01-01T00:00:00Z", Some("0000-01-01T00:00:00Z")),
            ("2020-02-30", None),
            ("2020-1-31", None),
            ("20200131", None),
            ("2020-01-31T10:00:00", None),
            ("yesterday", None),
            ("", None),
        ];
        for (text, wanted) in cases {
            assert_eq!(canonical(text).as_deref(), wanted, "{text}");
        }
    }

    #[test]
    fn what_is_of_no_year_with_four_digits_in_utc_is_no_date() {
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
        assert_eq!(Date::of_day(civil::date(-1, 12, 31)), None);
    }

    #[test]
    fn the_canonical_form_is_its_own() {
        for text in ["2020-01-31", "1969-12-31T23:59:59.123456789-11:30"] {
            let once = canonical(text).expect("it is a date");
            assert_eq!(canonical(&once), Some(once.clone()));
        }
    }

    #[test]
    fn a_day_comes_before_its_moments_and_those_come_as_time_goes() {
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

    /// A moment, every other one of a whole second.
    fn moment() -> impl Strategy<Value = Timestamp> {
        let nanosecond = prop_oneof![Just(0), 0..1_000_000_000_i32];
        (0..3_i64, nanosecond)
            .prop_map(|(second, nanosecond)| Timestamp::new(second, nanosecond).expect("a moment"))
    }

    proptest! {
        #[test]
        fn the_order_of_moments_is_that_of_time(one in moment(), other in moment()) {
            let date = |moment| Date::of_moment(moment).expect("of these years");
            prop_assert_eq!(date(one).cmp(&date(other)), one.cmp(&other));
            prop_assert_eq!(date(one).key().cmp(date(other).key()), one.cmp(&other));
            prop_assert_eq!(date(one).moment(), Some(one));
        }
    }
}
