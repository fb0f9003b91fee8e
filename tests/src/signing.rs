//! Keys of live sources, and signed answers.

use crate::live::{complete_answer, population_body};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jiff::{SignedDuration, Timestamp};
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};

/// An Ed25519 key pair, and its public key as a JWK.
///
/// # Panics
/// Panics if the pair cannot be created.
#[must_use]
pub fn key(seed: u8, kid: &str) -> (Ed25519KeyPair, Value) {
    let pair = Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).expect("a seed of 32 bytes");
    let x = URL_SAFE_NO_PAD.encode(pair.public_key());
    (pair, json!({"kid": kid, "kty": "OKP", "crv": "Ed25519", "x": x}))
}

/// Adapter fields for a source that signs by `policy`.
#[must_use]
pub fn signed_by(policy: Value) -> Value {
    json!({"signature": policy, "issued_at": {"path": "issued"}, "max_issue_age_seconds": 3600})
}

/// Adapter fields for a source that signs by Ed25519 in a header.
#[must_use]
pub fn by_header(keys: &[&Value]) -> Value {
    signed_by(json!({"method": "ed25519", "header": "x-signature", "key_id_header": "x-key", "keys": keys}))
}

/// A body with the population of Aruba and its time of issue.
#[must_use]
pub fn issued_at(number: &str, issued: Timestamp) -> String {
    population_body("ABW", number, json!({"issued": issued.to_string()}))
}

/// An answer with this time of issue that is signed in a header.
#[must_use]
pub fn signed(pair: &Ed25519KeyPair, kid: &str, number: &str, issued: Timestamp) -> String {
    let body = issued_at(number, issued);
    let signature = STANDARD.encode(pair.sign(body.as_bytes()));
    complete_answer(&format!("x-signature: {signature}\r\nx-key: {kid}\r\n"), &body)
}

/// The time this number of seconds ago.
#[must_use]
pub fn seconds_ago(seconds: i64) -> Timestamp {
    Timestamp::now() - SignedDuration::from_secs(seconds)
}

/// An answer that is a JSON Web Signature with this header; `sign` returns the signature of its argument.
#[must_use]
pub fn token(header: &Value, body: &str, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let input = format!("{}.{}", URL_SAFE_NO_PAD.encode(header.to_string()), URL_SAFE_NO_PAD.encode(body));
    format!("{input}.{}", URL_SAFE_NO_PAD.encode(sign(input.as_bytes())))
}
