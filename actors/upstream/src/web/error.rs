//! Why a request was not sent, or has no usable answer.

use super::REDIRECTS_MAX;
use crate::RequestFailure;
use domain_ground::id::{PipelineId, SourceId};
use ipnet::IpNet;
use std::fmt;
use std::net::IpAddr;

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

/// Why a request has no usable answer.
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
