//! An HTTP client for one upstream. Requests have a timeout and answers a size limit. The client follows no
//! redirects, uses no proxies and does not retry.

use super::failure::{RequestFailure, RequestFailureKind, retry_after, retry_after_ms};
use crate::add_traceparent;
use crate::failure::ReportedError;
use actors_platform::clock::{Clock, monotonic};
use bytes::{Bytes, BytesMut};
use domain_base::text_form::visible_line;
use domain_base::upstream_text::UpstreamText;
use nix::errno::Errno;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Client, ClientBuilder, RequestBuilder, Response, StatusCode, Url, redirect, retry};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use serde_json::Value;
use std::error::Error;
use std::io;
use std::time::Duration;
use tokio::time::timeout;

/// Default limit for the body of an answer, in bytes.
pub const BODY_MAX_BYTES: usize = 4 << 20;
/// Timeout for opening a connection.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Headers that have the wait in milliseconds. They are more exact than `Retry-After`.
const RETRY_AFTER_MS: [&str; 2] = ["retry-after-ms", "x-ms-retry-after-ms"];
/// Texts from an upstream are cut to this many characters.
const UPSTREAM_TEXT_MAX_CHARS: usize = 200;

/// Why an endpoint cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamEndpointError {
    /// The base is not a URL.
    #[error("the base is not a URL: {0}")]
    NotUrl(String),
    /// The base is a URL, but no path can be appended to it.
    #[error(
        "not a base URL (allowed: http:// or https:// with a host, without a user, password, query or fragment)"
    )]
    NotBase,
    /// The key does not fit into a header.
    #[error("the key does not fit into a header (allowed: one or more visible ASCII characters)")]
    BadKey,
    /// The text is not a header.
    #[error("not a header (allowed: `NAME: VALUE`, whose value can begin with a scheme such as `Bearer`)")]
    BadHeader,
    /// The HTTP client cannot be created, for example because the system has no certificates.
    #[error("could not create the HTTP client: {0}")]
    Client(String),
}

/// A secret in a header, by which the daemon authenticates.
#[derive(Debug, Clone)]
pub struct HeaderKey {
    name: HeaderName,
    value: HeaderValue,
    secret: SecretString,
}

impl HeaderKey {
    /// Creates a key that is sent in the header `name`, without a scheme.
    ///
    /// # Errors
    /// If `secret` does not fit into a header.
    pub fn in_header(name: HeaderName, secret: SecretString) -> Result<Self, UpstreamEndpointError> {
        Self::new(name, "", secret)
    }

    /// Creates a bearer token for the `Authorization` header.
    ///
    /// # Errors
    /// If `secret` does not fit into a header.
    pub fn bearer(secret: SecretString) -> Result<Self, UpstreamEndpointError> {
        Self::new(AUTHORIZATION, "Bearer ", secret)
    }

    /// Creates a key from the header `NAME: VALUE`. The value can begin with a scheme and a space.
    ///
    /// # Errors
    /// If `line` is not such a header.
    pub fn from_line(line: &SecretString) -> Result<Self, UpstreamEndpointError> {
        let (name, value) = line.expose_secret().split_once(':').ok_or(UpstreamEndpointError::BadHeader)?;
        let name = HeaderName::try_from(name.trim()).map_err(|_| UpstreamEndpointError::BadHeader)?;
        let value = value.trim();
        let secret = value.rsplit(' ').next().unwrap_or(value);
        let scheme = value.strip_suffix(secret).unwrap_or_default();
        Self::new(name, scheme, secret.into())
    }

    fn new(name: HeaderName, scheme: &str, secret: SecretString) -> Result<Self, UpstreamEndpointError> {
        let key = secret.expose_secret();
        if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(UpstreamEndpointError::BadKey);
        }
        let mut value =
            HeaderValue::from_str(&format!("{scheme}{key}")).map_err(|_| UpstreamEndpointError::BadKey)?;
        value.set_sensitive(true);
        Ok(Self { name, value, secret })
    }

    pub(crate) fn add_to_request(&self, request: RequestBuilder) -> RequestBuilder {
        request.header(self.name.clone(), self.value.clone())
    }
}

/// An answer of any status whose head arrived.
#[derive(Debug)]
pub struct HttpHeadReply {
    pub status: StatusCode,
    /// The wait that `Retry-After` requests.
    pub retry_after: Option<Duration>,
    /// The body, or why it could not be read.
    pub body: Result<Bytes, RequestFailure>,
}

/// A complete answer of any status.
#[derive(Debug)]
pub struct HttpReply {
    pub status: StatusCode,
    /// The wait that `Retry-After` requests.
    pub retry_after: Option<Duration>,
    pub body: Bytes,
}

/// One upstream: its base URL, and the key for it.
#[derive(Debug, Clone)]
pub struct UpstreamEndpoint {
    client: Client,
    base: Url,
    key: Option<HeaderKey>,
    clock: Clock,
    body_max_bytes: usize,
}

impl UpstreamEndpoint {
    /// Creates an endpoint at `base`, an http or https URL. Its path is prefixed to the path of each request.
    ///
    /// # Errors
    /// If `base` is not such a URL, or the HTTP client cannot be created.
    pub fn new(base: &str, key: Option<HeaderKey>, clock: Clock) -> Result<Self, UpstreamEndpointError> {
        let base = Url::parse(base).map_err(|error| UpstreamEndpointError::NotUrl(error.to_string()))?;
        let bare = base.username().is_empty()
            && base.password().is_none()
            && base.query().is_none()
            && base.fragment().is_none();
        if !(bare && base.has_host() && ["http", "https"].contains(&base.scheme())) {
            return Err(UpstreamEndpointError::NotBase);
        }
        let client = client(base.scheme() == "https")
            .build()
            .map_err(|error| UpstreamEndpointError::Client(root_cause(&error)))?;
        Ok(Self { client, base, key, clock, body_max_bytes: BODY_MAX_BYTES })
    }

    /// Sets the limit for the body of an answer, in bytes.
    #[must_use]
    pub const fn with_body_limit(mut self, body_max_bytes: usize) -> Self {
        self.body_max_bytes = body_max_bytes;
        self
    }

    /// Creates a GET request. Each segment of `path` is escaped.
    pub fn get(&self, path: &[&str]) -> RequestBuilder {
        self.add_key(self.client.get(self.url(path)))
    }

    /// Creates a POST request with `body` as JSON. Each segment of `path` is escaped.
    pub fn post(&self, path: &[&str], body: &impl Serialize) -> RequestBuilder {
        let body = serde_json::to_string(body).expect("the body is plain data with string keys");
        let request = self.client.post(self.url(path));
        self.add_key(request.header(CONTENT_TYPE, "application/json").body(body))
    }

    /// Creates a POST request with this body. Each segment of `path` is escaped.
    pub fn post_bytes(&self, path: &[&str], content_type: &'static str, body: Vec<u8>) -> RequestBuilder {
        self.add_key(self.client.post(self.url(path)).header(CONTENT_TYPE, content_type).body(body))
    }

    fn url(&self, path: &[&str]) -> Url {
        let mut url = self.base.clone();
        // a URL with a host has a path
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        url
    }

    fn add_key(&self, request: RequestBuilder) -> RequestBuilder {
        match &self.key {
            Some(key) => key.add_to_request(request),
            None => request,
        }
    }

    /// Sends `request` once and reads the whole answer within `limit`.
    ///
    /// # Errors
    /// If no complete answer arrived. An answer with an error status is not an error here.
    pub async fn send(&self, request: RequestBuilder, limit: Duration) -> Result<HttpReply, RequestFailure> {
        let HttpHeadReply { status, retry_after, body } = self.head(request, limit).await?;
        Ok(HttpReply { status, retry_after, body: body? })
    }

    /// Like [`Self::send`], for callers that need only the head: a body that is cut, too long or late is not an error.
    ///
    /// # Errors
    /// If no head arrived.
    pub async fn head(
        &self,
        request: RequestBuilder,
        limit: Duration,
    ) -> Result<HttpHeadReply, RequestFailure> {
        let began = monotonic();
        let late = |_| {
            RequestFailure::new(RequestFailureKind::Timeout, format!("waited for {} ms", limit.as_millis()))
        };
        let response = timeout(limit, add_traceparent(request).send()).await.map_err(late)?;
        let response = response.map_err(|error| failure(&error))?;
        let status = response.status();
        let retry_after = requested_wait(&response, &self.clock);
        let left = limit.saturating_sub(began.elapsed());
        let body = timeout(left, read(response, self.body_max_bytes)).await.map_err(late).flatten();
        Ok(HttpHeadReply { status, retry_after, body })
    }

    /// Checks that `reply` has a success status.
    ///
    /// # Errors
    /// If it has not: the status, with the details of the body if the body is an error in the format of the model APIs.
    pub fn check(&self, reply: &HttpReply) -> Result<(), RequestFailure> {
        if reply.status.is_success() {
            return Ok(());
        }
        // the body may not be JSON; the detail is then the status
        let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        let error = ReportedError::read(&body, true).unwrap_or_default();
        let detail = if error.message.is_empty() { reason_phrase(reply.status) } else { "" };
        let failure =
            RequestFailure::new(RequestFailureKind::Status(reply.status.as_u16()), detail.to_owned());
        Err(RequestFailure {
            text: self.clean(&error.message),
            retry_after: reply.retry_after.max(error.retry_after),
            rejects_caller: error.blocked.is_none() && (failure.rejects_caller || error.rejects_caller),
            ..failure
        })
    }

    /// Cleans a text from an upstream: one line, cut, and without the key, which some servers quote.
    #[must_use]
    pub fn clean(&self, words: &str) -> UpstreamText {
        let words = match &self.key {
            Some(key) => words.replace(key.secret.expose_secret(), "[key]"),
            None => words.to_owned(),
        };
        UpstreamText::new(visible_line(&words).chars().take(UPSTREAM_TEXT_MAX_CHARS).collect::<String>())
    }
}

/// The standard text for a status.
pub(super) fn reason_phrase(status: StatusCode) -> &'static str {
    status.canonical_reason().unwrap_or("no standard reason")
}

/// The wait that the headers of `response` request.
pub(crate) fn requested_wait(response: &Response, clock: &Clock) -> Option<Duration> {
    let text = |name: &str| response.headers().get(name)?.to_str().ok();
    let in_ms = RETRY_AFTER_MS.iter().find_map(|name| retry_after_ms(text(name)?));
    in_ms.or_else(|| retry_after(text(RETRY_AFTER.as_str())?, clock.now()))
}

/// Reads the whole body of `response`, of at most `max_bytes`.
pub(crate) async fn read(mut response: Response, max_bytes: usize) -> Result<Bytes, RequestFailure> {
    let mut body = BytesMut::new();
    while let Some(piece) = response.chunk().await.map_err(|error| failure(&error))? {
        if body.len() + piece.len() > max_bytes {
            return Err(RequestFailure::new(RequestFailureKind::TooLarge, format!("over {max_bytes} bytes")));
        }
        body.extend_from_slice(&piece);
    }
    Ok(body.freeze())
}

/// A client without redirects, retries and proxies. Without TLS it does not load the system's certificates.
pub(crate) fn client(tls: bool) -> ClientBuilder {
    // the only possible error is that a provider is already installed, which is fine
    drop(rustls::crypto::ring::default_provider().install_default());
    let builder = Client::builder()
        .user_agent(concat!("oracled/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(redirect::Policy::none())
        .retry(retry::never())
        .no_proxy()
        .http1_only();
    if tls { builder.https_only(true) } else { builder.tls_certs_only([]) }
}

/// Converts an error of the HTTP client. The result contains no URL, no header and no other part of an answer: the innermost
/// error is one of the system, or a fixed text of a library. A name in a certificate arrives before the request is sent.
pub(crate) fn failure(error: &reqwest::Error) -> RequestFailure {
    let kind = match () {
        () if is_shortage(error) => RequestFailureKind::Shortage,
        () if error.is_connect() => RequestFailureKind::Connect,
        () => RequestFailureKind::Broken,
    };
    RequestFailure::new(kind, root_cause(error))
}

/// Whether `error` was caused by the daemon's own shortage of descriptors, memory or ports.
pub(crate) fn is_shortage(error: &(dyn Error + 'static)) -> bool {
    use Errno::{EADDRNOTAVAIL, EMFILE, ENFILE, ENOBUFS, ENOMEM};
    let mut cause = Some(error);
    while let Some(error) = cause {
        let errno = error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error).map(Errno::from_raw);
        if matches!(errno, Some(EMFILE | ENFILE | ENOMEM | ENOBUFS | EADDRNOTAVAIL)) {
            return true;
        }
        // `source` of an I/O error skips the error that it wraps and returns that error's source
        let held = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        cause = held.map(|held| held as &(dyn Error + 'static)).or_else(|| error.source());
    }
    false
}

/// The message of the innermost error, which names the cause. The outer errors only name the URL.
pub fn root_cause(error: &dyn Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string().chars().take(UPSTREAM_TEXT_MAX_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(base: &str, key: Option<HeaderKey>) -> Result<UpstreamEndpoint, UpstreamEndpointError> {
        UpstreamEndpoint::new(base, key, Clock::fixed("2026-11-20T10:00:00Z".parse().expect("a valid time")))
    }

    #[test]
    fn exhausted_descriptors_are_a_shortage_and_a_refusal_is_not() {
        let caused = |errno| io::Error::other(io::Error::from_raw_os_error(errno as i32));
        for errno in [Errno::EMFILE, Errno::ENFILE, Errno::ENOMEM, Errno::ENOBUFS, Errno::EADDRNOTAVAIL] {
            assert!(is_shortage(&io::Error::from(errno)) && is_shortage(&caused(errno)), "{errno}");
        }
        assert!(!is_shortage(&caused(Errno::ECONNREFUSED)));
    }

    #[test]
    fn endpoint_accepts_only_plain_http_base_urls() {
        for good in ["http://127.0.0.1:1", "https://example.org/v1", "http://[::1]/a/b/"] {
            assert!(endpoint(good, None).is_ok(), "{good}");
        }
        for bad in ["", "example.org", "/v1", "::"] {
            assert!(matches!(endpoint(bad, None), Err(UpstreamEndpointError::NotUrl(_))), "{bad}");
        }
        for bad in ["ftp://a/", "data:,x", "http://u@a/", "http://u:p@a/", "http://a/?k=v", "http://a/#f"] {
            assert!(matches!(endpoint(bad, None), Err(UpstreamEndpointError::NotBase)), "{bad}");
        }
    }

    #[test]
    fn path_is_appended_to_the_base_and_cannot_leave_it() {
        for (base, path, url) in [
            ("http://a", ["v1", "models"], "http://a/v1/models"),
            ("http://a/", ["v1", "models"], "http://a/v1/models"),
            ("http://a/b/", ["v1", "m:generate"], "http://a/b/v1/m:generate"),
            ("http://a/b", ["models", "x/../../y?z#é%"], "http://a/b/models/x%2F..%2F..%2Fy%3Fz%23%C3%A9%25"),
            ("http://a/b", ["models", ".."], "http://a/b/models"),
        ] {
            assert_eq!(endpoint(base, None).expect("a base").url(&path).as_str(), url);
        }
    }

    #[test]
    fn key_that_does_not_fit_into_a_header_is_rejected() {
        for bad in ["", " ", "a b", "a\n", "é", "\u{7f}"] {
            assert!(matches!(HeaderKey::bearer(bad.into()), Err(UpstreamEndpointError::BadKey)), "{bad:?}");
        }
    }

    #[test]
    fn key_is_never_shown() {
        for key in [HeaderKey::bearer("s3cret".into()), HeaderKey::in_header(AUTHORIZATION, "s3cret".into())]
        {
            let endpoint = endpoint("http://a", Some(key.expect("a key"))).expect("a base");
            assert!(!format!("{endpoint:?}").contains("s3cret"), "{endpoint:?}");
            let request = endpoint.get(&["x"]);
            assert!(!format!("{request:?}").contains("s3cret"), "{request:?}");
            assert_eq!(
                endpoint.clean("wrong key: s3cret\r\nX-Next: é").reveal(),
                r"wrong key: [key]\nX-Next: é"
            );
            assert_eq!(endpoint.clean(&"é".repeat(500)).reveal().chars().count(), 200);
        }
    }
}
