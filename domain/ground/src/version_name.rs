//! The names of documents whose versions are numbers. Each document is immutable under its version.

use super::id::{ParseIdError, ReviewRuleId, TemplateId, WordlistId};
use domain_base::wording::excerpt;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt::{self, Debug, Display};
use std::str::FromStr;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// The id of a document whose versions are numbers.
pub trait VersionedId: Debug + Clone + Display + FromStr<Err = ParseIdError> {
    /// The name and the description of the schema of `VersionRef`.
    const REF_SCHEMA: [&'static str; 2];
    /// The name and the description of the schema of `VersionName`.
    const NAME_SCHEMA: [&'static str; 2];
}

impl VersionedId for TemplateId {
    const REF_SCHEMA: [&'static str; 2] = ["TemplateRef", "One version of a template: `ID@VERSION`."];
    const NAME_SCHEMA: [&'static str; 2] =
        ["TemplateName", "The name of a template: `ID@VERSION`, or `ID` for the newest version."];
}

impl VersionedId for WordlistId {
    const REF_SCHEMA: [&'static str; 2] = ["WordlistRef", "One version of a word list: `ID@VERSION`."];
    const NAME_SCHEMA: [&'static str; 2] =
        ["WordlistName", "The name of a word list: `ID@VERSION`, or `ID` for the newest version."];
}

impl VersionedId for ReviewRuleId {
    const REF_SCHEMA: [&'static str; 2] = ["ReviewRuleRef", "One version of a review rule: `ID@VERSION`."];
    const NAME_SCHEMA: [&'static str; 2] =
        ["ReviewRuleName", "The name of a review rule: `ID@VERSION`, or `ID` for the newest version."];
}

/// One version of a template: `ID@VERSION`.
pub type TemplateRef = VersionRef<TemplateId>;
/// The name of a template: `ID@VERSION`, or `ID` for the newest version.
pub type TemplateName = VersionName<TemplateId>;
/// One version of a word list: `ID@VERSION`.
pub type WordlistRef = VersionRef<WordlistId>;
/// The name of a word list: `ID@VERSION`, or `ID` for the newest version.
pub type WordlistName = VersionName<WordlistId>;

/// One version of a review rule: `ID@VERSION`.
pub type ReviewRuleRef = VersionRef<ReviewRuleId>;
/// The name of a review rule: `ID@VERSION`, or `ID` for the newest version.
pub type ReviewRuleName = VersionName<ReviewRuleId>;

/// Why a text is not the name of a version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseVersionNameError {
    /// The id is invalid.
    #[error(transparent)]
    Id(#[from] ParseIdError),
    /// The version is missing or invalid.
    #[error("`{0}` has no valid version; write `ID@VERSION` with a version from 1 to {max}", max = u32::MAX)]
    Version(String),
}

/// One version of a document: `ID@VERSION`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String", bound = "I: VersionedId")]
pub struct VersionRef<I> {
    pub id: I,
    pub version: u32,
}

/// The name of a document: `ID@VERSION`, or `ID` for the newest version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String", bound = "I: VersionedId")]
pub struct VersionName<I> {
    pub id: I,
    /// `None` for the newest version.
    pub version: Option<u32>,
}

impl<I: PartialEq> VersionName<I> {
    /// Whether this is a name of `reference`, if that is the newest version.
    #[must_use]
    pub fn matches(&self, reference: &VersionRef<I>) -> bool {
        self.id == reference.id && self.version.is_none_or(|version| version == reference.version)
    }
}

impl<I> From<VersionRef<I>> for VersionName<I> {
    fn from(VersionRef { id, version }: VersionRef<I>) -> Self {
        Self { id, version: Some(version) }
    }
}

impl<I: VersionedId> FromStr for VersionName<I> {
    type Err = ParseVersionNameError;

    fn from_str(text: &str) -> Result<Self, ParseVersionNameError> {
        let (id, version) = match text.split_once('@') {
            None => (text, None),
            Some((id, version)) => {
                let digits =
                    Some(version).filter(|version| version.bytes().all(|byte| byte.is_ascii_digit()));
                let number = digits.and_then(|digits| digits.parse().ok()).filter(|number| *number > 0);
                let unknown = || ParseVersionNameError::Version(excerpt(text));
                (id, Some(number.ok_or_else(unknown)?))
            }
        };
        Ok(Self { id: id.parse()?, version })
    }
}

impl<I: VersionedId> FromStr for VersionRef<I> {
    type Err = ParseVersionNameError;

    fn from_str(text: &str) -> Result<Self, ParseVersionNameError> {
        let VersionName { id, version } = text.parse()?;
        let version = version.ok_or_else(|| ParseVersionNameError::Version(excerpt(text)))?;
        Ok(Self { id, version })
    }
}

impl<I: Display> Display for VersionRef<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.id, self.version)
    }
}

impl<I: Display> Display for VersionName<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.id)?;
        self.version.map_or(Ok(()), |version| write!(f, "@{version}"))
    }
}

macro_rules! text_of_name {
    ($($name:ident, $schema:ident, $pattern:literal;)*) => {$(
        impl<I: VersionedId> TryFrom<String> for $name<I> {
            type Error = ParseVersionNameError;

            fn try_from(text: String) -> Result<Self, ParseVersionNameError> {
                text.parse()
            }
        }

        impl<I: VersionedId> From<$name<I>> for String {
            fn from(name: $name<I>) -> Self {
                name.to_string()
            }
        }

        impl<I: VersionedId> PartialSchema for $name<I> {
            fn schema() -> RefOr<Schema> {
                let text = ObjectBuilder::new().schema_type(Type::String).pattern(Some($pattern));
                text.description(Some(I::$schema[1])).into()
            }
        }

        impl<I: VersionedId> ToSchema for $name<I> {
            fn name() -> Cow<'static, str> {
                I::$schema[0].into()
            }
        }
    )*};
}

text_of_name! {
    VersionName, NAME_SCHEMA, "^[a-z0-9][a-z0-9-]{1,63}(@[1-9][0-9]*)?$";
    VersionRef, REF_SCHEMA, "^[a-z0-9][a-z0-9-]{1,63}@[1-9][0-9]*$";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_an_id_with_or_without_a_version() {
        let name = |text: &str| text.parse::<TemplateName>();
        for text in ["house", "house@1", "house@4294967295"] {
            assert_eq!(name(text).map(|name| name.to_string()).as_deref(), Ok(text));
        }
        for text in ["", "House", "house@", "house@0", "house@-1", "house@+1", "house@1.0", "house@1@2", "@1"]
        {
            assert!(name(text).is_err(), "{text}");
        }
        assert!("house".parse::<TemplateRef>().is_err());
        let reference: TemplateRef = "house@2".parse().expect("a reference");
        for (text, matches) in [("house", true), ("house@2", true), ("house@1", false), ("other", false)] {
            assert_eq!(name(text).expect("a name").matches(&reference), matches, "{text}");
        }
    }
}
