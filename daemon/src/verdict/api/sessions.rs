//! `/v1/sessions/{session_id}`: registers a session so that a lost verdict can be regenerated.

use crate::platform::api::request::{JsonBody, PathSessionId};
use crate::platform::openapi::problems;
use crate::platform::openapi::{JSON_BODY, STORE};
use crate::platform::problem::Problem;
use crate::platform::service::DaemonService;
use crate::verdict::problem::{OWNER, SUBMISSION};
use crate::verdict::request::{
    RequestSessionCaller, parse_email, parse_label, parse_model_query, parse_tier,
};
use actors_verdict::cache::{RegisterSession, RegisterSessionOutcome};
use actors_verdict::generation::{PromptError, find_prompt};
use axum::Json;
use axum::extract::State;
use domain_base::problem::INVALID_REQUEST;
use domain_base::session_id::SessionId;
use domain_base::text_form::is_blank;
use domain_base::wording::ParseTextError;
use domain_ground::version_name::ParseVersionNameError;
use domain_verdict::label::ProductTier;
use domain_verdict::problem::SESSION_MISMATCH;
use domain_verdict::prompt::{ModelPrompt, VerdictPrompt};
use domain_verdict::query::CustomerQuery;
use domain_verdict::template_name::TemplateRef;
use domain_verdict::wire::{RegisterSessionRequest, RegisterSessionResponse, SubmittedPrompt};
use hyper::StatusCode;
use std::fmt::Display;
use std::sync::Arc;

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
pub async fn put(
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
pub(super) fn parse_prompt(
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
