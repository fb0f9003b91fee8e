//! Mail services, which deliver mails to customers.

mod files;
mod http;
mod smtp;

pub use files::FileMailService;
pub use http::HttpMailService;
pub use smtp::{MailHeading, SmtpMailService, SmtpSettings, SmtpSettingsError, SmtpTls};

use super::BoxFuture;
use crate::oracle_health::OracleProbe;
use domain_upstream::upstream_id::UpstreamId;
use domain_verdict::mail::{MailSendFailure, OutboxMail};
use domain_verdict::mail_template::MailContent;

/// The name of the mail service among the oracles.
pub const MAIL_ORACLE: &str = "mail";

/// A mail service. Its probe checks whether the service is available.
pub trait MailService: OracleProbe {
    /// The name of the service among the oracles.
    fn oracle_id(&self) -> UpstreamId {
        MAIL_ORACLE.parse().expect("`mail` is a valid id")
    }

    /// Submits one mail with `content`, or else with the built-in text, within the service's own timeout. The mail's id is sent along. If a mail is sent
    /// again because the first confirmation was lost, the service can recognize the duplicate by this id.
    fn send<'a>(
        &'a self,
        mail: &'a OutboxMail,
        content: Option<&'a MailContent>,
    ) -> BoxFuture<'a, Result<(), MailSendFailure>>;
}
