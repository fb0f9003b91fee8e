//! Verdicts that the policy holds until an operator decides.

use crate::generation::VerdictGeneration;
use crate::policy::PolicyCause;
use crate::prompt::VerdictPrompt;
use domain_base::digest::Sha256Hex;
use domain_base::gate_path::GatePath;
use domain_base::row::{IndexEntry, KeyedRow, Row, RowData, Table, check_row, not_indexed};
use domain_base::session_id::SessionId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// An approved verdict that is held. Its text is encrypted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HeldVerdict {
    pub session_id: SessionId,
    pub held_at: Timestamp,
    /// The path on which it arrived.
    pub path: GatePath,
    /// Why it is held.
    pub causes: Vec<PolicyCause>,
    /// The SHA-256 of its text.
    pub verdict_sha256: Sha256Hex,
    /// How the model generated it; `None` for a submitted verdict.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub generation: Option<VerdictGeneration>,
    /// The prompt of a submitted verdict, if the caller named it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub prompt: Option<VerdictPrompt>,
    /// Its delivery document, encrypted: the nonce and the ciphertext, in Base64.
    pub sealed: String,
}

impl Row for HeldVerdict {
    type Key = SessionId;
    const TABLE: &'static Table = &Table {
        name: "held",
        bundle: None,
        data: RowData::of_named_session("held_verdict"),
        is_new_work: false,
        names_files: false,
        finds_entries: false,
        upgrades: &[],
        check: check_row::<Self>,
        indexes: &[],
        index: not_indexed,
    };

    fn index(&self) -> Vec<IndexEntry> {
        Vec::new()
    }
}

impl KeyedRow for HeldVerdict {
    fn key(&self) -> SessionId {
        self.session_id.clone()
    }
}
