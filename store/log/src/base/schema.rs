//! The schema: the layout of the store and the form of its rows, and the upgrades of rows from earlier forms.
//!
//! Who changes the form of a row raises [`SCHEMA`], and declares beside the row how its earlier form is read (`Table::upgrades`).

use domain_base::document::DOCUMENTS;
use domain_base::row::{RowUpgrade, Table};
use oracled_domain::documents::check_stored;
use std::path::Path;
use store_base::error::StoreError;

/// The schema version of this oracled. The segments, the database and the high-water mark store it.
pub const SCHEMA: u32 = 29;
/// The first version that can be upgraded. No earlier one was released.
pub(crate) const OLDEST: u32 = if cfg!(test) { SCHEMA - 2 } else { 29 };
/// The tables and indexes that a schema no longer has, with the first such version. An upgrade removes their rows.
#[cfg(not(test))]
const DROPPED: &[(u32, &str)] = &[];
#[cfg(test)]
const DROPPED: &[(u32, &str)] = testing::DROPPED;

/// The schema version that this oracled writes.
#[cfg(not(test))]
pub(crate) const fn schema() -> u32 {
    SCHEMA
}
#[cfg(test)]
pub(crate) use testing::schema;

/// Checks that the version `found` is the present one, or can be upgraded.
///
/// # Errors
/// `Newer` or `Older`.
pub(crate) fn check(dir: &Path, found: u32) -> Result<(), StoreError> {
    let dir = || dir.to_owned();
    match found {
        found if found > schema() => Err(StoreError::Newer { dir: dir(), found, known: schema() }),
        found if found < OLDEST => Err(StoreError::Older { dir: dir(), found, oldest: OLDEST }),
        _ => Ok(()),
    }
}

/// Whether an earlier version has had the table or index `name`.
pub(crate) fn was_dropped(name: &str) -> bool {
    DROPPED.iter().any(|(_, dropped)| *dropped == name)
}

/// Whether an upgrade from version `from` removes the table or index `name`.
pub(crate) fn is_dropped(from: u32, name: &str) -> bool {
    DROPPED.iter().any(|(since, dropped)| *dropped == name && from < *since)
}

/// The changes of the form of `table`'s rows that an upgrade from version `from` applies.
pub(crate) fn passed_upgrades(from: u32, table: &Table) -> impl Iterator<Item = &'static RowUpgrade> {
    upgrades_of(table).filter(move |upgrade| from < upgrade.schema)
}

/// Whether an upgrade from version `from` changes the rows of `table`.
pub(crate) fn changes(from: u32, table: &Table) -> bool {
    passed_upgrades(from, table).next().is_some()
}

#[cfg(not(test))]
fn upgrades_of(table: &Table) -> impl Iterator<Item = &'static RowUpgrade> {
    table.upgrades.iter()
}
#[cfg(test)]
use testing::upgrades_of;

/// Checks that a row of `table` can be read in the present form.
///
/// # Errors
/// The reason why the row cannot be read.
#[cfg(not(test))]
pub(crate) fn check_readable(table: &Table, name: &str, value: &[u8]) -> Result<(), String> {
    check_form(table, name, value)
}
#[cfg(test)]
pub(crate) use testing::check_readable;

// the table of documents is declared below the features, and cannot name their kinds
fn check_form(table: &Table, name: &str, value: &[u8]) -> Result<(), String> {
    (table.check)(value)?;
    if table.name == DOCUMENTS.name { check_stored(name, value) } else { Ok(()) }
}

/// Two schemas that never were.
#[cfg(test)]
pub(crate) mod testing;
