//! `/v1/verdicts/{session_id}`: submits a verdict for delivery, and reads it back. `POST /v1/crosscheck` judges a
//! verdict and logs the judgment, without delivery.
//!
//! `/cache/{session_id}` is the same cache under the paths of the service that oracled replaces. Writes pass the gate
//! like all other verdicts.

use super::card::{is_erased, read_card};
use super::orders::{self, replayed_response};
use super::proof::add_proof;
use super::{
    RequestSessionCaller, parse_email, parse_model_query, parse_payload, parse_prompt, parse_query,
    parse_tier, take_check,
};
use crate::ground::QUERY;
use crate::platform::api::body::json_response;
use crate::platform::api::request::{self, JsonBody, PathSessionId, QueryParams};
use crate::platform::logged_read::LoggedRead;
use crate::platform::openapi::{JSON_BODY, SESSION, STORE, problems};
use crate::platform::problem::Problem;
use crate::platform::service::DaemonService;
use crate::rules::{CHECK, RequestedCheck, SourcedCheck};
use crate::verdict::config::CommonContact;
use crate::verdict::config::applications::ApplicationSections;
use crate::verdict::config::models::{FurtherModels, ModelSection, longest_deadline_ms};
use crate::verdict::{MODEL, OWNER, SUBMISSION};
use crate::verification::VERIFY;
use actors_platform::clock::stopwatch;
use actors_verdict::cache::ReadVerdict;
use actors_verdict::crosscheck::{DeliverVerdict, JudgeVerdict};
use actors_verdict::generation::{GenerationError, GenerationResult};
use actors_verdict::rate_limiter::CallLimitError;
use actors_verdict::regen;
use actors_verdict::submission::{CachedVerdict, Submission, SubmissionOutcome};
use axum::extract::State;
use axum::response::Response;
use axum::{Extension, Json};
use domain_audit::event::ReadSubject;
use domain_audit::problem::ENTRY_DROPPED;
use domain_base::gate_path::GatePath;
use domain_base::problem::{INTERNAL_ERROR, INVALID_REQUEST, ProblemCode};
use domain_base::session_id::{ApplicationName, SessionId};
use domain_rules::RulesEvaluation;
use domain_verdict::crosscheck::{CrosscheckDecision, describe_fault};
use domain_verdict::generation::GenerationOutcome;
use domain_verdict::policy::{PolicyCause, join_causes};
use domain_verdict::problem::{
    CROSSCHECK_REJECTED, DELIVERED_ALREADY, HELD_VERDICT_UNREADABLE, LOOKUP_TIMEOUT, LOOKUP_UNAVAILABLE,
    ORDER_CANCELLED, ORDER_FAILED, POLICY_REJECTED, REGEN_RATE_LIMITED, RULES_REJECTED, SESSION_MISMATCH,
    SESSION_UNKNOWN, VERDICT_NOT_CACHED, VerdictProblem,
};
use domain_verdict::regen::RegenFailure;
use domain_verdict::session::{SessionCaller, SessionMismatch, SessionRecord};
use domain_verdict::wire::{
    CacheResult, CacheVerdictRequest, CrosscheckRequest, OrderReport, SubmitVerdictRequest, VerdictPage,
    VerdictParams, VerdictProof, VerdictResponse,
};
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// How often a request that waits for the regeneration of another host reads the store.
const FOREIGN_PAUSE: Duration = Duration::from_millis(200);
/// How long after the model's time limit the end of a regeneration on another host is waited for: the clocks of two hosts may differ, and
/// the verdict is judged and stored.
const FOREIGN_END: Duration = Duration::from_secs(10);
/// The part of a request's time limit that is left for its answer.
const ANSWER_TAKES: Duration = Duration::from_millis(500);

/// The response header that shows whether the verdict was cached.
const X_CACHE: HeaderName = HeaderName::from_static("x-cache");

problems!(SubmitProblems: JSON_BODY SUBMISSION STORE MODEL QUERY VERIFY CHECK OWNER; SESSION_MISMATCH DELIVERED_ALREADY ORDER_CANCELLED CROSSCHECK_REJECTED RULES_REJECTED POLICY_REJECTED ORDER_FAILED HELD_VERDICT_UNREADABLE);

/// Submit a verdict for delivery, or let the model generate one.
///
/// The verdict is judged, and delivered if it passes. With `facts` or `facts_from`, it must also pass the rules, after the
/// crosscheck. If the policy holds it, the answer is 202 with an order that waits for an operator.
///
/// A request without a verdict is an order: it is stored, and the model generates the verdict. If the verdict is not there
/// within the time limit of the request, or at once with the header `Prefer: respond-async`, the answer is 202 with the order,
/// and the work continues. The request can be repeated, with the same facts or without facts. It gets 409 `delivered_already` if
/// the first verdict of the session is lost, and 409 `order_cancelled` after its order was cancelled.
#[utoipa::path(
    post,
    path = "/v1/verdicts/{session_id}",
    operation_id = "submit_verdict",
    tag = "verdict",
    params(("session_id" = SessionId, Path)),
    request_body = SubmitVerdictRequest,
    responses(
        SubmitProblems,
        (status = 201, description = "The verdict passed, is durable, and may be delivered", body = VerdictResponse),
        (status = 200, description = "The session already has a verdict: that verdict, with `replayed`", body = VerdictResponse),
        (status = 202, description = "The order is accepted and the verdict is not there yet, or the policy holds the verdict", body = OrderReport, headers(("Location" = String, description = "The path of the order."), ("Retry-After" = u64, description = "When to read the order again, in seconds: 5 to 300. Missing while the order is held."))),
    ),
)]
pub async fn submit_verdict(
    State(service): State<Arc<DaemonService>>,
    PathSessionId(session_id): PathSessionId,
    RequestSessionCaller(caller): RequestSessionCaller,
    headers: HeaderMap,
    body: JsonBody,
) -> Result<Response, Problem> {
    let began = stopwatch();
    let mut request: SubmitVerdictRequest = body.parse()?;
    let check = take_check(&mut request, &service.system.rules)?;
    let SubmitVerdictRequest { tier, query, customer_email, verdict, raw, prompt, .. } = request;
    let limits = &service.limits;
    let (tier, customer_email) = (parse_tier(&tier)?, parse_email(customer_email)?);
    let is_generated = verdict.is_none() && raw.is_none();
    if is_generated && prompt.is_some() {
        let detail = "`prompt` is given without a verdict; send `verdict` or `raw`, too, or leave `prompt` out: \
                      the daemon builds the prompt of a verdict that it generates";
        return Err(Problem::new(INVALID_REQUEST, detail));
    }
    let query = if is_generated { parse_model_query(query, limits)? } else { parse_query(query, limits)? };
    let payload = if is_generated { None } else { Some(parse_payload(verdict.as_deref(), raw.as_deref())?) };
    let path = if is_generated { GatePath::Generate } else { GatePath::Submit };
    let prompt = parse_prompt(&service, prompt, tier, &query)?;
    let mut submission = Submission {
        session_id,
        caller,
        tier,
        query,
        payload,
        customer_email,
        check: None,
        path,
        prompt,
        generation_trace: None,
        evidence: Vec::new(),
    };
    let mut _held = None;
    if let Some(check) = check
        && !repeats_sources(&service, &submission, &check)?
    {
        let SourcedCheck { request: check, held } = check.gather_facts(&service).await?;
        (submission.check, _held) = (Some(check), Some(held));
    }
    if is_generated {
        orders::place(service, submission, orders::prefers_async(&headers), began).await
    } else {
        deliver(service, submission).await
    }
}

/// Whether the request has facts of sources, and gets what its session has: a delivered or a held verdict, or an order. Their
/// sources are then not asked again, so the answer does not depend on their current facts, and the check of the session stays
/// in force.
///
/// # Errors
/// `SessionMismatch` if the session has a check of another request.
fn repeats_sources(
    service: &DaemonService,
    submission: &Submission,
    check: &RequestedCheck,
) -> Result<bool, Problem> {
    let Submission { session_id, tier, query, payload, .. } = submission;
    if !check.has_sources() {
        return Ok(false);
    }
    let store = &service.system.store;
    let Some((session, _)) = store.session(session_id)? else { return Ok(false) };
    // a verdict that was only read so far is not delivered without the requested facts
    let has_verdict =
        || Ok::<_, Problem>(session.delivered_sha256.is_some() && store.verdict(session_id)?.is_some());
    let has_order = payload.is_none() && session.order.is_some();
    if !(has_order || session.is_held_by_policy() || session.is_cancelled() || has_verdict()?) {
        return Ok(false);
    }
    let other_check = session.has_other_check(check.without_sources()).then_some(SessionMismatch::Facts);
    let mismatch = session.mismatch(*tier, query).or(other_check.filter(|_| !session.is_cancelled()));
    mismatch.map_or(Ok(true), |what| Err(Problem::session_mismatch(session_id, what)))
}

problems!(ReadProblems: SESSION STORE MODEL; ENTRY_DROPPED INVALID_REQUEST LOOKUP_UNAVAILABLE LOOKUP_TIMEOUT SESSION_UNKNOWN SESSION_MISMATCH ORDER_CANCELLED VERDICT_NOT_CACHED CROSSCHECK_REJECTED RULES_REJECTED POLICY_REJECTED ORDER_FAILED REGEN_RATE_LIMITED);

/// Read the verdict of a session.
///
/// A session that is unknown is looked up at the payment service, if one is configured, and registered.
/// If the session has an order that is not delivered, the answer is 202 with the order, 422 if it failed, or 409 if it was cancelled. If the verdict is
/// lost and the session is known, it is regenerated. With `proof=1`, a verdict has the proof of its delivery. `X-Cache` is `HIT` for a stored verdict and `MISS`
/// for a regenerated one. If the crosscheck or the rules reject the regenerated verdict, this read gets 422, and further ones within
/// 5 minutes get 429. With `card=1`, the answer with a verdict is its card. The card of an erased session has its entries without the
/// erased values.
#[utoipa::path(
    get,
    path = "/v1/verdicts/{session_id}",
    operation_id = "read_verdict",
    tag = "verdict",
    extensions(("x-recent" = json!(true))),
    params(("session_id" = SessionId, Path), VerdictParams),
    responses(
        ReadProblems,
        (status = 200, description = "The verdict: with `X-Cache: HIT` as it was delivered; with `MISS` regenerated, with `divergence_level`", content((VerdictResponse = "application/json"), (String = "text/html")), headers(("X-Cache" = CacheResult, description = "Whether the verdict was in the cache."))),
        (status = 202, description = "The session has an open or held order, and its verdict is not there yet", body = OrderReport, headers(("Location" = String, description = "The path of the order."), ("Retry-After" = u64, description = "When to read the order again, in seconds: 5 to 300. Missing while the order is held."))),
    ),
)]
pub async fn read_verdict(
    method: Method,
    State(service): State<Arc<DaemonService>>,
    QueryParams(VerdictParams { proof, card }): QueryParams<VerdictParams>,
    PathSessionId(session_id): PathSessionId,
) -> Result<Response, Problem> {
    let found = read_cached_anywhere(&service, &session_id).await?;
    if found.is_none() && card.is_some() && is_erased(&service, &session_id).await? {
        return read_card(&service, session_id, None).await;
    }
    if found.is_none() && method != Method::HEAD {
        look_up_unknown(&service, &session_id).await?;
    }
    let (cached, cache_status) = match found {
        Some(cached) => (cached, "HIT"),
        // a HEAD request does not start a regeneration
        None if method == Method::HEAD => return Err(Problem::verdict_not_cached(session_id.local())),
        None if let Err(refusal) = service.check_new_work() => return Err(refusal),
        None if let Some(session) = find_unfinished(&service, &session_id)? => {
            return orders::answer(&service, session, false);
        }
        None => {
            let regenerated = regenerate(&service, &session_id).await?;
            // the order was placed after the check above
            if matches!(&regenerated, Err(failed) if matches!(**failed, GenerationError::SessionUnknown))
                && let Some(session) = find_unfinished(&service, &session_id)?
            {
                return orders::answer(&service, session, false);
            }
            if matches!(&regenerated, Err(failed) if matches!(**failed, GenerationError::NoModel)) {
                return Err(Problem::verdict_not_cached(session_id.local()));
            }
            // another regeneration may have just finished
            let cache_status =
                if matches!(regenerated, Ok(SubmissionOutcome::Replayed(_))) { "HIT" } else { "MISS" };
            let outcome = regenerated.map_err(|failed| Problem::generation_failed(&session_id, &failed))?;
            // the policy held a submitted verdict during the regeneration
            if matches!(outcome, SubmissionOutcome::Held) {
                return held_response(&service, &session_id);
            }
            (require_verdict(&service, &session_id, outcome)?, cache_status)
        }
    };
    let mut response = match (card, proof) {
        (Some(VerdictPage::Card), _) => read_card(&service, session_id, Some(&cached)).await?,
        (None, Some(VerdictProof::Included)) => {
            json_response(StatusCode::OK, add_proof(&service, session_id, &cached).await?)
        }
        (None, None) => json_response(StatusCode::OK, cached.body.clone()),
    };
    response.headers_mut().insert(X_CACHE, HeaderValue::from_static(cache_status));
    Ok(response)
}

/// Read the verdict of a session as an operator.
///
/// The answer is that of the routes' socket. The entry `operator_read` in the log names the reader of a verdict.
#[utoipa::path(
    get,
    path = "/v1/verdicts/{session_id}",
    operation_id = "read_delivered_verdict",
    tag = "verdict",
    params(("session_id" = SessionId, Path), VerdictParams),
    responses(
        ReadProblems,
        (status = 200, description = "The verdict: with `X-Cache: HIT` as it was delivered; with `MISS` regenerated, with `divergence_level`", content((VerdictResponse = "application/json"), (String = "text/html")), headers(("X-Cache" = CacheResult, description = "Whether the verdict was in the cache."))),
        (status = 202, description = "The session has an open or held order, and its verdict is not there yet", body = OrderReport, headers(("Location" = String, description = "The path of the order."), ("Retry-After" = u64, description = "When to read the order again, in seconds: 5 to 300. Missing while the order is held."))),
    ),
)]
pub async fn read_verdict_as_operator(
    method: Method,
    State(service): State<Arc<DaemonService>>,
    read: LoggedRead,
    params: QueryParams<VerdictParams>,
    session_id: PathSessionId,
) -> Result<Response, Problem> {
    // the answer to a HEAD request has no text
    let has_text = method != Method::HEAD;
    let response = read_verdict(method, State(Arc::clone(&service)), params, session_id).await?;
    if has_text && response.status() == StatusCode::OK {
        read.log(&service, ReadSubject::Verdict).await?;
    }
    Ok(response)
}

/// The cached verdict of a session. Only the cache itself reads the store.
async fn read_cached(
    service: &DaemonService,
    session_id: &SessionId,
) -> Result<Option<Arc<CachedVerdict>>, Problem> {
    match service.system.hot_verdicts.read(session_id) {
        Some(cached) => Ok(Some(cached)),
        None => Ok(service.system.cache.ask(ReadVerdict(session_id.clone())).await??),
    }
}

/// The same, also if another host of the cluster has just stored it.
async fn read_cached_anywhere(
    service: &DaemonService,
    session_id: &SessionId,
) -> Result<Option<Arc<CachedVerdict>>, Problem> {
    match read_cached(service, session_id).await? {
        None if service.cluster.is_some() => {
            service.catch_up().await?;
            read_cached(service, session_id).await
        }
        found => Ok(found),
    }
}

/// Looks the session up if it is unknown and the look-up is configured for its application. A found session is registered.
async fn look_up_unknown(service: &DaemonService, session_id: &SessionId) -> Result<(), Problem> {
    let Some(lookup) = service.system.lookup.clone() else { return Ok(()) };
    let applications = service.section::<ApplicationSections>();
    let own = applications.get(&session_id.application());
    let is_looked_up = applications.is_empty() || own.is_some_and(|section| section.lookup);
    if !is_looked_up || service.system.store.session(session_id)?.is_some() {
        return Ok(());
    }
    let id = session_id.clone();
    service
        .run_work(async move {
            lookup.register_unknown(&id).await.map_err(|failed| Problem::lookup_failed(&id, &failed))
        })
        .await
}

/// Regenerates the verdict of a session. If another host of the cluster regenerates it now, waits for its verdict, or its failure.
async fn regenerate(service: &DaemonService, session_id: &SessionId) -> Result<GenerationResult, Problem> {
    let ask = || service.system.regen.ask(regen::RegenerateVerdict(session_id.clone()));
    let regenerated = ask().await?;
    let is_limited = matches!(&regenerated, Err(failed) if matches!(**failed, GenerationError::Limited(CallLimitError::Session { .. })));
    // a read after the end of a regeneration gets the limit, as on the host that regenerated
    if !is_limited || service.cluster.is_none() || !is_regenerated_elsewhere(service, session_id)? {
        return Ok(regenerated);
    }
    let began = stopwatch();
    let longest = Duration::from_secs(service.limits.request_s).saturating_sub(ANSWER_TAKES);
    while is_regenerated_elsewhere(service, session_id)? && began.elapsed() < longest {
        sleep(FOREIGN_PAUSE).await;
        service.catch_up().await?;
        if let Some(cached) = read_cached(service, session_id).await? {
            return Ok(Ok(SubmissionOutcome::Replayed(cached)));
        }
        // the policy held the verdict, or an order was placed
        if find_unfinished(service, session_id)?.is_some() {
            break;
        }
        let attempt = service.system.store.regen_attempt(session_id)?;
        if let Some(failure) = attempt.and_then(|(attempt, _)| attempt.failure) {
            return Err(failed_elsewhere(service, session_id, failure));
        }
    }
    Ok(ask().await?)
}

/// Whether another host of the cluster may be calling the model for a session.
fn is_regenerated_elsewhere(service: &DaemonService, session_id: &SessionId) -> Result<bool, Problem> {
    let own = service.cluster.as_ref().map(|member| member.host.as_str());
    let attempt = service.system.store.regen_attempt(session_id)?;
    let foreign = attempt.filter(|(attempt, _)| attempt.host.as_deref() != own && attempt.failure.is_none());
    let longest = longest_deadline_ms(service.section::<ModelSection>(), service.section::<FurtherModels>());
    let longest = Duration::from_millis(longest) + FOREIGN_END;
    Ok(foreign.is_some_and(|(attempt, _)| {
        service.system.clock.now().duration_since(attempt.attempted_at).unsigned_abs() < longest
    }))
}

/// The answer to a read that waited for a regeneration by another host, which failed.
fn failed_elsewhere(service: &DaemonService, session_id: &SessionId, failure: RegenFailure) -> Problem {
    let RegenFailure { outcome, cause, decision, policy_causes, rejection, retry_at } = failure;
    let now = service.system.clock.now();
    let retry_after = retry_at.map(|at| Duration::try_from(at.duration_since(now)).unwrap_or_default());
    match (outcome, decision) {
        (GenerationOutcome::Rejected, Some(decision)) => {
            crosscheck_problem(service, session_id, (decision, None), retry_after)
        }
        (GenerationOutcome::RefusedByPolicy, Some(decision)) => {
            policy_problem(service, session_id, (decision, policy_causes), retry_after)
        }
        (GenerationOutcome::RefusedByRules, _) => {
            // the evaluation quotes the answer, so it is not stored
            let faults = rejection.filter(|rejection| !rejection.is_empty());
            let gate =
                faults.map_or_else(|| "the rules".to_owned(), |faults| format!("the rules ({faults})"));
            rejection_problem(RULES_REJECTED, &gate, service, session_id).retry_after(retry_after)
        }
        _ => Problem::model_failed(outcome, cause.reveal(), retry_after),
    }
}

/// The session, if it has an order whose verdict is not delivered. A read does not generate its verdict.
fn find_unfinished(
    service: &DaemonService,
    session_id: &SessionId,
) -> Result<Option<SessionRecord>, Problem> {
    let session = service.system.store.session(session_id)?.map(|(session, _)| session);
    Ok(session.filter(SessionRecord::has_unfinished_order))
}

/// The verdict of an outcome, or the problem if it has none.
fn require_verdict(
    service: &DaemonService,
    session_id: &SessionId,
    outcome: SubmissionOutcome,
) -> Result<Arc<CachedVerdict>, Problem> {
    match outcome {
        SubmissionOutcome::Stored(cached)
        | SubmissionOutcome::Regenerated(cached, _)
        | SubmissionOutcome::Replayed(cached) => Ok(cached),
        SubmissionOutcome::Mismatch(what) => Err(Problem::session_mismatch(session_id, what)),
        SubmissionOutcome::RejectedByCrosscheck { decision, retry_after } => {
            Err(crosscheck_problem(service, session_id, (decision, None), retry_after))
        }
        SubmissionOutcome::RejectedByRules { evaluation, retry_after, .. } => {
            Err(rules_problem(service, session_id, Arc::unwrap_or_clone(evaluation), retry_after))
        }
        SubmissionOutcome::RejectedByPolicy { decision, causes, retry_after } => {
            Err(policy_problem(service, session_id, (decision, causes), retry_after))
        }
        SubmissionOutcome::Cancelled => Err(Problem::order_cancelled(session_id)),
        SubmissionOutcome::Checked(_) | SubmissionOutcome::Held | SubmissionOutcome::Opinion => {
            Err(Problem::new(INTERNAL_ERROR, "a delivery ended without a verdict"))
        }
    }
}

/// The response to a submission: 201 with a new verdict, 200 with one that the session already had.
fn delivery_response(
    service: &DaemonService,
    session_id: &SessionId,
    outcome: SubmissionOutcome,
) -> Result<Response, Problem> {
    if matches!(outcome, SubmissionOutcome::Held) {
        return held_response(service, session_id);
    }
    let is_replayed = matches!(outcome, SubmissionOutcome::Replayed(_));
    let cached = require_verdict(service, session_id, outcome)?;
    Ok(if is_replayed {
        replayed_response(&cached)
    } else {
        json_response(StatusCode::CREATED, cached.body.clone())
    })
}

/// 202 with the order of a session whose verdict the policy holds; the verdict if an operator has just released it.
fn held_response(service: &DaemonService, session_id: &SessionId) -> Result<Response, Problem> {
    let session = service.system.store.session(session_id)?;
    let (session, _) = session.ok_or_else(|| Problem::session_unknown(session_id.local()))?;
    orders::answer(service, session, false)
}

/// The common part of submitting and writing to the cache: if the session already has a verdict, no verdict is judged;
/// otherwise the gate decides.
pub(crate) async fn deliver(
    service: Arc<DaemonService>,
    submission: Submission,
) -> Result<Response, Problem> {
    let session_id = submission.session_id.clone();
    let (tier, payload) = (submission.tier, submission.payload.clone());
    let crosscheck = service.system.crosscheck.clone();
    let outcome = service.run_work(async move { Ok(crosscheck.ask(DeliverVerdict(submission)).await??) });
    match outcome.await? {
        SubmissionOutcome::RejectedByCrosscheck { decision, retry_after } => {
            let fault = payload.and_then(|payload| describe_fault(tier, &payload));
            Err(crosscheck_problem(&service, &session_id, (decision, fault), retry_after))
        }
        outcome => delivery_response(&service, &session_id, outcome),
    }
}

/// The problem of a verdict that did not pass the crosscheck. A fault of its text is only for the sender of the text.
fn crosscheck_problem(
    service: &DaemonService,
    session_id: &SessionId,
    (decision, fault): (CrosscheckDecision, Option<String>),
    retry_after: Option<Duration>,
) -> Problem {
    let flags = decision.flags.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let flags = if flags.is_empty() { flags } else { format!("; flags: {flags}") };
    let fault = fault.map(|fault| format!(": {fault}")).unwrap_or_default();
    let gate = format!("the crosscheck ({}{flags}){fault}", decision.crosscheck_reason.into_str());
    let mut problem = rejection_problem(CROSSCHECK_REJECTED, &gate, service, session_id);
    let decision = Some(decision);
    problem.document.add(&VerdictProblem { decision, ..VerdictProblem::default() });
    problem.retry_after(retry_after)
}

fn rules_problem(
    service: &DaemonService,
    session_id: &SessionId,
    evaluation: RulesEvaluation,
    retry_after: Option<Duration>,
) -> Problem {
    let mut problem = rejection_problem(RULES_REJECTED, "the rules", service, session_id);
    let evaluation = Some(evaluation);
    problem.document.add(&VerdictProblem { evaluation, ..VerdictProblem::default() });
    problem.retry_after(retry_after)
}

fn policy_problem(
    service: &DaemonService,
    session_id: &SessionId,
    (decision, causes): (CrosscheckDecision, Vec<PolicyCause>),
    retry_after: Option<Duration>,
) -> Problem {
    let gate = format!("the policy ({})", join_causes(&causes));
    let mut problem = rejection_problem(POLICY_REJECTED, &gate, service, session_id);
    let (decision, causes) = (Some(decision), Some(causes));
    problem.document.add(&VerdictProblem { decision, causes, ..VerdictProblem::default() });
    problem.retry_after(retry_after)
}

/// The problem of a session whose verdict did not pass `gate`, with the configured contact.
fn rejection_problem(
    code: ProblemCode,
    gate: &str,
    service: &DaemonService,
    session_id: &SessionId,
) -> Problem {
    let own = service.section::<ApplicationSections>().get(&session_id.application());
    let CommonContact(common) = service.section();
    let contact = own.and_then(|section| section.contact.as_ref()).or(common.as_ref());
    let remedy = contact.map(|contact| format!("; the contact for questions is {contact}"));
    let remedy = remedy.unwrap_or_default();
    let detail = format!("the verdict of session {} did not pass {gate}{remedy}", session_id.local());
    let mut problem = Problem::new(code, detail);
    let contact = contact.cloned();
    problem.document.add(&VerdictProblem { contact, ..VerdictProblem::default() });
    problem
}

problems!(WriteProblems: JSON_BODY SUBMISSION STORE OWNER; SESSION_MISMATCH ORDER_CANCELLED CROSSCHECK_REJECTED RULES_REJECTED POLICY_REJECTED HELD_VERDICT_UNREADABLE);

/// Write a verdict to the cache if it passes the gate.
///
/// This is the same cache under the path of the service that oracled replaces, and the gate is the same. The fields
/// `cached_at`, `regen` and `regen_reason`, which a response has, are accepted and ignored. On all other routes an
/// unknown field is an error.
#[utoipa::path(
    post,
    path = "/cache/{session_id}",
    operation_id = "write_cached_verdict",
    tag = "verdict",
    params(("session_id" = SessionId, Path)),
    request_body = CacheVerdictRequest,
    responses(
        WriteProblems,
        (status = 201, description = "The verdict passed and is cached", body = VerdictResponse),
        (status = 200, description = "The session already has a verdict: that verdict, with `replayed`", body = VerdictResponse),
        (status = 202, description = "The policy holds the verdict: an order that waits for an operator", body = OrderReport, headers(("Location" = String, description = "The path of the order."))),
    ),
)]
pub async fn write_cached_verdict(
    State(service): State<Arc<DaemonService>>,
    PathSessionId(session_id): PathSessionId,
    RequestSessionCaller(caller): RequestSessionCaller,
    body: JsonBody,
) -> Result<Response, Problem> {
    let CacheVerdictRequest { tier, query, verdict, .. } = body.parse()?;
    let limits = &service.limits;
    let submission = Submission {
        session_id,
        caller,
        tier: parse_tier(&tier)?,
        query: parse_query(query, limits)?,
        payload: Some(parse_payload(verdict.as_deref(), None)?),
        customer_email: None,
        path: GatePath::CacheWrite,
        prompt: None,
        generation_trace: None,
        evidence: Vec::new(),
        check: None,
    };
    deliver(service, submission).await
}

problems!(ReadCachedProblems: SESSION STORE; VERDICT_NOT_CACHED);

/// Read a cached verdict.
///
/// This route does not regenerate a lost verdict.
#[utoipa::path(
    get,
    path = "/cache/{session_id}",
    operation_id = "read_cached_verdict",
    tag = "verdict",
    extensions(("x-recent" = json!(true))),
    params(("session_id" = SessionId, Path)),
    responses(
        ReadCachedProblems,
        (status = 200, description = "The verdict as it was delivered", body = VerdictResponse),
    ),
)]
pub async fn read_cached_verdict(
    State(service): State<Arc<DaemonService>>,
    PathSessionId(session_id): PathSessionId,
) -> Result<Response, Problem> {
    match read_cached_anywhere(&service, &session_id).await? {
        Some(cached) => Ok(json_response(StatusCode::OK, cached.body.clone())),
        None => Err(Problem::verdict_not_cached(session_id.local())),
    }
}

problems!(CheckProblems: JSON_BODY SUBMISSION STORE);

/// Check a verdict without delivery.
///
/// The check is logged. Nothing is delivered.
#[utoipa::path(
    post,
    path = "/v1/crosscheck",
    operation_id = "check_verdict",
    tag = "verdict",
    extensions(("x-recent" = json!(true))),
    request_body = CrosscheckRequest,
    responses(
        CheckProblems,
        (status = 200, description = "The decision, approved or not", body = CrosscheckDecision),
    ),
)]
pub async fn crosscheck(
    State(service): State<Arc<DaemonService>>,
    Extension(application): Extension<ApplicationName>,
    body: JsonBody,
) -> Result<Json<CrosscheckDecision>, Problem> {
    let CrosscheckRequest { session_id, tier, query, verdict, raw } = body.parse()?;
    let limits = &service.limits;
    let submission = Submission {
        session_id: request::parse_session_id(session_id, Some(&application), limits)?,
        // a check changes no session
        caller: SessionCaller::Daemon,
        tier: parse_tier(&tier)?,
        query: parse_query(query, limits)?,
        payload: Some(parse_payload(verdict.as_deref(), raw.as_deref())?),
        customer_email: None,
        path: GatePath::Check,
        prompt: None,
        generation_trace: None,
        evidence: Vec::new(),
        check: None,
    };
    let crosscheck = service.system.crosscheck.clone();
    let outcome =
        service.run_work(async move { Ok(crosscheck.ask(JudgeVerdict(submission)).await??) }).await?;
    match outcome {
        SubmissionOutcome::Checked(decision) => Ok(Json(decision)),
        // the outcome has the verdict, which a problem does not quote
        _ => Err(Problem::new(INTERNAL_ERROR, "a check ended with the outcome of a delivery")),
    }
}
