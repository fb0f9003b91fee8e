//! Upgrading a store of an earlier schema version.
//!
//! A new database is built from its segments, and the rows get their present form. A snapshot of it then replaces the segments. Nothing
//! is changed before the new database is complete. After a kill, the next start upgrades again, or rebuilds the database.

use super::Journal;
use super::healing::write_snapshot;
use super::opening::{START_EARLIER, apply_groups};
use super::opening::{adopt_database, create_database, index_and_count};
use crate::audit::log::{BY_EVENT, BY_EXECUTION, BY_SESSION, KEPT_ENTRIES, LOG, LogQuery};
use crate::base::bundle::upgrade_stored;
use crate::base::engine::{StoreEngine, TableReader, remove_dir};
use crate::base::log_hashes::TILES;
use crate::base::meta;
use crate::base::row_batch::RowBatch;
use crate::base::rows::{self, LOST, META, stored_tables, tables_in};
use crate::base::schema::{self, schema};
use crate::base::watermark::{StoreCounts, Watermark, WatermarkValues};
use crate::segments::Segments;
use domain_audit::event::StoreUpgraded;
use domain_audit::log_tree::LogTree;
use domain_base::event::{Event, LoggedEvent};
use std::mem;
use std::sync::Arc;
use store_base::error::StoreError;

/// The tables of the store itself.
const OWN: [&str; 8] = [LOG, BY_SESSION, BY_EXECUTION, BY_EVENT, KEPT_ENTRIES, TILES, META, LOST];

/// Upgrades the store, whose database is closed, if it has an earlier schema version. An inner error, damage of the segments, stays if
/// it has the present one.
///
/// # Errors
/// `NotUpgraded` if a row has no present form, `Unavailable` if too little space is free, `Corrupt` or `Short` if a store of an earlier
/// version is damaged: nothing is changed then. `Io` if the disk cannot be read or written.
pub(super) fn upgrade(
    engine: &Arc<StoreEngine>,
    segments: Result<Segments, StoreError>,
    mark: &mut Watermark,
) -> Result<Result<Segments, StoreError>, StoreError> {
    let is_older = mark.is_older();
    let upgraded = match segments {
        Ok(mut segments) => match segments.first_schema() {
            Ok(from) if from < schema() => {
                upgrade_segments(engine, &mut segments, from, mark).map(|()| Ok(segments))
            }
            Err(damage) if is_older => Err(damage),
            // the database can have what a damaged first segment has lost
            _ => return Ok(Ok(segments)),
        },
        Err(damage) if is_older => Err(damage),
        damage => return Ok(damage),
    };
    upgraded.map_err(|damage| damage.with_detail(START_EARLIER))
}

fn upgrade_segments(
    engine: &Arc<StoreEngine>,
    segments: &mut Segments,
    from: u32,
    mark: &mut Watermark,
) -> Result<(), StoreError> {
    let (to, entries) = (schema(), segments.entries());
    tracing::warn!(from, to, entries, "the store is being upgraded to a later schema version");
    let new = create_database(engine.options(), segments.files(), true)?;
    let upgraded = build(&new, segments, from, &mark.now).and_then(|(counts, tree)| {
        let snapshot = write_snapshot(&new, &segments.up_to_now(), &counts, &tree, &|| true)?;
        // until the snapshot is in place, a start upgrades again; then it must not use the previous database
        mark.now.walked = 0;
        mark.write_synced().map_err(|source| StoreError::Io { path: engine.dir().to_owned(), source })?;
        // the next segment is of this version: an earlier version no longer opens the store
        segments.begin_next(0)?;
        segments.replace_by(&snapshot)?;
        adopt_database(engine, &new, mark, &counts)
    });
    new.close_database();
    remove_dir(new.dir())?;
    upgraded.inspect(|()| tracing::warn!(from, to, entries, "the store was upgraded"))
}

/// Builds the database from the segments, in the present form. Checks the log and the number of rows first, since nothing else is left
/// afterwards.
fn build(
    new: &Arc<StoreEngine>,
    segments: &Segments,
    from: u32,
    mark: &WatermarkValues,
) -> Result<(StoreCounts, LogTree), StoreError> {
    apply_groups(new, &segments.up_to_now(), None, None, &|| true)??;
    check_tables(new, from)?;
    let mut batch = RowBatch::default();
    meta::put_schema(&mut batch);
    new.apply(batch)?;
    let (before, tree) = meta::read(new)?.unwrap_or_default();
    check_whole(new, &before, &tree, mark)?;
    let mut tables = Vec::new();
    for stored_in in stored_tables() {
        upgrade_rows(new, from, stored_in)?;
        let changed = tables_in(stored_in).filter(|table| schema::changes(from, table));
        tables.extend(changed.map(|table| table.name.to_owned()));
    }
    let counts = index_and_count(new, &tree)?;
    let mut batch = RowBatch::default();
    let mut upgrades = meta::upgrades(new)?;
    let entries = segments.entries();
    upgrades.push(StoreUpgraded { from_schema: from, to_schema: schema(), entries, tables });
    meta::put_upgrades(&mut batch, &upgrades);
    meta::put_counts(&mut batch, &counts, &tree);
    new.apply(batch)?;
    new.sync()?;
    Ok((counts, tree))
}

/// Checks that the database has the whole log, which is that of the mark, and as many rows of each table as its counts say.
fn check_whole(
    new: &Arc<StoreEngine>,
    counts: &StoreCounts,
    tree: &LogTree,
    mark: &WatermarkValues,
) -> Result<(), StoreError> {
    let short =
        |detail: &str| Err(StoreError::Short { dir: new.dir().to_owned(), detail: detail.to_owned() });
    if !mark.agrees_with(tree) {
        return short("its entries are others than those of its high-water mark");
    }
    if mark.counts.entries == counts.entries && mark.counts != *counts {
        return short("its segments have other numbers of rows than its high-water mark");
    }
    new.set_opened_counts(counts.clone(), tree.clone());
    new.set_up_to_date();
    TableReader::new(Arc::clone(new)).audit_all()
}

/// Removes the rows of tables that the present version no longer has. No other row may be of an unknown table.
fn check_tables(new: &StoreEngine, from: u32) -> Result<(), StoreError> {
    let mut start = Vec::new();
    loop {
        let next = new.with(|db| db.range(start.clone()..).next().transpose())?;
        let Some((key, _)) = next else { return Ok(()) };
        let table = rows::split_key(&key).map_or("", |(table, _)| table);
        start = rows::all(table).end;
        if schema::is_dropped(from, table) {
            remove_table(new, table)?;
        } else if !StoreCounts::tables().chain(stored_tables()).chain(OWN).any(|known| known == table) {
            return Err(StoreError::NotUpgraded {
                dir: new.dir().to_owned(),
                found: from,
                known: schema(),
                fault: format!("this oracled does not know its table {table:?}"),
            });
        }
    }
}

fn remove_table(new: &StoreEngine, table: &str) -> Result<(), StoreError> {
    let keys = new.with(|db| {
        let keys = db.range(rows::all(table)).map(|entry| entry.map(|(key, _)| key.to_vec()));
        keys.collect::<Result<Vec<_>, _>>()
    })?;
    let mut batch = RowBatch::default();
    keys.into_iter().for_each(|key| batch.remove(key));
    new.apply(batch)
}

/// The length of the rows that are written at once, in bytes: a page of rows can be larger than the memory.
const BATCH_MAX_BYTES: usize = 8 << 20;

/// Converts the rows of a stored table to their present form, and checks that they can be read. They keep their revisions.
fn upgrade_rows(new: &Arc<StoreEngine>, from: u32, stored_in: &str) -> Result<(), StoreError> {
    new.set_up_to_date();
    let reader = TableReader::new(Arc::clone(new));
    tracing::info!(table = stored_in, "the rows of a table are upgraded and checked");
    let mut read = 0;
    reader.visit_names(stored_in, None, |names| {
        let (mut batch, mut bytes) = (RowBatch::default(), 0);
        for name in &names {
            let row = new.with(|db| rows::get(db, new.dir(), stored_in, name.as_bytes()))?;
            let Some(row) = row else { continue };
            match upgrade_stored(new.dir(), from, (stored_in, name.as_bytes()), row.value.clone())? {
                None => rows::remove(&mut batch, stored_in, name.as_bytes(), row.chunks),
                Some(value) if value != row.value => {
                    bytes += value.len();
                    rows::put(&mut batch, stored_in, name.as_bytes(), row.revision, &value, row.chunks);
                }
                Some(_) => {}
            }
            if bytes > BATCH_MAX_BYTES {
                new.apply(mem::take(&mut batch))?;
                bytes = 0;
            }
        }
        read += names.len();
        new.apply(batch).map(|()| true)
    })?;
    tracing::info!(table = stored_in, rows = read, "the rows of the table have the present form");
    Ok(())
}

impl Journal {
    /// The upgrades of the store that no entry of the log names.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn unreported_upgrades(&self) -> Result<Vec<StoreUpgraded>, StoreError> {
        let mut upgrades = meta::upgrades(&self.engine)?;
        // a retention can have dropped the entry of an earlier one
        let first = self.tables.first_seq()?;
        upgrades.retain(|upgrade| first <= upgrade.entries + 1);
        if !upgrades.is_empty() {
            let events = vec![StoreUpgraded::NAME.to_owned()];
            for line in self.tables.log(&LogQuery { events, limit: usize::MAX, ..LogQuery::default() })? {
                let logged: LoggedEvent<StoreUpgraded> = self.tables.parse_entry(&line)?;
                upgrades.retain(|upgrade| *upgrade != logged.event);
            }
        }
        Ok(upgrades)
    }
}

#[cfg(test)]
mod tests;
