//! JSON with sorted members, so that the order in which they are written has no effect.

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{CharEscape, CompactFormatter, Formatter, Serializer};
use std::borrow::Cow;
use std::cell::Cell;
use std::io::{self, Write};

/// The initial buffer size, in bytes: enough for most JSON that is digested.
const JSON_BYTES: usize = 1024;
/// The largest integer up to which all have their own digits in canonical JSON.
const EXACT_MAX: u64 = 1 << 53;

/// The JSON of `document`, with the members of each object sorted by their names.
///
/// # Panics
/// If `document` cannot be written as JSON, for instance a map whose keys are not text.
#[must_use]
pub fn sorted_json(document: &impl Serialize) -> Vec<u8> {
    write(document, None).0
}

/// The same JSON of an object without its member `omitted`.
///
/// # Panics
/// If `document` cannot be written as JSON.
#[must_use]
pub fn sorted_json_without(document: &impl Serialize, omitted: &str) -> Vec<u8> {
    write(document, Some(omitted)).0
}

/// The same JSON as [`sorted_json`] if it is canonical (RFC 8785). The canonical form sorts members by another order only if a
/// name is not ASCII, and only fractions and large integers have another text.
pub(crate) fn canonical_json(document: &impl Serialize) -> Option<Vec<u8>> {
    let (json, is_canonical) = write(document, None);
    is_canonical.then_some(json)
}

/// The JSON, and whether it is canonical.
fn write(document: &impl Serialize, omitted: Option<&str>) -> (Vec<u8>, bool) {
    /// The formatter writes when an object ends, and `document` can be anything else.
    #[derive(Serialize)]
    struct Whole<'d, D> {
        document: &'d D,
    }
    let mut json = Vec::new();
    let is_canonical = Cell::new(true);
    let formatter = SortedFormatter {
        json: Vec::with_capacity(JSON_BYTES),
        objects: Vec::new(),
        members: Vec::new(),
        moved: Vec::new(),
        omitted,
        is_canonical: &is_canonical,
    };
    let mut serializer = Serializer::with_formatter(&mut json, formatter);
    Whole { document }.serialize(&mut serializer).expect("plain data with string keys serializes");
    (json, is_canonical.get())
}

/// A member of an object that is being written: its bytes, and the end of its name.
#[derive(Debug, Clone, Copy)]
struct WrittenMember {
    start: usize,
    name_end: usize,
    end: usize,
    /// The first 8 bytes of the name, which decide most comparisons.
    head: u64,
    has_escapes: bool,
}

/// An object that is being written.
#[derive(Debug, Clone, Copy)]
struct OpenObject {
    /// The position of its first member in the text, and among the members.
    start: usize,
    first: usize,
}

/// Sorts the members of an object when it ends. The outermost object only holds the document.
struct SortedFormatter<'s> {
    json: Vec<u8>,
    objects: Vec<OpenObject>,
    /// The members of the open objects.
    members: Vec<WrittenMember>,
    /// The members of an object in their new order.
    moved: Vec<u8>,
    omitted: Option<&'s str>,
    is_canonical: &'s Cell<bool>,
}

impl SortedFormatter<'_> {
    /// Sorts the members of an object. Of members with the same name, the last one stays.
    fn sort(&mut self, object: OpenObject) {
        let Self { json, objects, members, moved, omitted, .. } = self;
        let members = members.get_mut(object.first..).unwrap_or_default();
        let name = |member: &WrittenMember| name_in(json, *member);
        let compare = |one: &WrittenMember, other: &WrittenMember| {
            one.head.cmp(&other.head).then_with(|| name(one).cmp(&name(other)))
        };
        let omitted = omitted.filter(|_| objects.len() == 1).map(str::as_bytes);
        if omitted.is_none() && members.is_sorted_by(|before, after| compare(before, after).is_lt()) {
            return;
        }
        members.sort_by(compare);
        moved.clear();
        for (index, member) in members.iter().enumerate() {
            let is_repeated = members.get(index + 1).is_some_and(|next| compare(member, next).is_eq());
            if is_repeated || omitted.is_some_and(|omitted| *name(member) == *omitted) {
                continue;
            }
            if !moved.is_empty() {
                moved.push(b',');
            }
            moved.extend_from_slice(json.get(member.start..member.end).unwrap_or_default());
        }
        json.truncate(object.start);
        json.extend_from_slice(moved);
    }

    fn note_integer(&self, magnitude: u128) {
        if magnitude > EXACT_MAX.into() {
            self.is_canonical.set(false);
        }
    }
}

/// The name of a member, without its quotes and escapes.
fn name_in(json: &[u8], member: WrittenMember) -> Cow<'_, [u8]> {
    let quoted = json.get(member.start..member.name_end).unwrap_or_default();
    if member.has_escapes {
        let name = serde_json::from_slice::<String>(quoted).expect("a name is a text in quotes");
        return Cow::Owned(name.into_bytes());
    }
    Cow::Borrowed(quoted.get(1..quoted.len() - 1).unwrap_or_default())
}

/// Methods that write to the formatter's own text.
macro_rules! write_compact {
    ($($name:ident($($argument:ident: $kind:ty)?);)*) => {$(
        fn $name<W: ?Sized + Write>(&mut self, _: &mut W $(, $argument: $kind)?) -> io::Result<()> {
            CompactFormatter.$name(&mut self.json $(, $argument)?)
        }
    )*};
}

/// Methods that write an integer.
macro_rules! write_integer {
    ($($name:ident($kind:ty, $magnitude:expr);)*) => {$(
        fn $name<W: ?Sized + Write>(&mut self, _: &mut W, value: $kind) -> io::Result<()> {
            self.note_integer($magnitude(value));
            CompactFormatter.$name(&mut self.json, value)
        }
    )*};
}

impl Formatter for SortedFormatter<'_> {
    write_compact! {
        write_null();
        write_bool(value: bool);
        write_i8(value: i8);
        write_i16(value: i16);
        write_i32(value: i32);
        write_u8(value: u8);
        write_u16(value: u16);
        write_u32(value: u32);
        write_number_str(value: &str);
        begin_string();
        end_string();
        write_string_fragment(fragment: &str);
        begin_array();
        end_array();
        begin_array_value(is_first: bool);
        begin_object_value();
    }

    write_integer! {
        write_i64(i64, |value: i64| value.unsigned_abs().into());
        write_u64(u64, u128::from);
        write_i128(i128, i128::unsigned_abs);
        write_u128(u128, |value: u128| value);
    }

    fn write_f32<W: ?Sized + Write>(&mut self, writer: &mut W, value: f32) -> io::Result<()> {
        // a `Value` has only this one
        self.write_f64(writer, value.into())
    }

    fn write_f64<W: ?Sized + Write>(&mut self, _: &mut W, value: f64) -> io::Result<()> {
        self.is_canonical.set(false);
        CompactFormatter.write_f64(&mut self.json, value)
    }

    fn write_char_escape<W: ?Sized + Write>(&mut self, _: &mut W, escape: CharEscape) -> io::Result<()> {
        // in a name, whose end is not known yet
        if let Some(member) = self.members.last_mut().filter(|member| member.name_end == member.start) {
            member.has_escapes = true;
        }
        CompactFormatter.write_char_escape(&mut self.json, escape)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.json.push(b'{');
        self.objects.push(OpenObject { start: self.json.len(), first: self.members.len() });
        Ok(())
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, _: &mut W, is_first: bool) -> io::Result<()> {
        if !is_first {
            self.json.push(b',');
        }
        let start = self.json.len();
        self.members.push(WrittenMember { start, name_end: start, end: start, head: 0, has_escapes: false });
        Ok(())
    }

    fn end_object_key<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        if let Some(member) = self.members.last_mut() {
            member.name_end = self.json.len();
            let name = name_in(&self.json, *member);
            let mut head = [0; 8];
            head.iter_mut().zip(&*name).for_each(|(byte, of_name)| *byte = *of_name);
            member.head = u64::from_be_bytes(head);
            if !name.is_ascii() {
                self.is_canonical.set(false);
            }
        }
        Ok(())
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        if let Some(member) = self.members.last_mut() {
            member.end = self.json.len();
        }
        Ok(())
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        let Some(object) = self.objects.pop() else { return Ok(()) };
        if self.objects.is_empty() {
            // the document, after a colon
            let document = self.members.last().map(|whole| whole.name_end + 1..whole.end);
            return writer.write_all(document.and_then(|range| self.json.get(range)).unwrap_or_default());
        }
        self.sort(object);
        self.members.truncate(object.first);
        self.json.push(b'}');
        Ok(())
    }

    fn write_raw_fragment<W: ?Sized + Write>(&mut self, _: &mut W, fragment: &str) -> io::Result<()> {
        let (json, is_canonical) = write(&serde_json::from_str::<Value>(fragment)?, None);
        self.is_canonical.set(self.is_canonical.get() && is_canonical);
        self.json.extend_from_slice(&json);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;
    use serde_json::value::RawValue;
    use std::collections::{BTreeMap, HashMap};

    /// One member of each kind, in an order that is not sorted.
    #[derive(Debug, Clone, Serialize)]
    struct Members {
        texts: HashMap<String, String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        nothing: Option<u8>,
        integers: (i64, u64, i8, u128),
        fractions: (f64, f32),
        by_number: BTreeMap<i16, bool>,
        kinds: Vec<Kind>,
        #[serde(flatten)]
        others: HashMap<String, Value>,
        raw: Box<RawValue>,
        letter: char,
    }

    #[derive(Debug, Clone, Serialize)]
    enum Kind {
        Unit,
        Newtype(Vec<Option<u8>>),
        Tuple(u8, String),
        Struct { second: u8, first: String },
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".{0,4}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[ab\"\\\\\u{1}\u{20ac}\u{10000}]{0,3}", inner, 0..5)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn sorted_json_equals_the_json_of_a_sorted_value(
            value in any_value(),
            texts in prop::collection::hash_map("[a-c\"\\\\\u{1}\u{e9}]{0,3}", ".{0,3}", 0..5),
            others in prop::collection::hash_map("[a-z\"\\\\]{1,3}", any_value(), 0..4),
            (signed, unsigned, fraction, short) in (any::<i64>(), any::<u64>(), any::<f64>(), any::<f32>()),
        ) {
            let members = Members {
                texts,
                nothing: None,
                integers: (signed, unsigned, -1, 7),
                fractions: (fraction, short),
                by_number: [(10, true), (9, false), (-3, true)].into(),
                kinds: vec![
                    Kind::Unit,
                    Kind::Newtype(vec![None, Some(1)]),
                    Kind::Tuple(1, "\n".to_owned()),
                    Kind::Struct { second: 2, first: String::new() },
                ],
                others,
                raw: RawValue::from_string(format!("{{\"z\": 1.50, \"a\": {value}}}")).expect("JSON"),
                letter: '"',
            };
            let sorted = serde_json::to_value(&members).expect("plain data").to_string();
            prop_assert_eq!(String::from_utf8(sorted_json(&members)).expect("a text"), sorted);
            prop_assert_eq!(String::from_utf8(sorted_json(&value)).expect("a text"), value.to_string());
        }
    }

    #[test]
    fn member_is_omitted_from_the_document_only() {
        let document = json!({"c": 1, "a": {"b": 2}, "b": 3});
        assert_eq!(sorted_json_without(&document, "b"), br#"{"a":{"b":2},"c":1}"#);
        assert_eq!(sorted_json_without(&json!({"b": 3}), "b"), b"{}");
    }

    #[test]
    fn repeated_member_keeps_its_last_value() {
        #[derive(Serialize)]
        struct Outer {
            b: u8,
            a: u8,
            #[serde(flatten)]
            inner: BTreeMap<String, u8>,
        }
        let outer = Outer { b: 1, a: 2, inner: [("b".to_owned(), 3)].into() };
        assert_eq!(sorted_json(&outer), br#"{"a":2,"b":3}"#);
    }
}
