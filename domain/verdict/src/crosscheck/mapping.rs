//! The canonical mapping: the members that a verdict of a tier has, the parts of a payload that count as evidence, and
//! those that raise flags (`docs/mapping.md`). No other mapping is valid.

use crate::flag::{FieldPath, Flag};
use crate::label::{ProductTier, VerdictDimension, VerdictLabel};
use domain_base::payload::{JsonNode, MemberName, VerdictPayload};
use domain_base::text_form::{is_blank, without_invisible};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::{Deserialize as DeriveDeserialize, Serialize};
use serde_json::Value as Json;
use serde_json::value::RawValue;
use std::fmt;

/// A summary with fewer characters, trimmed and without invisible ones, is flagged `short_summary`.
const SUMMARY_MIN_CHARS: usize = 10;
/// The maximum number of a strategy's tests that count towards V_t.
const TESTS_COUNTED: usize = 3;
/// A strategy with fewer non-empty tests is flagged `few_tests`.
const TESTS_MIN: usize = 2;
/// The minimum of V_t.
pub(crate) const V_T_FLOOR: f64 = 1.0;
/// The maximum number of unexpected fields that are flagged by name; one more flag counts the rest.
pub(super) const UNEXPECTED_NAMED: usize = 16;
/// The maximum length of an unexpected field's name in its flag, in characters.
pub(super) const UNEXPECTED_NAME_CHARS: usize = 64;

/// The result of the canonical mapping. All three values are dimensionless.
#[derive(Debug, Clone, PartialEq)]
pub struct CrosscheckInspection {
    /// Total value: weighted evidence units, at least 1.0.
    pub v_t: f64,
    /// Resonant value: weighted inconsistencies, the sum of the flags' weights.
    pub v_r: f64,
    /// Decoherence energy: the largest cause that applies.
    pub e_d: f64,
    /// The label of the top-level verdict, if it is valid.
    pub label: Option<VerdictLabel>,
    /// The flags raised, in the fixed order of [`Flag`].
    pub flags: Vec<Flag>,
}

impl CrosscheckInspection {
    /// The inspection of a verdict with this evidence and these flags, which determine V_r and E_D.
    #[must_use]
    pub fn of(evidence: f64, label: Option<VerdictLabel>, mut flags: Vec<Flag>) -> Self {
        flags.sort();
        Self {
            v_t: evidence.max(V_T_FLOOR),
            v_r: flags.iter().map(Flag::v_r).fold(0.0, std::ops::Add::add),
            e_d: flags.iter().map(Flag::e_d).fold(0.0, f64::max),
            label,
            flags,
        }
    }
}

/// Maps `payload` to the TMM variables for `tier`. Every text gives an inspection.
#[must_use]
pub fn inspect(tier: ProductTier, payload: &VerdictPayload) -> CrosscheckInspection {
    match JsonNode::parse(payload.text()) {
        Ok(root) => {
            let mut findings = CrosscheckFindings::default();
            findings.inspect_verdict(tier, &root);
            findings.into_inspection()
        }
        Err(_) => CrosscheckInspection::of(V_T_FLOOR, None, vec![Flag::MalformedJson]),
    }
}

/// The mapping in progress: evidence adds to V_t; flags determine V_r and E_D.
#[derive(Default)]
struct CrosscheckFindings {
    evidence: f64,
    label: Option<VerdictLabel>,
    flags: Vec<Flag>,
}

impl CrosscheckFindings {
    fn inspect_verdict(&mut self, tier: ProductTier, root: &JsonNode<'_>) {
        self.verdict(root);
        self.summary(root);
        if tier >= ProductTier::Full {
            self.breakdown(root);
        }
        if tier >= ProductTier::Strategy {
            self.strategy(root);
        }
        self.unexpected(tier, root);
    }

    fn into_inspection(self) -> CrosscheckInspection {
        CrosscheckInspection::of(self.evidence, self.label, self.flags)
    }

    fn verdict(&mut self, root: &JsonNode<'_>) {
        match root.text_at("verdict") {
            None => self.flags.push(Flag::VerdictMissing),
            Some(word) => match word.parse::<VerdictLabel>().ok() {
                None => self.flags.push(Flag::VerdictInvalid),
                Some(label) => {
                    self.label = Some(label);
                    self.evidence += 1.0;
                }
            },
        }
    }

    fn summary(&mut self, root: &JsonNode<'_>) {
        let summary = root.text_at("summary");
        if summary.is_none() {
            self.flags.push(Flag::FieldMissing(FieldPath::Summary));
        }
        let summary = without_invisible(summary.unwrap_or_default());
        let summary = summary.trim();
        if !summary.is_empty() {
            self.evidence += 1.0;
        }
        if summary.chars().take(SUMMARY_MIN_CHARS).count() < SUMMARY_MIN_CHARS {
            self.flags.push(Flag::ShortSummary);
        }
    }

    fn breakdown(&mut self, root: &JsonNode<'_>) {
        let Some(breakdown) = root.object_at("breakdown") else {
            self.flags.push(Flag::FieldMissing(FieldPath::Breakdown));
            return;
        };
        let labels: Vec<VerdictLabel> = VerdictDimension::ALL
            .into_iter()
            .filter_map(|dimension| self.dimension(breakdown, dimension))
            .collect();
        self.conflict(&labels);
    }

    /// Examines one dimension and returns its label, if it is valid.
    fn dimension(&mut self, breakdown: &JsonNode<'_>, dimension: VerdictDimension) -> Option<VerdictLabel> {
        let Some(node) = breakdown.object_at(dimension.into_str()) else {
            self.flags.push(Flag::FieldMissing(FieldPath::Dimension(dimension)));
            return None;
        };
        let word = node.text_at("verdict");
        let label = word.and_then(|word| word.parse::<VerdictLabel>().ok());
        if word.is_none() {
            self.flags.push(Flag::FieldMissing(FieldPath::DimensionVerdict(dimension)));
        } else if label.is_none() {
            self.flags.push(Flag::DimensionVerdictInvalid(dimension));
        }
        let analysis = node.text_at("analysis");
        if analysis.is_none() {
            self.flags.push(Flag::FieldMissing(FieldPath::DimensionAnalysis(dimension)));
        }
        if label.is_some() {
            if analysis.is_some_and(|text| !is_blank(text)) {
                self.evidence += 1.0;
            } else {
                self.flags.push(Flag::EmptyAnalysis(dimension));
            }
        }
        label
    }

    /// Compares the top-level verdict with the valid verdicts of the dimensions.
    fn conflict(&mut self, labels: &[VerdictLabel]) {
        let count = |label: VerdictLabel| labels.iter().filter(|other| **other == label).count();
        let majority = VerdictLabel::ALL.into_iter().find(|label| 2 * count(*label) > labels.len());
        let Some(label) = self.label else { return };
        if label != VerdictLabel::Null {
            if majority.is_some_and(|majority| majority != label) {
                self.flags.push(Flag::VerdictConflict);
            }
            return;
        }
        let bright = |label: &VerdictLabel| matches!(label, VerdictLabel::Green | VerdictLabel::Amber);
        if !labels.is_empty() && labels.iter().all(bright) {
            self.flags.push(Flag::ContradictoryNull);
            if majority.is_some() {
                self.flags.push(Flag::VerdictConflict);
            }
        }
    }

    fn strategy(&mut self, root: &JsonNode<'_>) {
        let Some(strategy) = root.object_at("strategy") else {
            self.flags.push(Flag::FieldMissing(FieldPath::Strategy));
            self.flags.push(Flag::StrategyMissing);
            return;
        };
        for (name, path) in [("next_step", FieldPath::NextStep), ("alternative", FieldPath::Alternative)] {
            match strategy.text_at(name) {
                None => self.flags.push(Flag::FieldMissing(path)),
                Some(text) if !is_blank(text) => self.evidence += 1.0,
                Some(_) => {}
            }
        }
        let tests = strategy.list_at("tests");
        if tests.is_none() {
            self.flags.push(Flag::FieldMissing(FieldPath::Tests));
        }
        let filled = tests
            .unwrap_or_default()
            .iter()
            .filter(|test| is_strategy_test(test))
            .take(TESTS_COUNTED)
            .count();
        self.evidence += [0.0, 0.5, 1.0, 1.5].get(filled).copied().expect("at most three tests count");
        if filled < TESTS_MIN {
            self.flags.push(Flag::FewTests);
        }
    }

    /// Flags the members that the tier does not have. The flags are sorted and limited in number and length, because
    /// the model chooses the names.
    fn unexpected(&mut self, tier: ProductTier, root: &JsonNode<'_>) {
        let found = find_unexpected(VerdictLevel::Root(tier), root, "", |object| {
            object.members().iter().map(|(name, node)| (&**name, node))
        });
        let paths = found.into_iter().map(|(prefix, name, _)| prefix + &shortened(name));
        let mut paths: Vec<_> = paths.collect();
        paths.sort_unstable();
        let rest = paths.len().saturating_sub(UNEXPECTED_NAMED);
        paths.truncate(UNEXPECTED_NAMED);
        if rest > 0 {
            // "~" sorts after every ASCII letter, so the count is usually the last flag of its kind
            paths.push(format!("~{rest} more"));
        }
        self.flags.extend(paths.into_iter().map(Flag::UnexpectedField));
    }
}

/// The members below `object` that their level does not have: the path of the object around each, followed by a dot, its name and its
/// value. `prefix` is such a path of `object`, and `members` returns the members of an object.
fn find_unexpected<'v, N: 'v, M: Iterator<Item = (&'v str, &'v N)>>(
    level: VerdictLevel,
    object: &'v N,
    prefix: &str,
    members: fn(&'v N) -> M,
) -> Vec<(String, &'v str, &'v N)> {
    let find = |(name, node): (&'v str, &'v N)| match level.member(name) {
        Some(VerdictMember::Value) => Vec::new(),
        Some(VerdictMember::Object(level)) => {
            find_unexpected(level, node, &format!("{prefix}{name}."), members)
        }
        None => vec![(prefix.to_owned(), name, node)],
    };
    members(object).flat_map(find).collect()
}

/// The members of `verdict` that its tier does not have, each by its whole path.
#[must_use]
pub fn unexpected_members(tier: ProductTier, verdict: &Json) -> Vec<(String, &Json)> {
    let found = find_unexpected(VerdictLevel::Root(tier), verdict, "", |object| {
        object.as_object().into_iter().flatten().map(|(name, value)| (name.as_str(), value))
    });
    found.into_iter().map(|(prefix, name, value)| (prefix + name, value)).collect()
}

fn shortened(name: &str) -> String {
    name.chars().take(UNEXPECTED_NAME_CHARS).collect()
}

/// A test of a strategy is a text that is not blank, or an object or a list with such a text at any depth.
fn is_strategy_test(node: &JsonNode<'_>) -> bool {
    match node {
        JsonNode::Text(text) => !is_blank(text),
        JsonNode::Object(members) => members.iter().any(|(_, member)| is_strategy_test(member)),
        JsonNode::List(items) => items.iter().any(is_strategy_test),
        JsonNode::Scalar => false,
    }
}

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
pub(crate) enum VerdictLevel {
    /// The verdict itself.
    Root(ProductTier),
    Breakdown,
    /// A dimension of `breakdown`.
    Dimension,
    Strategy,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum VerdictMember {
    /// A value that the gate judges as a whole.
    Value,
    /// An object with members that the gate judges.
    Object(VerdictLevel),
}

impl VerdictLevel {
    /// The member with the name `name`, if this level has it.
    pub(crate) fn member(self, name: &str) -> Option<VerdictMember> {
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
pub(crate) fn strip(level: VerdictLevel, object: &str) -> String {
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
    fn unexpected_members_have_their_whole_names() {
        let long = "n".repeat(UNEXPECTED_NAME_CHARS + 1);
        let verdict = serde_json::json!({
            "verdict": "GREEN", "a.b": 1, (long.as_str()): 2,
            "breakdown": {"Curvature": {"verdict": "RED", "note": 3}},
        });
        let paths = |tier| -> Vec<_> {
            unexpected_members(tier, &verdict).into_iter().map(|(path, _)| path).collect()
        };
        let mut full = paths(ProductTier::Full);
        full.sort_unstable();
        assert_eq!(full, ["a.b", "breakdown.Curvature.note", long.as_str()]);
        assert!(paths(ProductTier::Quick).contains(&"breakdown".to_owned()));
        assert!(unexpected_members(ProductTier::Full, &Json::Null).is_empty());
    }

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
