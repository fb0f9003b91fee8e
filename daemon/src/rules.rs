//! Oracle-A: the configuration, the errors, the check of a text or a verdict with its facts, rules and expectations,
//! and the handlers on the routes' socket.

use crate::ground::QUERY;
use crate::platform::api::batch::{BatchPart, BatchSender, to_line};
use crate::platform::api::body::{ReservedBody, json_response};
use crate::platform::api::request::{BatchLine, BatchLineReader, JsonBody};
use crate::platform::api::{batch, body, request};
use crate::platform::config::{ConfigError, Configuration, Section, not_allowed_error, without_files};
use crate::platform::openapi::{CommonProblems, JSON_BODY, STORE, problems};
use crate::platform::problem::{Problem, ProblemCode, by_value};
use crate::platform::routes::{Routes, routes};
use crate::platform::service::{DaemonService, run_to_end};
use crate::verification::VERIFY;
use actors_rules::fact_sources::{FactCollectionError, FactEntryError};
use actors_rules::{EvaluationCase, EvaluationError, FindWordlistError, RuleService, RulesConfig};
use axum::Json;
use axum::extract::{Request, State};
use axum::response::Response;
use domain_base::problem::{INTERNAL_ERROR, INVALID_REQUEST, UNSUPPORTED_MEDIA_TYPE};
use domain_ground::version_name::WordlistName;
use domain_rules::problem::{FACTS_UNAVAILABLE, WORDLIST_UNKNOWN};
use domain_rules::sourced::{FactSource, FactsFrom, NoFactsError};
use domain_rules::wire::{BatchAnswer, EvaluateTextRequest, RegisteredRule, RulesResponse};
use domain_rules::{CandidateCheck, RuleId, RuleIds, RuleSettings, RulesEvaluation, TextLanguage};
use hyper::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use strum::VariantArray;
use tokio::sync::OwnedSemaphorePermit;
use utoipa::ToSchema;

/// The rules for text, and their limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RulesSection {
    /// The rules that apply if a request names no rules, in this order; in a variable separated by
    /// commas. The default is the seven published rules.
    #[schema(value_type = Vec<String>)]
    pub profile: RuleIds,
    /// Maximum number of unsupported claims, if a request sets no number or sets `CONFIG:UNSUPPORTED_MAX`.
    #[schema(minimum = 0, maximum = 1_000_000)]
    pub unsupported_max: u64,
    /// Memory for compiled fact sets.
    #[schema(minimum = 1_048_576, maximum = 1_099_511_627_776u64)]
    pub compiled_bytes: u64,
}

impl Default for RulesSection {
    fn default() -> Self {
        let RuleSettings { unsupported_max, profile } = RuleSettings::default();
        Self { profile: RuleIds(profile), unsupported_max, compiled_bytes: 64 * 1024 * 1024 }
    }
}

impl Section for RulesSection {
    fn key(&self) -> &'static str {
        "rules"
    }

    fn decisions(&self) -> Option<Value> {
        without_files(self)
    }

    fn check(&self, _: &dyn Configuration) -> Vec<ConfigError> {
        let RuleIds(profile) = &self.profile;
        let (given, allowed) = match RuleId::first_repeated(profile) {
            Some(rule) => (format!("`{rule}` twice"), "each rule once"),
            None if profile.is_empty() => ("empty".to_owned(), "at least one rule"),
            None => return Vec::new(),
        };
        vec![not_allowed_error("rules.profile", given, allowed)]
    }
}

impl RulesSection {
    /// The configuration of the rules service.
    #[must_use]
    pub fn to_config(&self) -> RulesConfig {
        let Self { profile: RuleIds(profile), unsupported_max, compiled_bytes } = self.clone();
        RulesConfig { settings: RuleSettings { unsupported_max, profile }, compiled_bytes }
    }
}

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

/// Maximum length of a case's id, in characters.
const CASE_ID_MAX_CHARS: usize = 255;

/// The requested check of a text or a verdict, before sources are queried for facts.
#[derive(Debug)]
pub struct RequestedCheck {
    /// The check, with the facts of the request.
    check: CandidateCheck,
    /// The sources of further facts.
    facts_from: Option<Vec<FactsFrom>>,
}

/// A text with its requested check.
#[derive(Debug)]
struct RequestedCase {
    id: Option<String>,
    candidate_output: String,
    check: RequestedCheck,
}

/// A requested check, with the facts of the sources.
#[derive(Debug)]
pub struct SourcedCheck<T> {
    /// The request.
    pub request: T,
    /// The memory that those facts take.
    pub held: FactsReservation,
}

/// A part of the memory for all bodies, until it is dropped.
#[derive(Debug, Default)]
pub struct FactsReservation(Option<OwnedSemaphorePermit>);

impl FactsReservation {
    /// Total length of the facts, in bytes.
    #[must_use]
    pub fn length_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, OwnedSemaphorePermit::num_permits)
    }
}

impl RequestedCheck {
    /// Whether sources are queried.
    #[must_use]
    pub const fn has_sources(&self) -> bool {
        self.facts_from.is_some()
    }

    /// The check without the facts of the sources.
    #[must_use]
    pub const fn without_sources(&self) -> &CandidateCheck {
        &self.check
    }

    /// The check, with the facts of the sources.
    ///
    /// # Errors
    /// If any source returns no facts, or there is no memory for them.
    pub async fn gather_facts(
        self,
        service: &DaemonService,
    ) -> Result<SourcedCheck<Arc<CandidateCheck>>, Problem> {
        let Self { check, facts_from } = self;
        let Some(facts_from) = facts_from else {
            return Ok(SourcedCheck { request: Arc::new(check), held: FactsReservation::default() });
        };
        let fact_sources = service.system.fact_sources.clone();
        let check =
            run_to_end(async move { Ok(fact_sources.collect_facts(check, facts_from).await?) }).await?;
        // the request was validated before its configured values were added
        check.validate_facts().map_err(|error| Problem::new(INVALID_REQUEST, error.to_string()))?;
        let sourced = check.facts_from.iter().flat_map(FactSource::facts);
        let held = service.reserve_body(sourced.map(|fact| fact.text.len()).sum())?;
        Ok(SourcedCheck { request: Arc::new(check), held: FactsReservation(Some(held)) })
    }
}

impl RequestedCase {
    /// The case, with the facts of the sources.
    ///
    /// # Errors
    /// The same as [`RequestedCheck::gather_facts`].
    async fn gather_facts(self, service: &DaemonService) -> Result<SourcedCheck<EvaluationCase>, Problem> {
        let Self { id, candidate_output, check } = self;
        let SourcedCheck { request: check, held } = check.gather_facts(service).await?;
        Ok(SourcedCheck { request: EvaluationCase { id, candidate_output, check }, held })
    }

    /// The case of an evaluation request.
    ///
    /// # Errors
    /// `InvalidRequest` if the check is invalid; `WordlistUnknown` if the word list is not registered.
    fn from_request(request: EvaluateTextRequest, rules: &RuleService) -> Result<Self, Problem> {
        let EvaluateTextRequest {
            id,
            candidate_output,
            facts,
            facts_from,
            context,
            constraints,
            expected,
            rules: applied,
            derive,
            language,
            wordlist,
        } = request;
        let chars = id.as_ref().map_or(0, |id| id.chars().count());
        if chars > CASE_ID_MAX_CHARS {
            let text = format!("`id` has {chars} characters; at most {CASE_ID_MAX_CHARS} are allowed");
            return Err(Problem::new(INVALID_REQUEST, text));
        }
        if facts.is_none() && facts_from.is_none() {
            let text =
                "missing field `facts`, or `facts_from`; send `facts: []` to check a text without facts";
            return Err(Problem::new(INVALID_REQUEST, text));
        }
        let (facts, constraints) = (facts.unwrap_or_default(), constraints.unwrap_or_default());
        let expected = expected.unwrap_or_default();
        let check = CandidateCheck {
            facts,
            context,
            constraints,
            expected,
            rules: applied,
            derive: derive.unwrap_or_default(),
            ..CandidateCheck::default()
        };
        let check = with_language_and_wordlist(check, language, wordlist.as_ref(), rules)?;
        let check = RequestedCheck { check: validated(check, rules.settings())?, facts_from };
        Ok(Self { id, candidate_output, check })
    }
}

impl RequestedCheck {
    /// The check of a verdict, which is stored with the session.
    ///
    /// # Errors
    /// `InvalidRequest` if the check is invalid; `WordlistUnknown`.
    pub fn of_session(
        check: CandidateCheck,
        facts_from: Option<Vec<FactsFrom>>,
        language: Option<TextLanguage>,
        wordlist: Option<&WordlistName>,
        rules: &RuleService,
    ) -> Result<Self, Problem> {
        let settings = rules.settings();
        let check = with_language_and_wordlist(check, language, wordlist, rules)?;
        let check = check.with_request_digest(facts_from.as_deref(), wordlist);
        // the configuration may change
        let check = validated(check, settings)?.with_configured_values(settings);
        Ok(Self { check, facts_from })
    }
}

/// Adds the language and the word list to `check`.
///
/// # Errors
/// `WordlistUnknown`; `InvalidRequest` if the language is not that of the word list.
fn with_language_and_wordlist(
    check: CandidateCheck,
    language: Option<TextLanguage>,
    wordlist: Option<&WordlistName>,
    rules: &RuleService,
) -> Result<CandidateCheck, Problem> {
    let Some(name) = wordlist else {
        return Ok(CandidateCheck { language: language.unwrap_or_default(), ..check });
    };
    let list = rules.find_wordlist(name)?;
    let own = list.document().language;
    if let Some(language) = language.filter(|language| *language != own) {
        let [language, own] = [language, own].map(<&str>::from);
        let text = format!(
            "`language` is `{language}`, and word list {} is for `{own}`; omit `language`, or name another list",
            list.document().reference()
        );
        return Err(Problem::new(INVALID_REQUEST, text));
    }
    Ok(CandidateCheck { language: own, wordlist: Some(list), ..check })
}

fn validated(check: CandidateCheck, settings: &RuleSettings) -> Result<CandidateCheck, Problem> {
    check.validate(settings).map_err(|error| Problem::new(INVALID_REQUEST, error.to_string()))?;
    Ok(check)
}

/// The routes for applications.
pub(crate) fn routes() -> Routes {
    routes![list_rules, evaluate, evaluate_batch]
}

/// List the registered rules.
///
/// Every rule has its definition, its digest, and whether it applies if a request names no rules.
#[utoipa::path(
    get,
    path = "/v1/rules",
    operation_id = "list_rules",
    tag = "rules",
    responses(
        CommonProblems,
        (status = 200, description = "The registry of rules", body = RulesResponse),
    ),
)]
async fn list_rules(State(service): State<Arc<DaemonService>>) -> Json<RulesResponse> {
    let settings = service.system.rules.settings();
    let registered = |id: &RuleId| {
        let rule = id.rule();
        RegisteredRule { rule, sha256: rule.sha256(), in_profile: settings.profile.contains(id) }
    };
    let rules = RuleId::VARIANTS.iter().map(registered).collect();
    Json(RulesResponse { rules, unsupported_max: settings.unsupported_max })
}

problems!(EvaluateProblems: JSON_BODY STORE QUERY VERIFY CHECK);

/// Check a text against facts.
///
/// The evaluation is logged.
#[utoipa::path(
    post,
    path = "/v1/rules/evaluate",
    operation_id = "evaluate_text",
    tag = "rules",
    request_body = EvaluateTextRequest,
    responses(
        EvaluateProblems,
        (status = 200, description = "The evaluation, as canonical JSON, with any verdict", body = RulesEvaluation),
    ),
)]
pub async fn evaluate(
    State(service): State<Arc<DaemonService>>,
    body: JsonBody,
) -> Result<Response, Problem> {
    let case = RequestedCase::from_request(body.parse()?, &service.system.rules)?;
    let SourcedCheck { request: case, held } = case.gather_facts(&service).await?;
    let room = body::reserve_rules_response(body.length_bytes() + held.length_bytes(), &service).await?;
    let rules = service.system.rules.clone();
    let mut evaluations = service.run_work(async move { Ok(rules.evaluate(vec![case]).await?) }).await?;
    let evaluation =
        evaluations.pop().ok_or_else(|| Problem::new(INTERNAL_ERROR, "no evaluation was returned"))?;
    let json = serde_json::to_vec(&evaluation).expect("an evaluation is plain data with string keys");
    Ok(json_response(StatusCode::OK, ReservedBody::new(json, Some(room))))
}

problems!(BatchProblems: STORE; UNSUPPORTED_MEDIA_TYPE);

/// Check many texts against facts, one per line.
///
/// Each line is a request as of `POST /v1/rules/evaluate`. The answer has one line for each, in the same order. An invalid
/// line gets a problem as its answer, and the other lines are still evaluated.
#[utoipa::path(
    post,
    path = "/v1/rules/evaluate:batch",
    operation_id = "evaluate_texts",
    tag = "rules",
    request_body(content = EvaluateTextRequest, content_type = "application/x-ndjson", description = "One request per line"),
    responses(
        BatchProblems,
        (status = 200, description = "One answer per line", body = BatchAnswer, content_type = "application/x-ndjson"),
    ),
)]
async fn evaluate_batch(
    State(service): State<Arc<DaemonService>>,
    request: Request,
) -> Result<Response, Problem> {
    service.check_new_work()?;
    batch::respond(&service, request, |lines, sender| answer_all(Arc::clone(&service), lines, sender))
}

/// Answers the lines until the end, or until the client disconnects.
async fn answer_all(service: Arc<DaemonService>, mut lines: BatchLineReader, mut sender: BatchSender) {
    while let Some(some) = lines.next_batch(&service).await {
        let (line, answered) = (some.first().map_or(0, |line| line.number), some.len() as u64);
        let body = answer_batch(&service, some).await;
        if !sender.send(BatchPart { line, lines: answered, body }, &mut lines).await {
            return;
        }
    }
}

/// A parsed line: its id, and the case or the problem with it.
struct ParsedBatchLine {
    line: u64,
    id: Option<String>,
    case: Result<RequestedCase, Problem>,
}

/// The answers to one batch of lines, which are evaluated and logged together.
async fn answer_batch(service: &DaemonService, lines: Vec<BatchLine>) -> ReservedBody {
    let mut bytes = lines.iter().filter_map(|line| line.text.as_ref().ok()).map(Vec::len).sum();
    let (mut cases, mut all_held) = (Vec::new(), Vec::new());
    let mut read: Vec<(u64, Option<String>, Option<Problem>)> = Vec::new();
    let rules = &service.system.rules;
    for ParsedBatchLine { line, id, case } in lines.into_iter().map(|line| parse_line(line, rules)) {
        let gathered = match case {
            Ok(case) => case.gather_facts(service).await,
            Err(problem) => Err(problem),
        };
        match gathered {
            Ok(SourcedCheck { request: case, held }) => {
                bytes += held.length_bytes();
                all_held.push(held);
                cases.push(case);
                read.push((line, id, None));
            }
            Err(problem) => read.push((line, id, Some(problem))),
        }
    }
    let (room, evaluated) = match body::reserve_rules_response(bytes, service).await {
        Ok(room) if cases.is_empty() => (Some(room), Ok(Vec::new())),
        Ok(room) => {
            let rules = service.system.rules.clone();
            let evaluate = async move { Ok(rules.evaluate(cases).await?) };
            (Some(room), service.run_work_queued(evaluate).await)
        }
        Err(problem) => (None, Err(problem)),
    };
    let (evaluations, failure) = match evaluated {
        Ok(evaluations) => (evaluations, None),
        Err(problem) => (Vec::new(), Some(problem)),
    };
    let mut evaluations = evaluations.iter();
    let mut text = Vec::new();
    for (line, id, problem) in read {
        let evaluation = if problem.is_none() { evaluations.next() } else { None };
        let problem = match (&problem, evaluation, &failure) {
            (Some(problem), ..) | (None, None, Some(problem)) => Some(problem.to_raw()),
            (None, None, None) => Some(Problem::new(INTERNAL_ERROR, "no evaluation was returned").to_raw()),
            (None, Some(_), _) => None,
        };
        let answer = BatchAnswer { line, id, evaluation, problem };
        text.extend(to_line(&answer));
    }
    ReservedBody::new(text, room)
}

fn parse_line(BatchLine { number, text }: BatchLine, rules: &RuleService) -> ParsedBatchLine {
    /// The id of a line that is otherwise not a valid request.
    #[derive(Deserialize)]
    struct BatchLineId {
        id: Option<String>,
    }
    let text = match text {
        Ok(text) => text,
        Err(problem) => return ParsedBatchLine { line: number, id: None, case: Err(problem) },
    };
    match request::parse::<EvaluateTextRequest>(&text) {
        Ok(request) => ParsedBatchLine {
            line: number,
            id: request.id.clone(),
            case: RequestedCase::from_request(request, rules),
        },
        Err(problem) => {
            let id = request::parse::<BatchLineId>(&text).ok().and_then(|named| named.id);
            ParsedBatchLine { line: number, id, case: Err(problem) }
        }
    }
}
