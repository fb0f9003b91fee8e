//! Mail by SMTP, with one connection for each mail: mails are few, and a pooled connection can go stale.

use super::MailService;
use crate::BoxFuture;
use crate::http::is_shortage;
use crate::oracle_health::OracleProbe;
use domain_base::digest::Sha256Hex;
use domain_base::session_id::ApplicationName;
use domain_base::text_form::{visible_line, visible_text};
use domain_base::upstream_text::UpstreamText;
use domain_upstream::failure::RequestFailureKind;
use domain_upstream::health::CircuitCallOutcome;
use domain_verdict::divergence::NoteLanguage;
use domain_verdict::label::{ProductTier, VerdictDimension};
use domain_verdict::mail::{MailFailureCause, MailId, MailKind, MailSendFailure, MailState, OutboxMail};
use domain_verdict::mail_template::MailContent;
use lettre::address::Envelope;
use lettre::message::header::{ContentType, Header, HeaderName, HeaderValue};
use lettre::message::{Mailbox, MessageBuilder, MultiPart, MultiPartKind, SinglePart};
use lettre::transport::smtp::Error;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::{Address, AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, SystemTime};
use tokio::time::timeout;

/// Replies that reject the mail itself: its address, size or parameters. Other replies reject the client, or indicate a
/// faulty server: the mail is kept until that is fixed.
const MAIL_REJECTION_CODES: [u16; 7] = [501, 550, 551, 552, 553, 555, 556];
/// Replies that defer the mail: the mailbox is busy or full, or the server uses greylisting.
const MAIL_DEFERRAL_CODES: [u16; 3] = [450, 451, 452];

/// Encryption of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SmtpTls {
    /// TLS from the start, as with `smtps://`.
    Implicit,
    /// STARTTLS, required before any other command.
    Starttls,
    /// No encryption.
    None,
}

/// The sender and the subject of mails.
#[derive(Debug, Clone)]
pub struct MailHeading {
    /// `name@domain`, or `Name <name@domain>`.
    pub from: String,
    pub subject: String,
}

/// Settings of the mail server and of its mails.
#[derive(Debug)]
pub struct SmtpSettings {
    /// Host name of the server; its certificate must match.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Encryption of the connection.
    pub tls: SmtpTls,
    /// User and password, if the server requires them.
    pub login: Option<(String, SecretString)>,
    /// The sender and the subject.
    pub heading: MailHeading,
    /// Those of applications that have their own.
    pub headings: BTreeMap<ApplicationName, MailHeading>,
    /// Timeout for sending one mail.
    pub hard_timeout: Duration,
}

/// Why the settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SmtpSettingsError {
    /// The sender is invalid.
    #[error("not a sender ({reason})")]
    From {
        /// Why the sender is invalid.
        reason: String,
    },
    /// The subject contains a line break or another control character.
    #[error("the subject contains a control character (allowed: one line)")]
    Subject,
    /// TLS cannot be used, for example because the system has no certificates.
    #[error("TLS cannot be used: {0}")]
    Tls(String),
}

/// A mail server.
pub struct SmtpMailService {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    heading: ParsedHeading,
    headings: BTreeMap<ApplicationName, ParsedHeading>,
    hard_timeout: Duration,
}

/// A valid sender with its subject.
#[derive(Debug)]
struct ParsedHeading {
    from: Mailbox,
    subject: String,
}

impl fmt::Debug for SmtpMailService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Smtp").field("heading", &self.heading).finish_non_exhaustive()
    }
}

impl MailHeading {
    /// Validates both.
    ///
    /// # Errors
    /// If the sender or the subject is invalid.
    pub fn check(&self) -> Result<(), SmtpSettingsError> {
        self.parse().map(drop)
    }

    fn parse(&self) -> Result<ParsedHeading, SmtpSettingsError> {
        let Self { from, subject } = self;
        if subject.chars().any(char::is_control) {
            return Err(SmtpSettingsError::Subject);
        }
        let bad = |reason: String| SmtpSettingsError::From { reason };
        if from.chars().any(char::is_control) {
            return Err(bad("more than one line".into()));
        }
        let from = from.parse().map_err(|error: lettre::address::AddressError| bad(error.to_string()))?;
        Ok(ParsedHeading { from, subject: subject.clone() })
    }
}

impl SmtpMailService {
    /// Creates a client of the mail server in `settings`. It does not connect yet.
    ///
    /// # Errors
    /// If the sender or the subject is invalid, or TLS cannot be used.
    pub fn new(settings: SmtpSettings) -> Result<Self, SmtpSettingsError> {
        let SmtpSettings { host, port, tls, login, heading, headings, hard_timeout } = settings;
        let heading = heading.parse()?;
        let headings = headings.into_iter().map(|(name, heading)| Ok((name, heading.parse()?)));
        let headings = headings.collect::<Result<_, SmtpSettingsError>>()?;
        let parameters =
            || TlsParameters::new(host.clone()).map_err(|error| SmtpSettingsError::Tls(error.to_string()));
        let tls = match tls {
            SmtpTls::Implicit => Tls::Wrapper(parameters()?),
            SmtpTls::Starttls => Tls::Required(parameters()?),
            SmtpTls::None => Tls::None,
        };
        // lettre calls this builder dangerous because it sets no TLS; TLS is set in the next line
        let server = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(host);
        let mut server = server.port(port).tls(tls).timeout(Some(hard_timeout));
        if let Some((user, password)) = login {
            server = server.credentials(Credentials::new(user, password.expose_secret().to_owned()));
        }
        Ok(Self { transport: server.build(), heading, headings, hard_timeout })
    }

    async fn submit_mail(
        &self,
        mail: &OutboxMail,
        content: Option<&MailContent>,
    ) -> Result<(), MailSendFailure> {
        let message = self.message(mail, content)?;
        let ascii = message.envelope().to().iter().all(|to| AsRef::<str>::as_ref(to).is_ascii());
        match timeout(self.hard_timeout, self.transport.send(message)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(classify_smtp_error(&error, ascii)),
            Err(_) => Err(failure(
                RequestFailureKind::Timeout,
                format!("no answer within {} ms", self.hard_timeout.as_millis()),
                MailFailureCause::Service,
            )),
        }
    }

    /// Builds the message. It is the same at each attempt with the same content.
    fn message(&self, mail: &OutboxMail, content: Option<&MailContent>) -> Result<Message, MailSendFailure> {
        let MailState { mail_id, to, session_id, tries, .. } = &mail.state;
        let ParsedHeading { from, subject } =
            self.headings.get(&session_id.application()).unwrap_or(&self.heading);
        let unusable = |error: &dyn fmt::Display| {
            let cause = format!("the message cannot be built: {error}");
            failure(RequestFailureKind::Unusable("message"), cause, MailFailureCause::MailForGood)
        };
        let to: Address =
            to.mailbox().parse().map_err(|error| unusable(&error as &lettre::address::AddressError))?;
        // derived from the headers, it would lack an address with a quoted local part, which the client cannot parse there
        let envelope = Envelope::new(Some(from.email.clone()), vec![to.clone()]);
        let message = Message::builder()
            .envelope(envelope.map_err(|error| unusable(&error))?)
            .from(from.clone())
            .to(Mailbox::new(None, to))
            .date(SystemTime::from(tries.queued_at))
            .message_id(Some(message_id(mail_id, from.email.domain())));
        let message = match content {
            Some(content) => add_content(message, content),
            None => {
                let message = message.subject(subject_of(mail, subject)).header(ContentType::TEXT_PLAIN);
                message.body(format_mail(mail))
            }
        };
        message.map_err(|error| unusable(&error))
    }

    /// Probes the server by opening a connection and sending `NOOP`, the same steps that each mail needs.
    async fn probe_server(&self) -> CircuitCallOutcome {
        CircuitCallOutcome::Failure(
            match timeout(self.hard_timeout, self.transport.test_connection()).await {
                Ok(Ok(true)) => return CircuitCallOutcome::Success { latency_ms: None },
                Ok(Ok(false)) => RequestFailureKind::Unusable("noop"),
                Ok(Err(error)) if is_shortage(&error) => return CircuitCallOutcome::Neutral,
                Ok(Err(error)) => kind_of(&error),
                Err(_) => RequestFailureKind::Timeout,
            },
        )
    }
}

/// The subject. A notice has a different one, so that it is not mistaken for the mail that it is about.
fn subject_of(mail: &OutboxMail, subject: &str) -> String {
    match mail.state.kind {
        // a recall notice has the subject of its template
        MailKind::Verdict | MailKind::RecallNotice => subject.to_owned(),
        MailKind::DivergenceNotice => format!("{subject}: a note on your results page"),
    }
}

/// The `Message-ID` of a mail: the SHA-256 of its id, which contains only characters that are allowed in a header.
fn message_id(mail_id: &MailId, domain: &str) -> String {
    format!("<{}@{domain}>", Sha256Hex::of(mail_id.as_str().as_bytes()))
}

/// Classifies an error of the SMTP client. If the server does not support addresses beyond ASCII, the client
/// itself rejects such an address.
fn classify_smtp_error(error: &Error, ascii: bool) -> MailSendFailure {
    let status: Option<u16> = error.status().map(Into::into);
    let fault = match status {
        Some(status) if MAIL_REJECTION_CODES.contains(&status) => MailFailureCause::MailForGood,
        _ if error.is_client() && !ascii => MailFailureCause::MailForGood,
        Some(status) if MAIL_DEFERRAL_CODES.contains(&status) => MailFailureCause::Mail,
        _ if is_shortage(error) => MailFailureCause::Mail,
        _ => MailFailureCause::Service,
    };
    failure(kind_of(error), error.to_string(), fault)
}

/// The kind of an error of the SMTP client. Its message has the server's reply, which can quote the mail.
fn kind_of(error: &Error) -> RequestFailureKind {
    match error.status() {
        Some(status) => RequestFailureKind::SmtpStatus(status.into()),
        None if is_shortage(error) => RequestFailureKind::Shortage,
        None if error.is_timeout() => RequestFailureKind::Timeout,
        None if error.is_response() => RequestFailureKind::Unreadable,
        None if error.is_tls() => RequestFailureKind::Unusable("tls"),
        None if error.is_client() => RequestFailureKind::Unusable("message"),
        None => RequestFailureKind::Broken,
    }
}

fn failure(kind: RequestFailureKind, cause: String, fault: MailFailureCause) -> MailSendFailure {
    let cause = UpstreamText::new(visible_line(&cause));
    MailSendFailure { kind, cause, fault, retry_after: None }
}

/// Completes a message: plain text, or plain text with HTML as its alternative.
fn add_content(message: MessageBuilder, content: &MailContent) -> Result<Message, lettre::error::Error> {
    let MailContent { subject, text, html, language } = content;
    let message = message.subject(subject.clone()).header(ContentLanguage(language.to_string()));
    let Some(html) = html else { return message.header(ContentType::TEXT_PLAIN).body(text.clone()) };
    // a text cannot contain its own digest, so it cannot end its part
    let boundary = Sha256Hex::of([text.as_str(), html].concat().as_bytes());
    let parts = MultiPart::builder().kind(MultiPartKind::Alternative).boundary(boundary.as_str());
    let parts = parts.singlepart(SinglePart::plain(text.clone()));
    message.multipart(parts.singlepart(SinglePart::html(html.clone())))
}

/// The header of RFC 3282.
#[derive(Debug, Clone)]
struct ContentLanguage(String);

impl Header for ContentLanguage {
    fn name() -> HeaderName {
        HeaderName::new_from_ascii_str("Content-Language")
    }

    fn parse(text: &str) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Self(text.to_owned()))
    }

    fn display(&self) -> HeaderValue {
        HeaderValue::new(Self::name(), self.0.clone())
    }
}

impl OracleProbe for SmtpMailService {
    fn probe(&self) -> BoxFuture<'_, CircuitCallOutcome> {
        Box::pin(self.probe_server())
    }
}

impl MailService for SmtpMailService {
    fn send<'a>(
        &'a self,
        mail: &'a OutboxMail,
        content: Option<&'a MailContent>,
    ) -> BoxFuture<'a, Result<(), MailSendFailure>> {
        Box::pin(self.submit_mail(mail, content))
    }
}

/// Formats a mail as plain text.
pub(super) fn format_mail(mail: &OutboxMail) -> String {
    let OutboxMail { state, delivery, .. } = mail;
    let verdict: Value = serde_json::from_str(delivery.approved.verdict().get()).unwrap_or_default();
    let mut text = MailText(String::new());
    // the rest of the text is English
    match delivery.disclaimer_in(NoteLanguage::En) {
        Some(disclaimer) => {
            text.paragraph(disclaimer);
            let original = delivery.regen.map_or("UNKNOWN", |regen| regen.original.as_str());
            text.line("Received by email", original);
            text.line("On your results page", delivery.approved.label().into_str());
        }
        None => text.line("Verdict", delivery.approved.label().into_str()),
    }
    text.gap();
    text.paragraph(text_member(&verdict, "summary"));
    // only the fields of the tier: the others were not paid for, and not checked either
    let tier = delivery.approved.tier();
    format_breakdown(&mut text, verdict.get("breakdown").filter(|_| tier >= ProductTier::Full));
    format_strategy(&mut text, verdict.get("strategy").filter(|_| tier == ProductTier::Strategy));
    text.paragraph("Your question:");
    text.paragraph(delivery.query.as_str());
    text.line("Session", state.session_id.local());
    text.0
}

fn format_breakdown(text: &mut MailText, breakdown: Option<&Value>) {
    let Some(breakdown) = breakdown.filter(|value| value.is_object()) else { return };
    text.heading("Breakdown");
    for dimension in VerdictDimension::ALL {
        let Some(judged) = breakdown.get(dimension.into_str()) else { continue };
        text.line(
            dimension.into_str(),
            &format!("{}. {}", text_member(judged, "verdict"), text_member(judged, "analysis")),
        );
    }
    text.gap();
}

fn format_strategy(text: &mut MailText, strategy: Option<&Value>) {
    let Some(strategy) = strategy.filter(|value| value.is_object()) else { return };
    text.heading("Strategy");
    text.line("Next step", text_member(strategy, "next_step"));
    text.line("Alternative", text_member(strategy, "alternative"));
    for test in strategy.get("tests").and_then(Value::as_array).into_iter().flatten() {
        text.line("Test", &format_test(test));
    }
    text.gap();
}

fn text_member<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// A test is a text, or an object or a list with content of the model's choice.
fn format_test(test: &Value) -> String {
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let parts: Vec<_> = match test {
        Value::Object(members) => {
            members.iter().map(|(name, value)| format!("{name}: {}", plain(value))).collect()
        }
        Value::Array(items) => items.iter().map(plain).collect(),
        other => vec![plain(other)],
    };
    parts.join("; ")
}

/// The text as it is built.
struct MailText(String);

impl MailText {
    fn line(&mut self, name: &str, value: &str) {
        self.push(&format!("{name}: {}", value.trim()));
    }

    fn heading(&mut self, heading: &str) {
        self.push(heading);
    }

    fn paragraph(&mut self, paragraph: &str) {
        self.push(paragraph.trim());
        self.gap();
    }

    fn gap(&mut self) {
        self.0.push('\n');
    }

    /// Appends one or more lines, with escapes for characters that hide text.
    fn push(&mut self, line: &str) {
        self.0.push_str(&visible_text(line));
        self.0.push('\n');
    }
}

#[cfg(test)]
mod tests;
