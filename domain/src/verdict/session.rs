//! Sessions: who bought which verdict about what (seed: `regen-consistency`, "Session Context").

use crate::base::blank::without_invisible;
use crate::base::digest::Sha256Hex;
use crate::rules::Check;
use crate::verdict::crosscheck::Approved;
use crate::verdict::generation::Generation;
use crate::verdict::label::{Label, Tier};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// The longest session id, in characters.
pub const SESSION_ID_MAX_CHARS: usize = 255;
/// The longest e-mail address, in characters (RFC 5321: 64 for the local part, 255 for the domain, and the @).
pub const EMAIL_MAX_CHARS: usize = 320;
/// What an e-mail address may hold beside letters and digits (RFC 5322's atoms; quoted ones are not taken).
const EMAIL_MARKS: &str = "!#$%&'*+-/=?^_`{|}~.";
/// So many characters of a query stand in the log.
const PREVIEW_CHARS: usize = 80;

/// Why a text is not a session id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSessionId {
    /// Empty or too long.
    #[error("a session id has 1 to {SESSION_ID_MAX_CHARS} characters; this one has {chars}")]
    Length {
        /// How long it is.
        chars: usize,
    },
    /// Another character than allowed.
    #[error("a session id is made of `A-Z a-z 0-9 _ . : -`; this one holds {character:?}")]
    Character {
        /// The first one that is not allowed.
        character: char,
    },
}

/// The id of a session: 1 to 255 of `A-Z a-z 0-9 _ . : -`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SessionId(String);

impl SessionId {
    /// The id.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for SessionId {
    type Error = BadSessionId;

    fn try_from(text: String) -> Result<Self, BadSessionId> {
        let chars = text.chars().count();
        if chars == 0 || chars > SESSION_ID_MAX_CHARS {
            return Err(BadSessionId::Length { chars });
        }
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ':' | '-');
        match text.chars().find(|c| !allowed(*c)) {
            Some(character) => Err(BadSessionId::Character { character }),
            None => Ok(Self(text)),
        }
    }
}

impl std::str::FromStr for SessionId {
    type Err = BadSessionId;

    fn from_str(text: &str) -> Result<Self, BadSessionId> {
        text.to_owned().try_into()
    }
}

impl From<SessionId> for String {
    fn from(id: SessionId) -> Self {
        id.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// What the customer asked, in full. Its length is bounded where it comes in.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Query(String);

impl Query {
    /// The query that is `text`.
    #[must_use]
    pub const fn new(text: String) -> Self {
        Self(text)
    }

    /// The whole text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first 80 Unicode scalar values, for the log.
    #[must_use]
    pub fn preview(&self) -> String {
        self.0.chars().take(PREVIEW_CHARS).collect()
    }
}

/// Why a text is not taken as an e-mail address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "an e-mail address has one @ with text on both sides, of letters, digits and {EMAIL_MARKS} alone, and at most \
     {EMAIL_MAX_CHARS} characters"
)]
pub struct BadEmail;

/// A customer's e-mail address, looked at for its shape only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Email(String);

impl TryFrom<String> for Email {
    type Error = BadEmail;

    fn try_from(text: String) -> Result<Self, BadEmail> {
        let (local, domain) = text.rsplit_once('@').ok_or(BadEmail)?;
        let shaped = !local.is_empty() && !domain.is_empty() && !local.contains('@');
        let clean = |c: char| c.is_alphanumeric() || c == '@' || EMAIL_MARKS.contains(c);
        // Unicode counts some invisible fillers among the letters
        let visible = without_invisible(&text).len() == text.len();
        if shaped && visible && text.chars().all(clean) && text.chars().count() <= EMAIL_MAX_CHARS {
            Ok(Self(text))
        } else {
            Err(BadEmail)
        }
    }
}

impl Email {
    /// The address.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<Email> for String {
    fn from(email: Email) -> Self {
        email.0
    }
}

/// The verdict that was delivered first; it stays authoritative whatever comes later.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Original {
    /// Its top-level verdict.
    pub verdict_label: Label,
    /// The SHA-256 of its text; unknown where a route has only told of it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub verdict_sha256: Option<Sha256Hex>,
    /// When it was delivered; unknown likewise.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub delivered_at: Option<Timestamp>,
    /// How it was made, where oracled had it made (seed: REGEN-GAP-01).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub generation: Option<Generation>,
}

impl Original {
    /// What is kept of `approved`, delivered at `delivered_at`.
    #[must_use]
    pub fn delivered(approved: &Approved, generation: Option<Generation>, delivered_at: Timestamp) -> Self {
        Self {
            verdict_label: approved.label(),
            verdict_sha256: Some(approved.sha256().clone()),
            delivered_at: Some(delivered_at),
            generation,
        }
    }

    /// A verdict that was delivered without oracled, as a route tells of it.
    #[must_use]
    pub const fn told(verdict_label: Label) -> Self {
        Self { verdict_label, verdict_sha256: None, delivered_at: None, generation: None }
    }
}

/// What outlives a cached verdict, so that it can be told apart, and later regenerated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// Whose.
    pub session_id: SessionId,
    /// Which tier was bought.
    pub tier: Tier,
    /// What was asked.
    pub query: Query,
    /// The user id of the process that registered the session, or delivered its first verdict. `None` where no request did.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub owner_uid: Option<u32>,
    /// Where the verdict is mailed to.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub customer_email: Option<Email>,
    /// The first verdict delivered; nothing while there is none, or none that is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub original: Option<Original>,
    /// The SHA-256 of the verdict that oracled delivered first; `None` while it has delivered none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub delivered_sha256: Option<Sha256Hex>,
    /// The SHA-256 of the verdict that was cached last.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cached_sha256: Option<Sha256Hex>,
    /// What the first verdict was checked against, and one that is made anew is to be, too.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub check: Option<Arc<Check>>,
}

impl Session {
    /// A session of which no more is known.
    #[must_use]
    pub const fn new(session_id: SessionId, tier: Tier, query: Query, owner_uid: Option<u32>) -> Self {
        Self {
            session_id,
            tier,
            query,
            owner_uid,
            customer_email: None,
            original: None,
            delivered_sha256: None,
            cached_sha256: None,
            check: None,
        }
    }

    /// Whether a request of a process of user `uid` may not change the session. The daemon itself (`None`) may.
    #[must_use]
    pub fn is_foreign_to(&self, uid: Option<u32>) -> bool {
        uid.is_some() && uid != self.owner_uid
    }

    /// Which of the two things that a session is bound to a request for `tier` and `query` gets wrong, if any.
    #[must_use]
    pub fn mismatch(&self, tier: Tier, query: &Query) -> Option<Mismatch> {
        if self.tier != tier {
            Some(Mismatch::Tier)
        } else if self.query != *query {
            Some(Mismatch::Query)
        } else {
            None
        }
    }
}

/// The key of a [`Refusal`]. Any user id can name an unknown session, so each user id has its own refusal.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RefusalKey {
    /// The session of the verdict.
    pub session_id: SessionId,
    /// The user id that submitted the verdict; `None` for the daemon itself.
    pub owner_uid: Option<u32>,
}

/// The check that refused a verdict of a session that is not known. It stays in force for every later verdict that the
/// same user id submits for that session without facts of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Refusal {
    /// The session and the user id.
    pub key: RefusalKey,
    /// The check.
    pub check: Arc<Check>,
}

/// What a request gets wrong about a session that is already known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mismatch {
    /// It names another tier.
    Tier,
    /// It asks something else.
    Query,
    /// It tells of another first verdict.
    OriginalVerdict,
    /// Another user id registered the session, or delivered its first verdict.
    Owner,
    /// It is to be checked against facts, and its verdict was made for a reader without them.
    Facts,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tier => "tier",
            Self::Query => "query",
            Self::OriginalVerdict => "original_verdict",
            Self::Owner => {
                "owner; only the uid that registered it may change it, or an operator by `oraclectl session`"
            }
            Self::Facts => "verdict, which was made without these facts; purge it, and ask again",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_id_is_bounded_in_length_and_alphabet() {
        for good in ["a", "cs_test_a1B2", "2026-11-20T10:00:00.5", &"x".repeat(255)] {
            assert!(good.parse::<SessionId>().is_ok(), "{good}");
        }
        assert_eq!("".parse::<SessionId>(), Err(BadSessionId::Length { chars: 0 }));
        assert_eq!("x".repeat(256).parse::<SessionId>(), Err(BadSessionId::Length { chars: 256 }));
        for bad in ['/', ' ', '\0', 'é', '%', '\n', '\u{202e}'] {
            let error = format!("id{bad}").parse::<SessionId>();
            assert_eq!(error, Err(BadSessionId::Character { character: bad }));
        }
    }

    #[test]
    fn a_preview_is_80_scalar_values_not_bytes() {
        let query = Query::new("é".repeat(100));
        assert_eq!(query.preview(), "é".repeat(80));
    }

    #[test]
    fn an_email_address_is_checked_for_its_shape() {
        for good in ["a@b", "first.last+tag@example.org"] {
            assert!(Email::try_from(good.to_owned()).is_ok(), "{good}");
        }
        for bad in [
            "",
            "a",
            "@b",
            "a@",
            "a b@c",
            "a@b@c",
            "a@b\r\nBcc: x@y",
            "<a@b>",
            "a;b@c",
            "a@b,c",
            "a\u{202e}@b",
            "a\u{3164}@b",
            &format!("{}@b", "a".repeat(320)),
        ] {
            assert_eq!(Email::try_from(bad.to_owned()), Err(BadEmail), "{bad:?}");
        }
    }
}
