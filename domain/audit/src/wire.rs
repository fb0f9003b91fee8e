//! The audit log, proofs over its Merkle tree, and the manifest of a backup, its last file.

// these docstrings become the descriptions in the OpenAPI documents and in `docs/reference`
#![warn(missing_docs)]

use crate::checkpoint::{LogKey, LogSigner};
use crate::leaf::{EntryLink, RowDigests};
use crate::log_tree::TreeHash;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use domain_base::caller::{RequestCaller, TraceId};
use domain_base::digest::Sha256Hex;
use domain_base::moment::{self, Moment};
use domain_base::page::PageLimit;
use domain_base::session_id::SessionId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// The highest number of entries in one answer: 10,000; by default 100.
pub type LogLimit = PageLimit<100, 10_000>;

/// The event of an entry. Its schema, with all events, comes from the crate of all features.
#[derive(Debug, utoipa::ToSchema)]
#[schema(as = EventKind)]
pub struct EventForm {}

/// An entry of the audit log: one line of `oracle_log.jsonl`.
#[derive(Debug, utoipa::ToSchema)]
pub struct LogEntry {
    /// The number of the entry, from 1 without gaps.
    pub seq: u64,
    /// The event, with its details.
    #[serde(flatten)]
    pub event: EventForm,
    /// The session that the event is about; null for an evaluation of a text without a session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// When it happened.
    pub timestamp: Timestamp,
    /// True if the daemon was in test mode, else absent.
    #[serde(skip_serializing_if = "is_false")]
    pub test_mode: bool,
    /// The trace of the request whose work the daemon continued on its own, such as the attempt of an order; absent if there is none. An
    /// entry with a `caller` has the trace there.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub trace_id: Option<TraceId>,
    /// The entries of the same delivery that came before it, by increasing numbers; absent if there are none. `verdict_cached` names the
    /// attempt, the crosscheck, the evaluation, the policy, the stop of the order and the release from which the delivery follows.
    /// `order_delivered` and `regen_divergence_check` name `verdict_cached`. An entry of an older version has none. It is erased where
    /// session ids are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<EntryLink>,
    /// The process whose request caused it; absent if the daemon acted on its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub caller: Option<RequestCaller>,
    /// The SHA-256 of each stored row that was set with the entry, by its table and its name (`sessions/cs_1`); null if the row was
    /// removed. If the value was erased or withheld, it is an object with the one member `sha256`. `oraclectl verify-log` compares them with the rows of a state directory or a backup.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub rows_sha256: Option<RowDigests>,
    /// The salts of the erasable values, by the names of their members: 32 hexadecimal digits each. The Merkle tree has hashes of
    /// these values. An erased value is an object with the member `sha256`, and has no salt here.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub salts: BTreeMap<String, String>,
}

/// The hash in place of a value that was erased or withheld.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HiddenValue {
    /// The SHA-256 of the value's salt and its JSON.
    pub sha256: Sha256Hex,
}

/// The query of `GET /v1/log` and `GET /v1/log/follow`.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct LogParams {
    /// Only entries of this session.
    pub session: Option<String>,
    /// Only entries of the verification with this execution id.
    pub execution: Option<String>,
    /// Only entries that the request with this id caused.
    pub request_id: Option<String>,
    /// Only events of this name, or of several names, separated by commas.
    pub event: Option<String>,
    /// Only entries at or after this time.
    #[serde(default, deserialize_with = "moment::optional")]
    #[param(value_type = Option<Moment>)]
    pub since: Option<Timestamp>,
    /// Only entries with a higher `seq`; without it, the newest.
    pub after: Option<u64>,
    /// The highest number of entries in the answer.
    #[param(inline)]
    #[serde(default)]
    pub limit: LogLimit,
}

/// The query of `GET /v1/log/checkpoint`.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct CheckpointParams {
    /// Returns the newest checkpoint that a witness has cosigned since the start of the daemon; without one, the newest one.
    #[param(inline)]
    pub cosigned: Option<CosignedCheckpoint>,
}

/// Whether a checkpoint has cosignatures.
#[derive(Debug, Clone, Copy, Deserialize, utoipa::ToSchema)]
pub enum CosignedCheckpoint {
    /// It has.
    #[serde(rename = "1")]
    Preferred,
}

/// The query of `GET /v1/log/proof`.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EntryProofParams {
    /// The number of the entry.
    pub seq: u64,
    /// The number of entries of the tree, as in a checkpoint.
    pub size: u64,
}

/// The query of `GET /v1/log/continuation`.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ContinuationParams {
    /// The number of entries of the earlier tree.
    pub old_size: u64,
    /// The number of entries of the later tree.
    pub size: u64,
}

/// A proof over the Merkle tree of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LogProof {
    /// The hashes of the proof by RFC 6962, in Base64.
    pub hashes: Vec<String>,
}

impl LogProof {
    /// The proof with these hashes.
    #[must_use]
    pub fn of(hashes: &[TreeHash]) -> Self {
        Self { hashes: hashes.iter().map(|hash| BASE64_STANDARD.encode(hash)).collect() }
    }

    /// The hashes; `None` if one is not 32 bytes in Base64.
    #[must_use]
    pub fn read(&self) -> Option<Vec<TreeHash>> {
        self.hashes.iter().map(|hash| BASE64_STANDARD.decode(hash).ok()?.try_into().ok()).collect()
    }
}

/// Entries of the log with the proof that the log has them. It is verified without a daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LogBundle {
    /// The signed checkpoint for which the proofs hold.
    pub checkpoint: String,
    /// The entries.
    pub entries: Vec<ProvedEntry>,
    /// The proof that the log continues an earlier one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub continuation: Option<ProvedContinuation>,
}

/// An entry of the log with its proof.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProvedEntry {
    /// The line of the entry, byte for byte.
    pub line: String,
    /// The proof.
    pub proof: LogProof,
}

/// The proof that the log continues an earlier one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProvedContinuation {
    /// The number of entries of the earlier log.
    pub old_size: u64,
    /// The proof.
    pub proof: LogProof,
    /// The signed checkpoint of the earlier log, if the bundle has it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub checkpoint: Option<String>,
}

/// The file with the manifest. A directory without it is not a complete backup.
pub const MANIFEST_FILE: &str = "manifest.json";
/// The file with the signed checkpoint of the log at the end of the backup.
pub const CHECKPOINT_FILE: &str = "checkpoint";
/// The present format of a backup.
pub const BACKUP_FORMAT: u32 = 2;

/// The files of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackupManifest {
    /// The format of the backup.
    pub format: u32,
    /// The version of the daemon that made it.
    pub version: String,
    /// When the backup was begun.
    pub created_at: Timestamp,
    /// The number of log entries.
    pub entries: u64,
    /// The entry up to which the host has removed the data of erasures from its files; `None` if the backup has none of such data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed_up_to: Option<u64>,
    /// The public key of the log, which has signed the manifest and the checkpoint. A backup has no private key.
    pub log_key: String,
    /// All files except the manifest.
    pub files: Vec<BackedUpFile>,
}

/// A file of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackedUpFile {
    /// Its path in the backup, with `/` between folders.
    pub name: String,
    /// The length, in bytes.
    pub bytes: u64,
    /// The SHA-256 of its bytes.
    pub sha256: Sha256Hex,
}

/// Why a text is not a manifest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// The text is not that of a manifest.
    #[error("the manifest is damaged: {0}; use another backup")]
    Damaged(String),
    /// The key has not signed the manifest.
    #[error(
        "the manifest is not signed with this key: it names {log_key}; name the key of the log from a source that you trust, or use \
         another backup"
    )]
    Unsigned {
        /// The public key that the manifest names.
        log_key: String,
    },
    /// The signature is not that of the key that the manifest names.
    #[error("the signature of the manifest is not valid: the manifest was changed; use another backup")]
    Forged,
    /// Another version made the backup.
    #[error(
        "the backup has format {0}, and this version reads format {BACKUP_FORMAT}; use the version that made the backup"
    )]
    Format(u32),
}

/// The content of the file: a manifest, and the signature of its text, in Base64.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ManifestDocument {
    signature: String,
    manifest: Box<RawValue>,
}

impl BackupManifest {
    /// The length of all files, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// The text of the manifest's file.
    ///
    /// # Errors
    /// If the manifest cannot be serialized, which does not occur.
    pub fn to_text(&self, signer: &LogSigner) -> Result<String, serde_json::Error> {
        let manifest = serde_json::value::to_raw_value(self)?;
        let signature = signer.sign_manifest(manifest.get());
        serde_json::to_string(&ManifestDocument { signature, manifest }).map(|text| text + "\n")
    }

    /// Reads the text of a manifest's file, which one of `keys` must have signed.
    ///
    /// # Errors
    /// If the text is not exactly one that [`BackupManifest::to_text`] returns, has another format, or is not signed by the key
    /// that it names, or if this key is not one of `keys`.
    pub fn verify(text: &str, keys: &[LogKey]) -> Result<Self, ManifestError> {
        let manifest = Self::verify_with_own_key(text)?;
        if keys.iter().any(|key| key.to_string() == manifest.log_key) {
            return Ok(manifest);
        }
        Err(ManifestError::Unsigned { log_key: manifest.log_key })
    }

    /// Reads the text of a manifest's file, which the key that it names must have signed. This proves that the text is whole, but
    /// not whose it is.
    ///
    /// # Errors
    /// As for [`BackupManifest::verify`].
    pub fn verify_with_own_key(text: &str) -> Result<Self, ManifestError> {
        let damaged = |error: serde_json::Error| ManifestError::Damaged(error.to_string());
        #[derive(Deserialize)]
        struct AnyDocument<'d> {
            #[serde(borrow)]
            manifest: &'d RawValue,
        }
        #[derive(Deserialize)]
        struct FormatOnly {
            format: u32,
        }
        // the document of another format has other members
        let AnyDocument { manifest } = serde_json::from_str(text).map_err(damaged)?;
        let FormatOnly { format } = serde_json::from_str(manifest.get()).map_err(damaged)?;
        if format != BACKUP_FORMAT {
            return Err(ManifestError::Format(format));
        }
        let document: ManifestDocument = serde_json::from_str(text).map_err(damaged)?;
        let manifest: Self = serde_json::from_str(document.manifest.get()).map_err(damaged)?;
        let key: LogKey =
            manifest.log_key.parse().map_err(|error| ManifestError::Damaged(format!("{error}")))?;
        if !key.has_signed_manifest(document.manifest.get(), &document.signature) {
            return Err(ManifestError::Forged);
        }
        // there is one form of the document
        match serde_json::to_string(&document) {
            Ok(expected) if text.strip_suffix('\n') == Some(expected.as_str()) => Ok(manifest),
            _ => Err(ManifestError::Damaged("its text was changed".to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signer(secret: u8) -> LogSigner {
        LogSigner::new("oracled/1", &[secret; 32])
    }

    fn manifest() -> BackupManifest {
        let sha256 = Sha256Hex::of(b"x");
        BackupManifest {
            format: BACKUP_FORMAT,
            version: "0.2.0".into(),
            created_at: "2026-11-22T10:00:00Z".parse().unwrap(),
            removed_up_to: None,
            entries: 7,
            log_key: signer(1).key().to_string(),
            files: vec![BackedUpFile { name: "segments/0000000001".into(), bytes: 1, sha256 }],
        }
    }

    #[test]
    fn manifest_with_any_changed_byte_is_rejected() {
        let keys = [signer(1).key().clone()];
        let text = manifest().to_text(&signer(1)).unwrap();
        assert_eq!(BackupManifest::verify(&text, &keys), Ok(manifest()));
        for at in 0..text.len() {
            for bit in 0..7 {
                let mut changed = text.clone().into_bytes();
                changed[at] ^= 1 << bit;
                let changed = String::from_utf8(changed).unwrap();
                assert!(BackupManifest::verify(&changed, &keys).is_err(), "{at}: {changed}");
            }
        }
        assert!(BackupManifest::verify(&format!("{text}\n"), &keys).is_err());
    }

    #[test]
    fn manifest_of_another_format_is_rejected() {
        for format in [1, 3] {
            let text = BackupManifest { format, ..manifest() }.to_text(&signer(1)).unwrap();
            assert_eq!(BackupManifest::verify_with_own_key(&text), Err(ManifestError::Format(format)));
        }
    }

    #[test]
    fn manifest_is_accepted_only_under_a_trusted_key_that_signed_it() {
        let forged = BackupManifest { log_key: signer(2).key().to_string(), ..manifest() };
        let text = forged.to_text(&signer(2)).unwrap();
        let unsigned = ManifestError::Unsigned { log_key: forged.log_key };
        assert_eq!(BackupManifest::verify(&text, &[signer(1).key().clone()]), Err(unsigned));
        let text = manifest().to_text(&signer(2)).unwrap();
        assert_eq!(BackupManifest::verify(&text, &[signer(1).key().clone()]), Err(ManifestError::Forged));
    }
}
