//! Claims that are joined by "and", "with" and commas, taken apart: RULE-PREC-006.

use super::claims::Claim;
use super::facts::FactSet;
use super::sentences::claim;
use super::words::{Row, words};
use daachorse::DoubleArrayAhoCorasick;
use std::fmt;
use std::ops::Range;

/// What joins claims. A comma between digits is a part of the number's word, and no joint.
pub(super) const JOINTS: [&str; 3] = ["and", "with", ","];

/// The facts that have joints, ready to be found in claims.
pub(super) struct Joined(Result<Option<DoubleArrayAhoCorasick<u32>>, String>);

impl fmt::Debug for Joined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Joined").finish_non_exhaustive()
    }
}

impl Joined {
    /// Those of `facts`, which are rows of words.
    pub(super) fn of(facts: &FactSet) -> Self {
        let joints = JOINTS.map(|joint| format!(" {joint} "));
        let has_joint = |fact: &&str| joints.iter().any(|joint| fact.contains(joint.as_str()));
        let mut joined: Vec<&str> = facts.normals().filter(has_joint).collect();
        joined.sort_unstable();
        joined.dedup();
        if joined.is_empty() {
            return Self(Ok(None));
        }
        Self(DoubleArrayAhoCorasick::new(joined).map(Some).map_err(|error| error.to_string()))
    }

    /// Where facts with joints stand in `row`, by their ends: of those that end at one place, the longest.
    ///
    /// # Errors
    /// Why the facts cannot be searched.
    fn found(&self, row: &str) -> Result<Vec<Range<usize>>, String> {
        let facts = self.0.as_ref().map_err(Clone::clone)?;
        let found = facts.iter().flat_map(|facts| facts.find_overlapping_no_suffix_iter(row));
        Ok(found.map(|found| found.start()..found.end()).collect())
    }
}

/// The parts of `claim`, whose text as it came is `text`: what stands between joints that lie in no fact.
///
/// # Errors
/// Why the facts cannot be searched.
pub(super) fn parts(whole: &Claim, text: &str, facts: &Joined) -> Result<Vec<Claim>, String> {
    let mut row = Row::default();
    let mut joints = Vec::new();
    for (range, word) in words(text) {
        let start = row.end();
        row.push(word);
        if JOINTS.iter().any(|joint| joint.eq_ignore_ascii_case(word)) {
            joints.push((range, start..row.end()));
        }
    }
    let row = row.into_text();
    let mut found = facts.found(&row)?;
    // from the last one on: what ends behind a joint and begins at or before it covers it
    let mut begins = usize::MAX;
    joints.reverse();
    joints.retain(|(_, joint)| {
        while let Some(last) = found.pop_if(|last| last.end > joint.end) {
            begins = begins.min(last.start);
        }
        begins > joint.start
    });
    let ends = joints.iter().rev().map(|(range, _)| range.start).chain([text.len()]);
    let starts = [0].into_iter().chain(joints.iter().rev().map(|(range, _)| range.end));
    let at = whole.range.start;
    Ok(starts
        .zip(ends)
        .filter_map(|(start, end)| claim(whole.part, text, start..end))
        .map(|part| Claim { range: at + part.range.start..at + part.range.end, ..part })
        .collect())
}
