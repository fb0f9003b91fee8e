//! The replay of decisions: each logged decision is computed again from its inputs, and compared.
//!
//! The inputs are in the log, except for texts: those of delivered verdicts, with their facts, are stored beside it. If an input
//! is missing, the outcome names it.

mod verdicts;

pub use verdicts::StoredVerdict;

use crate::event::{
    InfrastructureVariance, PolicyApplied, RegenDivergenceCheck, TmmCrosscheck, VerdictCached,
};
use domain_audit::leaf::LogLineError;
use domain_audit::replay::{LoggedDecision, ReplayOutcome, ReplayedDecision};
use domain_base::event::Event;
use domain_rules::event::RulesEvaluated;
use domain_verification::event::{ReviewOpened, SourceAsked, VerificationDecided};
use domain_verification::replay::{VerificationHistory, continues_calls};
use verdicts::{VerdictHistory, replay_rules};

/// The events that are decisions, which are computed again.
const REPLAYED: &[&str] = &[
    TmmCrosscheck::NAME,
    RulesEvaluated::NAME,
    PolicyApplied::NAME,
    VerdictCached::NAME,
    RegenDivergenceCheck::NAME,
    InfrastructureVariance::NAME,
    SourceAsked::NAME,
    VerificationDecided::NAME,
    ReviewOpened::NAME,
];

/// The entry with this line; `None` if it is no decision.
///
/// # Errors
/// The line is not an entry.
pub fn read_decision(line: &str) -> Result<Option<LoggedDecision<'_>>, LogLineError> {
    LoggedDecision::read(line, REPLAYED)
}

/// The replay of the decisions of a log, in their order.
#[derive(Debug)]
pub struct DecisionReplay {
    /// Whether all entries of the log are replayed.
    is_whole: bool,
    verdicts: VerdictHistory,
    verifications: VerificationHistory,
}

impl DecisionReplay {
    /// A replay of all decisions of a log if `is_whole`, else of some of them.
    #[must_use]
    pub fn new(is_whole: bool) -> Self {
        Self { is_whole, verdicts: VerdictHistory::default(), verifications: VerificationHistory::default() }
    }

    /// Notes that entries before the next one are missing.
    pub fn note_missing_entries(&mut self) {
        self.is_whole = false;
    }

    /// Replays the next decision. `stored` is the verdict that its session had after the commit of the decision. Calls of
    /// sources are replayed with the decision that follows from them.
    pub fn add(
        &mut self,
        entry: &LoggedDecision<'_>,
        stored: Option<&StoredVerdict>,
    ) -> Vec<ReplayedDecision> {
        let mut replayed =
            if continues_calls(entry.event) { Vec::new() } else { self.verifications.end_calls() };
        let outcome = match entry.event {
            SourceAsked::NAME => {
                replayed.extend(self.verifications.add_call(entry));
                return replayed;
            }
            VerificationDecided::NAME => {
                replayed.extend(self.verifications.decide(entry, self.is_whole));
                return replayed;
            }
            TmmCrosscheck::NAME => self.verdicts.crosscheck(entry, stored),
            RulesEvaluated::NAME => replay_rules(entry, stored),
            PolicyApplied::NAME => self.verdicts.policy(entry),
            VerdictCached::NAME => self.verdicts.cached(entry, stored),
            RegenDivergenceCheck::NAME => self.verdicts.divergence(entry, stored),
            InfrastructureVariance::NAME => self.verdicts.variance(entry),
            _ => self.verifications.review(entry),
        };
        let outcome = outcome.unwrap_or_else(ReplayOutcome::from);
        replayed.push(ReplayedDecision { seq: entry.seq, event: entry.event, outcome });
        replayed
    }

    /// Ends the replay. Returns the calls whose decision is missing.
    pub fn finish(mut self) -> Vec<ReplayedDecision> {
        self.verifications.end_calls()
    }
}

#[cfg(test)]
mod tests;
