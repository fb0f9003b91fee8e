//! The members `kind` and `$schema`, which a document may have in addition to those of its type.

use super::DocumentKind;
use serde::de::value::StringDeserializer;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, forward_to_deserialize_any};
use std::fmt;
use strum::VariantArray;

const KIND: &str = "kind";
const SCHEMA: &str = "$schema";

/// The kind of a document: by its member `kind`, or else by the one member that only documents of that kind have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DocumentKindHint(pub DocumentKind);

impl<'de> Deserialize<'de> for DocumentKindHint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KindHintVisitor;

        impl<'de> Visitor<'de> for KindHintVisitor {
            type Value = DocumentKindHint;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a document with named members")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<DocumentKindHint, A::Error> {
                let (mut named, mut found) = (None, None);
                while let Some(name) = map.next_key::<String>()? {
                    if name == KIND {
                        named = Some(map.next_value()?);
                        continue;
                    }
                    map.next_value::<IgnoredAny>()?;
                    let mut kinds = DocumentKind::VARIANTS.iter();
                    found = found.or(kinds.find(|kind| kind.distinguishing_member() == name).copied());
                }
                let unknown = || {
                    let of_all = |text: fn(&DocumentKind) -> &'static str| {
                        DocumentKind::VARIANTS.iter().map(text).collect::<Vec<_>>().join(", ")
                    };
                    let kinds = of_all(|kind| kind.into_str());
                    let members = of_all(|kind| kind.distinguishing_member());
                    A::Error::custom(format!(
                        "the kind of this document is unknown: add `kind` (one of {kinds}), or the member that only its \
                         kind has (one of {members})"
                    ))
                };
                named.or(found).map(DocumentKindHint).ok_or_else(unknown)
            }
        }

        deserializer.deserialize_map(KindHintVisitor)
    }
}

/// A deserializer of an object that leaves out its members `kind` and `$schema`.
pub(super) struct UnmarkedDeserializer<D>(pub(super) D);

impl<'de, D: Deserializer<'de>> Deserializer<'de> for UnmarkedDeserializer<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(UnmarkedVisitor(visitor))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

struct UnmarkedVisitor<V>(V);

impl<'de, V: Visitor<'de>> Visitor<'de> for UnmarkedVisitor<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a document with named members")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(UnmarkedMapAccess(map))
    }
}

struct UnmarkedMapAccess<A>(A);

impl<'de, A: MapAccess<'de>> MapAccess<'de> for UnmarkedMapAccess<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        while let Some(name) = self.0.next_key::<String>()? {
            if name != KIND && name != SCHEMA {
                return seed.deserialize(StringDeserializer::new(name)).map(Some);
            }
            self.0.next_value::<IgnoredAny>()?;
        }
        Ok(None)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.0.next_value_seed(seed)
    }
}
