//! The names of prompt templates and mail templates, which are immutable under their version.

use domain_ground::id::{ParseIdError, TemplateId};
use serde::{Deserialize, Serialize};
use std::fmt;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// Why a text is not the name of a template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseTemplateNameError {
    /// The id is invalid.
    #[error(transparent)]
    Id(#[from] ParseIdError),
    /// The version is missing or invalid.
    #[error("`{0}` has no version; write `ID@VERSION` with a version from 1 to {max}", max = u32::MAX)]
    Version(String),
}

/// One version of a template: `ID@VERSION`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TemplateRef {
    pub template_id: TemplateId,
    pub version: u32,
}

/// The name of a template: `ID@VERSION`, or `ID` for the newest version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TemplateName {
    pub template_id: TemplateId,
    /// `None` for the newest version.
    pub version: Option<u32>,
}

impl TemplateName {
    /// Whether this is a name of `reference`, if that is the newest version of its template.
    #[must_use]
    pub fn matches(&self, reference: &TemplateRef) -> bool {
        self.template_id == reference.template_id
            && self.version.is_none_or(|version| version == reference.version)
    }
}

impl From<TemplateRef> for TemplateName {
    fn from(TemplateRef { template_id, version }: TemplateRef) -> Self {
        Self { template_id, version: Some(version) }
    }
}

impl TryFrom<String> for TemplateName {
    type Error = ParseTemplateNameError;

    fn try_from(text: String) -> Result<Self, ParseTemplateNameError> {
        let (template_id, version) = match text.split_once('@') {
            None => (text.as_str(), None),
            Some((template_id, version)) => {
                let digits =
                    Some(version).filter(|version| version.bytes().all(|byte| byte.is_ascii_digit()));
                let number = digits.and_then(|digits| digits.parse().ok()).filter(|number| *number > 0);
                let unknown = || ParseTemplateNameError::Version(domain_base::wording::excerpt(&text));
                (template_id, Some(number.ok_or_else(unknown)?))
            }
        };
        Ok(Self { template_id: template_id.parse::<TemplateId>()?, version })
    }
}

impl TryFrom<String> for TemplateRef {
    type Error = ParseTemplateNameError;

    fn try_from(text: String) -> Result<Self, ParseTemplateNameError> {
        let TemplateName { template_id, version } = text.clone().try_into()?;
        let version = version.ok_or(ParseTemplateNameError::Version(text))?;
        Ok(Self { template_id, version })
    }
}

macro_rules! text_of_name {
    ($($name:ident, $description:literal, $pattern:literal;)*) => {$(
        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                let text = ObjectBuilder::new().schema_type(Type::String).pattern(Some($pattern));
                text.description(Some($description)).into()
            }
        }

        impl ToSchema for $name {}

        impl std::str::FromStr for $name {
            type Err = ParseTemplateNameError;

            fn from_str(text: &str) -> Result<Self, ParseTemplateNameError> {
                text.to_owned().try_into()
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.to_string()
            }
        }
    )*};
}

text_of_name! {
    TemplateName,
        "The name of a template: `ID@VERSION`, or `ID` for the newest version.",
        "^[a-z0-9][a-z0-9-]{1,63}(@[0-9]+)?$";
    TemplateRef,
        "One version of a template: `ID@VERSION`.",
        "^[a-z0-9][a-z0-9-]{1,63}@[0-9]+$";
}

impl fmt::Display for TemplateRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.template_id, self.version)
    }
}

impl fmt::Display for TemplateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.template_id.as_str())?;
        self.version.map_or(Ok(()), |version| write!(f, "@{version}"))
    }
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
