//! How many cases went as wanted, and which did not.

use super::super::look::{Look, section};
use super::super::output::shortened;
use super::RulesError;
use super::excerpt::{coloured, plain, without_marks};
use super::outcome::{Complaint, End, Outcome};
use comfy_table::{CellAlignment, Table};
use std::io::{self, Write};
use std::time::Duration;

/// So many of the cases that did not go as wanted are listed; the rest is counted.
const LISTED_MAX: usize = 1_000;
/// So many categories are counted each for itself; the rest together.
const CATEGORIES_MAX: usize = 100;
/// A name is cut to so many characters.
const NAME_MAX_CHARS: usize = 24;
/// A category's name, beside that.
const CATEGORY_MAX_CHARS: usize = 16;
/// What a case without a category is counted among.
pub(super) const NO_CATEGORY: &str = "uncategorised";
/// What the categories beyond the bound are counted among.
pub(super) const OTHER_CATEGORIES: &str = "other categories";

/// What came of the cases so far, in bounded memory.
#[derive(Debug, Default)]
pub(super) struct Tally {
    all: Counts,
    categories: Categories<Counts>,
    no_cases: u64,
    not_evaluated: u64,
    listed: Vec<Outcome>,
    not_listed: u64,
}

/// How many there are of each kind.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) cases: u64,
    pub(super) failed: u64,
    pub(super) errors: u64,
}

/// One `T` a category, in the order in which they first occur.
#[derive(Debug)]
pub(super) struct Categories<T>(Vec<(String, T)>);

impl<T> Default for Categories<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Default> Categories<T> {
    /// That of an outcome's category.
    pub(super) fn of(&mut self, outcome: &Outcome) -> &mut T {
        let name = outcome.category.as_deref().unwrap_or(NO_CATEGORY);
        let Self(all) = self;
        let known = |all: &[(String, T)], name: &str| all.iter().position(|(known, _)| known == name);
        let name = match known(all, name) {
            None if all.len() >= CATEGORIES_MAX => OTHER_CATEGORIES,
            _ => name,
        };
        let place = known(all, name).unwrap_or(all.len());
        if place == all.len() {
            all.push((name.to_owned(), T::default()));
        }
        let (_, of_category) = all.get_mut(place).expect("it was found, or put there");
        of_category
    }

    pub(super) fn into_all(self) -> Vec<(String, T)> {
        self.0
    }
}

impl Counts {
    pub(super) fn add(&mut self, end: End) {
        self.cases += 1;
        match end {
            End::AsWanted => {}
            End::Otherwise => self.failed += 1,
            End::Undecided | End::NoCase | End::NotEvaluated => self.errors += 1,
        }
    }

    const fn passed(&self) -> u64 {
        self.cases - self.failed - self.errors
    }
}

impl Tally {
    pub(super) fn add(&mut self, outcome: Outcome) {
        self.all.add(outcome.end);
        self.categories.of(&outcome).add(outcome.end);
        self.no_cases += u64::from(outcome.end == End::NoCase);
        self.not_evaluated += u64::from(outcome.end == End::NotEvaluated);
        if outcome.end == End::AsWanted {
            return;
        }
        if self.listed.len() < LISTED_MAX {
            self.listed.push(outcome);
        } else {
            self.not_listed += 1;
        }
    }

    /// For a progress bar.
    pub(super) fn progress(&self) -> String {
        let Counts { cases, failed, errors } = self.all;
        format!("; {cases} cases, {} failed", failed + errors)
    }

    /// What all the cases of `file` come to.
    pub(super) fn verdict(&self, file: &str) -> Result<(), RulesError> {
        let file = || file.to_owned();
        match self {
            Self { not_evaluated: 1.., .. } => Err(RulesError::NotEvaluated(self.not_evaluated)),
            Self { no_cases: 1.., .. } => Err(RulesError::NoCases { file: file(), lines: self.no_cases }),
            Self { all: Counts { cases: 0, .. }, .. } => Err(RulesError::Empty { file: file() }),
            _ if self.all.passed() < self.all.cases => Err(RulesError::NotAsWanted),
            _ => Ok(()),
        }
    }

    /// Writes for people which cases did not go as wanted, and how many of which category did; nothing where there
    /// were none.
    pub(super) fn write(self, out: &mut dyn Write, took: Duration, look: Look) -> io::Result<()> {
        if self.all.cases == 0 {
            return Ok(());
        }
        if !self.listed.is_empty() {
            list(out, &self.listed, look)?;
            if self.not_listed > 0 {
                writeln!(out, "\n{} more are not listed; --json lists all.", self.not_listed)?;
            }
            writeln!(out)?;
        }
        let Counts { cases, failed, errors } = self.all;
        let rate = cases as f64 / took.as_secs_f64().max(f64::MIN_POSITIVE);
        let passed = self.all.passed();
        writeln!(
            out,
            "{cases} cases: {passed} passed, {failed} failed, {errors} errors; {rate:.0} evaluations/s"
        )?;
        let categories = self.categories.into_all();
        if categories.iter().any(|(name, _)| name != NO_CATEGORY) {
            section(out, "By category", &by_category(categories, look))?;
        }
        Ok(())
    }
}

fn by_category(categories: Vec<(String, Counts)>, look: Look) -> Table {
    let mut table = look.table(&["category", "cases", "passed", "failed", "errors"], &[0]);
    for (name, counts) in categories {
        let numbers = [counts.cases, counts.passed(), counts.failed, counts.errors].map(|n| n.to_string());
        table.add_row([shortened(&name, NAME_MAX_CHARS)].into_iter().chain(numbers));
    }
    table
}

/// A row for each complaint. What is marked in it is told by colour, or by marks that stand in the text.
fn list(out: &mut dyn Write, listed: &[Outcome], look: Look) -> io::Result<()> {
    let mut header = vec!["case", "category", "rule", "what is wrong"];
    if look.is_narrow() {
        header.remove(1);
    }
    let last = header.len() - 1;
    let mut table = look.table(&header, &(0..last).collect::<Vec<_>>());
    if let Some(column) = table.column_mut(last) {
        column.set_cell_alignment(CellAlignment::Left);
    }
    for outcome in listed {
        let category = outcome.category.as_deref().unwrap_or_default();
        let name = without_marks(&shortened(&outcome.name(), NAME_MAX_CHARS));
        let mut cells = vec![name, without_marks(&shortened(category, CATEGORY_MAX_CHARS))];
        cells.truncate(last - 1);
        for Complaint { about, message, excerpt } in &outcome.complaints {
            let excerpt = excerpt.as_ref().map(|excerpt| format!("\n{}", excerpt.as_str()));
            let told = [about.clone(), format!("{message}{}", excerpt.unwrap_or_default())];
            table.add_row(cells.iter().cloned().chain(told));
            cells.iter_mut().for_each(String::clear);
        }
        if outcome.complaints_omitted > 0 {
            let more = format!("{} more", outcome.complaints_omitted);
            table.add_row(cells.into_iter().chain([String::new(), more]));
        }
    }
    let text: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    let text = text.join("\n");
    writeln!(out, "{}", if look.colour { coloured(&text) } else { plain(&text) })
}
