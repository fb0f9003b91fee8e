//! The ids of registered documents and of configured endpoints.

use domain_base::session_id::text_conversions;
use domain_base::wording::excerpt;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The maximum length of an id, in characters.
pub const NAME_MAX_CHARS: usize = 64;

/// Why a text is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not an id (2 to {NAME_MAX_CHARS} characters of `a-z 0-9 -` allowed, not beginning with `-`)"
)]
pub struct ParseIdError(String);

/// Whether `text` is an id.
fn is_id(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (2..=NAME_MAX_CHARS).contains(&text.len()) && text.bytes().all(allowed) && !text.starts_with('-')
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
        #[serde(try_from = "String", into = "String")]
        #[schema(pattern = "^[a-z0-9][a-z0-9-]{1,63}$")]
        pub struct $name(String);

        impl TryFrom<String> for $name {
            type Error = ParseIdError;

            fn try_from(text: String) -> Result<Self, ParseIdError> {
                if is_id(&text) { Ok(Self(text)) } else { Err(ParseIdError(excerpt(&text))) }
            }
        }

        text_conversions! { $name }
    )*};
}

ids! {
    /// The stable id of a source (`oracle_id`): never reused, never renamed.
    SourceId
    /// The id of an ontology, the same for all its versions.
    OntologyId
    /// The id of an ingestion pipeline.
    PipelineId
    /// The id of a verification workflow.
    WorkflowId
    /// The id of a prompt template or a mail template, the same for all its versions.
    TemplateId
    /// The id of a word list, the same for all its versions.
    WordlistId
    /// The id of a review rule, the same for all its versions.
    ReviewRuleId
    /// The id of a fact template within its ontology.
    FactTemplateId
    /// The id of a further endpoint of webhooks: its table in `webhooks.endpoints`.
    EndpointId
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_accepts_only_short_lower_case_text() {
        let longest = "x".repeat(NAME_MAX_CHARS);
        for id in ["ab", "usda-sr", "4217", &longest] {
            assert_eq!(id.parse::<SourceId>().map(String::from).as_deref(), Ok(id));
        }
        for text in ["", "a", "-ab", "Ab", "a_b", "a b", "é-é", &format!("{longest}x")] {
            assert!(text.parse::<SourceId>().is_err(), "{text}");
        }
    }
}
