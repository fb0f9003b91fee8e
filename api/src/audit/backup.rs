//! The manifest of a backup, its last file.

use jiff::Timestamp;
use oracled_domain::Sha256Hex;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The file with the manifest. A directory without it is not a complete backup.
pub const MANIFEST_FILE: &str = "manifest.json";
/// The file with the signed checkpoint of the log at the end of the backup.
pub const CHECKPOINT_FILE: &str = "checkpoint";
/// The present format of a backup.
pub const BACKUP_FORMAT: u32 = 1;

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
    #[error("the manifest is damaged: {0}")]
    Damaged(String),
    /// Another version made the backup.
    #[error(
        "the backup has format {0}, and this version reads format {BACKUP_FORMAT}; use the version that made the backup"
    )]
    Format(u32),
}

/// The content of the file: a manifest, and the digest of its text, which reveals any changed byte.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ManifestDocument {
    sha256: Sha256Hex,
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
    pub fn to_text(&self) -> Result<String, serde_json::Error> {
        let manifest = serde_json::value::to_raw_value(self)?;
        let sha256 = Sha256Hex::of(manifest.get().as_bytes());
        serde_json::to_string(&ManifestDocument { sha256, manifest }).map(|text| text + "\n")
    }

    /// Reads the text of a manifest's file.
    ///
    /// # Errors
    /// If the text is not exactly one that [`BackupManifest::to_text`] returns, or has another format.
    pub fn from_text(text: &str) -> Result<Self, ManifestError> {
        let damaged = |error: serde_json::Error| ManifestError::Damaged(error.to_string());
        let document: ManifestDocument = serde_json::from_str(text).map_err(damaged)?;
        if Sha256Hex::of(document.manifest.get().as_bytes()) != document.sha256 {
            return Err(ManifestError::Damaged("its digest is not that of its text".to_owned()));
        }
        #[derive(Deserialize)]
        struct FormatOnly {
            format: u32,
        }
        let FormatOnly { format } = serde_json::from_str(document.manifest.get()).map_err(damaged)?;
        if format != BACKUP_FORMAT {
            return Err(ManifestError::Format(format));
        }
        let manifest: Self = serde_json::from_str(document.manifest.get()).map_err(damaged)?;
        match manifest.to_text() {
            Ok(expected) if expected == text => Ok(manifest),
            _ => Err(ManifestError::Damaged("its text was changed".to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> BackupManifest {
        let sha256 = Sha256Hex::of(b"x");
        BackupManifest {
            format: BACKUP_FORMAT,
            version: "0.2.0".into(),
            created_at: "2026-11-22T10:00:00Z".parse().unwrap(),
            entries: 7,
            files: vec![BackedUpFile { name: "segments/0000000001".into(), bytes: 1, sha256 }],
        }
    }

    #[test]
    fn manifest_with_any_changed_byte_is_rejected() {
        let text = manifest().to_text().unwrap();
        assert_eq!(BackupManifest::from_text(&text), Ok(manifest()));
        for at in 0..text.len() {
            for bit in 0..7 {
                let mut changed = text.clone().into_bytes();
                changed[at] ^= 1 << bit;
                let changed = String::from_utf8(changed).unwrap();
                assert!(BackupManifest::from_text(&changed).is_err(), "{at}: {changed}");
            }
        }
        assert!(BackupManifest::from_text(&format!("{text}\n")).is_err());
    }

    #[test]
    fn manifest_of_another_format_is_rejected() {
        let text = BackupManifest { format: 2, ..manifest() }.to_text().unwrap();
        assert_eq!(BackupManifest::from_text(&text), Err(ManifestError::Format(2)));
    }
}
