//! The parts of a message that has content from a template.

use lettre::Message;
use lettre::error::Error;
use lettre::message::header::{ContentType, Header, HeaderName, HeaderValue};
use lettre::message::{MessageBuilder, MultiPart, MultiPartKind, SinglePart};
use oracled_domain::Sha256Hex;
use oracled_domain::verdict::mail_template::MailContent;
use std::error::Error as StdError;

/// Completes a message: plain text, or plain text with HTML as its alternative.
pub(super) fn add_content(message: MessageBuilder, content: &MailContent) -> Result<Message, Error> {
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

    fn parse(text: &str) -> Result<Self, Box<dyn StdError + Send + Sync>> {
        Ok(Self(text.to_owned()))
    }

    fn display(&self) -> HeaderValue {
        HeaderValue::new(Self::name(), self.0.clone())
    }
}
