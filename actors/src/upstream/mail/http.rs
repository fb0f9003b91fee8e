//! The mail service that is asked by HTTP: `POST /send-verdict-email`.

use super::MailService;
use crate::clock::Clock;
use crate::oracle_health::Probe;
use crate::upstream::http::Reply;
use crate::upstream::{BadEndpoint, BoxFuture, Endpoint, Failure, Kind};
use domain::divergence::OriginalLabel;
use domain::mail::{MailKind, SendFailure};
use domain::session::Email;
use domain::{Mail, MailId, Query, SessionId, Tier};
use jiff::SignedDuration;
use reqwest::StatusCode;
use serde::Serialize;
use serde_json::value::RawValue;
use std::time::Duration;

/// Where a mail is handed over, behind the base.
const PATH: &str = "send-verdict-email";
/// The header that is the same at every attempt to send one mail.
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// So much of an answer is read, in bytes.
const ANSWER_MAX_BYTES: usize = 64 * 1024;

/// A mail service at a URL.
#[derive(Debug)]
pub struct HttpMail {
    endpoint: Endpoint,
    hard_timeout: Duration,
}

/// What is posted.
#[derive(Serialize)]
struct Request<'m> {
    to: &'m Email,
    session_id: &'m SessionId,
    tier: Tier,
    query: &'m Query,
    /// As the model wrote it.
    verdict: &'m RawValue,
    kind: MailKind,
    mail_id: &'m MailId,
    #[serde(skip_serializing_if = "Option::is_none")]
    disclaimer: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    original_verdict: Option<OriginalLabel>,
}

impl<'m> Request<'m> {
    fn of(Mail { standing, delivery }: &'m Mail) -> Self {
        Self {
            to: &standing.to,
            session_id: &standing.session_id,
            tier: delivery.approved.tier(),
            query: &delivery.query,
            verdict: delivery.approved.verdict(),
            kind: standing.kind,
            mail_id: &standing.mail_id,
            disclaimer: delivery.disclaimer(),
            original_verdict: delivery.regen.map(|regen| regen.original),
        }
    }
}

impl HttpMail {
    /// The mail service at `base_url`. An attempt takes `hard_timeout` at the most.
    ///
    /// # Errors
    /// Where there can be no service at such a URL.
    pub fn new(base_url: &str, hard_timeout: Duration, clock: Clock) -> Result<Self, BadEndpoint> {
        let endpoint = Endpoint::new(base_url, None, clock)?.reading_at_most(ANSWER_MAX_BYTES);
        Ok(Self { endpoint, hard_timeout })
    }

    async fn hand_over(&self, mail: &Mail) -> Result<(), SendFailure> {
        let request = self.endpoint.post(&[PATH], &Request::of(mail));
        let request = request.header(IDEMPOTENCY_KEY, mail.standing.mail_id.as_str());
        match self.endpoint.send(request, self.hard_timeout).await {
            Ok(reply) if reply.status.is_success() => Ok(()),
            Ok(reply) => Err(self.refused(&reply)),
            // whether it was taken nobody knows: it is handed over again, under the same key
            Err(failure) => {
                Err(SendFailure { cause: failure.to_string(), permanent: false, retry_after: None })
            }
        }
    }

    fn refused(&self, reply: &Reply) -> SendFailure {
        let said = self.endpoint.clean(&String::from_utf8_lossy(&reply.body));
        let cause = Failure { kind: Kind::Status(reply.status.as_u16()), retry_after: None, detail: said };
        SendFailure {
            cause: cause.to_string(),
            permanent: is_permanent(reply.status),
            retry_after: reply.retry_after.map(|wait| wait.try_into().unwrap_or(SignedDuration::MAX)),
        }
    }

    async fn look(&self) -> Result<(), String> {
        match self.endpoint.send(self.endpoint.get(&[]), self.hard_timeout).await {
            Ok(reply) if reply.status.is_server_error() => Err(format!("status {}", reply.status.as_u16())),
            // whoever answers is there, at whatever length
            Ok(_) | Err(Failure { kind: Kind::TooLarge, .. }) => Ok(()),
            Err(failure) => Err(failure.to_string()),
        }
    }
}

/// Whether the service will answer this mail the same each time. What does not speak of the mail (a key that it wants, a
/// path that it does not know) will be mended, and no mail is to be lost until then.
const fn is_permanent(status: StatusCode) -> bool {
    matches!(status.as_u16(), 400 | 410 | 413 | 422)
}

impl Probe for HttpMail {
    fn probe(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(self.look())
    }
}

impl MailService for HttpMail {
    fn send<'a>(&'a self, mail: &'a Mail) -> BoxFuture<'a, Result<(), SendFailure>> {
        Box::pin(self.hand_over(mail))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::mail_of;

    #[test]
    fn the_verdict_goes_out_byte_for_byte_as_the_model_wrote_it() {
        let verdict = r#"{ "summary": "A sound and simple plan.", "x": 1.10, "verdict": "GREEN" }"#;
        let mail = mail_of(MailKind::Verdict, Tier::Quick, verdict, None);
        let body = serde_json::to_string(&Request::of(&mail)).expect("it serializes");
        assert!(body.contains(&format!("\"verdict\":{verdict},")), "{body}");
    }

    #[test]
    fn only_what_speaks_of_the_mail_is_permanent() {
        let permanent = |status: &u16| StatusCode::from_u16(*status).map(is_permanent).expect("a status");
        let statuses: Vec<_> = (300..600).filter(permanent).collect();
        assert_eq!(statuses, [400, 410, 413, 422]);
    }
}
