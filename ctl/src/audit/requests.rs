//! Requests about the log on the control socket.

use crate::base::error::CtlError;
use crate::base::options::problem_error;
use domain_audit::checkpoint::LogKey;
use hyper::Method;
use oracled_api::base::client::{ClientError, DaemonClient, DaemonResponse};
use oracled_api::base::service::StatusReport;

pub(super) async fn get(daemon: &mut DaemonClient, path: &str) -> Result<DaemonResponse, CtlError> {
    let answer = daemon.call(Method::GET, path, None).await?;
    if answer.status.is_success() { Ok(answer) } else { Err(problem_error(&answer)) }
}

/// The newest checkpoint; with `is_cosigned` the newest one that a witness has cosigned, if there is one.
pub(super) async fn read_checkpoint(
    daemon: &mut DaemonClient,
    is_cosigned: bool,
) -> Result<String, CtlError> {
    let path = if is_cosigned { "/v1/log/checkpoint?cosigned=1" } else { "/v1/log/checkpoint" };
    let answer = get(daemon, path).await?;
    String::from_utf8(answer.body.to_vec()).map_err(unreadable)
}

pub(super) async fn read_key(daemon: &mut DaemonClient) -> Result<LogKey, CtlError> {
    let answer = get(daemon, "/v1/status").await?;
    answer.json::<StatusReport>()?.log_key.parse().map_err(unreadable)
}

pub(super) fn unreadable(error: impl ToString) -> CtlError {
    ClientError::Unreadable(error.to_string()).into()
}
