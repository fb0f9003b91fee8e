//! Places outside that documents name, asked by HTTP.
//!
//! What is asked, and what answers, is not trusted: only public addresses are reached, redirects are followed by hand, and
//! a credential is shown to its own origin alone.

mod address;
mod credential;
mod error;
mod origin;
#[cfg(test)]
pub(crate) mod testing;

pub use credential::{BadCredential, ClientCredentials, Credential};
pub use error::URL_MAX_BYTES;
pub use error::{BadAddress, Holder, WebError};
pub use origin::{BadOrigin, Bound, Origin};

use super::http::{asked_wait, client, failure, root_cause};
use super::{Failure, Kind};
use crate::platform::clock::Clock;
pub(crate) use address::shown;
use address::{Reach, has_keys};
pub use address::{origin_of, without_keys};
use ipnet::IpNet;
use jiff::Timestamp;
use oracled_domain::ground::pipeline::Authentication;
use reqwest::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, ETAG, HeaderMap, HeaderName, HeaderValue, IF_MODIFIED_SINCE,
    IF_NONE_MATCH, LAST_MODIFIED, LOCATION, TRANSFER_ENCODING,
};
use reqwest::{Client, Identity, RequestBuilder, Response, StatusCode, Url};
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// So many redirects are followed.
pub const REDIRECTS_MAX: usize = 5;
/// A validator that is longer is not kept, in bytes.
const VALIDATOR_MAX_BYTES: usize = 1024;
/// A coding is named in errors up to so many characters.
const CODING_MAX_CHARS: usize = 40;

/// What an answer says of itself by which it is known again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Validators {
    /// Its `ETag`, with the quotation marks.
    pub etag: Option<String>,
    /// Its `Last-Modified`, as it came.
    pub last_modified: Option<String>,
}

/// What is asked, and by whom.
#[derive(Debug)]
pub(crate) struct Errand<'a> {
    /// For whom, which is whose credential.
    pub(crate) holder: Holder,
    /// Where.
    pub(crate) endpoint: &'a str,
    /// How whoever asks shows who it is; not at all without it.
    pub(crate) authentication: Option<Authentication>,
    /// The credential that there is for that.
    pub(crate) held: Option<&'a Bound>,
    /// What an earlier answer said of itself: where it still holds, nothing comes.
    pub(crate) known: &'a Validators,
    /// Whether a redirect may lead to another origin.
    pub(crate) may_leave: bool,
}

/// An answer of status 200, or 304 where something was known, of which the head came.
#[derive(Debug)]
pub(crate) struct Head {
    /// Where it was in the end.
    pub(crate) url: Url,
    /// It, without its body.
    pub(crate) response: Response,
    /// When it was asked for.
    pub(crate) retrieved_at: Timestamp,
}

/// Whoever asks.
#[derive(Debug)]
pub(crate) struct Web {
    reach: Reach,
    /// Whether secrets may cross a network without encryption.
    allow_cleartext: bool,
    connect: Duration,
    idle: Duration,
    clock: Clock,
}

impl Web {
    /// Whoever asks public addresses, and those in `allow_local`. A connection is made within `connect`; once it is, an answer
    /// begins within `idle`.
    pub(crate) fn new(allow_local: &[IpNet], connect: Duration, idle: Duration, clock: Clock) -> Self {
        Self { reach: Reach::new(allow_local), allow_cleartext: false, connect, idle, clock }
    }

    /// Sets whether secrets may be sent without encryption.
    pub(crate) fn with_cleartext(self, allow_cleartext: bool) -> Self {
        Self { allow_cleartext, ..self }
    }

    /// The endpoint, and the credential for it.
    pub(crate) fn begin<'a>(&self, errand: &Errand<'a>) -> Result<(Url, Option<&'a Credential>), WebError> {
        let url = self.reach.endpoint(errand.endpoint).map_err(WebError::Endpoint)?;
        let is_keyless = matches!(errand.authentication, None | Some(Authentication::None));
        if !is_keyless || has_keys(errand.endpoint) {
            self.check_confidential(&url, shown)?;
        }
        let (authentication, keys) = match errand.authentication {
            None | Some(Authentication::None) => return Ok((url, None)),
            Some(Authentication::ApiKey) => ("api_key", "`header`, and `key_file` or `key_env`"),
            Some(Authentication::Oauth) => {
                let keys = "`token_file` or `token_env`, or `token_url`, `client_id`, and `client_secret_file` or \
                            `client_secret_env`";
                ("oauth", keys)
            }
            Some(Authentication::Mtls) => ("mtls", "`certificate_file` and `key_file`"),
        };
        let is_fit =
            |held: &&Bound| errand.authentication.is_some_and(|wanted| held.credential.is_for(wanted));
        let none = || WebError::NoCredential { holder: errand.holder.clone(), authentication, keys };
        let Bound { origin, credential } = errand.held.filter(is_fit).ok_or_else(none)?;
        if !origin.is_of(&url) {
            let (holder, origin) = (errand.holder.clone(), origin.to_string());
            return Err(WebError::OtherOrigin { holder, origin, url: shown(&url) });
        }
        match credential {
            Credential::Certificate(_) if url.scheme() != "https" => {
                return Err(WebError::Exposed { url: shown(&url), allowed: "https, for a certificate" });
            }
            Credential::Client(client) => drop(client.token_url(self)?),
            _ => {}
        }
        Ok((url, Some(credential)))
    }

    fn check_confidential(&self, url: &Url, shown: impl FnOnce(&Url) -> String) -> Result<(), WebError> {
        if self.allow_cleartext || self.reach.is_confidential(url) {
            return Ok(());
        }
        let allowed = "https, http to a numeric address in `ingestion.allow_local`, or any address with --allow-cleartext";
        Err(WebError::Exposed { url: shown(url), allowed })
    }

    /// Whether what `url` answers comes as it was sent, though nobody has signed it.
    pub(crate) fn check_unaltered(&self, url: &Url) -> Result<(), WebError> {
        if self.reach.is_confidential(url) { Ok(()) } else { Err(WebError::Alterable { url: shown(url) }) }
    }

    /// The head of what is at `url`, or wherever it redirects to. The credential goes no further than to its origin.
    pub(crate) async fn follow(
        &self,
        errand: &Errand<'_>,
        mut url: Url,
        mut credential: Option<&Credential>,
    ) -> Result<Head, WebError> {
        for _ in 0..=REDIRECTS_MAX {
            let (retrieved_at, response) = self.ask(errand, &url, credential).await?;
            match response.status() {
                StatusCode::OK => return Ok(Head { url, response, retrieved_at }),
                StatusCode::NOT_MODIFIED if *errand.known != Validators::default() => {
                    return Ok(Head { url, response, retrieved_at });
                }
                status => {
                    let location = redirected(status, &response);
                    let Some(location) = location else { return Err(self.refused(&shown(&url), &response)) };
                    let refused = |to| WebError::Redirect { from: shown(&url), to };
                    let next = self.reach.redirect(&url, location).map_err(refused)?;
                    let stays = next.origin() == url.origin();
                    if !stays && !errand.may_leave {
                        return Err(WebError::Leaves { from: shown(&url), to: shown(&next) });
                    }
                    credential = credential.filter(|_| stays);
                    url = next;
                }
            }
        }
        Err(WebError::Redirects { last: shown(&url) })
    }

    /// What one address answers; asked once more with a new token where it does not take the one there is.
    async fn ask(
        &self,
        errand: &Errand<'_>,
        url: &Url,
        credential: Option<&Credential>,
    ) -> Result<(Timestamp, Response), WebError> {
        let mut refused = false;
        loop {
            let identity = credential.and_then(Credential::identity);
            let mut asked = self.client(url, identity)?.get(url.clone());
            asked = asked.header(ACCEPT_ENCODING, "identity");
            for (name, value) in
                [(IF_NONE_MATCH, &errand.known.etag), (IF_MODIFIED_SINCE, &errand.known.last_modified)]
            {
                // what no header can hold is no validator, and then all of it comes
                if let Some(value) = value.as_ref().and_then(|value| HeaderValue::from_str(value).ok()) {
                    asked = asked.header(name, value);
                }
            }
            asked = match credential {
                Some(Credential::ApiKey(key) | Credential::Token(key)) => key.put_into(asked),
                Some(Credential::Client(client)) => client.token(self, refused).await?.put_into(asked),
                Some(Credential::Certificate(_)) | None => asked,
            };
            let retrieved_at = self.clock.now();
            let response = self.send(&shown(url), asked).await?;
            let is_client = matches!(credential, Some(Credential::Client(_)));
            if response.status() != StatusCode::UNAUTHORIZED || !is_client || refused {
                return Ok((retrieved_at, response));
            }
            refused = true;
        }
    }

    /// A client for one request to `url`, with a connection of its own.
    fn client(&self, url: &Url, identity: Option<&Identity>) -> Result<Client, WebError> {
        let mut builder = client(url.scheme() == "https")
            .connect_timeout(self.connect)
            .dns_resolver(Arc::new(self.reach.clone()));
        if let Some(identity) = identity {
            builder = builder.identity(identity.clone());
        }
        builder.build().map_err(|error| WebError::Client(root_cause(&error)))
    }

    /// Sends `request` and waits for the head of the answer. Errors show `url` as its address.
    async fn send(&self, url: &str, request: RequestBuilder) -> Result<Response, WebError> {
        let limit = self.connect.saturating_add(self.idle);
        let failed = |failure| WebError::Failed { url: url.to_owned(), failure };
        let Ok(sent) = timeout(limit, request.send()).await else {
            let waited = format!("waited for {} ms", limit.as_millis());
            return Err(failed(Failure::new(Kind::Timeout, waited)));
        };
        sent.map_err(|error| match refused_by_resolver(&error) {
            Some(why) => WebError::Name { url: url.to_owned(), why },
            None => failed(failure(&error)),
        })
    }

    /// An answer that is no payload. What its body says is nobody's business.
    fn refused(&self, url: &str, response: &Response) -> WebError {
        let status = response.status();
        let detail = status.canonical_reason().unwrap_or("a status without a name").to_owned();
        let retry_after = asked_wait(response, &self.clock);
        let failure = Failure { retry_after, ..Failure::new(Kind::Status(status.as_u16()), detail) };
        WebError::Failed { url: url.to_owned(), failure }
    }
}

/// Where a redirect leads.
fn redirected(status: StatusCode, response: &Response) -> Option<&str> {
    let location = response.headers().get(LOCATION)?.to_str().ok()?;
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308).then_some(location)
}

/// What the resolver said, if it was the one to refuse.
fn refused_by_resolver(error: &reqwest::Error) -> Option<BadAddress> {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(bad) = error.downcast_ref::<BadAddress>() {
            return Some(bad.clone());
        }
        cause = error.source();
    }
    None
}

impl Head {
    /// Whether the body that comes can be read as it is, and will be known to be whole.
    pub(crate) fn check_whole(&self) -> Result<(), WebError> {
        let coded =
            |header, coding, allowed| WebError::Coded { url: shown(&self.url), header, coding, allowed };
        let headers = self.response.headers();
        if let Some(coding) = codings(headers, CONTENT_ENCODING).find(|coding| *coding != "identity") {
            return Err(coded("Content-Encoding", cut(&coding), "identity, which was asked for"));
        }
        let transfer: Vec<String> = codings(headers, TRANSFER_ENCODING).collect();
        if let Some(coding) = transfer.iter().find(|coding| *coding != "chunked") {
            return Err(coded("Transfer-Encoding", cut(coding), "chunked"));
        }
        // without either, the connection's end would be the payload's, and so would a cut
        if transfer.is_empty() && self.response.content_length().is_none() {
            return Err(WebError::Endless { url: shown(&self.url) });
        }
        Ok(())
    }
}

impl Validators {
    /// What `response` says of itself.
    pub(crate) fn of(response: &Response) -> Self {
        Self { etag: validator(response, ETAG), last_modified: validator(response, LAST_MODIFIED) }
    }
}

/// What `response` says of itself by `header`, if that is one short line.
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
