//! `/v1/reviews`: what persons are to decide, and have decided.

use crate::platform::api::request::JsonBody;
use crate::platform::control::order::named;
use crate::platform::problem::{GroundProblem, Problem};
use crate::platform::service::{Service, act};
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::{Extension, Json};
use jiff::Timestamp;
use oracled_actors::verification::{Dismiss, Resolve, Revoke};
use oracled_domain::Peer;
use oracled_domain::ground::id::{SourceId, WorkflowId};
use oracled_domain::ground::value::Value;
use oracled_domain::verification::Reason;
use oracled_domain::verification::candidate::Stated;
use oracled_domain::verification::request::Claim;
use oracled_domain::verification::review::{Dismissal, Resolution, ReviewState, Revocation};
use oracled_store::{ReviewQuery, Store, StoreError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::task::spawn_blocking;

/// The most reviews in one answer.
pub const LIMIT_MAX: usize = 1000;
/// So many without being asked.
const LIMIT_DEFAULT: usize = 100;
/// So many are read at once: each holds all that was answered.
const AT_ONCE: usize = 64;
/// With so many bytes an answer has enough of them, and it is for the caller to go on.
const PAGE_BYTES: usize = 8 << 20;
/// After so many that are of other workflows it is for the caller to go on.
const LOOKED_AT_MAX: usize = 10_000;
/// Of a review's id that is not known so much is told, in characters.
const TOLD_MAX_CHARS: usize = 80;

/// Which reviews.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// Only those that nobody has resolved or dismissed yet: so it is without being asked.
    open: Option<bool>,
    /// Only those of this workflow.
    workflow: Option<WorkflowId>,
    /// Only those before this one.
    before: Option<String>,
    /// How many at the most.
    limit: Option<usize>,
}

/// Reviews, the newest first.
#[derive(Debug, Serialize, Deserialize)]
pub struct Page {
    /// The reviews.
    pub reviews: Vec<Listed>,
    /// Before which id to go on; null where there are no more.
    pub next: Option<String>,
}

/// A review, without what was answered.
#[derive(Debug, Serialize, Deserialize)]
pub struct Listed {
    /// Its name: that of the decision that it comes of.
    pub review_id: String,
    /// In which workflow.
    pub workflow_id: WorkflowId,
    /// Of which thing.
    #[serde(rename = "where")]
    pub thing: BTreeMap<String, Value>,
    /// Of its state at which time; of the present one where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub point_in_time: Option<Timestamp>,
    /// The time by which the data was known; `None` for all that is known now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_at: Option<Timestamp>,
    /// The axes to decide, each with the reasons.
    pub axes: BTreeMap<String, BTreeSet<Reason>>,
    /// What each source says on those axes.
    pub said: BTreeMap<SourceId, BTreeMap<String, Stated>>,
    /// What somebody claims on them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub claimed: BTreeMap<String, Claim>,
    /// Since when.
    pub opened_at: Timestamp,
    /// Who has resolved it; nothing where it is open or dismissed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_by: Option<String>,
    /// When they did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_at: Option<Timestamp>,
    /// When that was taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
    /// Who has closed it without deciding anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dismissed_by: Option<String>,
    /// When they did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dismissed_at: Option<Timestamp>,
}

impl From<ReviewState> for Listed {
    fn from(ReviewState { review, resolved, revoked, dismissed }: ReviewState) -> Self {
        let axes = review.axes;
        let said = review.candidates.into_iter().map(|(oracle_id, mut candidate)| {
            candidate.values.retain(|path, _| axes.contains_key(path));
            (oracle_id, candidate.values)
        });
        let said = said.filter(|(_, values)| !values.is_empty()).collect();
        let mut claimed = review.claimed;
        claimed.retain(|path, _| axes.contains_key(path));
        Self {
            review_id: review.review_id,
            workflow_id: review.workflow_id,
            thing: review.thing,
            point_in_time: review.point_in_time,
            known_at: review.known_at,
            axes,
            said,
            claimed,
            opened_at: review.opened_at,
            resolved_at: resolved.as_ref().map(|resolved| resolved.resolved_at),
            revoked_at: revoked.map(|revoked| revoked.revoked_at),
            resolved_by: resolved.map(|resolved| resolved.verifier_id),
            dismissed_at: dismissed.as_ref().map(|dismissed| dismissed.dismissed_at),
            dismissed_by: dismissed.map(|dismissed| dismissed.verifier_id),
        }
    }
}

/// The reviews asked for.
///
/// # Errors
/// `InvalidRequest` where the question is not understood.
pub async fn list(
    State(service): State<Arc<Service>>,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Json<Page>, Problem> {
    let Query(asked) = asked.map_err(|error| Problem::InvalidRequest(error.body_text()))?;
    let limit = asked.limit.unwrap_or(LIMIT_DEFAULT);
    if !(1..=LIMIT_MAX).contains(&limit) {
        return Err(Problem::InvalidRequest(format!("`limit` is {limit}; allowed: 1 to {LIMIT_MAX}")));
    }
    let store = service.system.store.clone();
    let page = spawn_blocking(move || page(&store, asked, limit)).await;
    Ok(Json(page.map_err(|error| Problem::Internal(error.to_string()))??))
}

fn page(store: &Store, asked: Asked, limit: usize) -> Result<Page, StoreError> {
    let Asked { open, workflow, before, .. } = asked;
    let mut query = ReviewQuery { open_only: open.unwrap_or(true), before, limit: AT_ONCE };
    let (mut reviews, mut bytes, mut looked_at) = (Vec::new(), 0, 0);
    while looked_at < LOOKED_AT_MAX {
        let found = store.reviews(&query)?;
        let is_last = found.len() < query.limit;
        for state in found {
            if reviews.len() == limit {
                return Ok(Page { reviews, next: query.before });
            }
            looked_at += 1;
            query.before = Some(state.review.review_id.clone());
            let is_asked_for = workflow.as_ref().is_none_or(|id| *id == state.review.workflow_id);
            if is_asked_for {
                let listed = Listed::from(state);
                bytes += serde_json::to_vec(&listed).map_or(0, |json| json.len());
                reviews.push(listed);
            }
            if bytes > PAGE_BYTES {
                return Ok(Page { reviews, next: query.before });
            }
        }
        if is_last {
            return Ok(Page { reviews, next: None });
        }
    }
    Ok(Page { reviews, next: query.before })
}

/// A review, with all that was answered, and what became of it.
///
/// # Errors
/// `ReviewUnknown`.
pub async fn get(
    State(service): State<Arc<Service>>,
    review_id: Result<Path<String>, PathRejection>,
) -> Result<Json<ReviewState>, Problem> {
    let review_id: String = named(review_id)?;
    let known = service.system.store.review(&review_id)?.map(|(state, _)| Json(state));
    known.ok_or_else(|| {
        let told: String = review_id.chars().take(TOLD_MAX_CHARS).collect();
        GroundProblem::ReviewUnknown(format!("no review has the id {told}")).into()
    })
}

/// Resolves a review: what is decided stands above what any source says, for as long as it holds.
///
/// # Errors
/// `ReviewUnknown`, `ReviewResolved`, `ReviewDismissed`, `InvalidResolution`; where the entry cannot be committed, and then nothing changes.
pub async fn resolve(
    State(service): State<Arc<Service>>,
    Extension(peer): Extension<Peer>,
    review_id: Result<Path<String>, PathRejection>,
    body: JsonBody,
) -> Result<Json<ReviewState>, Problem> {
    let verification = service.system.verification.clone();
    spoken_of(review_id, &body, |review_id, resolution: Resolution| async move {
        Ok(verification.ask(Resolve { review_id, resolution, peer }).await??)
    })
    .await
}

/// Takes back what was decided of a review: its locks end now, and the next question is decided anew.
///
/// # Errors
/// `ReviewUnknown`, `ReviewNotInForce`, `ReviewDismissed`, `InvalidResolution`; where the entry cannot be committed, and then nothing changes.
pub async fn revoke(
    State(service): State<Arc<Service>>,
    Extension(peer): Extension<Peer>,
    review_id: Result<Path<String>, PathRejection>,
    body: JsonBody,
) -> Result<Json<ReviewState>, Problem> {
    let verification = service.system.verification.clone();
    spoken_of(review_id, &body, |review_id, revocation: Revocation| async move {
        Ok(verification.ask(Revoke { review_id, revocation, peer }).await??)
    })
    .await
}

/// Closes a review without deciding anything: the next question is decided anew, and may open another.
///
/// # Errors
/// `ReviewUnknown`, `ReviewResolved`, `ReviewDismissed`, `InvalidResolution`; where the entry cannot be committed, and then
/// nothing changes.
pub async fn dismiss(
    State(service): State<Arc<Service>>,
    Extension(peer): Extension<Peer>,
    review_id: Result<Path<String>, PathRejection>,
    body: JsonBody,
) -> Result<Json<ReviewState>, Problem> {
    let verification = service.system.verification.clone();
    spoken_of(review_id, &body, |review_id, dismissal: Dismissal| async move {
        Ok(verification.ask(Dismiss { review_id, dismissal, peer }).await??)
    })
    .await
}

/// The review after what the body says of it is done, though nobody waits for it any more.
async fn spoken_of<W, F>(
    review_id: Result<Path<String>, PathRejection>,
    body: &JsonBody,
    done: impl FnOnce(String, W) -> F,
) -> Result<Json<ReviewState>, Problem>
where
    W: DeserializeOwned,
    F: Future<Output = Result<ReviewState, Problem>> + Send + 'static,
{
    let review_id = named(review_id)?;
    act(done(review_id, body.parse_strictly()?)).await.map(Json)
}
