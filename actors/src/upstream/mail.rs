//! Mail services: whoever takes a mail and brings it to a customer, behind one small trait.

mod http;
mod letter;
mod smtp;

pub use http::HttpMail;
pub use smtp::{BadSmtp, Smtp, SmtpSettings, SmtpTls};

use super::BoxFuture;
use crate::upstream::oracle_health::Probe;
use oracled_domain::verdict::mail::SendFailure;
use oracled_domain::{Mail, OracleId};

/// A mail service. Its probe finds out whether it is there.
pub trait MailService: Probe {
    /// Its name among the oracles.
    fn oracle_id(&self) -> OracleId {
        "mail".parse().expect("it is a short plain word")
    }

    /// Hands one mail over, within a time of its own. The mail's id goes with it, so that a mail that comes twice,
    /// because nobody heard that it was taken, can be told from two mails.
    fn send<'a>(&'a self, mail: &'a Mail) -> BoxFuture<'a, Result<(), SendFailure>>;
}
