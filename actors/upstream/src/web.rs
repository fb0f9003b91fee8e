//! HTTP requests to addresses that documents name.
//!
//! Neither the addresses nor the answers are trusted. Only public addresses are reached, each redirect is
//! checked, and a credential is sent only to its own origin.

mod address;
mod credential;
pub mod webhook;
pub mod witness;

use super::http::{client, failure, reason_phrase, requested_wait, root_cause};
use super::{RequestFailure, RequestFailureKind};
use crate::add_traceparent;
use actors_platform::clock::Clock;
use address::{AddressFilter, has_keys};
pub use address::{format_url, origin_of, without_keys};
pub use credential::{
    BoundCredential, ClientCredentials, UpstreamCredential, UpstreamCredentialError, UrlOrigin,
    UrlOriginError,
};
use domain_base::moment::read_http_date;
use domain_ground::id::{PipelineId, SourceId};
use domain_ground::pipeline::SourceAuthentication;
use ipnet::IpNet;
use jiff::{SignedDuration, Timestamp};
use reqwest::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, DATE, ETAG, HeaderMap, HeaderName, HeaderValue, IF_MODIFIED_SINCE,
    IF_NONE_MATCH, LAST_MODIFIED, LOCATION, TRANSFER_ENCODING,
};
use reqwest::{Client, Identity, RequestBuilder, Response, StatusCode, Url};
use std::error::Error;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Maximum number of redirects that are followed.
pub const REDIRECTS_MAX: usize = 5;
/// A validator that is longer is not stored, in bytes.
const VALIDATOR_MAX_BYTES: usize = 1024;
/// A `Last-Modified` that is less than this before `Date` is no validator.
const MODIFIED_AGE_MIN: SignedDuration = SignedDuration::from_secs(1);
/// A coding in an error message is cut to this many characters.
const CODING_MAX_CHARS: usize = 40;

/// The validators of an answer that a later request may send back: while they match, the content has not changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HttpValidators {
    /// The `ETag` header, with its quotation marks.
    pub etag: Option<String>,
    /// The `Last-Modified` header, unchanged.
    pub last_modified: Option<String>,
}

#[derive(Debug)]
pub struct OutboundRequest<'a> {
    /// The pipeline or source that the request and its credential belong to.
    pub holder: CredentialHolder,
    /// The URL.
    pub endpoint: &'a str,
    /// The authentication that the document requires.
    pub authentication: SourceAuthentication,
    /// The configured credential of the holder, if there is one.
    pub credential: Option<&'a BoundCredential>,
    /// The validators of an earlier answer. If that answer is still valid, the status is 304 without a body.
    pub known: &'a HttpValidators,
    /// Whether a redirect may lead to another origin.
    pub may_change_origin: bool,
}

/// The head of an answer of status 200, or of status 304 if validators were sent.
#[derive(Debug)]
pub struct WebResponseHead {
    /// The URL after all redirects.
    pub url: Url,
    /// The answer, with its body unread.
    pub response: Response,
    /// When the request was sent.
    pub retrieved_at: Timestamp,
}

/// A client for untrusted addresses.
#[derive(Debug)]
pub struct WebClient {
    address_filter: AddressFilter,
    /// Whether secrets may cross a network without encryption.
    allow_cleartext: bool,
    connect: Duration,
    idle: Duration,
    clock: Clock,
}

impl WebClient {
    /// Creates a client that reaches public addresses and those in `allow_local`. `connect` is the timeout
    /// for opening a connection. `idle` is the timeout between that and the start of an answer.
    pub fn new(allow_local: &[IpNet], connect: Duration, idle: Duration, clock: Clock) -> Self {
        Self { address_filter: AddressFilter::new(allow_local), allow_cleartext: false, connect, idle, clock }
    }

    /// Sets whether secrets may be sent without encryption.
    pub fn with_cleartext(self, allow_cleartext: bool) -> Self {
        Self { allow_cleartext, ..self }
    }

    /// Checks the endpoint, and returns it with the credential for it.
    pub fn check_request<'a>(
        &self,
        request: &OutboundRequest<'a>,
    ) -> Result<(Url, Option<&'a UpstreamCredential>), WebError> {
        let url = self.address_filter.endpoint(request.endpoint).map_err(WebError::Endpoint)?;
        if !request.authentication.is_none() || has_keys(request.endpoint) {
            self.check_confidential(&url, format_url)?;
        }
        let (authentication, keys) = match request.authentication {
            SourceAuthentication::None => return Ok((url, None)),
            SourceAuthentication::ApiKey => ("api_key", "`header`, and `key_file` or `key_env`"),
            SourceAuthentication::Oauth => {
                let keys = "`token_file` or `token_env`, or `token_url`, `client_id`, and `client_secret_file` or \
                            `client_secret_env`";
                ("oauth", keys)
            }
            SourceAuthentication::Mtls => ("mtls", "`certificate_file` and `key_file`"),
        };
        let is_fit = |held: &&BoundCredential| held.credential.is_for(request.authentication);
        let none = || WebError::NoCredential { holder: request.holder.clone(), authentication, keys };
        let BoundCredential { origin, credential } = request.credential.filter(is_fit).ok_or_else(none)?;
        if !origin.is_origin_of(&url) {
            let (holder, origin) = (request.holder.clone(), origin.to_string());
            return Err(WebError::OtherOrigin { holder, origin, url: format_url(&url) });
        }
        match credential {
            UpstreamCredential::Certificate(_) if url.scheme() != "https" => {
                return Err(WebError::Exposed { url: format_url(&url), allowed: "https, for a certificate" });
            }
            UpstreamCredential::Client(client) => drop(client.token_url(self)?),
            _ => {}
        }
        Ok((url, Some(credential)))
    }

    fn check_confidential(&self, url: &Url, shown: impl FnOnce(&Url) -> String) -> Result<(), WebError> {
        if self.allow_cleartext || self.address_filter.is_confidential(url) {
            return Ok(());
        }
        let allowed = "https, http to a numeric address in `ingestion.allow_local`, or any address with --allow-cleartext";
        Err(WebError::Exposed { url: shown(url), allowed })
    }

    /// Checks that an unsigned answer from `url` cannot be altered in transit.
    pub(crate) fn check_unaltered(&self, url: &Url) -> Result<(), WebError> {
        if self.address_filter.is_confidential(url) {
            Ok(())
        } else {
            Err(WebError::Alterable { url: format_url(url) })
        }
    }

    /// Sends the request to `url`, follows redirects, and returns the head of the answer. The credential is
    /// sent only to its own origin.
    pub async fn follow(
        &self,
        request: &OutboundRequest<'_>,
        mut url: Url,
        mut credential: Option<&UpstreamCredential>,
    ) -> Result<WebResponseHead, WebError> {
        for _ in 0..=REDIRECTS_MAX {
            let (retrieved_at, response) = self.send_with_credential(request, &url, credential).await?;
            match response.status() {
                StatusCode::OK => return Ok(WebResponseHead { url, response, retrieved_at }),
                StatusCode::NOT_MODIFIED if *request.known != HttpValidators::default() => {
                    return Ok(WebResponseHead { url, response, retrieved_at });
                }
                status => {
                    let location = redirected(status, &response);
                    let Some(location) = location else {
                        return Err(self.status_error(&format_url(&url), &response));
                    };
                    let refused = |to| WebError::Redirect { from: format_url(&url), to };
                    let next = self.address_filter.redirect(&url, location).map_err(refused)?;
                    let stays = next.origin() == url.origin();
                    if !stays && !request.may_change_origin {
                        return Err(WebError::Leaves { from: format_url(&url), to: format_url(&next) });
                    }
                    credential = credential.filter(|_| stays);
                    url = next;
                }
            }
        }
        Err(WebError::Redirects { last: format_url(&url) })
    }

    /// Sends the request to one address. If the token is rejected with status 401, the request is sent once
    /// more with a new token.
    async fn send_with_credential(
        &self,
        request: &OutboundRequest<'_>,
        url: &Url,
        credential: Option<&UpstreamCredential>,
    ) -> Result<(Timestamp, Response), WebError> {
        let mut refused = false;
        loop {
            let identity = credential.and_then(UpstreamCredential::identity);
            let mut builder = self.client(url, identity)?.get(url.clone());
            builder = builder.header(ACCEPT_ENCODING, "identity");
            for (name, value) in
                [(IF_NONE_MATCH, &request.known.etag), (IF_MODIFIED_SINCE, &request.known.last_modified)]
            {
                // a validator that does not fit into a header is left out; the whole answer is then sent
                if let Some(value) = value.as_ref().and_then(|value| HeaderValue::from_str(value).ok()) {
                    builder = builder.header(name, value);
                }
            }
            builder = match credential {
                Some(UpstreamCredential::ApiKey(key) | UpstreamCredential::Token(key)) => {
                    key.add_to_request(builder)
                }
                Some(UpstreamCredential::Client(client)) => {
                    client.token(self, refused).await?.add_to_request(builder)
                }
                Some(UpstreamCredential::Certificate(_)) | None => builder,
            };
            let retrieved_at = self.clock.now();
            let response = self.send(&format_url(url), builder).await?;
            let is_client = matches!(credential, Some(UpstreamCredential::Client(_)));
            if response.status() != StatusCode::UNAUTHORIZED || !is_client || refused {
                return Ok((retrieved_at, response));
            }
            refused = true;
        }
    }

    /// Creates a client for one request to `url`, with its own connection.
    fn client(&self, url: &Url, identity: Option<&Identity>) -> Result<Client, WebError> {
        let mut builder = client(url.scheme() == "https")
            .connect_timeout(self.connect)
            .dns_resolver(Arc::new(self.address_filter.clone()));
        if let Some(identity) = identity {
            builder = builder.identity(identity.clone());
        }
        builder.build().map_err(|error| WebError::Client(root_cause(&error)))
    }

    /// Sends `request` and waits for the head of the answer. Errors name `url` as the address.
    async fn send(&self, url: &str, request: RequestBuilder) -> Result<Response, WebError> {
        let limit = self.connect.saturating_add(self.idle);
        let failed = |failure| WebError::Failed { url: url.to_owned(), failure };
        let Ok(sent) = timeout(limit, add_traceparent(request).send()).await else {
            let waited = format!("waited for {} ms", limit.as_millis());
            return Err(failed(RequestFailure::new(RequestFailureKind::Timeout, waited)));
        };
        sent.map_err(|error| match resolver_rejection(&error) {
            Some(why) => WebError::Name { url: url.to_owned(), why },
            None => failed(failure(&error)),
        })
    }

    /// Posts `body` to `endpoint`, which must be confidential. Follows no redirect. The answer's body is not read.
    async fn post(&self, endpoint: &str, headers: HeaderMap, body: String) -> Result<Response, WebError> {
        let url = self.address_filter.endpoint(endpoint).map_err(WebError::Endpoint)?;
        self.check_confidential(&url, format_url)?;
        let shown = url.origin().ascii_serialization();
        let request = self.client(&url, None)?.post(url).headers(headers).body(body);
        self.send(&shown, request).await
    }

    /// The error for an answer with an unexpected status. Its body is not read or shown.
    fn status_error(&self, url: &str, response: &Response) -> WebError {
        let status = response.status();
        let detail = reason_phrase(status).to_owned();
        let retry_after = requested_wait(response, &self.clock);
        let failure = RequestFailure {
            retry_after,
            ..RequestFailure::new(RequestFailureKind::Status(status.as_u16()), detail)
        };
        WebError::Failed { url: url.to_owned(), failure }
    }
}

/// The target of a redirect.
fn redirected(status: StatusCode, response: &Response) -> Option<&str> {
    let location = response.headers().get(LOCATION)?.to_str().ok()?;
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308).then_some(location)
}

/// The resolver's error, if it rejected the host name.
fn resolver_rejection(error: &reqwest::Error) -> Option<WebAddressError> {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(bad) = error.downcast_ref::<WebAddressError>() {
            return Some(bad.clone());
        }
        cause = error.source();
    }
    None
}

impl WebResponseHead {
    /// Checks that the body needs no decoding, and that its end is marked.
    pub fn check_complete(&self) -> Result<(), WebError> {
        let coded =
            |header, coding, allowed| WebError::Coded { url: format_url(&self.url), header, coding, allowed };
        let headers = self.response.headers();
        if let Some(coding) = codings(headers, CONTENT_ENCODING).find(|coding| *coding != "identity") {
            return Err(coded("Content-Encoding", cut(&coding), "identity, which was asked for"));
        }
        let transfer: Vec<String> = codings(headers, TRANSFER_ENCODING).collect();
        if let Some(coding) = transfer.iter().find(|coding| *coding != "chunked") {
            return Err(coded("Transfer-Encoding", cut(coding), "chunked"));
        }
        // without either, a cut connection would look like the end of the payload
        if transfer.is_empty() && self.response.content_length().is_none() {
            return Err(WebError::Endless { url: format_url(&self.url) });
        }
        Ok(())
    }
}

impl HttpValidators {
    /// Reads the validators of `response`, without those that can stay the same although the content changes.
    ///
    /// A file can change twice within a second, so a `Last-Modified` counts only if it is at least 1 s before `Date`
    /// (RFC 9110, section 8.8.2.2). Many servers make the `ETag` of that time, so it does not count either if the file
    /// was just changed. A weak `ETag` counts only with a `Last-Modified` that counts.
    pub fn of(response: &Response) -> Self {
        let (modified, date) = (header_time(response, LAST_MODIFIED), header_time(response, DATE));
        let age = modified.zip(date).map(|(modified, date)| date.duration_since(modified));
        let is_old = age.is_some_and(|age| age >= MODIFIED_AGE_MIN);
        let counts = |etag: &String| if is_weak(etag) { is_old } else { is_old || age.is_none() };
        Self {
            etag: etag(response).filter(counts),
            last_modified: validator(response, LAST_MODIFIED).filter(|_| is_old),
        }
    }
}

/// The `ETag` of `response`.
pub(crate) fn etag(response: &Response) -> Option<String> {
    validator(response, ETAG)
}

/// Whether an `ETag` is weak: content that differs may have the same one.
pub(crate) fn is_weak(etag: &str) -> bool {
    etag.starts_with("W/")
}

/// The time in `Last-Modified`.
pub fn last_modified(response: &Response) -> Option<Timestamp> {
    header_time(response, LAST_MODIFIED)
}

fn header_time(response: &Response, header: HeaderName) -> Option<Timestamp> {
    read_http_date(&validator(response, header)?)
}

/// The value of `header`, if it is one short line of visible ASCII.
fn validator(response: &Response, header: HeaderName) -> Option<String> {
    let value = response.headers().get(header)?.to_str().ok()?;
    (1..=VALIDATOR_MAX_BYTES).contains(&value.len()).then(|| value.to_owned())
}

/// The codings that a header lists, in lower case.
fn codings(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = String> {
    let values = headers.get_all(name).into_iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
    let lists = values.map(|value| value.to_ascii_lowercase());
    let words = lists.flat_map(|list| list.split(',').map(|word| word.trim().to_owned()).collect::<Vec<_>>());
    words.filter(|word| !word.is_empty())
}

fn cut(coding: &str) -> String {
    coding.chars().take(CODING_MAX_CHARS).collect()
}

/// The longest URL, in bytes.
pub const URL_MAX_BYTES: usize = 8192;

/// Why a URL is not requested.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WebAddressError {
    /// The text is not a URL.
    #[error("the address is not a URL: {why}; allowed: http:// or https://, a host, a path")]
    NotUrl {
        /// The parser's error. The text itself is not shown, because it can contain a key.
        why: String,
    },
    /// The URL is too long.
    #[error("the URL has {size_bytes} bytes; allowed: {URL_MAX_BYTES}")]
    TooLong {
        /// Length of the URL, in bytes.
        size_bytes: usize,
    },
    /// The scheme is not http or https.
    #[error("the URL has the scheme `{scheme}`; allowed: http, https")]
    Scheme {
        /// Scheme of the URL.
        scheme: String,
    },
    /// The URL contains a login, but documents must not contain secrets.
    #[error("the URL of `{url}` has a user or a password; allowed: the configuration's credentials")]
    Login {
        /// The origin of the URL.
        url: String,
    },
    /// The URL has a fragment, which would never be sent.
    #[error("the URL of `{url}` has a fragment (#); allowed: no fragment, and %23 for a literal #")]
    Fragment {
        /// The origin of the URL.
        url: String,
    },
    /// The host is in a private or special network.
    #[error(
        "`{host}` leads to {ip} ({kind}); allowed: public addresses, and those in `ingestion.allow_local`; to allow this one, add `{}` to \
         the list", IpNet::from(*.ip)
    )]
    NotPublic {
        /// Host name, or the address itself.
        host: String,
        /// Resolved address.
        ip: IpAddr,
        /// Kind of the address, for example `private`.
        kind: &'static str,
    },
    /// An https URL redirects to http, which would remove the encryption.
    #[error("`{url}` is not https, but is the target of a redirect from https; allowed: https")]
    Downgrade {
        /// Target of the redirect.
        url: String,
    },
}

/// The owner of a credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CredentialHolder {
    /// A pipeline that pulls its payloads.
    Pipeline(PipelineId),
    /// A live source.
    Source(SourceId),
    /// The payment service at which sessions are looked up.
    Lookup,
}

impl CredentialHolder {
    /// The configuration table of the credential.
    fn configured(&self) -> String {
        match self {
            Self::Pipeline(id) => format!("ingestion.credentials.{id}"),
            Self::Source(id) => format!("verification.credentials.{id}"),
            Self::Lookup => "lookup".to_owned(),
        }
    }
}

impl fmt::Display for CredentialHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pipeline(id) => write!(f, "pipeline `{id}`"),
            Self::Source(id) => write!(f, "source `{id}`"),
            Self::Lookup => f.write_str("the payment service"),
        }
    }
}

/// Why a request has no usable answer. The message names the URL, and can have a word of the answer. It is shown only for pulls, whose
/// requests have no text of a caller. For live sources and look-ups, the service log and the health have [`WebError::kind`] instead.
#[derive(Debug, thiserror::Error)]
pub enum WebError {
    /// The endpoint is not allowed.
    #[error("the endpoint is refused: {0}")]
    Endpoint(WebAddressError),
    /// The `token_url` is not allowed.
    #[error("the `token_url` is refused: {0}")]
    TokenUrl(WebAddressError),
    /// The host name resolves only to addresses that are not allowed.
    #[error("`{url}` is refused: {why}")]
    Name {
        /// The requested URL.
        url: String,
        /// Why the address is not allowed.
        why: WebAddressError,
    },
    /// A redirect leads to an address that is not allowed.
    #[error("`{from}` redirects to a refused address: {to}")]
    Redirect {
        /// The redirecting URL.
        from: String,
        /// Why the target is not allowed.
        to: WebAddressError,
    },
    /// A redirect leads to another origin.
    #[error("`{from}` redirects to another origin, `{to}`; allowed: its own")]
    Leaves {
        /// The redirecting URL.
        from: String,
        /// The target.
        to: String,
    },
    /// There are too many redirects.
    #[error("`{last}` redirects once more; allowed: {REDIRECTS_MAX} redirects")]
    Redirects {
        /// The last redirecting URL.
        last: String,
    },
    /// The document requires an authentication for which the configuration has no credential.
    #[error(
        "{holder} authenticates by {authentication}, and has no credential for that; set {keys} in `{}`",
        .holder.configured()
    )]
    NoCredential {
        /// The pipeline or source.
        holder: CredentialHolder,
        /// The required authentication.
        authentication: &'static str,
        /// The configuration keys to set.
        keys: &'static str,
    },
    /// The credential is for another origin.
    #[error(
        "the credential of {holder} is for {origin}, and is not sent to `{url}`; allowed: an endpoint of that origin, or another \
         `origin` in `{}`",
        .holder.configured()
    )]
    OtherOrigin {
        /// The pipeline or source.
        holder: CredentialHolder,
        /// The origin that the credential is for.
        origin: String,
        /// The URL that the request is for.
        url: String,
    },
    /// The credential could be read in transit.
    #[error("a credential is not sent to `{url}`; allowed: {allowed}")]
    Exposed {
        /// The URL that the request is for.
        url: String,
        /// The allowed URLs.
        allowed: &'static str,
    },
    /// An unsigned answer could be altered in transit.
    #[error(
        "the answer from `{url}` could be altered in transit; allowed: https, signed answers, or http to a numeric \
         address in `ingestion.allow_local`"
    )]
    Alterable {
        /// The URL that the request is for.
        url: String,
    },
    /// The HTTP client cannot be created, for example because the system has no certificates.
    #[error("could not create the HTTP client: {0}")]
    Client(String),
    /// The request failed, or its answer has an unexpected status.
    #[error("`{url}`: {failure}")]
    Failed {
        /// The requested URL.
        url: String,
        failure: RequestFailure,
    },
    /// The payload has a coding that was not requested.
    #[error("the answer from `{url}` has the {header} `{coding}`; allowed: {allowed}")]
    Coded {
        /// The requested URL.
        url: String,
        /// The header that names the coding.
        header: &'static str,
        /// The coding, cut.
        coding: String,
        /// The allowed codings.
        allowed: &'static str,
    },
    /// The end of the payload is not marked, so a cut could not be detected.
    #[error("the answer from `{url}` has no marked end; allowed: a Content-Length, or chunks")]
    Endless {
        /// The requested URL.
        url: String,
    },
}

impl WebError {
    /// The kind of the fault, without the URL and without texts of the answer.
    #[must_use]
    pub const fn kind(&self) -> RequestFailureKind {
        match self {
            Self::Failed { failure, .. } => failure.kind,
            Self::Redirect { .. } | Self::Leaves { .. } | Self::Redirects { .. } => {
                RequestFailureKind::Unusable("redirect")
            }
            Self::Coded { .. } | Self::Endless { .. } => RequestFailureKind::Unusable("coding"),
            Self::Endpoint(_) | Self::TokenUrl(_) | Self::Name { .. } => {
                RequestFailureKind::Unusable("address")
            }
            Self::NoCredential { .. }
            | Self::OtherOrigin { .. }
            | Self::Exposed { .. }
            | Self::Alterable { .. }
            | Self::Client(_) => RequestFailureKind::Unusable("configuration"),
        }
    }
}
