//! The verification of bundles and checkpoints.

use crate::base::error::CtlError;
use crate::base::input::read_text;
use oracled_api::audit::proofs::LogBundle;
use oracled_domain::Sha256Hex;
use oracled_domain::audit::checkpoint::{Checkpoint, LogKey};
use oracled_domain::audit::leaf::leaf_of;
use oracled_domain::audit::log_proof::{is_continued, is_included};
use oracled_domain::audit::log_tree::leaf_hash;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::path::Path;

/// The number of an entry.
#[derive(Deserialize)]
pub(super) struct EntryNumber {
    pub(super) seq: u64,
}

/// A document that `verify-log` reads.
pub(super) enum VerifiedDocument {
    Bundle(LogBundle),
    /// A delivered verdict with its proof.
    Verdict(ProvedVerdict),
}

/// The members of a delivered verdict that its proof is about.
#[derive(Deserialize)]
pub(super) struct ProvedVerdict {
    session_id: String,
    verdict: Box<RawValue>,
    proof: LogBundle,
}

impl VerifiedDocument {
    /// Reads a document; the error is about a bundle.
    pub(super) fn read(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
            .map(Self::Bundle)
            .or_else(|error| serde_json::from_str(text).map(Self::Verdict).map_err(|_| error))
    }

    pub(super) const fn bundle(&self) -> &LogBundle {
        match self {
            Self::Bundle(bundle) => bundle,
            Self::Verdict(verdict) => &verdict.proof,
        }
    }

    /// Checks that a verdict is the one of its entries, which were verified.
    pub(super) fn check_verdict(&self, entries: &[Value]) -> Result<(), CtlError> {
        let Self::Verdict(ProvedVerdict { session_id, verdict, .. }) = self else { return Ok(()) };
        let sha256 = Sha256Hex::of(verdict.get().as_bytes());
        let is_delivered = entries.iter().any(|entry| {
            // an application does not see its name in its session ids
            let logged = entry["session_id"].as_str().unwrap_or_default();
            let is_session = logged.rsplit_once('/').map_or(logged, |(_, local)| local) == session_id;
            is_session
                && entry["event"] == "verdict_cached"
                && entry["verdict_sha256"].as_str() == Some(sha256.as_str())
        });
        if is_delivered {
            return Ok(());
        }
        let message = format!(
            "no entry is about the delivery of this verdict (SHA-256 {sha256}) to session {session_id}"
        );
        Err(refused(message))
    }
}

/// Reads a checkpoint in a file, and verifies its signature.
pub(super) fn read_note(file: &Path, key: &LogKey) -> Result<Checkpoint, CtlError> {
    let note = read_text(file)?;
    key.verify(&note).map_err(|error| refused(format!("{}: {error}", file.display())))
}

/// Verifies a bundle. Returns its checkpoint.
pub(super) fn verify(
    bundle: &LogBundle,
    key: &LogKey,
    earlier: Option<&Checkpoint>,
) -> Result<Checkpoint, CtlError> {
    let checkpoint = key.verify(&bundle.checkpoint).map_err(|error| refused(error.to_string()))?;
    if bundle.entries.is_empty() {
        return Err(refused("the document has no entries".to_owned()));
    }
    for entry in &bundle.entries {
        let seq = serde_json::from_str(&entry.line).map(|EntryNumber { seq }| seq).unwrap_or_default();
        let is_proved = || {
            let (leaf, proof) = (leaf_of(&entry.line).ok()?, entry.proof.read()?);
            let leaf = leaf_hash(leaf.as_bytes());
            Some(is_included(leaf, seq.checked_sub(1)?, checkpoint.size, &proof, &checkpoint.root))
        };
        if is_proved() != Some(true) {
            let what = if seq == 0 { "a line without a number".to_owned() } else { format!("entry {seq}") };
            return Err(refused(format!("{what} is not in the log: the entry or its proof was changed")));
        }
    }
    let Some(earlier) = earlier else { return Ok(checkpoint) };
    let continuation = bundle.continuation.as_ref().filter(|proved| proved.old_size == earlier.size);
    let Some(proof) = continuation.and_then(|proved| proved.proof.read()) else {
        let message = format!(
            "the bundle has no proof that the log continues that of {} entries; make it with `oraclectl log prove --since`",
            earlier.size
        );
        return Err(refused(message));
    };
    if !is_continued((earlier.size, &earlier.root), (checkpoint.size, &checkpoint.root), &proof) {
        let message = format!(
            "the log of {} entries does not continue that of {} entries: one of them was changed, or they are two logs with \
             one key",
            checkpoint.size, earlier.size
        );
        return Err(refused(message));
    }
    Ok(checkpoint)
}

pub(super) fn refused(message: String) -> CtlError {
    CtlError::Verb { message, exit_code: 1, was_printed: false }
}
