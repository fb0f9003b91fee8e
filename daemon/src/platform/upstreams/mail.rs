//! The client of the configured mail service.

use crate::platform::config::{
    ApplicationSections, ConfigError, MailSection, MailTransport, is_cleartext, is_local, redact_url,
};
use crate::platform::secret::{SecretDigests, read_secret};
use oracled_actors::Clock;
use oracled_actors::upstream::UpstreamEndpointError;
use oracled_actors::upstream::mail::{
    HttpMailService, MailService, SmtpMailService, SmtpSettings, SmtpSettingsError, SmtpTls,
};
use std::sync::Arc;
use std::time::Duration;

/// The configured mail service, if there is one. No connection is opened yet.
///
/// # Errors
/// If an address, a password or a file cannot be used.
pub(super) fn create_mail_service(
    config: &MailSection,
    applications: &ApplicationSections,
    clock: &Clock,
    digests: &mut SecretDigests,
) -> Result<Option<Arc<dyn MailService>>, ConfigError> {
    let hard_timeout = Duration::from_millis(config.hard_timeout_ms);
    match config.transport {
        MailTransport::None => Ok(None),
        MailTransport::Http => {
            let service = HttpMailService::new(&config.base_url, hard_timeout, clock.clone());
            Ok(Some(Arc::new(service.map_err(url_error)?)))
        }
        MailTransport::Smtp => {
            let host = config.smtp_host.clone().unwrap_or_default();
            let heading = config.heading();
            let settings = SmtpSettings {
                tls: config.tls_for(&host),
                host,
                port: config.smtp_port,
                login: read_login(config, digests)?,
                headings: applications
                    .iter()
                    .map(|(name, section)| (name.clone(), section.mail_heading(&heading)))
                    .collect(),
                heading,
                hard_timeout,
            };
            Ok(Some(Arc::new(SmtpMailService::new(settings).map_err(smtp_error)?)))
        }
    }
}

/// The error if mail or its password would cross a network in clear text.
pub(super) fn cleartext_fault(config: &MailSection) -> Option<ConfigError> {
    let host = config.smtp_host.as_deref().unwrap_or_default();
    let by_smtp = config.tls_for(host) == SmtpTls::None && !is_local(host);
    let (key, given, what, remedy) = match config.transport {
        MailTransport::Http if is_cleartext(&config.base_url, |_| false) => (
            "mail.base_url",
            redact_url(&config.base_url),
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
fn read_login(
    config: &MailSection,
    digests: &mut SecretDigests,
) -> Result<Option<(String, secrecy::SecretString)>, ConfigError> {
    let Some(user) = config.smtp_user.clone() else { return Ok(None) };
    match read_secret(
        "smtp-password",
        "mail.password_file",
        config.password_file.as_deref(),
        "SMTP_PASSWORD",
    )? {
        Some(password) => {
            digests.record("mail.password_file", &password);
            Ok(Some((user, password)))
        }
        None => Err(ConfigError::NotUnderstood(
            "`mail.smtp_user` is set without a password; set systemd's credential oracled_smtp-password, \
             `mail.password_file` or the variable SMTP_PASSWORD"
                .into(),
        )),
    }
}

fn url_error(error: UpstreamEndpointError) -> ConfigError {
    ConfigError::NotUnderstood(format!("`mail.base_url`: {error}"))
}

fn smtp_error(error: SmtpSettingsError) -> ConfigError {
    ConfigError::NotUnderstood(format!("`mail`: {error}"))
}
