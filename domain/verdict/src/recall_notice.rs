//! Notices to customers about recalled verdicts. A recall drafts them, and a person releases or discards each.

use crate::recall::{RecallResult, RecalledVerdict};
use domain_base::caller::PeerCredentials;
use domain_base::digest::Sha256Hex;
use domain_base::event::{EntryMembers, Event, EventClass};
use domain_base::row::{IndexEntry, KeyedRow, Row, RowData, Table, check_row, not_indexed};
use domain_base::session_id::SessionId;
use domain_ground::id::SourceId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A drafted notice. A session has at most one, about the verdict that is stored for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RecallNotice {
    /// The session.
    pub session_id: SessionId,
    /// The time of its facts.
    pub drafted_at: Timestamp,
    /// The SHA-256 of the text of the verdict.
    pub verdict_sha256: Sha256Hex,
    /// The recalls that it reports: the last one of each source.
    pub recalls: Vec<SourceRecall>,
}

/// A recall of a verdict by a run of a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SourceRecall {
    /// The source.
    pub oracle_id: SourceId,
    /// The run.
    pub run_id: Sha256Hex,
    /// The verdict, with its statements then and now.
    pub verdict: RecalledVerdict,
}

/// A claim of the verdict, and the statement that supported it.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct NoticeStatement<'n> {
    pub source: &'n SourceId,
    /// The text of the claim; empty if the rules do not say which claims the statement supported.
    pub claim: &'n str,
    /// The statement of the evaluation; empty if it is not stored.
    pub then: &'n str,
    /// The present statement; empty if there is none.
    pub now: String,
    pub result: RecallResult,
}

impl RecallNotice {
    /// The notice about `recall` of the verdict with this digest, in place of the draft `before`. It keeps the recalls of that verdict
    /// by other sources.
    #[must_use]
    pub fn drafted(
        before: Option<Self>,
        recall: SourceRecall,
        verdict_sha256: &Sha256Hex,
        now: Timestamp,
    ) -> Self {
        let before = before.filter(|before| before.verdict_sha256 == *verdict_sha256);
        let mut recalls = before.map(|before| before.recalls).unwrap_or_default();
        recalls.retain(|other| other.oracle_id != recall.oracle_id);
        let session_id = recall.verdict.session_id.clone();
        recalls.push(recall);
        Self { session_id, drafted_at: now, verdict_sha256: verdict_sha256.clone(), recalls }
    }

    /// The notice without the recall by a source; `None` if it has no other.
    #[must_use]
    pub fn without(mut self, oracle_id: &SourceId, now: Timestamp) -> Option<Self> {
        self.recalls.retain(|recall| recall.oracle_id != *oracle_id);
        (!self.recalls.is_empty()).then_some(Self { drafted_at: now, ..self })
    }

    /// The gravest result.
    #[must_use]
    pub fn result(&self) -> RecallResult {
        let results = self.recalls.iter().map(|recall| recall.verdict.result);
        results.max().unwrap_or(RecallResult::StillSupported)
    }

    /// The claims with their statements; a statement without claims once.
    #[must_use]
    pub fn statements(&self) -> Vec<NoticeStatement<'_>> {
        let mut listed = Vec::new();
        for SourceRecall { oracle_id, verdict, .. } in &self.recalls {
            for statement in &verdict.statements {
                let with = |claim, result| NoticeStatement {
                    source: oracle_id,
                    claim,
                    then: statement.then.as_deref().unwrap_or_default(),
                    now: statement.now.join("; "),
                    result,
                };
                listed.extend(statement.checked.iter().map(|claim| with(claim.text.as_str(), claim.result)));
                if statement.checked.is_empty() {
                    listed.push(with("", verdict.result));
                }
            }
        }
        listed
    }
}

impl Row for RecallNotice {
    type Key = SessionId;
    const TABLE: &'static Table = &Table {
        name: "recall_notices",
        bundle: None,
        data: RowData::of_named_session("recall_notice"),
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

impl KeyedRow for RecallNotice {
    fn key(&self) -> SessionId {
        self.session_id.clone()
    }
}

/// A decision about a drafted notice.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr, utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum RecallNoticeAction {
    /// Send it.
    Release,
    /// Remove it without sending it.
    Discard,
}

/// An operator read a drafted notice, with the mail that the customer would get.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RecallNoticeRead {
    /// The operator's process.
    pub peer: PeerCredentials,
}

impl Event for RecallNoticeRead {
    const NAME: &'static str = "recall_notice_read";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = true;

    fn summary(entry: EntryMembers<'_>) -> String {
        entry.by_peer()
    }
}

/// An operator released a drafted notice. `message_queued` of its mail is in the same commit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RecallNoticeReleased {
    /// The operator's reason.
    pub reason: String,
    /// The name of the operator; absent if the system had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_name: Option<String>,
    /// The operator's process.
    pub peer: PeerCredentials,
}

impl Event for RecallNoticeReleased {
    const NAME: &'static str = "recall_notice_released";
    const ERASABLE: &'static [&'static str] = &["reason", "user_name"];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = true;

    fn summary(entry: EntryMembers<'_>) -> String {
        entry.by_peer()
    }
}

/// An operator discarded a drafted notice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RecallNoticeDiscarded {
    /// The operator's reason.
    pub reason: String,
    /// The name of the operator; absent if the system had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_name: Option<String>,
    /// The operator's process.
    pub peer: PeerCredentials,
}

impl Event for RecallNoticeDiscarded {
    const NAME: &'static str = "recall_notice_discarded";
    const ERASABLE: &'static [&'static str] = &["reason", "user_name"];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = true;

    fn summary(entry: EntryMembers<'_>) -> String {
        entry.by_peer()
    }
}

/// The daemon removed the recall by a source from a drafted notice, because the statements of the source are again as they were. A
/// notice without another recall is withdrawn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RecallNoticeWithdrawn {
    /// The source.
    pub oracle_id: SourceId,
}

impl Event for RecallNoticeWithdrawn {
    const NAME: &'static str = "recall_notice_withdrawn";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = true;

    fn summary(entry: EntryMembers<'_>) -> String {
        format!("statements of {} are as before", entry.text("oracle_id"))
    }
}

#[cfg(test)]
mod tests;
