//! `/v1/verdicts/{session_id}`: submits a verdict for delivery, and reads it back.

use crate::platform::api::held::document;
use crate::platform::api::request::{self, Gathered, JsonBody, SessionInPath, Wanted};
use crate::platform::config::Provider;
use crate::platform::openapi::problems;
use crate::platform::problem::Problem;
use crate::platform::service::Service;
use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use oracled_actors::verdict::cache::{Find, Known, Read};
use oracled_actors::verdict::crosscheck::Judge;
use oracled_actors::verdict::regen::{self, Failed};
use oracled_actors::verdict::submission::{Cached, Submission, SubmissionOutcome};
use oracled_api::base::problem::ProblemCode;
use oracled_api::verdict::{CacheResult, SubmitRequest, VerdictResponse};
use oracled_domain::rules::Evaluation;
use oracled_domain::{Decision, GatePath, SessionId};
use std::sync::Arc;
use std::time::Duration;

/// The response header that shows whether the verdict was cached.
const X_CACHE: HeaderName = HeaderName::from_static("x-cache");

problems!(SubmitProblems: JSON_BODY SUBMISSION COMMIT MODEL QUERY VERIFY FACTS; SessionMismatch DeliveredAlready CrosscheckRejected RulesRejected);

/// Submit a verdict for delivery, or let the model generate one.
///
/// The verdict is judged, and delivered if it passes. If the request has no verdict, the model generates it first.
/// With `facts` or `facts_from`, the verdict must also pass the rules, after the crosscheck. A request without a verdict
/// gets 409 `delivered_already` if the first verdict of the session is lost.
///
/// # Errors
/// A [`Problem`] if no verdict was delivered.
#[utoipa::path(
    post,
    path = "/v1/verdicts/{session_id}",
    operation_id = "submit_verdict",
    tag = "verdict",
    params(("session_id" = SessionId, Path)),
    request_body = SubmitRequest,
    responses(
        SubmitProblems,
        (status = 201, description = "The verdict passed, is durable, and may be delivered", body = VerdictResponse),
        (status = 200, description = "The session already has a verdict: that verdict, with `replayed`", body = VerdictResponse),
    ),
)]
pub async fn post(
    State(service): State<Arc<Service>>,
    SessionInPath(session_id): SessionInPath,
    body: JsonBody,
) -> Result<Response, Problem> {
    let mut request: SubmitRequest = body.parse()?;
    let wanted = Wanted::of_verdict(&mut request, &service.config.rules.settings())?;
    let SubmitRequest { tier, query, customer_email, verdict, raw, .. } = request;
    let limits = &service.config.limits;
    let (tier, customer_email) = (request::tier(&tier)?, request::email(customer_email)?);
    let is_made = verdict.is_none() && raw.is_none();
    let query = if is_made { request::question(query, limits)? } else { request::query(query, limits)? };
    let payload = if is_made { None } else { Some(request::payload(verdict.as_deref(), raw.as_deref())?) };
    let path = if is_made { GatePath::Generate } else { GatePath::Submit };
    let mut submission =
        Submission { session_id, tier, query, payload, customer_email, check: None, path, made: None };
    if wanted.as_ref().is_some_and(Wanted::asks_sources)
        && let Some(answer) = delivered_before(&service, &submission).await?
    {
        return Ok(answer);
    }
    let mut _held = None;
    if let Some(wanted) = wanted {
        let Gathered { wanted: check, held } = wanted.gathered(&service).await?;
        (submission.check, _held) = (Some(check), Some(held));
    }
    if is_made { generate(service, submission).await } else { deliver(service, submission).await }
}

/// The answer to a submission for a session that already has a verdict: that verdict, whatever the current facts of its
/// sources are, and even if they do not answer. `None` if no verdict was delivered, or it is lost.
async fn delivered_before(service: &Service, submission: &Submission) -> Result<Option<Response>, Problem> {
    let session = service.system.store.session(&submission.session_id)?;
    // a verdict that was only read so far is not delivered without the requested facts
    if session.is_none_or(|(session, _)| session.delivered_sha256.is_none()) {
        return Ok(None);
    }
    let cache = service.system.cache.clone();
    let find = Find(Submission { payload: None, ..submission.clone() });
    match service.work(async move { Ok(cache.ask(find).await??) }).await? {
        Known::Cached(cached) => Ok(Some(document(StatusCode::OK, replayed(&cached)))),
        Known::Mismatch(what) => Err(Problem::session_mismatch(&submission.session_id, what)),
        Known::Nothing(_) => Ok(None),
    }
}

async fn generate(service: Arc<Service>, submission: Submission) -> Result<Response, Problem> {
    let (session_id, regen) = (submission.session_id.clone(), service.system.regen.clone());
    let order = regen::Deliver(submission);
    match service.work(async move { Ok(regen.ask(order).await?) }).await? {
        Ok(outcome) => delivered(&service, &session_id, outcome),
        Err(failed) if matches!(*failed, Failed::NoModel) => Err(no_model(&service)),
        Err(failed) => Err(Problem::not_made(&session_id, &failed)),
    }
}

problems!(ReadProblems: SESSION READ MODEL; SessionUnknown VerdictNotCached CrosscheckRejected RulesRejected RegenRateLimited);

/// Read the verdict of a session.
///
/// If the verdict is lost and the session is known, it is regenerated. `X-Cache` is `HIT` for a stored verdict and `MISS`
/// for a regenerated one. If the crosscheck or the rules reject the regenerated verdict, this read and further ones within
/// 5 minutes get 422.
///
/// # Errors
/// A [`Problem`], usually `session_unknown`.
#[utoipa::path(
    get,
    path = "/v1/verdicts/{session_id}",
    operation_id = "read_verdict",
    tag = "verdict",
    params(("session_id" = SessionId, Path)),
    responses(
        ReadProblems,
        (status = 200, description = "The verdict: with `X-Cache: HIT` as it was delivered; with `MISS` regenerated, with `divergence_level`", body = VerdictResponse, headers(("X-Cache" = CacheResult, description = "Whether the verdict was in the cache."))),
    ),
)]
pub async fn get(
    method: Method,
    State(service): State<Arc<Service>>,
    SessionInPath(session_id): SessionInPath,
) -> Result<Response, Problem> {
    let found = service.system.cache.ask(Read(session_id.clone())).await??;
    let (cached, came_from) = match found {
        Some(cached) => (cached, "HIT"),
        // a HEAD request does not start a regeneration
        None if method == Method::HEAD => return Err(Problem::verdict_not_cached(session_id.to_string())),
        None if service.draining() => return Err(Problem::draining()),
        None => {
            let landed = service.system.regen.ask(regen::Read(session_id.clone())).await?;
            if matches!(&landed, Err(failed) if matches!(**failed, Failed::NoModel)) {
                return Err(Problem::verdict_not_cached(session_id.to_string()));
            }
            // another regeneration may have just finished
            let came_from = if matches!(landed, Ok(SubmissionOutcome::Replayed(_))) { "HIT" } else { "MISS" };
            let outcome = landed.map_err(|failed| Problem::not_made(&session_id, &failed))?;
            (verdict_of(&service, &session_id, outcome)?, came_from)
        }
    };
    let mut response = document(StatusCode::OK, cached.body.clone());
    response.headers_mut().insert(X_CACHE, HeaderValue::from_static(came_from));
    Ok(response)
}

/// The reason why no verdict can be generated, and the remedy.
fn no_model(service: &Service) -> Problem {
    let cause = match service.config.model.provider {
        Provider::None => {
            "no model is configured; send `verdict` or `raw`, or configure `model.provider`".to_owned()
        }
        _ => "the model has no key; see `model.api_key_file`".to_owned(),
    };
    Problem::new(ProblemCode::ModelUnavailable, cause)
}

/// The verdict of an outcome, or the problem if it has none.
fn verdict_of(
    service: &Service,
    session_id: &SessionId,
    outcome: SubmissionOutcome,
) -> Result<Arc<Cached>, Problem> {
    match outcome {
        SubmissionOutcome::Stored(cached)
        | SubmissionOutcome::Regenerated(cached, _)
        | SubmissionOutcome::Replayed(cached) => Ok(cached),
        SubmissionOutcome::Mismatch(what) => Err(Problem::session_mismatch(session_id, what)),
        SubmissionOutcome::RejectedByCrosscheck { decision, retry_after } => {
            Err(rejected(service, session_id, decision, retry_after))
        }
        SubmissionOutcome::RejectedByRules { evaluation, retry_after } => {
            Err(refused_by_rules(service, session_id, Arc::unwrap_or_clone(evaluation), retry_after))
        }
        SubmissionOutcome::Checked(_) => {
            Err(Problem::new(ProblemCode::InternalError, "a delivery ended as a check"))
        }
    }
}

/// The response to a submission: 201 with a new verdict, 200 with one that the session already had.
fn delivered(
    service: &Service,
    session_id: &SessionId,
    outcome: SubmissionOutcome,
) -> Result<Response, Problem> {
    let is_replayed = matches!(outcome, SubmissionOutcome::Replayed(_));
    let cached = verdict_of(service, session_id, outcome)?;
    Ok(if is_replayed {
        document(StatusCode::OK, replayed(&cached))
    } else {
        document(StatusCode::CREATED, cached.body.clone())
    })
}

/// The common part of submitting and writing to the cache: if the session already has a verdict, no verdict is judged;
/// otherwise the gate decides.
pub(crate) async fn deliver(service: Arc<Service>, mut submission: Submission) -> Result<Response, Problem> {
    let session_id = submission.session_id.clone();
    let (crosscheck, cache) = (service.system.crosscheck.clone(), service.system.cache.clone());
    let outcome = service.work(async move {
        let payload = submission.payload.take();
        match cache.ask(Find(submission.clone())).await?? {
            Known::Cached(cached) => Ok(SubmissionOutcome::Replayed(cached)),
            Known::Mismatch(what) => Ok(SubmissionOutcome::Mismatch(what)),
            Known::Nothing(check) => {
                // a verdict that replaces a lost one must pass the same gate as the first one
                let check = submission.check.or(check);
                Ok(crosscheck.ask(Judge(Submission { payload, check, ..submission })).await??)
            }
        }
    });
    delivered(&service, &session_id, outcome.await?)
}

fn rejected(
    service: &Service,
    session_id: &SessionId,
    decision: Decision,
    retry_after: Option<Duration>,
) -> Problem {
    let mut problem = refusal(ProblemCode::CrosscheckRejected, "the crosscheck", service, session_id);
    problem.document.decision = Some(decision);
    problem.retry_after(retry_after)
}

fn refused_by_rules(
    service: &Service,
    session_id: &SessionId,
    evaluation: Evaluation,
    retry_after: Option<Duration>,
) -> Problem {
    let mut problem = refusal(ProblemCode::RulesRejected, "the rules", service, session_id);
    problem.document.evaluation = Some(evaluation);
    problem.retry_after(retry_after)
}

/// The problem of a session whose verdict did not pass `gate`, with the configured contact.
fn refusal(code: ProblemCode, gate: &str, service: &Service, session_id: &SessionId) -> Problem {
    let contact = &service.config.contact;
    let remedy = contact.as_ref().map(|contact| format!("; the contact for questions is {contact}"));
    let remedy = remedy.unwrap_or_default();
    let detail = format!("the verdict of session {session_id} did not pass {gate}{remedy}");
    let mut problem = Problem::new(code, detail);
    problem.document.contact.clone_from(contact);
    problem
}

/// The document with `"replayed":true` as its last member.
fn replayed(cached: &Cached) -> Bytes {
    let members = cached.body.strip_suffix(b"}").expect("the document is an object");
    [members, br#","replayed":true}"#].concat().into()
}
