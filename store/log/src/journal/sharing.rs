//! The journal of a host that shares its log with others.

use super::opening::lines_in;
use super::staged::ReadyGroup;
use super::{Journal, ORDINARY_BYTES};
use crate::audit::log::row;
use crate::audit::log::{self, LOG, LogTip};
use crate::base::bundle::Bundle;
use crate::base::meta;
use crate::base::row_batch::RowBatch;
use crate::base::row_write::{RowName, RowWrite};
use crate::base::rows::{self, stored_tables, tables_in};
use crate::base::watermark::StoreCounts;
use crate::shared_log::{GroupsEnd, SharedAppend, SharedGroup, SharedLog, SharedLogError, SharedTail};
use oracled_domain::tables;
use std::mem;
use std::thread::sleep;
use std::time::{Duration, Instant};
use store_base::error::StoreError;

/// The most bytes of rows that are read from the shared log at once.
const READ_BYTES: usize = 16 * 1024 * 1024;
/// The pause before the next attempt, if the shared log does not answer.
const RETRY_PAUSE: Duration = Duration::from_millis(if cfg!(test) { 0 } else { 50 });

/// The connection of a journal to its shared log.
#[derive(Debug)]
pub(super) struct SharedJournal {
    log: Box<dyn SharedLog>,
    /// Whether the ends were compared on the present connection.
    is_connected: bool,
    /// The longest time for which it may be unknown whether a group is committed.
    deadline: Duration,
    /// The rows that groups of other hosts have changed, since [`Journal::take_followed`].
    followed: Vec<RowName>,
}

impl SharedJournal {
    /// Calls the shared log over the present connection, which an error ends.
    fn call<T>(
        &mut self,
        call: impl FnOnce(&mut dyn SharedLog) -> Result<T, SharedLogError>,
    ) -> Result<T, SharedLogError> {
        let answer = call(&mut *self.log);
        self.is_connected &= answer.is_ok();
        answer
    }

    /// Connects, unless it is connected. Returns the last entry of the shared log if it was not.
    fn connect(&mut self, own: GroupsEnd) -> Result<Option<u64>, SharedLogError> {
        if self.is_connected {
            return Ok(None);
        }
        match self.log.connect(own)? {
            SharedTail::Follows(tail) => {
                self.is_connected = true;
                Ok(Some(tail))
            }
            SharedTail::Lacks(tail) => Err(SharedLogError(format!(
                "it ends at entry {tail}, and this host at entry {}",
                own.entries
            ))),
            SharedTail::Forked => Err(SharedLogError(format!(
                "its groups up to entry {} are others than those of this host",
                own.entries
            ))),
        }
    }

    /// Tries to append a group after `own`, once. The same group may have been appended before, without an answer.
    fn try_append(&mut self, own: GroupsEnd, group: &SharedGroup) -> Result<SharedAppend, SharedLogError> {
        let tail = self.connect(own)?;
        if tail.is_none_or(|tail| tail == own.entries)
            && self.call(|log| log.append(group))? == SharedAppend::Appended
        {
            return Ok(SharedAppend::Appended);
        }
        let next = self.call(|log| log.read(own.entries, 0))?;
        let is_own = next.first().is_some_and(|next| (next.after, next.root) == (group.after, group.root));
        Ok(if is_own { SharedAppend::Appended } else { SharedAppend::Behind })
    }
}

impl Journal {
    /// From now on, other hosts write the log, too. A commit is an append to the shared log, which must answer within `deadline`.
    /// [`Journal::follow`] must be called before the store is served.
    pub fn share(&mut self, log: Box<dyn SharedLog>, deadline: Duration) {
        self.shared = Some(SharedJournal { log, is_connected: false, deadline, followed: Vec::new() });
    }

    /// Applies the groups that other hosts have appended.
    ///
    /// # Errors
    /// `Unavailable` if the shared log does not answer, or this host cannot write. `Corrupt` if a group is not one that follows the
    /// groups of this host: it must not be served any longer.
    pub fn follow(&mut self) -> Result<(), StoreError> {
        loop {
            self.check_failure()?;
            let own = self.groups_end();
            let Some(shared) = &mut self.shared else { return Ok(()) };
            let read = shared.connect(own).and_then(|_| shared.call(|log| log.read(own.entries, READ_BYTES)));
            let groups = read.map_err(unanswered)?;
            if groups.is_empty() {
                return Ok(());
            }
            for group in &groups {
                self.renew_snapshot(1)?;
                self.apply_shared(group)?;
            }
        }
    }

    /// The rows that groups of other hosts have changed since the last call: by [`Journal::follow`], and by commits, which follow the
    /// other hosts before they are staged again.
    pub fn take_followed(&mut self) -> Vec<RowName> {
        self.shared.as_mut().map(|shared| mem::take(&mut shared.followed)).unwrap_or_default()
    }

    /// The end of the groups of this host.
    fn groups_end(&self) -> GroupsEnd {
        GroupsEnd { entries: self.mark.now.counts.entries, root: self.engine.log_hashes().tree.root() }
    }

    /// Appends a group to the shared log, if there is one.
    ///
    /// # Errors
    /// `Unavailable` if it is unknown after the deadline whether the group was appended. If it was, the next [`Journal::follow`]
    /// applies it.
    pub(super) fn append_to_shared(&mut self, group: &ReadyGroup) -> Result<SharedAppend, StoreError> {
        let own = self.groups_end();
        let Some(shared) = &mut self.shared else { return Ok(SharedAppend::Appended) };
        let mut rows = Vec::new();
        group.rows.write_to(&mut rows);
        let (before, after) = (own.entries, group.counts.entries);
        let group = SharedGroup { before, after, root: group.hashes.tree.root(), rows };
        let began = Instant::now();
        loop {
            match shared.try_append(own, &group) {
                Ok(outcome) => return Ok(outcome),
                Err(error) if began.elapsed() >= shared.deadline => return Err(unanswered(error)),
                Err(error) => tracing::debug!(%error, "a group is appended again"),
            }
            sleep(RETRY_PAUSE);
        }
    }

    /// Applies a group of the shared log, which follows the groups of this host.
    fn apply_shared(&mut self, group: &SharedGroup) -> Result<(), StoreError> {
        let mut ready = self.read_shared(group)?;
        let (writes, replaced) = self.writes_in(&ready.rows)?;
        ready.replaced = replaced;
        self.reserve(ready.bytes)?;
        self.append(&mut ready)?;
        self.apply(ready, &writes.iter().collect::<Vec<_>>());
        if let Some(shared) = &mut self.shared {
            shared.followed.extend(writes.into_iter().map(|write| write.row));
        }
        Ok(())
    }

    /// The group, if it follows the groups of this host and its Merkle tree is that of its entries.
    fn read_shared(&self, group: &SharedGroup) -> Result<ReadyGroup, StoreError> {
        let dir = self.engine.dir();
        let differs = || StoreError::Corrupt {
            dir: dir.to_owned(),
            detail: format!(
                "the group of the shared log after entry {} does not follow its log",
                group.before
            ),
        };
        let mut hashes = (*self.engine.log_hashes()).clone();
        let rows =
            RowBatch::read(&group.rows).filter(|_| group.before == hashes.tree.size()).ok_or_else(differs)?;
        let counts =
            meta::counts_in(&rows).filter(|counts| counts.entries == group.after).ok_or_else(differs)?;
        let (mut lines, mut tiles) = (Vec::new(), RowBatch::default());
        for (_, line) in lines_in(&rows).range(group.before + 1..=group.after) {
            hashes.append(log::leaf(dir, line)?.as_bytes(), &mut tiles);
            lines.extend_from_slice(line.as_bytes());
            lines.push(b'\n');
        }
        if meta::tree_in(&rows).as_ref() != Some(&hashes.tree) || hashes.tree.root() != group.root {
            return Err(differs());
        }
        let times = rows::changed(&rows, LOG).filter_map(|(name, _)| rows::get_from(&rows, LOG, name)?);
        let latest_time_us = times.map(|value| row::time_of(&value)).max().unwrap_or(i64::MIN);
        let tip = LogTip::new(latest_time_us.max(self.tip.latest_time_us));
        let bytes = (group.rows.len() + lines.len()) as u64;
        Ok(ReadyGroup {
            rows,
            counts,
            tip,
            hashes,
            lines,
            replaced: Vec::new(),
            bytes: bytes.max(ORDINARY_BYTES),
        })
    }

    /// The changes of tables in the rows of a group, and the rows that it replaces or removes: their tables and revisions.
    #[expect(clippy::type_complexity, reason = "the parts are taken apart at once")]
    fn writes_in(&self, batch: &RowBatch) -> Result<(Vec<RowWrite>, Vec<(&'static str, u64)>), StoreError> {
        let (mut writes, mut replaced) = (Vec::new(), Vec::new());
        let dir = self.engine.dir();
        let name_of = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        for stored in stored_tables().filter(|stored| tables_in(stored).any(|table| table.bundle.is_some())) {
            for (name, _) in rows::changed(batch, stored) {
                let before = self.engine.with(|db| rows::get_readable(db, dir, stored, name))?;
                let parse = |value: Option<Vec<u8>>| {
                    value.map_or_else(|| Ok(Bundle::default()), |value| Bundle::from_bytes(dir, &value))
                };
                let before = parse(before.map(|row| row.value))?;
                let after = parse(rows::get_from(batch, stored, name).flatten())?;
                for table in tables_in(stored).filter(|table| before.row(table) != after.row(table)) {
                    replaced.extend(before.row(table).map(|row| (table.name, row.revision)));
                    let value = after.row(table).map(|row| row.value.clone());
                    writes.push(RowWrite::of(RowName { table, name: name_of(name) }, value));
                }
            }
        }
        for name_of_table in StoreCounts::tables() {
            let table = tables::table(name_of_table);
            if table.is_some_and(|table| table.bundle.is_some()) {
                continue;
            }
            for (name, _) in rows::changed(batch, name_of_table) {
                let before = self.engine.with(|db| rows::head(db, dir, name_of_table, name))?;
                replaced.extend(before.map(|(revision, _)| (name_of_table, revision)));
                if let Some(table) = table {
                    let value = rows::get_from(batch, name_of_table, name).flatten();
                    writes.push(RowWrite::of(RowName { table, name: name_of(name) }, value));
                }
            }
        }
        Ok((writes, replaced))
    }
}

fn unanswered(error: SharedLogError) -> StoreError {
    StoreError::Unavailable { cause: error.to_string() }
}

#[cfg(test)]
mod tests;
