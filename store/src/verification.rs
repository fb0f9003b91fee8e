//! The rows of verification: reviews, subjects, cached answers and pending decisions (RFC-0002, Part II).

use crate::ground::Store;
use domain_base::row::Row;
use domain_base::wording::ParseTextError;
use domain_ground::id::WorkflowId;
use domain_verification::replay::LoggedExecution;
use domain_verification::review::{
    OPEN_BY_WORKFLOW, OPEN_REVIEWS, ReviewState, caller_openable_prefix, open_prefix,
};
use domain_verification::{CachedAnswer, CachedAnswerKey, DecisionInputs, SubjectKey, SubjectState};
use jiff::Timestamp;
use std::collections::BTreeSet;
use store_base::error::StoreError;
use store_log::rows::with_prefix;
use store_log::{LogQuery, damaged_line, skip_lost};

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

impl Store {
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
        let names = self.names_after(OPEN_REVIEWS.name, None, 1)?;
        let first = names.first().map(|name| skip_lost(self.review(name))).transpose()?.flatten();
        Ok(first.map(|(state, _)| state.review.opened_at))
    }

    /// The oldest open reviews, at most `limit`, the oldest first.
    ///
    /// # Errors
    /// A review cannot be read.
    pub fn oldest_open_reviews(&self, limit: usize) -> Result<Vec<ReviewState>, StoreError> {
        let mut found = Vec::new();
        for name in self.names_after(OPEN_REVIEWS.name, None, limit)? {
            let state = skip_lost(self.review(&name))?.map(|(state, _)| state);
            found.extend(state.filter(ReviewState::is_open));
        }
        Ok(found)
    }

    /// The number of open reviews of a workflow.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn open_reviews_of(&self, workflow_id: &WorkflowId) -> Result<u64, StoreError> {
        let keys = with_prefix(OPEN_BY_WORKFLOW.name, &open_prefix(workflow_id));
        Ok(self.names(keys, .., usize::MAX)?.len() as u64)
    }

    /// The number of open reviews that callers can open at will (`ReviewCase::is_caller_openable`), for one
    /// workflow or for all.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn caller_openable_reviews(&self, workflow_id: Option<&WorkflowId>) -> Result<u64, StoreError> {
        let keys = with_prefix(OPEN_BY_WORKFLOW.name, &caller_openable_prefix(workflow_id));
        Ok(self.names(keys, .., usize::MAX)?.len() as u64)
    }

    /// A review, with its revision.
    ///
    /// # Errors
    /// The review cannot be read.
    pub fn review(&self, review_id: &str) -> Result<Option<(ReviewState, u64)>, StoreError> {
        self.named(review_id)
    }

    /// The reviews that match `query`, the highest id first. Ids are in the order of time.
    ///
    /// # Errors
    /// A review cannot be read.
    pub fn reviews(&self, query: &ReviewQuery) -> Result<Vec<ReviewState>, StoreError> {
        let table = if query.open_only { OPEN_REVIEWS.name } else { ReviewState::TABLE.name };
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
        self.get(key)
    }

    /// The cached answer of a live source about a subject, with its revision.
    ///
    /// # Errors
    /// The row cannot be read.
    pub fn cached_answer(&self, key: &CachedAnswerKey) -> Result<Option<(CachedAnswer, u64)>, StoreError> {
        self.get(key)
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
        let names = self.names_after(
            CachedAnswer::TABLE.name,
            after.map(CachedAnswerKey::to_string).as_deref(),
            limit,
        )?;
        let next =
            names.last().filter(|_| names.len() == limit).map(|name| self.parse_cached_answer_name(name));
        let mut answers = Vec::new();
        for name in &names {
            if let Some((answer, revision)) = skip_lost(self.named(name))? {
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
        self.all()
    }

    /// The decisions with the id `execution_id`: two if the workflow answers before its sources do, otherwise one.
    ///
    /// # Errors
    /// An entry cannot be read.
    pub fn decisions(&self, execution_id: &str) -> Result<LoggedExecution, StoreError> {
        let query = LogQuery {
            execution: Some(execution_id.to_owned()),
            events: vec!["verification_decided".to_owned()],
            limit: usize::MAX,
            ..LogQuery::default()
        };
        let lines = self.log(&query)?;
        let lines = lines.iter().map(|line| &*line.json);
        LoggedExecution::read(lines).map_err(|error| damaged_line(self.dir(), &error))
    }

    /// Parses the name of a cached answer's row.
    fn parse_cached_answer_name(&self, name: &str) -> Result<CachedAnswerKey, StoreError> {
        name.parse().map_err(|error: ParseTextError| StoreError::Corrupt {
            dir: self.dir().to_owned(),
            detail: error.to_string(),
        })
    }
}

#[cfg(test)]
mod tests;
