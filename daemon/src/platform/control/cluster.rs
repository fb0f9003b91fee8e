//! The cluster on the control socket.

use super::{log_control_action, parse_name};
use crate::platform::api::request::JsonBody;
use crate::platform::cluster::{ClusterMember, MembershipCall};
use crate::platform::openapi::{JSON_BODY, STORE, problems};
use crate::platform::problem::Problem;
use crate::platform::routes::{Routes, routes};
use crate::platform::service::{DaemonService, run_to_end};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use domain_base::caller::PeerCredentials;
use domain_base::cluster::{ClusterHostRemoved, ClusterLeaveRequest, ClusterReport};
use domain_base::problem::{
    HOST_UNKNOWN, INVALID_REQUEST, NOT_IN_CLUSTER, OTHER_HOSTS_LIVE, STORAGE_UNAVAILABLE,
};
use oracled_store::ClusterMarker;
use std::sync::Arc;
use tokio::sync::oneshot;

/// The routes of the control socket.
pub(crate) fn routes() -> Routes {
    routes![read_cluster, remove_host, leave_cluster]
}

impl DaemonService {
    fn member(&self) -> Result<&ClusterMember, Problem> {
        self.cluster.as_ref().ok_or_else(not_in_cluster)
    }
}

fn not_in_cluster() -> Problem {
    Problem::new(NOT_IN_CLUSTER, "this daemon is the only host of its log: `cluster.host` is not set")
}

problems!(ReadClusterProblems: ; NOT_IN_CLUSTER);

/// Read the cluster, as this host sees it.
#[utoipa::path(
    get,
    path = "/v1/cluster",
    operation_id = "read_cluster",
    tag = "platform",
    responses(
        ReadClusterProblems,
        (status = 200, description = "The hosts of the cluster", body = ClusterReport),
    ),
)]
async fn read_cluster(State(service): State<Arc<DaemonService>>) -> Result<Json<ClusterReport>, Problem> {
    service.cluster_report().await.map(Json).ok_or_else(not_in_cluster)
}

problems!(RemoveProblems: STORE; INVALID_REQUEST NOT_IN_CLUSTER HOST_UNKNOWN);

/// Remove another host from the cluster.
///
/// It cannot write to the shared log from then on, and its daemon ends. It can join again.
#[utoipa::path(
    delete,
    path = "/v1/cluster/hosts/{host}",
    operation_id = "remove_cluster_host",
    tag = "platform",
    params(("host" = String, Path)),
    responses(
        RemoveProblems,
        (status = 200, description = "The host is removed", body = ClusterHostRemoved),
    ),
)]
async fn remove_host(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    host: Result<Path<String>, PathRejection>,
) -> Result<Json<ClusterHostRemoved>, Problem> {
    let host: String = parse_name(host)?;
    if host == service.member()?.host {
        let detail = format!("{host} is this host itself; use `oraclectl cluster leave`");
        return Err(Problem::new(INVALID_REQUEST, detail));
    }
    run_to_end(async move {
        let _guard = service.lock_control().await;
        let action = format!("remove {host}");
        log_control_action(&service, "cluster", action.clone(), Some(peer)).await?;
        let removed = host.clone();
        let is_removed = call(&service, |reply| MembershipCall::Remove { host: removed, reply }).await?;
        if !is_removed {
            log_control_action(&service, "cluster", format!("{action}: refused"), Some(peer)).await?;
            let detail = format!("the cluster has no host {host}; see `oraclectl cluster status`");
            return Err(Problem::new(HOST_UNKNOWN, detail));
        }
        Ok(Json(ClusterHostRemoved { host }))
    })
    .await
}

problems!(LeaveProblems: JSON_BODY STORE; INVALID_REQUEST NOT_IN_CLUSTER OTHER_HOSTS_LIVE);

/// End the membership of this host in its cluster.
///
/// Its daemon ends. Its store is not started again, except that of the last host, which continues without a cluster.
#[utoipa::path(
    post,
    path = "/v1/cluster/leave",
    operation_id = "leave_cluster",
    tag = "platform",
    extensions(("x-unwaiting" = json!(true))),
    request_body = ClusterLeaveRequest,
    responses(
        LeaveProblems,
        (status = 200, description = "The membership has ended; the cluster as it was before", body = ClusterReport),
    ),
)]
async fn leave_cluster(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    body: JsonBody,
) -> Result<Json<ClusterReport>, Problem> {
    let ClusterLeaveRequest { last: is_last } = body.parse()?;
    service.member()?;
    run_to_end(async move {
        let _guard = service.lock_control().await;
        let detail = if is_last { "leave as the last host" } else { "leave" };
        let marker = ClusterMarker::read(service.system.store.dir())?;
        // after a lost answer, the cluster may have ended, and nothing can be logged
        if !is_last || !matches!(marker, Some(ClusterMarker::Leaving { .. })) {
            log_control_action(&service, "cluster", detail.to_owned(), Some(peer)).await?;
        }
        let report = read_cluster(State(Arc::clone(&service))).await?;
        let has_left = call(&service, |reply| MembershipCall::Leave { is_last, reply }).await?;
        if !has_left {
            log_control_action(&service, "cluster", format!("{detail}: refused"), Some(peer)).await?;
            return Err(if is_last {
                let detail = "another host has neither left nor was removed; `oraclectl cluster status` names it, and `oraclectl cluster remove` \
                              removes one that does not come back";
                Problem::new(OTHER_HOSTS_LIVE, detail)
            } else {
                let detail =
                    "this is the last host of its cluster; leave with `oraclectl cluster leave --last`, which keeps its store in use";
                Problem::new(INVALID_REQUEST, detail)
            });
        }
        // after a failure, the next start finds that the host has left
        let marker = (!is_last).then_some(&ClusterMarker::Left);
        ClusterMarker::write(marker, service.system.store.dir())?;
        Ok(report)
    })
    .await
}

/// Calls the thread of the membership.
async fn call(
    service: &DaemonService,
    call: impl FnOnce(oneshot::Sender<Result<bool, String>>) -> MembershipCall,
) -> Result<bool, Problem> {
    let (reply, answer) = oneshot::channel();
    // if the thread has ended, the reply is dropped
    drop(service.member()?.calls.send(call(reply)));
    let answer = answer.await.unwrap_or_else(|_| Err("the membership of this host has ended".to_owned()));
    answer.map_err(|cause| Problem::new(STORAGE_UNAVAILABLE, cause))
}
