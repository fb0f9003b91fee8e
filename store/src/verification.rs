//! The rows of verification: reviews, subjects, cached answers and pending decisions (RFC-0002, Part II).

use crate::audit::log::{LogQuery, damaged_line};
use crate::base::engine::TableReader;
use crate::base::error::StoreError;
use crate::base::read::skip_lost;
use crate::base::rows::{TableId, key};
use jiff::Timestamp;
use oracled_domain::audit::logged_verification::LoggedVerification;
use oracled_domain::ground::id::WorkflowId;
use oracled_domain::verification::review::ReviewState;
use oracled_domain::verification::{CachedAnswer, CachedAnswerKey, DecisionInputs, SubjectKey, SubjectState};
use std::collections::BTreeSet;

/// Separates the two parts of a name. Neither part contains this character.
const SEPARATOR: char = '/';
/// The prefix of index names of open reviews that callers can open at will. No workflow id begins with it.
const CALLER_OPENABLE: char = '!';

/// Selects the reviews to read.
#[derive(Debug, Clone, Default)]
pub struct ReviewQuery {
    /// Only reviews that are neither resolved nor dismissed.
    pub open_only: bool,
    /// Only reviews whose ids are before this one.
    pub before: Option<String>,
    /// The highest number of reviews to return.
    pub limit: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedAnswerPage {
    /// The answers, each with its key and revision.
    pub answers: Vec<(CachedAnswerKey, CachedAnswer, u64)>,
    /// The key after which the next page begins; `None` on the last page.
    pub next: Option<CachedAnswerKey>,
}

impl TableReader {
    /// The ids of the open reviews.
    ///
    /// # Errors
    /// The reviews cannot be read.
    pub fn open_review_ids(&self) -> Result<BTreeSet<String>, StoreError> {
        let query = ReviewQuery { open_only: true, limit: usize::MAX, ..ReviewQuery::default() };
        Ok(self.reviews(&query)?.into_iter().map(|state| state.review.review_id).collect())
    }

    /// The time since which the oldest open review is open; `None` if no review is open.
    ///
    /// # Errors
    /// The reviews cannot be read.
    pub fn oldest_open_review_at(&self) -> Result<Option<Timestamp>, StoreError> {
        let names = self.names_after(TableId::OpenReviews, None, 1)?;
        let first = names.first().map(|name| skip_lost(self.review(name))).transpose()?.flatten();
        Ok(first.map(|(state, _)| state.review.opened_at))
    }

    /// The number of open reviews of a workflow.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn open_reviews_of(&self, workflow_id: &WorkflowId) -> Result<u64, StoreError> {
        let keys = |end: &[u8]| key(TableId::OpenByWorkflow, &[workflow_id.as_str().as_bytes(), end]);
        // the byte after the separator is the end of the range with this prefix
        let of_workflow = keys(&[SEPARATOR as u8])..keys(&[SEPARATOR as u8 + 1]);
        Ok(self.names(TableId::OpenByWorkflow, of_workflow, .., usize::MAX)?.len() as u64)
    }

    /// The number of open reviews that callers can open at will (`ReviewCase::is_caller_openable`), for one
    /// workflow or for all.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn caller_openable_reviews(&self, workflow_id: Option<&WorkflowId>) -> Result<u64, StoreError> {
        let begin = workflow_id
            .map_or_else(|| CALLER_OPENABLE.to_string(), |workflow_id| caller_openable_name(workflow_id, ""));
        let keys = |end: &[u8]| key(TableId::OpenByWorkflow, &[begin.as_bytes(), end]);
        // this byte is above every byte of a name
        Ok(self.names(TableId::OpenByWorkflow, keys(&[])..keys(&[u8::MAX]), .., usize::MAX)?.len() as u64)
    }

    /// A review, with its revision.
    ///
    /// # Errors
    /// The review cannot be read.
    pub fn review(&self, review_id: &str) -> Result<Option<(ReviewState, u64)>, StoreError> {
        self.read_row(TableId::Reviews, review_id)
    }

    /// The reviews that match `query`, the highest id first. Ids are in the order of time.
    ///
    /// # Errors
    /// A review cannot be read.
    pub fn reviews(&self, query: &ReviewQuery) -> Result<Vec<ReviewState>, StoreError> {
        let table = if query.open_only { TableId::OpenReviews } else { TableId::Reviews };
        let (mut found, mut before) = (Vec::new(), query.before.clone());
        // a review that is opened or closed meanwhile is skipped, and another one is read instead
        while found.len() < query.limit {
            let names = self.names_before(table, before.as_deref(), query.limit - found.len())?;
            let Some(last) = names.last() else { break };
            before = Some(last.clone());
            for name in names {
                let state = skip_lost(self.review(&name))?.map(|(state, _)| state);
                found.extend(state.filter(|state| !query.open_only || state.is_open()));
            }
        }
        Ok(found)
    }

    /// The subject with this key, with its revision; `None` if it has no open reviews, locks or baselines.
    ///
    /// # Errors
    /// The row cannot be read.
    pub fn subject(&self, key: &SubjectKey) -> Result<Option<(SubjectState, u64)>, StoreError> {
        self.read_row(TableId::Subjects, &subject_name(key))
    }

    /// The cached answer of a live source about a subject, with its revision.
    ///
    /// # Errors
    /// The row cannot be read.
    pub fn cached_answer(&self, key: &CachedAnswerKey) -> Result<Option<(CachedAnswer, u64)>, StoreError> {
        self.read_row(TableId::Kept, &cached_answer_name(key))
    }

    /// The next `limit` cached answers after `after`.
    ///
    /// # Errors
    /// A row cannot be read.
    pub fn cached_answer_page(
        &self,
        after: Option<&CachedAnswerKey>,
        limit: usize,
    ) -> Result<CachedAnswerPage, StoreError> {
        let names = self.names_after(TableId::Kept, after.map(cached_answer_name).as_deref(), limit)?;
        let next =
            names.last().filter(|_| names.len() == limit).map(|name| self.parse_cached_answer_name(name));
        let mut answers = Vec::new();
        for name in &names {
            if let Some((answer, revision)) = skip_lost(self.read_row(TableId::Kept, name))? {
                answers.push((self.parse_cached_answer_name(name)?, answer, revision));
            }
        }
        Ok(CachedAnswerPage { answers, next: next.transpose()? })
    }

    /// The inputs of the pending decisions, in the order of their execution ids.
    ///
    /// # Errors
    /// A row cannot be read.
    pub fn pending_decisions(&self) -> Result<Vec<DecisionInputs>, StoreError> {
        self.read_all(TableId::Pending)
    }

    /// The decisions with the id `execution_id`, in their order: two if the workflow answers before its sources do,
    /// otherwise one. Decisions whose values were removed are left out.
    ///
    /// # Errors
    /// An entry cannot be read.
    pub fn decisions(&self, execution_id: &str) -> Result<Vec<LoggedVerification>, StoreError> {
        let query = LogQuery {
            execution: Some(execution_id.to_owned()),
            event: Some("verification_decided".to_owned()),
            limit: usize::MAX,
            ..LogQuery::default()
        };
        let lines = self.log(&query)?;
        let read = lines.iter().map(|line| LoggedVerification::read(&line.json));
        read.collect::<Result<_, _>>().map_err(|error| damaged_line(self.dir(), &error))
    }

    /// Parses the name of a cached answer's row.
    fn parse_cached_answer_name(&self, name: &str) -> Result<CachedAnswerKey, StoreError> {
        let key = name.split_once(SEPARATOR).and_then(|(oracle_id, about)| {
            Some(CachedAnswerKey { oracle_id: oracle_id.parse().ok()?, about: about.parse().ok()? })
        });
        key.ok_or_else(|| StoreError::Corrupt {
            dir: self.dir().to_owned(),
            detail: format!("`{name}` is not the key of a cached answer"),
        })
    }
}

/// The names of an open review in the indexes by workflow.
pub(crate) fn open_names(state: &ReviewState) -> impl Iterator<Item = String> + use<> {
    let review = &state.review;
    let by_caller = || caller_openable_name(&review.workflow_id, &review.review_id);
    let by_caller = review.is_caller_openable().then(by_caller);
    by_caller.into_iter().chain([open_name(&review.workflow_id, &review.review_id)])
}

/// The name of an open review in the index by workflow.
fn open_name(workflow_id: &WorkflowId, review_id: &str) -> String {
    format!("{workflow_id}{SEPARATOR}{review_id}")
}

/// The name of an open review in the index of reviews that callers can open at will.
fn caller_openable_name(workflow_id: &WorkflowId, review_id: &str) -> String {
    format!("{CALLER_OPENABLE}{}", open_name(workflow_id, review_id))
}

/// The name of a subject's row.
pub(crate) fn subject_name(key: &SubjectKey) -> String {
    format!("{}{SEPARATOR}{}", key.workflow_id, key.about)
}

/// The name of a cached answer's row.
pub(crate) fn cached_answer_name(key: &CachedAnswerKey) -> String {
    format!("{}{SEPARATOR}{}", key.oracle_id, key.about)
}

#[cfg(test)]
mod tests;
