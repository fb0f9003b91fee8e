//! Months, quarters and years in canonical form, ordered by time.

use jiff::fmt::strtime::BrokenDownTime;

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

    /// Parses `text` in `format`, in `strftime` syntax with `%q` for the number of a quarter. Returns the canonical form.
    #[must_use]
    pub fn parse(self, format: &str, text: &str) -> Option<String> {
        // jiff formats `%q` and does not parse it
        let with_month = format.replace("%q", "%m");
        let is_quarter = self == Self::Quarter && with_month != format;
        let parts = BrokenDownTime::parse(if is_quarter { &with_month } else { format }, text).ok()?;
        let year = parts.year().filter(|year| (0..=9999).contains(year))?;
        let canonical = match self {
            Self::Year => format!("{year:04}"),
            Self::Month => format!("{year:04}-{:02}", parts.month()?),
            Self::Quarter if is_quarter => {
                format!("{year:04}-Q{}", parts.month().filter(|quarter| *quarter <= 4)?)
            }
            Self::Quarter => format!("{year:04}-Q{}", (parts.month()? + 2) / 3),
        };
        Some(canonical)
    }
}

#[cfg(test)]
mod tests {
    use super::PeriodLength::{Month, Quarter, Year};

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
            (Month, "%Y", "2024", None),
            (Quarter, "%YQ%q", "2024Q4", Some("2024-Q4")),
            (Quarter, "Q%q/%Y", "Q1/2024", Some("2024-Q1")),
            (Quarter, "%YQ%q", "2024Q5", None),
            (Quarter, "%YQ%q", "2024Q12", None),
            (Quarter, "%Y-%m", "2024-03", Some("2024-Q1")),
            (Quarter, "%Y-%m", "2024-04", Some("2024-Q2")),
            (Quarter, "%Y-%m-%d", "2024-12-31", Some("2024-Q4")),
            (Quarter, "%Y", "2024", None),
        ] {
            assert_eq!(length.parse(format, text).as_deref(), expected, "{text} in {format}");
        }
    }

    #[test]
    fn canonical_periods_sort_by_time() {
        for sorted in
            [["0999", "1999", "2000"], ["1999-Q4", "2000-Q1", "2000-Q2"], ["1999-12", "2000-02", "2000-10"]]
        {
            assert!(sorted.is_sorted());
        }
    }
}
