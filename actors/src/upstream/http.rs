//! HTTP to one place outside: each request within a time, each answer within a bound of bytes, no redirects, no
//! proxies, no retries of the client's own.

use super::failure::{Failure, Kind, retry_after, retry_info};
use crate::platform::clock::{Clock, monotonic};
use bytes::{Bytes, BytesMut};
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

/// So much of an answer is read without being told otherwise, in bytes.
pub const BODY_MAX_BYTES: usize = 4 << 20;
/// So long a connection may take to be made.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Words that come from outside are cut after so many characters.
const WORDS_MAX_CHARS: usize = 200;

/// Why there can be no endpoint.
#[derive(Debug, thiserror::Error)]
pub enum BadEndpoint {
    /// The base is no URL at all.
    #[error("the base is not a URL: {0}")]
    NotUrl(String),
    /// The base is a URL, but not one to put a path behind.
    #[error("a base URL begins with http:// or https:// and has no user, password, query or fragment")]
    NotBase,
    /// The key does not fit into a header.
    #[error("a key is made of visible ASCII characters, and has at least one")]
    BadKey,
    /// The client cannot be made; the system has no certificates, say.
    #[error("the HTTP client cannot be made: {0}")]
    Client(String),
}

/// What proves who asks: a secret in a header.
#[derive(Debug, Clone)]
pub struct Key {
    name: HeaderName,
    value: HeaderValue,
    secret: SecretString,
}

impl Key {
    /// A key that stands alone in the header `name`.
    ///
    /// # Errors
    /// Where no header can hold it.
    pub fn in_header(name: HeaderName, secret: SecretString) -> Result<Self, BadEndpoint> {
        Self::new(name, "", secret)
    }

    /// A bearer token.
    ///
    /// # Errors
    /// Where no header can hold it.
    pub fn bearer(secret: SecretString) -> Result<Self, BadEndpoint> {
        Self::new(AUTHORIZATION, "Bearer ", secret)
    }

    fn new(name: HeaderName, scheme: &str, secret: SecretString) -> Result<Self, BadEndpoint> {
        let key = secret.expose_secret();
        if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(BadEndpoint::BadKey);
        }
        let mut value = HeaderValue::from_str(&format!("{scheme}{key}")).map_err(|_| BadEndpoint::BadKey)?;
        value.set_sensitive(true);
        Ok(Self { name, value, secret })
    }

    /// `request` with the key.
    pub(crate) fn put_into(&self, request: RequestBuilder) -> RequestBuilder {
        request.header(self.name.clone(), self.value.clone())
    }
}

/// An answer whose head came, of whatever status.
#[derive(Debug)]
pub struct Head {
    /// Its status.
    pub status: StatusCode,
    /// The wait that its `Retry-After` asks for.
    pub retry_after: Option<Duration>,
    /// Its body, if that came whole.
    pub body: Result<Bytes, Failure>,
}

/// An answer that came whole, of whatever status.
#[derive(Debug)]
pub struct Reply {
    /// Its status.
    pub status: StatusCode,
    /// The wait that its `Retry-After` asks for.
    pub retry_after: Option<Duration>,
    /// Its body.
    pub body: Bytes,
}

/// One place outside: where it is, and what proves to it who asks.
#[derive(Debug, Clone)]
pub struct Endpoint {
    client: Client,
    base: Url,
    key: Option<Key>,
    clock: Clock,
    body_max_bytes: usize,
}

impl Endpoint {
    /// The place at `base`, an http or https URL, whose path is put before every request's.
    ///
    /// # Errors
    /// Where `base` is not such a URL, or there can be no client.
    pub fn new(base: &str, key: Option<Key>, clock: Clock) -> Result<Self, BadEndpoint> {
        let base = Url::parse(base).map_err(|error| BadEndpoint::NotUrl(error.to_string()))?;
        let bare = base.username().is_empty()
            && base.password().is_none()
            && base.query().is_none()
            && base.fragment().is_none();
        if !(bare && base.has_host() && ["http", "https"].contains(&base.scheme())) {
            return Err(BadEndpoint::NotBase);
        }
        let client = client(base.scheme() == "https")
            .build()
            .map_err(|error| BadEndpoint::Client(root_cause(&error)))?;
        Ok(Self { client, base, key, clock, body_max_bytes: BODY_MAX_BYTES })
    }

    /// The same place, of whose answers at most so many bytes are read.
    #[must_use]
    pub const fn reading_at_most(mut self, body_max_bytes: usize) -> Self {
        self.body_max_bytes = body_max_bytes;
        self
    }

    /// A request that reads what is at `path`, whose segments are escaped.
    pub fn get(&self, path: &[&str]) -> RequestBuilder {
        self.keyed(self.client.get(self.url(path)))
    }

    /// A request that sends `body` to `path`, whose segments are escaped.
    pub fn post(&self, path: &[&str], body: &impl Serialize) -> RequestBuilder {
        let body = serde_json::to_string(body).expect("what is sent is plain data with string keys");
        let request = self.client.post(self.url(path));
        self.keyed(request.header(CONTENT_TYPE, "application/json").body(body))
    }

    fn url(&self, path: &[&str]) -> Url {
        let mut url = self.base.clone();
        // a URL with a host has a path
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        url
    }

    fn keyed(&self, request: RequestBuilder) -> RequestBuilder {
        match &self.key {
            Some(key) => key.put_into(request),
            None => request,
        }
    }

    /// Sends `request` once and reads its answer, all of it within `limit`.
    ///
    /// # Errors
    /// Where no whole answer came. One of an unwelcome status is an answer.
    pub async fn send(&self, request: RequestBuilder, limit: Duration) -> Result<Reply, Failure> {
        let Head { status, retry_after, body } = self.head(request, limit).await?;
        Ok(Reply { status, retry_after, body: body? })
    }

    /// The same for whom the answer's head is enough: a body that is cut, too long or late does not undo it.
    ///
    /// # Errors
    /// Where no head came.
    pub async fn head(&self, request: RequestBuilder, limit: Duration) -> Result<Head, Failure> {
        let began = monotonic();
        let late = |_| Failure::new(Kind::Timeout, format!("waited for {} ms", limit.as_millis()));
        let response = timeout(limit, request.send()).await.map_err(late)?;
        let response = response.map_err(|error| failure(&error))?;
        let status = response.status();
        let retry_after = asked_wait(&response, &self.clock);
        let left = limit.saturating_sub(began.elapsed());
        let body = timeout(left, read(response, self.body_max_bytes)).await.map_err(late).flatten();
        Ok(Head { status, retry_after, body })
    }

    /// Whether `reply` is of a success' status.
    ///
    /// # Errors
    /// Where it is not: what its body says about that, if it is an error as model APIs write them. It is never taken
    /// for anything else.
    pub fn check(&self, reply: &Reply) -> Result<(), Failure> {
        if reply.status.is_success() {
            return Ok(());
        }
        // it may be no JSON at all; then the status has to say it
        let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        let word = |place: &str| body.pointer(place).and_then(Value::as_str);
        let words = [word("/error/status").or_else(|| word("/error/type")), word("/error/message")];
        let said = words.into_iter().flatten().collect::<Vec<_>>().join(": ");
        Err(Failure {
            kind: Kind::Status(reply.status.as_u16()),
            retry_after: reply.retry_after.max(retry_info(&body)),
            detail: self.clean(if said.is_empty() { reply.status.as_str() } else { &said }),
        })
    }

    /// Words from outside as they may be shown: one line, bounded, and without the key, which some servers quote.
    #[must_use]
    pub fn clean(&self, words: &str) -> String {
        let words = match &self.key {
            Some(key) => words.replace(key.secret.expose_secret(), "[key]"),
            None => words.to_owned(),
        };
        let plain = |character: char| if character.is_control() { ' ' } else { character };
        words.chars().take(WORDS_MAX_CHARS).map(plain).collect()
    }
}

/// The wait that the `Retry-After` of `response` asks for.
pub(crate) fn asked_wait(response: &Response, clock: &Clock) -> Option<Duration> {
    let header = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
    retry_after(header, clock.now())
}

/// The whole body of `response`, of at most `max_bytes`.
pub(crate) async fn read(mut response: Response, max_bytes: usize) -> Result<Bytes, Failure> {
    let mut body = BytesMut::new();
    while let Some(piece) = response.chunk().await.map_err(|error| failure(&error))? {
        if body.len() + piece.len() > max_bytes {
            return Err(Failure::new(Kind::TooLarge, format!("over {max_bytes} bytes")));
        }
        body.extend_from_slice(&piece);
    }
    Ok(body.freeze())
}

/// A client that does what it is told and nothing beside. Without TLS it needs no certificates of the system.
pub(crate) fn client(tls: bool) -> ClientBuilder {
    // the error is that there is a provider already, and that will do
    drop(rustls::crypto::ring::default_provider().install_default());
    let builder = Client::builder()
        .user_agent(concat!("oracled/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(redirect::Policy::none())
        .retry(retry::never())
        .no_proxy();
    if tls { builder.https_only(true) } else { builder.tls_certs_only([]) }
}

/// What an error of the client means. It holds no URL and no header.
pub(crate) fn failure(error: &reqwest::Error) -> Failure {
    let kind = match () {
        () if is_shortage(error) => Kind::Shortage,
        () if error.is_connect() => Kind::Connect,
        () => Kind::Broken,
    };
    Failure::new(kind, root_cause(error))
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

/// The innermost reason, which says what happened; the outer ones say to whom.
pub(crate) fn root_cause(error: &dyn Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string().chars().take(WORDS_MAX_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(base: &str, key: Option<Key>) -> Result<Endpoint, BadEndpoint> {
        Endpoint::new(base, key, Clock::fixed("2026-11-20T10:00:00Z".parse().expect("a time")))
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
    fn a_base_is_a_plain_http_url() {
        for good in ["http://127.0.0.1:1", "https://example.org/v1", "http://[::1]/a/b/"] {
            assert!(endpoint(good, None).is_ok(), "{good}");
        }
        for bad in ["", "example.org", "/v1", "::"] {
            assert!(matches!(endpoint(bad, None), Err(BadEndpoint::NotUrl(_))), "{bad}");
        }
        for bad in ["ftp://a/", "data:,x", "http://u@a/", "http://u:p@a/", "http://a/?k=v", "http://a/#f"] {
            assert!(matches!(endpoint(bad, None), Err(BadEndpoint::NotBase)), "{bad}");
        }
    }

    #[test]
    fn a_path_goes_behind_the_bases_and_cannot_leave_it() {
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
    fn a_key_that_no_header_can_hold_is_refused() {
        for bad in ["", " ", "a b", "a\n", "é", "\u{7f}"] {
            assert!(matches!(Key::bearer(bad.into()), Err(BadEndpoint::BadKey)), "{bad:?}");
        }
    }

    #[test]
    fn a_key_is_shown_nowhere() {
        for key in [Key::bearer("s3cret".into()), Key::in_header(AUTHORIZATION, "s3cret".into())] {
            let endpoint = endpoint("http://a", Some(key.expect("a key"))).expect("a base");
            assert!(!format!("{endpoint:?}").contains("s3cret"), "{endpoint:?}");
            let request = endpoint.get(&["x"]);
            assert!(!format!("{request:?}").contains("s3cret"), "{request:?}");
            assert_eq!(endpoint.clean("wrong key: s3cret\r\nX-Next: é"), "wrong key: [key]  X-Next: é");
            assert_eq!(endpoint.clean(&"é".repeat(500)).chars().count(), 200);
        }
    }
}
