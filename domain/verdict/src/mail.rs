//! Mail to customers, and its retries (seed: `regen-consistency`, "Customer Notification" and the failure
//! mode of its mail).

use crate::delivery::VerdictDelivery;
use crate::recall_notice::RecallNotice;
use crate::session::CustomerEmail;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use domain_base::caller::TraceContext;
use domain_base::session_id::{SessionId, text_conversions};
use domain_base::upstream_text::UpstreamText;
use domain_base::wording::ParseTextError;
use domain_base::work::Backoff;
use domain_upstream::failure::RequestFailureKind;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use strum::{IntoStaticStr, VariantArray};

/// The number of attempts to send a divergence notice: one at once, and one retry.
const NOTICE_ATTEMPTS: u32 = 2;
/// The time between the two attempts.
const NOTICE_PAUSE: SignedDuration = SignedDuration::from_secs(60);

/// The purpose of a mail.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    VariantArray,
    IntoStaticStr,
    utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum MailKind {
    /// It contains the verdict.
    Verdict,
    /// It notifies the customer that the results page shows another verdict than the mailed one.
    DivergenceNotice,
    /// It notifies the customer that a source has changed a statement on which the verdict relied. A person has released it.
    RecallNotice,
}

/// The id of a mail, which is also its idempotency key: the same for all attempts, and different for every other mail.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(try_from = "String", into = "String")]
#[schema(pattern = "^[!-~]{1,384}$")]
pub struct MailId(String);

impl MailId {
    /// The maximum length: a kind, a session id with its application, and a time.
    const MAX_CHARS: usize = 384;

    /// The id of the mail with the verdict of a session; there is only one.
    #[must_use]
    pub fn verdict(session_id: &SessionId) -> Self {
        Self(format!("verdict:{session_id}"))
    }

    /// The id of the notice about a divergence that was found at `at`.
    #[must_use]
    pub fn notice(session_id: &SessionId, at: Timestamp) -> Self {
        Self(format!("divergence:{session_id}:{}", at.as_microsecond()))
    }

    /// The id of the notice about recalls that was drafted at `at`.
    #[must_use]
    pub fn recall_notice(session_id: &SessionId, at: Timestamp) -> Self {
        Self(format!("recall:{session_id}:{}", at.as_microsecond()))
    }

    /// The starts of the ids of all notices of a session.
    #[must_use]
    pub fn notice_prefixes(session_id: &SessionId) -> [Self; 2] {
        ["divergence", "recall"].map(|kind| Self(format!("{kind}:{session_id}:")))
    }

    /// The session of the mail; `None` if the id is not one that this program makes.
    #[must_use]
    pub fn session_id(&self) -> Option<SessionId> {
        let (kind, rest) = self.0.split_once(':')?;
        let session_id = match kind {
            "verdict" => rest,
            "divergence" | "recall" => rest.rsplit_once(':')?.0,
            _ => return None,
        };
        session_id.parse().ok()
    }
}

impl TryFrom<String> for MailId {
    type Error = ParseTextError;

    fn try_from(text: String) -> Result<Self, ParseTextError> {
        let usable =
            (1..=Self::MAX_CHARS).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
        if usable {
            return Ok(Self(text));
        }
        let allowed = format!("1 to {} visible ASCII characters", Self::MAX_CHARS);
        Err(ParseTextError::new("the id of a mail", &text, allowed))
    }
}

text_conversions! { MailId }

/// The state of a mail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct MailState {
    /// The id of the mail.
    pub mail_id: MailId,
    /// The purpose of the mail.
    pub kind: MailKind,
    /// The id of the session.
    pub session_id: SessionId,
    /// The recipient.
    pub to: CustomerEmail,
    #[serde(flatten)]
    pub tries: MessageAttempts,
}

/// A mail in the outbox. It contains an approved verdict; no other content can be mailed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OutboxMail {
    pub state: MailState,
    /// The delivered verdict; in a notice about a divergence, the regenerated verdict.
    pub delivery: Arc<VerdictDelivery>,
    /// The facts of a recall notice; absent in other mails.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub recall: Option<Box<RecallNotice>>,
    /// The trace of the request that queued it; absent if it had none, or if no request queued it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub trace: Option<TraceContext>,
}

impl OutboxMail {
    /// A mail of `kind` about `delivery` to `to`, queued at the time that the delivery was cached.
    #[must_use]
    pub fn queued(kind: MailKind, delivery: Arc<VerdictDelivery>, to: CustomerEmail) -> Self {
        let (session_id, now) = (delivery.session_id.clone(), delivery.cached_at);
        let mail_id = match kind {
            MailKind::Verdict => MailId::verdict(&session_id),
            MailKind::DivergenceNotice => MailId::notice(&session_id, now),
            MailKind::RecallNotice => MailId::recall_notice(&session_id, now),
        };
        let tries = MessageAttempts::queued(now);
        let state = MailState { mail_id, kind, session_id, to, tries };
        Self { state, delivery, recall: None, trace: None }
    }

    /// The mail with a notice about recalls of `delivery`, queued at `now`.
    #[must_use]
    pub fn of_recall(
        notice: RecallNotice,
        delivery: Arc<VerdictDelivery>,
        to: CustomerEmail,
        now: Timestamp,
    ) -> Self {
        let mail = Self::queued(MailKind::RecallNotice, delivery, to);
        let mail_id = MailId::recall_notice(&notice.session_id, notice.drafted_at);
        let state = MailState { mail_id, tries: MessageAttempts::queued(now), ..mail.state };
        Self { state, recall: Some(Box::new(notice)), ..mail }
    }
}

/// Why an attempt to send a mail failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailSendFailure {
    pub kind: RequestFailureKind,
    /// The error, with the text of the service.
    pub cause: UpstreamText,
    /// Whether the service or the mail caused the failure.
    pub fault: MailFailureCause,
    /// The wait that the mail service requested.
    pub retry_after: Option<SignedDuration>,
}

/// The cause of a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum MailFailureCause {
    /// The mail service, which also fails for other mails.
    Service,
    /// This mail, temporarily: for example, a mailbox is full.
    Mail,
    /// This mail, permanently: for example, the address is refused.
    MailForGood,
}

impl MailSendFailure {
    /// Whether each further attempt would fail, too.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        self.fault == MailFailureCause::MailForGood
    }

    /// The failure without `address`, which mail services quote and which must not be logged.
    #[must_use]
    pub fn hide_address(self, address: &CustomerEmail) -> Self {
        Self { cause: UpstreamText::new(hide(&address.mailbox(), self.cause.reveal())), ..self }
    }
}

impl MailState {
    /// The state of the mail after a failed attempt at `now`: to be retried, or dead.
    ///
    /// A notice about a divergence is retried once after 60 s, regardless of any wait that the mail service requests. Another mail is
    /// retried after 2 s, 4 s, 8 s and so on up to 15 minutes, or after the requested wait if that is longer, up to 1
    /// hour. Retries end when the mail would be older than `max_age`.
    #[must_use]
    pub fn record_failure(&self, failure: &MailSendFailure, now: Timestamp, max_age: SignedDuration) -> Self {
        let pause = match self.kind {
            MailKind::DivergenceNotice => {
                (self.tries.attempts.saturating_add(1) < NOTICE_ATTEMPTS).then_some(NOTICE_PAUSE)
            }
            MailKind::Verdict | MailKind::RecallNotice => {
                self.tries.next_pause(now, failure.retry_after, max_age)
            }
        };
        let pause = pause.filter(|_| !failure.is_permanent());
        Self { tries: self.tries.failed(&failure.cause, pause, now), ..self.clone() }
    }

    /// The state of a notice that was not sent within `max_age`: a dead letter. `None` for a younger notice, and for a mail with a
    /// verdict, which is still sent.
    #[must_use]
    pub fn expire(&self, now: Timestamp, max_age: SignedDuration) -> Option<Self> {
        let is_expired = self.kind != MailKind::Verdict
            && !self.tries.is_dead()
            && now.duration_since(self.tries.tried_since) > max_age;
        let last_error = Some("the notice is older than `mail.max_age_s`".into());
        is_expired.then(|| Self {
            tries: MessageAttempts { next_attempt_at: None, last_error, ..self.tries.clone() },
            ..self.clone()
        })
    }
}

/// The replacement for the address.
const HIDDEN: &str = "[address]";
/// The minimum number of characters by which an address is recognized at the end of a text that was cut.
const CUT_MIN_CHARS: usize = 3;

/// The number of times that a text is decoded, because codes may be encoded again.
const DECODINGS: usize = 3;

/// Replaces `address` in `text` with [`HIDDEN`]: in any case, plain or percent-encoded, complete or cut by the end of
/// the text. If the address still occurs in another form, only the status codes of `text` are kept.
fn hide(address: &str, text: &str) -> String {
    let shown = remove_address(address, text);
    if !has_traces(address, &shown) {
        return shown;
    }
    let local = identifying_characters(address);
    let is_code = |word: &&str| {
        let groups: Vec<_> = word.split('.').collect();
        let digits =
            |group: &&str| (1..=3).contains(&group.len()) && group.bytes().all(|b| b.is_ascii_digit());
        matches!(groups.len(), 1 | 3) && groups.iter().all(digits) && letters(word) != local
    };
    let words = text.split(|c: char| c.is_whitespace() || matches!(c, ':' | ',' | ';' | '-'));
    let mut codes: Vec<_> = words.filter(is_code).take(2).collect();
    codes.push("[text with the address]");
    codes.join(" ")
}

/// Whether the local part of `address` occurs in `text`, encoded or with other characters in between.
fn has_traces(address: &str, text: &str) -> bool {
    let local = identifying_characters(address);
    if local.chars().count() < CUT_MIN_CHARS {
        return false;
    }
    let mut form = text.replace(HIDDEN, " ");
    for _ in 0..DECODINGS {
        let in_base64 = form.split(|c: char| !c.is_ascii_alphanumeric() && !"+/-_".contains(c)).any(|word| {
            let bytes = STANDARD_NO_PAD.decode(word).or_else(|_| URL_SAFE_NO_PAD.decode(word));
            bytes.is_ok_and(|bytes| letters(&String::from_utf8_lossy(&bytes)).contains(&local))
        });
        if in_base64 || letters(&form).contains(&local) {
            return true;
        }
        form = decoded(&form);
    }
    false
}

/// The letters and digits that identify an address: those of its local part, or all if the local part has few.
fn identifying_characters(address: &str) -> String {
    let local = letters(address.rsplit_once('@').map_or(address, |(local, _)| local));
    if local.chars().count() < CUT_MIN_CHARS { letters(address) } else { local }
}

/// The letters and digits of `text`, in lower case.
fn letters(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Decodes `%40`, `=40`, `\x40`, `\u0040`, `&#64;` and `&#x40;` in `text`.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let (character, tail) = code(rest).unwrap_or_else(|| {
            let mut utf8 = [0; 4];
            (next.encode_utf8(&mut utf8).as_bytes().to_vec(), rest.get(next.len_utf8()..).unwrap_or_default())
        });
        bytes.extend(character);
        rest = tail;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The bytes of the code at the beginning of `text`, and the rest.
fn code(text: &str) -> Option<(Vec<u8>, &str)> {
    let of_point = |digits: &str, radix| {
        let character = char::from_u32(u32::from_str_radix(digits, radix).ok()?)?;
        Some(character.to_string().into_bytes())
    };
    if let Some(entity) = text.strip_prefix("&#") {
        let (digits, rest) = entity.split_once(';')?;
        let of_hex = digits.strip_prefix(['x', 'X']).map(|digits| of_point(digits, 16));
        return Some((of_hex.unwrap_or_else(|| of_point(digits, 10))?, rest));
    }
    if let Some(unicode) = text.strip_prefix("\\u") {
        let (digits, rest) = unicode.split_at_checked(4)?;
        return Some((of_point(digits, 16)?, rest));
    }
    let byte = text.strip_prefix(['%', '=']).or_else(|| text.strip_prefix("\\x"))?;
    let (digits, rest) = byte.split_at_checked(2)?;
    Some((vec![u8::from_str_radix(digits, 16).ok()?], rest))
}

fn remove_address(address: &str, text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        // an address may itself contain a text that looks like a code
        let found = strip_address(rest, address, plain).or_else(|| strip_address(rest, address, encoded));
        if let Some(tail) = found {
            shown.push_str(HIDDEN);
            rest = tail;
        } else {
            shown.push(next);
            rest = rest.get(next.len_utf8()..).unwrap_or_default();
        }
    }
    shown
}

/// The rest of `text` after the address at its beginning; `None` if it does not begin with the address. `read` reads
/// one character.
fn strip_address<'t>(
    text: &'t str,
    address: &str,
    read: fn(&'t str, char) -> Option<&'t str>,
) -> Option<&'t str> {
    let mut rest = text;
    for (known, character) in address.chars().enumerate() {
        let Some(next) = read(rest, character) else {
            let cut = rest.is_empty() || (rest.starts_with('%') && rest.len() < "%40".len());
            return (cut && known >= CUT_MIN_CHARS).then_some("");
        };
        rest = next;
    }
    Some(rest)
}

/// The rest of `text` after `character`, in any case; `None` if it begins with another character.
fn plain(text: &str, character: char) -> Option<&str> {
    let mut rest = text.chars();
    let same = rest.next()?.to_lowercase().eq(character.to_lowercase());
    same.then_some(rest.as_str())
}

/// As [`plain`], but the bytes of the character may be percent-encoded.
fn encoded(text: &str, character: char) -> Option<&str> {
    percent(text, character).or_else(|| plain(text, character))
}

fn percent(text: &str, character: char) -> Option<&str> {
    let mut rest = text;
    for byte in character.encode_utf8(&mut [0; 4]).bytes() {
        let (code, tail) = rest.strip_prefix('%')?.split_at_checked(2)?;
        let decoded = u8::from_str_radix(code, 16).ok()?;
        if !decoded.eq_ignore_ascii_case(&byte) {
            return None;
        }
        rest = tail;
    }
    Some(rest)
}

/// The pauses after failed attempts to send a message.
const BACKOFF: Backoff = Backoff {
    first_pause: SignedDuration::from_secs(2),
    longest_pause: SignedDuration::from_mins(15),
    longest_wait: SignedDuration::from_hours(1),
};

/// The attempts to send a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct MessageAttempts {
    /// The time at which it was queued first.
    pub queued_at: Timestamp,
    /// The number of attempts since it was queued, or queued again.
    pub attempts: u32,
    /// The time at which it was queued, or queued again.
    pub tried_since: Timestamp,
    /// The time at which the last attempt failed; null before the first.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tried_at: Option<Timestamp>,
    /// The time of the next attempt; null for a dead letter.
    pub next_attempt_at: Option<Timestamp>,
    /// The error of the last attempt.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>)]
    pub last_error: Option<UpstreamText>,
}

impl MessageAttempts {
    /// None yet, for a message that is queued at `now`.
    #[must_use]
    pub const fn queued(now: Timestamp) -> Self {
        Self {
            queued_at: now,
            attempts: 0,
            tried_since: now,
            tried_at: None,
            next_attempt_at: Some(now),
            last_error: None,
        }
    }

    /// The pause after one more failed attempt at `now`: 2 s, 4 s, 8 s and so on up to 15 minutes, or `retry_after` if that is
    /// longer, up to 1 hour. `None` if the message would be older than `max_age`.
    #[must_use]
    pub fn next_pause(
        &self,
        now: Timestamp,
        retry_after: Option<SignedDuration>,
        max_age: SignedDuration,
    ) -> Option<SignedDuration> {
        let pause = BACKOFF.pause(self.attempts);
        let age = now.duration_since(self.tried_since).saturating_add(pause);
        (age <= max_age).then(|| BACKOFF.extended(pause, retry_after))
    }

    /// The attempts after one more that failed at `now` because of `cause`. Without a `pause` the message is a dead letter.
    #[must_use]
    pub fn failed(&self, cause: &UpstreamText, pause: Option<SignedDuration>, now: Timestamp) -> Self {
        Self {
            attempts: self.attempts.saturating_add(1),
            tried_at: Some(now),
            next_attempt_at: pause.map(|pause| now.saturating_add(pause).unwrap_or(Timestamp::MAX)),
            last_error: Some(cause.stored()),
            ..self.clone()
        }
    }

    /// The time of the next attempt; `None` for a dead letter. A message is due at `now` if its time is further ahead than the
    /// maximum wait, or if its last attempt is in the future: the clock was set back since.
    #[must_use]
    pub fn due_at(&self, now: Timestamp) -> Option<Timestamp> {
        let tried_last = self.tried_at.unwrap_or(self.tried_since);
        self.next_attempt_at.map(|at| BACKOFF.due_at(at, tried_last, now))
    }

    /// The attempts after the message is queued again at `now`.
    #[must_use]
    pub fn requeued(&self, now: Timestamp) -> Self {
        Self { attempts: 0, tried_since: now, tried_at: None, next_attempt_at: Some(now), ..self.clone() }
    }

    /// Whether the message is a dead letter, which is not retried.
    #[must_use]
    pub const fn is_dead(&self) -> bool {
        self.next_attempt_at.is_none()
    }
}

#[cfg(test)]
mod tests;
