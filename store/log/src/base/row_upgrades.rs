//! Rows of earlier schemas in their present form.

use crate::base::bundle::Bundle;
use crate::base::row_batch::RowBatch;
use crate::base::rows::{self, tables_in};
use crate::base::schema::{changes, check_readable, passed_upgrades, schema};
use domain_base::row::Table;
use std::path::Path;
use store_base::error::StoreError;

/// The present form of the stored row of `stored_in` called `name`, which has the form of version `from`; `None` if its rows were
/// all of dropped tables.
///
/// # Errors
/// `NotUpgraded` if the row cannot be converted, or this program cannot read the result; `Corrupt` if a bundle cannot be read.
pub(crate) fn upgrade_stored(
    dir: &Path,
    from: u32,
    (stored_in, name): (&str, &[u8]),
    value: Vec<u8>,
) -> Result<Option<Vec<u8>>, StoreError> {
    let upgrade = |table: &Table, value: Vec<u8>| {
        // an empty one is that of a lost row
        if value.is_empty() {
            return Ok(value);
        }
        let mut passed = passed_upgrades(from, table);
        let upgraded = passed.try_fold(value, |value, upgrade| (upgrade.convert)(&value));
        let checked = upgraded
            .and_then(|value| check_readable(table, &String::from_utf8_lossy(name), &value).map(|()| value));
        checked.map_err(|fault| StoreError::NotUpgraded {
            dir: dir.to_owned(),
            found: from,
            known: schema(),
            fault: format!("{}: {fault}", rows::row_path(table, &String::from_utf8_lossy(name))),
        })
    };
    if tables_in(stored_in).all(|table| table.bundle.is_none()) {
        return tables_in(stored_in).try_fold(value, |value, table| upgrade(table, value)).map(Some);
    }
    let mut bundle = Bundle::from_bytes(dir, &value)?;
    for table in tables_in(stored_in) {
        if let Some(mut row) = bundle.set(table, None) {
            row.value = upgrade(table, row.value)?;
            bundle.set(table, Some(row));
        }
    }
    Ok((bundle != Bundle::default()).then(|| bundle.to_bytes()))
}

/// The rows that a group of version `from` sets, in their present form.
///
/// # Errors
/// As for [`upgrade_stored`].
pub(crate) fn upgrade_group(dir: &Path, from: u32, group: &RowBatch) -> Result<RowBatch, StoreError> {
    let mut upgraded = group.clone();
    for stored_in in rows::stored_tables() {
        if !tables_in(stored_in).any(|table| changes(from, table)) {
            continue;
        }
        for (key, first) in group.range(rows::all(stored_in)).filter(|(key, _)| rows::is_first_chunk(key)) {
            let (Some(first), Some(name)) = (first, rows::name(key)) else { continue };
            let (revision, chunks, _) = rows::split_head(dir, first)?;
            if let Some(value) = rows::get_from(group, stored_in, name).flatten() {
                match upgrade_stored(dir, from, (stored_in, name), value)? {
                    Some(value) => {
                        rows::put(&mut upgraded, stored_in, name, revision, &value, chunks);
                    }
                    None => rows::remove(&mut upgraded, stored_in, name, chunks),
                }
            }
        }
    }
    Ok(upgraded)
}
