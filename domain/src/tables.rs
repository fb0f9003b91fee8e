//! The tables of all features.

use crate::base::document::DOCUMENTS;
use crate::base::row::{Index, SumTable, Table};
use crate::{ground, verdict, verification};

/// The table of registered documents, and the tables of each feature.
const TABLES: [&[&Table]; 4] = [&[DOCUMENTS], ground::TABLES, verification::TABLES, verdict::TABLES];
/// The sums of each feature.
const SUMS: [&[&SumTable]; 1] = [verdict::SUMS];

/// All tables.
pub fn tables() -> impl Iterator<Item = &'static Table> {
    TABLES.into_iter().flatten().copied()
}

/// The table with this name.
#[must_use]
pub fn table(name: &str) -> Option<&'static Table> {
    tables().find(|table| table.name == name)
}

/// All sums.
pub fn sums() -> impl Iterator<Item = &'static SumTable> {
    SUMS.into_iter().flatten().copied()
}

/// All indexes.
pub fn indexes() -> impl Iterator<Item = &'static Index> {
    tables().flat_map(|table| table.indexes).copied()
}
