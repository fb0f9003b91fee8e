//! `POST /v1/signals/{…}`, or any other path in a freshness policy: a source signals that its earlier data is no longer
//! reliable.

use crate::platform::api::request::{JsonBody, PATHS};
use crate::platform::config::credentials::read_secret_file;
use crate::platform::openapi::STORE;
use crate::platform::openapi::problems;
use crate::platform::problem::Problem;
use crate::platform::service::{DaemonService, SIGNALS_PER_WINDOW};
use actors_ground::registry::SourceInvalidation;
use actors_platform::clock::monotonic;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::{Extension, Json};
use domain_base::caller::PeerCredentials;
use domain_base::digest::Sha256Hex;
use domain_base::problem::{BODY_BROKEN, BODY_TOO_LARGE, INTERNAL_ERROR, INVALID_REQUEST};
use domain_ground::event::InvalidationCause;
use domain_ground::freshness::InvalidationTrigger;
use domain_ground::id::SourceId;
use domain_ground::problem::{SIGNAL_FORBIDDEN, SIGNAL_RATE_LIMITED, SIGNAL_UNKNOWN, SOURCE_UNKNOWN};
use domain_ground::source_state::SourceState;
use domain_ground::wire::SignalResponse;
use hyper::{Method, Uri};
use secrecy::ExposeSecret as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The header with the body's HMAC-SHA-256, as `sha256=` and 64 hexadecimal digits.
const SIGNATURE: &str = "x-hub-signature-256";

problems!(SignalProblems: STORE; INVALID_REQUEST SOURCE_UNKNOWN BODY_BROKEN BODY_TOO_LARGE SIGNAL_FORBIDDEN SIGNAL_UNKNOWN SIGNAL_RATE_LIMITED);

/// Signal that the data of sources is no longer reliable.
///
/// Every source whose freshness policy names this path as an `upstream_signal` becomes stale. The body may have any media
/// type.
#[utoipa::path(
    post,
    path = "/v1/signals/{*name}",
    operation_id = "send_signal",
    tag = "ground",
    params(("name" = String, Path, description = "The rest of the path that a policy names; it may contain slashes"), ("X-Hub-Signature-256" = Option<String>, Header, pattern = "^sha256=[0-9a-f]{64}$", description = "The HMAC-SHA-256 of the body under the secret of the policy; required if the policy has a `secret_file`")),
    request_body(content = Option<Vec<u8>>, content_type = "application/octet-stream", description = "The body that `X-Hub-Signature-256` signs; it is not stored"),
    responses(
        SignalProblems,
        (status = 200, description = "The sources that are stale now", body = SignalResponse),
    ),
)]
pub async fn post(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    uri: Uri,
    name: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Json<SignalResponse>, Problem> {
    // a client may escape what a policy does not escape, for example slashes
    let unescaped = name.map_or_else(|_| uri.path().to_owned(), |Path(name)| format!("/v1/signals/{name}"));
    let named = {
        let sources = service.system.store.sources()?;
        let mut found = [uri.path(), &unescaped].into_iter().map(|path| (path, find_targets(&sources, path)));
        found.find(|(_, targets)| !targets.is_empty())
    };
    if let Some((path, targets)) = named {
        return accept_signal(&service, targets, path, request, peer).await;
    }
    let detail = format!("no source's freshness policy names {} as an `upstream_signal`", uri.path());
    Err(Problem::new(SIGNAL_UNKNOWN, detail))
}

/// Handles a path without another route: a signal, if a policy has a webhook at the path.
///
/// # Errors
/// `not_found` if no policy names the path. If the entry cannot be committed, nothing changes.
pub async fn handle_other_path(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    method: Method,
    uri: Uri,
    request: Request,
) -> Result<Json<SignalResponse>, Problem> {
    let named = find_targets(&service.system.store.sources()?, uri.path());
    if method == Method::POST && !named.is_empty() {
        return accept_signal(&service, named, uri.path(), request, peer).await;
    }
    Err(if named.is_empty() { Problem::not_found(PATHS) } else { Problem::method_not_allowed(PATHS) })
}

/// A source whose policy names a path, and the file with the secret of its signals.
struct SignalTarget {
    oracle_id: SourceId,
    secret_file: Option<PathBuf>,
}

/// Accepts a signal for the sources whose secret signed it, and for those without a secret.
async fn accept_signal(
    service: &Arc<DaemonService>,
    named: Vec<SignalTarget>,
    path: &str,
    request: Request,
    peer: PeerCredentials,
) -> Result<Json<SignalResponse>, Problem> {
    let signature = request.headers().get(SIGNATURE).and_then(|value| value.to_str().ok());
    let signature = signature.and_then(|text| text.strip_prefix("sha256=")?.parse::<Sha256Hex>().ok());
    let body = JsonBody::read_any_type(request, service).await?;
    let mut signed = Vec::new();
    for SignalTarget { oracle_id, secret_file } in named {
        let is_signed = match secret_file {
            None => true,
            Some(file) => {
                // the secret may be replaced while the daemon runs; without the secret no signal is accepted
                let secret = read_secret_file("`secret_file`", &file).map_err(|error| {
                    tracing::error!(%oracle_id, %error, "cannot read the secret of a freshness policy");
                    Problem::new(INTERNAL_ERROR, "the secret of a freshness policy cannot be read")
                })?;
                let key = secret.expose_secret().as_bytes();
                signature.as_ref().is_some_and(|signature| signature.is_hmac_of(key, body.as_bytes()))
            }
        };
        signed.extend(is_signed.then_some(oracle_id));
    }
    if signed.is_empty() {
        let detail = format!(
            "the signal at {path} is not signed under the secret of its freshness policy; send \
             `X-Hub-Signature-256: sha256=` and the HMAC-SHA-256 of the body in hexadecimal digits"
        );
        return Err(Problem::new(SIGNAL_FORBIDDEN, detail));
    }
    service.signal_rate.count_signal(path, monotonic()).map_err(|wait| {
        let wait_s = wait.as_secs() + 1;
        let detail =
            format!("more than {SIGNALS_PER_WINDOW} signals a minute at {path}; send it again in {wait_s} s");
        Problem::new(SIGNAL_RATE_LIMITED, detail).retry_after(Duration::from_secs(wait_s))
    })?;
    invalidate(service, signed, path, peer).await
}

/// The sources whose policies have a webhook at `path`. The default policy has no webhook.
fn find_targets(sources: &[SourceState], path: &str) -> Vec<SignalTarget> {
    let secret_of = |trigger: &InvalidationTrigger| match trigger {
        InvalidationTrigger::UpstreamSignal { webhook, secret_file } if webhook == path => {
            Some(secret_file.clone())
        }
        _ => None,
    };
    let named = sources.iter().filter_map(|state| {
        let triggers = state.policy.iter().flat_map(|policy| &policy.invalidation_triggers);
        let secrets: Vec<_> = triggers.filter_map(secret_of).collect();
        // a path that is named twice is protected if either trigger has a secret
        let secret_file = secrets.iter().flatten().next().cloned();
        let oracle_id = state.entry.registration.oracle_id.clone();
        (!secrets.is_empty()).then_some(SignalTarget { oracle_id, secret_file })
    });
    named.collect()
}

/// Marks each of the sources as stale, and continues after a failure. The sender then gets an error and sends
/// the signal again.
async fn invalidate(
    service: &Arc<DaemonService>,
    named: Vec<SourceId>,
    path: &str,
    peer: PeerCredentials,
) -> Result<Json<SignalResponse>, Problem> {
    let registry = service.system.registry.clone();
    let detail = format!("signal at {path}");
    let invalidated = service.run_work(async move {
        let mut failed = Ok(());
        for oracle_id in &named {
            let (trigger, detail) = (InvalidationCause::UpstreamSignal, detail.clone());
            let invalidation = SourceInvalidation { oracle_id: oracle_id.clone(), trigger, detail, peer };
            let done = registry.invalidate(invalidation).await;
            failed = failed.and(done.map_err(Problem::from));
        }
        failed.map(|()| named)
    });
    Ok(Json(SignalResponse { invalidated: invalidated.await? }))
}
