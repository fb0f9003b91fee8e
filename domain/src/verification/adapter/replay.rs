//! The replay check: rejects an answer that was given before (RFC-0002, "Oracle Integrity Requirements":
//! replay detection).

use super::Adapter;
use crate::base::date::{Date, read_http_date};
use crate::base::decimal::{Decimal, Rounding};
use crate::base::moment::CLOCK_SKEW_MAX;
use crate::base::moment::format_span;
use crate::base::raw::SourceValue;
use crate::verification::call::AnswerFault;
use jiff::{SignedDuration, Timestamp};

/// Checks that an answer with this time of issue and this returned nonce is current.
///
/// `sent` is the nonce of the request. `last_issued_at` is the time of issue of the last accepted answer.
///
/// # Errors
/// `AnswerFault::Replay`, with the reason in words. The only content of the answer in it is the time of issue.
pub(super) fn check(
    adapter: &Adapter,
    issued_at: Option<Timestamp>,
    nonce: Option<&str>,
    sent: &str,
    last_issued_at: Option<Timestamp>,
    now: Timestamp,
) -> Result<(), (AnswerFault, String)> {
    let replay = |cause: String| Err((AnswerFault::Replay, cause));
    if adapter.nonce.is_some() && nonce != Some(sent) {
        return replay("it does not return the nonce that was sent".into());
    }
    if adapter.issued_at.is_none() {
        return Ok(());
    }
    let Some(issued_at) = issued_at else { return replay("its time of issue is missing".into()) };
    if now.saturating_add(CLOCK_SKEW_MAX).is_ok_and(|latest| issued_at > latest) {
        return replay(format!("its time of issue is {issued_at}, which is in the future"));
    }
    let age = now.duration_since(issued_at);
    let is_over = |most_s: &u64| age > SignedDuration::from_secs(i64::try_from(*most_s).unwrap_or(i64::MAX));
    if let Some(most_s) = adapter.max_issue_age_seconds.filter(is_over) {
        let most = format_span(most_s);
        return replay(format!("it was issued at {issued_at}, over {most} ago (`max_issue_age_seconds`)"));
    }
    match last_issued_at.filter(|last| issued_at < *last) {
        Some(last) => {
            replay(format!("it was issued at {issued_at}, before the last accepted answer ({last})"))
        }
        None => Ok(()),
    }
}

/// Parses a time: a date of RFC 3339, a date of HTTP (RFC 9110, 5.6.7), or seconds since 1970 (`NumericDate`
/// of RFC 7519).
pub(super) fn moment(raw: &SourceValue) -> Option<Timestamp> {
    match raw {
        SourceValue::Text(text) => of_text(text),
        SourceValue::Number(digits) => {
            let seconds: Decimal = digits.parse().ok()?;
            let whole = seconds.round(0, Rounding::HalfEven).ok()?;
            Timestamp::from_second(whole.to_i64()?).ok()
        }
        _ => None,
    }
}

/// Parses a time that is a text, as in [`moment`].
fn of_text(text: &str) -> Option<Timestamp> {
    let date = Date::read(text).and_then(|date| date.moment());
    date.or_else(|| read_http_date(text))
}
