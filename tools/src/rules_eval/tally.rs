//! Counts the cases with and without the expected result.

use super::outcome::{CaseOutcome, CaseStatus};
use comfy_table::Table;
use oracled_ctl::base::output::{format_count, shorten_line};
use oracled_ctl::base::output_style::{OutputStyle, write_section};
use oracled_ctl::rules::RulesCommandError;
use oracled_ctl::rules::complaint::ComplaintTable;
use std::io::{self, Write};
use std::time::Duration;

/// Maximum number of listed cases without the expected result; the rest are counted.
const LISTED_MAX: usize = 1_000;
/// Maximum number of categories counted separately; the rest are counted together.
const CATEGORIES_MAX: usize = 100;
/// Maximum length of a category's name in the table, in characters.
const NAME_MAX_CHARS: usize = 24;
/// Minimum width for a column with the category, in columns.
const WIDTH_OF_CATEGORIES: u16 = 100;
/// The category of cases without one.
pub(crate) const NO_CATEGORY: &str = "uncategorized";
/// The category for all categories above the limit.
pub(crate) const OTHER_CATEGORIES: &str = "other categories";

/// The outcomes of the cases so far, in bounded memory.
#[derive(Debug, Default)]
pub(crate) struct CaseTally {
    all: CaseCounts,
    categories: CategoryMap<CaseCounts>,
    listed: Vec<CaseOutcome>,
    not_listed: u64,
}

/// Number of lines by outcome.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CaseCounts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    /// The verdict is `ERROR`, which was not expected.
    pub(crate) undecided: u64,
    /// The daemon failed on these cases.
    pub(crate) not_evaluated: u64,
    /// Lines that are not cases.
    pub(crate) no_cases: u64,
}

/// One `T` per category, in the order of first occurrence.
#[derive(Debug)]
pub(crate) struct CategoryMap<T>(Vec<(String, T)>);

impl<T> Default for CategoryMap<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Default> CategoryMap<T> {
    /// The value of an outcome's category.
    pub(crate) fn get_or_insert(&mut self, outcome: &CaseOutcome) -> &mut T {
        let name = outcome.category.as_deref().unwrap_or(NO_CATEGORY);
        let Self(all) = self;
        let find_name = |all: &[(String, T)], name: &str| all.iter().position(|(known, _)| known == name);
        let name = match find_name(all, name) {
            None if all.len() >= CATEGORIES_MAX => OTHER_CATEGORIES,
            _ => name,
        };
        let index = find_name(all, name).unwrap_or(all.len());
        if index == all.len() {
            all.push((name.to_owned(), T::default()));
        }
        let (_, of_category) = all.get_mut(index).expect("the entry exists, or was just added");
        of_category
    }

    pub(crate) fn into_entries(self) -> Vec<(String, T)> {
        self.0
    }
}

impl CaseCounts {
    pub(crate) fn add(&mut self, end: CaseStatus) {
        *match end {
            CaseStatus::AsExpected => &mut self.passed,
            CaseStatus::Unexpected => &mut self.failed,
            CaseStatus::Undecided => &mut self.undecided,
            CaseStatus::NotEvaluated => &mut self.not_evaluated,
            CaseStatus::NoCase => &mut self.no_cases,
        } += 1;
    }

    const fn cases(&self) -> u64 {
        self.passed + self.failed + self.undecided + self.not_evaluated
    }

    /// Number of cases, and of lines that are not cases.
    pub(crate) const fn lines(&self) -> u64 {
        self.cases() + self.no_cases
    }

    /// The counts as columns of a table.
    const fn columns(&self) -> [(&'static str, u64); 6] {
        [
            ("cases", self.cases()),
            ("passed", self.passed),
            ("failed", self.failed),
            ("ERROR", self.undecided),
            ("not evaluated", self.not_evaluated),
            ("not a case", self.no_cases),
        ]
    }

    /// The counts in words.
    fn format_counts(&self) -> String {
        let Self { passed, failed, undecided, not_evaluated, no_cases } = *self;
        let cases = format_count(self.cases(), "case", "cases");
        let mut text = format!("{cases}: {passed} passed, {failed} failed, {undecided} ended in ERROR");
        if not_evaluated > 0 {
            text += &format!(", {not_evaluated} could not be evaluated");
        }
        if no_cases > 0 {
            text += &format!("; {}", format_count(no_cases, "line is not a case", "lines are not cases"));
        }
        text
    }
}

impl CaseTally {
    pub(crate) fn add(&mut self, outcome: CaseOutcome) {
        self.all.add(outcome.end);
        self.categories.get_or_insert(&outcome).add(outcome.end);
        if outcome.end == CaseStatus::AsExpected {
            return;
        }
        if self.listed.len() < LISTED_MAX {
            self.listed.push(outcome);
        } else {
            self.not_listed += 1;
        }
    }

    /// The message of the progress bar.
    pub(crate) fn progress(&self) -> String {
        let unexpected = self.all.lines() - self.all.passed;
        format!("; {}, {unexpected} not as expected", format_count(self.all.lines(), "line", "lines"))
    }

    /// The result of all cases of `file`.
    pub(crate) fn check_result(&self, file: &str) -> Result<(), RulesCommandError> {
        let file = || file.to_owned();
        match self.all {
            CaseCounts { not_evaluated: cases @ 1.., .. } => Err(RulesCommandError::NotEvaluated(cases)),
            CaseCounts { no_cases: lines @ 1.., .. } => {
                Err(RulesCommandError::NoCases { file: file(), lines })
            }
            all if all.cases() == 0 => Err(RulesCommandError::Empty { file: file() }),
            all if all.passed < all.cases() => Err(RulesCommandError::UnexpectedResults),
            _ => Ok(()),
        }
    }

    /// Prints the cases without the expected result, and the counts by category. Prints nothing if there are no lines.
    pub(crate) fn write(self, out: &mut dyn Write, took: Duration, look: OutputStyle) -> io::Result<()> {
        if self.all.lines() == 0 {
            return Ok(());
        }
        if !self.listed.is_empty() {
            write_listed(out, &self.listed, look)?;
            if self.not_listed > 0 {
                let more = format_count(self.not_listed, "more is", "more are");
                writeln!(out, "\n{more} not listed; --json lists all.")?;
            }
            writeln!(out)?;
        }
        let rate = self.all.cases() as f64 / took.as_secs_f64().max(f64::MIN_POSITIVE);
        writeln!(out, "{}; {rate:.0} evaluations/s", self.all.format_counts())?;
        let categories = self.categories.into_entries();
        if categories.iter().any(|(name, _)| name != NO_CATEGORY) {
            write_section(out, "By category", &category_table(categories, self.all, look))?;
        }
        Ok(())
    }
}

/// One row per category. Columns for rare outcomes are left out if they are zero everywhere.
fn category_table(categories: Vec<(String, CaseCounts)>, all: CaseCounts, look: OutputStyle) -> Table {
    let shown = |counts: CaseCounts| {
        let with_all = counts.columns().into_iter().zip(all.columns());
        with_all
            .enumerate()
            .filter(|(index, (_, (_, all)))| *index < 4 || *all > 0)
            .map(|(_, (column, _))| column)
    };
    let header: Vec<_> = ["category"].into_iter().chain(shown(all).map(|(name, _)| name)).collect();
    let mut table = look.table(&header, &[0]);
    for (name, counts) in categories {
        let numbers = shown(counts).map(|(_, number)| number.to_string());
        table.add_row([shorten_line(&name, NAME_MAX_CHARS)].into_iter().chain(numbers));
    }
    table
}

/// Prints the cases without the expected result.
fn write_listed(out: &mut dyn Write, listed: &[CaseOutcome], look: OutputStyle) -> io::Result<()> {
    let names: &[&str] = if look.width < WIDTH_OF_CATEGORIES { &["case"] } else { &["case", "category"] };
    let mut table = ComplaintTable::new(names, look);
    for outcome in listed {
        let names = [&outcome.case_name(), outcome.category.as_deref().unwrap_or_default()];
        table.add_complaints(
            &names,
            &outcome.complaints,
            outcome.complaints_omitted,
            outcome.note.as_deref(),
        );
    }
    table.write(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_separate_cases_from_lines_that_are_not_cases() {
        let mut counts = CaseCounts::default();
        counts.add(CaseStatus::AsExpected);
        assert_eq!(counts.format_counts(), "1 case: 1 passed, 0 failed, 0 ended in ERROR");
        counts.add(CaseStatus::NoCase);
        assert_eq!(
            counts.format_counts(),
            "1 case: 1 passed, 0 failed, 0 ended in ERROR; 1 line is not a case"
        );
        for end in [
            CaseStatus::NoCase,
            CaseStatus::Unexpected,
            CaseStatus::Undecided,
            CaseStatus::Undecided,
            CaseStatus::NotEvaluated,
        ] {
            counts.add(end);
        }
        assert_eq!(
            counts.format_counts(),
            "5 cases: 1 passed, 1 failed, 2 ended in ERROR, 1 could not be evaluated; 2 lines are not cases"
        );
        assert_eq!(counts.lines(), 7);
    }
}
