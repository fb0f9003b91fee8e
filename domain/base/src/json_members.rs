//! Members of objects: no name twice, objects only, and null apart from absence.

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::collections::HashSet;
use std::fmt;

/// A document in which no object has a repeated name. serde alone keeps the last of two members with the same name.
#[derive(Debug)]
pub struct DuplicateKeyCheck;

impl<'de> Deserialize<'de> for DuplicateKeyCheck {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        json.deserialize_any(DuplicateKeyVisitor)
    }
}

struct DuplicateKeyVisitor;

impl<'de> Visitor<'de> for DuplicateKeyVisitor {
    type Value = DuplicateKeyCheck;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<DuplicateKeyCheck, E> {
        Ok(DuplicateKeyCheck)
    }

    fn visit_i64<E>(self, _: i64) -> Result<DuplicateKeyCheck, E> {
        Ok(DuplicateKeyCheck)
    }

    fn visit_u64<E>(self, _: u64) -> Result<DuplicateKeyCheck, E> {
        Ok(DuplicateKeyCheck)
    }

    fn visit_f64<E>(self, _: f64) -> Result<DuplicateKeyCheck, E> {
        Ok(DuplicateKeyCheck)
    }

    fn visit_str<E>(self, _: &str) -> Result<DuplicateKeyCheck, E> {
        Ok(DuplicateKeyCheck)
    }

    fn visit_unit<E>(self) -> Result<DuplicateKeyCheck, E> {
        Ok(DuplicateKeyCheck)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<DuplicateKeyCheck, A::Error> {
        while let Some(DuplicateKeyCheck) = list.next_element()? {}
        Ok(DuplicateKeyCheck)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<DuplicateKeyCheck, A::Error> {
        let mut names = HashSet::new();
        while let Some(name) = members.next_key::<String>()? {
            if names.contains(&name) {
                return Err(A::Error::custom(format_args!("the name `{name}` occurs twice in one object")));
            }
            let DuplicateKeyCheck = members.next_value()?;
            names.insert(name);
        }
        Ok(DuplicateKeyCheck)
    }
}

/// The ends of such names, without separators and in lower case.
const ENDS: [&str; 13] = [
    "key",
    "token",
    "secret",
    "password",
    "passwd",
    "pwd",
    "signature",
    "sig",
    "auth",
    "credential",
    "credentials",
    "appid",
    "jwt",
];

/// Whether a query parameter of this name probably contains a secret.
#[must_use]
pub fn is_key_name(name: &str) -> bool {
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    ENDS.iter().any(|end| name.to_ascii_lowercase().ends_with(end))
}

/// Reads a member that is present, for `#[serde(default, deserialize_with = "given")]`. `Option` alone would
/// accept null.
///
/// # Errors
/// If the value is not a `T`.
pub fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}
/// An object or null. serde alone would also accept an array with the members in their order.
///
/// # Errors
/// The value is neither, or a member is wrong.
pub fn object<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let Some(text) = Option::<Box<RawValue>>::deserialize(deserializer)? else { return Ok(None) };
    if !text.get().starts_with('{') {
        return Err(D::Error::custom("the value is not an object"));
    }
    let unplaced = |error: serde_json::Error| {
        let message = error.to_string();
        D::Error::custom(message.split(" at line ").next().unwrap_or_default())
    };
    serde_json::from_str(text.get()).map(Some).map_err(unplaced)
}
