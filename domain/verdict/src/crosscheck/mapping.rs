//! The canonical mapping: the parts of a payload that count as evidence, and those that raise flags
//! (`docs/mapping.md`). No other mapping is valid (seed: `tmm-crosscheck`, invariant 6).

use super::fields::{VerdictLevel, VerdictMember};
use crate::flag::{FieldPath, Flag};
use crate::label::{ProductTier, VerdictDimension, VerdictLabel};
use domain_base::payload::{JsonNode, VerdictPayload};
use domain_base::text_form::{is_blank, without_invisible};

/// A summary with fewer characters, trimmed and without invisible ones, is flagged `short_summary`.
const SUMMARY_MIN_CHARS: usize = 10;
/// The maximum number of a strategy's tests that count towards V_t.
const TESTS_COUNTED: usize = 3;
/// A strategy with fewer non-empty tests is flagged `few_tests`.
const TESTS_MIN: usize = 2;
/// The minimum of V_t.
const V_T_FLOOR: f64 = 1.0;
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
        let mut paths = Vec::new();
        collect_unexpected(VerdictLevel::Root(tier), root, "", &mut paths);
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

/// Adds the paths of all members below `object` that their level does not have. `prefix` is the path of `object`,
/// followed by a dot.
fn collect_unexpected(level: VerdictLevel, object: &JsonNode<'_>, prefix: &str, paths: &mut Vec<String>) {
    for (name, node) in object.members() {
        match level.member(name) {
            Some(VerdictMember::Value) => {}
            Some(VerdictMember::Object(level)) => {
                collect_unexpected(level, node, &format!("{prefix}{name}."), paths);
            }
            None => paths.push(format!("{prefix}{}", shortened(name))),
        }
    }
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
