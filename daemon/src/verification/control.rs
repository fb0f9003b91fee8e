//! Handlers of verification on the control socket and on the socket for reviewers: decisions, and open and decided
//! reviews.

pub(crate) mod inbox;

use self::inbox::title_of;
use crate::platform::api::request::{JsonBody, QueryParams};
use crate::platform::control::{IdentifiedUser, parse_name};
use crate::platform::logged_read::LoggedRead;
use crate::platform::openapi::{JSON_BODY, STORE, problems};
use crate::platform::problem::Problem;
use crate::platform::routes::{Routes, routes};
use crate::platform::service::{DaemonService, run_blocking, run_to_end};
use crate::verification::REVIEW;
use crate::verification::api::read_decisions;
use actors_verification::evidence::{PresentRecord, read_present_records};
use actors_verification::{CommentOnReview, DismissReview, ResolveReview, RevokeResolution};
use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use domain_audit::event::ReadSubject;
use domain_base::document::Document;
use domain_base::page::ListPage;
use domain_base::problem::{FACTS_NOT_HERE, INVALID_REQUEST, SOURCE_DAMAGED};
use domain_base::wording::excerpt;
use domain_ground::problem::{ONTOLOGY_UNKNOWN, REVIEW_REFUSED};
use domain_ground::version_name::{ParseVersionNameError, ReviewRuleName};
use domain_verification::event::VerificationEntry;
use domain_verification::problem::{
    DECISION_ALTERED, EXECUTION_UNKNOWN, INVALID_RESOLUTION, REVIEW_DISMISSED, REVIEW_NOT_IN_FORCE,
    REVIEW_RESOLVED, REVIEW_RULE_MISMATCH, REVIEW_RULE_UNKNOWN, REVIEW_UNKNOWN, TOO_MANY_COMMENTS,
};
use domain_verification::replay::LoggedVerification;
use domain_verification::review::{
    CommentRequest, DismissalRequest, ReviewResolution, ReviewState, RevocationRequest,
};
use domain_verification::review_rule::ReviewRule;
use domain_verification::wire::{
    ExplainResponse, ExplainedDecision, ReviewEvidence, ReviewReport, ReviewRulesParams, ReviewSummary,
    ReviewsParams, RuledReview,
};
use oracled_store::{ReviewQuery, Store, StoreError};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The routes of reviews, on the control socket and on the socket for reviewers.
pub(crate) fn review_routes() -> Routes {
    routes![
        list_reviews,
        list_review_rules,
        read_review,
        read_review_evidence,
        apply_review_rule,
        resolve_review,
        revoke_review,
        dismiss_review,
        comment_on_review
    ]
}

/// The routes of the control socket.
pub(crate) fn routes() -> Routes {
    review_routes().merge(routes![explain_verification])
}

problems!(ExplainProblems: STORE; EXECUTION_UNKNOWN DECISION_ALTERED);

/// Read the decisions of a verification with their inputs, and whether they can be reproduced.
///
/// The entry `operator_read` in the log names the reader.
#[utoipa::path(
    get,
    path = "/v1/executions/{execution_id}",
    operation_id = "explain_verification",
    tag = "verification",
    params(("execution_id" = String, Path, description = "The `execution_id` of the envelope")),
    responses(
        ExplainProblems,
        (status = 200, description = "The decisions, each as it was returned", body = ExplainResponse),
    ),
)]
async fn explain_verification(
    State(service): State<Arc<DaemonService>>,
    read: LoggedRead,
    execution_id: Result<Path<String>, PathRejection>,
) -> Result<Json<ExplainResponse>, Problem> {
    let decisions = read_decisions(&service.system.store, parse_name(execution_id)?, |_| true).await?;
    let mut explained = ExplainResponse { decisions: Vec::new(), erased: Vec::new() };
    for decision in decisions {
        match decision {
            LoggedVerification::Whole(entry) => {
                entry.read_envelope()?;
                let reproduced = entry.is_reproduced();
                let VerificationEntry { inputs, envelope, .. } = *entry;
                explained.decisions.push(ExplainedDecision { inputs, envelope, reproduced });
            }
            LoggedVerification::Erased(erased) => explained.erased.push(erased),
        }
    }
    read.log(&service, ReadSubject::Verification).await?;
    Ok(Json(explained))
}

/// Number of reviews read at a time; each contains all answers.
const AT_ONCE: usize = 64;
/// Length of a page in bytes after which it ends; the caller requests the next page.
const PAGE_BYTES: usize = 8 << 20;
/// Maximum number of reviews scanned for one page; many may belong to other workflows.
const LOOKED_AT_MAX: usize = 10_000;

problems!(ListProblems: STORE);

/// List reviews, the newest first.
#[utoipa::path(
    get,
    path = "/v1/reviews",
    operation_id = "list_reviews",
    tag = "verification",
    params(ReviewsParams),
    responses(
        ListProblems,
        (status = 200, description = "A page of reviews", body = ListPage<ReviewSummary>),
    ),
)]
async fn list_reviews(
    State(service): State<Arc<DaemonService>>,
    QueryParams(params): QueryParams<ReviewsParams>,
) -> Result<Json<ListPage<ReviewSummary>>, Problem> {
    let store = service.system.store.clone();
    Ok(Json(run_blocking(move || read_page(&store, params)).await?))
}

fn read_page(store: &Store, params: ReviewsParams) -> Result<ListPage<ReviewSummary>, StoreError> {
    let ReviewsParams { open, workflow, after, limit } = params;
    let mut query = ReviewQuery { open_only: open, before: after, limit: AT_ONCE };
    let (mut reviews, mut bytes, mut looked_at) = (Vec::new(), 0, 0);
    while looked_at < LOOKED_AT_MAX {
        let found = store.reviews(&query)?;
        let is_last = found.len() < query.limit;
        for state in found {
            if reviews.len() == *limit {
                return Ok(ListPage { items: reviews, next: query.before });
            }
            looked_at += 1;
            query.before = Some(state.review.review_id.clone());
            let is_selected = workflow.as_ref().is_none_or(|id| *id == state.review.workflow_id);
            if is_selected {
                let listed = ReviewSummary::from(state);
                bytes += serde_json::to_vec(&listed).map_or(0, |json| json.len());
                reviews.push(listed);
            }
            if bytes > PAGE_BYTES {
                return Ok(ListPage { items: reviews, next: query.before });
            }
        }
        if is_last {
            return Ok(ListPage { items: reviews, next: None });
        }
    }
    Ok(ListPage { items: reviews, next: query.before })
}

problems!(ReadProblems: STORE; REVIEW_UNKNOWN);

/// Read a review, with all answers and its current state.
#[utoipa::path(
    get,
    path = "/v1/reviews/{review_id}",
    operation_id = "read_review",
    tag = "verification",
    params(("review_id" = String, Path, description = "The id of the review: the execution id of the decision that opened it")),
    responses(
        ReadProblems,
        (status = 200, description = "The review", body = ReviewReport),
    ),
)]
pub async fn read_review(
    State(service): State<Arc<DaemonService>>,
    review_id: Result<Path<String>, PathRejection>,
) -> Result<Json<ReviewReport>, Problem> {
    let (review_id, store) = (parse_name::<String>(review_id)?, service.system.store.clone());
    let report = run_blocking(move || -> Result<_, Problem> {
        let state = find_review(&store, &review_id)?;
        Ok(ReviewReport::new(title_of(&store, &state.review)?, state))
    });
    Ok(Json(report.await?))
}

fn find_review(store: &Store, review_id: &str) -> Result<ReviewState, Problem> {
    store.review(review_id)?.map(|(state, _)| state).ok_or_else(|| {
        let shown_id = excerpt(review_id);
        Problem::new(REVIEW_UNKNOWN, format!("no review has the id {shown_id}"))
    })
}

problems!(ListRulesProblems: STORE);

/// List the review rules, in the order of their ids.
#[utoipa::path(
    get,
    path = "/v1/review-rules",
    operation_id = "list_review_rules",
    tag = "verification",
    params(ReviewRulesParams),
    responses(
        ListRulesProblems,
        (status = 200, description = "A page of rules", body = ListPage<ReviewRule>),
    ),
)]
async fn list_review_rules(
    State(service): State<Arc<DaemonService>>,
    QueryParams(params): QueryParams<ReviewRulesParams>,
) -> Result<Json<ListPage<ReviewRule>>, Problem> {
    let store = service.system.store.clone();
    Ok(Json(run_blocking(move || read_rules(&store, &params)).await?))
}

fn read_rules(
    store: &Store,
    ReviewRulesParams { after, limit }: &ReviewRulesParams,
) -> Result<ListPage<ReviewRule>, StoreError> {
    let registered = store.all_registered::<ReviewRule>()?;
    let mut rules: Vec<_> = registered.into_iter().map(|registered| registered.document).collect();
    rules.sort_by_key(Document::document_id);
    rules.retain(|rule| after.as_ref().is_none_or(|after| rule.document_id() > *after));
    Ok(ListPage::from_items(rules, **limit, Document::document_id))
}

problems!(RuledProblems: STORE; REVIEW_UNKNOWN REVIEW_RESOLVED REVIEW_DISMISSED REVIEW_RULE_UNKNOWN ONTOLOGY_UNKNOWN REVIEW_REFUSED SOURCE_DAMAGED FACTS_NOT_HERE);

/// Read what a review rule gives for an open review: a resolution, or why the rule does not apply.
///
/// The review is not changed. The answers of ingested sources are compared with their present ones.
#[utoipa::path(
    get,
    path = "/v1/reviews/{review_id}/rules/{rule}",
    operation_id = "apply_review_rule",
    tag = "verification",
    params(
        ("review_id" = String, Path, description = "The id of the review: the execution id of the decision that opened it"),
        ("rule" = String, Path, description = "The rule: `ID@VERSION`, or `ID` for the newest version"),
    ),
    responses(
        RuledProblems,
        (status = 200, description = "The resolution by the rule, or why it does not apply", body = RuledReview),
    ),
)]
async fn apply_review_rule(
    State(service): State<Arc<DaemonService>>,
    path: Result<Path<(String, String)>, PathRejection>,
) -> Result<Json<RuledReview>, Problem> {
    let Path((review_id, rule)) = path.map_err(|error| Problem::new(INVALID_REQUEST, error.body_text()))?;
    let invalid = |error: ParseVersionNameError| Problem::new(INVALID_REQUEST, error.to_string());
    let rule: ReviewRuleName = rule.parse().map_err(invalid)?;
    Ok(Json(service.system.verification.apply_rule(&review_id, &rule).await?))
}

problems!(ResolveProblems: JSON_BODY REVIEW STORE; ONTOLOGY_UNKNOWN REVIEW_REFUSED REVIEW_RULE_UNKNOWN REVIEW_RULE_MISMATCH SOURCE_DAMAGED FACTS_NOT_HERE);

/// Resolve a review.
///
/// Its values override all sources, as long as they are valid. With a `rule`, the resolution must be the one that the rule gives, and the
/// answers of ingested sources must be the present ones.
#[utoipa::path(
    post,
    path = "/v1/reviews/{review_id}/resolve",
    operation_id = "resolve_review",
    tag = "verification",
    params(("review_id" = String, Path, description = "The id of the review: the execution id of the decision that opened it")),
    request_body = ReviewResolution,
    responses(
        ResolveProblems,
        (status = 200, description = "The new state of the review", body = ReviewState),
    ),
)]
async fn resolve_review(
    State(service): State<Arc<DaemonService>>,
    IdentifiedUser(user): IdentifiedUser,
    review_id: Result<Path<String>, PathRejection>,
    body: JsonBody,
) -> Result<Json<ReviewState>, Problem> {
    let verification = service.system.verification.clone();
    decide_review(review_id, &body, |review_id, resolution: ReviewResolution| async move {
        Ok(verification.resolve(&ResolveReview { review_id, resolution, user }).await?)
    })
    .await
}

problems!(RevokeProblems: JSON_BODY STORE; INVALID_RESOLUTION REVIEW_UNKNOWN REVIEW_NOT_IN_FORCE REVIEW_DISMISSED);

/// Revoke the resolution of a review.
///
/// Its locks end now, and the next question is decided again.
#[utoipa::path(
    post,
    path = "/v1/reviews/{review_id}/revoke",
    operation_id = "revoke_review",
    tag = "verification",
    params(("review_id" = String, Path, description = "The id of the review: the execution id of the decision that opened it")),
    request_body = RevocationRequest,
    responses(
        RevokeProblems,
        (status = 200, description = "The new state of the review", body = ReviewState),
    ),
)]
async fn revoke_review(
    State(service): State<Arc<DaemonService>>,
    IdentifiedUser(user): IdentifiedUser,
    review_id: Result<Path<String>, PathRejection>,
    body: JsonBody,
) -> Result<Json<ReviewState>, Problem> {
    let verification = service.system.verification.clone();
    decide_review(review_id, &body, |review_id, revocation: RevocationRequest| async move {
        Ok(verification.revoke(&RevokeResolution { review_id, revocation, user }).await?)
    })
    .await
}

problems!(DismissProblems: JSON_BODY REVIEW STORE);

/// Dismiss a review without a decision.
///
/// The next question is decided again, and may open another review.
#[utoipa::path(
    post,
    path = "/v1/reviews/{review_id}/dismiss",
    operation_id = "dismiss_review",
    tag = "verification",
    params(("review_id" = String, Path, description = "The id of the review: the execution id of the decision that opened it")),
    request_body = DismissalRequest,
    responses(
        DismissProblems,
        (status = 200, description = "The new state of the review", body = ReviewState),
    ),
)]
async fn dismiss_review(
    State(service): State<Arc<DaemonService>>,
    IdentifiedUser(user): IdentifiedUser,
    review_id: Result<Path<String>, PathRejection>,
    body: JsonBody,
) -> Result<Json<ReviewState>, Problem> {
    let verification = service.system.verification.clone();
    decide_review(review_id, &body, |review_id, dismissal: DismissalRequest| async move {
        Ok(verification.dismiss(&DismissReview { review_id, dismissal, user }).await?)
    })
    .await
}

problems!(CommentProblems: JSON_BODY STORE; REVIEW_UNKNOWN TOO_MANY_COMMENTS);

/// Comment on a review.
///
/// An open and a closed review can have comments. A comment changes nothing else.
#[utoipa::path(
    post,
    path = "/v1/reviews/{review_id}/comments",
    operation_id = "comment_on_review",
    tag = "verification",
    params(("review_id" = String, Path, description = "The id of the review: the execution id of the decision that opened it")),
    request_body = CommentRequest,
    responses(
        CommentProblems,
        (status = 200, description = "The review with the comment", body = ReviewState),
    ),
)]
async fn comment_on_review(
    State(service): State<Arc<DaemonService>>,
    IdentifiedUser(user): IdentifiedUser,
    review_id: Result<Path<String>, PathRejection>,
    body: JsonBody,
) -> Result<Json<ReviewState>, Problem> {
    let verification = service.system.verification.clone();
    decide_review(review_id, &body, |review_id, comment: CommentRequest| async move {
        Ok(verification.comment(&CommentOnReview { review_id, comment, user }).await?)
    })
    .await
}

/// Runs an operator's decision to its end, even if the caller disconnects. Returns the new state of the review.
async fn decide_review<W, F>(
    review_id: Result<Path<String>, PathRejection>,
    body: &JsonBody,
    done: impl FnOnce(String, W) -> F,
) -> Result<Json<ReviewState>, Problem>
where
    W: DeserializeOwned,
    F: Future<Output = Result<ReviewState, Problem>> + Send + 'static,
{
    let review_id = parse_name(review_id)?;
    run_to_end(done(review_id, body.parse_strictly()?)).await.map(Json)
}

problems!(EvidenceProblems: STORE; REVIEW_UNKNOWN SOURCE_DAMAGED FACTS_NOT_HERE);

/// Read the units and the raw records of a review, and answers that have changed since.
///
/// The entry `operator_read` in the log names the reader of raw records.
#[utoipa::path(
    get,
    path = "/v1/reviews/{review_id}/evidence",
    operation_id = "read_review_evidence",
    tag = "verification",
    params(("review_id" = String, Path, description = "The id of the review: the execution id of the decision that opened it")),
    responses(
        EvidenceProblems,
        (status = 200, description = "The units of the axes to decide, the texts of the raw records, and the answers that have changed", body = ReviewEvidence),
    ),
)]
async fn read_review_evidence(
    State(service): State<Arc<DaemonService>>,
    read: LoggedRead,
    review_id: Result<Path<String>, PathRejection>,
) -> Result<Json<ReviewEvidence>, Problem> {
    let (review_id, store, now) =
        (parse_name::<String>(review_id)?, service.system.store.clone(), service.system.clock.now());
    let evidence = run_blocking(move || -> Result<_, Problem> {
        let ReviewState { review, .. } = find_review(&store, &review_id)?;
        let ontology = store.ontology(&review.ontology)?;
        let unit = |path: &String| Some((path.clone(), ontology.as_ref()?.axis(path)?.unit.clone()?));
        let mut raw_texts = BTreeMap::new();
        for (oracle_id, candidate) in &review.candidates {
            let Some(provenance) = &candidate.provenance else { continue };
            let raw = &provenance.raw;
            let texts = store.raw_texts(oracle_id, &raw.raw_sha256, [(raw.offset, raw.len)])?;
            raw_texts.extend(texts.into_iter().map(|text| (oracle_id.clone(), text)));
        }
        let changed = |(oracle_id, record)| match record {
            PresentRecord::Changed(answer) => Some((oracle_id, answer)),
            PresentRecord::Same | PresentRecord::Confirmed => None,
        };
        let changed = read_present_records(&store, &review, now)?.into_iter().filter_map(changed).collect();
        let title = title_of(&store, &review)?;
        Ok(ReviewEvidence { title, units: review.axes.keys().filter_map(unit).collect(), raw_texts, changed })
    });
    let evidence = evidence.await?;
    if !evidence.raw_texts.is_empty() {
        read.log(&service, ReadSubject::RawRecord).await?;
    }
    Ok(Json(evidence))
}
