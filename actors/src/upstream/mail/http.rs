//! The mail service that is asked by HTTP: `POST /send-verdict-email`.

use super::MailService;
use crate::platform::clock::Clock;
use crate::upstream::http::Head;
use crate::upstream::oracle_health::Probe;
use crate::upstream::{BadEndpoint, BoxFuture, Endpoint, Failure, Kind};
use jiff::SignedDuration;
use oracled_domain::verdict::divergence::OriginalLabel;
use oracled_domain::verdict::health::Outcome;
use oracled_domain::verdict::mail::{Fault, MailKind, SendFailure};
use oracled_domain::verdict::session::Email;
use oracled_domain::{Mail, MailId, Query, SessionId, Tier};
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
        match self.endpoint.head(request, self.hard_timeout).await {
            // that it was taken is said before the body, whatever becomes of that
            Ok(head) if head.status.is_success() => Ok(()),
            Ok(head) => Err(self.refused(head)),
            // whether it was taken nobody knows: it is handed over again, under the same key
            Err(failure) => {
                let fault = if failure.blames_upstream() { Fault::Service } else { Fault::Mail };
                Err(SendFailure { cause: failure.to_string(), fault, retry_after: None })
            }
        }
    }

    fn refused(&self, head: Head) -> SendFailure {
        let fault = fault(head.status);
        let failure = self.unwelcome(head);
        let retry_after = failure.retry_after.map(|wait| wait.try_into().unwrap_or(SignedDuration::MAX));
        SendFailure { cause: failure.to_string(), fault, retry_after }
    }

    /// What an answer says that is no success.
    fn unwelcome(&self, Head { status, retry_after, body }: Head) -> Failure {
        let detail = match body {
            Ok(said) => self.endpoint.clean(&String::from_utf8_lossy(&said)),
            Err(failure) => failure.to_string(),
        };
        Failure { kind: Kind::Status(status.as_u16()), retry_after, detail }
    }

    async fn look(&self) -> Outcome {
        match self.endpoint.head(self.endpoint.get(&[]), self.hard_timeout).await {
            Ok(head) if head.status.is_success() => Outcome::Success { latency_ms: None },
            Ok(head) => self.unwelcome(head).probed(),
            Err(failure) => failure.probed(),
        }
    }
}

/// Whose fault an answer says it is. What does not speak of the mail (a key that it wants, a
/// path that it does not know) will be mended, and no mail is to be lost until then.
const fn fault(status: StatusCode) -> Fault {
    match status.as_u16() {
        400 | 410 | 413 | 422 => Fault::MailForGood,
        // one too many: the service is well
        429 => Fault::Mail,
        _ => Fault::Service,
    }
}

impl Probe for HttpMail {
    fn probe(&self) -> BoxFuture<'_, Outcome> {
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
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    #[test]
    fn the_verdict_goes_out_byte_for_byte_as_the_model_wrote_it() {
        let verdict = r#"{ "summary":  "A sound and simple\u0020plan.", "verdict": "GREEN" }"#;
        let mail = mail_of(MailKind::Verdict, Tier::Quick, verdict, None);
        let body = serde_json::to_string(&Request::of(&mail)).expect("it serializes");
        assert!(body.contains(&format!("\"verdict\":{verdict},")), "{body}");
    }

    /// What a service hears that asks one whose answer are these bytes, behind which the connection ends or stays.
    async fn answered(bytes: &str, ends: bool) -> Result<(), SendFailure> {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("it has an address"));
        let clock = Clock::fixed("2026-11-20T10:00:00Z".parse().expect("a time"));
        let service = HttpMail::new(&url, Duration::from_millis(300), clock).expect("a service");
        let mail = mail_of(MailKind::Verdict, Tier::Quick, crate::testing::GOOD, None);
        let server = async {
            let (mut socket, _) = listener.accept().await.expect("it connects");
            let mut request = [0; 4096];
            assert!(socket.read(&mut request).await.expect("it asks") > 0);
            socket.write_all(bytes.as_bytes()).await.expect("it hears");
            (!ends).then_some(socket)
        };
        let (sent, _socket) = tokio::join!(service.send(&mail), server);
        sent
    }

    #[tokio::test]
    async fn the_status_decides_once_it_is_there_whatever_becomes_of_the_body() {
        for (body, ends) in [("content-length: 9\r\n\r\ncut", true), ("content-length: 9\r\n\r\nslow", false)]
        {
            let taken = answered(&format!("HTTP/1.1 202 Accepted\r\n{body}"), ends).await;
            assert_eq!(taken, Ok(()), "{body}");
            let refused = answered(&format!("HTTP/1.1 422 No\r\n{body}"), ends).await.expect_err("a refusal");
            assert!(refused.is_permanent() && refused.cause.starts_with("HTTP status 422: "), "{refused:?}");
        }
        let long = "x".repeat(ANSWER_MAX_BYTES + 1);
        let long = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{long}", long.len());
        assert_eq!(answered(&long, true).await, Ok(()));
        for head in ["", "HTTP/1.1 20"] {
            let failed = answered(head, false).await.expect_err("no status came");
            assert!(!failed.is_permanent() && failed.cause.starts_with("no answer in time"), "{failed:?}");
        }
    }

    #[test]
    fn only_what_speaks_of_the_mail_is_permanent() {
        let with = |wanted: Fault| -> Vec<u16> {
            let is = |status: &u16| StatusCode::from_u16(*status).map(fault).expect("a status") == wanted;
            (300..600).filter(is).collect()
        };
        assert_eq!((with(Fault::MailForGood), with(Fault::Mail)), (vec![400, 410, 413, 422], vec![429]));
    }
}
