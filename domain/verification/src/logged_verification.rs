//! The decisions of verification in the log, some of whose values may be erased.

use crate::event::{VerificationDecided, VerificationEntry};
use crate::{AxisReason, EnvelopeKind};
use domain_audit::leaf::{LogLineError, hidden_members};
use domain_base::event::Event;
use domain_ground::id::WorkflowId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The log entry of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoggedVerification {
    Whole(Box<VerificationEntry>),
    Erased(ErasedVerification),
}

/// A decision that cannot be shown or computed again, because values of its log entry were erased.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ErasedVerification {
    /// The number of the log entry.
    pub seq: u64,
    /// The execution id of the decision.
    pub execution_id: String,
    /// The workflow.
    pub workflow_id: WorkflowId,
    /// The time of the decision.
    pub timestamp: Timestamp,
    /// The kind of the envelope.
    pub kind: EnvelopeKind,
    /// The reasons why axes have no value; empty if all axes have one.
    pub reasons: BTreeSet<AxisReason>,
    /// The members of the log entry whose values were erased: `envelope`, `inputs` and others.
    #[serde(default)]
    pub erased: Vec<String>,
}

impl LoggedVerification {
    /// Reads the line of an entry.
    ///
    /// # Errors
    /// The line is not the entry of a decision.
    pub fn read(line: &str) -> Result<Self, LogLineError> {
        let hidden = hidden_members(line)?;
        let is_needed = |member: &String| VerificationDecided::ERASABLE.contains(&&**member);
        let erased: Vec<_> = hidden.into_iter().filter(is_needed).collect();
        if erased.is_empty() {
            return Ok(Self::Whole(serde_json::from_str(line)?));
        }
        let entry: ErasedVerification = serde_json::from_str(line)?;
        Ok(Self::Erased(ErasedVerification { erased, ..entry }))
    }

    /// The entry, if it has all values.
    #[must_use]
    pub fn into_whole(self) -> Option<VerificationEntry> {
        match self {
            Self::Whole(entry) => Some(*entry),
            Self::Erased(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide;
    use crate::tests::support::{answers, inputs, now, workflow};
    use domain_audit::leaf::{CALLER, EntryAdditions, EntrySalts, entry_text, hide_values};
    use domain_base::event::AuditEvent;
    use domain_ground::source::OracleTier::Primary;
    use serde_json::json;

    #[test]
    fn decision_without_its_values_names_the_erased_members() {
        let mut inputs = inputs(workflow(&["dose"], &["lab-a"], json!({})), &["dose"], json!({}));
        answers(&mut inputs, "lab-a", Primary, &[("dose", "10")]);
        let entry = VerificationEntry::of(inputs.clone(), &decide(&inputs));
        let event = AuditEvent::new(now(), None, VerificationDecided(entry.clone()));
        let line = entry_text(
            7,
            &event,
            EntryAdditions::default(),
            &EntrySalts { secret: [7; 16], covers_session_ids: false },
        )
        .line;
        let whole = LoggedVerification::read(&line).expect("a decision");
        assert_eq!(whole.into_whole(), Some(entry.clone()));
        let without_caller = hide_values(&line, |member| member == CALLER).expect("an entry");
        assert!(matches!(LoggedVerification::read(&without_caller), Ok(LoggedVerification::Whole(_))));
        for hidden in [&["inputs"][..], &["envelope_sha256", "envelope", "inputs"]] {
            let line = hide_values(&line, |member| hidden.contains(&member)).expect("an entry");
            let erased = LoggedVerification::read(&line).expect("a decision");
            let expected = ErasedVerification {
                seq: 7,
                execution_id: entry.execution_id.clone(),
                workflow_id: entry.workflow_id.clone(),
                timestamp: now(),
                kind: entry.kind,
                reasons: entry.reasons.clone(),
                erased: hidden.iter().map(|member| (*member).to_owned()).collect(),
            };
            assert_eq!(erased, LoggedVerification::Erased(expected));
        }
    }
}
