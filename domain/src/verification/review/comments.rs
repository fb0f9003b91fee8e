//! Comments on a review.

use crate::base::blank::is_blank;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The maximum length of a comment, in bytes.
pub const COMMENT_MAX_BYTES: usize = 4096;
/// The maximum number of comments on a review.
pub const COMMENTS_MAX: usize = 50;

/// The request to comment on a review.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CommentRequest {
    /// The comment: 1 to 4,096 bytes.
    #[schema(min_length = 1, max_length = 4096)]
    pub text: String,
}

/// A comment on a review, with its author. It changes nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReviewComment {
    /// The comment.
    pub text: String,
    /// The user id of the author.
    pub author_id: String,
    /// The name of the author at the time of the comment; absent if the system had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author_name: Option<String>,
    /// The time of the comment.
    pub commented_at: Timestamp,
}

/// The text of a comment is blank or too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("`text` is blank or has {bytes} bytes (1 to {COMMENT_MAX_BYTES} bytes allowed)")]
pub struct CommentTextError {
    /// The length of the text without surrounding white space, in bytes.
    pub bytes: usize,
}

impl CommentRequest {
    /// The trimmed text.
    ///
    /// # Errors
    /// If it is blank or too long.
    pub fn checked(&self) -> Result<&str, CommentTextError> {
        let text = self.text.trim();
        let is_allowed = !is_blank(text) && text.len() <= COMMENT_MAX_BYTES;
        is_allowed.then_some(text).ok_or(CommentTextError { bytes: text.len() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comment_has_visible_text_of_limited_length() {
        let checked = |text: &str| CommentRequest { text: text.into() }.checked().map(str::to_owned);
        let longest = "\u{e9}".repeat(COMMENT_MAX_BYTES / 2);
        for (text, expected) in [(" seen ", "seen"), (&*longest, &*longest)] {
            assert_eq!(checked(text).as_deref(), Ok(expected));
        }
        assert_eq!(checked(&format!("{longest}x")), Err(CommentTextError { bytes: COMMENT_MAX_BYTES + 1 }));
        for blank in ["", " \n", "\u{200b}"] {
            assert!(checked(blank).is_err(), "{blank:?}");
        }
    }
}
