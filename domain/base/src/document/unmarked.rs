//! The members `kind` and `$schema`, which a document may have in addition to those of its type.

use serde::de::value::StringDeserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde::{Deserializer, forward_to_deserialize_any};
use std::fmt;

/// The member that names the kind of a document.
pub const KIND_MEMBER: &str = "kind";
/// The member that names the schema of a document, for editors.
pub const SCHEMA_MEMBER: &str = "$schema";

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
            if name != KIND_MEMBER && name != SCHEMA_MEMBER {
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
