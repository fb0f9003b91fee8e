//! Sessions: the tier and the query that a customer paid for (seed: `regen-consistency`, "Session Context").

use crate::crosscheck::ApprovedVerdict;
pub use crate::email::{CustomerEmail, ParseEmailError};
use crate::generation::GenerationSettings;
use crate::label::{ProductTier, VerdictLabel};
use crate::order::{ORDERS, Order, OrderState, order_entry};
use crate::prompt::VerdictPrompt;
use crate::query::CustomerQuery;
use domain_base::digest::Sha256Hex;
use domain_base::row::{IndexEntry, KeyedRow, Row, RowData, Table, check_row, index_of, not_indexed};
use domain_base::session_id::SessionId;
use domain_rules::CandidateCheck;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// The verdict that was delivered first. It stays authoritative, even if a later verdict differs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OriginalVerdict {
    /// The label of its top-level verdict.
    pub verdict_label: VerdictLabel,
    /// The SHA-256 of its text; `None` for a verdict that was delivered without oracled.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub verdict_sha256: Option<Sha256Hex>,
    /// The time of its delivery; `None` for a verdict that was delivered without oracled.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub delivered_at: Option<Timestamp>,
    /// Its prompt, if it is known: oracled built it, or the caller named it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub prompt: Option<VerdictPrompt>,
    /// The settings of its generation, if oracled requested it (seed: REGEN-GAP-01).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub settings: Option<GenerationSettings>,
    /// Whether its prompt had the rejection of an earlier answer. `prompt` is without it, and so is a regeneration.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub reasked: bool,
}

impl OriginalVerdict {
    /// The stored data of `approved`, delivered at `delivered_at`.
    #[must_use]
    pub fn delivered(
        approved: &ApprovedVerdict,
        prompt: Option<VerdictPrompt>,
        settings: Option<GenerationSettings>,
        delivered_at: Timestamp,
    ) -> Self {
        Self {
            verdict_label: approved.label(),
            verdict_sha256: Some(approved.sha256().clone()),
            delivered_at: Some(delivered_at),
            prompt,
            settings,
            reasked: false,
        }
    }

    /// A verdict that was delivered without oracled, as a client reports it.
    #[must_use]
    pub const fn reported(verdict_label: VerdictLabel) -> Self {
        Self {
            verdict_label,
            verdict_sha256: None,
            delivered_at: None,
            prompt: None,
            settings: None,
            reasked: false,
        }
    }
}

/// The caller of a request for a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionCaller {
    /// A process of this user id. No applications are configured, so sessions belong to user ids.
    User(u32),
    /// A process of a configured application, which owns all sessions that it can name.
    Application,
    /// The daemon itself: it works for the owner of the session, or changes no session.
    Daemon,
}

/// A session. It outlives its cached verdict, so that a lost verdict can be regenerated and compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionRecord {
    pub session_id: SessionId,
    /// The tier paid for.
    pub tier: ProductTier,
    /// The customer's query.
    pub query: CustomerQuery,
    /// The user id of the process that registered or ordered it. `None` for a session of a configured application, and for one
    /// that was only looked up.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub owner_uid: Option<u32>,
    /// The e-mail address for the verdict.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub customer_email: Option<CustomerEmail>,
    /// The verdict delivered first; `None` if there is none or it is not known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub original: Option<OriginalVerdict>,
    /// The SHA-256 of the verdict that oracled delivered first; `None` before its first delivery.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub delivered_sha256: Option<Sha256Hex>,
    /// The SHA-256 of the verdict that was cached last.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cached_sha256: Option<Sha256Hex>,
    /// The check of the first verdict, which also applies to regenerated verdicts.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub check: Option<Arc<CandidateCheck>>,
    /// The order of the first verdict, if the model was to generate it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub order: Option<Order>,
}

impl SessionRecord {
    /// A session without any further data.
    #[must_use]
    pub const fn new(session_id: SessionId, tier: ProductTier, query: CustomerQuery) -> Self {
        Self {
            session_id,
            tier,
            query,
            owner_uid: None,
            customer_email: None,
            original: None,
            delivered_sha256: None,
            cached_sha256: None,
            check: None,
            order: None,
        }
    }

    /// Whether the policy holds the verdict of the session.
    #[must_use]
    pub fn is_held_by_policy(&self) -> bool {
        self.order.as_ref().is_some_and(Order::is_held_by_policy)
    }

    /// Whether it has an order whose verdict is not delivered.
    #[must_use]
    pub fn has_unfinished_order(&self) -> bool {
        self.order.as_ref().is_some_and(|order| order.state != OrderState::Delivered)
    }

    /// Whether its application cancelled its order.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.order.as_ref().is_some_and(|order| order.state == OrderState::Cancelled)
    }

    /// The session after `caller` registered or ordered it. It keeps its owner.
    #[must_use]
    pub fn owned_by(self, caller: SessionCaller) -> Self {
        let owner_uid = self.owner_uid.or(match caller {
            SessionCaller::User(uid) => Some(uid),
            SessionCaller::Application | SessionCaller::Daemon => None,
        });
        Self { owner_uid, ..self }
    }

    /// The mismatch with a request of `caller` that would change the session, and set `address` if it is given. A session
    /// without an owner belongs to the first caller that changes it, but keeps its address.
    #[must_use]
    pub fn change_mismatch(
        &self,
        caller: SessionCaller,
        address: Option<&CustomerEmail>,
    ) -> Option<SessionMismatch> {
        let SessionCaller::User(uid) = caller else { return None };
        let is_refused = match self.owner_uid {
            Some(owner) => owner != uid,
            None => {
                self.customer_email.is_some()
                    && address.is_some_and(|_| self.customer_email.as_ref() != address)
            }
        };
        is_refused.then_some(SessionMismatch::Owner)
    }

    /// The mismatch with a request of `caller` that gets what the session has: a verdict, or an order.
    #[must_use]
    pub fn repeat_mismatch(
        &self,
        caller: SessionCaller,
        address: Option<&CustomerEmail>,
        check: Option<&Arc<CandidateCheck>>,
    ) -> Option<SessionMismatch> {
        if caller != SessionCaller::Daemon && check.is_some_and(|check| self.has_other_check(check)) {
            return Some(SessionMismatch::Facts);
        }
        // a session without an address gets that of the request
        let adds_address = self.customer_email.is_none() && address.is_some();
        if adds_address { self.change_mismatch(caller, address) } else { None }
    }

    /// Whether the check of the session is not `requested`.
    #[must_use]
    pub fn has_other_check(&self, requested: &CandidateCheck) -> bool {
        !self.check.as_ref().is_some_and(|own| own.is_same_request(requested))
    }

    /// The mismatch between the session and a request for `tier` and `query`, if any.
    #[must_use]
    pub fn mismatch(&self, tier: ProductTier, query: &CustomerQuery) -> Option<SessionMismatch> {
        if self.tier != tier {
            Some(SessionMismatch::Tier)
        } else if self.query != *query {
            Some(SessionMismatch::Query)
        } else {
            None
        }
    }
}

/// The check that rejected a verdict of an unknown session. It applies to every later verdict that is submitted for
/// that session without facts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RejectingCheck {
    pub session_id: SessionId,
    pub check: Arc<CandidateCheck>,
}

/// The mismatch between a request and a known session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SessionMismatch {
    /// The tier is different.
    Tier,
    /// The query is different.
    Query,
    /// The original verdict is different.
    OriginalVerdict,
    /// The prompt of the original verdict is different.
    Prompt,
    /// The facts of the request, or what it expects, are different.
    Facts,
    /// The session belongs to another user id.
    Owner,
}

impl fmt::Display for SessionMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tier => "tier",
            Self::Query => "query",
            Self::OriginalVerdict => "original_verdict",
            Self::Prompt => "prompt",
            Self::Facts => {
                "check; send the facts of the first request or none, or purge the verdict (oraclectl purge) and submit it again"
            }
            Self::Owner => "owner: another user id registered or ordered it; an operator can change it (oraclectl session correct)",
        })
    }
}

impl Row for SessionRecord {
    type Key = SessionId;
    const TABLE: &'static Table = &Table {
        name: "sessions",
        bundle: Some("sessions"),
        data: RowData::of_named_session("session"),
        is_new_work: true,
        names_files: false,
        finds_entries: true,
        upgrades: &[],
        check: check_row::<Self>,
        indexes: &[&ORDERS],
        index: index_of::<Self>,
    };

    fn index(&self) -> Vec<IndexEntry> {
        self.order.as_ref().map(|order| order_entry(&self.session_id, order)).into_iter().collect()
    }
}

impl KeyedRow for SessionRecord {
    fn key(&self) -> SessionId {
        self.session_id.clone()
    }
}

impl Row for RejectingCheck {
    type Key = SessionId;
    const TABLE: &'static Table = &Table {
        name: "rejecting_checks",
        bundle: None,
        data: RowData::of_named_session("rejecting_check"),
        is_new_work: true,
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

impl KeyedRow for RejectingCheck {
    fn key(&self) -> SessionId {
        self.session_id.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_preview_has_80_scalar_values() {
        let query = CustomerQuery::new("é".repeat(100));
        assert_eq!(query.preview(), "é".repeat(80));
    }
}
