//! Whether an answer is of now: the guard against one that was given before (RFC-0002, "Oracle Integrity Requirements":
//! replay detection).

use super::Adapter;
use crate::base::date::Date;
use crate::base::decimal::{Decimal, Rounding};
use crate::base::moment::CLOCK_SKEW_MAX;
use crate::base::moment::span;
use crate::base::raw::Raw;
use crate::verification::call::Refusal;
use jiff::fmt::rfc2822::DateTimeParser;
use jiff::{SignedDuration, Timestamp};

/// What an answer that was issued at `issued_at`, and brought `nonce` back, is refused for; nothing where it is of now.
///
/// `sent` is the nonce of this question, `last_issued_at` when the last answer was issued that was taken.
///
/// # Errors
/// `Refusal::Replay`, with the reason in words that hold nothing of the answer but the time of its issue.
pub(super) fn check(
    adapter: &Adapter,
    issued_at: Option<Timestamp>,
    nonce: Option<&str>,
    sent: &str,
    last_issued_at: Option<Timestamp>,
    now: Timestamp,
) -> Result<(), (Refusal, String)> {
    let replay = |cause: String| Err((Refusal::Replay, cause));
    if adapter.nonce.is_some() && nonce != Some(sent) {
        return replay("it does not bring back the nonce that was sent".into());
    }
    if adapter.issued_at.is_none() {
        return Ok(());
    }
    let Some(issued_at) = issued_at else { return replay("it does not say when it was issued".into()) };
    if now.saturating_add(CLOCK_SKEW_MAX).is_ok_and(|latest| issued_at > latest) {
        return replay(format!("it says that it was issued at {issued_at}, which lies ahead"));
    }
    let age = now.duration_since(issued_at);
    let is_over = |most_s: &u64| age > SignedDuration::from_secs(i64::try_from(*most_s).unwrap_or(i64::MAX));
    if let Some(most_s) = adapter.max_issue_age_seconds.filter(is_over) {
        let most = span(most_s);
        return replay(format!("it was issued at {issued_at}, over {most} ago (`max_issue_age_seconds`)"));
    }
    match last_issued_at.filter(|last| issued_at < *last) {
        Some(last) => replay(format!("it was issued at {issued_at}, and one of {last} was taken already")),
        None => Ok(()),
    }
}

/// The moment that `raw` names: a date of RFC 3339, one as HTTP has it (RFC 9110, 5.6.7), or seconds since 1970 (the
/// `NumericDate` of RFC 7519).
pub(super) fn moment(raw: &Raw) -> Option<Timestamp> {
    match raw {
        Raw::Text(text) => of_text(text),
        Raw::Number(digits) => {
            let seconds: Decimal = digits.parse().ok()?;
            let whole = seconds.round(0, Rounding::HalfEven).ok()?;
            Timestamp::from_second(whole.to_i64()?).ok()
        }
        _ => None,
    }
}

/// The moment that a text names, as [`moment`] has it.
fn of_text(text: &str) -> Option<Timestamp> {
    let date = Date::read(text).and_then(|date| date.moment());
    date.or_else(|| DateTimeParser::new().parse_timestamp(text).ok())
}
