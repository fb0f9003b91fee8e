//! Converts an answer to a candidate with its verification record, or to a refusal.

use super::{LiveAnswer, LiveAsk};
use jiff::Timestamp;
use oracled_domain::Sha256Hex;
use oracled_domain::verdict::health::Outcome;
use oracled_domain::verification::adapter::{Algorithm, Asked, Reading, Received, Said, SignaturePolicy};
use oracled_domain::verification::record::SignatureInfo;
use oracled_domain::verification::{Candidate, KeptAnswer, OracleVerificationRecord, Refusal, Reply};
use std::collections::BTreeMap;

/// The verifier in the verification records.
const VERIFIER_ID: &str = concat!("oracled/", env!("CARGO_PKG_VERSION"));

/// A complete answer of status 200.
#[derive(Debug)]
pub(super) struct Came<'a> {
    /// The requested URL.
    pub(super) url: &'a str,
    /// The body.
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
    pub(super) const fn bare(reply: Reply, outcome: Outcome) -> Self {
        Self { reply, keep: None, outcome, warnings: Vec::new() }
    }

    /// An answer that is not accepted. It counts against the source, except if it is about another subject: an odd query
    /// can cause that at a healthy source, and would open the circuit for all callers.
    pub(super) fn refused(refusal: Refusal, cause: String) -> Self {
        let outcome = match refusal {
            Refusal::Identity => Outcome::Neutral,
            Refusal::Signature | Refusal::Replay | Refusal::Schema => {
                Outcome::Failure(format!("refused ({}): {cause}", refusal.into_str()))
            }
        };
        Self::bare(Reply::Refused { refusal, cause }, outcome)
    }

    /// Verifies and parses an answer. `latency_ms` is the duration of the call.
    pub(super) fn of(ask: &LiveAsk, asked: &Asked<'_>, came: Came<'_>, latency_ms: u64) -> Self {
        let signed = ask.adapter.signature().map(|(policy, keys)| {
            let signed = super::signature::verify(policy, keys, came.headers, came.body)?;
            Ok((policy, signed))
        });
        let (document, signature) = match signed.transpose() {
            Ok(None) => (came.body.into(), None),
            Ok(Some((policy, signed))) => (signed.document, Some((policy, signed.kid, signed.algorithm))),
            Err(cause) => return Self::refused(Refusal::Signature, str::to_owned(cause)),
        };
        let received = Received { body: &document, headers: came.headers, at: came.at };
        let good = Outcome::Success { latency_ms: Some(latency_ms) };
        match ask.adapter.read(&received, asked) {
            Reading::Refused { refusal, cause } => Self::refused(refusal, cause),
            Reading::NoRecord => Self::bare(Reply::NoRecord, good),
            Reading::Several { records } => Self::bare(Reply::Several { records }, good),
            Reading::Said(said) => Self::said(ask, *said, came, signature, good),
        }
    }

    fn said(
        ask: &LiveAsk,
        said: Said,
        came: Came<'_>,
        signature: Option<(&SignaturePolicy, String, Algorithm)>,
        outcome: Outcome,
    ) -> Self {
        let Said { thing, values, version, observed_at, issued_at, warnings } = said;
        let adapter = ask.adapter.adapter();
        let record = OracleVerificationRecord {
            oracle_id: adapter.oracle_id.clone(),
            oracle_tier: ask.oracle_tier.into(),
            source_locator: came.url.to_owned(),
            source_version: version.or_else(|| came.etag.clone()),
            retrieved_at: came.retrieved_at,
            verified_at: came.at,
            verification_method: method(came.url, signature.as_ref().map(|(policy, ..)| *policy)),
            verifier_id: VERIFIER_ID.to_owned(),
            evidence_hash: Some(Sha256Hex::of(came.body)),
            signature_info: signature.map(|(_, signed_by, algorithm)| SignatureInfo {
                signed_by,
                signature_alg: algorithm.into_str().to_owned(),
                signature_valid: true,
            }),
            ttl_seconds: adapter.ttl_seconds,
            chain_of_custody: Some(vec![ask.authority.clone(), format!("answer from {}", came.url)]),
        };
        let candidate = Candidate {
            thing,
            values,
            record,
            observed_at,
            freshness: Vec::new(),
            deviations: BTreeMap::new(),
            provenance: None,
        };
        let adapter_sha256 = ask.adapter.sha256().clone();
        let keep = KeptAnswer {
            candidate: Some(candidate.clone()),
            point_in_time: ask.point_in_time,
            adapter_sha256,
            issued_at,
            invalidation_count: 0,
            etag: came.etag,
        };
        Self {
            reply: Reply::Answered { candidate: Box::new(candidate) },
            keep: Some(keep),
            outcome,
            warnings,
        }
    }

    /// Returns the cached candidate with the time of `retrieved_at`, after the source confirmed it with status 304.
    pub(super) fn unchanged(
        ask: &LiveAsk,
        (kept, candidate): (&KeptAnswer, &Candidate),
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
            keep: Some(KeptAnswer { candidate: Some(candidate.clone()), ..kept.clone() }),
            reply: Reply::Answered { candidate: Box::new(candidate) },
            outcome: Outcome::Success { latency_ms: Some(latency_ms) },
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
