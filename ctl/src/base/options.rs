//! The global options, and requests to the sockets.

use super::error::{CONTROL_SOCKET, CtlError, DaemonSocket, ROUTES_SOCKET};
use bytes::Bytes;
use clap::builder::{NonEmptyStringValueParser, RangedU64ValueParser};
use domain_base::page::{ListPage, PageLimit};
pub use domain_base::text_form::encode_segment;
use hyper::body::Incoming;
use hyper::header::RETRY_AFTER;
use hyper::{Method, Response};
use oracled_api::client::{ClientError, DaemonClient, DaemonResponse, ResponseLines};
use oracled_api::directories::DefaultDirectories;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::timeout;

/// The heading of the global options in each help, after the verb's own options.
const HEADING: &str = "Global options";

/// The global options.
#[derive(Debug, Clone, clap::Args)]
pub struct GlobalOptions {
    /// The routes' socket [env: ORACLED_SOCKET]
    #[arg(long, global = true, help_heading = HEADING, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// The control socket [env: ORACLED_CONTROL_SOCKET]
    #[arg(long, global = true, help_heading = HEADING, value_name = "PATH")]
    pub control_socket: Option<PathBuf>,
    /// Print JSON, for programs
    #[arg(long, global = true, help_heading = HEADING)]
    pub json: bool,
}

impl GlobalOptions {
    pub fn routes_path(&self) -> Result<PathBuf, CtlError> {
        socket_path(self.socket.as_ref(), &ROUTES_SOCKET)
    }

    pub fn control_path(&self) -> Result<PathBuf, CtlError> {
        socket_path(self.control_socket.as_ref(), &CONTROL_SOCKET)
    }

    /// The socket for decisions of reviewers: the control socket, or the socket for reviewers if this user may connect to that
    /// one only. A given control socket is always used.
    pub fn reviewer_socket_path(&self) -> Result<PathBuf, CtlError> {
        let control = self.control_path()?;
        if self.control_socket.is_some() || std::env::var_os(CONTROL_SOCKET.variable).is_some() {
            return Ok(control);
        }
        Ok(select_socket(control, DefaultDirectories::find_socket("review.sock"), |path| {
            UnixStream::connect(path)
        }))
    }

    pub async fn call_for_reviewer(
        &self,
        method: Method,
        path: &str,
        body: Option<Bytes>,
    ) -> Result<DaemonResponse, CtlError> {
        call(&self.reviewer_socket_path()?, method, path, body).await
    }

    pub async fn call_routes(
        &self,
        method: Method,
        path: &str,
        body: Option<Bytes>,
    ) -> Result<DaemonResponse, CtlError> {
        call(&self.routes_path()?, method, path, body).await
    }

    /// Reads on the control socket, whose reads of texts are in the log, or on the routes' socket if this user may not connect to it.
    pub async fn read_as_operator(&self, path: &str) -> Result<DaemonResponse, CtlError> {
        call(&self.operator_socket_path()?, Method::GET, path, None).await
    }

    /// The socket of [`Self::read_as_operator`].
    pub(crate) fn operator_socket_path(&self) -> Result<PathBuf, CtlError> {
        let control = self.control_path()?;
        if UnixStream::connect(&control).is_ok() { Ok(control) } else { self.routes_path() }
    }

    /// Sends an order on the control socket, and waits for its answer without a time limit.
    pub async fn run_on_control(
        &self,
        path: &str,
        order: &impl serde::Serialize,
    ) -> Result<DaemonResponse, CtlError> {
        let body = serde_json::to_vec(order).map_err(io::Error::from)?;
        let mut client = DaemonClient::connect(&self.control_path()?).await?;
        let answer = client.call_without_timeout(Method::POST, path, body.into()).await?;
        if answer.status.is_success() { Ok(answer) } else { Err(problem_error(&answer)) }
    }

    pub async fn call_control(
        &self,
        method: Method,
        path: &str,
        body: Option<Bytes>,
    ) -> Result<DaemonResponse, CtlError> {
        call(&self.control_path()?, method, path, body).await
    }
}

/// `review` if this user may connect to it and not to `control`, else `control`.
fn select_socket<S>(control: PathBuf, review: PathBuf, connect: impl Fn(&Path) -> io::Result<S>) -> PathBuf {
    let is_denied = connect(&control).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied);
    if is_denied && connect(&review).is_ok() { review } else { control }
}

/// The path of a socket: the option, else the environment variable, else systemd's socket if it exists, else
/// the user's own. clap does not get the variable: it would list the option as required in every usage line.
fn socket_path(given: Option<&PathBuf>, socket: &DaemonSocket) -> Result<PathBuf, CtlError> {
    let DaemonSocket { file, variable, .. } = socket;
    let set = || std::env::var_os(variable).map(PathBuf::from);
    let path = given.cloned().or_else(set).unwrap_or_else(|| DefaultDirectories::find_socket(file));
    if path.as_os_str().is_empty() {
        // clap rejects an empty option
        let message = format!("`{variable}` is empty; set it to the path of the socket, or unset it");
        return Err(CtlError::Usage(message));
    }
    Ok(path)
}

tokio::task_local! {
    /// The longest time for each request of this task.
    static REQUEST_MAX: Duration;
}

/// Limits each request of `requests` to this time. All of them together may take longer.
pub(crate) async fn limit_each_request<T>(longest: Duration, requests: impl Future<Output = T>) -> T {
    REQUEST_MAX.scope(longest, requests).await
}

/// The answer to a request, if it comes within the limit of [`limit_each_request`].
pub(crate) async fn within_limit<T>(
    request: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, ClientError> {
    match REQUEST_MAX.try_with(|longest| *longest) {
        Ok(longest) => timeout(longest, request).await.unwrap_or(Err(ClientError::Silent(longest))),
        Err(_) => request.await,
    }
}

pub async fn call(
    socket: &Path,
    method: Method,
    path: &str,
    body: Option<Bytes>,
) -> Result<DaemonResponse, CtlError> {
    let request = async { DaemonClient::connect(socket).await?.call(method, path, body).await };
    let answer = within_limit(request).await?;
    if answer.status.is_success() { Ok(answer) } else { Err(problem_error(&answer)) }
}

/// All items of a list, page by page. `path` has a query.
pub async fn read_pages<T: DeserializeOwned>(socket: &Path, path: &str) -> Result<Vec<T>, CtlError> {
    let (mut items, mut after) = (Vec::new(), String::new());
    loop {
        let path = format!("{path}&limit={}{after}", <PageLimit>::MAX);
        let page: ListPage<T> = call(socket, Method::GET, &path, None).await?.json()?;
        items.extend(page.items);
        let Some(next) = page.next else { return Ok(items) };
        after = format!("&after={}", encode_segment(&next));
    }
}

/// The lines of a successful response, or its problem as an error.
pub async fn response_lines(response: Response<Incoming>) -> Result<ResponseLines, CtlError> {
    if response.status().is_success() {
        return Ok(ResponseLines::new(response.into_body()));
    }
    Err(problem_error(&DaemonResponse::read_whole(response).await?))
}

/// The error in a response without success.
pub fn problem_error(answer: &DaemonResponse) -> CtlError {
    let status = answer.status.as_u16();
    let Ok(document) = answer.json::<serde_json::Value>() else {
        let text = format!("status {status} without a problem document");
        return ClientError::Unreadable(text).into();
    };
    let text =
        |name: &str| document.get(name).and_then(|value| value.as_str()).unwrap_or_default().to_owned();
    let retry_after = answer.headers.get(RETRY_AFTER).and_then(|wait| wait.to_str().ok()?.parse().ok());
    let retry_after = retry_after.map(Duration::from_secs);
    let request_id = answer.headers.get("x-request-id").and_then(|id| Some(id.to_str().ok()?.into()));
    CtlError::Problem {
        detail: text("detail"),
        code: text("code"),
        status,
        retry_after,
        request_id,
        document,
    }
}

/// Parses an id. Rejects an empty one, because the path of the request would then be another one.
pub fn id_parser() -> NonEmptyStringValueParser {
    NonEmptyStringValueParser::new()
}

/// Parses the option `-n`: a number of rows from 1 to `max`.
pub fn limit_parser(max: usize) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=max as u64)
}

/// A value of an axis. The axis decides its type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AxisValueArg {
    pub axis: String,
    pub value: String,
}

/// Parses `AXIS=VALUE`. The value is all text after the first `=`.
pub fn parse_axis_value(text: &str) -> Result<AxisValueArg, String> {
    let (axis, value) =
        text.split_once('=').ok_or("the value has no `=`; write AXIS=VALUE, such as area=ABW")?;
    Ok(AxisValueArg { axis: axis.trim().to_owned(), value: value.trim().to_owned() })
}

/// The values by their axes.
pub fn collect_by_axis(given: &[AxisValueArg]) -> Result<BTreeMap<String, Json>, CtlError> {
    let mut values = BTreeMap::new();
    for AxisValueArg { axis, value } in given {
        if values.insert(axis.clone(), Json::String(value.clone())).is_some() {
            return Err(CtlError::Usage(format!("`{axis}` is given twice; give each axis once")));
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::sleep;

    #[tokio::test(start_paused = true)]
    async fn limit_is_that_of_each_request_and_not_of_all() {
        let longest = Duration::from_secs(5);
        let answer = |after_ms| {
            within_limit(async move {
                sleep(Duration::from_millis(after_ms)).await;
                Ok(())
            })
        };
        let seven = async {
            for _ in 0..7 {
                answer(800).await?;
            }
            Ok::<_, ClientError>(())
        };
        limit_each_request(longest, seven).await.expect("each answer comes within the limit");
        let late = limit_each_request(longest, answer(5_001)).await;
        assert!(matches!(late, Err(ClientError::Silent(after)) if after == longest));
        answer(5_001).await.expect("a request without a limit");
    }

    #[test]
    fn review_socket_is_used_only_if_the_control_socket_is_denied() {
        use ErrorKind::{ConnectionRefused, NotFound, PermissionDenied};
        let [control, review] = ["control", "review"].map(PathBuf::from);
        for (of_control, of_review, expected) in [
            (Ok(()), Ok(()), &control),
            (Err(PermissionDenied), Ok(()), &review),
            (Err(PermissionDenied), Err(NotFound), &control),
            (Err(PermissionDenied), Err(PermissionDenied), &control),
            (Err(NotFound), Ok(()), &control),
            (Err(ConnectionRefused), Ok(()), &control),
        ] {
            let connect = |path: &Path| {
                let result = if path == control { of_control } else { of_review };
                result.map_err(io::Error::from)
            };
            assert_eq!(select_socket(control.clone(), review.clone(), connect), *expected);
        }
    }

    /// The exit code of a command line that is rejected.
    fn exit_code(line: &[&str]) -> Option<i32> {
        let given = [&["oraclectl"], line].concat();
        crate::command().try_get_matches_from(given).err().map(|error| error.exit_code())
    }

    #[test]
    fn empty_id_is_a_usage_error_of_every_verb() {
        for line in [
            &["crosscheck", "-", "--tier=full", "--session"][..],
            &["submit", "--tier=full", "--query=q"],
            &["register", "--tier=full", "--query=q"],
            &["verdict"],
            &["purge"],
            &["session"],
            &["session", "correct", "--customer-email=a@b"],
            &["session", "remove"],
            &["health", "open"],
            &["health", "close"],
            &["health", "probe"],
            &["orders", "--after"],
            &["order", "show"],
            &["order", "retry", "--reason=r"],
            &["order", "fail", "--reason=r"],
            &["order", "cancel", "--reason=r"],
            &["outbox", "--after"],
            &["outbox", "requeue"],
            &["outbox", "drop"],
            &["webhook", "list", "--after"],
            &["webhook", "requeue"],
            &["webhook", "drop"],
            &["log", "--session"],
            &["log", "--execution"],
            &["log", "--request"],
            &["get", "source"],
            &["describe", "source"],
            &["source", "approve"],
            &["source", "deprecate", "--on=2999-01-01"],
            &["source", "invalidate", "--reason=r"],
            &["source", "confirm", "--reason=r"],
            &["source", "verify"],
            &["source", "prune"],
            &["source", "rebuild"],
            &["source", "export"],
            &["ingest", "run", "--version=1", "--released-at=2026-01-01", "--replace"],
            &["ingest", "pull"],
            &["ingest", "list"],
            &["ingest", "show"],
            &["ingest", "cancel"],
            &["ingest", "approve", "--reason=r"],
            &["ingest", "discard", "--reason=r"],
            &["ingest", "undo", "--reason=r"],
            &["rejects"],
            &["query"],
            &["provenance"],
            &["verify", "--axes=a"],
            &["explain"],
            &["review", "list", "--workflow"],
            &["review", "show"],
            &["review", "revoke", "--reason=r"],
            &["review", "dismiss", "--reason=r"],
        ] {
            assert_eq!(exit_code(&[line, &[""]].concat()), Some(2), "{line:?}");
        }
        let resolve = ["review", "resolve", "", "a=1", "--reason=r", "--valid-for=90d"];
        assert_eq!(exit_code(&resolve), Some(2));
        assert_eq!(exit_code(&["review", "dismiss", "v-1", "", "--reason=r"]), Some(2));
    }

    #[test]
    fn limit_of_zero_rows_is_a_usage_error_of_every_verb() {
        for line in [
            &["log"][..],
            &["orders"],
            &["outbox"],
            &["webhook", "list"],
            &["ingest", "list"],
            &["review", "list"],
            &["query", "people"],
            &["rejects", "12345678"],
        ] {
            let with = |limit| exit_code(&[line, &["-n", limit]].concat());
            assert_eq!((with("1"), with("0"), with("many")), (None, Some(2), Some(2)), "{line:?}");
        }
    }

    #[test]
    fn value_extends_to_the_end_and_repeated_axis_is_rejected() {
        let read = |text: &str| parse_axis_value(text).expect("a valid value");
        let values = collect_by_axis(&[read("area = ABW"), read("note=a=b")]).expect("each axis occurs once");
        assert_eq!(
            values,
            [("area".to_owned(), Json::from("ABW")), ("note".to_owned(), Json::from("a=b"))].into()
        );
        assert!(parse_axis_value("area").is_err());
        let twice =
            collect_by_axis(&[read("area=ABW"), read("area=ABW")]).expect_err("the axis occurs twice");
        assert_eq!(
            (twice.to_string().as_str(), twice.exit_code()),
            ("`area` is given twice; give each axis once", 2)
        );
    }
}
