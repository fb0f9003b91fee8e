//! Why nothing was pulled.

use super::REDIRECTS_MAX;
use super::address::URL_MAX_BYTES;
use crate::upstream::Failure;
use domain::ground::id::PipelineId;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

/// Why a URL is not pulled from.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadAddress {
    /// It is none.
    #[error("`{given}` is not a URL: {why}; allowed: http:// or https://, a host, a path")]
    NotUrl {
        /// What was given, cut.
        given: String,
        /// What is wrong with it.
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
    #[error("a user or a password in `{url}`; allowed: credentials from `ingestion.credentials`")]
    Login {
        /// The URL without them.
        url: String,
    },
    /// A fragment would never be sent.
    #[error("a fragment (#) behind `{url}`; allowed: none, and %23 for the sign itself")]
    Fragment {
        /// The URL without it.
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

/// Why nothing was pulled.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// The endpoint is not pulled from.
    #[error("the endpoint is refused: {0}")]
    Endpoint(BadAddress),
    /// The place of the tokens is not asked.
    #[error("the `token_url` is refused: {0}")]
    TokenUrl(BadAddress),
    /// A name leads to what is not pulled from.
    #[error("`{url}` is refused: {why}")]
    Name {
        /// Who was to be asked.
        url: String,
        /// Why not.
        why: BadAddress,
    },
    /// It redirects to what is not pulled from.
    #[error("`{from}` redirects to a place that is refused: {to}")]
    Redirect {
        /// Who redirects.
        from: String,
        /// Where to, and why not there.
        to: BadAddress,
    },
    /// It redirects on and on.
    #[error("`{last}` redirects once more; allowed: {REDIRECTS_MAX} redirects")]
    Redirects {
        /// Who is the last to.
        last: String,
    },
    /// The pipeline authenticates by what the configuration does not have.
    #[error(
        "pipeline `{pipeline_id}` authenticates by {authentication}, and has no credential for that; set {keys} in \
         `ingestion.credentials.{pipeline_id}`"
    )]
    NoCredential {
        /// Which pipeline.
        pipeline_id: PipelineId,
        /// How it authenticates.
        authentication: &'static str,
        /// What the configuration needs for it.
        keys: &'static str,
    },
    /// The credential is for somebody else.
    #[error(
        "the credential of pipeline `{pipeline_id}` is for {origin}, and is not sent to `{url}`; allowed: an endpoint of that \
         origin, or another `origin` in `ingestion.credentials.{pipeline_id}`"
    )]
    OtherOrigin {
        /// Which pipeline.
        pipeline_id: PipelineId,
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
    /// There is more than is taken.
    #[error("a payload of {} bytes; allowed: {max_bytes} (`ingestion.max_payload_bytes`)", many(*promised_bytes))]
    TooLarge {
        /// How long it is, where that is known.
        promised_bytes: Option<u64>,
        /// How long it may be.
        max_bytes: u64,
    },
    /// The payload did not come whole.
    #[error("{received_bytes} of {} bytes came: {why}", of(*promised_bytes))]
    Cut {
        /// How much came.
        received_bytes: u64,
        /// How much was to come, where that is known.
        promised_bytes: Option<u64>,
        /// What went wrong.
        why: String,
    },
    /// What came could not be put away.
    #[error("the payload cannot be kept: {0}")]
    Keep(io::Error),
}

impl PullError {
    /// For how long whoever was asked wants to be left alone, where it says so.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Failed { failure, .. } => failure.retry_after,
            _ => None,
        }
    }
}

fn many(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "more".to_owned(), |bytes| bytes.to_string())
}

fn of(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "an unknown number of".to_owned(), |bytes| bytes.to_string())
}
