//! The verification of bundles and of verdicts with their proof.

use crate::audit::verify_log::{LogKeys, LogReplay, ReplayReport, refused};
use crate::base::error::CtlError;
use domain_audit::checkpoint::Checkpoint;
use domain_audit::leaf::leaf_of;
use domain_audit::log_proof::{is_continued, is_included};
use domain_audit::log_tree::leaf_hash;
use domain_audit::wire::LogBundle;
use domain_base::application::ApplicationName;
use domain_base::digest::Sha256Hex;
use domain_base::session_id::SessionId;
use domain_verdict::replay::StoredVerdict;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};

/// The members of a verdict's document that its proof covers.
const VERIFIED_MEMBERS: [&str; 2] = ["session_id", "verdict"];
/// The member with the proof.
const PROOF_MEMBER: &str = "proof";

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
    session_id: SessionId,
    verdict: Box<RawValue>,
    proof: LogBundle,
    #[serde(skip)]
    not_verified: Vec<String>,
}

/// The verification of a verdict.
#[derive(Serialize)]
pub(super) struct VerdictReport {
    pub(super) session_id: SessionId,
    /// The application in the entry of the delivery; an application does not see its name in the document.
    pub(super) application: ApplicationName,
    /// The members of the document that the proof covers, and the others.
    pub(super) verified: [&'static str; 2],
    pub(super) not_verified: Vec<String>,
}

/// The members of the entry of a delivery.
#[derive(Deserialize)]
struct DeliveryEntry {
    event: String,
    session_id: SessionId,
    verdict_sha256: Sha256Hex,
}

impl VerifiedDocument {
    /// Reads a document; the error is about a bundle, unless the document has a proof.
    pub(super) fn read(text: &str) -> Result<Self, serde_json::Error> {
        let members: BTreeMap<String, IgnoredAny> = serde_json::from_str(text)?;
        if !members.contains_key(PROOF_MEMBER) {
            return serde_json::from_str(text).map(Self::Bundle);
        }
        let mut verdict: ProvedVerdict = serde_json::from_str(text)?;
        let is_verified = |name: &str| VERIFIED_MEMBERS.contains(&name) || name == PROOF_MEMBER;
        verdict.not_verified = members.into_keys().filter(|name| !is_verified(name)).collect();
        Ok(Self::Verdict(verdict))
    }

    pub(super) const fn bundle(&self) -> &LogBundle {
        match self {
            Self::Bundle(bundle) => bundle,
            Self::Verdict(verdict) => &verdict.proof,
        }
    }

    /// Replays the decisions among the entries, which were verified.
    pub(super) fn replay(&self) -> Result<ReplayReport, CtlError> {
        let entries = self.bundle().entries.iter();
        let lines = entries.map(|entry| {
            let number: Result<EntryNumber, _> = serde_json::from_str(&entry.line);
            (number.map(|EntryNumber { seq }| seq).unwrap_or_default(), entry.line.as_str())
        });
        let mut replay = LogReplay::new(false);
        for line in BTreeMap::from_iter(lines).into_values() {
            replay.add(line, |_| Ok(self.delivered_verdict()))?;
        }
        Ok(replay.finish())
    }

    /// The verdict of the document, as if it were stored.
    fn delivered_verdict(&self) -> Option<StoredVerdict> {
        match self {
            Self::Bundle(_) => None,
            Self::Verdict(delivered) => {
                Some(StoredVerdict { verdict: delivered.verdict.clone(), session: None })
            }
        }
    }

    /// Checks that a verdict is the one of its entries, which were verified. `None` for a bundle.
    pub(super) fn check_verdict(&self) -> Result<Option<VerdictReport>, CtlError> {
        let Self::Verdict(ProvedVerdict { session_id, verdict, proof, not_verified }) = self else {
            return Ok(None);
        };
        let sha256 = Sha256Hex::of(verdict.get().as_bytes());
        let delivered_to = |line: &str| {
            let entry: DeliveryEntry = serde_json::from_str(line).ok()?;
            let is_session =
                [entry.session_id.as_str(), entry.session_id.local()].contains(&session_id.as_str());
            let is_it = entry.event == "verdict_cached" && entry.verdict_sha256 == sha256 && is_session;
            is_it.then_some(entry.session_id)
        };
        let sessions: BTreeSet<_> =
            proof.entries.iter().filter_map(|entry| delivered_to(&entry.line)).collect();
        let message = match Vec::from_iter(sessions).as_slice() {
            [session_id] => {
                return Ok(Some(VerdictReport {
                    session_id: session_id.clone(),
                    application: session_id.application(),
                    verified: VERIFIED_MEMBERS,
                    not_verified: not_verified.clone(),
                }));
            }
            [one, other, ..] => format!(
                "the entries are about two sessions, {one} and {other}; allowed: entries of one session"
            ),
            [] => format!(
                "no entry is about the delivery of this verdict (SHA-256 {sha256}) to session {session_id}"
            ),
        };
        Err(refused(message))
    }
}

/// Verifies a bundle. Returns its checkpoint.
pub(super) fn verify(
    bundle: &LogBundle,
    keys: &LogKeys,
    earlier: Option<&Checkpoint>,
) -> Result<Checkpoint, CtlError> {
    let checkpoint = keys.verify(&bundle.checkpoint).map_err(|error| refused(error.to_string()))?;
    if bundle.entries.is_empty() {
        return Err(refused("the document has no entries".to_owned()));
    }
    let mut numbers = BTreeSet::new();
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
        if !numbers.insert(seq) {
            return Err(refused(format!(
                "entry {seq} is repeated; `oraclectl log prove` prints each entry once"
            )));
        }
    }
    if let Some(earlier) = earlier {
        check_continuation(bundle, earlier, &checkpoint)?;
    }
    Ok(checkpoint)
}

/// Checks that the log of `checkpoint` continues that of `earlier`.
fn check_continuation(
    bundle: &LogBundle,
    earlier: &Checkpoint,
    checkpoint: &Checkpoint,
) -> Result<(), CtlError> {
    if earlier.origin != checkpoint.origin {
        let message = format!(
            "the earlier checkpoint is of the log {}, and the bundle of the log {}; allowed: checkpoints of one log",
            earlier.origin, checkpoint.origin
        );
        return Err(refused(message));
    }
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
    Ok(())
}
