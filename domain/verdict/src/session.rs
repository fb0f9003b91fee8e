//! Sessions: the tier and the query that a customer paid for (seed: `regen-consistency`, "Session Context"), and the
//! customer's e-mail address: one that a mail server can accept.

use crate::crosscheck::ApprovedVerdict;
use crate::generation::GenerationSettings;
use crate::label::{ProductTier, VerdictLabel};
use crate::order::{ORDERS, Order, OrderState, order_entry};
use crate::policy::HoldEffect;
use crate::prompt::VerdictPrompt;
use crate::query::CustomerQuery;
use domain_base::digest::Sha256Hex;
use domain_base::gate_path::GatePath;
use domain_base::row::{IndexEntry, KeyedRow, Row, RowData, Table, check_row, index_of, not_indexed};
use domain_base::session_id::SessionId;
use domain_base::text_form::without_invisible;
use domain_ground::id::SourceId;
use domain_rules::CandidateCheck;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
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

/// The effect of a policy that holds a verdict with this digest, which arrived on `path` in a session with this first verdict.
///
/// The first verdict of a session is never held once it was delivered. Another verdict in its place is refused.
#[must_use]
pub fn effect_of_hold(original: Option<&OriginalVerdict>, sha256: &Sha256Hex, path: GatePath) -> HoldEffect {
    match original {
        Some(original) if original.verdict_sha256.as_ref() == Some(sha256) => HoldEffect::Deliver,
        None if path != GatePath::Regen => HoldEffect::Hold,
        _ => HoldEffect::Refuse,
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
    /// The last reports that sources have changed statements on which its verdicts relied, by source.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub reported_recalls: BTreeMap<SourceId, ReportedRecall>,
}

/// A verdict that was reported since a run touches it. The verdicts of a run are reported in the order of their entries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ReportedRecall {
    /// The number of the run.
    pub run: u32,
    /// The entry of the evaluation.
    pub entry: u64,
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
            reported_recalls: BTreeMap::new(),
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

    /// Whether its application or an operator cancelled its order.
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

/// The maximum length of an address, in bytes (RFC 5321, section 4.5.3.1.3: 256 for a path, with its two brackets).
const ADDRESS_MAX_BYTES: usize = 254;
/// The maximum length of the local part, the part before the @, with its quotation marks, in bytes (section 4.5.3.1.1).
const LOCAL_MAX_BYTES: usize = 64;
/// The maximum length of a part of the domain, in bytes (RFC 1035, section 2.3.4).
const LABEL_MAX_BYTES: usize = 63;
/// The characters of a local part besides letters, digits and dots (RFC 5322, `atext`).
const LOCAL_MARKS: &str = "!#$%&'*+-/=?^_`{|}~";

/// Why a text is not an e-mail address. The messages quote no address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParseEmailError {
    /// There is not exactly one `@` with text on both sides.
    #[error(
        "the e-mail address does not have the form `name@domain` (exactly one `@`, with text on both sides)"
    )]
    Form,
    /// The local part contains a character that is not allowed.
    #[error(
        "the e-mail address has {0:?} before the `@` (allowed: letters, digits, dots and {LOCAL_MARKS}; no quotation marks, \
         comments or spaces)"
    )]
    Character(char),
    /// The local part is too long.
    #[error(
        "the e-mail address has {bytes} bytes before the `@`, quoted if its dots require that (at most {LOCAL_MAX_BYTES} allowed)"
    )]
    LocalLength { bytes: usize },
    /// The local part would have to be quoted, and has characters beyond ASCII.
    #[error(
        "the e-mail address has a dot at an end of the part before the `@`, or two dots in a row, which is allowed only if \
         this part is ASCII"
    )]
    Dots,
    /// The domain is not a host name.
    #[error(
        "the domain of the e-mail address is invalid (allowed: parts of 1 to {LABEL_MAX_BYTES} bytes, separated by single \
         dots; letters, digits and `-`, which is not at an end of a part)"
    )]
    Domain,
    /// The address is too long.
    #[error("the e-mail address has {bytes} bytes (at most {ADDRESS_MAX_BYTES} allowed)")]
    Length { bytes: usize },
}

/// A customer's e-mail address that a mail server can accept. Whether the mailbox exists is not known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(try_from = "String", into = "String")]
#[schema(pattern = "^[^@]+@[^@]+$", example = "customer@example.org")]
pub struct CustomerEmail(String);

impl TryFrom<String> for CustomerEmail {
    type Error = ParseEmailError;

    fn try_from(text: String) -> Result<Self, ParseEmailError> {
        let (local, domain) = text.rsplit_once('@').ok_or(ParseEmailError::Form)?;
        if local.is_empty() || domain.is_empty() || local.contains('@') {
            return Err(ParseEmailError::Form);
        }
        let allowed = |c: char| c.is_alphanumeric() || c == '.' || LOCAL_MARKS.contains(c);
        if let Some(character) = local.chars().find(|c| !allowed(*c) || is_invisible(*c)) {
            return Err(ParseEmailError::Character(character));
        }
        if !is_dot_atom(local) && !local.is_ascii() {
            return Err(ParseEmailError::Dots);
        }
        if !domain.split('.').all(is_label) {
            return Err(ParseEmailError::Domain);
        }
        let email = Self(text);
        let mailbox = email.mailbox();
        let (bytes, local_bytes) = (mailbox.len(), mailbox.rfind('@').unwrap_or_default());
        if local_bytes > LOCAL_MAX_BYTES {
            return Err(ParseEmailError::LocalLength { bytes: local_bytes });
        }
        if bytes > ADDRESS_MAX_BYTES {
            return Err(ParseEmailError::Length { bytes });
        }
        Ok(email)
    }
}

impl CustomerEmail {
    /// The address, as the caller wrote it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The address as mail protocols write it: the local part is quoted if its dots require that, as in
    /// `"a..b"@example.org` (RFC 5321, section 4.1.2). Some carriers have assigned such addresses.
    #[must_use]
    pub fn mailbox(&self) -> Cow<'_, str> {
        match self.0.rsplit_once('@') {
            // the local part has no character that must be escaped within quotation marks
            Some((local, domain)) if !is_dot_atom(local) => Cow::Owned(format!("\"{local}\"@{domain}")),
            _ => Cow::Borrowed(&self.0),
        }
    }
}

impl From<CustomerEmail> for String {
    fn from(email: CustomerEmail) -> Self {
        email.0
    }
}

/// Whether `local` has no dot at an end and no two dots in a row (RFC 5321, `Dot-string`).
fn is_dot_atom(local: &str) -> bool {
    local.split('.').all(|atom| !atom.is_empty())
}

/// Whether `label` is a part of a host name (RFC 5321, `sub-domain`; RFC 6531 adds letters beyond ASCII).
fn is_label(label: &str) -> bool {
    (1..=LABEL_MAX_BYTES).contains(&label.len())
        && label.chars().all(|c| (c.is_alphanumeric() || c == '-') && !is_invisible(c))
        && !label.starts_with('-')
        && !label.ends_with('-')
}

/// Unicode classifies some invisible fillers as letters.
fn is_invisible(character: char) -> bool {
    without_invisible(character.encode_utf8(&mut [0; 4])).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_preview_has_80_scalar_values() {
        let query = CustomerQuery::new("é".repeat(100));
        assert_eq!(query.preview(), "é".repeat(80));
    }

    fn parse(text: &str) -> Result<CustomerEmail, ParseEmailError> {
        text.to_owned().try_into()
    }

    #[test]
    fn email_accepts_addresses_that_need_no_quotation_marks() {
        for good in [
            "a@b",
            "first.last+tag@example.org",
            "o'neill/x=y@sub.example.co",
            "用户@例子.广告",
            "a@xn--mnchen-3ya.example",
            "-@1-2.example",
            &format!("{}@b", "a".repeat(64)),
            &format!("a@{}.{}", "b".repeat(63), "c".repeat(63)),
        ] {
            assert_eq!(parse(good).expect("an address").mailbox(), good);
        }
    }

    #[test]
    fn mail_double_dot_is_quoted_in_the_mailbox() {
        for (text, mailbox) in [
            ("aaa..bbb@carrier.example", "\"aaa..bbb\"@carrier.example"),
            (".aaa@carrier.example", "\".aaa\"@carrier.example"),
            ("aaa.@carrier.example", "\"aaa.\"@carrier.example"),
            (".@carrier.example", "\".\"@carrier.example"),
        ] {
            let email = parse(text).expect("an address");
            assert_eq!((email.as_str(), &*email.mailbox()), (text, mailbox));
        }
        assert!(parse(&format!("a..{}@b", "a".repeat(59))).is_ok());
        let quoted_is_too_long = ParseEmailError::LocalLength { bytes: 65 };
        assert_eq!(parse(&format!("a..{}@b", "a".repeat(60))), Err(quoted_is_too_long));
    }

    #[test]
    fn mail_double_dot_rejects_addresses_that_no_server_accepts() {
        let long_domain = ["b".repeat(63), "b".repeat(63), "b".repeat(63), "b".repeat(61)].join(".");
        for (text, error) in [
            ("", ParseEmailError::Form),
            ("a", ParseEmailError::Form),
            ("@b", ParseEmailError::Form),
            ("a@", ParseEmailError::Form),
            ("a@b@c", ParseEmailError::Form),
            ("a b@c", ParseEmailError::Character(' ')),
            ("a;b@c", ParseEmailError::Character(';')),
            ("<a@b>", ParseEmailError::Character('<')),
            ("\"a\"@b", ParseEmailError::Character('"')),
            ("a\\b@c", ParseEmailError::Character('\\')),
            ("a\r\n@b", ParseEmailError::Character('\r')),
            ("a\u{202e}@b", ParseEmailError::Character('\u{202e}')),
            ("a\u{3164}@b", ParseEmailError::Character('\u{3164}')),
            ("a\u{2800}@b", ParseEmailError::Character('\u{2800}')),
            ("é..b@example.org", ParseEmailError::Dots),
            (&format!("{}@b", "a".repeat(65)), ParseEmailError::LocalLength { bytes: 65 }),
            (&format!("{}@b", "é".repeat(33)), ParseEmailError::LocalLength { bytes: 66 }),
            (&format!("a@{long_domain}"), ParseEmailError::Length { bytes: 255 }),
        ] {
            assert_eq!(parse(text), Err(error), "{text:?}");
        }
        for domain in [
            "example..org",
            ".example.org",
            "example.org.",
            "-example.org",
            "example-.org",
            "exam_ple.org",
            "example.org\r\nBcc: x",
            "b,c",
            "b!c",
            "[127.0.0.1]",
            "b\u{3164}",
            &format!("{}.org", "b".repeat(64)),
        ] {
            assert_eq!(parse(&format!("a@{domain}")), Err(ParseEmailError::Domain), "{domain:?}");
        }
    }
}
