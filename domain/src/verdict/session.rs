//! Sessions: the tier and the query that a customer paid for (seed: `regen-consistency`, "Session Context").

use crate::base::digest::Sha256Hex;
use crate::base::text_id::{is_path_step, text_conversions};
use crate::rules::CandidateCheck;
use crate::verdict::application::{ApplicationName, ApplicationNameError};
use crate::verdict::crosscheck::ApprovedVerdict;
pub use crate::verdict::email::{CustomerEmail, ParseEmailError};
use crate::verdict::generation::GenerationSettings;
use crate::verdict::label::{ProductTier, VerdictLabel};
use crate::verdict::order::{Order, OrderState};
use crate::verdict::prompt::VerdictPrompt;
use crate::verdict::query::CustomerQuery;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// The maximum length of a session id, in characters.
pub const SESSION_ID_MAX_CHARS: usize = 255;
/// The character after the application in a session id.
const APPLICATION_END: char = '/';

/// Why a text is not a session id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionIdError {
    /// The id is empty or too long.
    #[error("the session id has {chars} characters (1 to {SESSION_ID_MAX_CHARS} allowed)")]
    Length {
        /// The number of characters.
        chars: usize,
    },
    /// The id contains a character that is not allowed.
    #[error("the session id contains {character:?} (only `A-Z a-z 0-9 _ . : -` allowed)")]
    Character {
        /// The first character that is not allowed.
        character: char,
    },
    /// The id is `.` or `..`, which every client removes from a path.
    #[error("the session id is `{id}`, which is a step in a path (add another character)")]
    PathStep {
        /// The id.
        id: String,
    },
    /// The text before the slash is not the name of an application.
    #[error(transparent)]
    Application(#[from] ApplicationNameError),
}

/// The id of a session: 1 to 255 of `A-Z a-z 0-9 _ . : -`, but not `.` or `..`, with its application and a slash before it
/// (`shop/cs_1`) unless the application is `default`. The routes' socket shows and takes it without the application.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(try_from = "String", into = "String")]
// without look-ahead, which not every reader of patterns has
#[schema(
    pattern = "^([a-z0-9][a-z0-9-]{0,62}/)?([A-Za-z0-9_:-][A-Za-z0-9_.:-]{0,254}|\\.[A-Za-z0-9_:-][A-Za-z0-9_.:-]{0,253}|\\.\\.[A-Za-z0-9_.:-]{1,253})$"
)]
pub struct SessionId(String);

impl SessionId {
    /// The id without its application, as the application itself uses it.
    #[must_use]
    pub fn local(&self) -> &str {
        self.0.split_once(APPLICATION_END).map_or(&self.0, |(_, local)| local)
    }

    /// The same id without its application.
    #[must_use]
    pub fn into_local(self) -> Self {
        Self(self.local().to_owned())
    }

    #[must_use]
    pub fn application(&self) -> ApplicationName {
        let named = self.0.split_once(APPLICATION_END).and_then(|(name, _)| name.parse().ok());
        named.unwrap_or_default()
    }

    /// The session with the same local id in `application`.
    #[must_use]
    pub fn in_application(&self, application: &ApplicationName) -> Self {
        let local = self.local();
        Self(if application.is_default() {
            local.to_owned()
        } else {
            format!("{application}{APPLICATION_END}{local}")
        })
    }
}

impl TryFrom<String> for SessionId {
    type Error = SessionIdError;

    fn try_from(text: String) -> Result<Self, SessionIdError> {
        let (application, local) = match text.split_once(APPLICATION_END) {
            Some((application, local)) => (application.parse()?, local.to_owned()),
            None => (ApplicationName::default(), text),
        };
        let chars = local.chars().count();
        if chars == 0 || chars > SESSION_ID_MAX_CHARS {
            return Err(SessionIdError::Length { chars });
        }
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ':' | '-');
        if let Some(character) = local.chars().find(|c| !allowed(*c)) {
            return Err(SessionIdError::Character { character });
        }
        if is_path_step(&local) {
            return Err(SessionIdError::PathStep { id: local });
        }
        Ok(Self(local).in_application(&application))
    }
}

text_conversions! { SessionId }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_id_rejects_wrong_length_or_characters() {
        for good in ["a", "cs_test_a1B2", "2026-11-20T10:00:00.5", &"x".repeat(255)] {
            assert!(good.parse::<SessionId>().is_ok(), "{good}");
        }
        for step in [".", "..", "shop/.", "shop/.."] {
            let id = step.trim_start_matches("shop/").to_owned();
            assert_eq!(step.parse::<SessionId>(), Err(SessionIdError::PathStep { id }));
        }
        for dotted in ["...", ".a", "a.", "..a", "a..", "shop/..."] {
            assert!(dotted.parse::<SessionId>().is_ok(), "{dotted}");
        }
        assert_eq!("".parse::<SessionId>(), Err(SessionIdError::Length { chars: 0 }));
        assert_eq!("x".repeat(256).parse::<SessionId>(), Err(SessionIdError::Length { chars: 256 }));
        for bad in [' ', '\0', 'é', '%', '\n', '\u{202e}'] {
            let error = format!("id{bad}").parse::<SessionId>();
            assert_eq!(error, Err(SessionIdError::Character { character: bad }));
        }
    }

    #[test]
    fn session_id_names_its_application_unless_it_is_the_default() {
        let id = |text: &str| text.parse::<SessionId>();
        let shop: ApplicationName = "shop".parse().expect("a valid name");
        let session = id("cs_1").expect("a valid id").in_application(&shop);
        assert_eq!((session.as_str(), session.local(), session.application()), ("shop/cs_1", "cs_1", shop));
        assert_eq!(id("shop/cs_1"), Ok(session.clone()));
        let plain = id("cs_1").expect("a valid id");
        assert_eq!(plain.application(), ApplicationName::default());
        assert_eq!((id("default/cs_1"), session.into_local()), (Ok(plain.clone()), plain));
        for bad in ["/cs_1", "Shop/cs_1", "shop/", "shop/a/b"] {
            assert!(id(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn query_preview_has_80_scalar_values() {
        let query = CustomerQuery::new("é".repeat(100));
        assert_eq!(query.preview(), "é".repeat(80));
    }
}
