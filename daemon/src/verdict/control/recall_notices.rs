//! `/v1/recall-notices`: drafted notices to customers about recalled verdicts.

use crate::platform::api::request::{JsonBody, PathSessionId, QueryParams};
use crate::platform::control::{IdentifiedUser, check_reason};
use crate::platform::openapi::{JSON_BODY, SESSION, STORE, problems};
use crate::platform::problem::Problem;
use crate::platform::service::{DaemonService, run_blocking, run_to_end};
use actors_verdict::recall::{DecideNotice, NoticePreview, RecallNoticeError};
use axum::extract::State;
use axum::{Extension, Json};
use domain_base::caller::PeerCredentials;
use domain_base::page::ListPage;
use domain_base::problem::{INTERNAL_ERROR, INVALID_REQUEST};
use domain_base::session_id::SessionId;
use domain_verdict::problem::{RECALL_NOTICE_CHANGED, RECALL_NOTICE_UNKNOWN, RECALL_NOTICE_UNSENDABLE};
use domain_verdict::recall_notice::RecallNoticeAction;
use domain_verdict::wire::{
    DecidedRecallNotice, RecallNoticeReport, RecallNoticeRequest, RecallNoticeSummary, RecallNoticesParams,
};
use oracled_store::StoreError;
use std::sync::Arc;

problems!(ListProblems: STORE);

/// List the drafted notices about recalled verdicts, by session.
#[utoipa::path(
    get,
    path = "/v1/recall-notices",
    operation_id = "list_recall_notices",
    tag = "verdict",
    params(RecallNoticesParams),
    responses(
        ListProblems,
        (status = 200, description = "A page of notices", body = ListPage<RecallNoticeSummary>),
    ),
)]
pub async fn list_notices(
    State(service): State<Arc<DaemonService>>,
    QueryParams(params): QueryParams<RecallNoticesParams>,
) -> Result<Json<ListPage<RecallNoticeSummary>>, Problem> {
    let RecallNoticesParams { after, session, limit } = params;
    let store = service.system.store.clone();
    let listed = run_blocking(move || {
        if let Some(session_id) = session {
            let notice = store.recall_notice(&session_id)?;
            return Ok(notice.iter().map(|(notice, _)| RecallNoticeSummary::of(notice)).collect());
        }
        let mut notices = Vec::new();
        store.visit_recall_notices(after.as_ref(), |notice, _| {
            notices.push(RecallNoticeSummary::of(&notice));
            notices.len() <= *limit
        })?;
        Ok::<_, StoreError>(notices)
    });
    Ok(Json(ListPage::from_items(listed.await?, *limit, |notice| notice.session_id.to_string())))
}

problems!(ReadProblems: SESSION STORE; RECALL_NOTICE_UNKNOWN RECALL_NOTICE_CHANGED);

/// Read a drafted notice with the mail that the customer would get.
///
/// The entry `recall_notice_read` in the log names the reader.
#[utoipa::path(
    get,
    path = "/v1/recall-notices/{session_id}",
    operation_id = "read_recall_notice",
    tag = "verdict",
    params(("session_id" = SessionId, Path)),
    responses(
        ReadProblems,
        (status = 200, description = "The notice", body = RecallNoticeReport),
    ),
)]
pub async fn read_notice(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    PathSessionId(session_id): PathSessionId,
) -> Result<Json<RecallNoticeReport>, Problem> {
    let recalls = service.system.recalls.clone();
    let read = run_to_end(async move { Ok(recalls.read_notice(session_id, peer).await?) });
    let NoticePreview { notice, mail, fault } = read.await?;
    Ok(Json(RecallNoticeReport { notice, mail, fault }))
}

problems!(DecideProblems: JSON_BODY SESSION STORE; RECALL_NOTICE_UNKNOWN RECALL_NOTICE_CHANGED RECALL_NOTICE_UNSENDABLE);

/// Release or discard a drafted notice.
///
/// A released notice is queued as a mail to the present address of the session.
#[utoipa::path(
    post,
    path = "/v1/recall-notices/{session_id}",
    operation_id = "decide_recall_notice",
    tag = "verdict",
    params(("session_id" = SessionId, Path)),
    request_body = RecallNoticeRequest,
    responses(
        DecideProblems,
        (status = 200, description = "The decision", body = DecidedRecallNotice),
    ),
)]
pub async fn decide_notice(
    State(service): State<Arc<DaemonService>>,
    IdentifiedUser(user): IdentifiedUser,
    PathSessionId(session_id): PathSessionId,
    body: JsonBody,
) -> Result<Json<DecidedRecallNotice>, Problem> {
    let RecallNoticeRequest { action, reason, drafted_at } = body.parse()?;
    check_reason(&reason)?;
    if action == RecallNoticeAction::Release && drafted_at.is_none() {
        let detail = "a release must have the `drafted_at` of the notice that was read";
        return Err(Problem::new(INVALID_REQUEST, detail.to_owned()));
    }
    let recalls = service.system.recalls.clone();
    let decision = DecideNotice { session_id: session_id.clone(), action, reason, drafted_at, user };
    let mail_id = run_to_end(async move { Ok(recalls.decide_notice(decision).await?) }).await?;
    Ok(Json(DecidedRecallNotice { session_id, action, mail_id }))
}

impl From<RecallNoticeError> for Problem {
    fn from(error: RecallNoticeError) -> Self {
        let code = match error {
            RecallNoticeError::Store(error) => return error.into(),
            RecallNoticeError::Commit(error) => return error.into(),
            RecallNoticeError::Withdrawal(error) => return error.into(),
            RecallNoticeError::Unknown(_) => RECALL_NOTICE_UNKNOWN,
            RecallNoticeError::Changed(_) => RECALL_NOTICE_CHANGED,
            RecallNoticeError::NoMailService
            | RecallNoticeError::NoAddress(_)
            | RecallNoticeError::NoVerdict(_)
            | RecallNoticeError::Content(_) => RECALL_NOTICE_UNSENDABLE,
            RecallNoticeError::Task(_) => INTERNAL_ERROR,
        };
        Self::new(code, error.to_string())
    }
}
