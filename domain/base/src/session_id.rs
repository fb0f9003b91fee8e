//! The ids of sessions, and applications, which are their namespaces.

use serde::{Deserialize, Serialize};

/// The maximum length of a session id, in characters.
pub const SESSION_ID_MAX_CHARS: usize = 255;
/// The character after the application in a session id.
const APPLICATION_END: char = '/';

/// Why a text is not a session id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionIdError {
    /// The id is empty or too long.
    #[error("the session id has {chars} characters (1 to {SESSION_ID_MAX_CHARS} allowed)")]
    Length {
        /// The number of characters.
        chars: usize,
    },
    /// The id contains a character that is not allowed.
    #[error("the session id contains {character:?} (only `A-Z a-z 0-9 _ . : -` allowed)")]
    Character {
        /// The first character that is not allowed.
        character: char,
    },
    /// The id is `.` or `..`, which every client removes from a path.
    #[error("the session id is `{id}`, which is a step in a path (add another character)")]
    PathStep {
        /// The id.
        id: String,
    },
    /// The text before the slash is not the name of an application.
    #[error(transparent)]
    Application(#[from] ApplicationNameError),
}

/// The id of a session: 1 to 255 of `A-Z a-z 0-9 _ . : -`, but not `.` or `..`, with its application and a slash before it
/// (`shop/cs_1`) unless the application is `default`. The routes' socket shows and takes it without the application.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(try_from = "String", into = "String")]
// without look-ahead, which not every reader of patterns has
#[schema(
    pattern = "^([a-z0-9][a-z0-9-]{0,62}/)?([A-Za-z0-9_:-][A-Za-z0-9_.:-]{0,254}|\\.[A-Za-z0-9_:-][A-Za-z0-9_.:-]{0,253}|\\.\\.[A-Za-z0-9_.:-]{1,253})$"
)]
pub struct SessionId(String);

impl SessionId {
    /// The id without its application, as the application itself uses it.
    #[must_use]
    pub fn local(&self) -> &str {
        self.0.split_once(APPLICATION_END).map_or(&self.0, |(_, local)| local)
    }

    /// The same id without its application.
    #[must_use]
    pub fn into_local(self) -> Self {
        Self(self.local().to_owned())
    }

    #[must_use]
    pub fn application(&self) -> ApplicationName {
        let named = self.0.split_once(APPLICATION_END).and_then(|(name, _)| name.parse().ok());
        named.unwrap_or_default()
    }

    /// The session with the same local id in `application`.
    #[must_use]
    pub fn in_application(&self, application: &ApplicationName) -> Self {
        let local = self.local();
        Self(if application.is_default() {
            local.to_owned()
        } else {
            format!("{application}{APPLICATION_END}{local}")
        })
    }
}

impl TryFrom<String> for SessionId {
    type Error = SessionIdError;

    fn try_from(text: String) -> Result<Self, SessionIdError> {
        let (application, local) = match text.split_once(APPLICATION_END) {
            Some((application, local)) => (application.parse()?, local.to_owned()),
            None => (ApplicationName::default(), text),
        };
        let chars = local.chars().count();
        if chars == 0 || chars > SESSION_ID_MAX_CHARS {
            return Err(SessionIdError::Length { chars });
        }
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ':' | '-');
        if let Some(character) = local.chars().find(|c| !allowed(*c)) {
            return Err(SessionIdError::Character { character });
        }
        if is_path_step(&local) {
            return Err(SessionIdError::PathStep { id: local });
        }
        Ok(Self(local).in_application(&application))
    }
}

text_conversions! { SessionId }

/// The maximum length of an application's name, in characters.
const NAME_MAX_CHARS: usize = 63;
/// The application of all callers if none is configured.
const DEFAULT: &str = "default";

/// Why a text is not the name of an application.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` is not the name of an application (1 to {NAME_MAX_CHARS} of `a-z 0-9 -` allowed, the first not `-`)",
    crate::wording::excerpt(.0)
)]
pub struct ApplicationNameError(String);

/// The name of an application: 1 to 63 of `a-z 0-9 -`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(try_from = "String", into = "String")]
#[schema(pattern = "^[a-z0-9][a-z0-9-]{0,62}$")]
pub struct ApplicationName(String);

impl ApplicationName {
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.0 == DEFAULT
    }
}

impl Default for ApplicationName {
    fn default() -> Self {
        Self(DEFAULT.to_owned())
    }
}

impl TryFrom<String> for ApplicationName {
    type Error = ApplicationNameError;

    fn try_from(text: String) -> Result<Self, ApplicationNameError> {
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let is_name =
            (1..=NAME_MAX_CHARS).contains(&text.len()) && text.chars().all(allowed) && !text.starts_with('-');
        if is_name { Ok(Self(text)) } else { Err(ApplicationNameError(text)) }
    }
}

text_conversions! { ApplicationName }

/// Whether a path cannot contain `id`: clients and proxies remove `.` and `..` from a path (RFC 3986, section 5.2.4), also
/// in percent-encoding.
pub fn is_path_step(id: &str) -> bool {
    matches!(id, "." | "..")
}

/// Implements the conversions of an id to and from text. It is a struct of one `String`, whose `TryFrom<String>` checks the
/// form.
#[macro_export]
macro_rules! text_conversions {
    ($id:ident) => {
        impl $id {
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::str::FromStr for $id {
            type Err = <Self as TryFrom<String>>::Error;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.to_owned().try_into()
            }
        }

        impl From<$id> for String {
            fn from(id: $id) -> Self {
                id.0
            }
        }

        impl std::fmt::Display for $id {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(&self.0)
            }
        }
    };
}

pub use text_conversions;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_id_rejects_wrong_length_or_characters() {
        for good in ["a", "cs_test_a1B2", "2026-11-20T10:00:00.5", &"x".repeat(255)] {
            assert!(good.parse::<SessionId>().is_ok(), "{good}");
        }
        for step in [".", "..", "shop/.", "shop/.."] {
            let id = step.trim_start_matches("shop/").to_owned();
            assert_eq!(step.parse::<SessionId>(), Err(SessionIdError::PathStep { id }));
        }
        for dotted in ["...", ".a", "a.", "..a", "a..", "shop/..."] {
            assert!(dotted.parse::<SessionId>().is_ok(), "{dotted}");
        }
        assert_eq!("".parse::<SessionId>(), Err(SessionIdError::Length { chars: 0 }));
        assert_eq!("x".repeat(256).parse::<SessionId>(), Err(SessionIdError::Length { chars: 256 }));
        for bad in [' ', '\0', 'é', '%', '\n', '\u{202e}'] {
            let error = format!("id{bad}").parse::<SessionId>();
            assert_eq!(error, Err(SessionIdError::Character { character: bad }));
        }
    }

    #[test]
    fn session_id_names_its_application_unless_it_is_the_default() {
        let id = |text: &str| text.parse::<SessionId>();
        let shop: ApplicationName = "shop".parse().expect("a valid name");
        let session = id("cs_1").expect("a valid id").in_application(&shop);
        assert_eq!((session.as_str(), session.local(), session.application()), ("shop/cs_1", "cs_1", shop));
        assert_eq!(id("shop/cs_1"), Ok(session.clone()));
        let plain = id("cs_1").expect("a valid id");
        assert_eq!(plain.application(), ApplicationName::default());
        assert_eq!((id("default/cs_1"), session.into_local()), (Ok(plain.clone()), plain));
        for bad in ["/cs_1", "Shop/cs_1", "shop/", "shop/a/b"] {
            assert!(id(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn application_name_rejects_wrong_length_or_characters() {
        for good in ["a", "shop-2", "0", &"x".repeat(63)] {
            assert!(good.parse::<ApplicationName>().is_ok(), "{good}");
        }
        for bad in ["", "-a", "A", "a_b", "a/b", "é", &"x".repeat(64)] {
            assert!(bad.parse::<ApplicationName>().is_err(), "{bad}");
        }
    }
}
