//! The members that a verdict of a tier has, and the handling of all other members.

use crate::label::{ProductTier, VerdictDimension};
use domain_base::payload::MemberName;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::{Deserialize as DeriveDeserialize, Serialize};
use serde_json::value::RawValue;
use std::fmt;

/// The handling of members that a verdict's tier does not have. The gate does not judge these members.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, DeriveDeserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum UnexpectedFieldHandling {
    /// Cut them from the verdict before it is delivered.
    #[default]
    Strip,
    /// Refuse the verdict.
    Refuse,
    /// Deliver them with the verdict.
    Deliver,
}

/// A judged object of a verdict.
#[derive(Debug, Clone, Copy)]
pub(super) enum VerdictLevel {
    /// The verdict itself.
    Root(ProductTier),
    Breakdown,
    /// A dimension of `breakdown`.
    Dimension,
    Strategy,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum VerdictMember {
    /// A value that the gate judges as a whole.
    Value,
    /// An object with members that the gate judges.
    Object(VerdictLevel),
}

impl VerdictLevel {
    /// The member with the name `name`, if this level has it.
    pub(super) fn member(self, name: &str) -> Option<VerdictMember> {
        match (self, name) {
            (Self::Root(_), "verdict" | "summary")
            | (Self::Dimension, "verdict" | "analysis")
            | (Self::Strategy, "next_step" | "alternative" | "tests") => Some(VerdictMember::Value),
            (Self::Root(tier), "breakdown") if tier >= ProductTier::Full => {
                Some(VerdictMember::Object(Self::Breakdown))
            }
            (Self::Root(tier), "strategy") if tier >= ProductTier::Strategy => {
                Some(VerdictMember::Object(Self::Strategy))
            }
            (Self::Breakdown, name) => {
                name.parse::<VerdictDimension>().ok().map(|_| VerdictMember::Object(Self::Dimension))
            }
            _ => None,
        }
    }
}

/// Removes the members that `level` does not have from `object`, the text of a judged object. All other bytes stay.
///
/// `object` must be one strict JSON document. A value that is not an object is returned unchanged.
pub(super) fn strip(level: VerdictLevel, object: &str) -> String {
    let mut stripped = String::with_capacity(object.len());
    append_stripped(level, object, &mut stripped);
    stripped
}

fn append_stripped(level: VerdictLevel, object: &str, stripped: &mut String) {
    let Ok(RawMembers(members)) = serde_json::from_str(object) else {
        stripped.push_str(object);
        return;
    };
    // the text before `rest` was either copied to `stripped` or cut
    let mut rest = object.strip_prefix('{').unwrap_or_default();
    stripped.push('{');
    let (mut any_cut_first, mut any_kept) = (false, false);
    for (MemberName(name), value) in members {
        let value = value.get();
        let Some((lead, after)) = split_at_value(object, rest, value) else { continue };
        rest = after;
        let Some(member) = level.member(&name) else {
            any_cut_first |= !any_kept;
            continue;
        };
        // the first kept member has no comma before it
        let lead = match lead.split_once(',') {
            Some((_, lead)) if any_cut_first && !any_kept => lead,
            _ => lead,
        };
        any_kept = true;
        stripped.push_str(lead);
        match member {
            VerdictMember::Value => stripped.push_str(value),
            VerdictMember::Object(level) => append_stripped(level, value, stripped),
        }
    }
    stripped.push_str(rest);
}

/// Splits `rest` (a suffix of `object`) into the text before and after `value` (a slice of `rest`).
fn split_at_value<'a>(object: &'a str, rest: &'a str, value: &str) -> Option<(&'a str, &'a str)> {
    let start = (value.as_ptr() as usize).checked_sub(object.as_ptr() as usize)?;
    let lead = start.checked_sub(object.len() - rest.len())?;
    Some((rest.get(..lead)?, rest.get(lead + value.len()..)?))
}

/// The members of an object in their order, each value as its text.
struct RawMembers<'a>(Vec<(MemberName<'a>, &'a RawValue)>);

impl<'de> Deserialize<'de> for RawMembers<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RawMembersVisitor;
        impl<'de> Visitor<'de> for RawMembersVisitor {
            type Value = RawMembers<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(RawMembers(members))
            }
        }
        deserializer.deserialize_map(RawMembersVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strip_keeps_every_other_byte() {
        for (text, expected) in [
            (r#"{"verdict":1,"summary":2}"#, r#"{"verdict":1,"summary":2}"#),
            (r#"{ "x" : {"verdict":1} , "verdict" : 1 }"#, r#"{ "verdict" : 1 }"#),
            (r#"{"x":",","y":[","], "verdict":1}"#, r#"{ "verdict":1}"#),
            ("{\"verdict\":1\n,\"x\":2\t, \"summary\":3 ,\"y\":4 }", "{\"verdict\":1\t, \"summary\":3 }"),
            (r#"{"\u0076erdict":1.10,"verdict\u0000":2}"#, r#"{"\u0076erdict":1.10}"#),
            (r#"{"x":1}"#, "{}"),
            (r#"{ }"#, "{ }"),
            ("[1]", "[1]"),
        ] {
            assert_eq!(strip(VerdictLevel::Root(ProductTier::Quick), text), expected, "{text}");
        }
        let nested = r#"{"breakdown":{ "Mood":{}, "Curvature":{"x":1,"verdict":2}},"strategy":{}}"#;
        let expected = r#"{"breakdown":{ "Curvature":{"verdict":2}}}"#;
        assert_eq!(strip(VerdictLevel::Root(ProductTier::Full), nested), expected);
    }
}
