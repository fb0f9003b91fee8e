//! The rows of verification: reviews, what people decide of a thing, what is kept of answers, and decisions that are
//! still to be taken. (RFC-0002, Part II)

use crate::audit::log::{LogLine, LogQuery};
use crate::base::engine::Tables;
use crate::base::error::StoreError;
use crate::base::rows::{Table, key};
use jiff::Timestamp;
use oracled_domain::audit::event::verification::VerificationEntry;
use oracled_domain::ground::id::WorkflowId;
use oracled_domain::verification::review::ReviewState;
use oracled_domain::verification::{Inputs, KeptAnswer, KeptKey, Subject, SubjectKey};

/// What stands between the parts of a name that has two; neither has one in it.
const SEPARATOR: char = '/';
/// The prefix of index names of open reviews that callers can open at will. No workflow id begins with it.
const CALLER_OPENABLE: char = '!';

/// Which reviews to read.
#[derive(Debug, Clone, Default)]
pub struct ReviewQuery {
    /// Only those that nobody has resolved or dismissed yet.
    pub open_only: bool,
    /// Only those whose ids come before this one.
    pub before: Option<String>,
    /// The most reviews to give.
    pub limit: usize,
}

/// Some of the answers that are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptPage {
    /// They, with their revisions.
    pub kept: Vec<(KeptKey, KeptAnswer, u64)>,
    /// Behind which one to go on; nothing where all have been looked at.
    pub next: Option<KeptKey>,
}

impl Tables {
    /// Since when the first of the questions waits that wait for a person; nothing where none does.
    ///
    /// # Errors
    /// Where that cannot be read.
    pub fn oldest_open_review_at(&self) -> Result<Option<Timestamp>, StoreError> {
        let names = self.names_behind(Table::OpenReviews, None, 1)?;
        let first = names.first().map(|name| self.review(name)).transpose()?.flatten();
        Ok(first.map(|(state, _)| state.review.opened_at))
    }

    /// The number of open reviews of a workflow.
    ///
    /// # Errors
    /// Where they cannot be read.
    pub fn open_reviews_of(&self, workflow_id: &WorkflowId) -> Result<u64, StoreError> {
        let keys = |end: &[u8]| key(Table::OpenByWorkflow, &[workflow_id.as_str().as_bytes(), end]);
        // the byte after the separator is the end of the range with this prefix
        let of_workflow = keys(&[SEPARATOR as u8])..keys(&[SEPARATOR as u8 + 1]);
        Ok(self.names(Table::OpenByWorkflow, of_workflow, .., usize::MAX)?.len() as u64)
    }

    /// The number of open reviews that callers can open at will (`Review::is_caller_openable`), for one workflow or for all.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn caller_openable_reviews(&self, workflow_id: Option<&WorkflowId>) -> Result<u64, StoreError> {
        let begin = workflow_id
            .map_or_else(|| CALLER_OPENABLE.to_string(), |workflow_id| caller_openable_name(workflow_id, ""));
        let keys = |end: &[u8]| key(Table::OpenByWorkflow, &[begin.as_bytes(), end]);
        // this byte is above every byte of a name
        Ok(self.names(Table::OpenByWorkflow, keys(&[])..keys(&[u8::MAX]), .., usize::MAX)?.len() as u64)
    }

    /// A review, with its revision.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn review(&self, review_id: &str) -> Result<Option<(ReviewState, u64)>, StoreError> {
        self.read_row(Table::Reviews, review_id)
    }

    /// The reviews that `query` asks for, the one with the last id first: ids follow each other in time.
    ///
    /// # Errors
    /// Where one cannot be read.
    pub fn reviews(&self, query: &ReviewQuery) -> Result<Vec<ReviewState>, StoreError> {
        let table = if query.open_only { Table::OpenReviews } else { Table::Reviews };
        let (mut found, mut before) = (Vec::new(), query.before.clone());
        // one that is being opened or closed now is passed over, and another one found in its place
        while found.len() < query.limit {
            let names = self.names_before(table, before.as_deref(), query.limit - found.len())?;
            let Some(last) = names.last() else { break };
            before = Some(last.clone());
            for name in names {
                let state = self.review(&name)?.map(|(state, _)| state);
                found.extend(state.filter(|state| !query.open_only || state.is_open()));
            }
        }
        Ok(found)
    }

    /// What people are to decide of a thing and have decided, with the revision; nothing where that is nothing.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn subject(&self, key: &SubjectKey) -> Result<Option<(Subject, u64)>, StoreError> {
        self.read_row(Table::Subjects, &subject_name(key))
    }

    /// What is kept of a live source's answers about a thing, with the revision.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn kept(&self, key: &KeptKey) -> Result<Option<(KeptAnswer, u64)>, StoreError> {
        self.read_row(Table::Kept, &kept_name(key))
    }

    /// The next `limit` answers that are kept, behind `after`.
    ///
    /// # Errors
    /// Where one cannot be read.
    pub fn kept_page(&self, after: Option<&KeptKey>, limit: usize) -> Result<KeptPage, StoreError> {
        let names = self.names_behind(Table::Kept, after.map(kept_name).as_deref(), limit)?;
        let next = names.last().filter(|_| names.len() == limit).map(|name| self.kept_key(name));
        let mut kept = Vec::new();
        for name in &names {
            if let Some((answer, revision)) = self.read_row(Table::Kept, name)? {
                kept.push((self.kept_key(name)?, answer, revision));
            }
        }
        Ok(KeptPage { kept, next: next.transpose()? })
    }

    /// What the decisions that are still to be taken will be taken over, in the order of their execution ids.
    ///
    /// # Errors
    /// Where one cannot be read.
    pub fn pending(&self) -> Result<Vec<Inputs>, StoreError> {
        self.read_all(Table::Pending)
    }

    /// The decisions that were taken under `execution_id`, the first one first: two of a workflow that lets nobody wait, one of
    /// any other.
    ///
    /// # Errors
    /// Where one cannot be read.
    pub fn decisions(&self, execution_id: &str) -> Result<Vec<VerificationEntry>, StoreError> {
        let query = LogQuery {
            execution: Some(execution_id.to_owned()),
            event: Some("verification_decided".to_owned()),
            limit: usize::MAX,
            ..LogQuery::default()
        };
        let read = |line: LogLine| {
            serde_json::from_str(&line.json).map_err(|error| StoreError::Corrupt {
                dir: self.dir().to_owned(),
                detail: format!("entry {}: {error}", line.seq),
            })
        };
        self.log(&query)?.into_iter().map(read).collect()
    }

    /// The key that a kept answer's row is named by.
    fn kept_key(&self, name: &str) -> Result<KeptKey, StoreError> {
        let key = name.split_once(SEPARATOR).and_then(|(oracle_id, about)| {
            Some(KeptKey { oracle_id: oracle_id.parse().ok()?, about: about.parse().ok()? })
        });
        key.ok_or_else(|| StoreError::Corrupt {
            dir: self.dir().to_owned(),
            detail: format!("`{name}` names no kept answer"),
        })
    }
}

/// The name of an open review's row among those of its workflow.
pub(crate) fn open_name(workflow_id: &WorkflowId, review_id: &str) -> String {
    format!("{workflow_id}{SEPARATOR}{review_id}")
}

/// The name of a row that counts an open review among those that callers can open at will.
pub(crate) fn caller_openable_name(workflow_id: &WorkflowId, review_id: &str) -> String {
    format!("{CALLER_OPENABLE}{}", open_name(workflow_id, review_id))
}

/// The name of a subject's row.
pub(crate) fn subject_name(key: &SubjectKey) -> String {
    format!("{}{SEPARATOR}{}", key.workflow_id, key.about)
}

/// The name of a kept answer's row.
pub(crate) fn kept_name(key: &KeptKey) -> String {
    format!("{}{SEPARATOR}{}", key.oracle_id, key.about)
}

#[cfg(test)]
mod tests;
