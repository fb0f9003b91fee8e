//! The report of `oraclectl verify-log --replay`.

use crate::base::error::CtlError;
use crate::base::output::format_table;
use domain_audit::replay::{MemberDifference, ReplayOutcome, ReplayedDecision};
use domain_base::count::format_count;
use domain_base::session_id::SessionId;
use domain_base::visible::visible_line;
use domain_verdict::replay::{DecisionReplay, StoredVerdict, read_decision};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write;

/// Maximum number of different decisions that are listed.
const DIFFERENT_MAX: usize = 1000;
/// Maximum length of a value that is shown to people, in characters.
const VALUE_CHARS: usize = 60;

/// A replay in progress, and its report.
pub(super) struct LogReplay {
    replay: DecisionReplay,
    report: ReplayReport,
}

/// The decisions that were computed again.
#[derive(Debug, Default, Serialize)]
pub(super) struct ReplayReport {
    /// The counts by the name of the event.
    events: BTreeMap<&'static str, ReplayCounts>,
    /// The decisions that differ; at most 1,000.
    different: Vec<DifferentDecision>,
    /// The number of further decisions that differ.
    different_omitted: u64,
}

#[derive(Debug, Default, Serialize)]
struct ReplayCounts {
    /// Decisions whose results are all the same.
    reproduced: u64,
    /// Decisions whose results are the same as far as they follow from the available inputs, by the missing input.
    reproduced_in_part: BTreeMap<String, u64>,
    /// Decisions with another result.
    different: u64,
    /// Decisions that cannot be computed, by the missing input.
    not_reproducible: BTreeMap<String, u64>,
}

#[derive(Debug, Serialize)]
struct DifferentDecision {
    seq: u64,
    event: &'static str,
    members: Vec<MemberDifference>,
}

impl LogReplay {
    /// A replay of all entries of a log if `is_whole`, else of some of them.
    pub(super) fn new(is_whole: bool) -> Self {
        Self { replay: DecisionReplay::new(is_whole), report: ReplayReport::default() }
    }

    /// Notes that entries before the next one were dropped.
    pub(super) fn note_dropped(&mut self) {
        self.replay.note_missing_entries();
    }

    /// Replays the entry with this line, if it is a decision. `find_verdict` returns the verdict that is stored with it.
    pub(super) fn add(
        &mut self,
        line: &str,
        find_verdict: impl FnOnce(&SessionId) -> Result<Option<StoredVerdict>, CtlError>,
    ) -> Result<(), CtlError> {
        let unreadable =
            |error| CtlError::Verb { message: format!("{error}"), exit_code: 1, was_printed: false };
        let Some(entry) = read_decision(line).map_err(unreadable)? else { return Ok(()) };
        let stored = entry.session_id().map_or(Ok(None), find_verdict)?;
        for decision in self.replay.add(&entry, stored.as_ref()) {
            self.report.count(decision);
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> ReplayReport {
        for decision in self.replay.finish() {
            self.report.count(decision);
        }
        self.report
    }
}

impl ReplayReport {
    fn count(&mut self, ReplayedDecision { seq, event, outcome }: ReplayedDecision) {
        let counts = self.events.entry(event).or_default();
        match outcome {
            ReplayOutcome::Reproduced => counts.reproduced += 1,
            ReplayOutcome::ReproducedInPart(missing) => {
                *counts.reproduced_in_part.entry(missing.to_string()).or_default() += 1;
            }
            ReplayOutcome::NotReproducible(missing) => {
                *counts.not_reproducible.entry(missing.to_string()).or_default() += 1;
            }
            ReplayOutcome::Different(members) => {
                counts.different += 1;
                if self.different.len() < DIFFERENT_MAX {
                    self.different.push(DifferentDecision { seq, event, members });
                } else {
                    self.different_omitted += 1;
                }
            }
        }
    }

    /// # Errors
    /// `NotReproduced` if a decision differs.
    pub(super) fn check(&self) -> Result<(), CtlError> {
        if self.different.is_empty() { Ok(()) } else { Err(CtlError::NotReproduced) }
    }

    /// Prints the report for people.
    pub(super) fn print(&self, out: &mut dyn Write) -> Result<(), CtlError> {
        if self.events.is_empty() {
            return Ok(writeln!(out, "\nno decisions to replay")?);
        }
        let sum = |by_input: &BTreeMap<String, u64>| by_input.values().sum::<u64>();
        let row = |(event, counts): (&&str, &ReplayCounts)| {
            let numbers = [
                counts.reproduced,
                sum(&counts.reproduced_in_part),
                counts.different,
                sum(&counts.not_reproducible),
            ];
            let [reproduced, in_part, different, not] = numbers.map(|number| number.to_string());
            [(*event).to_owned(), reproduced, in_part, different, not]
        };
        let heading = ["decisions", "reproduced", "in part", "different", "not reproducible"];
        writeln!(out, "\n{}", format_table(heading, self.events.iter().map(row).collect()))?;
        for (event, counts) in &self.events {
            let in_part = counts.reproduced_in_part.iter().map(|found| ("reproduced in part", found));
            let not = counts.not_reproducible.iter().map(|found| ("not reproducible", found));
            for (outcome, (missing, count)) in in_part.chain(not) {
                writeln!(out, "{event}: {count} {outcome}: {}", visible_line(missing))?;
            }
        }
        for DifferentDecision { seq, event, members } in &self.different {
            writeln!(out, "entry {seq}, {event}: different")?;
            for MemberDifference { member, logged, computed } in members {
                let (logged, computed) = (shorten_value(logged), shorten_value(computed));
                let member = visible_line(member);
                writeln!(out, "  {member}: logged {logged}, computed {computed}")?;
            }
        }
        if self.different_omitted > 0 {
            writeln!(out, "{} more", format_count(self.different_omitted, "decision", "decisions"))?;
        }
        Ok(())
    }
}

fn shorten_value(value: &Value) -> String {
    crate::base::output::shorten_line(&value.to_string(), VALUE_CHARS)
}
