//! The global options, and requests to the sockets.

use super::error::CtlError;
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::RETRY_AFTER;
use hyper::{Method, Response};
use oracled_api::base::client::{ClientError, DaemonClient, DaemonResponse, ResponseLines};
use oracled_api::base::directories::DefaultDirectories;
use oracled_api::base::page::{ListPage, PageLimit};
use serde::de::DeserializeOwned;
use std::io::{self, ErrorKind};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The heading of the global options in each help, after the verb's own options.
const HEADING: &str = "Global options";

/// The variable with the path of the control socket.
const CONTROL_VARIABLE: &str = "ORACLED_CONTROL_SOCKET";

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
        socket_path(self.socket.as_ref(), "ORACLED_SOCKET", "oracled.sock")
    }

    pub fn control_path(&self) -> Result<PathBuf, CtlError> {
        socket_path(self.control_socket.as_ref(), CONTROL_VARIABLE, "control.sock")
    }

    /// The socket for decisions of reviewers: the control socket, or the socket for reviewers if this user may connect to that
    /// one only. A given control socket is always used.
    pub fn reviewer_socket_path(&self) -> Result<PathBuf, CtlError> {
        let control = self.control_path()?;
        if self.control_socket.is_some() || std::env::var_os(CONTROL_VARIABLE).is_some() {
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
fn socket_path(given: Option<&PathBuf>, variable: &str, name: &str) -> Result<PathBuf, CtlError> {
    let set = || std::env::var_os(variable).map(PathBuf::from);
    let path = given.cloned().or_else(set).unwrap_or_else(|| DefaultDirectories::find_socket(name));
    if path.as_os_str().is_empty() {
        // clap rejects an empty option
        let message = format!("`{variable}` is empty; set it to the path of the socket, or unset it");
        return Err(CtlError::Usage(message));
    }
    Ok(path)
}

pub async fn call(
    socket: &Path,
    method: Method,
    path: &str,
    body: Option<Bytes>,
) -> Result<DaemonResponse, CtlError> {
    let answer = DaemonClient::connect(socket).await?.call(method, path, body).await?;
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
    CtlError::Problem { detail: text("detail"), code: text("code"), status, retry_after, document }
}

/// One segment of a path. Every character that could end it is percent-encoded.
pub fn encode_segment(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
