//! Live sources: external services that are queried about one subject while the client waits (RFC-0002, Part II).
//!
//! A source's answers are parsed by its adapter, which is a document; no source needs code of its own. This
//! module does not decide whether an answer counts against others: `domain_verification` does.
//!
//! An answer becomes a candidate with its verification record, or a refusal.

mod http;

use super::BoxFuture;
use super::web::WebError;
use crate::RequestFailureKind;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use domain_base::digest::Sha256Hex;
use domain_base::raw::SourceValue;
use domain_ground::source::OracleTier;
use domain_ground::value::AxisValue;
use domain_upstream::health::CircuitCallOutcome;
use domain_verification::adapter::{
    AnswerContent, AnswerReadOutcome, KeyMaterial, PublicKey, ReceivedAnswer, SignatureAlgorithm,
    SignaturePolicy, SourceQuestion, ValidatedAdapter,
};
use domain_verification::verification_record::SignatureVerification;
use domain_verification::{
    AnswerFault, CachedAnswer, CandidateAnswer, OracleReply, OracleVerificationRecord,
};
pub use http::{ANSWER_MAX_BYTES, HttpLiveOracle, LiveSettings};
use jiff::Timestamp;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A client of live sources.
pub trait LiveOracle: fmt::Debug + Send + Sync {
    /// Checks whether `adapter` can be used, without sending a request.
    ///
    /// # Errors
    /// The fault in the adapter's endpoint or credential, and the allowed values.
    fn check(&self, adapter: &ValidatedAdapter) -> Result<(), WebError>;

    /// Queries one source. Dropping the future cancels the call and has no other effect.
    fn ask(&self, ask: LiveQuery) -> BoxFuture<'_, LiveAnswer>;
}

/// A query to a live source.
#[derive(Debug, Clone)]
pub struct LiveQuery {
    /// The source's adapter, validated.
    pub adapter: Arc<ValidatedAdapter>,
    /// The source's tier, as registered.
    pub oracle_tier: OracleTier,
    /// The publisher of the answers, as registered: the first link of their chain of custody.
    pub authority: String,
    /// The subject of the query: the values of its identity axes.
    pub identity: BTreeMap<String, AxisValue>,
    /// The time that the query is about; `None` for now.
    pub point_in_time: Option<Timestamp>,
    /// The last good answer to the same question.
    pub cached_answer: Option<CachedAnswer>,
    /// Timeout for all attempts together.
    pub timeout: Duration,
    /// The decision that the query belongs to, for the service's log.
    pub execution_id: String,
}

/// The result of querying a live source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveAnswer {
    /// The source's reply. A candidate contains all values that the source has of the subject, and no
    /// freshness: a policy determines that later.
    pub reply: OracleReply,
    /// The answer to store in the cache; `None` leaves the cached answer unchanged.
    pub answer_to_cache: Option<CachedAnswer>,
    /// The effect on the source's health. A timeout is [`CircuitCallOutcome::Neutral`] here: the caller
    /// decides about timeouts.
    pub outcome: CircuitCallOutcome,
    /// Findings about the answer that did not cause its rejection.
    pub warnings: Vec<String>,
}

/// The verifier in the verification records.
const VERIFIER_ID: &str = concat!("oracled/", env!("CARGO_PKG_VERSION"));

/// A complete answer of status 200.
#[derive(Debug)]
pub(super) struct LiveHttpAnswer<'a> {
    /// The requested URL.
    pub(super) url: &'a str,
    pub(super) body: &'a [u8],
    /// The headers that the adapter reads.
    pub(super) headers: &'a BTreeMap<String, String>,
    /// The answer's `ETag`.
    pub(super) etag: Option<String>,
    /// When the request was sent.
    pub(super) retrieved_at: Timestamp,
    /// When the whole answer had arrived.
    pub(super) at: Timestamp,
}

impl LiveAnswer {
    /// A reply without an answer to cache.
    const fn without_cached_answer(reply: OracleReply, outcome: CircuitCallOutcome) -> Self {
        Self { reply, answer_to_cache: None, outcome, warnings: Vec::new() }
    }

    /// An answer that is not accepted. It counts against the source, except if it is about another subject:
    /// an odd query can cause that at a healthy source, and would open the circuit for all callers.
    pub(super) fn refused(refusal: AnswerFault, cause: String) -> Self {
        let outcome = match refusal {
            AnswerFault::Identity => CircuitCallOutcome::Neutral,
            AnswerFault::Signature | AnswerFault::Replay | AnswerFault::Schema => {
                CircuitCallOutcome::Failure(RequestFailureKind::Unusable(refusal.into_str()))
            }
        };
        Self::without_cached_answer(OracleReply::Refused { refusal, cause }, outcome)
    }

    /// Verifies and parses an answer. `latency_ms` is the duration of the call.
    fn verify_answer(
        ask: &LiveQuery,
        question: &SourceQuestion<'_>,
        live_answer: LiveHttpAnswer<'_>,
        latency_ms: u64,
    ) -> Self {
        let signed = ask.adapter.signature().map(|(policy, keys)| {
            let signed = verify(policy, keys, live_answer.headers, live_answer.body)?;
            Ok((policy, signed))
        });
        let (document, signature) = match signed.transpose() {
            Ok(None) => (live_answer.body.into(), None),
            Ok(Some((policy, signed))) => (signed.document, Some((policy, signed.kid, signed.algorithm))),
            Err(cause) => return Self::refused(AnswerFault::Signature, str::to_owned(cause)),
        };
        let received = ReceivedAnswer { body: &document, headers: live_answer.headers, at: live_answer.at };
        let good = CircuitCallOutcome::Success { latency_ms: Some(latency_ms) };
        match ask.adapter.read(&received, question) {
            AnswerReadOutcome::Refused { refusal, cause } => Self::refused(refusal, cause),
            AnswerReadOutcome::NoRecord => Self::without_cached_answer(OracleReply::NoRecord, good),
            AnswerReadOutcome::Several { records } => {
                Self::without_cached_answer(OracleReply::Several { records }, good)
            }
            AnswerReadOutcome::Said(content) => {
                Self::from_content(ask, *content, live_answer, signature, good)
            }
        }
    }

    fn from_content(
        ask: &LiveQuery,
        content: AnswerContent,
        live_answer: LiveHttpAnswer<'_>,
        signature: Option<(&SignaturePolicy, String, SignatureAlgorithm)>,
        outcome: CircuitCallOutcome,
    ) -> Self {
        let AnswerContent { subject, values, version, observed_at, issued_at, warnings } = content;
        let adapter = ask.adapter.adapter();
        let record = OracleVerificationRecord {
            oracle_id: adapter.oracle_id.clone(),
            oracle_tier: ask.oracle_tier.into(),
            source_locator: live_answer.url.to_owned(),
            source_version: version.or_else(|| live_answer.etag.clone()),
            retrieved_at: live_answer.retrieved_at,
            verified_at: live_answer.at,
            verification_method: method(live_answer.url, signature.as_ref().map(|(policy, ..)| *policy)),
            verifier_id: VERIFIER_ID.to_owned(),
            evidence_hash: Some(Sha256Hex::of(live_answer.body)),
            signature_info: signature.map(|(_, signed_by, algorithm)| SignatureVerification {
                signed_by,
                signature_alg: algorithm.into_str().to_owned(),
                signature_valid: true,
            }),
            ttl_seconds: adapter.ttl_seconds,
            chain_of_custody: Some(vec![ask.authority.clone(), format!("answer from {}", live_answer.url)]),
        };
        let candidate = CandidateAnswer {
            subject,
            values,
            record,
            observed_at,
            freshness: Vec::new(),
            deviations: BTreeMap::new(),
            provenance: None,
        };
        let adapter_sha256 = ask.adapter.sha256().clone();
        let keep = CachedAnswer {
            candidate: Some(candidate.clone()),
            point_in_time: ask.point_in_time,
            adapter_sha256,
            issued_at,
            invalidation_count: 0,
            etag: live_answer.etag,
        };
        Self {
            reply: OracleReply::Answered { candidate: Box::new(candidate) },
            answer_to_cache: Some(keep),
            outcome,
            warnings,
        }
    }

    /// Returns the cached candidate with the time of `retrieved_at`, after the source confirmed it with status 304.
    pub(super) fn unchanged(
        ask: &LiveQuery,
        (cached, candidate): (&CachedAnswer, &CandidateAnswer),
        retrieved_at: Timestamp,
        latency_ms: u64,
    ) -> Self {
        let mut candidate = candidate.clone();
        candidate.record.oracle_tier = ask.oracle_tier.into();
        candidate.record.ttl_seconds = ask.adapter.adapter().ttl_seconds;
        (candidate.record.retrieved_at, candidate.record.verified_at) = (retrieved_at, retrieved_at);
        if ask.adapter.adapter().observed_at.is_none() {
            candidate.observed_at = retrieved_at;
        }
        candidate.freshness.clear();
        Self {
            answer_to_cache: Some(CachedAnswer { candidate: Some(candidate.clone()), ..cached.clone() }),
            reply: OracleReply::Answered { candidate: Box::new(candidate) },
            outcome: CircuitCallOutcome::Success { latency_ms: Some(latency_ms) },
            warnings: Vec::new(),
        }
    }
}

/// The verification method in the record, as text.
fn method(url: &str, signature: Option<&SignaturePolicy>) -> String {
    let scheme = url.split(':').next().unwrap_or_default();
    match signature {
        None => format!("retrieval by {scheme}"),
        Some(SignaturePolicy::Ed25519 { .. }) => {
            format!("retrieval by {scheme}, signature of the body (Ed25519)")
        }
        Some(SignaturePolicy::Jws { .. }) => format!("retrieval by {scheme}, JSON Web Signature"),
    }
}

// Signatures of answers (RFC 8032, RFC 7515, RFC 8037). The key id and the algorithm in an answer are
// checked against the keys registered for the source, each of which is for one algorithm. An answer cannot
// choose any other key or algorithm.

/// The content that a valid signature covers, and its signer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SignedContent<'b> {
    /// The signed bytes.
    pub(super) document: Cow<'b, [u8]>,
    /// Id of the key that signed.
    pub(super) kid: String,
    pub(super) algorithm: SignatureAlgorithm,
}

/// Verifies the signature of `body` under `policy` against `keys`, and returns the signed content.
///
/// # Errors
/// Why the signature is invalid, without any quote from the answer.
pub(super) fn verify<'b>(
    policy: &SignaturePolicy,
    keys: &[PublicKey],
    headers: &BTreeMap<String, String>,
    body: &'b [u8],
) -> Result<SignedContent<'b>, &'static str> {
    let header = |name: &str, missing| headers.get(&name.to_ascii_lowercase()).ok_or(missing);
    match policy {
        SignaturePolicy::Ed25519 { header: name, key_id_header, .. } => {
            let signature = header(name, "the answer has no signature, or more than one")?;
            let signature = STANDARD.decode(signature).map_err(|_| "the signature is not in base64")?;
            let kid = match key_id_header {
                Some(name) => Some(header(name, "the answer has no key id, or more than one")?.as_str()),
                None => None,
            };
            let key = signer(keys, kid, SignatureAlgorithm::EdDSA, body, &signature)?;
            Ok(SignedContent {
                document: body.into(),
                kid: key.kid.clone(),
                algorithm: SignatureAlgorithm::EdDSA,
            })
        }
        SignaturePolicy::Jws { header: Some(name), .. } => {
            let token = header(name, "the answer has no signature, or more than one")?;
            let [protected, "", signature] = parts(token)? else {
                return Err("the signature in the header is not detached: it contains a payload");
            };
            let (kid, algorithm) = jws(keys, protected, &URL_SAFE_NO_PAD.encode(body), signature)?;
            Ok(SignedContent { document: body.into(), kid, algorithm })
        }
        SignaturePolicy::Jws { header: None, .. } => {
            let token = str::from_utf8(body).map_err(|_| "the body is not a signature in compact form")?;
            let [protected, payload, signature] = parts(token.trim_ascii())?;
            let document =
                URL_SAFE_NO_PAD.decode(payload).map_err(|_| "the signed payload is not in base64url")?;
            let (kid, algorithm) = jws(keys, protected, payload, signature)?;
            Ok(SignedContent { document: document.into(), kid, algorithm })
        }
    }
}

/// The parts of a signature in compact form (RFC 7515, 7.1).
fn parts(token: &str) -> Result<[&str; 3], &'static str> {
    let mut parts = token.split('.');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(protected), Some(payload), Some(signature), None) => Ok([protected, payload, signature]),
        _ => Err("the signature is not in compact form (three parts, separated by dots)"),
    }
}

/// Verifies a JSON Web Signature, and returns the key id and the algorithm.
fn jws(
    keys: &[PublicKey],
    protected: &str,
    payload: &str,
    signature: &str,
) -> Result<(String, SignatureAlgorithm), &'static str> {
    let signature_bytes =
        URL_SAFE_NO_PAD.decode(signature).map_err(|_| "the signature is not in base64url")?;
    let header =
        URL_SAFE_NO_PAD.decode(protected).map_err(|_| "the signature's header is not in base64url")?;
    let header =
        SourceValue::parse_object(&header).map_err(|_| "the signature's header is not a JSON object")?;
    if header.get("crit").is_some() || header.get("b64").is_some() {
        return Err("the signature has extensions (`crit` or `b64`), which are not supported");
    }
    let algorithm = match header.get("alg") {
        Some(SourceValue::Text(alg)) if alg == "EdDSA" => SignatureAlgorithm::EdDSA,
        Some(SourceValue::Text(alg)) if alg == "ES256" => SignatureAlgorithm::ES256,
        Some(SourceValue::Text(alg)) if alg == "RS256" => SignatureAlgorithm::RS256,
        _ => return Err("the signature's algorithm is not supported; allowed: EdDSA, ES256, RS256"),
    };
    let kid = match header.get("kid") {
        None => None,
        Some(SourceValue::Text(kid)) => Some(kid.as_str()),
        Some(_) => return Err("the signature's `kid` is not a string"),
    };
    let signed = format!("{protected}.{payload}");
    let key = signer(keys, kid, algorithm, signed.as_bytes(), &signature_bytes)?;
    Ok((key.kid.clone(), algorithm))
}

/// Finds the key that signed `message`: the key `kid`, or any key of the algorithm if `kid` is `None`.
fn signer<'k>(
    keys: &'k [PublicKey],
    kid: Option<&str>,
    algorithm: SignatureAlgorithm,
    message: &[u8],
    signature: &[u8],
) -> Result<&'k PublicKey, &'static str> {
    let named: Vec<_> = keys.iter().filter(|key| kid.is_none_or(|kid| key.kid == kid)).collect();
    if named.is_empty() {
        return Err("the signing key is not registered for the source");
    }
    let mut fit = named.into_iter().filter(|key| key.algorithm() == algorithm).peekable();
    if fit.peek().is_none() {
        return Err("the signature's algorithm differs from the algorithm of its key");
    }
    fit.find(|key| is_valid_signature(key, message, signature)).ok_or("the signature is invalid")
}

fn is_valid_signature(key: &PublicKey, message: &[u8], signature: &[u8]) -> bool {
    let verified = match &key.material {
        KeyMaterial::Ed25519(bytes) => UnparsedPublicKey::new(&ED25519, bytes).verify(message, signature),
        KeyMaterial::P256(bytes) => {
            UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, bytes).verify(message, signature)
        }
        KeyMaterial::Rsa { modulus: n, exponent: e } => {
            RsaPublicKeyComponents { n, e }.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
        }
    };
    verified.is_ok()
}

#[cfg(test)]
mod tests;
