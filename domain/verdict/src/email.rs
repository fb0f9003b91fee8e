//! A customer's e-mail address: one that a mail server can accept.

use domain_base::text_form::without_invisible;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The maximum length of an address, in bytes (RFC 5321, section 4.5.3.1.3: 256 for a path, with its two brackets).
const ADDRESS_MAX_BYTES: usize = 254;
/// The maximum length of the local part, the part before the @, with its quotation marks, in bytes (section 4.5.3.1.1).
const LOCAL_MAX_BYTES: usize = 64;
/// The maximum length of a part of the domain, in bytes (RFC 1035, section 2.3.4).
const LABEL_MAX_BYTES: usize = 63;
/// The characters of a local part besides letters, digits and dots (RFC 5322, `atext`).
const LOCAL_MARKS: &str = "!#$%&'*+-/=?^_`{|}~";

/// Why a text is not an e-mail address. The messages quote no address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParseEmailError {
    /// There is not exactly one `@` with text on both sides.
    #[error(
        "the e-mail address does not have the form `name@domain` (exactly one `@`, with text on both sides)"
    )]
    Form,
    /// The local part contains a character that is not allowed.
    #[error(
        "the e-mail address has {0:?} before the `@` (allowed: letters, digits, dots and {LOCAL_MARKS}; no quotation marks, \
         comments or spaces)"
    )]
    Character(char),
    /// The local part is too long.
    #[error(
        "the e-mail address has {bytes} bytes before the `@`, quoted if its dots require that (at most {LOCAL_MAX_BYTES} allowed)"
    )]
    LocalLength { bytes: usize },
    /// The local part would have to be quoted, and has characters beyond ASCII.
    #[error(
        "the e-mail address has a dot at an end of the part before the `@`, or two dots in a row, which is allowed only if \
         this part is ASCII"
    )]
    Dots,
    /// The domain is not a host name.
    #[error(
        "the domain of the e-mail address is invalid (allowed: parts of 1 to {LABEL_MAX_BYTES} bytes, separated by single \
         dots; letters, digits and `-`, which is not at an end of a part)"
    )]
    Domain,
    /// The address is too long.
    #[error("the e-mail address has {bytes} bytes (at most {ADDRESS_MAX_BYTES} allowed)")]
    Length { bytes: usize },
}

/// A customer's e-mail address that a mail server can accept. Whether the mailbox exists is not known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(try_from = "String", into = "String")]
#[schema(pattern = "^[^@]+@[^@]+$", example = "customer@example.org")]
pub struct CustomerEmail(String);

impl TryFrom<String> for CustomerEmail {
    type Error = ParseEmailError;

    fn try_from(text: String) -> Result<Self, ParseEmailError> {
        let (local, domain) = text.rsplit_once('@').ok_or(ParseEmailError::Form)?;
        if local.is_empty() || domain.is_empty() || local.contains('@') {
            return Err(ParseEmailError::Form);
        }
        let allowed = |c: char| c.is_alphanumeric() || c == '.' || LOCAL_MARKS.contains(c);
        if let Some(character) = local.chars().find(|c| !allowed(*c) || is_invisible(*c)) {
            return Err(ParseEmailError::Character(character));
        }
        if !is_dot_atom(local) && !local.is_ascii() {
            return Err(ParseEmailError::Dots);
        }
        if !domain.split('.').all(is_label) {
            return Err(ParseEmailError::Domain);
        }
        let email = Self(text);
        let mailbox = email.mailbox();
        let (bytes, local_bytes) = (mailbox.len(), mailbox.rfind('@').unwrap_or_default());
        if local_bytes > LOCAL_MAX_BYTES {
            return Err(ParseEmailError::LocalLength { bytes: local_bytes });
        }
        if bytes > ADDRESS_MAX_BYTES {
            return Err(ParseEmailError::Length { bytes });
        }
        Ok(email)
    }
}

impl CustomerEmail {
    /// The address, as the caller wrote it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The address as mail protocols write it: the local part is quoted if its dots require that, as in
    /// `"a..b"@example.org` (RFC 5321, section 4.1.2). Some carriers have assigned such addresses.
    #[must_use]
    pub fn mailbox(&self) -> Cow<'_, str> {
        match self.0.rsplit_once('@') {
            // the local part has no character that must be escaped within quotation marks
            Some((local, domain)) if !is_dot_atom(local) => Cow::Owned(format!("\"{local}\"@{domain}")),
            _ => Cow::Borrowed(&self.0),
        }
    }
}

impl From<CustomerEmail> for String {
    fn from(email: CustomerEmail) -> Self {
        email.0
    }
}

/// Whether `local` has no dot at an end and no two dots in a row (RFC 5321, `Dot-string`).
fn is_dot_atom(local: &str) -> bool {
    local.split('.').all(|atom| !atom.is_empty())
}

/// Whether `label` is a part of a host name (RFC 5321, `sub-domain`; RFC 6531 adds letters beyond ASCII).
fn is_label(label: &str) -> bool {
    (1..=LABEL_MAX_BYTES).contains(&label.len())
        && label.chars().all(|c| (c.is_alphanumeric() || c == '-') && !is_invisible(c))
        && !label.starts_with('-')
        && !label.ends_with('-')
}

/// Unicode classifies some invisible fillers as letters.
fn is_invisible(character: char) -> bool {
    without_invisible(character.encode_utf8(&mut [0; 4])).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<CustomerEmail, ParseEmailError> {
        text.to_owned().try_into()
    }

    #[test]
    fn email_accepts_addresses_that_need_no_quotation_marks() {
        for good in [
            "a@b",
            "first.last+tag@example.org",
            "o'neill/x=y@sub.example.co",
            "用户@例子.广告",
            "a@xn--mnchen-3ya.example",
            "-@1-2.example",
            &format!("{}@b", "a".repeat(64)),
            &format!("a@{}.{}", "b".repeat(63), "c".repeat(63)),
        ] {
            assert_eq!(parse(good).expect("an address").mailbox(), good);
        }
    }

    #[test]
    fn mail_double_dot_is_quoted_in_the_mailbox() {
        for (text, mailbox) in [
            ("aaa..bbb@carrier.example", "\"aaa..bbb\"@carrier.example"),
            (".aaa@carrier.example", "\".aaa\"@carrier.example"),
            ("aaa.@carrier.example", "\"aaa.\"@carrier.example"),
            (".@carrier.example", "\".\"@carrier.example"),
        ] {
            let email = parse(text).expect("an address");
            assert_eq!((email.as_str(), &*email.mailbox()), (text, mailbox));
        }
        assert!(parse(&format!("a..{}@b", "a".repeat(59))).is_ok());
        let quoted_is_too_long = ParseEmailError::LocalLength { bytes: 65 };
        assert_eq!(parse(&format!("a..{}@b", "a".repeat(60))), Err(quoted_is_too_long));
    }

    #[test]
    fn mail_double_dot_rejects_addresses_that_no_server_accepts() {
        let long_domain = ["b".repeat(63), "b".repeat(63), "b".repeat(63), "b".repeat(61)].join(".");
        for (text, error) in [
            ("", ParseEmailError::Form),
            ("a", ParseEmailError::Form),
            ("@b", ParseEmailError::Form),
            ("a@", ParseEmailError::Form),
            ("a@b@c", ParseEmailError::Form),
            ("a b@c", ParseEmailError::Character(' ')),
            ("a;b@c", ParseEmailError::Character(';')),
            ("<a@b>", ParseEmailError::Character('<')),
            ("\"a\"@b", ParseEmailError::Character('"')),
            ("a\\b@c", ParseEmailError::Character('\\')),
            ("a\r\n@b", ParseEmailError::Character('\r')),
            ("a\u{202e}@b", ParseEmailError::Character('\u{202e}')),
            ("a\u{3164}@b", ParseEmailError::Character('\u{3164}')),
            ("a\u{2800}@b", ParseEmailError::Character('\u{2800}')),
            ("é..b@example.org", ParseEmailError::Dots),
            (&format!("{}@b", "a".repeat(65)), ParseEmailError::LocalLength { bytes: 65 }),
            (&format!("{}@b", "é".repeat(33)), ParseEmailError::LocalLength { bytes: 66 }),
            (&format!("a@{long_domain}"), ParseEmailError::Length { bytes: 255 }),
        ] {
            assert_eq!(parse(text), Err(error), "{text:?}");
        }
        for domain in [
            "example..org",
            ".example.org",
            "example.org.",
            "-example.org",
            "example-.org",
            "exam_ple.org",
            "example.org\r\nBcc: x",
            "b,c",
            "b!c",
            "[127.0.0.1]",
            "b\u{3164}",
            &format!("{}.org", "b".repeat(64)),
        ] {
            assert_eq!(parse(&format!("a@{domain}")), Err(ParseEmailError::Domain), "{domain:?}");
        }
    }
}
