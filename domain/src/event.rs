//! Every audit event, with the seed's field names.
//!
//! An event says what was decided or changed, by whom and when; it never holds a rejected verdict's text. Its
//! JSON is one line of `oracle_log.jsonl`, to which the journal adds `seq`.

use crate::crosscheck::{Judgement, Reason};
use crate::digest::Sha256Hex;
use crate::flag::Flag;
use crate::session::{Query, SessionId};
use crate::tmm::{OMEGA, PHI};
use crate::verdict::{Label, Tier};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The path on which a verdict came to the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GatePath {
    /// Handed in for delivery.
    Submit,
    /// Written to the cache by the routes of the service that oracled replaces.
    CacheWrite,
    /// Judged only.
    Check,
}

impl GatePath {
    /// The path's name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Submit => "submit",
            Self::CacheWrite => "cache_write",
            Self::Check => "check",
        }
    }
}

/// Who sent a control message, as the kernel tells it (`SO_PEERCRED`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Process id; absent where the kernel names none.
    pub pid: Option<i32>,
}

/// The seed's "Log Entry", and beside it the mapping's variables, the path and the verdict's digest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CrosscheckEntry {
    /// Whose verdict.
    pub session_id: SessionId,
    /// Judged for which tier.
    pub tier: Tier,
    /// The first 80 Unicode scalar values of the query.
    pub query_preview: String,
    /// The valid top-level verdict, else null.
    pub verdict_label: Option<Label>,
    /// C.
    pub coherence_score: f64,
    /// Ω.
    pub threshold: f64,
    /// Φ.
    pub phi: f64,
    /// Whether it passed.
    pub approved: bool,
    /// What was found.
    pub flags: Vec<Flag>,
    /// Why it passed or not.
    pub crosscheck_reason: Reason,
    /// When it was judged.
    pub timestamp: Timestamp,
    /// Total value.
    pub v_t: f64,
    /// Resonant value.
    pub v_r: f64,
    /// Decoherence energy.
    pub e_d: f64,
    /// On which path it came.
    pub path: GatePath,
    /// The SHA-256 of the judged text; all that is kept of a rejected one.
    pub verdict_sha256: Sha256Hex,
}

/// One thing that happened and must be known later.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A verdict was judged.
    TmmCrosscheck(CrosscheckEntry),
    /// Judging failed inside; nothing was approved.
    CrosscheckError {
        /// Whose verdict.
        session_id: SessionId,
        /// On which path it came.
        path: GatePath,
        /// Always `ERROR`.
        level: Severity,
        /// What went wrong.
        cause: String,
        /// When.
        timestamp: Timestamp,
    },
    /// An approved verdict was stored and may be answered from now on.
    VerdictCached {
        /// Whose.
        session_id: SessionId,
        /// Of which tier.
        tier: Tier,
        /// Its top-level verdict.
        verdict_label: Label,
        /// The SHA-256 of its text.
        verdict_sha256: Sha256Hex,
        /// On which path it came.
        path: GatePath,
        /// When.
        timestamp: Timestamp,
    },
    /// A cached verdict was removed by an administrator; its session stays.
    VerdictPurged {
        /// Whose.
        session_id: SessionId,
        /// The SHA-256 of the text that was removed.
        verdict_sha256: Sha256Hex,
        /// By whom.
        peer: Peer,
        /// When.
        timestamp: Timestamp,
    },
    /// An administrator changed how the daemon runs.
    ControlAction {
        /// Which verb.
        action: String,
        /// What it was asked to do.
        detail: String,
        /// By whom; null for a signal, whose sender the kernel does not name.
        peer: Option<Peer>,
        /// When.
        timestamp: Timestamp,
    },
    /// The journal takes entries again after a time in which it could not.
    StorageRecovered {
        /// What had failed.
        cause: String,
        /// Since when.
        failed_at: Timestamp,
        /// How many entries went to the service log as `log_fallback` meanwhile.
        fallback_entries: u64,
        /// When.
        timestamp: Timestamp,
    },
    /// The daemon began to serve.
    ServiceStarted {
        /// Its version.
        version: String,
        /// When.
        timestamp: Timestamp,
    },
    /// The daemon ended in good order.
    ServiceStopped {
        /// When.
        timestamp: Timestamp,
    },
}

/// How grave an event is, where it says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Severity {
    /// Something failed.
    Error,
}

impl Event {
    /// The names of all events, for whoever asks the log for one kind.
    pub const KINDS: [&'static str; 8] = [
        "tmm_crosscheck",
        "crosscheck_error",
        "verdict_cached",
        "verdict_purged",
        "control_action",
        "storage_recovered",
        "service_started",
        "service_stopped",
    ];

    /// The entry for `judgement` of a verdict that came in on `path` at `at`.
    #[must_use]
    pub fn judged(
        judgement: &Judgement,
        session_id: SessionId,
        query: &Query,
        path: GatePath,
        at: Timestamp,
    ) -> Self {
        let Judgement { tier, inspection, decision, sha256, .. } = judgement;
        Self::TmmCrosscheck(CrosscheckEntry {
            session_id,
            tier: *tier,
            query_preview: query.preview(),
            verdict_label: decision.verdict_label,
            coherence_score: decision.coherence_score,
            threshold: OMEGA,
            phi: PHI,
            approved: decision.approved,
            flags: decision.flags.clone(),
            crosscheck_reason: decision.crosscheck_reason,
            timestamp: at,
            v_t: inspection.v_t,
            v_r: inspection.v_r,
            e_d: inspection.e_d,
            path,
            verdict_sha256: sha256.clone(),
        })
    }

    /// The event's name: its `event` field.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        let [crosscheck, error, cached, purged, control, recovered, started, stopped] = Self::KINDS;
        match self {
            Self::TmmCrosscheck(_) => crosscheck,
            Self::CrosscheckError { .. } => error,
            Self::VerdictCached { .. } => cached,
            Self::VerdictPurged { .. } => purged,
            Self::ControlAction { .. } => control,
            Self::StorageRecovered { .. } => recovered,
            Self::ServiceStarted { .. } => started,
            Self::ServiceStopped { .. } => stopped,
        }
    }

    /// The session it speaks of, if any.
    #[must_use]
    pub const fn session_id(&self) -> Option<&SessionId> {
        match self {
            Self::TmmCrosscheck(CrosscheckEntry { session_id, .. })
            | Self::CrosscheckError { session_id, .. }
            | Self::VerdictCached { session_id, .. }
            | Self::VerdictPurged { session_id, .. } => Some(session_id),
            _ => None,
        }
    }

    /// Whether it has happened even where it cannot be committed: a verdict was judged whatever becomes of its entry,
    /// but it is not cached unless the entry that says so is durable.
    #[must_use]
    pub const fn holds_uncommitted(&self) -> bool {
        !matches!(self, Self::VerdictCached { .. } | Self::VerdictPurged { .. })
    }

    /// When it happened.
    #[must_use]
    pub const fn timestamp(&self) -> Timestamp {
        match self {
            Self::TmmCrosscheck(CrosscheckEntry { timestamp, .. })
            | Self::CrosscheckError { timestamp, .. }
            | Self::VerdictCached { timestamp, .. }
            | Self::VerdictPurged { timestamp, .. }
            | Self::ControlAction { timestamp, .. }
            | Self::StorageRecovered { timestamp, .. }
            | Self::ServiceStarted { timestamp, .. }
            | Self::ServiceStopped { timestamp } => *timestamp,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crosscheck::judge;
    use crate::payload::Payload;

    fn entry(verdict: &str) -> Event {
        let judgement = judge(Tier::Quick, Payload::raw(verdict));
        let query = Query::new("Sell honey?".into());
        let at = "2026-11-20T10:00:00Z".parse().expect("a time");
        Event::judged(&judgement, "cs_1".parse().expect("an id"), &query, GatePath::Check, at)
    }

    #[test]
    fn a_crosscheck_entry_has_the_seeds_fields_under_the_seeds_names() {
        let event = entry(r#"{"verdict":"GREEN","summary":"A sound and simple plan."}"#);
        assert_eq!(
            serde_json::to_string(&event).expect("it serializes"),
            concat!(
                r#"{"event":"tmm_crosscheck","session_id":"cs_1","tier":"quick","query_preview":"Sell honey?","#,
                r#""verdict_label":"GREEN","coherence_score":1.0,"threshold":0.9740425724725061,"phi":0.042,"#,
                r#""approved":true,"flags":[],"crosscheck_reason":"pass","timestamp":"2026-11-20T10:00:00Z","#,
                r#""v_t":2.0,"v_r":0.0,"e_d":0.0,"path":"check","#,
                r#""verdict_sha256":"7e5fed0f1060b24767a4b68fae44353b85d70e0536da287fb770a20834224b30"}"#,
            )
        );
    }

    #[test]
    fn a_rejected_verdicts_text_is_not_in_its_entry() {
        let line = serde_json::to_string(&entry("my secret verdict")).expect("it serializes");
        assert!(!line.contains("secret"), "{line}");
        assert!(line.contains(Sha256Hex::of(b"my secret verdict").as_str()), "{line}");
    }

    #[test]
    fn every_event_reads_back_and_its_kind_is_its_tag() {
        let (timestamp, session_id): (Timestamp, SessionId) =
            ("2026-11-20T10:00:00Z".parse().expect("a time"), "cs_1".parse().expect("an id"));
        let verdict_sha256 = Sha256Hex::of(b"");
        let peer = Peer { uid: 1, gid: 2, pid: Some(3) };
        let events = [
            entry("{}"),
            Event::CrosscheckError {
                session_id: session_id.clone(),
                path: GatePath::Submit,
                level: Severity::Error,
                cause: "a fault".into(),
                timestamp,
            },
            Event::VerdictCached {
                session_id: session_id.clone(),
                tier: Tier::Full,
                verdict_label: Label::Null,
                verdict_sha256: verdict_sha256.clone(),
                path: GatePath::CacheWrite,
                timestamp,
            },
            Event::VerdictPurged { session_id, verdict_sha256, peer, timestamp },
            Event::ControlAction { action: "drain".into(), detail: String::new(), peer: None, timestamp },
            Event::StorageRecovered {
                cause: "full".into(),
                failed_at: timestamp,
                fallback_entries: 7,
                timestamp,
            },
            Event::ServiceStarted { version: "1".into(), timestamp },
            Event::ServiceStopped { timestamp },
        ];
        assert_eq!(events.each_ref().map(Event::kind), Event::KINDS);
        for event in events {
            let line = serde_json::to_string(&event).expect("it serializes");
            assert_eq!(serde_json::from_str::<Event>(&line).expect("it reads back"), event);
            assert!(line.starts_with(&format!("{{\"event\":\"{}\"", event.kind())), "{line}");
            assert!(line.contains("\"timestamp\":\"2026-11-20T10:00:00Z\""), "{line}");
        }
    }
}
