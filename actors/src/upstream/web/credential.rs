//! How the daemon shows who it is. Credentials are the configuration's, never a document's.

use super::Web;
use super::address::origin_of;
use super::error::WebError;
use crate::upstream::http::{self, client, root_cause};
use crate::upstream::{BadEndpoint, Failure, Key, Kind};
use jiff::{SignedDuration, Timestamp};
use oracled_domain::ground::pipeline::Authentication;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderName};
use reqwest::{Identity, StatusCode, Url};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use tokio::sync::Mutex;

/// So much of an answer with a token is read, in bytes.
const TOKEN_ANSWER_MAX_BYTES: usize = 64 << 10;
/// A token is used no longer than until so long before it expires.
const TOKEN_MARGIN: SignedDuration = SignedDuration::from_secs(30);
/// So long one is used that does not say, and so long at the most.
const TOKEN_LIFE: SignedDuration = SignedDuration::from_secs(300);
const TOKEN_LIFE_MAX: SignedDuration = SignedDuration::from_hours(24);

/// Why something is no credential.
#[derive(Debug, thiserror::Error)]
pub enum BadCredential {
    /// No header has such a name.
    #[error("`header` is not the name of a header; allowed: letters, digits and `-`")]
    Header,
    /// The key or the token does not fit into a header.
    #[error("{0}")]
    Key(#[from] BadEndpoint),
    /// The certificate and its key cannot be used.
    #[error("the certificate and its key cannot be used: {0}; allowed: both in PEM, and belonging together")]
    Certificate(String),
}

/// What a pipeline proves with who it is.
#[derive(Debug)]
pub enum Credential {
    /// A key in a header.
    ApiKey(Key),
    /// A bearer's token.
    Token(Key),
    /// What a bearer's token is asked for with.
    Client(ClientCredentials),
    /// A certificate.
    Certificate(Identity),
}

/// What a bearer's token is asked for with (RFC 6749, 4.4), and the token while it lasts.
#[derive(Debug)]
pub struct ClientCredentials {
    /// Where it is asked for.
    token_url: String,
    /// Who asks.
    client_id: String,
    client_secret: SecretString,
    /// For what; the server's choice where it is none.
    scope: Option<String>,
    token: Mutex<Option<Token>>,
}

#[derive(Debug)]
struct Token {
    key: Key,
    until: Timestamp,
}

/// What is answered with a token (RFC 6749, 5.1).
#[derive(Deserialize)]
struct TokenAnswer {
    access_token: String,
    token_type: String,
    expires_in: Option<u32>,
}

impl Credential {
    /// A key that stands alone in the header called `header`.
    ///
    /// # Errors
    /// Where there is no such header, or it cannot hold the key.
    pub fn api_key(header: &str, key: SecretString) -> Result<Self, BadCredential> {
        let name: HeaderName = header.parse().map_err(|_| BadCredential::Header)?;
        Ok(Self::ApiKey(Key::in_header(name, key)?))
    }

    /// A bearer's token.
    ///
    /// # Errors
    /// Where no header can hold it.
    pub fn token(token: SecretString) -> Result<Self, BadCredential> {
        Ok(Self::Token(Key::bearer(token)?))
    }

    /// A client that asks `token_url` for tokens.
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

    /// A certificate, with those between it and its authority behind it, and its key, each in PEM.
    ///
    /// # Errors
    /// Where they cannot be read, or do not belong together.
    pub fn certificate(certificate: &str, key: &SecretString) -> Result<Self, BadCredential> {
        let bad = |error: reqwest::Error| BadCredential::Certificate(root_cause(&error));
        let pem = SecretString::from(format!("{certificate}\n{}", key.expose_secret()));
        let identity = Identity::from_pem(pem.expose_secret().as_bytes()).map_err(bad)?;
        // only a client finds out whether they belong together
        client(false).identity(identity.clone()).build().map_err(bad)?;
        Ok(Self::Certificate(identity))
    }

    /// Whether it is what `authentication` asks for.
    pub(super) const fn is_for(&self, authentication: Authentication) -> bool {
        match authentication {
            Authentication::ApiKey => matches!(self, Self::ApiKey(_)),
            Authentication::Oauth => matches!(self, Self::Token(_) | Self::Client(_)),
            Authentication::Mtls => matches!(self, Self::Certificate(_)),
            Authentication::None => false,
        }
    }

    /// The certificate, where it is one.
    pub(super) const fn identity(&self) -> Option<&Identity> {
        if let Self::Certificate(identity) = self { Some(identity) } else { None }
    }
}

impl ClientCredentials {
    /// Where tokens are asked for.
    pub(super) fn token_url(&self, web: &Web) -> Result<Url, WebError> {
        let url = web.reach.endpoint(&self.token_url).map_err(WebError::TokenUrl)?;
        web.check_confidential(&url, origin)?;
        Ok(url)
    }

    /// A token: the one there is while it lasts, unless it was refused, else a new one.
    pub(super) async fn token(&self, web: &Web, refused: bool) -> Result<Key, WebError> {
        let mut held = self.token.lock().await;
        let asked_at = web.clock.now();
        if let Some(token) = held.as_ref().filter(|token| !refused && asked_at < token.until) {
            return Ok(token.key.clone());
        }
        let answer = self.ask(web).await?;
        let life = answer.expires_in.map_or(TOKEN_LIFE, |s| SignedDuration::from_secs(s.into()));
        let key =
            Key::bearer(answer.access_token.into()).map_err(|_| self.unreadable("no header can hold it"))?;
        // at the end of all timestamps every token has expired
        let until = asked_at.checked_add(life.min(TOKEN_LIFE_MAX) - TOKEN_MARGIN).unwrap_or(asked_at);
        Ok(held.insert(Token { key, until }).key.clone())
    }

    async fn ask(&self, web: &Web) -> Result<TokenAnswer, WebError> {
        let url = self.token_url(web)?;
        let mut form = vec![("grant_type", "client_credentials")];
        form.extend(self.scope.as_deref().map(|scope| ("scope", scope)));
        let request = web.client(&url, None)?.post(url.clone());
        let request = request
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .basic_auth(encoded(&self.client_id), Some(encoded(self.client_secret.expose_secret())))
            .body(form_of(&form));
        let response = web.send(&origin(&url), request).await?;
        if response.status() != StatusCode::OK {
            return Err(web.refused(&origin(&url), &response));
        }
        let failed = |failure| WebError::Failed { url: origin(&url), failure };
        let body = tokio::time::timeout(web.idle, http::read(response, TOKEN_ANSWER_MAX_BYTES));
        let late = |_| Failure::new(Kind::Timeout, "the token did not come".to_owned());
        let body = body.await.map_err(late).flatten().map_err(failed)?;
        let answer: TokenAnswer =
            serde_json::from_slice(&body).map_err(|_| self.unreadable("it is no answer with a token"))?;
        if answer.token_type.eq_ignore_ascii_case("bearer") {
            Ok(answer)
        } else {
            Err(self.unreadable("it is no bearer's token"))
        }
    }

    /// A token that cannot be used; whatever was answered is not shown.
    fn unreadable(&self, why: &str) -> WebError {
        let failure = Failure::new(Kind::Unreadable, why.to_owned());
        let url = origin_of(&self.token_url).unwrap_or_else(|| "token_url".to_owned());
        WebError::Failed { url, failure }
    }
}

/// The part of a `token_url` that errors show: its path or query can contain a key.
fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// Pairs as a form has them.
fn form_of(pairs: &[(&str, &str)]) -> String {
    let mut url = Url::parse("http://form").expect("it is a URL");
    url.query_pairs_mut().extend_pairs(pairs);
    url.query().unwrap_or_default().to_owned()
}

/// A client's id or secret as it goes into its authorization (RFC 6749, 2.3.1).
fn encoded(text: &str) -> String {
    form_of(&[("", text)]).trim_start_matches('=').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_encoded_as_the_web_has_it() {
        assert_eq!(form_of(&[("a", "b c"), ("d", "é&=")]), "a=b+c&d=%C3%A9%26%3D");
        assert_eq!(encoded("a:b c=+é"), "a%3Ab+c%3D%2B%C3%A9");
        assert_eq!(encoded("=="), "%3D%3D");
    }
    #[test]
    fn a_certificate_and_its_key_are_read_and_belong_together() {
        let certificate = include_str!("tests/client.crt");
        let key = |text: &str| SecretString::from(text);
        let good = Credential::certificate(certificate, &key(include_str!("tests/client.key")));
        let good = good.expect("they belong together");
        assert!(good.is_for(Authentication::Mtls) && good.identity().is_some());
        let shown = format!("{good:?}");
        assert!(!shown.contains("MIGH") && shown.len() < 100, "{shown}");
        for (certificate, other) in [
            (certificate, include_str!("tests/other.key")),
            (certificate, "no key"),
            ("no certificate", include_str!("tests/client.key")),
        ] {
            let error =
                Credential::certificate(certificate, &key(other)).expect_err("they do not").to_string();
            assert!(error.contains("; allowed: both in PEM, and belonging together"), "{error}");
            assert!(!error.contains("MIGH") && error.len() < 300, "{error}");
        }
    }
}
