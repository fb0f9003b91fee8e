//! Mail to customers, and how it is sent.

use super::cleartext::address;
use super::{ConfigError, check_url, is_local, not_allowed, within};
use oracled_actors::upstream::mail::{BadSmtp, SmtpSettings, SmtpTls};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What mail is sent by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", try_from = "String")]
pub enum Transport {
    /// Nothing: no mail is sent, and none is queued.
    None,
    /// A mail service that takes `POST /send-verdict-email`.
    Http,
    /// A mail server.
    Smtp,
}

impl TryFrom<String> for Transport {
    type Error = &'static str;

    fn try_from(word: String) -> Result<Self, &'static str> {
        match word.as_str() {
            "none" => Ok(Self::None),
            "http" => Ok(Self::Http),
            "smtp" => Ok(Self::Smtp),
            _ => Err("the value is not a transport; allowed: none, http, smtp"),
        }
    }
}

/// How the connection to a mail server is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", try_from = "String")]
pub enum Tls {
    /// By STARTTLS, but for a server on this machine.
    Auto,
    /// By STARTTLS, or not used.
    Starttls,
    /// From the start.
    Implicit,
    /// Not at all.
    None,
}

impl TryFrom<String> for Tls {
    type Error = &'static str;

    fn try_from(word: String) -> Result<Self, &'static str> {
        match word.as_str() {
            "auto" => Ok(Self::Auto),
            "starttls" => Ok(Self::Starttls),
            "implicit" => Ok(Self::Implicit),
            "none" => Ok(Self::None),
            _ => Err("the value is not a TLS mode; allowed: auto, starttls, implicit, none"),
        }
    }
}

/// Whether `c` is allowed in a host name.
const fn is_host_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_')
}

/// Mail to customers, and how it is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mail {
    /// By what.
    pub transport: Transport,
    /// Where the mail service is.
    pub base_url: String,
    /// The mail server's name.
    pub smtp_host: Option<String>,
    /// Its port.
    pub smtp_port: u16,
    /// The user to whom it lets mail in, if it wants one.
    pub smtp_user: Option<String>,
    /// How the connection to it is protected.
    pub smtp_tls: Tls,
    /// From whom a mail is: `name@domain`, or `Name <name@domain>`.
    pub from: Option<String>,
    /// A mail's subject.
    pub subject: String,
    /// A file that holds the user's password.
    pub password_file: Option<PathBuf>,
    /// An attempt that takes longer is given up, in milliseconds.
    pub hard_timeout_ms: u64,
    /// For how long a verdict mail is tried, in seconds.
    pub max_age_s: u32,
}

impl Default for Mail {
    fn default() -> Self {
        Self {
            transport: Transport::None,
            base_url: "http://127.0.0.1:8006".into(),
            smtp_host: None,
            smtp_port: 587,
            smtp_user: None,
            smtp_tls: Tls::Auto,
            from: None,
            subject: "Your verdict".into(),
            password_file: None,
            hard_timeout_ms: 5000,
            max_age_s: 3 * 24 * 60 * 60,
        }
    }
}

impl Mail {
    /// How the connection to a server called `host` is protected.
    #[must_use]
    pub fn tls(&self, host: &str) -> SmtpTls {
        match self.smtp_tls {
            Tls::Auto if is_local(host) => SmtpTls::None,
            Tls::Auto | Tls::Starttls => SmtpTls::Starttls,
            Tls::Implicit => SmtpTls::Implicit,
            Tls::None => SmtpTls::None,
        }
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        within("mail.hard_timeout_ms", self.hard_timeout_ms, 100..=60_000)?;
        within("mail.max_age_s", self.max_age_s, 60..=30 * 24 * 60 * 60)?;
        within("mail.smtp_port", self.smtp_port, 1..=u16::MAX)?;
        check_url("mail.base_url", &self.base_url)?;
        let is_host = |host: &String| address(host).is_some() || host.chars().all(is_host_char);
        if !self.smtp_host.iter().all(is_host) {
            return Err(not_allowed(
                "mail.smtp_host",
                "not a host",
                "a name or an address, without a login or a port",
            ));
        }
        if self.transport == Transport::Smtp { self.check_smtp() } else { Ok(()) }
    }

    fn check_smtp(&self) -> Result<(), ConfigError> {
        if self.smtp_host.as_deref().is_none_or(|host| host.trim().is_empty()) {
            return Err(not_allowed("mail.smtp_host", "not set", "the name of a mail server"));
        }
        let Some(from) = self.from.as_deref() else {
            return Err(not_allowed("mail.from", "not set", "`name@domain`, or `Name <name@domain>`"));
        };
        SmtpSettings::check(from, &self.subject).map_err(|error| match error {
            BadSmtp::Subject => not_allowed("mail.subject", "more than one line", "one line"),
            other => not_allowed("mail.from", other, "`name@domain`, or `Name <name@domain>`"),
        })
    }
}
