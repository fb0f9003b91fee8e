//! Reads the text of requests for verdicts into types of the domain.

use crate::platform::config::LimitsSection;
use crate::platform::problem::Problem;
use crate::platform::service::DaemonService;
use crate::rules::sourced_check::RequestedCheck;
use actors_rules::RuleService;
use axum::extract::FromRequestParts;
use domain_base::caller::PeerCredentials;
use domain_base::payload::VerdictPayload;
use domain_base::problem::{INTERNAL_ERROR, INVALID_REQUEST};
use domain_base::text_form::is_blank;
use domain_base::wording::excerpt;
use domain_rules::CandidateCheck;
use domain_verdict::label::{ProductTier, VerdictLabel};
use domain_verdict::problem::{QUERY_TOO_LONG, UNKNOWN_TIER};
use domain_verdict::query::CustomerQuery;
use domain_verdict::session::{CustomerEmail, SessionCaller};
use domain_verdict::wire::SubmitVerdictRequest;
use hyper::http::request::Parts;
use serde_json::value::RawValue;
use std::sync::Arc;

/// The caller of a request, which is compared with the owner of the session.
pub struct RequestSessionCaller(pub SessionCaller);

impl FromRequestParts<Arc<DaemonService>> for RequestSessionCaller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, service: &Arc<DaemonService>) -> Result<Self, Problem> {
        if !service.applications.0.is_empty() {
            return Ok(Self(SessionCaller::Application));
        }
        let peer = parts.extensions.get::<PeerCredentials>();
        let unknown = || Problem::new(INTERNAL_ERROR, "the user id of the caller is not known");
        peer.map(|peer| Self(SessionCaller::User(peer.uid))).ok_or_else(unknown)
    }
}

/// The tier with the name `word`.
///
/// # Errors
/// `UnknownTier`.
pub fn parse_tier(word: &str) -> Result<ProductTier, Problem> {
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
    let detail = format!("the query has {bytes} bytes; at most {max_bytes} are allowed");
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
pub fn parse_payload(verdict: Option<&RawValue>, raw: Option<&str>) -> Result<VerdictPayload, Problem> {
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
pub fn take_check(
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
