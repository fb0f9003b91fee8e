//! The data that an erasure or a retention removes, and the entries of the log that have such data.

use crate::audit::log::{BY_SESSION, LogQuery};
use crate::base::engine::TableReader;
use crate::base::rows::{LOST, row_of_path, split_key, tables_in};
use domain_audit::event::{LOST_ROWS, LostRow};
use domain_audit::leaf::{CALLER, ROWS};
use domain_base::event::{EventClass, read_open};
use domain_base::row::{RowData, Table};
use domain_base::session_id::SessionId;
use jiff::Timestamp;
use oracled_domain::events::event_type;
use oracled_domain::tables;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::{BTreeMap, BTreeSet};
use store_base::error::StoreError;

/// The data that are removed from all files. Each kind has the number of the last entry concerned.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RemovalPlan {
    /// Sessions. Their rows must be removed already.
    pub sessions: BTreeMap<SessionId, u64>,
    /// Callers of all entries, and the other erasable values, except those of verifications. Versions of sessions' rows that were
    /// replaced or removed later are included.
    pub values_up_to: Option<u64>,
    /// Values of verifications and their reviews, except callers. Versions of their rows that were replaced or removed later are
    /// included.
    pub verifications_up_to: Option<u64>,
    /// The first entry of the log that stays; `None` if none is dropped.
    pub log_from: Option<u64>,
    /// The open reviews, which keep their values. The id of a review is the execution id of its decision.
    pub open_reviews: BTreeSet<String>,
}

/// The members of an entry that a plan depends on.
#[derive(Debug, Deserialize)]
pub(crate) struct EntryHead {
    pub(crate) seq: u64,
    #[serde(default, deserialize_with = "read_open")]
    pub(crate) session_id: Option<SessionId>,
    /// The sessions that a retention has removed.
    #[serde(default, deserialize_with = "read_open")]
    session_ids: Option<Vec<SessionId>>,
    event: String,
    execution_id: Option<String>,
    review_id: Option<String>,
    /// The rows that the entry set.
    #[serde(default, rename = "rows_sha256")]
    rows: BTreeMap<String, IgnoredAny>,
    #[serde(default, deserialize_with = "read_open")]
    lost_rows: Option<Vec<LostRow>>,
}

impl RemovalPlan {
    /// Whether values of all sessions are removed.
    pub(crate) const fn has_values(&self) -> bool {
        self.values_up_to.is_some() || self.verifications_up_to.is_some()
    }

    /// The last entry concerned.
    pub(crate) fn last_seq(&self) -> u64 {
        let values = [self.values_up_to, self.verifications_up_to].into_iter().flatten();
        self.sessions.values().copied().chain(values).max().unwrap_or_default()
    }

    /// Whether the data of a session that were written with entry `seq` are removed.
    pub(crate) fn has_session(&self, session_id: &SessionId, seq: u64) -> bool {
        self.sessions.get(session_id).is_some_and(|up_to| seq <= *up_to)
    }

    /// Whether a value of an entry is removed, if the log commits to it.
    pub(crate) fn removes(&self, entry: &EntryHead, member: &str) -> bool {
        let is_up_to = |last: Option<u64>| last.is_some_and(|last| entry.seq <= last);
        let of_session = entry.sessions().any(|id| self.has_session(id, entry.seq));
        let names_rows = [ROWS, LOST_ROWS].contains(&member);
        let of_row = || entry.row_sessions().any(|id| self.has_session(&id, entry.seq));
        of_session
            || names_rows && of_row()
            || if names_rows && !entry.is_personal() {
                false
            } else if member != CALLER && entry.is_of_verification() {
                is_up_to(self.verifications_up_to) && !self.is_open(entry)
            } else {
                is_up_to(self.values_up_to)
            }
    }

    fn is_open(&self, entry: &EntryHead) -> bool {
        let id = entry.execution_id.as_ref().or(entry.review_id.as_ref());
        id.is_some_and(|id| self.open_reviews.contains(id))
    }
}

impl EntryHead {
    /// The sessions that the entry is about, or that it reports as removed.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = &SessionId> {
        self.session_id.iter().chain(self.session_ids.iter().flatten())
    }

    /// The sessions that the names of the rows name.
    fn row_sessions(&self) -> impl Iterator<Item = SessionId> {
        let lost = self.lost_rows.iter().flatten().map(|lost| &lost.row);
        self.rows.keys().chain(lost).filter_map(|path| session_of_path(path))
    }

    /// Whether the entry is about a session or a verification. The digests of other rows, such as documents, are never personal.
    fn is_personal(&self) -> bool {
        let has_session = self.session_id.is_some() || self.session_ids.is_some();
        has_session || self.is_of_verification() || self.row_sessions().next().is_some()
    }

    fn is_of_verification(&self) -> bool {
        event_type(&self.event).is_some_and(|kind| kind.class == EventClass::Verification)
    }
}

/// The session whose id is in the name of a row in an entry.
pub(crate) fn session_of_path(path: &str) -> Option<SessionId> {
    row_of_path(path).and_then(|(table, name)| session_of_row(table, name))
}

/// The session whose id is in the name of a row of `table`.
pub(crate) fn session_of_row(table: &Table, name: &str) -> Option<SessionId> {
    match &table.data {
        RowData::Session { owner, .. } => owner.session_of(name, None),
        RowData::Impersonal | RowData::Verification => None,
    }
}

/// A key with the id of a session.
pub(crate) struct SessionKey {
    pub(crate) session_id: SessionId,
    /// The number of the entry that the key names, if it names one.
    pub(crate) seq: Option<u64>,
    /// Whether it is the key of an index, whose value has nothing.
    pub(crate) is_index: bool,
}

/// The session whose id is in a key.
pub(crate) fn session_in_key(key: &[u8]) -> Option<SessionKey> {
    let (table, rest) = split_key(key)?;
    if table == BY_SESSION {
        let (name, seq) = rest.split_last_chunk()?;
        let session_id = str::from_utf8(name.strip_suffix(&[0])?).ok()?.parse().ok()?;
        return Some(SessionKey { session_id, seq: Some(u64::from_be_bytes(*seq)), is_index: true });
    }
    // the number of the chunk follows
    let name = str::from_utf8(rest.get(..rest.len().checked_sub(2)?)?.strip_suffix(&[0])?).ok()?;
    let in_index = || {
        let index = tables::indexes().find(|index| index.name == table)?;
        (index.session_of)(name)
    };
    let of_index = if table == LOST { session_of_path(name) } else { in_index() };
    let is_index = of_index.is_some();
    let session_id = of_index.or_else(|| tables_in(table).find_map(|table| session_of_row(table, name)))?;
    Some(SessionKey { session_id, seq: None, is_index })
}

/// The entries that have values of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RemovableEntries {
    /// Number of entries.
    pub count: u64,
    /// The time of the first one.
    pub oldest: Option<Timestamp>,
}

impl RemovableEntries {
    fn add(&mut self, at: Timestamp) {
        self.count += 1;
        self.oldest.get_or_insert(at);
    }
}

/// The names of the committed values of an entry, and its time.
#[derive(Deserialize)]
struct SaltedEntry {
    timestamp: Timestamp,
    #[serde(default)]
    salts: BTreeMap<String, IgnoredAny>,
}

impl TableReader {
    /// The last entry before the first one at or after `before`; 0 if there is none. If it was dropped, the times of the dropped
    /// entries are unknown, and the result is 0 too.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn last_seq_before(&self, before: Timestamp) -> Result<u64, StoreError> {
        let last = self.last_seq();
        let mut next = Some(LogQuery { since: Some(before), limit: 1, ..LogQuery::default() });
        while let Some(query) = next {
            let page = self.log_page(&query)?;
            if let Some(line) = page.lines.first() {
                let is_known = line.seq > self.first_seq()?;
                return Ok(if is_known { last.min(line.seq - 1) } else { 0 });
            }
            next = page.next;
        }
        Ok(last)
    }

    /// The entries with values that `plan` removes by their number: those of verifications, and the others. An entry can count in
    /// both. Reads the log up to the last entry of the plan.
    ///
    /// # Errors
    /// An entry cannot be read. `Unavailable` if `proceed` returned false.
    pub fn removable_entries(
        &self,
        plan: &RemovalPlan,
        proceed: &dyn Fn() -> bool,
    ) -> Result<[RemovableEntries; 2], StoreError> {
        let mut found = [RemovableEntries::default(), RemovableEntries::default()];
        let last = plan.last_seq();
        let mut next = (last > 0).then(|| LogQuery { limit: usize::MAX, ..LogQuery::default() });
        while let Some(query) = next {
            if !proceed() {
                return Err(StoreError::Unavailable { cause: "the daemon is stopping".to_owned() });
            }
            let page = self.log_page(&query)?;
            next = page.next;
            for line in &page.lines {
                if line.seq > last {
                    return Ok(found);
                }
                if !line.json.contains("\"salts\":") {
                    continue;
                }
                let head: EntryHead = self.parse_entry(line)?;
                let SaltedEntry { timestamp, salts } = self.parse_entry(line)?;
                let (of_verification, others): (Vec<_>, Vec<_>) = salts
                    .keys()
                    .filter(|member| plan.removes(&head, member))
                    .partition(|member| *member != CALLER && head.is_of_verification());
                let [verifications, values] = &mut found;
                if !of_verification.is_empty() {
                    verifications.add(timestamp);
                }
                if !others.is_empty() {
                    values.add(timestamp);
                }
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(seq: u64, event: &str, execution_id: Option<&str>) -> EntryHead {
        EntryHead {
            seq,
            session_id: None,
            session_ids: None,
            event: event.to_owned(),
            execution_id: execution_id.map(str::to_owned),
            review_id: None,
            rows: BTreeMap::new(),
            lost_rows: None,
        }
    }

    #[test]
    fn plan_removes_values_by_kind_and_keeps_those_of_open_reviews() {
        let plan = RemovalPlan {
            values_up_to: Some(9),
            verifications_up_to: Some(5),
            open_reviews: ["v-1".to_owned()].into(),
            ..RemovalPlan::default()
        };
        for (seq, event, execution, member, expected) in [
            (9, "tmm_crosscheck", None, "flags", true),
            (10, "tmm_crosscheck", None, "flags", false),
            (5, "verification_decided", Some("v-2"), "inputs", true),
            (6, "verification_decided", Some("v-2"), "inputs", false),
            (6, "verification_decided", Some("v-2"), "caller", true),
            (5, "verification_decided", Some("v-1"), "inputs", false),
            (5, "review_commented", Some("v-2"), "text", true),
            (6, "review_commented", Some("v-2"), "text", false),
            (5, "verification_decided", Some("v-1"), "caller", true),
        ] {
            let is_removed = plan.removes(&entry(seq, event, execution), member);
            assert_eq!(is_removed, expected, "{seq} {event} {execution:?} {member}");
        }
    }

    #[test]
    fn plan_of_an_earlier_entry_removes_a_subset() {
        let plan_up_to = |last| RemovalPlan {
            values_up_to: Some(last),
            verifications_up_to: Some(last),
            ..RemovalPlan::default()
        };
        for (earlier, later) in (0..20).flat_map(|later| (0..=later).map(move |earlier| (earlier, later))) {
            for seq in 1..20 {
                for event in ["tmm_crosscheck", "verification_decided", "review_opened"] {
                    let head = entry(seq, event, None);
                    let removes = |last| plan_up_to(last).removes(&head, "value");
                    assert!(!removes(earlier) || removes(later), "{earlier} {later} {seq} {event}");
                }
            }
        }
    }
}
