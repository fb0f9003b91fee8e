//! Claims that are joined by "and", "with" and commas, taken apart: RULE-PREC-006, RULE-PREC-008.

use super::facts::Facts;
use super::findings::RuleError;
use super::form::Form;
use super::lines::Lines;
use super::needles::Needles;
use std::ops::Range;

/// What joins claims. A comma between digits is a part of the number's word, and no joint.
pub(super) const JOINTS: [&str; 3] = ["and", "with", ","];

/// The facts that have joints, ready to be found in claims.
#[derive(Debug)]
pub(super) struct Joined {
    facts: Lines,
    /// None if the facts are too long.
    needles: Option<Needles>,
}

impl Joined {
    /// Those of `facts`, which are rows of words.
    pub(super) fn of(facts: &Facts) -> Self {
        let joints = JOINTS.map(|joint| format!(" {joint} "));
        let has_joint = |fact: &&str| joints.iter().any(|joint| fact.contains(joint.as_str()));
        let facts = Lines::of(facts.normals().filter(has_joint));
        Self { needles: Needles::of(&facts), facts }
    }

    /// The memory that they take.
    pub(super) const fn weight_bytes(&self) -> u64 {
        self.facts.weight_bytes() + Needles::weight_bytes(&self.facts)
    }

    /// Where facts with joints stand in `row`, by their ends: of those that end at one place, the longest.
    fn found(&self, row: &str) -> Result<Vec<Range<usize>>, RuleError> {
        let too_long =
            || RuleError("the facts that have joints are too long to be searched for in claims".into());
        let needles = self.needles.as_ref().ok_or_else(too_long)?;
        let stretch = |(end, fact)| end - self.facts.get(fact).len()..end;
        Ok(needles.ends(&self.facts, row).map(stretch).collect())
    }
}

/// A part of a sentence.
#[derive(Debug)]
pub(super) struct Part {
    /// Where it stands in the sentence.
    pub(super) range: Range<usize>,
    /// As it is matched.
    pub(super) normal: String,
}

/// The parts of the sentence `text`: what stands between joints, but for those within a fact, in `form`.
///
/// # Errors
/// Why the facts cannot be searched.
pub(super) fn parts<'a>(
    text: &str,
    form: Form,
    facts: impl Fn() -> &'a Joined,
) -> Result<Vec<Part>, RuleError> {
    let row = form.row(text);
    let joint = |(start, range): &(usize, Range<usize>)| {
        let word = text.get(range.clone())?;
        let is_joint = JOINTS.iter().any(|joint| joint.eq_ignore_ascii_case(word));
        is_joint.then(|| (range.clone(), *start..start + 1 + word.len()))
    };
    let mut joints: Vec<_> = row.words().iter().filter_map(joint).collect();
    let mut found = if joints.is_empty() { Vec::new() } else { facts().found(row.text())? };
    // from the last one on: of the facts that go on behind a joint, does one begin before it?
    let mut begins = usize::MAX;
    joints.reverse();
    joints.retain(|(_, joint)| {
        // a row has a space behind its last word
        while let Some(last) = found.pop_if(|last| last.end > joint.end + 1) {
            begins = begins.min(last.start);
        }
        begins >= joint.start
    });
    let ends = joints.iter().rev().map(|(text, row)| (text.start, row.start));
    let starts = joints.iter().rev().map(|(text, row)| (text.end, row.end));
    let part = |((start, row_start), (end, row_end))| Part {
        range: start..end,
        normal: row.statement(row_start..row_end),
    };
    let (begin, end) = ((0, 0), (text.len(), row.text().len()));
    Ok([begin].into_iter().chain(starts).zip(ends.chain([end])).map(part).collect())
}
