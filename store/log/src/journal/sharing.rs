//! The journal of a host that shares its log with others.

use super::opening::lines_in;
use super::staged::ReadyGroup;
use super::{Journal, JournalFailure, ORDINARY_BYTES, RecoveryCondition};
use crate::audit::log::row;
use crate::audit::log::{LOG, LogTip};
use crate::base::bundle::Bundle;
use crate::base::engine::TableReader;
use crate::base::meta;
use crate::base::random::random_bytes;
use crate::base::row_batch::RowBatch;
use crate::base::row_write::{RowName, RowWrite};
use crate::base::rows::{self, stored_tables, tables_in};
use crate::base::watermark::StoreCounts;
use crate::segments::{PreparedGroup, Segments};
use crate::shared_log::{
    GroupsEnd, SharedAppend, SharedEnd, SharedGroup, SharedLog, SharedLogError, SharedTail,
};
use domain_audit::leaf::leaf_of;
use oracled_domain::tables;
use std::fmt;
use std::mem;
use std::thread::sleep;
use std::time::Duration;
use store_base::error::StoreError;

/// The most bytes of rows that are read from the shared log at once, over a fast connection.
const READ_BYTES: usize = if cfg!(test) { 4 * 1024 } else { 16 * 1024 * 1024 };
/// The longest pause of a host while another one waits to append, in milliseconds: some times as long as an append takes.
const YIELD_MAX_MS: u16 = if cfg!(test) { 1 } else { 10 };
/// The longest pause before the next attempt, in milliseconds. Each pause has a random length, so that hosts do not wait for each other.
const PAUSE_MAX_MS: u16 = if cfg!(test) { 1 } else { 50 };

/// The connection of a journal to its shared log.
#[derive(Debug)]
pub(super) struct SharedJournal {
    log: Box<dyn SharedLog>,
    /// The name of this host.
    host: String,
    /// Whether the ends were compared on the present connection.
    is_connected: bool,
    /// The attempts to append a group, after which it stays unknown whether it is committed.
    attempts: u32,
    /// Whether the others know that this host waits to append.
    is_waiting: bool,
    /// Whether another host goes first.
    yields: bool,
    /// Receives the changes by groups of the shared log.
    followed: Option<FollowedChanges>,
    /// The most bytes of rows that are read at once. A slow connection has no answer in time for many.
    read_bytes: usize,
}

/// Receives the changes by a group of the shared log, after they were applied.
pub struct FollowedChanges(pub Box<dyn Fn(Vec<RowWrite>) + Send>);

impl fmt::Debug for FollowedChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FollowedChanges")
    }
}

/// Why a call of the shared log has no result.
#[derive(Debug)]
enum SharedCallError {
    /// It does not answer. It is unknown whether a group was appended.
    Unanswered(SharedLogError),
    /// It has other groups than this host.
    Diverged(String),
    /// The groups of this host cannot be read.
    Own(StoreError),
}

/// The groups of this host.
struct OwnGroups<'j> {
    tables: &'j TableReader,
    segments: &'j Segments,
}

impl OwnGroups<'_> {
    fn end(&self) -> GroupsEnd {
        let (entries, root) = self.tables.log_head();
        GroupsEnd { entries, root }
    }

    /// The end of the groups up to entry `entries`, which this host has.
    fn end_at(&self, entries: u64) -> Result<GroupsEnd, StoreError> {
        let root = self.tables.log_root(entries)?;
        Ok(GroupsEnd { entries, root: root.unwrap_or_default() })
    }
}

impl From<SharedLogError> for SharedCallError {
    fn from(error: SharedLogError) -> Self {
        Self::Unanswered(error)
    }
}

impl SharedJournal {
    /// Calls the shared log over the present connection, which an error ends.
    fn call<T>(
        &mut self,
        call: impl FnOnce(&mut dyn SharedLog) -> Result<T, SharedLogError>,
    ) -> Result<T, SharedLogError> {
        let answer = call(&mut *self.log);
        self.is_connected &= answer.is_ok();
        // with the connection, the others forget that this host waits
        self.is_waiting &= self.is_connected;
        answer
    }

    /// Reports to the others whether this host waits to append. Without contention nothing is sent.
    fn set_waiting(&mut self, is_waiting: bool) {
        if self.is_waiting != is_waiting && self.is_connected {
            // after an error, the next call connects again
            self.is_waiting = self.call(|log| log.set_waiting(is_waiting)).is_ok() && is_waiting;
        }
    }

    /// The end of the shared log, which is not before that of this host. If there is no connection, or if the shared log has lost groups,
    /// connects, and compares the ends.
    fn tail(&mut self, own: &OwnGroups<'_>) -> Result<GroupsEnd, SharedCallError> {
        if self.is_connected
            && let Some(tail) = self.whole_tail(own)?
        {
            return Ok(tail);
        }
        (self.is_connected, self.is_waiting) = (false, false);
        match self.log.connect(own.end())? {
            SharedTail::Follows(_) => {}
            SharedTail::Lacks(_) => self.append_again(own)?,
            SharedTail::Forked => return Err(self.fork_from(own)),
        }
        // before the first append, and before an answer that something is missing: another host may have what the shared log has lost, and
        // appends it meanwhile
        self.log.settle()?;
        self.is_connected = true;
        let lost = || SharedLogError::Unanswered("it has lost groups meanwhile".to_owned());
        Ok(self.whole_tail(own)?.ok_or_else(lost)?)
    }

    /// The end of the shared log; `None` if it has lost groups. An append of this host is answered before this call, and so counts.
    fn whole_tail(&mut self, own: &OwnGroups<'_>) -> Result<Option<GroupsEnd>, SharedLogError> {
        let tail = self.call(|log| log.tail())?;
        Ok(tail.filter(|tail| tail.entries >= own.end().entries))
    }

    /// Appends the groups of this host that the shared log has lost. Other hosts may do the same at this time.
    fn append_again(&mut self, own: &OwnGroups<'_>) -> Result<(), SharedCallError> {
        let own_error = |error: StoreError| SharedCallError::Own(error);
        let entries = own.end().entries;
        let last = self.log.ends(entries)?.into_iter().next().map(|last| last.end);
        let Some(mut end) = last else { return Err(self.fork_from(own)) };
        if own.end_at(end.entries).map_err(own_error)? != end {
            return Err(self.fork_from(own));
        }
        let tail = end.entries;
        tracing::warn!(tail, entries, "the shared log lacks entries of this host, which are appended again");
        let mut appended = Ok(());
        let visit = |after, rows: RowBatch| {
            appended = self.append_own(&mut end, after, &rows);
            appended.is_ok()
        };
        own.segments.up_to_now().replay(Some(tail), visit).map_err(own_error)?;
        appended
    }

    /// Appends a group that ends at entry `after` to `end`, and sets `end` to its end. Another host may have appended it meanwhile.
    fn append_own(
        &mut self,
        end: &mut GroupsEnd,
        after: u64,
        rows: &RowBatch,
    ) -> Result<(), SharedCallError> {
        let root = meta::tree_in(rows).unwrap_or_default().root();
        let mut bytes = Vec::new();
        rows.write_to(&mut bytes);
        let group = SharedGroup { before: end.entries, after, root, rows: bytes };
        match self.append_or_find(*end, &group)? {
            SharedAppend::Appended | SharedAppend::AppendedBefore => {
                *end = GroupsEnd { entries: after, root };
                Ok(())
            }
            SharedAppend::Behind => {
                // the comparison of the next connection finds out which ones
                Err(SharedLogError::Unanswered("another host has appended other groups".to_owned()).into())
            }
        }
    }

    /// The last group of the shared log that this host has, too.
    fn last_common(&mut self, own: &OwnGroups<'_>) -> Result<Option<GroupsEnd>, SharedCallError> {
        let mut up_to = own.end().entries;
        loop {
            let ends = self.log.ends(up_to)?;
            for SharedEnd { end, .. } in &ends {
                if own.end_at(end.entries).map_err(SharedCallError::Own)? == *end {
                    return Ok(Some(*end));
                }
            }
            let earlier = ends.last().and_then(|first| first.end.entries.checked_sub(1));
            let Some(earlier) = earlier else { return Ok(None) };
            up_to = earlier;
        }
    }

    /// The error of a host that has other groups than the shared log, with the first difference.
    fn fork_from(&mut self, own: &OwnGroups<'_>) -> SharedCallError {
        let theirs = match self.log.ends(u64::MAX) {
            Ok(ends) => ends.into_iter().next(),
            Err(error) => return error.into(),
        };
        let common = match self.last_common(own) {
            Ok(Some(end)) => format!("they are the same up to entry {}", end.entries),
            Ok(None) => "the shared log was set up again, and has none of the groups of this host".to_owned(),
            Err(error) => return error,
        };
        let (last, host) = theirs.map_or((0, String::new()), |last| (last.end.entries, last.host));
        SharedCallError::Diverged(format!(
            "{common}; this host ({}) ends at entry {}, and the shared log at entry {last}, by host {host}",
            self.host,
            own.end().entries
        ))
    }

    /// Tries to append a group after the groups of this host, once. The same group may have been appended before, without an answer.
    fn try_append(
        &mut self,
        own: &OwnGroups<'_>,
        group: &SharedGroup,
    ) -> Result<SharedAppend, SharedCallError> {
        if !self.is_connected {
            self.tail(own)?;
        }
        self.append_or_find(own.end(), group)
    }

    /// Appends a group after `own`, or finds it there.
    fn append_or_find(
        &mut self,
        own: GroupsEnd,
        group: &SharedGroup,
    ) -> Result<SharedAppend, SharedCallError> {
        let appended = self.call(|log| log.append(own, group))?;
        if appended != SharedAppend::Behind {
            return Ok(appended);
        }
        let next = self.call(|log| log.read(own.entries, 0))?;
        match next.first() {
            Some(next) if (next.after, next.root) == (group.after, group.root) => Ok(SharedAppend::Appended),
            Some(_) => Ok(SharedAppend::Behind),
            None => {
                // it has lost groups: the next connection compares the ends
                self.is_connected = false;
                Err(SharedLogError::Unanswered("it does not accept a group at its end".to_owned()).into())
            }
        }
    }
}

impl Journal {
    /// From now on, other hosts than `host` write the log, too. A commit is an append to the shared log, which must answer within this number
    /// of attempts. [`Journal::follow`] must be called before the store is served.
    pub fn share(&mut self, log: Box<dyn SharedLog>, host: String, attempts: u32) {
        self.shared = Some(SharedJournal {
            log,
            host,
            is_connected: false,
            attempts,
            is_waiting: false,
            yields: false,
            followed: None,
            read_bytes: READ_BYTES,
        });
    }

    /// Applies the groups of the shared log up to its end at some time since the call, and compares the groups of this host with that end.
    ///
    /// # Errors
    /// `Unavailable` if the shared log does not answer, or this host cannot write. `Diverged` if the shared log has other groups than this
    /// host, which must not be served any longer: the journal rejects all writes from then on.
    pub fn follow(&mut self) -> Result<(), StoreError> {
        self.check_failure()?;
        let Some(shared) = &mut self.shared else { return Ok(()) };
        let tail = shared.tail(&OwnGroups { tables: &self.tables, segments: &self.segments });
        let tail = tail.map_err(|error| self.shared_error(error))?;
        while self.mark.now.counts.entries < tail.entries {
            let after = self.mark.now.counts.entries;
            let Some(shared) = &mut self.shared else { return Ok(()) };
            let most = shared.read_bytes;
            let read = shared.call(|log| log.read(after, most));
            shared.read_bytes =
                if read.is_ok() { most.saturating_mul(2).clamp(1, READ_BYTES) } else { most / 2 };
            let groups = read.map_err(|error| self.shared_error(error.into()))?;
            if groups.is_empty() {
                // the shared log has lost groups, or has other ones; the next connection compares the ends
                self.shared.iter_mut().for_each(|shared| shared.is_connected = false);
                let lost = format!("it has no group after entry {after}, and had entry {}", tail.entries);
                return Err(self.shared_error(SharedLogError::Unanswered(lost).into()));
            }
            for group in &groups {
                self.renew_snapshot(1)?;
                self.apply_shared(group)?;
                // the segment may have the group, and the database not
                self.check_failure()?;
            }
        }
        let own = OwnGroups { tables: &self.tables, segments: &self.segments };
        let is_same = own.end() == tail || own.end_at(tail.entries)? == tail;
        if is_same {
            return Ok(());
        }
        // a new connection finds a fork; there is none if the shared log has lost groups since the look at its end, and others came, which this host has
        let Some(shared) = &mut self.shared else { return Ok(()) };
        shared.is_connected = false;
        let compared = shared.tail(&OwnGroups { tables: &self.tables, segments: &self.segments });
        let changed = || SharedLogError::Unanswered("it has changed while it was read".to_owned()).into();
        Err(self.shared_error(compared.err().unwrap_or_else(changed)))
    }

    /// The error of a host that has other groups than the shared log, unless the shared log does not answer.
    fn fork(&mut self) -> StoreError {
        let own = OwnGroups { tables: &self.tables, segments: &self.segments };
        let Some(shared) = &mut self.shared else { return self.diverged_error() };
        let error = shared.fork_from(&own);
        self.shared_error(error)
    }

    /// From now on, reports the changes by groups of the shared log: by [`Journal::follow`], and by commits, which follow the other hosts
    /// before they are staged again. A group of this host is among them if its answer was lost.
    pub fn report_followed(&mut self, followed: FollowedChanges) {
        if let Some(shared) = &mut self.shared {
            shared.followed = Some(followed);
        }
    }

    /// Whether other hosts write the log, too.
    #[must_use]
    pub const fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// The end of the groups of this host.
    #[must_use]
    pub fn groups_end(&self) -> GroupsEnd {
        OwnGroups { tables: &self.tables, segments: &self.segments }.end()
    }

    /// Appends a group to the shared log, if there is one.
    ///
    /// # Errors
    /// `Unavailable` if it is unknown after all attempts whether the group was appended, and the journal rejects all writes then. If it was
    /// appended, [`Journal::recover`] applies it. `Diverged` if the shared log has other groups than this host.
    pub(super) fn append_to_shared(
        &mut self,
        group: &ReadyGroup,
        prepared: &PreparedGroup,
    ) -> Result<SharedAppend, StoreError> {
        if self.shared.is_none() {
            return Ok(SharedAppend::Appended);
        }
        self.check_lost_rows()?;
        let (before, after) = (self.mark.now.counts.entries, group.counts.entries);
        let rows = prepared.rows().to_vec();
        let group = SharedGroup { before, after, root: group.hashes.tree.root(), rows };
        let mut attempt = 0;
        loop {
            let Some(shared) = &mut self.shared else { return Ok(SharedAppend::Appended) };
            attempt += 1;
            let is_last = attempt >= shared.attempts;
            let own = OwnGroups { tables: &self.tables, segments: &self.segments };
            match shared.try_append(&own, &group) {
                Ok(outcome) => {
                    shared.set_waiting(outcome == SharedAppend::Behind);
                    shared.yields = outcome == SharedAppend::AppendedBefore;
                    return Ok(outcome);
                }
                Err(SharedCallError::Unanswered(error)) if !is_last => {
                    tracing::debug!(%error, "a group is appended again");
                }
                Err(error) => {
                    let error = self.shared_error(error);
                    // the group may be in the shared log, or still come there
                    return Err(match error {
                        StoreError::Unavailable { .. } => self.fail(error, RecoveryCondition::Following),
                        error => error,
                    });
                }
            }
            pause(PAUSE_MAX_MS);
        }
    }

    /// Rejects all writes of a host that has lost rows: a commit would remove them from all hosts.
    pub(super) fn check_lost_rows(&mut self) -> Result<(), StoreError> {
        if self.shared.is_none() || !self.engine.has_lost_rows() {
            return Ok(());
        }
        let cause = "this host has lost rows, and would remove them from all hosts; let it join the cluster again from a backup";
        Err(self.fail(StoreError::Unavailable { cause: cause.to_owned() }, RecoveryCondition::Following))
    }

    /// Lets another host append that waits for it. Without this, the host that has appended last has a start before all others, and they
    /// would wait for seconds.
    pub(super) fn let_others_append(&mut self) {
        if let Some(shared) = &mut self.shared
            && mem::take(&mut shared.yields)
        {
            pause(YIELD_MAX_MS);
        }
    }

    fn shared_error(&mut self, error: SharedCallError) -> StoreError {
        match error {
            SharedCallError::Unanswered(error) => StoreError::Unavailable { cause: error.to_string() },
            SharedCallError::Diverged(fault) => self.diverge(fault),
            SharedCallError::Own(error) => {
                let cause = format!(
                    "the shared log lacks entries of this host, whose groups cannot be read: {error}. `oraclectl cluster init --reset` on the host \
                     with the most entries makes its store the whole log"
                );
                StoreError::Unavailable { cause }
            }
        }
    }

    /// Rejects all writes from now on, since the shared log is not that of this host.
    fn diverge(&mut self, fault: String) -> StoreError {
        self.failure = Some(JournalFailure { cause: fault, condition: RecoveryCondition::Never });
        self.diverged_error()
    }

    /// The error of a host whose groups are not those of the shared log.
    pub(super) fn diverged_error(&self) -> StoreError {
        let fault = self.failure().unwrap_or_default();
        StoreError::Diverged { dir: self.engine.dir().to_owned(), detail: fault.to_owned() }
    }

    /// Applies a group of the shared log, which follows the groups of this host.
    fn apply_shared(&mut self, group: &SharedGroup) -> Result<(), StoreError> {
        let Some(mut ready) = self.read_shared(group) else { return Err(self.fork()) };
        let (writes, replaced) =
            self.writes_in(&ready.rows).map_err(|error| self.fail(error, RecoveryCondition::Reopening))?;
        ready.replaced = replaced;
        self.reserve(ready.bytes)?;
        let prepared = self.segments.prepare(ready.counts.entries, &ready.rows);
        let prepared = prepared.map_err(|error| self.fail(error, RecoveryCondition::Following))?;
        self.append(ready, prepared, &writes.iter().collect::<Vec<_>>())?;
        if let Some(FollowedChanges(report)) =
            self.shared.as_ref().and_then(|shared| shared.followed.as_ref())
        {
            report(writes);
        }
        Ok(())
    }

    /// The group, if it follows the groups of this host and its Merkle tree is that of its entries.
    fn read_shared(&self, group: &SharedGroup) -> Option<ReadyGroup> {
        let mut hashes = (*self.engine.log_hashes()).clone();
        let follows = group.before == hashes.tree.size() && group.before < group.after;
        let rows = RowBatch::read(&group.rows).filter(|_| follows)?;
        let counts = meta::counts_in(&rows).filter(|counts| counts.entries == group.after)?;
        let (mut lines, mut tiles) = (Vec::new(), RowBatch::default());
        for (_, line) in lines_in(&rows).range(group.before + 1..=group.after) {
            hashes.append(leaf_of(line).ok()?.as_bytes(), &mut tiles);
            lines.extend_from_slice(line.as_bytes());
            lines.push(b'\n');
        }
        if meta::tree_in(&rows).as_ref() != Some(&hashes.tree) || hashes.tree.root() != group.root {
            return None;
        }
        let times = rows::changed(&rows, LOG).filter_map(|(name, _)| rows::get_from(&rows, LOG, name)?);
        let latest_time_us = times.map(|value| row::time_of(&value)).max().unwrap_or(i64::MIN);
        let tip = LogTip::new(latest_time_us.max(self.tip.latest_time_us));
        let bytes = (group.rows.len() + lines.len()) as u64;
        Some(ReadyGroup {
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

/// Waits for a random time of at most `max_ms`.
fn pause(max_ms: u16) {
    let random = random_bytes().map_or(0, u16::from_be_bytes);
    sleep(Duration::from_millis((random % (max_ms + 1)).into()));
}

#[cfg(test)]
mod tests;
