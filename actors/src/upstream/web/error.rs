//! Why nobody was asked, or did not answer.

use super::REDIRECTS_MAX;
use crate::upstream::Failure;
use oracled_domain::ground::id::{PipelineId, SourceId};
use std::fmt;
use std::net::IpAddr;

/// The longest URL, in bytes.
pub const URL_MAX_BYTES: usize = 8192;

/// Why a URL is not asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadAddress {
    /// It is none.
    #[error("the address is not a URL: {why}; allowed: http:// or https://, a host, a path")]
    NotUrl {
        /// The parser's error. The text itself is not shown, because it can contain a key.
        why: String,
    },
    /// It is too long.
    #[error("a URL of {size_bytes} bytes; allowed: {URL_MAX_BYTES}")]
    TooLong {
        /// Its length.
        size_bytes: usize,
    },
    /// It is not of the web.
    #[error("a URL with the scheme `{scheme}`; allowed: http, https")]
    Scheme {
        /// Its scheme.
        scheme: String,
    },
    /// Documents hold no secrets.
    #[error("the URL of `{url}` has a user or a password; allowed: the configuration's credentials")]
    Login {
        /// The origin of the URL.
        url: String,
    },
    /// A fragment would never be sent.
    #[error("the URL of `{url}` has a fragment (#); allowed: none, and %23 for the sign itself")]
    Fragment {
        /// The origin of the URL.
        url: String,
    },
    /// It leads into one's own network.
    #[error(
        "`{host}` leads to {ip} ({kind}); allowed: public addresses, and those in `ingestion.allow_local`"
    )]
    NotPublic {
        /// The name, or the address itself.
        host: String,
        /// The address.
        ip: IpAddr,
        /// What it is.
        kind: &'static str,
    },
    /// What was protected would no longer be.
    #[error("`{url}` is not https, as what leads there is; allowed: https")]
    Downgrade {
        /// The URL.
        url: String,
    },
}

/// Who has a credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holder {
    /// A pipeline, for what it pulls.
    Pipeline(PipelineId),
    /// A live source, for its answers.
    Source(SourceId),
}

impl Holder {
    /// Where the configuration has it.
    fn configured(&self) -> String {
        match self {
            Self::Pipeline(id) => format!("ingestion.credentials.{id}"),
            Self::Source(id) => format!("verification.credentials.{id}"),
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pipeline(id) => write!(f, "pipeline `{id}`"),
            Self::Source(id) => write!(f, "source `{id}`"),
        }
    }
}

/// Why there is no answer, or none that is taken.
#[derive(Debug, thiserror::Error)]
pub enum WebError {
    /// The endpoint is not asked.
    #[error("the endpoint is refused: {0}")]
    Endpoint(BadAddress),
    /// The place of the tokens is not asked.
    #[error("the `token_url` is refused: {0}")]
    TokenUrl(BadAddress),
    /// A name leads to what is not asked.
    #[error("`{url}` is refused: {why}")]
    Name {
        /// Who was to be asked.
        url: String,
        /// Why not.
        why: BadAddress,
    },
    /// It redirects to what is not asked.
    #[error("`{from}` redirects to a place that is refused: {to}")]
    Redirect {
        /// Who redirects.
        from: String,
        /// Where to, and why not there.
        to: BadAddress,
    },
    /// It redirects to somebody else.
    #[error("`{from}` redirects to another origin, `{to}`; allowed: its own")]
    Leaves {
        /// Who redirects.
        from: String,
        /// Where to.
        to: String,
    },
    /// It redirects on and on.
    #[error("`{last}` redirects once more; allowed: {REDIRECTS_MAX} redirects")]
    Redirects {
        /// Who is the last to.
        last: String,
    },
    /// Somebody authenticates by what the configuration does not have.
    #[error(
        "{holder} authenticates by {authentication}, and has no credential for that; set {keys} in `{}`",
        .holder.configured()
    )]
    NoCredential {
        /// Whose.
        holder: Holder,
        /// By what.
        authentication: &'static str,
        /// What the configuration needs for it.
        keys: &'static str,
    },
    /// The credential is for somebody else.
    #[error(
        "the credential of {holder} is for {origin}, and is not sent to `{url}`; allowed: an endpoint of that origin, or another \
         `origin` in `{}`",
        .holder.configured()
    )]
    OtherOrigin {
        /// Whose.
        holder: Holder,
        /// Whom it is for.
        origin: String,
        /// Where it would go.
        url: String,
    },
    /// The credential could be read on its way.
    #[error("a credential is not sent to `{url}`; allowed: {allowed}")]
    Exposed {
        /// Where it would go.
        url: String,
        /// Where it may.
        allowed: &'static str,
    },
    /// What is answered could be changed on its way.
    #[error(
        "anybody on the way could change what `{url}` answers; allowed: https, answers that are signed, or http to an address in \
         figures that `ingestion.allow_local` names"
    )]
    Alterable {
        /// Who would answer.
        url: String,
    },
    /// There can be no client: the system has no certificates, say.
    #[error("the HTTP client cannot be made: {0}")]
    Client(String),
    /// There is no answer, or none that is a payload.
    #[error("`{url}`: {failure}")]
    Failed {
        /// Who was asked.
        url: String,
        /// What went wrong.
        failure: Failure,
    },
    /// The payload is in a coding that was not asked for.
    #[error("`{url}` answers in the {header} `{coding}`; allowed: {allowed}")]
    Coded {
        /// Who answers.
        url: String,
        /// Which header says so.
        header: &'static str,
        /// What it says, cut.
        coding: String,
        /// What it may say.
        allowed: &'static str,
    },
    /// Nothing would show whether the payload is whole.
    #[error("`{url}` does not say where its answer ends; allowed: a Content-Length, or chunks")]
    Endless {
        /// Who answers.
        url: String,
    },
}
