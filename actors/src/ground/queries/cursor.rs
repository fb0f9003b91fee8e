//! The position between two pages of an answer. It is opaque to callers, and valid only for its query.

use jiff::Timestamp;
use oracled_domain::Sha256Hex;
use oracled_domain::ground::query::{InvalidQueryError, OracleQuery, QueryRequest};
use serde::{Deserialize, Serialize};

/// The longest cursor, in bytes.
const CURSOR_MAX_BYTES: usize = 128 * 1024;
/// Hexadecimal digits of a query's digest in a cursor, to distinguish queries.
const DIGEST_DIGITS: usize = 16;

/// The position after a page, with the times of the query: data ingested between two pages is in neither.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct QueryCursor {
    /// The key of the last record that was read.
    pub(super) key: Vec<u8>,
    pub(super) point_in_time: Timestamp,
    pub(super) known_at: Option<Timestamp>,
    /// The beginning of the query's digest.
    pub(super) query: String,
}

impl QueryCursor {
    /// A digest of the query without its cursor, page size and id.
    pub(super) fn digest(query: &OracleQuery) -> String {
        let request = QueryRequest {
            cursor: None,
            max_results: None,
            explain: false,
            include_provenance: false,
            ..query.request.clone()
        };
        let json = serde_json::to_vec(&(&query.oracle_id, &request)).expect("a query is plain data");
        Sha256Hex::of(&json).as_str().get(..DIGEST_DIGITS).unwrap_or_default().to_owned()
    }

    /// The cursor as text: the hexadecimal digits of its JSON.
    pub(super) fn to_text(&self) -> String {
        let json = serde_json::to_vec(self).expect("a cursor is plain data");
        json.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Parses `text`, which must be a cursor of `query`.
    pub(super) fn read(text: &str, query: &OracleQuery) -> Result<Self, InvalidQueryError> {
        let read = || {
            if text.len() > CURSOR_MAX_BYTES || !text.len().is_multiple_of(2) {
                return None;
            }
            let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
            let (pairs, _) = text.as_bytes().as_chunks::<2>();
            let json: Option<Vec<u8>> =
                pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect();
            let cursor: Self = serde_json::from_slice(&json?).ok()?;
            Some(cursor).filter(|cursor| cursor.query == Self::digest(query))
        };
        read().ok_or(InvalidQueryError::Cursor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test_query(max_results: usize, axis: &str) -> OracleQuery {
        OracleQuery {
            query_id: None,
            oracle_id: "source".parse().expect("a valid id"),
            request: QueryRequest {
                axes_requested: vec![axis.into()],
                max_results: Some(max_results),
                ..QueryRequest::default()
            },
        }
    }

    #[test]
    fn cursor_is_accepted_only_for_its_own_query() {
        let cursor = QueryCursor {
            key: vec![0, 255, 7],
            point_in_time: Timestamp::UNIX_EPOCH,
            known_at: None,
            query: QueryCursor::digest(&test_query(1, "a")),
        };
        let text = cursor.to_text();
        assert_eq!(QueryCursor::read(&text, &test_query(2, "a")), Ok(cursor));
        assert_eq!(QueryCursor::read(&text, &test_query(1, "b")), Err(InvalidQueryError::Cursor));
        for broken in ["", "0", "zz", "éé", &text[2..], &text.repeat(2), &"00".repeat(CURSOR_MAX_BYTES)] {
            assert_eq!(QueryCursor::read(broken, &test_query(1, "a")), Err(InvalidQueryError::Cursor));
        }
    }
}
