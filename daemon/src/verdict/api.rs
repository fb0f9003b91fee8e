//! Handlers of verdicts and sessions on the routes' socket, and reading the text of their requests into types of the
//! domain.
//!
//! `/v1/sessions/{session_id}` registers a session so that a lost verdict can be regenerated.

mod card;
pub mod orders;
mod proof;
pub mod verdicts;

use crate::platform::api::request::{JsonBody, PathSessionId};
use crate::platform::config::LimitsSection;
use crate::platform::openapi::{JSON_BODY, STORE, problems};
use crate::platform::problem::Problem;
use crate::platform::routes::{Routes, routes};
use crate::platform::service::DaemonService;
use crate::rules::RequestedCheck;
use crate::verdict::{OWNER, SUBMISSION};
use actors_rules::RuleService;
use actors_verdict::cache::{RegisterSession, RegisterSessionOutcome};
use actors_verdict::generation::{PromptError, find_prompt};
use axum::Json;
use axum::extract::{FromRequestParts, State};
use domain_base::caller::PeerCredentials;
use domain_base::payload::VerdictPayload;
use domain_base::problem::{INTERNAL_ERROR, INVALID_REQUEST};
use domain_base::session_id::SessionId;
use domain_base::text_form::is_blank;
use domain_base::wording::{ParseTextError, excerpt};
use domain_ground::version_name::ParseVersionNameError;
use domain_rules::CandidateCheck;
use domain_verdict::label::{ProductTier, VerdictLabel};
use domain_verdict::problem::{QUERY_TOO_LONG, SESSION_MISMATCH, UNKNOWN_TIER};
use domain_verdict::prompt::{ModelPrompt, TemplateRef, VerdictPrompt};
use domain_verdict::query::CustomerQuery;
use domain_verdict::session::{CustomerEmail, SessionCaller};
use domain_verdict::wire::{
    RegisterSessionRequest, RegisterSessionResponse, SubmitVerdictRequest, SubmittedPrompt,
};
use hyper::StatusCode;
use hyper::http::request::Parts;
use serde_json::value::RawValue;
use std::fmt::Display;
use std::sync::Arc;

/// The routes for applications.
pub(crate) fn routes() -> Routes {
    routes![
        verdicts::crosscheck,
        verdicts::read_verdict,
        verdicts::submit_verdict,
        orders::list,
        orders::get,
        orders::delete,
        register_session,
        verdicts::read_cached_verdict,
        verdicts::write_cached_verdict
    ]
}

problems!(RegisterProblems: JSON_BODY SUBMISSION STORE OWNER; SESSION_MISMATCH);

/// Register a session so that a lost verdict can be regenerated.
///
/// If the session is registered, data that it lacks is added, and its owner can change the address. The e-mail address is never returned on this socket.
#[utoipa::path(
    put,
    path = "/v1/sessions/{session_id}",
    operation_id = "register_session",
    tag = "verdict",
    params(("session_id" = SessionId, Path)),
    request_body = RegisterSessionRequest,
    responses(
        RegisterProblems,
        (status = 201, description = "The session is new, and durable", body = RegisterSessionResponse),
        (status = 200, description = "The session was known; its current data", body = RegisterSessionResponse),
    ),
)]
pub async fn register_session(
    State(service): State<Arc<DaemonService>>,
    PathSessionId(session_id): PathSessionId,
    RequestSessionCaller(caller): RequestSessionCaller,
    body: JsonBody,
) -> Result<(StatusCode, Json<RegisterSessionResponse>), Problem> {
    let RegisterSessionRequest { tier, query, customer_email, original_verdict, prompt } = body.parse()?;
    if prompt.is_some() && original_verdict.is_none() {
        let detail =
            "`prompt` is given without `original_verdict`; send the verdict that has this prompt, too";
        return Err(Problem::new(INVALID_REQUEST, detail));
    }
    let tier = parse_tier(&tier)?;
    let query = parse_model_query(query, &service.limits)?;
    let register = RegisterSession {
        session_id: session_id.clone(),
        caller,
        tier,
        prompt: parse_prompt(&service, prompt, tier, &query)?,
        query,
        customer_email: parse_email(customer_email)?,
        original_verdict: parse_label(original_verdict)?,
        look_up: None,
    };
    let cache = service.system.cache.clone();
    match service.run_work(async move { Ok(cache.ask(register).await??) }).await? {
        RegisterSessionOutcome::Created(session) => Ok((StatusCode::CREATED, Json(session.into()))),
        RegisterSessionOutcome::Updated(session) => Ok((StatusCode::OK, Json(session.into()))),
        RegisterSessionOutcome::Mismatch(what) => Err(Problem::session_mismatch(&session_id, what)),
    }
}

/// Maximum length of a prompt's text, in bytes.
const TEXT_MAX_BYTES: usize = 256 * 1024;

/// The prompt that the session stores.
///
/// # Errors
/// `InvalidRequest` if the template is not registered or has no text for the tier, or if the text or the digest is invalid.
fn parse_prompt(
    service: &DaemonService,
    prompt: Option<SubmittedPrompt>,
    tier: ProductTier,
    query: &CustomerQuery,
) -> Result<Option<VerdictPrompt>, Problem> {
    let Some(SubmittedPrompt { template, text, sha256 }) = prompt else { return Ok(None) };
    Ok(Some(match (template, text, sha256) {
        (Some(name), None, None) => build_prompt(service, &name, tier, query)?,
        (None, Some(text), None) => {
            let bytes = text.len();
            if is_blank(&text) {
                return Err(invalid("text", "it is empty; leave `prompt` out if the prompt is not known"));
            }
            if bytes > TEXT_MAX_BYTES {
                return Err(invalid(
                    "text",
                    format_args!("it has {bytes} bytes (at most {TEXT_MAX_BYTES} allowed)"),
                ));
            }
            ModelPrompt::of_text(tier, text).into()
        }
        (None, None, Some(digits)) => {
            let sha256 = digits.parse().map_err(|error: ParseTextError| invalid("sha256", error))?;
            VerdictPrompt { sha256, template: None, text: None }
        }
        _ => {
            let detail = "`prompt` needs exactly one of `template`, `text` and `sha256`";
            return Err(Problem::new(INVALID_REQUEST, detail));
        }
    }))
}

/// The prompt of the template called `name`.
fn build_prompt(
    service: &DaemonService,
    name: &str,
    tier: ProductTier,
    query: &CustomerQuery,
) -> Result<VerdictPrompt, Problem> {
    let template: TemplateRef =
        name.parse().map_err(|error: ParseVersionNameError| invalid("template", error))?;
    match find_prompt(&service.system.store, &template.clone().into(), tier, query) {
        Ok(prompt) => Ok(prompt.into()),
        Err(PromptError::Store(error)) => Err(error.into()),
        Err(PromptError::Tier(error)) => Err(invalid("template", error)),
        Err(PromptError::Unknown(_)) => {
            let fault = format_args!(
                "prompt template {template} is not registered; `oraclectl prompt list` lists the registered ones"
            );
            Err(invalid("template", fault))
        }
    }
}

fn invalid(member: &str, fault: impl Display) -> Problem {
    Problem::new(INVALID_REQUEST, format!("`prompt.{member}`: {fault}"))
}

/// The caller of a request, which is compared with the owner of the session.
pub struct RequestSessionCaller(pub SessionCaller);

impl FromRequestParts<Arc<DaemonService>> for RequestSessionCaller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, service: &Arc<DaemonService>) -> Result<Self, Problem> {
        let peer = parts.extensions.get::<PeerCredentials>();
        let unknown = || Problem::new(INTERNAL_ERROR, "the user id of the caller is not known");
        let owner_uid = service.applications.owner_uid(*peer.ok_or_else(unknown)?);
        Ok(Self(owner_uid.map_or(SessionCaller::Application, SessionCaller::User)))
    }
}

/// The tier with the name `word`.
///
/// # Errors
/// `UnknownTier`.
fn parse_tier(word: &str) -> Result<ProductTier, Problem> {
    word.parse::<ProductTier>().map_err(|error| Problem::new(UNKNOWN_TIER, error.to_string()))
}

/// The query `text`, within the configured length.
///
/// # Errors
/// `QueryTooLong`.
pub fn parse_query(text: String, limits: &LimitsSection) -> Result<CustomerQuery, Problem> {
    let (bytes, max_bytes) = (text.len(), limits.query_bytes);
    if bytes <= max_bytes {
        return Ok(CustomerQuery::new(text));
    }
    let detail =
        format!("the query has {bytes} bytes; at most {max_bytes} are allowed (`limits.query_bytes`)");
    Err(Problem::new(QUERY_TOO_LONG, detail))
}

/// The query `text`, which is sent to the model.
///
/// # Errors
/// `QueryTooLong`; `InvalidRequest` if the query is blank.
pub fn parse_model_query(text: String, limits: &LimitsSection) -> Result<CustomerQuery, Problem> {
    if is_blank(&text) {
        return Err(Problem::new(INVALID_REQUEST, "`query` is empty; the model needs a query"));
    }
    parse_query(text, limits)
}

/// The verdict with the name `word`.
///
/// # Errors
/// `InvalidRequest`.
pub fn parse_label(word: Option<String>) -> Result<Option<VerdictLabel>, Problem> {
    let unknown = |word: &str| {
        let given = excerpt(word);
        let allowed = VerdictLabel::ALL.map(<&str>::from).join(", ");
        Problem::new(
            INVALID_REQUEST,
            format!("`original_verdict`: `{given}` is not a verdict; allowed: {allowed}"),
        )
    };
    word.map(|word| word.parse().map_err(|_| unknown(&word))).transpose()
}

/// The e-mail address `text`.
///
/// # Errors
/// `InvalidRequest`.
pub fn parse_email(text: Option<String>) -> Result<Option<CustomerEmail>, Problem> {
    let email = text.map(CustomerEmail::try_from).transpose();
    email.map_err(|error| Problem::new(INVALID_REQUEST, format!("`customer_email`: {error}")))
}

/// The payload of a request, given as either `verdict` or `raw`.
///
/// # Errors
/// `InvalidRequest` if neither or both are given.
fn parse_payload(verdict: Option<&RawValue>, raw: Option<&str>) -> Result<VerdictPayload, Problem> {
    match (verdict, raw) {
        (Some(verdict), None) => Ok(VerdictPayload::json(verdict)),
        (None, Some(raw)) => Ok(VerdictPayload::raw(raw)),
        (None, None) => {
            Err(Problem::new(INVALID_REQUEST, "`verdict` (a JSON value) or `raw` (text) is missing"))
        }
        (Some(_), Some(_)) => {
            Err(Problem::new(INVALID_REQUEST, "`verdict` and `raw` are both given; send one of them"))
        }
    }
}

/// Takes the check of a verdict out of a request; `None` if the request has no facts.
///
/// # Errors
/// `InvalidRequest` if the check is invalid, or is given without facts; `WordlistUnknown`.
fn take_check(
    request: &mut SubmitVerdictRequest,
    service: &RuleService,
) -> Result<Option<RequestedCheck>, Problem> {
    let (context, constraints) = (request.context.take(), request.constraints.take());
    let (expected, rules) = (request.expected.take(), request.rules.take());
    let (language, wordlist) = (request.language.take(), request.wordlist.take());
    let derive = request.derive.take();
    let (facts, facts_from) = (request.facts.take(), request.facts_from.take());
    if facts.is_none() && facts_from.is_none() {
        let others = [
            ("context", context.is_some()),
            ("constraints", constraints.is_some()),
            ("expected", expected.is_some()),
            ("rules", rules.is_some()),
            ("derive", derive.is_some()),
            ("language", language.is_some()),
            ("wordlist", wordlist.is_some()),
        ];
        return match others.iter().find(|(_, given)| *given) {
            Some((name, _)) => Err(Problem::new(
                INVALID_REQUEST,
                format!(
                    "`{name}` is given without `facts` or `facts_from`; send `facts: []` to check a verdict without facts"
                ),
            )),
            None => Ok(None),
        };
    }
    let (facts, constraints) = (facts.unwrap_or_default(), constraints.unwrap_or_default());
    let expected = expected.unwrap_or_default();
    let derive = derive.unwrap_or_default();
    let check =
        CandidateCheck { facts, context, constraints, expected, rules, derive, ..CandidateCheck::default() };
    RequestedCheck::of_session(check, facts_from, language, wordlist.as_ref(), service).map(Some)
}
