//! Members of JSON objects that may be left out, but not be null.

use serde::{Deserialize, Deserializer};

/// Reads a member that is present, for `#[serde(default, deserialize_with = "given")]`. `Option` alone would
/// accept null.
///
/// # Errors
/// If the value is not a `T`.
pub fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}
