//! Queries over a source: which records are read, and which of them match (RFC-0002, "Query Contract").

use super::view::records::{RecordRow, RecordStatementsReader};
use super::view::{FoundVersion, IndexKey, SourceView};
use bytes::Bytes;
use domain_ground::axis::Axis;
use domain_ground::query::ValidatedQuery;
use domain_ground::record::{RecordContent, RecordIdentity};
use domain_ground::timeline::{ReleaseScope, VisibleReleases};
use domain_ground::value::AxisValue;
use jiff::Timestamp;
use std::fmt;
use std::ops::Bound;
use store_base::error::StoreError;

/// The default limit of records that are read for one page of an answer.
pub const RECORDS_SCANNED_MAX: u64 = 1_000_000;
/// The most work of one query, in units of [`domain_ground::query::ValidatedFilter::work`]: about 2.5 s of
/// one processor.
pub const WORK_MAX: u64 = 16_000_000;
/// The units of work between two calls of [`ScanBudget::proceed`].
const WORK_BETWEEN_CHECKS: u64 = 4096;
/// The estimated number of scattered records to which a block of an index leads, at least.
const RECORDS_BY_INDEX_BLOCK: usize = 64;

/// How much a query may read and compute.
#[derive(Clone, Copy)]
pub struct ScanBudget<'b> {
    /// The page ends after this many records; at least one is read.
    pub records: u64,
    /// The query fails after this much work, in units of [`domain_ground::query::ValidatedFilter::work`].
    pub work: u64,
    /// Returns whether to continue. It is called every few milliseconds.
    pub proceed: &'b dyn Fn() -> bool,
}

impl ScanBudget<'static> {
    /// No limit.
    pub const UNLIMITED: Self = Self { records: u64::MAX, work: u64::MAX, proceed: &|| true };
}

/// Why a query failed.
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    /// A file cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The work exceeds the budget.
    #[error("the query takes too much work")]
    TooCostly,
    /// The latest records of one subject have more bytes than a page.
    #[error("the latest records of one subject have more bytes than a page")]
    SubjectTooLarge,
    /// [`ScanBudget::proceed`] returned false.
    #[error("the query was stopped")]
    Stopped,
}

/// A page of the answer to a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryResultPage {
    /// The matching records, in the order of their keys.
    pub found: Vec<QueryHit>,
    /// The size of the contents of the records with their keys, in bytes.
    pub bytes: usize,
    /// Number of records that were read.
    pub scanned: u64,
    /// Number of versions in force at the time that could not be checked, since their content was pruned.
    pub pruned: u64,
    /// The key of the last record that was read; `None` if no more records follow.
    pub more: Option<Vec<u8>>,
    /// The access path that was used.
    pub access: QueryAccessPath,
}

/// A record that matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryHit {
    /// The version in force, without the bytes of its content.
    pub found: FoundVersion,
    /// The content of the version.
    pub content: RecordContent,
}

/// An access path to records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueryAccessPath {
    /// The filters leave a single identity.
    Identity,
    /// The filters fix the first axes of the identity.
    IdentityPrefix,
    /// The filters leave a single value on this indexed axis.
    Index(String),
    /// All records are read.
    Scan,
}

impl fmt::Display for QueryAccessPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Identity => f.write_str("identity"),
            Self::IdentityPrefix => f.write_str("identity_prefix"),
            Self::Index(axis) => write!(f, "index:{axis}"),
            Self::Scan => f.write_str("scan"),
        }
    }
}

/// The chosen access path with its keys.
struct QueryPlan {
    access: QueryAccessPath,
    /// The prefix of the keys of all candidate records.
    prefix: Vec<u8>,
    /// The index that leads to them, if one is used.
    index: Option<IndexKey>,
}

impl SourceView {
    /// The records after the record key `after` that match `query` at `point_in_time`. Only releases up to
    /// that time count, and of them only those known at `known_at`, if it is given. A page ends at
    /// `max_results` or `page_bytes` of the query, or at `records` of the budget.
    ///
    /// The same query finds the same records in the same order, regardless of the files that hold them.
    ///
    /// # Errors
    /// A file cannot be read, or contains an invalid record; the work exceeds `budget`; `proceed` of `budget`
    /// returned false.
    pub fn query(
        &self,
        query: &ValidatedQuery,
        point_in_time: Timestamp,
        known_at: Option<Timestamp>,
        after: Option<&[u8]>,
        budget: ScanBudget<'_>,
    ) -> Result<QueryResultPage, ScanError> {
        let known = self.knowledge(ReleaseScope { known_at, released_by: Some(point_in_time) });
        let QueryPlan { access, prefix, index } = self.choose_access_path(query);
        let mut page = QueryPageBuilder::new(self, query, &known, point_in_time, budget, access);
        page.last = after.unwrap_or_default().to_vec();
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        match index {
            Some(value) => {
                let mut records = self.records_unread(&prefix, Bound::Unbounded);
                let mut entries = self.indexed(&value, &prefix, from);
                while let Some(entry) = entries.advance()? {
                    if page.is_full() {
                        return page.finish_with_more(after);
                    }
                    let key = entry.get(value.0.len()..).unwrap_or_default();
                    page.count_record(key)?;
                    records.advance_to(key)?;
                    page.check_record(&mut records)?;
                }
            }
            None => {
                let mut records = self.records(&prefix, from)?;
                while records.advance()? {
                    if page.is_full() {
                        return page.finish_with_more(after);
                    }
                    page.count_record(records.key())?;
                    page.check_record(&mut records)?;
                }
            }
        }
        if page.has_all_subjects || page.subject.as_ref().is_some_and(|subject| subject.is_too_large) {
            return page.finish_with_more(after);
        }
        Ok(page.answered)
    }

    /// Selects the access path with the fewest records to read, as estimated from the file indexes in memory. If the
    /// identity is not fixed completely, an index is used unless it leads to more blocks than the fixed part of the
    /// identity.
    fn choose_access_path(&self, query: &ValidatedQuery) -> QueryPlan {
        let prefix = query.identity.key();
        if query.identity_is_whole {
            return QueryPlan { access: QueryAccessPath::Identity, prefix, index: None };
        }
        let indexed = query.filters.iter().filter_map(|filter| {
            let (axis, value) = filter.indexed()?;
            let mut key = Vec::new();
            value.append_key(&mut key);
            let index = IndexKey::new(self.axis_position(axis)?, &key);
            Some((self.blocks(Some(&index), &prefix), axis.axis.clone(), index))
        });
        let best = indexed.min_by_key(|(blocks, ..)| *blocks);
        let is_prefix = !query.identity.values().is_empty();
        let worth_it = |blocks: usize| {
            !is_prefix || blocks.saturating_mul(RECORDS_BY_INDEX_BLOCK) < self.blocks(None, &prefix)
        };
        match best.filter(|(blocks, ..)| worth_it(*blocks)) {
            Some((_, axis, index)) => {
                QueryPlan { access: QueryAccessPath::Index(axis), prefix, index: Some(index) }
            }
            None if is_prefix => QueryPlan { access: QueryAccessPath::IdentityPrefix, prefix, index: None },
            None => QueryPlan { access: QueryAccessPath::Scan, prefix, index: None },
        }
    }

    /// The position of an axis in the ontology, which is part of index keys.
    #[must_use]
    pub fn axis_position(&self, axis: &Axis) -> Option<u16> {
        let position = self.ontology.axes.iter().position(|known| known.axis == axis.axis)?;
        u16::try_from(position).ok()
    }
}

/// A page that is being filled.
struct QueryPageBuilder<'q> {
    view: &'q SourceView,
    query: &'q ValidatedQuery,
    known: &'q VisibleReleases,
    time: Timestamp,
    budget: ScanBudget<'q>,
    /// The work so far; `checked` is its value at the last call of [`ScanBudget::proceed`].
    work: u64,
    checked: u64,
    last: Vec<u8>,
    /// The key of the record before `last`.
    previous: Vec<u8>,
    /// For [`ValidatedQuery::latest`]: the subject whose records are being read.
    subject: Option<LatestSubject>,
    /// For [`ValidatedQuery::latest`]: whether the page has enough subjects.
    has_all_subjects: bool,
    answered: QueryResultPage,
}

/// The records that differ only on the last identity axis. They follow each other in the order of this axis.
struct LatestSubject {
    /// The beginning of their keys: the other identity axes.
    prefix: Vec<u8>,
    /// The value of the last identity axis.
    last: Option<AxisValue>,
    /// The key of the record before its first one.
    before: Vec<u8>,
    /// The number of its hits, which are the last of the page, and their size.
    hits: usize,
    bytes: usize,
    /// Whether it has more hits than a page holds. The further ones are not in memory.
    is_too_large: bool,
}

impl<'q> QueryPageBuilder<'q> {
    fn new(
        view: &'q SourceView,
        query: &'q ValidatedQuery,
        known: &'q VisibleReleases,
        time: Timestamp,
        budget: ScanBudget<'q>,
        access: QueryAccessPath,
    ) -> Self {
        let answered =
            QueryResultPage { found: Vec::new(), bytes: 0, scanned: 0, pruned: 0, more: None, access };
        let (last, previous) = (Vec::new(), Vec::new());
        let (subject, has_all_subjects) = (None, false);
        let (work, checked) = (0, 0);
        Self {
            view,
            query,
            known,
            time,
            budget,
            work,
            checked,
            last,
            previous,
            subject,
            has_all_subjects,
            answered,
        }
    }

    fn is_full(&self) -> bool {
        let is_read = self.answered.scanned >= self.budget.records.max(1);
        is_read || if self.query.latest { self.has_all_subjects } else { self.has_enough_hits() }
    }

    fn has_enough_hits(&self) -> bool {
        let QueryResultPage { found, bytes, .. } = &self.answered;
        found.len() >= self.query.max_results || *bytes >= self.query.page_bytes()
    }

    /// Counts the record with this key as read.
    fn count_record(&mut self, key: &[u8]) -> Result<(), ScanError> {
        self.answered.scanned += 1;
        if self.query.latest {
            std::mem::swap(&mut self.previous, &mut self.last);
        }
        key.clone_into(&mut self.last);
        self.add_work(1)
    }

    /// Adds work to the total before it is done.
    fn add_work(&mut self, work: u64) -> Result<(), ScanError> {
        self.work = self.work.saturating_add(work);
        if self.work > self.budget.work {
            return Err(ScanError::TooCostly);
        }
        if self.work - self.checked >= WORK_BETWEEN_CHECKS {
            self.checked = self.work;
            if !(self.budget.proceed)() {
                return Err(ScanError::Stopped);
            }
        }
        Ok(())
    }

    /// Whether one of the statements passes all filters, or was pruned.
    fn is_possible_match(&mut self, rows: &[RecordRow]) -> Result<bool, ScanError> {
        for row in rows {
            self.add_work(1)?;
            let statement = row.encoded().ok_or_else(|| self.view.corrupt("a statement cannot be read"))?;
            let Some(row) = statement.row() else {
                if statement.is_pruned() {
                    return Ok(true);
                }
                continue;
            };
            let row = self.view.content_row(row)?;
            self.add_work(self.query.work(row.json_bytes()))?;
            if self.query.is_match(&row) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn check_record(&mut self, records: &mut RecordStatementsReader<'_>) -> Result<(), ScanError> {
        // checked before the statements are decoded: most records have no matching statement
        if !self.is_possible_match(records.rows())? {
            return Ok(());
        }
        let record = records.decode()?;
        self.add_work(record.statements.len() as u64)?;
        let Some(mut found) = SourceView::valid_at(record, self.known, self.time) else { return Ok(()) };
        let Some(row) = self.view.row(&found.statement)? else {
            self.answered.pruned += 1;
            return Ok(());
        };
        let bytes = found.key.len() + row.json_bytes();
        self.add_work(self.query.work(row.json_bytes()))?;
        if !self.query.is_match(&row) {
            return Ok(());
        }
        let content = self.view.decode(&row)?;
        if self.query.latest && !self.select_latest(&content, bytes) {
            return Ok(());
        }
        self.answered.bytes += bytes;
        // the content is returned separately, and the row would keep whole blocks in memory
        found.statement.row = Some(Bytes::new());
        self.answered.found.push(QueryHit { found, content });
        Ok(())
    }

    /// Removes earlier hits of the subject of this one. Returns false if the page has no place for this one.
    fn select_latest(&mut self, content: &RecordContent, bytes: usize) -> bool {
        let axes: Vec<_> = self.view.ontology.identity().collect();
        let Some((last_axis, others)) = axes.split_last() else { return true };
        let last = content.axes.get(&last_axis.axis).cloned();
        let (has_enough_hits, page_bytes) = (self.has_enough_hits(), self.query.page_bytes());
        match &mut self.subject {
            Some(subject) if self.last.starts_with(&subject.prefix) => {
                if subject.last != last {
                    self.answered.found.truncate(self.answered.found.len() - subject.hits);
                    self.answered.bytes -= subject.bytes;
                    (subject.last, subject.hits, subject.bytes) = (last, 0, 0);
                    subject.is_too_large = false;
                }
                subject.is_too_large |= subject.hits > 0 && subject.bytes + bytes > page_bytes;
                if !subject.is_too_large {
                    subject.hits += 1;
                    subject.bytes += bytes;
                }
                !subject.is_too_large
            }
            subject if has_enough_hits || subject.as_ref().is_some_and(|subject| subject.is_too_large) => {
                self.has_all_subjects = true;
                self.last.clone_from(&self.previous);
                false
            }
            _ => {
                let values = others.iter().map(|axis| content.axes.get(&axis.axis)?.typed(axis).ok());
                let prefix = RecordIdentity::new(values.flatten().collect()).key();
                let before = self.previous.clone();
                self.subject =
                    Some(LatestSubject { prefix, last, before, hits: 1, bytes, is_too_large: false });
                true
            }
        }
    }

    /// Ends the page, which began after the key `after`: more records may follow.
    ///
    /// # Errors
    /// `TooCostly` if the records of one subject are more than a page may read, `SubjectTooLarge` if they are more than it holds.
    fn finish_with_more(mut self, after: Option<&[u8]>) -> Result<QueryResultPage, ScanError> {
        // later records of the subject were not read, or its hits are not all here
        let is_incomplete = |subject: &LatestSubject| {
            subject.is_too_large || !self.has_all_subjects && self.last.starts_with(&subject.prefix)
        };
        if let Some(subject) = self.subject.take_if(|subject| is_incomplete(subject)) {
            self.answered.found.truncate(self.answered.found.len() - subject.hits);
            self.answered.bytes -= subject.bytes;
            if subject.before == after.unwrap_or_default() {
                let is_too_large = subject.is_too_large;
                return Err(if is_too_large { ScanError::SubjectTooLarge } else { ScanError::TooCostly });
            }
            self.last = subject.before;
        }
        self.answered.more = Some(self.last);
        Ok(self.answered)
    }
}

#[cfg(test)]
mod tests;
