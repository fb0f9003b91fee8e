//! The client of the configured mail service.

use crate::platform::config::{ConfigError, Mail, MailTransport, is_cleartext, is_local, shown_url};
use crate::platform::secret::secret;
use oracled_actors::Clock;
use oracled_actors::upstream::BadEndpoint;
use oracled_actors::upstream::mail::{BadSmtp, HttpMail, MailService, Smtp, SmtpSettings, SmtpTls};
use std::sync::Arc;
use std::time::Duration;

/// The configured mail service, if there is one. No connection is opened yet.
///
/// # Errors
/// If an address, a password or a file cannot be used.
pub(super) fn service(config: &Mail, clock: &Clock) -> Result<Option<Arc<dyn MailService>>, ConfigError> {
    let hard_timeout = Duration::from_millis(config.hard_timeout_ms);
    match config.transport {
        MailTransport::None => Ok(None),
        MailTransport::Http => {
            let service = HttpMail::new(&config.base_url, hard_timeout, clock.clone());
            Ok(Some(Arc::new(service.map_err(bad_url)?)))
        }
        MailTransport::Smtp => {
            let host = config.smtp_host.clone().unwrap_or_default();
            let settings = SmtpSettings {
                tls: config.tls(&host),
                host,
                port: config.smtp_port,
                login: login(config)?,
                from: config.from.clone().unwrap_or_default(),
                subject: config.subject.clone(),
                hard_timeout,
            };
            Ok(Some(Arc::new(Smtp::new(settings).map_err(bad_smtp)?)))
        }
    }
}

/// The error if mail or its password would cross a network in clear text.
pub(super) fn cleartext(config: &Mail) -> Option<ConfigError> {
    let host = config.smtp_host.as_deref().unwrap_or_default();
    let by_smtp = config.tls(host) == SmtpTls::None && !is_local(host);
    let (key, given, what, remedy) = match config.transport {
        MailTransport::Http if is_cleartext(&config.base_url, |_| false) => (
            "mail.base_url",
            shown_url(&config.base_url),
            "customers' addresses and verdicts",
            "use https://",
        ),
        MailTransport::Smtp if by_smtp => {
            let what = match &config.smtp_user {
                Some(_) => "the mail server's password",
                None => "customers' addresses and verdicts",
            };
            ("mail.smtp_tls", "none".to_owned(), what, "use starttls or implicit")
        }
        _ => return None,
    };
    Some(ConfigError::Cleartext { key: key.to_owned(), given, what, remedy })
}

/// User and password, if the server requires them.
fn login(config: &Mail) -> Result<Option<(String, secrecy::SecretString)>, ConfigError> {
    let Some(user) = config.smtp_user.clone() else { return Ok(None) };
    match secret("smtp-password", "mail.password_file", config.password_file.as_deref(), "SMTP_PASSWORD")? {
        Some(password) => Ok(Some((user, password))),
        None => Err(ConfigError::NotUnderstood(
            "`mail.smtp_user` is set without a password; set systemd's credential oracled_smtp-password, \
             `mail.password_file` or the variable SMTP_PASSWORD"
                .into(),
        )),
    }
}

fn bad_url(error: BadEndpoint) -> ConfigError {
    ConfigError::NotUnderstood(format!("`mail.base_url`: {error}"))
}

fn bad_smtp(error: BadSmtp) -> ConfigError {
    ConfigError::NotUnderstood(format!("`mail`: {error}"))
}
