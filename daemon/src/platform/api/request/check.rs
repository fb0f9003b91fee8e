//! The check of a text or a verdict: its facts, rules and expectations.

use crate::platform::problem::Problem;
use crate::platform::service::{Service, act};
use oracled_actors::rules::Case;
use oracled_api::base::problem::ProblemCode;
use oracled_api::rules::EvaluateRequest;
use oracled_api::verdict::SubmitRequest;
use oracled_domain::rules::sourced::{FactSource, FactsFrom};
use oracled_domain::rules::{Check, Settings};
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;

/// Maximum length of a case's id, in characters.
const CASE_ID_MAX_CHARS: usize = 255;

/// The requested check of a text or a verdict, before sources are queried for facts.
#[derive(Debug)]
pub struct Wanted {
    /// The check, with the facts of the request.
    check: Check,
    /// The sources of further facts.
    facts_from: Option<Vec<FactsFrom>>,
}

/// A text with its requested check.
#[derive(Debug)]
pub struct WantedCase {
    id: Option<String>,
    candidate_output: String,
    wanted: Wanted,
}

/// A requested check, with the facts of the sources.
#[derive(Debug)]
pub struct Gathered<T> {
    /// The request.
    pub wanted: T,
    /// The memory that those facts take.
    pub held: HeldFacts,
}

/// A part of the memory for all bodies, until it is dropped.
#[derive(Debug, Default)]
pub struct HeldFacts(Option<OwnedSemaphorePermit>);

impl HeldFacts {
    /// Total length of the facts, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, OwnedSemaphorePermit::num_permits)
    }
}

impl Wanted {
    /// Whether sources are queried.
    #[must_use]
    pub const fn asks_sources(&self) -> bool {
        self.facts_from.is_some()
    }

    /// The check, with the facts of the sources.
    ///
    /// # Errors
    /// If any source returns no facts, or there is no memory for them.
    pub async fn gathered(self, service: &Service) -> Result<Gathered<Arc<Check>>, Problem> {
        let Self { check, facts_from } = self;
        let Some(facts_from) = facts_from else {
            return Ok(Gathered { wanted: Arc::new(check), held: HeldFacts::default() });
        };
        let fact_sources = service.system.fact_sources.clone();
        let check = act(async move { Ok(fact_sources.gathered(check, facts_from).await?) }).await?;
        let check = valid(check, &service.config.rules.settings())?;
        let sourced = check.facts_from.iter().flat_map(FactSource::facts);
        let held = service.hold_body(sourced.map(|fact| fact.text.len()).sum())?;
        Ok(Gathered { wanted: Arc::new(check), held: HeldFacts(Some(held)) })
    }
}

impl WantedCase {
    /// The case, with the facts of the sources.
    ///
    /// # Errors
    /// The same as [`Wanted::gathered`].
    pub async fn gathered(self, service: &Service) -> Result<Gathered<Case>, Problem> {
        let Self { id, candidate_output, wanted } = self;
        let Gathered { wanted: check, held } = wanted.gathered(service).await?;
        Ok(Gathered { wanted: Case { id, candidate_output, check }, held })
    }
}

impl WantedCase {
    /// The case of an evaluation request.
    ///
    /// # Errors
    /// `InvalidRequest` if the check is invalid.
    pub fn of_text(request: EvaluateRequest, settings: &Settings) -> Result<Self, Problem> {
        let EvaluateRequest {
            id,
            candidate_output,
            facts,
            facts_from,
            context,
            constraints,
            expected,
            rules,
        } = request;
        let chars = id.as_ref().map_or(0, |id| id.chars().count());
        if chars > CASE_ID_MAX_CHARS {
            let text = format!("`id` has {chars} characters; at most {CASE_ID_MAX_CHARS} are allowed");
            return Err(Problem::new(ProblemCode::InvalidRequest, text));
        }
        if facts.is_none() && facts_from.is_none() {
            let text =
                "missing field `facts`, or `facts_from`; send `facts: []` to check a text without facts";
            return Err(Problem::new(ProblemCode::InvalidRequest, text));
        }
        let (facts, constraints) = (facts.unwrap_or_default(), constraints.unwrap_or_default());
        let expected = expected.unwrap_or_default();
        let check = Check { facts, facts_from: Vec::new(), context, constraints, expected, rules };
        Ok(Self { id, candidate_output, wanted: Wanted { check: valid(check, settings)?, facts_from } })
    }
}

impl Wanted {
    /// Takes the check of a verdict out of a request; `None` if the request has no facts.
    ///
    /// # Errors
    /// `InvalidRequest` if the check is invalid, or is given without facts.
    pub fn of_verdict(request: &mut SubmitRequest, settings: &Settings) -> Result<Option<Self>, Problem> {
        let (context, constraints) = (request.context.take(), request.constraints.take());
        let (expected, rules) = (request.expected.take(), request.rules.take());
        let (facts, facts_from) = (request.facts.take(), request.facts_from.take());
        if facts.is_none() && facts_from.is_none() {
            let beside = [
                ("context", context.is_some()),
                ("constraints", constraints.is_some()),
                ("expected", expected.is_some()),
                ("rules", rules.is_some()),
            ];
            return match beside.iter().find(|(_, given)| *given) {
                Some((name, _)) => Err(Problem::new(
                    ProblemCode::InvalidRequest,
                    format!(
                        "`{name}` is given without `facts` or `facts_from`; send `facts: []` to check a verdict without facts"
                    ),
                )),
                None => Ok(None),
            };
        }
        let (facts, constraints) = (facts.unwrap_or_default(), constraints.unwrap_or_default());
        let expected = expected.unwrap_or_default();
        let check = Check { facts, facts_from: Vec::new(), context, constraints, expected, rules };
        // the check is stored with the session, and the configuration may change
        let check = valid(check, settings)?.settled(settings);
        Ok(Some(Self { check, facts_from }))
    }
}

fn valid(check: Check, settings: &Settings) -> Result<Check, Problem> {
    check.validate(settings).map_err(|error| Problem::new(ProblemCode::InvalidRequest, error.to_string()))?;
    Ok(check)
}
