//! A model's answer as text, and its parser, which accepts exactly one strict JSON document.
//!
//! Raw model text and a JSON value both become the same text, which has one parser. The text is kept
//! unchanged: the gate delivers an approved answer byte for byte, with its numbers and field order.
//!
//! Objects have no name twice, and null is not absence.

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

/// A model's answer before the crosscheck, without surrounding white space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerdictPayload(String);

impl VerdictPayload {
    /// Creates a payload from a model's raw text. Nothing is repaired: a Markdown fence, for example, makes
    /// it malformed.
    #[must_use]
    pub fn raw(text: &str) -> Self {
        // exactly JSON's white space: any other leading character is part of a malformed document
        Self(text.trim_matches([' ', '\t', '\n', '\r']).to_owned())
    }

    /// Creates a payload from a JSON value, with its original text.
    #[must_use]
    pub fn json(value: &RawValue) -> Self {
        Self::raw(value.get())
    }

    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    pub fn into_text(self) -> String {
        self.0
    }
}

/// One value of a strict JSON document, reduced to the content that the crosscheck reads.
///
/// Strict means: the grammar of RFC 8259, at most 127 levels deep, and no repeated name in an object (RFC
/// 7493). Parsers differ on which of two members with the same name counts, and a verdict must not depend on
/// the parser.
#[derive(Debug, Clone, PartialEq)]
pub enum JsonNode<'a> {
    /// A number, `true`, `false` or `null`.
    Scalar,
    /// A string.
    Text(Cow<'a, str>),
    /// An array.
    List(Vec<JsonNode<'a>>),
    /// An object, with its members in their original order.
    Object(Vec<(Cow<'a, str>, JsonNode<'a>)>),
}

impl<'a> JsonNode<'a> {
    /// Parses `text` as one strict JSON document.
    pub fn parse(text: &'a str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// The members of an object; empty for any other value.
    pub fn members(&self) -> &[(Cow<'a, str>, Self)] {
        if let Self::Object(members) = self { members } else { &[] }
    }

    /// The member `name`; `None` if this is not an object, or has no such member.
    pub(crate) fn get(&self, name: &str) -> Option<&Self> {
        self.members().iter().find(|(key, _)| key == name).map(|(_, node)| node)
    }

    /// The member `name` if it is a string.
    pub fn text_at(&self, name: &str) -> Option<&str> {
        if let Some(Self::Text(text)) = self.get(name) { Some(text) } else { None }
    }

    /// The member `name` if it is an object.
    pub fn object_at(&self, name: &str) -> Option<&Self> {
        self.get(name).filter(|node| matches!(node, Self::Object(_)))
    }

    /// The member `name` if it is an array.
    pub fn list_at(&self, name: &str) -> Option<&[Self]> {
        if let Some(Self::List(items)) = self.get(name) { Some(items) } else { None }
    }
}

/// A name that occurs more than once in `members`.
pub(crate) fn find_repeated_name<V>(members: &[(impl AsRef<str>, V)]) -> Option<&str> {
    const FEW: usize = 16;
    if members.len() <= FEW {
        let mut rest = members.iter();
        while let Some((name, _)) = rest.next() {
            if rest.as_slice().iter().any(|(other, _)| other.as_ref() == name.as_ref()) {
                return Some(name.as_ref());
            }
        }
        return None;
    }
    let mut names: Vec<&str> = members.iter().map(|(name, _)| name.as_ref()).collect();
    names.sort_unstable();
    names.windows(2).find_map(|pair| match pair {
        [one, two] if one == two => Some(*one),
        _ => None,
    })
}

impl<'de> Deserialize<'de> for JsonNode<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonNodeVisitor)
    }
}

struct JsonNodeVisitor;

impl<'de> Visitor<'de> for JsonNodeVisitor {
    type Value = JsonNode<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(JsonNode::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(JsonNode::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(JsonNode::Scalar)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(JsonNode::Scalar)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(JsonNode::Scalar)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(JsonNode::Scalar)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(JsonNode::Scalar)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(JsonNode::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some((MemberName(name), node)) = map.next_entry()? {
            members.push((name, node));
        }
        match find_repeated_name(&members) {
            Some(name) => Err(Error::custom(format_args!("the name `{name}` occurs twice in one object"))),
            None => Ok(JsonNode::Object(members)),
        }
    }
}

/// A member's name, borrowed from the text unless it contains an escape.
pub struct MemberName<'a>(pub Cow<'a, str>);

impl<'de> Deserialize<'de> for MemberName<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MemberNameVisitor;
        impl<'de> Visitor<'de> for MemberNameVisitor {
            type Value = MemberName<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(MemberName(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(MemberName(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(MemberNameVisitor)
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parse_accepts_exactly_one_json_document() {
        for good in ["{}", "[1,2]", "\"x\"", "null", "{\"a\":{\"b\":[true,1.5,-3]}}"] {
            assert!(JsonNode::parse(good).is_ok(), "{good}");
        }
        for bad in
            ["", "{", "{} {}", "```json\n{}\n```", "{'a':1}", "{\"a\":1,}", "NaN", "\u{feff}{}", "\"\u{1}\""]
        {
            assert!(JsonNode::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn parse_rejects_a_repeated_name_among_few_or_many() {
        assert!(JsonNode::parse(r#"{"verdict":"GREEN","verdict":"RED"}"#).is_err());
        assert!(
            JsonNode::parse(r#"{"verdict":"GREEN","verdic\u0074":"RED"}"#).is_err(),
            "escaped names are equal too"
        );
        let many = |extra: &str| {
            format!("{{{}\"n0\":0{extra}}}", (1..40).map(|n| format!("\"n{n}\":{n},")).collect::<String>())
        };
        assert!(JsonNode::parse(&many("")).is_ok());
        assert!(JsonNode::parse(&many(",\"n17\":1")).is_err());
    }

    #[test]
    fn parse_limits_depth_without_stack_overflow() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(JsonNode::parse(&nested(127)).is_ok());
        assert!(JsonNode::parse(&nested(128)).is_err());
        assert!(JsonNode::parse(&"[".repeat(1_000_000)).is_err());
    }

    proptest! {
        #[test]
        fn parse_accepts_what_serde_json_accepts(text in "[\\[\\]{}:,\"\\\\a-c0-9eu .+-]{0,24}") {
            // serde_json's own `Value` accepts repeated names; in all other cases both must agree
            let theirs = serde_json::from_str::<serde_json::Value>(&text).is_ok();
            let ours = JsonNode::parse(&text);
            match ours {
                Ok(_) => prop_assert!(theirs),
                Err(error) => prop_assert!(!theirs || error.to_string().contains("occurs twice"), "{error}"),
            }
        }
    }
}
