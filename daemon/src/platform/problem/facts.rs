//! Maps errors of fact collection to problem documents.

use super::ground::{MS_A_SECOND, of_query};
use super::verification::of_verification;
use super::{GroundProblem, Problem};
use oracled_actors::rules::fact_sources::{FactsCause, FactsError};
use oracled_domain::rules::sourced::NoFacts;

impl From<FactsError> for Problem {
    fn from(error: FactsError) -> Self {
        let told = error.to_string();
        let cause = match error {
            FactsError::Entry { cause, .. } => cause,
            FactsError::Entries(_) | FactsError::Together(_) => return Self::InvalidRequest(told),
            FactsError::Inside(_) => return Self::Internal(told),
        };
        match cause {
            FactsCause::Query(error) => of_query(error, told),
            FactsCause::None(NoFacts::NotAuthoritative { retry_after_ms, .. }) => {
                let retry_after_s = retry_after_ms.map(|wait_ms| wait_ms.div_ceil(MS_A_SECOND));
                GroundProblem::FactsUnavailable { told, retry_after_s }.into()
            }
            FactsCause::None(NoFacts::Untold(_) | NoFacts::Nothing { .. }) => {
                GroundProblem::FactsUnavailable { told, retry_after_s: None }.into()
            }
            FactsCause::Verify(error) => of_verification(error, told),
            FactsCause::None(NoFacts::NoProvenance(_))
            | FactsCause::NoOntology(_)
            | FactsCause::Inside(_) => Self::Internal(told),
            FactsCause::None(_) => Self::InvalidRequest(told),
            FactsCause::Store(error) => error.into(),
        }
    }
}
