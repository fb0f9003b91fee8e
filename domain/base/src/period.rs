//! Months, quarters and years in canonical form, ordered by time.

use super::time_format::TimeFormat;
use jiff::civil;
use jiff::fmt::strtime;

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
    use super::PeriodFormat;
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
        for (length, format) in [(Month, "%Y"), (Quarter, "%Y"), (Quarter, "Q%q"), (Year, "%m"), (Year, "%C")]
        {
            assert!(PeriodFormat::new(length, format).is_err(), "{format} as {length:?}");
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
