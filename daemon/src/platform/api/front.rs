//! The part of each request before and after its handler: a request id, its trace, limits on headers and time, a response
//! even if the handler panics, the rest of the body, and its record in the access log.

use super::body::lend_body;
use crate::platform::access_log::{AccessLog, RecordedBody, RequestTrace};
use crate::platform::config::LimitsSection;
use crate::platform::problem::{Problem, show_state_dir};
use crate::platform::service::{Applications, count_request_panic};
use actors_platform::caller::{CallerWaitCheck, run_as_caller};
use axum::Router;
use axum::response::{IntoResponse, Response};
use domain_base::caller::{CallerSocket, PeerCredentials, REQUEST_ID_MAX_CHARS, RequestCaller, TraceParent};
use domain_base::problem::{HEADERS_TOO_LARGE, INTERNAL_ERROR};
use hyper::Request;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderMap, HeaderName, HeaderValue};
use std::convert::Infallible;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::Poll;
use std::time::Duration;
use tokio::time::timeout;
use tower::Service as _;

/// The header with a request's id, in requests and responses.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The header of each response in test mode.
pub(crate) const TEST_MODE: HeaderName = HeaderName::from_static("x-oracled-test-mode");

/// The header with the trace of a request (W3C Trace Context).
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// A new request id, unique within this process.
pub(crate) fn new_request_id() -> String {
    static IDS: AtomicU64 = AtomicU64::new(1);
    // `process::id` is a system call
    static PROCESS: LazyLock<u32> = LazyLock::new(process::id);
    format!("{:x}-{:x}", *PROCESS, IDS.fetch_add(1, Ordering::Relaxed))
}

/// The front of one socket.
#[derive(Debug, Clone)]
pub struct SocketFrontend {
    router: Router,
    shared: Arc<RequestLimits>,
    /// This host of a cluster.
    host: Option<String>,
    /// The socket, if callers name it.
    socket: Option<CallerSocket>,
    /// `None` if callers belong to no application.
    applications: Option<Arc<Applications>>,
    is_unhurried: fn(&Request<Incoming>) -> bool,
    is_test: bool,
    access_log: Arc<AccessLog>,
}

#[derive(Debug)]
struct RequestLimits {
    headers: usize,
    header_bytes: usize,
    request_s: u64,
}

impl SocketFrontend {
    /// The front before `router`. In a cluster, `host` is the name of this host.
    #[must_use]
    pub fn new(
        router: Router,
        limits: &LimitsSection,
        host: Option<String>,
        access_log: Arc<AccessLog>,
    ) -> Self {
        let LimitsSection { headers, header_bytes, request_s, .. } = *limits;
        let shared = Arc::new(RequestLimits { headers, header_bytes, request_s });
        let is_unhurried = |_: &Request<Incoming>| false;
        let is_test = false;
        Self { router, shared, host, socket: None, applications: None, is_unhurried, is_test, access_log }
    }

    /// The same, without a time limit for requests for which `is_unhurried` returns true.
    #[must_use]
    pub fn without_time_limit_for(self, is_unhurried: fn(&Request<Incoming>) -> bool) -> Self {
        Self { is_unhurried, ..self }
    }

    /// The same, whose responses say whether the daemon is in test mode.
    #[must_use]
    pub fn in_test_mode(self, is_test: bool) -> Self {
        Self { is_test, ..self }
    }

    /// The same for callers that belong to these applications.
    #[must_use]
    pub fn for_applications(self, applications: Applications) -> Self {
        Self { applications: Some(Arc::new(applications)), ..self }
    }

    /// The same for the socket for reviewers.
    #[must_use]
    pub fn for_reviewers(self) -> Self {
        Self { socket: Some(CallerSocket::Review), ..self }
    }

    /// Answers one request.
    pub async fn answer(
        mut self,
        mut request: Request<Incoming>,
        peer: PeerCredentials,
        still_waiting: CallerWaitCheck,
    ) -> Result<Response<RecordedBody>, Infallible> {
        let id = RequestLimits::request_id_for(request.headers());
        let trace = RequestTrace::begin(read_traceparent(request.headers()));
        let context = trace.context();
        let mut record = self.access_log.begin(&mut request, peer, id.clone(), trace);
        let max_s = (!(self.is_unhurried)(&request)).then_some(self.shared.request_s);
        let (mut request, returned_body) = lend_body(request);
        let mut response = match self.shared.check_headers(request.headers()) {
            Err(problem) => {
                drop(request);
                problem.into_response()
            }
            Ok(()) => {
                request.extensions_mut().insert(peer);
                request.extensions_mut().insert(still_waiting);
                let applications = self.applications.as_deref();
                let application = applications.and_then(|all| all.of_peer(peer));
                if let Some(application) = application.clone() {
                    request.extensions_mut().insert(application);
                }
                record.set_application(application.clone());
                // an id is visible ASCII
                let request_id = id.to_str().unwrap_or_default().to_owned();
                let caller = RequestCaller {
                    peer,
                    owner_uid: applications.and_then(|all| all.owner_uid(peer)),
                    socket: self.socket,
                    host: self.host.take(),
                    application,
                    request_id,
                    is_trace_sampled: context.as_ref().is_some_and(|trace| trace.is_sampled),
                    trace_id: context.as_ref().map(|trace| trace.trace_id.clone()),
                };
                let is_operator = self.applications.is_none() && self.socket.is_none();
                let handled = run_as_caller(caller, context, self.router.call(request));
                run_within_limit(max_s, show_state_dir(is_operator, handled)).await
            }
        };
        if !returned_body.discard().await {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response.headers_mut().insert(REQUEST_ID, id);
        if self.is_test {
            response.headers_mut().insert(TEST_MODE, HeaderValue::from_static("true"));
        }
        Ok(record.wrap_response(response))
    }
}

/// The trace of a request; `None` without exactly one valid `traceparent`.
fn read_traceparent(headers: &HeaderMap) -> Option<TraceParent> {
    let mut values = headers.get_all(TRACEPARENT).into_iter();
    let value = values.next().filter(|_| values.next().is_none())?;
    TraceParent::parse(value.to_str().ok()?)
}

impl RequestLimits {
    /// The caller's own id if it is usable, else a new one.
    fn request_id_for(headers: &HeaderMap) -> HeaderValue {
        let usable = |id: &&HeaderValue| {
            (1..=REQUEST_ID_MAX_CHARS).contains(&id.len()) && id.as_bytes().iter().all(u8::is_ascii_graphic)
        };
        headers.get(REQUEST_ID).filter(usable).cloned().unwrap_or_else(|| {
            HeaderValue::try_from(new_request_id()).expect("hexadecimal digits are allowed in a header")
        })
    }

    fn check_headers(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        if headers.len() <= self.headers && bytes <= self.header_bytes {
            return Ok(());
        }
        let detail = format!(
            "the request has {} headers of {bytes} bytes; at most {} headers of {} bytes are allowed",
            headers.len(),
            self.headers,
            self.header_bytes
        );
        Err(Problem::new(HEADERS_TOO_LARGE, detail))
    }
}

/// Runs a handler, within its time limit if it has one.
async fn run_within_limit<E>(
    max_s: Option<u64>,
    handled: impl Future<Output = Result<Response, E>>,
) -> Response {
    let time = max_s.map_or(Duration::MAX, Duration::from_secs);
    match timeout(time, catch_panic(handled)).await {
        Ok(Ok(Ok(response))) => response,
        // the router's error type has no values; the panic hook has logged the panic
        Ok(Ok(Err(_)) | Err(HandlerPanic)) => {
            count_request_panic();
            Problem::new(INTERNAL_ERROR, "the handler panicked").into_response()
        }
        Err(_) => Problem::request_timeout(time).into_response(),
    }
}

/// A future panicked.
struct HandlerPanic;

/// Drives `future` to its end, which may be a panic.
async fn catch_panic<T>(future: impl Future<Output = T>) -> Result<T, HandlerPanic> {
    let mut future = pin!(future);
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(polled) => polled.map(Ok),
        Err(_) => Poll::Ready(Err(HandlerPanic)),
    })
    .await
}
