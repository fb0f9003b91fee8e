//! Credentials for outbound requests, and the origins that they may be sent to. They come from the configuration, never
//! from a document: anyone who registers a pipeline chooses its endpoint, and must not get a secret sent there.

use super::address::origin_of;
use super::{WebClient, WebError};
use crate::http::{client, root_cause};
use crate::{HeaderKey, RequestFailure, RequestFailureKind, UpstreamEndpointError, http};
use domain_ground::pipeline::SourceAuthentication;
use jiff::{SignedDuration, Timestamp};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderName};
use reqwest::{Identity, StatusCode, Url};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use std::fmt;
use std::str::FromStr;
use tokio::sync::Mutex;

/// Limit for the body of a token response, in bytes.
const TOKEN_ANSWER_MAX_BYTES: usize = 64 << 10;
/// A token is not used within this time before it expires.
const TOKEN_MARGIN: SignedDuration = SignedDuration::from_secs(30);
/// Lifetime of a token whose response has no `expires_in`.
const TOKEN_LIFE: SignedDuration = SignedDuration::from_secs(300);
/// Longest lifetime of a token; a longer `expires_in` is cut to this.
const TOKEN_LIFE_MAX: SignedDuration = SignedDuration::from_hours(24);

/// Why a credential cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamCredentialError {
    /// The header name is invalid.
    #[error("`header` is not the name of a header; allowed: letters, digits and `-`")]
    Header,
    /// The key or the token does not fit into a header.
    #[error("{0}")]
    Key(#[from] UpstreamEndpointError),
    /// The certificate and its key cannot be used.
    #[error("the certificate and its key cannot be used: {0}; allowed: both in PEM, and belonging together")]
    Certificate(String),
}

/// The credential of a pipeline or a live source.
#[derive(Debug)]
pub enum UpstreamCredential {
    ApiKey(HeaderKey),
    /// A fixed bearer token.
    Token(HeaderKey),
    /// A client id and secret to request bearer tokens with.
    Client(ClientCredentials),
    /// A client certificate.
    Certificate(Identity),
}

/// Scheme, host and port of a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UrlOrigin(String);

/// The text is not an origin. The error does not contain the text, because it can contain a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "allowed: https://host or https://host:port, without a path; http:// only for a numeric address, or with --allow-cleartext"
)]
pub struct UrlOriginError;

/// A credential, and the origin that it may be sent to.
#[derive(Debug)]
pub struct BoundCredential {
    /// The origin of the endpoints that the credential is for.
    pub origin: UrlOrigin,
    pub credential: UpstreamCredential,
}

impl FromStr for UrlOrigin {
    type Err = UrlOriginError;

    fn from_str(text: &str) -> Result<Self, UrlOriginError> {
        let url = Url::parse(text).map_err(|_| UrlOriginError)?;
        let of_web = ["https", "http"].contains(&url.scheme());
        let origin = url.origin().ascii_serialization();
        // anything beyond the origin would be after it, or before the host
        if of_web && url.as_str().strip_suffix('/') == Some(origin.as_str()) {
            Ok(Self(origin))
        } else {
            Err(UrlOriginError)
        }
    }
}

impl fmt::Display for UrlOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl UrlOrigin {
    /// Whether `url` has this origin.
    pub(super) fn is_origin_of(&self, url: &Url) -> bool {
        url.origin().ascii_serialization() == self.0
    }
}

/// The OAuth client credentials grant (RFC 6749, section 4.4), with the current token.
#[derive(Debug)]
pub struct ClientCredentials {
    /// The token endpoint.
    token_url: String,
    client_id: String,
    client_secret: SecretString,
    /// The requested scope; `None` leaves it to the server.
    scope: Option<String>,
    token: Mutex<Option<BearerToken>>,
}

#[derive(Debug)]
struct BearerToken {
    key: HeaderKey,
    until: Timestamp,
}

/// A token response (RFC 6749, section 5.1).
#[derive(Deserialize)]
struct TokenResponse {
    access_token: String,
    token_type: String,
    expires_in: Option<u32>,
}

impl UpstreamCredential {
    /// Creates an API key that is sent in the header `header`.
    ///
    /// # Errors
    /// If the header name is invalid, or the key does not fit into a header.
    pub fn api_key(header: &str, key: SecretString) -> Result<Self, UpstreamCredentialError> {
        let name: HeaderName = header.parse().map_err(|_| UpstreamCredentialError::Header)?;
        Ok(Self::ApiKey(HeaderKey::in_header(name, key)?))
    }

    /// Creates a fixed bearer token.
    ///
    /// # Errors
    /// If the token does not fit into a header.
    pub fn token(token: SecretString) -> Result<Self, UpstreamCredentialError> {
        Ok(Self::Token(HeaderKey::bearer(token)?))
    }

    /// Creates a client that requests bearer tokens from `token_url`.
    #[must_use]
    pub fn client(
        token_url: String,
        client_id: String,
        client_secret: SecretString,
        scope: Option<String>,
    ) -> Self {
        Self::Client(ClientCredentials {
            token_url,
            client_id,
            client_secret,
            scope,
            token: Mutex::new(None),
        })
    }

    /// Creates a client certificate from PEM texts: the certificate, followed by its intermediate certificates, and the
    /// key.
    ///
    /// # Errors
    /// If they cannot be parsed, or the key does not match the certificate.
    pub fn certificate(certificate: &str, key: &SecretString) -> Result<Self, UpstreamCredentialError> {
        let bad = |error: reqwest::Error| UpstreamCredentialError::Certificate(root_cause(&error));
        let pem = SecretString::from(format!("{certificate}\n{}", key.expose_secret()));
        let identity = Identity::from_pem(pem.expose_secret().as_bytes()).map_err(bad)?;
        // only building a client checks that the key matches the certificate
        client(false).identity(identity.clone()).build().map_err(bad)?;
        Ok(Self::Certificate(identity))
    }

    /// Whether the credential is of the kind that `authentication` requires.
    pub(super) const fn is_for(&self, authentication: SourceAuthentication) -> bool {
        match authentication {
            SourceAuthentication::ApiKey => matches!(self, Self::ApiKey(_)),
            SourceAuthentication::Oauth => matches!(self, Self::Token(_) | Self::Client(_)),
            SourceAuthentication::Mtls => matches!(self, Self::Certificate(_)),
            SourceAuthentication::None => false,
        }
    }

    /// The client certificate, if the credential is one.
    pub(super) const fn identity(&self) -> Option<&Identity> {
        if let Self::Certificate(identity) = self { Some(identity) } else { None }
    }
}

impl ClientCredentials {
    /// The checked URL of the token endpoint.
    pub(super) fn token_url(&self, web: &WebClient) -> Result<Url, WebError> {
        let url = web.address_filter.endpoint(&self.token_url).map_err(WebError::TokenUrl)?;
        web.check_confidential(&url, origin)?;
        Ok(url)
    }

    /// Returns the current token if it has not expired and was not `refused`, else requests a new one.
    pub(super) async fn token(&self, web: &WebClient, refused: bool) -> Result<HeaderKey, WebError> {
        let mut held = self.token.lock().await;
        let asked_at = web.clock.now();
        if let Some(token) = held.as_ref().filter(|token| !refused && asked_at < token.until) {
            return Ok(token.key.clone());
        }
        let answer = self.request_token(web).await?;
        let life = answer.expires_in.map_or(TOKEN_LIFE, |s| SignedDuration::from_secs(s.into()));
        let key = HeaderKey::bearer(answer.access_token.into())
            .map_err(|_| self.unreadable("the token does not fit into a header"))?;
        // near the maximum timestamp the sum overflows: the token then counts as expired
        let until = asked_at.checked_add(life.min(TOKEN_LIFE_MAX) - TOKEN_MARGIN).unwrap_or(asked_at);
        Ok(held.insert(BearerToken { key, until }).key.clone())
    }

    async fn request_token(&self, web: &WebClient) -> Result<TokenResponse, WebError> {
        let url = self.token_url(web)?;
        let mut form = vec![("grant_type", "client_credentials")];
        form.extend(self.scope.as_deref().map(|scope| ("scope", scope)));
        let request = web.client(&url, None)?.post(url.clone());
        let request = request
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .basic_auth(
                encode_for_basic_auth(&self.client_id),
                Some(encode_for_basic_auth(self.client_secret.expose_secret())),
            )
            .body(form_of(&form));
        let response = web.send(&origin(&url), request).await?;
        if response.status() != StatusCode::OK {
            return Err(web.status_error(&origin(&url), &response));
        }
        let failed = |failure| WebError::Failed { url: origin(&url), failure };
        let body = tokio::time::timeout(web.idle, http::read(response, TOKEN_ANSWER_MAX_BYTES));
        let late = |_| {
            RequestFailure::new(RequestFailureKind::Timeout, "the token response is incomplete".to_owned())
        };
        let body = body.await.map_err(late).flatten().map_err(failed)?;
        let answer: TokenResponse =
            serde_json::from_slice(&body).map_err(|_| self.unreadable("not a token response"))?;
        if answer.token_type.eq_ignore_ascii_case("bearer") {
            Ok(answer)
        } else {
            Err(self.unreadable("not a bearer token"))
        }
    }

    /// The error for an unusable token response. The response is not shown.
    fn unreadable(&self, why: &str) -> WebError {
        let failure = RequestFailure::new(RequestFailureKind::Unreadable, why.to_owned());
        let url = origin_of(&self.token_url).unwrap_or_else(|| "token_url".to_owned());
        WebError::Failed { url, failure }
    }
}

/// The part of a `token_url` that errors show: its path or query can contain a key.
fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// Encodes pairs as `application/x-www-form-urlencoded`.
fn form_of(pairs: &[(&str, &str)]) -> String {
    let mut url = Url::parse("http://form").expect("a valid URL");
    url.query_pairs_mut().extend_pairs(pairs);
    url.query().unwrap_or_default().to_owned()
}

/// Encodes a client id or secret for basic authentication (RFC 6749, section 2.3.1).
fn encode_for_basic_auth(text: &str) -> String {
    form_of(&[("", text)]).trim_start_matches('=').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn form_of_encodes_as_x_www_form_urlencoded() {
        assert_eq!(form_of(&[("a", "b c"), ("d", "é&=")]), "a=b+c&d=%C3%A9%26%3D");
        assert_eq!(encode_for_basic_auth("a:b c=+é"), "a%3Ab+c%3D%2B%C3%A9");
        assert_eq!(encode_for_basic_auth("=="), "%3D%3D");
    }
    #[test]
    fn certificate_requires_its_matching_key() {
        let certificate = include_str!("tests/client.crt");
        let key = |text: &str| SecretString::from(text);
        let good = UpstreamCredential::certificate(certificate, &key(include_str!("tests/client.key")));
        let good = good.expect("the key matches the certificate");
        assert!(good.is_for(SourceAuthentication::Mtls) && good.identity().is_some());
        let shown = format!("{good:?}");
        assert!(!shown.contains("MIGH") && shown.len() < 100, "{shown}");
        for (certificate, other) in [
            (certificate, include_str!("tests/other.key")),
            (certificate, "no key"),
            ("no certificate", include_str!("tests/client.key")),
        ] {
            let error = UpstreamCredential::certificate(certificate, &key(other))
                .expect_err("the key does not match")
                .to_string();
            assert!(error.contains("; allowed: both in PEM, and belonging together"), "{error}");
            assert!(!error.contains("MIGH") && error.len() < 300, "{error}");
        }
    }

    #[test]
    fn origin_is_normalized_to_scheme_host_and_port() {
        for (text, origin) in [
            ("https://Example.org", "https://example.org"),
            ("https://example.org:443/", "https://example.org"),
            ("https://example.org:8443", "https://example.org:8443"),
            ("http://127.1:80", "http://127.0.0.1"),
            ("https://[2606:4700::1111]:1", "https://[2606:4700::1111]:1"),
            ("https://b\u{fc}cher.example", "https://xn--bcher-kva.example"),
        ] {
            assert_eq!(text.parse::<UrlOrigin>().expect("a valid origin").to_string(), origin);
        }
        for text in [
            "",
            "example.org",
            "https://",
            "ftp://example.org",
            "data:,x",
            "https://u:s3cret@example.org",
            "https://example.org/a",
            "https://example.org?a",
            "https://example.org#a",
        ] {
            assert_eq!(text.parse::<UrlOrigin>(), Err(UrlOriginError), "{text}");
        }
    }

    #[test]
    fn is_of_matches_only_urls_of_the_same_origin() {
        let origin: UrlOrigin = "https://example.org".parse().expect("a valid origin");
        let is_of = |url: &str| origin.is_origin_of(&Url::parse(url).expect("a valid URL"));
        assert!(is_of("https://example.org/a?b") && is_of("https://EXAMPLE.org:443/"));
        for other in [
            "http://example.org/",
            "https://example.org:444/",
            "https://example.org.evil.example/",
            "https://a.example.org/",
        ] {
            assert!(!is_of(other), "{other}");
        }
    }
}
