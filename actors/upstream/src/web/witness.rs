//! The client of a witness of the log (C2SP `tlog-witness`).

use super::{WebClient, WebError};
use crate::http::read;
use crate::{RequestFailure, RequestFailureKind};
use actors_platform::clock::Clock;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain_audit::checkpoint::{Cosignature, CosignatureError, WitnessKey};
use domain_audit::log_tree::TreeHash;
use ipnet::IpNet;
use oracled_store::{Store, StoreError};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Response, StatusCode};
use std::time::Duration;
use strum::{IntoStaticStr, VariantArray};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Limit for the body of an answer, in bytes: a few lines with cosignatures.
const ANSWER_MAX_BYTES: usize = 64 << 10;
/// The media type of an answer with the size of the witness's log.
const SIZE_TYPE: &str = "text/x.tlog.size";
/// The most requests for one checkpoint. Another submission can change the size at the witness between two requests.
const REQUESTS_MAX: u32 = 3;

/// A signed checkpoint of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedCheckpoint {
    /// The number of entries.
    pub size: u64,
    /// The signed note.
    pub note: String,
}

/// The client of one witness.
#[derive(Debug)]
pub struct WitnessClient {
    web: WebClient,
    endpoint: String,
    key: WitnessKey,
    timeout: Duration,
}

/// Why a witness did not cosign a checkpoint.
#[derive(Debug, thiserror::Error)]
pub enum WitnessError {
    /// The witness has cosigned a checkpoint of a log that this one does not continue.
    #[error(transparent)]
    Conflict(WitnessConflict),
    #[error("the request to the witness failed: {0}")]
    Unreachable(WebError),
    #[error("the witness did not answer within {} ms", .0.as_millis())]
    Late(Duration),
    #[error(
        "the witness refused the request with HTTP status {status}; {}",
        refusal_remedy(*.status)
    )]
    Refused { status: u16 },
    /// The answer has another form than the protocol's, or its cosignature cannot be verified.
    #[error("the answer of the witness is not valid: {0}")]
    Invalid(String),
    #[error("the proof for the witness cannot be made: {0}")]
    Proof(String),
}

/// How the log differs from that of a witness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WitnessConflict {
    #[error(
        "the witness has cosigned {held} entries of the log, which has only {size}: the state directory is an older copy"
    )]
    Longer { held: u64, size: u64 },
    #[error(
        "the first {held} entries of the log are not those that the witness has cosigned: an entry was changed, or the log is \
         another one"
    )]
    Different { held: u64 },
}

/// The reason of a failed submission, as the label of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub(crate) enum WitnessFailureReason {
    Conflict,
    Unreachable,
    Refused,
    Invalid,
    Internal,
}

/// The answer to one request.
enum WitnessAnswer {
    Cosigned(Cosignature),
    /// The witness has cosigned another number of entries than the request names.
    Holds(u64),
    /// The log does not continue that of the witness.
    Inconsistent,
}

const fn refusal_remedy(status: u16) -> &'static str {
    match status {
        403 => "register the log's present key at the witness: `oraclectl log key` prints it",
        404 => "register the log and its key at the witness: `oraclectl log key` prints both",
        422 => "ask the operator of the witness",
        _ => "check `url` of the witness: it has the path before `/add-checkpoint`",
    }
}

impl WitnessError {
    pub(crate) const fn reason(&self) -> WitnessFailureReason {
        match self {
            Self::Conflict(_) => WitnessFailureReason::Conflict,
            Self::Unreachable(_) | Self::Late(_) => WitnessFailureReason::Unreachable,
            Self::Refused { .. } => WitnessFailureReason::Refused,
            Self::Invalid(_) => WitnessFailureReason::Invalid,
            Self::Proof(_) => WitnessFailureReason::Internal,
        }
    }
}

impl From<CosignatureError> for WitnessError {
    fn from(error: CosignatureError) -> Self {
        Self::Invalid(error.to_string())
    }
}

impl From<StoreError> for WitnessError {
    fn from(error: StoreError) -> Self {
        Self::Proof(error.to_string())
    }
}

impl WitnessClient {
    /// Creates a client of the witness with this key. `url` is its submission prefix. It reaches public addresses and those in
    /// `allow_local`. `timeout` is the time limit of a submission. It does not connect yet.
    ///
    /// # Errors
    /// If the URL may not be requested.
    pub fn new(
        url: &str,
        key: WitnessKey,
        allow_local: &[IpNet],
        timeout: Duration,
        allow_cleartext: bool,
        clock: Clock,
    ) -> Result<Self, WebError> {
        let web = WebClient::new(allow_local, timeout, timeout, clock).with_cleartext(allow_cleartext);
        let endpoint = format!("{}/add-checkpoint", url.trim_end_matches('/'));
        let parsed = web.address_filter.endpoint(&endpoint).map_err(WebError::Endpoint)?;
        web.check_confidential(&parsed, super::format_url)?;
        Ok(Self { web, endpoint, key, timeout })
    }

    /// Asks the witness to cosign `checkpoint`, with the proof that its log continues the log that the witness has seen.
    /// `held` is the size of that log, if it is known, else 0.
    pub(crate) async fn submit(
        &self,
        store: &Store,
        checkpoint: &SignedCheckpoint,
        held: u64,
    ) -> Result<Cosignature, WitnessError> {
        let submitted = timeout(self.timeout, self.submit_without_limit(store, checkpoint, held)).await;
        submitted.unwrap_or(Err(WitnessError::Late(self.timeout)))
    }

    async fn submit_without_limit(
        &self,
        store: &Store,
        checkpoint: &SignedCheckpoint,
        mut held: u64,
    ) -> Result<Cosignature, WitnessError> {
        let size = checkpoint.size;
        for _ in 0..REQUESTS_MAX {
            let proof = prove_continuation(store, held, size).await?;
            let body = request_body(held, &proof, &checkpoint.note);
            match self.send(body, &checkpoint.note).await? {
                WitnessAnswer::Cosigned(cosignature) => return Ok(cosignature),
                WitnessAnswer::Holds(other) if other > size => {
                    return Err(WitnessError::Conflict(WitnessConflict::Longer { held: other, size }));
                }
                // some witnesses answer so for another root of the same size
                WitnessAnswer::Holds(other) if other == held && held == size => {
                    return Err(WitnessError::Conflict(WitnessConflict::Different { held }));
                }
                WitnessAnswer::Holds(other) => held = other,
                // no log contradicts the empty one
                WitnessAnswer::Inconsistent if held == 0 => {
                    let status = StatusCode::UNPROCESSABLE_ENTITY.as_u16();
                    return Err(WitnessError::Refused { status });
                }
                WitnessAnswer::Inconsistent => {
                    return Err(WitnessError::Conflict(WitnessConflict::Different { held }));
                }
            }
        }
        Err(WitnessError::Invalid(format!("it named another size in each of {REQUESTS_MAX} answers")))
    }

    /// Sends one request with the checkpoint in `note`.
    async fn send(&self, body: String, note: &str) -> Result<WitnessAnswer, WitnessError> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        let sent = self.web.post(&self.endpoint, headers, body).await;
        let response = sent.map_err(WitnessError::Unreachable)?;
        match response.status() {
            StatusCode::OK => {
                // a complete note, so that only lines with signatures are accepted
                let cosigned = format!("{note}{}", self.read_text(response).await?);
                Ok(WitnessAnswer::Cosigned(self.key.verify(&cosigned)?))
            }
            StatusCode::CONFLICT => {
                let is_size = response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == SIZE_TYPE);
                let text = self.read_text(response).await?;
                let size = read_size(&text).filter(|_| is_size);
                let fault = || format!("status 409 without a size (Content-Type `{SIZE_TYPE}`)");
                Ok(WitnessAnswer::Holds(size.ok_or_else(|| WitnessError::Invalid(fault()))?))
            }
            StatusCode::UNPROCESSABLE_ENTITY => Ok(WitnessAnswer::Inconsistent),
            status if status.is_server_error() || matches!(status.as_u16(), 408 | 429) => {
                Err(WitnessError::Unreachable(self.web.status_error(&self.shown_url(), &response)))
            }
            status => Err(WitnessError::Refused { status: status.as_u16() }),
        }
    }

    async fn read_text(&self, response: Response) -> Result<String, WitnessError> {
        let body = read(response, ANSWER_MAX_BYTES).await.map_err(|failure| match failure.kind {
            RequestFailureKind::TooLarge => WitnessError::Invalid(failure.to_string()),
            _ => self.failed(failure),
        })?;
        String::from_utf8(body.to_vec()).map_err(|_| WitnessError::Invalid("it is not UTF-8".to_owned()))
    }

    fn failed(&self, failure: RequestFailure) -> WitnessError {
        WitnessError::Unreachable(WebError::Failed { url: self.shown_url(), failure })
    }

    /// The part of the URL that errors show.
    fn shown_url(&self) -> String {
        super::origin_of(&self.endpoint).unwrap_or_default()
    }
}

/// The hashes that prove that the first `size` entries continue the first `held`.
async fn prove_continuation(store: &Store, held: u64, size: u64) -> Result<Vec<TreeHash>, WitnessError> {
    let store = store.clone();
    let proof = spawn_blocking(move || store.prove_continuation(held, size)).await;
    let proof = proof.map_err(|panic| WitnessError::Proof(panic.to_string()))??;
    proof.ok_or_else(|| WitnessError::Proof(format!("the log has no first {held} of {size} entries")))
}

/// The body of a request to cosign the checkpoint in `note`.
fn request_body(held: u64, proof: &[TreeHash], note: &str) -> String {
    let hashes: String = proof.iter().map(|hash| format!("{}\n", STANDARD.encode(hash))).collect();
    format!("old {held}\n{hashes}\n{note}")
}

/// The size in an answer of status 409; `None` if it has another form.
fn read_size(text: &str) -> Option<u64> {
    let digits = text.strip_suffix('\n')?;
    digits.parse().ok().filter(|size: &u64| size.to_string() == digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_has_the_lines_of_the_protocol() {
        let body = request_body(20_852_014, &[[0; 32], [255; 32]], "log\n3\nroot\n\n\u{2014} log AAAA\n");
        let lines = [
            "old 20852014",
            "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
            "//////////////////////////////////////////8=",
            "",
            "log",
            "3",
            "root",
            "",
            "\u{2014} log AAAA",
            "",
        ];
        assert_eq!(body, lines.join("\n"));
        assert_eq!(request_body(0, &[], "note\n"), "old 0\n\nnote\n");
    }

    #[test]
    fn size_of_another_form_is_refused() {
        assert_eq!(read_size("20852163\n"), Some(20_852_163));
        assert_eq!(read_size("0\n"), Some(0));
        for bad in ["", "\n", "7", "07\n", "+7\n", "-7\n", " 7\n", "7\n\n", "7\r\n", "99999999999999999999\n"]
        {
            assert_eq!(read_size(bad), None, "{bad:?}");
        }
    }
}
