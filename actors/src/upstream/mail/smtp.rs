//! Mail by SMTP, one connection a mail: they are few, and a kept connection is one more thing that can have gone stale.

use super::MailService;
use super::letter::letter;
use crate::upstream::BoxFuture;
use crate::upstream::http::is_shortage;
use crate::upstream::oracle_health::Probe;
use lettre::message::Mailbox;
use lettre::message::header::ContentType;
use lettre::transport::smtp::Error;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::{Address, AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor};
use oracled_domain::verdict::health::Outcome;
use oracled_domain::verdict::mail::{Fault, MailKind, SendFailure, Standing};
use oracled_domain::{Mail, MailId, Sha256Hex};
use secrecy::{ExposeSecret, SecretString};
use std::fmt;
use std::time::{Duration, SystemTime};
use tokio::time::timeout;

/// Replies that refuse the mail: its address, its size, its parameters. Another one refuses whoever asks, or the server
/// is not as it should be; that will be mended, and no mail is to be lost until then.
const THE_MAILS_FAULT: [u16; 7] = [501, 550, 551, 552, 553, 555, 556];
/// Replies that put the mail off: its mailbox is busy or full, or greylisted.
const THE_MAILS_FAULT_FOR_NOW: [u16; 3] = [450, 451, 452];

/// How a connection is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SmtpTls {
    /// From the start, as with `smtps://`.
    Implicit,
    /// By STARTTLS before anything else, or not used.
    Starttls,
    /// Not at all.
    None,
}

/// How mail is sent.
#[derive(Debug)]
pub struct SmtpSettings {
    /// The server's name, which its certificate has to bear.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// How the connection to it is protected.
    pub tls: SmtpTls,
    /// User and password, where it wants them.
    pub login: Option<(String, SecretString)>,
    /// From whom a mail is: `name@domain`, or `Name <name@domain>`.
    pub from: String,
    /// Its subject.
    pub subject: String,
    /// For how long a mail may take to be handed over.
    pub hard_timeout: Duration,
}

/// Why mail cannot be sent like this.
#[derive(Debug, thiserror::Error)]
pub enum BadSmtp {
    /// The sender is not one.
    #[error("not a sender ({reason})")]
    From {
        /// What is wrong with it.
        reason: String,
    },
    /// The subject cannot be one.
    #[error("a subject is one line")]
    Subject,
    /// TLS cannot be used; the system has no certificates, say.
    #[error("TLS cannot be used: {0}")]
    Tls(String),
}

/// A mail server.
pub struct Smtp {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    from: Mailbox,
    subject: String,
    hard_timeout: Duration,
}

impl fmt::Debug for Smtp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Smtp").field("from", &self.from).finish_non_exhaustive()
    }
}

impl SmtpSettings {
    /// Whether `from` and `subject` can be a sender and a subject.
    ///
    /// # Errors
    /// Which of them cannot.
    pub fn check(from: &str, subject: &str) -> Result<(), BadSmtp> {
        sender(from, subject).map(drop)
    }
}

fn sender(from: &str, subject: &str) -> Result<Mailbox, BadSmtp> {
    if subject.chars().any(char::is_control) {
        return Err(BadSmtp::Subject);
    }
    let bad = |reason: String| BadSmtp::From { reason };
    if from.chars().any(char::is_control) {
        return Err(bad("more than one line".into()));
    }
    from.parse().map_err(|error: lettre::address::AddressError| bad(error.to_string()))
}

impl Smtp {
    /// A mail server that is used as `settings` say. It is not connected to yet.
    ///
    /// # Errors
    /// Where it cannot be used like that.
    pub fn new(settings: SmtpSettings) -> Result<Self, BadSmtp> {
        let SmtpSettings { host, port, tls, login, from, subject, hard_timeout } = settings;
        let from = sender(&from, &subject)?;
        let parameters = || TlsParameters::new(host.clone()).map_err(|error| BadSmtp::Tls(error.to_string()));
        let tls = match tls {
            SmtpTls::Implicit => Tls::Wrapper(parameters()?),
            SmtpTls::Starttls => Tls::Required(parameters()?),
            SmtpTls::None => Tls::None,
        };
        // dangerous, says lettre, since it has no TLS of its own; here it has
        let server = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(host);
        let mut server = server.port(port).tls(tls).timeout(Some(hard_timeout));
        if let Some((user, password)) = login {
            server = server.credentials(Credentials::new(user, password.expose_secret().to_owned()));
        }
        Ok(Self { transport: server.build(), from, subject, hard_timeout })
    }

    async fn hand_over(&self, mail: &Mail) -> Result<(), SendFailure> {
        let message = self.message(mail)?;
        let ascii = message.envelope().to().iter().all(|to| AsRef::<str>::as_ref(to).is_ascii());
        match timeout(self.hard_timeout, self.transport.send(message)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(refused(&error, ascii)),
            Err(_) => {
                Err(failure(format!("no answer within {} ms", self.hard_timeout.as_millis()), Fault::Service))
            }
        }
    }

    /// The mail as it goes over the wire: the same at every attempt.
    fn message(&self, mail: &Mail) -> Result<Message, SendFailure> {
        let Standing { mail_id, to, queued_at, .. } = &mail.standing;
        let unusable =
            |error: &dyn fmt::Display| failure(format!("it cannot be written: {error}"), Fault::MailForGood);
        let to: Address = String::from(to.clone())
            .parse()
            .map_err(|error| unusable(&error as &lettre::address::AddressError))?;
        Message::builder()
            .from(self.from.clone())
            .to(Mailbox::new(None, to))
            .subject(self.subject_of(mail))
            .date(SystemTime::from(*queued_at))
            .message_id(Some(message_id(mail_id, self.from.email.domain())))
            .header(ContentType::TEXT_PLAIN)
            .body(letter(mail))
            .map_err(|error| unusable(&error))
    }

    /// A notice is not to be taken for the mail that it speaks of.
    fn subject_of(&self, mail: &Mail) -> String {
        match mail.standing.kind {
            MailKind::Verdict => self.subject.clone(),
            MailKind::DivergenceNotice => format!("{}: a note on your results page", self.subject),
        }
    }

    /// What is asked for here every mail needs: it is as good as one.
    async fn look(&self) -> Outcome {
        Outcome::Failure(match timeout(self.hard_timeout, self.transport.test_connection()).await {
            Ok(Ok(true)) => return Outcome::Success { latency_ms: None },
            Ok(Ok(false)) => "the server does not answer NOOP".into(),
            Ok(Err(error)) if is_shortage(&error) => return Outcome::Neutral,
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {} ms", self.hard_timeout.as_millis()),
        })
    }
}

/// The `Message-ID` of a mail: its own id, in characters that a header takes anywhere.
fn message_id(mail_id: &MailId, domain: &str) -> String {
    format!("<{}@{domain}>", Sha256Hex::of(mail_id.as_str().as_bytes()))
}

/// What an error of the exchange means for the mail. One to an address of more than ASCII, which the server does not
/// take, is found out by the client.
fn refused(error: &Error, ascii: bool) -> SendFailure {
    let status: Option<u16> = error.status().map(Into::into);
    let fault = match status {
        Some(status) if THE_MAILS_FAULT.contains(&status) => Fault::MailForGood,
        _ if error.is_client() && !ascii => Fault::MailForGood,
        Some(status) if THE_MAILS_FAULT_FOR_NOW.contains(&status) => Fault::Mail,
        _ if is_shortage(error) => Fault::Mail,
        _ => Fault::Service,
    };
    failure(error.to_string(), fault)
}

fn failure(cause: String, fault: Fault) -> SendFailure {
    let cause = cause.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    SendFailure { cause, fault, retry_after: None }
}

impl Probe for Smtp {
    fn probe(&self) -> BoxFuture<'_, Outcome> {
        Box::pin(self.look())
    }
}

impl MailService for Smtp {
    fn send<'a>(&'a self, mail: &'a Mail) -> BoxFuture<'a, Result<(), SendFailure>> {
        Box::pin(self.hand_over(mail))
    }
}

#[cfg(test)]
mod tests;
