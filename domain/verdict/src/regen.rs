//! The rate limit for regenerations of a lost verdict (seed: `regen-consistency`, invariant 8 and REGEN-GAP-03).

use crate::crosscheck::CrosscheckDecision;
use crate::generation::GenerationOutcome;
use crate::policy::PolicyCause;
use crate::rejection::AnswerRejection;
use domain_base::row::{IndexEntry, KeyedRow, Row, RowData, Table, check_row, not_indexed};
use domain_base::session_id::SessionId;
use domain_base::upstream_text::UpstreamText;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// The period in which a session's verdict is regenerated at most once.
pub const REGEN_PERIOD: SignedDuration = SignedDuration::from_mins(5);

/// The latest attempt to regenerate a session's verdict, with or without an answer of the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RegenAttempt {
    pub session_id: SessionId,
    /// The time of the attempt.
    pub attempted_at: Timestamp,
    /// The host of a cluster that makes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// How it ended without a verdict. Only hosts of a cluster store it, for the readers that wait on other hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<RegenFailure>,
}

/// The end of a regeneration without a verdict. It has no text of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RegenFailure {
    pub outcome: GenerationOutcome,
    /// The error, for people.
    pub cause: UpstreamText,
    /// The decision, if the crosscheck or the policy rejected the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<CrosscheckDecision>,
    /// Why the policy refused the answer; empty if it did not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policy_causes: Vec<PolicyCause>,
    /// The faults for which the rules rejected the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejection: Option<AnswerRejection>,
    /// When a retry makes sense; `None` if it makes none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Timestamp>,
}

impl RegenAttempt {
    /// The time from `now` until the next attempt is allowed; `None` if it is allowed.
    ///
    /// It is at most the period. It is `None` if the attempt is more than one period in the future, so that a clock
    /// that was set back does not lock out a customer.
    #[must_use]
    pub fn wait(&self, now: Timestamp) -> Option<SignedDuration> {
        let left = REGEN_PERIOD - now.duration_since(self.attempted_at);
        let set_back = left > REGEN_PERIOD + REGEN_PERIOD;
        (left.is_positive() && !set_back).then(|| left.min(REGEN_PERIOD))
    }
}

impl Row for RegenAttempt {
    type Key = SessionId;
    const TABLE: &'static Table = &Table {
        name: "regens",
        bundle: None,
        data: RowData::of_named_session("regen_attempt"),
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

impl KeyedRow for RegenAttempt {
    fn key(&self) -> SessionId {
        self.session_id.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regen_gap_03_session_regenerates_once_in_five_minutes() {
        let at = |second: i64| Timestamp::from_second(1_800_000_000 + second).expect("a valid time");
        let attempt = RegenAttempt {
            session_id: "cs_1".parse().expect("a valid id"),
            attempted_at: at(0),
            host: None,
            failure: None,
        };
        for (second, wait_s) in [
            (0, Some(300)),
            (1, Some(299)),
            (299, Some(1)),
            (300, None),
            (9999, None),
            (-60, Some(300)),
            (-3600, None),
        ] {
            assert_eq!(attempt.wait(at(second)).map(|wait| wait.as_secs()), wait_s, "after {second} s");
        }
    }
}
