//! The errors of Oracle-A.

use crate::platform::problem::{Problem, ProblemCode, by_value};
use actors_rules::EvaluationError;
use actors_rules::fact_sources::{FactCollectionError, FactEntryError};
use domain_rules::sourced::NoFactsError;
use std::time::Duration;

impl From<&EvaluationError> for Problem {
    fn from(error: &EvaluationError) -> Self {
        match error {
            EvaluationError::Evaluating(_) => Self::new(ProblemCode::InternalError, error.to_string()),
            EvaluationError::Commit(error) => error.into(),
        }
    }
}

by_value!(EvaluationError);

impl From<FactCollectionError> for Problem {
    fn from(error: FactCollectionError) -> Self {
        let detail = error.to_string();
        let cause = match error {
            FactCollectionError::Entry { cause, .. } => cause,
            FactCollectionError::Entries(_) | FactCollectionError::Together(_) => {
                return Self::new(ProblemCode::InvalidRequest, detail);
            }
            FactCollectionError::Inside(_) => return Self::new(ProblemCode::InternalError, detail),
        };
        let code = match cause {
            FactEntryError::Query(error) => return Self::from_query_error(error, detail),
            FactEntryError::None(NoFactsError::NotAuthoritative { retry_after_ms, .. }) => {
                return Self::new(ProblemCode::FactsUnavailable, detail)
                    .retry_after(retry_after_ms.map(Duration::from_millis));
            }
            FactEntryError::None(NoFactsError::Omitted(_) | NoFactsError::Nothing { .. }) => {
                ProblemCode::FactsUnavailable
            }
            FactEntryError::Verify(error) => return Self::from_verify_error(error, detail),
            FactEntryError::None(NoFactsError::NoProvenance(_))
            | FactEntryError::NoOntology(_)
            | FactEntryError::Inside(_) => ProblemCode::InternalError,
            FactEntryError::None(_) => ProblemCode::InvalidRequest,
            FactEntryError::Store(error) => return error.into(),
        };
        Self::new(code, detail)
    }
}
