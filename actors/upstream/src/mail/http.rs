//! A mail service with an HTTP API: `POST /send-verdict-email`.

use super::MailService;
use crate::http::HttpHeadReply;
use crate::oracle_health::OracleProbe;
use crate::{BoxFuture, RequestFailure, RequestFailureKind, UpstreamEndpoint, UpstreamEndpointError};
use actors_platform::clock::Clock;
use domain_base::session_id::ApplicationName;
use domain_upstream::health::CircuitCallOutcome;
use domain_verdict::divergence::{NoteLanguage, OriginalLabel};
use domain_verdict::label::ProductTier;
use domain_verdict::mail::{MailFailureCause, MailId, MailKind, MailSendFailure, OutboxMail};
use domain_verdict::mail_template::MailContent;
use domain_verdict::query::CustomerQuery;
use jiff::SignedDuration;
use reqwest::StatusCode;
use serde::Serialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::time::Duration;

/// The path of the request, relative to the base URL.
const PATH: &str = "send-verdict-email";
/// The header with the mail's id, which is the same at each attempt.
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Limit for the body of an answer, in bytes.
const ANSWER_MAX_BYTES: usize = 64 * 1024;

/// A mail service with an HTTP API.
#[derive(Debug)]
pub struct HttpMailService {
    endpoint: UpstreamEndpoint,
    hard_timeout: Duration,
}

/// The body of the request.
#[derive(Serialize)]
struct MailApiRequest<'m> {
    to: Cow<'m, str>,
    session_id: &'m str,
    /// Absent for the application `default`.
    #[serde(skip_serializing_if = "ApplicationName::is_default")]
    application: ApplicationName,
    tier: ProductTier,
    query: &'m CustomerQuery,
    /// The model's verdict, byte for byte.
    verdict: &'m RawValue,
    kind: MailKind,
    mail_id: &'m MailId,
    #[serde(skip_serializing_if = "Option::is_none")]
    disclaimer: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    original_verdict: Option<OriginalLabel>,
    /// Absent without a template.
    #[serde(flatten)]
    content: Option<&'m MailContent>,
}

impl<'m> MailApiRequest<'m> {
    fn of(OutboxMail { state, delivery, .. }: &'m OutboxMail, content: Option<&'m MailContent>) -> Self {
        Self {
            to: state.to.mailbox(),
            session_id: state.session_id.local(),
            application: state.session_id.application(),
            tier: delivery.approved.tier(),
            query: &delivery.query,
            verdict: delivery.approved.verdict(),
            kind: state.kind,
            mail_id: &state.mail_id,
            disclaimer: match content {
                Some(content) => delivery.disclaimer_in(NoteLanguage::of(&content.language)),
                None => delivery.disclaimer(),
            },
            original_verdict: delivery.regen.map(|regen| regen.original),
            content,
        }
    }
}

impl HttpMailService {
    /// Creates a client of the mail service at `base_url`. An attempt takes at most `hard_timeout`.
    ///
    /// # Errors
    /// If `base_url` is not a base URL, or the HTTP client cannot be created.
    pub fn new(base_url: &str, hard_timeout: Duration, clock: Clock) -> Result<Self, UpstreamEndpointError> {
        let endpoint = UpstreamEndpoint::new(base_url, None, clock)?.with_body_limit(ANSWER_MAX_BYTES);
        Ok(Self { endpoint, hard_timeout })
    }

    async fn submit_mail(
        &self,
        mail: &OutboxMail,
        content: Option<&MailContent>,
    ) -> Result<(), MailSendFailure> {
        let request = self.endpoint.post(&[PATH], &MailApiRequest::of(mail, content));
        let request = request.header(IDEMPOTENCY_KEY, mail.state.mail_id.as_str());
        match self.endpoint.head(request, self.hard_timeout).await {
            // a success status confirms the mail, even if the body is cut or late
            Ok(head) if head.status.is_success() => Ok(()),
            Ok(head) => Err(self.refusal_failure(head)),
            // the service may have accepted the mail: it is sent again with the same key
            Err(failure) => {
                let fault = if failure.is_fault_of_upstream() {
                    MailFailureCause::Service
                } else {
                    MailFailureCause::Mail
                };
                Err(MailSendFailure { kind: failure.kind, cause: failure.cause(), fault, retry_after: None })
            }
        }
    }

    fn refusal_failure(&self, head: HttpHeadReply) -> MailSendFailure {
        let fault = fault(head.status);
        let failure = self.status_failure(head);
        let retry_after = failure.retry_after.map(|wait| wait.try_into().unwrap_or(SignedDuration::MAX));
        MailSendFailure { kind: failure.kind, cause: failure.cause(), fault, retry_after }
    }

    /// Converts an answer without a success status.
    fn status_failure(&self, HttpHeadReply { status, retry_after, body }: HttpHeadReply) -> RequestFailure {
        let (detail, text) = match body {
            Ok(bytes) => (String::new(), self.endpoint.clean(&String::from_utf8_lossy(&bytes))),
            Err(failure) => (failure.to_string(), failure.text),
        };
        let kind = RequestFailureKind::Status(status.as_u16());
        RequestFailure { retry_after, text, ..RequestFailure::new(kind, detail) }
    }

    async fn probe_service(&self) -> CircuitCallOutcome {
        match self.endpoint.head(self.endpoint.get(&[]), self.hard_timeout).await {
            Ok(head) if head.status.is_success() => CircuitCallOutcome::Success { latency_ms: None },
            Ok(head) => self.status_failure(head).probe_outcome(),
            Err(failure) => failure.probe_outcome(),
        }
    }
}

/// The fault that a status indicates. Only a few statuses are about the mail itself. Others, for example a
/// missing key or an unknown path, count as faults of the service: the mail is kept until they are fixed.
const fn fault(status: StatusCode) -> MailFailureCause {
    match status.as_u16() {
        400 | 410 | 413 | 422 => MailFailureCause::MailForGood,
        // too many requests: the service is healthy
        429 => MailFailureCause::Mail,
        _ => MailFailureCause::Service,
    }
}

impl OracleProbe for HttpMailService {
    fn probe(&self) -> BoxFuture<'_, CircuitCallOutcome> {
        Box::pin(self.probe_service())
    }
}

impl MailService for HttpMailService {
    fn send<'a>(
        &'a self,
        mail: &'a OutboxMail,
        content: Option<&'a MailContent>,
    ) -> BoxFuture<'a, Result<(), MailSendFailure>> {
        Box::pin(self.submit_mail(mail, content))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use actors_testing::mail_of;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    #[test]
    fn request_contains_the_verdict_byte_for_byte() {
        let verdict = r#"{ "summary":  "A sound and simple\u0020plan.", "verdict": "GREEN" }"#;
        let mail = mail_of(MailKind::Verdict, ProductTier::Quick, verdict, None);
        let body = serde_json::to_string(&MailApiRequest::of(&mail, None)).expect("the value serializes");
        assert!(body.contains(&format!("\"verdict\":{verdict},")), "{body}");
    }

    /// The outcome of sending a mail to a server that answers with these bytes. The server then closes the
    /// connection if `ends`, and keeps it open otherwise.
    async fn answered(bytes: &str, ends: bool) -> Result<(), MailSendFailure> {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("the listener has an address"));
        let clock = Clock::fixed("2026-11-20T10:00:00Z".parse().expect("a valid time"));
        let service = HttpMailService::new(&url, Duration::from_millis(300), clock).expect("a service");
        let mail = mail_of(MailKind::Verdict, ProductTier::Quick, actors_testing::GOOD, None);
        let server = async {
            let (mut socket, _) = listener.accept().await.expect("the client connects");
            let mut request = [0; 4096];
            assert!(socket.read(&mut request).await.expect("the client sends a request") > 0);
            socket.write_all(bytes.as_bytes()).await.expect("the client reads");
            (!ends).then_some(socket)
        };
        let (sent, _socket) = tokio::join!(service.send(&mail, None), server);
        sent
    }

    #[tokio::test]
    async fn send_ignores_the_body_once_the_status_has_arrived() {
        for (body, ends) in [("content-length: 9\r\n\r\ncut", true), ("content-length: 9\r\n\r\nslow", false)]
        {
            let taken = answered(&format!("HTTP/1.1 202 Accepted\r\n{body}"), ends).await;
            assert_eq!(taken, Ok(()), "{body}");
            let refused = answered(&format!("HTTP/1.1 422 No\r\n{body}"), ends).await.expect_err("a refusal");
            assert!(
                refused.is_permanent() && refused.cause.reveal().starts_with("HTTP status 422: "),
                "{refused:?}"
            );
        }
        let long = "x".repeat(ANSWER_MAX_BYTES + 1);
        let long = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{long}", long.len());
        assert_eq!(answered(&long, true).await, Ok(()));
        let cause = RequestFailureKind::Timeout.to_string();
        for head in ["", "HTTP/1.1 20"] {
            let failed = answered(head, false).await.expect_err("the response has no status");
            assert!(!failed.is_permanent() && failed.cause.reveal().starts_with(&cause), "{failed:?}");
        }
    }

    #[test]
    fn only_statuses_about_the_mail_itself_are_permanent() {
        let with = |expected: MailFailureCause| -> Vec<u16> {
            let is = |status: &u16| StatusCode::from_u16(*status).map(fault).expect("a status") == expected;
            (300..600).filter(is).collect()
        };
        assert_eq!(
            (with(MailFailureCause::MailForGood), with(MailFailureCause::Mail)),
            (vec![400, 410, 413, 422], vec![429])
        );
    }
}
