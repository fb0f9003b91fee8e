//! Errors, as `application/problem+json` (RFC 9457) with a stable code.
//!
//! Each feature declares its codes in its file `problem.rs`, with [`problem_codes!`](crate::problem_codes).

use http::StatusCode;
use serde::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};
use std::collections::BTreeMap;
use utoipa::openapi::Ref;

/// The media type of an error.
pub const PROBLEM_MEDIA_TYPE: &str = "application/problem+json";

/// The code of an error. A code never changes, so that programs can rely on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProblemCode {
    /// Its name in `snake_case`, as in an answer.
    pub name: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// Whether a retry can help.
    pub retry: Retry,
    /// The meaning, for the reference.
    pub meaning: &'static str,
    /// The action that helps the client or the operator, for the reference.
    pub remedy: &'static str,
}

/// Whether a request that failed with a code can be tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// The answer has no `Retry-After`.
    Never,
    /// The answer has a `Retry-After` if the case has one.
    Sometimes,
    /// The answer has this `Retry-After`, in seconds, if the case has no other.
    After(u64),
}

impl ProblemCode {
    /// The default of `Retry-After` in seconds; `None` if a retry does not help or the time depends on the case.
    #[must_use]
    pub const fn retry_after_s(self) -> Option<u64> {
        match self.retry {
            Retry::After(seconds) => Some(seconds),
            Retry::Never | Retry::Sometimes => None,
        }
    }
}

/// Declares codes of errors, each with its meaning, HTTP status and remedy, and the list `CODES` of them.
#[macro_export]
macro_rules! problem_codes {
    ($($(#[doc = $doc:literal])* $name:ident = $status:literal $(retry $retry:ident $(($seconds:literal))?)?: $remedy:literal,)*) => {
        $(
            $(#[doc = $doc])*
            pub const $name: $crate::problem::ProblemCode = {
                const BYTES: [u8; stringify!($name).len()] = $crate::problem::lowercase(stringify!($name));
                $crate::problem::ProblemCode {
                    name: $crate::problem::text(&BYTES),
                    status: $status,
                    retry: $crate::problem_codes!(@retry $($retry $(($seconds))?)?),
                    meaning: concat!($($doc),*).trim_ascii_start(),
                    remedy: $remedy,
                }
            };
        )*

        /// All codes of this feature.
        pub const CODES: &[$crate::problem::ProblemCode] = &[$($name),*];
    };
    (@retry) => { $crate::problem::Retry::Never };
    (@retry $retry:ident $(($seconds:literal))?) => { $crate::problem::Retry::$retry $(($seconds))? };
}

/// The bytes of `name`, which has this length, in lowercase.
#[doc(hidden)]
#[must_use]
pub const fn lowercase<const LENGTH: usize>(name: &str) -> [u8; LENGTH] {
    let mut bytes = *name.as_bytes().first_chunk::<LENGTH>().expect("the name has this length");
    bytes.make_ascii_lowercase();
    bytes
}

/// `bytes` as text.
#[doc(hidden)]
#[must_use]
#[expect(clippy::panic, reason = "the compiler evaluates it, so that no program can panic")]
pub const fn text(bytes: &[u8]) -> &str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(_) => panic!("a name is ASCII"),
    }
}

problem_codes! {
    /// The body is not JSON.
    INVALID_JSON = 400: "Send one JSON document.",
    /// The request has a wrong member or parameter.
    INVALID_REQUEST = 400: "Correct the member that `detail` names.",
    /// The session id is invalid.
    INVALID_SESSION_ID = 400: "Send an id that has the length and the characters that `detail` allows.",
    /// The body did not arrive completely.
    BODY_BROKEN = 400: "Send the request again.",
    /// A document is invalid.
    INVALID_DOCUMENT = 400: "Correct the document: `detail` has the fault and its position.",
    /// The process of the caller belongs to no application.
    APPLICATION_UNKNOWN = 403: "Add the user id or the group id to a table `applications.NAME` of the configuration.",
    /// The path does not exist.
    NOT_FOUND = 404: "Use a path of the API.",
    /// The document is not registered.
    DOCUMENT_UNKNOWN = 404: "Register it first.",
    /// The path does not accept the method.
    METHOD_NOT_ALLOWED = 405: "Use a method that the API has for the path.",
    /// The request took longer than `limits.request_s`, or its headers longer than `limits.idle_s`.
    REQUEST_TIMEOUT = 408: "Send the request again.",
    /// The client of a batch reads no answers, and 16 MiB of them (or a quarter of `limits.bodies_bytes` if that is less) are
    /// unread. This is the last line of the response; `answered` has the number of lines that were answered.
    CLIENT_NOT_READING = 408: "Read the answers while sending the request, or send fewer lines.",
    /// A registered document cannot be changed in this way.
    DOCUMENT_FIXED = 409: "Register it under a new version or a new id. If a workflow depends on it, change that workflow first.",
    /// The body is longer than the limit that `detail` names.
    BODY_TOO_LARGE = 413: "Send a shorter body, or raise the limit.",
    /// The content type is wrong.
    UNSUPPORTED_MEDIA_TYPE = 415: "Send the `Content-Type` that `detail` names.",
    /// The headers are longer than `limits.header_bytes`, or more than `limits.headers`.
    HEADERS_TOO_LARGE = 431: "Send fewer or shorter headers.",
    /// An internal error; nothing was approved.
    INTERNAL_ERROR = 500: "Read the service log, which has the details under the request id.",
    /// A file of the source is damaged or missing; `detail` names it. Other sources answer.
    SOURCE_DAMAGED = 500: "Rebuild the source that `detail` names.",
    /// This host of a cluster lacks files of the source that another host has made; `detail` has their number and length. It fetches
    /// them. Other sources answer.
    FACTS_NOT_HERE = 503 retry After(5): "Wait for `Retry-After`, or ask another host.",
    /// The row that the answer needs is lost: its segment and the database were damaged. `detail` names it. Others are served.
    RECORD_DAMAGED = 500: "Restore a backup; or erase the session of the row with `oraclectl erase --session ID`, remove a verdict with `oraclectl purge`, or register a document without versions again with `oraclectl apply`.",
    /// The daemon is overloaded. Nothing was delivered.
    OVERLOADED = 503 retry After(1): "Wait for `Retry-After`.",
    /// The daemon is draining. Nothing was delivered.
    DRAINING = 503 retry After(5): "Wait for `Retry-After`, or end draining with `oraclectl drain --off`.",
    /// The log cannot be written, or, on a host of a cluster, not read up to its end. Nothing is delivered.
    STORAGE_UNAVAILABLE = 503 retry After(5): "Wait for `Retry-After`; free space on the disk of the state directory, or start the server of the shared log.",
    /// The daemon is not a host of a cluster.
    NOT_IN_CLUSTER = 409: "Configure `cluster.host`, or do without this command.",
    /// A host of a cluster cannot do this yet, or not without `cluster.objects`.
    IN_CLUSTER = 409: "Set `cluster.objects` if `detail` names it, or do it before the first host joins, with a daemon that is not in a cluster.",
    /// The cluster has no host with this name.
    HOST_UNKNOWN = 404: "Use a name that `oraclectl cluster status` shows.",
    /// Another host of the cluster is live, so this one is not the last.
    OTHER_HOSTS_LIVE = 409: "Let the other hosts leave, or remove them.",
}

/// An error.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct ProblemDocument {
    /// `urn:oracled:problem:` and the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// The meaning of the status in general.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// The fault, its value, and what is allowed.
    pub detail: String,
    /// The code, for programs.
    #[serde(serialize_with = "write_name")]
    #[schema(schema_with = code_schema)]
    pub code: ProblemCode,
    /// The members that only some codes have.
    #[serde(flatten)]
    #[schema(ignore)]
    pub members: BTreeMap<String, Box<RawValue>>,
}

fn write_name<S: Serializer>(code: &ProblemCode, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(code.name)
}

/// The name of the schema with the codes of all features.
pub const CODE_SCHEMA: &str = "ProblemCode";

/// A reference to that schema.
#[must_use]
pub fn code_schema() -> Ref {
    Ref::builder()
        .ref_location_from_schema_name(CODE_SCHEMA)
        .description(Some("The code, for programs."))
        .build()
}

impl ProblemDocument {
    /// Creates an error with this code.
    #[must_use]
    pub fn new(code: ProblemCode, detail: impl Into<String>) -> Self {
        let title = StatusCode::from_u16(code.status).ok().and_then(|status| status.canonical_reason());
        Self {
            kind: format!("urn:oracled:problem:{}", code.name),
            title: title.unwrap_or_default().to_owned(),
            status: code.status,
            detail: detail.into(),
            code,
            members: BTreeMap::new(),
        }
    }

    /// Adds the members of `members`, an object of a feature.
    pub fn add(&mut self, members: &impl Serialize) {
        let json = to_raw_value(members).expect("members are plain data with string keys");
        let members: BTreeMap<String, Box<RawValue>> =
            serde_json::from_str(json.get()).expect("members are an object");
        self.members.extend(members);
    }
}

/// The member that the error of a batch can have.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct BatchProblem {
    /// With `client_not_reading`: the number of lines of the batch that were answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub answered: Option<u64>,
}
