//! Days and moments in one form each.

use jiff::Timestamp;
use jiff::civil::Date;

/// The one form of a day (`2020-01-31`) or a moment (`2020-01-31T10:00:00Z`, in UTC) of RFC 3339; nothing for other texts.
///
/// A day stays a day: which moment it begins at depends on where.
#[must_use]
pub fn canonical(text: &str) -> Option<String> {
    const DAY_BYTES: usize = 10;
    if text.len() == DAY_BYTES {
        let day: Date = text.parse().ok()?;
        return Some(day.to_string()).filter(|canonical| canonical == text);
    }
    let moment: Timestamp = text.parse().ok()?;
    Some(moment.to_string()).filter(|canonical| canonical.len() > DAY_BYTES && text.get(4..5) == Some("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_stay_days_and_moments_are_in_utc() {
        let cases = [
            ("2020-01-31", Some("2020-01-31")),
            ("2020-01-31T12:00:00+02:00", Some("2020-01-31T10:00:00Z")),
            ("2020-01-31T10:00:00Z", Some("2020-01-31T10:00:00Z")),
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
    fn the_canonical_form_is_its_own() {
        for text in ["2020-01-31", "1969-12-31T23:59:59.123456789-11:30"] {
            let once = canonical(text).expect("it is a date");
            assert_eq!(canonical(&once), Some(once.clone()));
        }
    }
}
