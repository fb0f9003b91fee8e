//! Ids that are texts of a certain form.

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
