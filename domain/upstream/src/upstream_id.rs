//! The ids of upstream services: models, mail services and live sources. On the wire, an id is `oracle_id`.

use domain_base::session_id::{is_path_step, text_conversions};
use serde::{Deserialize, Serialize};

/// The maximum length of an oracle id, in characters: a source id with `source:` before it.
pub const ORACLE_ID_MAX_CHARS: usize = 80;

/// Why a text is not an oracle id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the oracle id is invalid (1 to {ORACLE_ID_MAX_CHARS} characters of `A-Z a-z 0-9 _ . : -` allowed, but not `.` or `..`)"
)]
pub struct UpstreamIdError;

/// The id of an oracle: 1 to 80 of `A-Z a-z 0-9 _ . : -`, but not `.` or `..`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(try_from = "String", into = "String")]
#[schema(pattern = "^[A-Za-z0-9_.:-]{1,80}$")]
pub struct UpstreamId(String);

impl TryFrom<String> for UpstreamId {
    type Error = UpstreamIdError;

    fn try_from(text: String) -> Result<Self, UpstreamIdError> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte);
        let fits = (1..=ORACLE_ID_MAX_CHARS).contains(&text.len())
            && text.bytes().all(allowed)
            && !is_path_step(&text);
        if fits { Ok(Self(text)) } else { Err(UpstreamIdError) }
    }
}

text_conversions! { UpstreamId }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oracle_id_accepts_only_short_ascii_words() {
        let longest = "x".repeat(ORACLE_ID_MAX_CHARS);
        for id in ["gemini", "mail", "facts:fda-2.v_1", &longest] {
            assert_eq!(id.parse::<UpstreamId>().map(String::from).as_deref(), Ok(id));
        }
        for text in ["", ".", "..", "a b", "a/b", "a\"b", "é", &format!("{longest}x")] {
            assert_eq!(text.parse::<UpstreamId>(), Err(UpstreamIdError), "{text}");
        }
    }
}
