//! `/v1/outbox`: the mails that are to be sent, and dead letters.

use crate::platform::api::request::JsonBody;
use crate::platform::control::order::named;
use crate::platform::problem::Problem;
use crate::platform::service::{Service, act};
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::{Extension, Json};
use oracled_actors::verdict::notifier::{DropMail, List, Requeue};
use oracled_domain::verdict::mail::Standing;
use oracled_domain::{MailId, Peer};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The most mails in one answer.
pub const LIMIT_MAX: usize = 1000;
/// So many without being asked.
const LIMIT_DEFAULT: usize = 100;

/// Which mails.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// Only those behind this id.
    after: Option<MailId>,
    /// How many at the most.
    limit: Option<usize>,
    /// Only dead letters.
    dead: Option<bool>,
}

/// Mails in the order of their ids.
#[derive(Debug, Serialize, Deserialize)]
pub struct Page {
    /// The mails.
    pub mails: Vec<Standing>,
    /// Behind which id to go on; null where there are no more.
    pub next: Option<MailId>,
}

/// What to do with a mail.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// `requeue`.
    pub action: Action,
}

/// What can be done with a mail that stays.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Try it anew, as if it had just been queued.
    Requeue,
}

/// The mails asked for.
///
/// # Errors
/// `InvalidRequest` where the question is not understood.
pub async fn get(
    State(service): State<Arc<Service>>,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Json<Page>, Problem> {
    let Query(Asked { after, limit, dead }) =
        asked.map_err(|error| Problem::InvalidRequest(error.body_text()))?;
    let limit = limit.unwrap_or(LIMIT_DEFAULT);
    if !(1..=LIMIT_MAX).contains(&limit) {
        return Err(Problem::InvalidRequest(format!("`limit` is {limit}; allowed: 1 to {LIMIT_MAX}")));
    }
    // one more shows whether there are more
    let list = List { after, limit: limit + 1, dead_only: dead.unwrap_or(false) };
    let mut mails = service.system.notifier.ask(list).await??;
    let more = mails.len() > limit;
    mails.truncate(limit);
    let next = mails.last().filter(|_| more).map(|last| last.mail_id.clone());
    Ok(Json(Page { mails, next }))
}

/// Has a mail tried anew. Answers where it stands.
///
/// # Errors
/// `MailUnknown`, `MailInFlight`; where the audit entry cannot be committed, and then nothing changes.
pub async fn post(
    State(service): State<Arc<Service>>,
    Extension(peer): Extension<Peer>,
    mail_id: Result<Path<String>, PathRejection>,
    body: JsonBody,
) -> Result<Json<Standing>, Problem> {
    let mail_id = named(mail_id)?;
    let Order { action: Action::Requeue } = body.parse()?;
    let notifier = service.system.notifier.clone();
    act(async move { Ok(Json(notifier.ask(Requeue { mail_id, peer }).await??)) }).await
}

/// Takes a mail out unsent. Answers where it stood.
///
/// # Errors
/// `MailUnknown`, `MailInFlight`; where the audit entry cannot be committed, and then nothing changes.
pub async fn delete(
    State(service): State<Arc<Service>>,
    Extension(peer): Extension<Peer>,
    mail_id: Result<Path<String>, PathRejection>,
) -> Result<Json<Standing>, Problem> {
    let mail_id = named(mail_id)?;
    let notifier = service.system.notifier.clone();
    act(async move { Ok(Json(notifier.ask(DropMail { mail_id, peer }).await??)) }).await
}
