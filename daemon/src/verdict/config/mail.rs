//! The configuration of mail to customers.

use crate::platform::config::{
    ConfigError, Configuration, Section, check_url, is_local, not_allowed_error, parse_address, redact_url,
};
use actors_upstream::mail::{MailHeading, SmtpSettingsError, SmtpTls};
use domain_base::text_form::is_blank;
use domain_verdict::prompt::TemplateName;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use utoipa::ToSchema;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum MailTransport {
    /// No transport: no mail is sent or queued.
    None,
    /// A mail service with the route `POST /send-verdict-email`.
    Http,
    /// A mail server.
    Smtp,
}

/// The encryption of the connection to a mail server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum MailTls {
    /// STARTTLS; none for a server on this machine.
    Auto,
    /// STARTTLS, which the server must support.
    Starttls,
    /// TLS from the start of the connection.
    Implicit,
    /// No encryption.
    None,
}

/// The allowed senders.
const SENDER: &str = "`name@domain`, or `Name <name@domain>`";

/// Checks a sender and a subject, which have these keys.
pub(super) fn check_heading(
    heading: &MailHeading,
    from_key: impl Into<String>,
    subject_key: impl Into<String>,
) -> Result<(), ConfigError> {
    heading.check().map_err(|error| match error {
        SmtpSettingsError::Subject => not_allowed_error(subject_key, "more than one line", "one line"),
        other => not_allowed_error(from_key, other, SENDER),
    })
}

/// Whether `c` is allowed in a host name.
const fn is_host_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_')
}

/// Mail to customers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MailSection {
    /// The transport: `none` (no mail is sent or queued), `http` (a mail service with the route `POST
    /// /send-verdict-email`), or `smtp` (a mail server).
    pub transport: MailTransport,
    /// Base URL of the mail service.
    pub base_url: String,
    /// Host of the mail server.
    pub smtp_host: Option<String>,
    /// Port of the mail server.
    #[schema(minimum = 1, maximum = 65_535)]
    pub smtp_port: u16,
    /// User name for the mail server, if it requires one.
    pub smtp_user: Option<String>,
    /// Encryption of the connection to the mail server: `starttls` (required), `implicit` (TLS from the start), `none`, or
    /// `auto`, which is `none` for a server on this machine and `starttls` for others.
    pub smtp_tls: MailTls,
    /// The sender of mails of the transport `smtp`: `name@domain`, or `Name <name@domain>`.
    pub from: Option<String>,
    /// The subject of mails of the transport `smtp` without a template.
    pub subject: String,
    /// [Mail templates](../delivery.md#mail-templates), one for each language: `ID` for the newest registered version, or
    /// `ID@VERSION`. A mail has the template of the language of its verdict's prompt, or else the first. Without templates,
    /// mails have the built-in text.
    #[schema(value_type = Vec<String>)]
    pub templates: Vec<TemplateName>,
    /// File with the user's password. systemd's credential `oracled_smtp-password` overrides this file. The
    /// file overrides the variable `SMTP_PASSWORD`.
    #[schema(value_type = Option<String>)]
    pub password_file: Option<PathBuf>,
    /// Time limit of an attempt.
    #[schema(minimum = 100, maximum = 60_000)]
    pub hard_timeout_ms: u64,
    /// Time during which a verdict mail is retried, and a notice is sent.
    #[schema(minimum = 60, maximum = 2_592_000)]
    pub max_age_s: u32,
}

impl Default for MailSection {
    fn default() -> Self {
        Self {
            transport: MailTransport::None,
            base_url: "http://127.0.0.1:8006".into(),
            smtp_host: None,
            smtp_port: 587,
            smtp_user: None,
            smtp_tls: MailTls::Auto,
            from: None,
            subject: "Your verdict".into(),
            templates: Vec::new(),
            password_file: None,
            hard_timeout_ms: 5000,
            max_age_s: 3 * 24 * 60 * 60,
        }
    }
}

impl Section for MailSection {
    fn key(&self) -> &'static str {
        "mail"
    }

    fn check(&self, _: &dyn Configuration) -> Vec<ConfigError> {
        self.check_addresses().err().into_iter().collect()
    }

    fn check_limits(&self, _: &dyn Configuration) -> Vec<ConfigError> {
        self.check_smtp().err().into_iter().collect()
    }
}

impl MailSection {
    /// The transport and its server, for `oraclectl status`.
    pub(crate) fn describe(&self) -> String {
        match self.transport {
            MailTransport::None => "none: no mail is sent".to_owned(),
            MailTransport::Http => format!("http, {}", redact_url(&self.base_url)),
            MailTransport::Smtp => format!("smtp, {}", self.smtp_host.as_deref().unwrap_or_default()),
        }
    }

    /// The encryption of the connection to the server `host`.
    #[must_use]
    pub fn tls_for(&self, host: &str) -> SmtpTls {
        match self.smtp_tls {
            MailTls::Auto if is_local(host) => SmtpTls::None,
            MailTls::Auto | MailTls::Starttls => SmtpTls::Starttls,
            MailTls::Implicit => SmtpTls::Implicit,
            MailTls::None => SmtpTls::None,
        }
    }

    /// The sender and the subject of mails.
    #[must_use]
    pub fn heading(&self) -> MailHeading {
        MailHeading { from: self.from.clone().unwrap_or_default(), subject: self.subject.clone() }
    }

    fn check_addresses(&self) -> Result<(), ConfigError> {
        check_url("mail.base_url", &self.base_url)?;
        let is_host = |host: &String| parse_address(host).is_some() || host.chars().all(is_host_char);
        if !self.smtp_host.iter().all(is_host) {
            return Err(not_allowed_error(
                "mail.smtp_host",
                "not a host",
                "a name or an address, without a login or a port",
            ));
        }
        Ok(())
    }

    /// Checks the values that the transport `smtp` requires.
    fn check_smtp(&self) -> Result<(), ConfigError> {
        if self.transport != MailTransport::Smtp {
            return Ok(());
        }
        if self.smtp_host.as_deref().is_none_or(is_blank) {
            return Err(not_allowed_error("mail.smtp_host", "not set", "the name of a mail server"));
        }
        if self.from.is_none() {
            return Err(not_allowed_error("mail.from", "not set", SENDER));
        }
        check_heading(&self.heading(), "mail.from", "mail.subject")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mail_to_another_machine_is_encrypted_by_default() {
        for (configured, host, used) in [
            (MailTls::Auto, "mail.example.org", SmtpTls::Starttls),
            (MailTls::Auto, "10.0.0.1", SmtpTls::Starttls),
            (MailTls::Auto, "localhost.example.org", SmtpTls::Starttls),
            (MailTls::Auto, "localhost", SmtpTls::None),
            (MailTls::Auto, "127.0.0.1", SmtpTls::None),
            (MailTls::Auto, "::1", SmtpTls::None),
            (MailTls::Starttls, "127.0.0.1", SmtpTls::Starttls),
            (MailTls::Implicit, "127.0.0.1", SmtpTls::Implicit),
            (MailTls::None, "mail.example.org", SmtpTls::None),
        ] {
            let mail = MailSection { smtp_tls: configured, ..MailSection::default() };
            assert_eq!(mail.tls_for(host), used, "{configured:?} {host}");
        }
    }
}
