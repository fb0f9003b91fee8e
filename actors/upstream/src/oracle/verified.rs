//! Converts an answer to a candidate with its verification record, or to a refusal.

use super::{LiveAnswer, LiveQuery};
use domain_base::digest::Sha256Hex;
use domain_upstream::health::CircuitCallOutcome;
use domain_verification::adapter::{
    AnswerContent, AnswerReadOutcome, ReceivedAnswer, SignatureAlgorithm, SignaturePolicy, SourceQuestion,
};
use domain_verification::record::SignatureVerification;
use domain_verification::{
    AnswerFault, CachedAnswer, CandidateAnswer, OracleReply, OracleVerificationRecord,
};
use jiff::Timestamp;
use std::collections::BTreeMap;

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
    pub(super) const fn without_cached_answer(reply: OracleReply, outcome: CircuitCallOutcome) -> Self {
        Self { reply, answer_to_cache: None, outcome, warnings: Vec::new() }
    }

    /// An answer that is not accepted. It counts against the source, except if it is about another subject:
    /// an odd query can cause that at a healthy source, and would open the circuit for all callers.
    pub(super) fn refused(refusal: AnswerFault, cause: String) -> Self {
        let outcome = match refusal {
            AnswerFault::Identity => CircuitCallOutcome::Neutral,
            AnswerFault::Signature | AnswerFault::Replay | AnswerFault::Schema => {
                CircuitCallOutcome::Failure(format!("refused ({}): {cause}", refusal.into_str()))
            }
        };
        Self::without_cached_answer(OracleReply::Refused { refusal, cause }, outcome)
    }

    /// Verifies and parses an answer. `latency_ms` is the duration of the call.
    pub(super) fn verify_answer(
        ask: &LiveQuery,
        question: &SourceQuestion<'_>,
        live_answer: LiveHttpAnswer<'_>,
        latency_ms: u64,
    ) -> Self {
        let signed = ask.adapter.signature().map(|(policy, keys)| {
            let signed = super::signature::verify(policy, keys, live_answer.headers, live_answer.body)?;
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
        let AnswerContent { thing, values, version, observed_at, issued_at, warnings } = content;
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
            thing,
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
