//! The leaf of an entry in the Merkle tree of the log.
//!
//! A leaf is the entry's line without its salt, and with a salted hash in place of each value that can be erased. So the leaf
//! is the same before and after an erasure, which puts the hashes into the line and removes the salt.

use crate::base::digest::Sha256Hex;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::fmt;

/// The member that has the salt: 32 hexadecimal digits. It follows `seq`.
pub const SALT: &str = "salt";
/// The start of a hash in place of a value.
const HASH_PREFIX: &str = "sha256:";

/// Random bytes, from which the salts of the entries of a record are derived.
pub type RecordSalt = [u8; 16];

/// The members of entries of `event` that have personal data or texts about a person.
#[must_use]
pub fn erasable_members(event: &str) -> &'static [&'static str] {
    match event {
        "tmm_crosscheck" | "session_registered" | "order_placed" => &["query_preview"],
        "session_address_changed" => &["before", "after"],
        "order_attempt_failed" | "mail_failed" | "webhook_failed" => &["cause"],
        "order_stopped" | "order_retried" | "order_released" | "review_dismissed" => &["reason"],
        "rules_evaluated" => &["case_id"],
        "verification_decided" => &["envelope", "inputs"],
        "review_opened" => &["review"],
        "review_resolved" => &["resolution", "locks"],
        "review_revoked" => &["reason", "locks"],
        _ => &[],
    }
}

/// Why a line is not an entry of the log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the line is not an entry of the log: {0}")]
pub struct LogLineError(String);

/// The members of a JSON object, in their order and with their text.
struct RawMembers<'l>(Vec<(Cow<'l, str>, &'l RawValue)>);

impl<'de: 'l, 'l> Deserialize<'de> for RawMembers<'l> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = RawMembers<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members: Vec<(Cow<'de, str>, &'de RawValue)> = Vec::new();
                while let Some((name, value)) = map.next_entry()? {
                    if members.iter().any(|(before, _)| *before == name) {
                        return Err(A::Error::custom(format_args!("the member `{name}` is repeated")));
                    }
                    members.push((name, value));
                }
                Ok(RawMembers(members))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

/// The leaf of the entry with this line, which has no line end.
///
/// # Errors
/// If the line has a salt and is not an entry.
pub fn leaf_of(line: &str) -> Result<Cow<'_, str>, LogLineError> {
    if !is_salted(line) {
        return Ok(Cow::Borrowed(line));
    }
    let RawMembers(members) = serde_json::from_str(line).map_err(|error| LogLineError(error.to_string()))?;
    let text = |name: &str| {
        let value = members.iter().find(|(member, _)| member == name).map(|(_, value)| value.get());
        let text = value.and_then(|value| serde_json::from_str::<String>(value).ok());
        text.ok_or_else(|| LogLineError(format!("`{name}` is missing or not a text")))
    };
    let (salt, event) = (text(SALT)?, text("event")?);
    let erasable = erasable_members(&event);
    // the leaf has no salt, so that any other salt or spelling would be unnoticed
    let raw_salt = members.iter().find(|(member, _)| member == SALT).map(|(_, value)| value.get());
    if !is_salt(&salt) || raw_salt != Some(format!("\"{salt}\"").as_str()) {
        return Err(LogLineError("`salt` is not 32 hexadecimal digits".to_owned()));
    }
    if !members.iter().any(|(name, _)| erasable.contains(&name.as_ref())) {
        return Err(LogLineError("it has a salt, and no value that can be erased".to_owned()));
    }
    let plain = |(name, value): &(Cow<'_, str>, &RawValue)| (name.to_string(), value.get().to_owned());
    if join_members(members.iter().map(plain)) != line {
        return Err(LogLineError("it has spaces between its members".to_owned()));
    }
    let in_leaf = |(name, value): &(Cow<'_, str>, &RawValue)| {
        if erasable.contains(&name.as_ref()) {
            (name.to_string(), format!("\"{}\"", commitment(&salt, name, value.get())))
        } else {
            plain(&(name.clone(), value))
        }
    };
    Ok(Cow::Owned(join_members(members.iter().filter(|(name, _)| name != SALT).map(in_leaf))))
}

fn is_salt(text: &str) -> bool {
    text.len() == 2 * size_of::<RecordSalt>()
        && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether an event with this name and this JSON has a value that can be erased; its entry then has a salt.
#[must_use]
pub fn has_erasable_value(event: &str, json: &str) -> bool {
    let erasable = erasable_members(event);
    !erasable.is_empty()
        && serde_json::from_str(json).is_ok_and(|RawMembers(members)| {
            members.iter().any(|(name, _)| erasable.contains(&name.as_ref()))
        })
}

/// The text of an object with these members, without spaces between them.
fn join_members(members: impl Iterator<Item = (String, String)>) -> String {
    let members: Vec<_> =
        members.map(|(name, value)| format!("{}:{value}", serde_json::Value::from(name))).collect();
    format!("{{{}}}", members.join(","))
}

/// The salt of an entry in a record with the salt `record_salt`: the entry with this index among those of the record.
#[must_use]
pub fn salt_of_entry(record_salt: &RecordSalt, index: usize) -> String {
    let hash = Sha256::new_with_prefix(record_salt).chain_update((index as u64).to_be_bytes()).finalize();
    let mut digits = Sha256Hex::from_bytes(&hash.into()).as_str().to_owned();
    digits.truncate(2 * size_of::<RecordSalt>());
    digits
}

/// Whether the line has a salt, which follows `seq`.
fn is_salted(line: &str) -> bool {
    let rest = line.strip_prefix("{\"seq\":").and_then(|rest| rest.split_once(','));
    rest.is_some_and(|(_, rest)| rest.starts_with("\"salt\":"))
}

/// The hash in place of the value of a member: SHA-256 of the member's own salt and the value's JSON. The member's salt is
/// the SHA-256 of the entry's salt and the name, so that one value can be shown without the others.
fn commitment(salt: &str, name: &str, value: &str) -> String {
    let own_salt = Sha256::new_with_prefix(salt).chain_update(name).finalize();
    let hash = Sha256::new_with_prefix(own_salt).chain_update(value).finalize();
    format!("{HASH_PREFIX}{}", Sha256Hex::from_bytes(&hash.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"seq":7,"salt":"000102030405060708090a0b0c0d0e0f","event":"order_placed","tier":"quick","query_preview":"Sell \"honey\"?","has_email":false,"session_id":"cs_1","timestamp":"2026-11-20T10:00:00Z"}"#;

    #[test]
    fn leaf_has_a_salted_hash_in_place_of_each_erasable_value() {
        let leaf = leaf_of(LINE).expect("an entry");
        let own_salt = Sha256::digest("000102030405060708090a0b0c0d0e0fquery_preview");
        let hash = Sha256::digest([&own_salt[..], br#""Sell \"honey\"?""#].concat());
        let expected = LINE
            .replace(r#""salt":"000102030405060708090a0b0c0d0e0f","#, "")
            .replace(r#""Sell \"honey\"?""#, &format!("\"sha256:{}\"", Sha256Hex::from_bytes(&hash.into())));
        assert_eq!(leaf, expected);
        assert_eq!(leaf_of(&leaf).expect("an entry"), leaf, "an erased line is its own leaf");
    }

    #[test]
    fn leaf_depends_on_salt_value_and_every_other_member() {
        let leaf = leaf_of(LINE).expect("an entry");
        for (from, to) in
            [("0f\"", "0e\""), ("honey", "money"), ("quick", "full"), ("cs_1", "cs_2"), ("7", "8")]
        {
            assert_ne!(leaf_of(&LINE.replacen(from, to, 1)).expect("an entry"), leaf, "{from}");
        }
    }

    #[test]
    fn line_without_a_salt_is_its_own_leaf() {
        let line = r#"{"seq":1,"event":"service_stopped","timestamp":"2026-11-20T10:00:00Z"}"#;
        assert!(matches!(leaf_of(line), Ok(Cow::Borrowed(leaf)) if leaf == line));
    }

    #[test]
    fn damaged_line_with_a_salt_is_an_error() {
        let repeated = LINE.replace("\"tier\":\"quick\"", "\"event\":\"service_stopped\"");
        let number = LINE.replace("\"000102030405060708090a0b0c0d0e0f\"", "5");
        for damaged in [
            &LINE[..LINE.len() - 1],
            &repeated,
            &number,
            &LINE.replace("event", "evens"),
            &format!("{LINE}\n"),
            &LINE.replace(",\"tier", ", \"tier"),
            // nothing else would bind the salt, which is not in the leaf
            &LINE.replace("000102", "00010A"),
            &LINE.replace("000102", "\\u0030\\u0030\\u00300102"),
            &LINE.replace("000102030405060708090a0b0c0d0e0f", "approved by the regulator"),
            &LINE.replace("order_placed", "verdict_cached"),
            &LINE.replace(r#""query_preview":"Sell \"honey\"?","#, ""),
        ] {
            assert!(leaf_of(damaged).is_err(), "{damaged}");
        }
    }
}
