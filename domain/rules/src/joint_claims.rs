//! Splits sentences at "and", "with" and commas: RULE-PREC-006, RULE-PREC-008.

use super::comparison_form::ComparisonForm;
use super::facts::SearchableFacts;
use super::findings::RuleError;
use super::needles::NeedleAutomaton;
use super::normalization::NormalizedLines;
use std::ops::Range;

/// The joints between claims. A comma between digits is part of the number's word and not a joint.
pub(super) const JOINTS: [&str; 3] = ["and", "with", ","];

/// The facts that contain joints, ready to be found in claims.
#[derive(Debug)]
pub(super) struct JointFacts {
    facts: NormalizedLines,
    /// None if the facts are too long.
    needles: Option<NeedleAutomaton>,
}

impl JointFacts {
    /// Selects the facts with joints. `facts` must be rows of words.
    pub(super) fn of(facts: &SearchableFacts) -> Self {
        let joints = JOINTS.map(|joint| format!(" {joint} "));
        let has_joint = |fact: &&str| joints.iter().any(|joint| fact.contains(joint.as_str()));
        let facts = NormalizedLines::of(facts.normals().filter(has_joint));
        Self { needles: NeedleAutomaton::of(&facts), facts }
    }

    /// Their memory use, in bytes.
    pub(super) const fn weight_bytes(&self) -> u64 {
        self.facts.weight_bytes() + NeedleAutomaton::weight_bytes(&self.facts)
    }

    /// The ranges of facts with joints in `row`, in the order of their ends. If several facts end at the same place,
    /// only the longest is returned.
    fn found(&self, row: &str) -> Result<Vec<Range<usize>>, RuleError> {
        let too_long =
            || RuleError("the facts that have joints are too long to be searched for in claims".into());
        let needles = self.needles.as_ref().ok_or_else(too_long)?;
        let stretch = |(end, fact)| end - self.facts.get(fact).len()..end;
        Ok(needles.ends(&self.facts, row).map(stretch).collect())
    }
}

#[derive(Debug)]
pub(super) struct SentencePart {
    pub(super) range: Range<usize>,
    /// The normalized text.
    pub(super) normal: String,
}

/// Splits the sentence `text` at its joints, except for joints within a fact in `form`.
///
/// # Errors
/// The facts are too long to be searched.
pub(super) fn parts<'a>(
    text: &str,
    form: ComparisonForm,
    facts: impl Fn() -> &'a JointFacts,
) -> Result<Vec<SentencePart>, RuleError> {
    let row = form.row(text);
    let joint = |(start, range): &(usize, Range<usize>)| {
        let word = text.get(range.clone())?;
        let is_joint = JOINTS.iter().any(|joint| joint.eq_ignore_ascii_case(word));
        is_joint.then(|| (range.clone(), *start..start + 1 + word.len()))
    };
    let mut joints: Vec<_> = row.words().iter().filter_map(joint).collect();
    let mut found = if joints.is_empty() { Vec::new() } else { facts().found(row.text())? };
    // from the last joint on: checks whether a fact that ends after the joint begins before it
    let mut begins = usize::MAX;
    joints.reverse();
    joints.retain(|(_, joint)| {
        // a row has a space after its last word
        while let Some(last) = found.pop_if(|last| last.end > joint.end + 1) {
            begins = begins.min(last.start);
        }
        begins >= joint.start
    });
    let ends = joints.iter().rev().map(|(text, row)| (text.start, row.start));
    let starts = joints.iter().rev().map(|(text, row)| (text.end, row.end));
    let part = |((start, row_start), (end, row_end))| SentencePart {
        range: start..end,
        normal: row.statement(row_start..row_end),
    };
    let (begin, end) = ((0, 0), (text.len(), row.text().len()));
    Ok([begin].into_iter().chain(starts).zip(ends.chain([end])).map(part).collect())
}
