//! Applications: the namespaces of sessions.

use serde::{Deserialize, Serialize};

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
    fn application_name_rejects_wrong_length_or_characters() {
        for good in ["a", "shop-2", "0", &"x".repeat(63)] {
            assert!(good.parse::<ApplicationName>().is_ok(), "{good}");
        }
        for bad in ["", "-a", "A", "a_b", "a/b", "é", &"x".repeat(64)] {
            assert!(bad.parse::<ApplicationName>().is_err(), "{bad}");
        }
    }
}
