//! The errors of Oracle-A.

use crate::platform::problem::{Problem, ProblemCode, by_value};
use actors_rules::fact_sources::{FactCollectionError, FactEntryError};
use actors_rules::{EvaluationError, FindWordlistError};
use domain_base::problem::{INTERNAL_ERROR, INVALID_REQUEST};
use domain_rules::problem::{FACTS_UNAVAILABLE, WORDLIST_UNKNOWN};
use domain_rules::sourced::NoFactsError;
use std::time::Duration;

/// The errors of word lists and of facts from sources, in addition to those of a query and a verification.
pub(crate) const CHECK: &[ProblemCode] = &[FACTS_UNAVAILABLE, WORDLIST_UNKNOWN];

impl From<&EvaluationError> for Problem {
    fn from(error: &EvaluationError) -> Self {
        match error {
            EvaluationError::Evaluating(_) => Self::new(INTERNAL_ERROR, error.to_string()),
            EvaluationError::Commit(error) => error.into(),
        }
    }
}

by_value!(EvaluationError);

impl From<FindWordlistError> for Problem {
    fn from(error: FindWordlistError) -> Self {
        match error {
            FindWordlistError::Unknown(_) => Self::new(WORDLIST_UNKNOWN, error.to_string()),
            FindWordlistError::Store(error) => error.into(),
        }
    }
}

impl From<FactCollectionError> for Problem {
    fn from(error: FactCollectionError) -> Self {
        let detail = error.to_string();
        let cause = match error {
            FactCollectionError::Entry { cause, .. } => cause,
            FactCollectionError::Entries(_) | FactCollectionError::Together(_) => {
                return Self::new(INVALID_REQUEST, detail);
            }
            FactCollectionError::Inside(_) => return Self::new(INTERNAL_ERROR, detail),
        };
        let code = match cause {
            FactEntryError::Query(error) => return Self::from_query_error(error, detail),
            FactEntryError::None(NoFactsError::NotAuthoritative { retry_after_ms, .. }) => {
                return Self::new(FACTS_UNAVAILABLE, detail)
                    .retry_after(retry_after_ms.map(Duration::from_millis));
            }
            FactEntryError::None(NoFactsError::Omitted(_) | NoFactsError::Nothing { .. }) => {
                FACTS_UNAVAILABLE
            }
            FactEntryError::Verify(error) => return Self::from_verify_error(error, detail),
            FactEntryError::None(NoFactsError::NoProvenance(_))
            | FactEntryError::NoOntology(_)
            | FactEntryError::Inside(_) => INTERNAL_ERROR,
            FactEntryError::None(_) => INVALID_REQUEST,
            FactEntryError::Store(error) => return error.into(),
        };
        Self::new(code, detail)
    }
}
