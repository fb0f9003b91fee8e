//! Mail services, which deliver mails to customers.

mod http;
mod letter;
mod smtp;

pub use http::HttpMail;
pub use smtp::{BadSmtp, Smtp, SmtpSettings, SmtpTls};

use super::BoxFuture;
use crate::upstream::oracle_health::Probe;
use oracled_domain::verdict::mail::SendFailure;
use oracled_domain::{Mail, OracleId};

/// A mail service. Its probe checks whether the service is available.
pub trait MailService: Probe {
    /// The name of the service among the oracles.
    fn oracle_id(&self) -> OracleId {
        "mail".parse().expect("`mail` is a valid id")
    }

    /// Submits one mail, within the service's own timeout. The mail's id is sent along. If a mail is sent again because the
    /// first confirmation was lost, the service can recognize the duplicate by this id.
    fn send<'a>(&'a self, mail: &'a Mail) -> BoxFuture<'a, Result<(), SendFailure>>;
}
