//! The tables of all features.

use domain_base::document::DOCUMENTS;
use domain_base::row::{Index, SumTable, Table};

/// The table of registered documents, and the tables of each feature.
const TABLES: [&[&Table]; 4] =
    [&[DOCUMENTS], domain_ground::TABLES, domain_verification::TABLES, domain_verdict::TABLES];
/// The sums of each feature.
const SUMS: [&[&SumTable]; 1] = [domain_verdict::SUMS];

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
