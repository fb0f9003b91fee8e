//! The replay of decisions of verification.

use crate::event::{SourceAsked, SourceCallEntry, VerificationDecided, VerificationEntry};
use crate::{AxisReason, DecisionInputs, Envelope, EnvelopeKind, ReviewCase, decide};
use domain_audit::leaf::{LogLineError, hidden_members};
use domain_audit::replay::{
    LoggedDecision, MemberDifference, MissingInput, ReplayOutcome, ReplayStop, ReplayedDecision,
};
use domain_base::caller::RequestOwner;
use domain_base::event::Event;
use domain_base::session_id::ApplicationName;
use domain_ground::id::WorkflowId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The entries of the verification that is being replayed. Its calls are logged before the decision, and its review after it.
#[derive(Debug, Default)]
pub struct VerificationHistory {
    /// The lines of calls whose decision follows.
    calls: Vec<String>,
    /// The last decision.
    decision: Option<Box<(DecisionInputs, Envelope)>>,
}

impl VerificationHistory {
    /// Keeps a call until its decision. Returns earlier calls that have none.
    pub fn add_call(&mut self, entry: &LoggedDecision<'_>) -> Vec<ReplayedDecision> {
        let execution_id = |line: &str| {
            LoggedDecision::read(line, &[SourceAsked::NAME]).ok()?.map(|call| call.value("execution_id"))
        };
        let is_next = self.calls.last().is_some_and(|last| execution_id(last) != execution_id(entry.line));
        let ended = if is_next { self.end_calls() } else { Vec::new() };
        self.calls.push(entry.line.to_owned());
        ended
    }

    /// Ends the calls that have no decision.
    pub fn end_calls(&mut self) -> Vec<ReplayedDecision> {
        let calls = std::mem::take(&mut self.calls);
        let ended = |line: &String| {
            let call = LoggedDecision::read(line, &[SourceAsked::NAME]).ok()??;
            Some(replayed(&call, ReplayOutcome::NotReproducible(MissingInput::OtherEntries)))
        };
        calls.iter().filter_map(ended).collect()
    }

    /// Replays a decision and its calls.
    pub fn decide(&mut self, entry: &LoggedDecision<'_>, is_whole: bool) -> Vec<ReplayedDecision> {
        self.decision = None;
        let calls = std::mem::take(&mut self.calls);
        let calls: Vec<_> = calls
            .iter()
            .filter_map(|line| LoggedDecision::read(line, &[SourceAsked::NAME]).ok().flatten())
            .collect();
        let (decision, mut differences) = match decide_again(entry) {
            Ok(decided) => decided,
            Err(stop) => {
                let outcome = ReplayOutcome::from(stop);
                let of_calls = match &outcome {
                    ReplayOutcome::NotReproducible(_) => outcome.clone(),
                    _ => ReplayOutcome::NotReproducible(MissingInput::OtherEntries),
                };
                let calls = calls.iter().map(|call| replayed(call, of_calls.clone()));
                return calls.chain([replayed(entry, outcome)]).collect();
            }
        };
        let (inputs, envelope) = &*decision;
        let expected = SourceCallEntry::all(inputs, envelope);
        if is_whole && calls.len() < expected.len() {
            differences.push(MemberDifference {
                member: "source_asked".to_owned(),
                logged: calls.len().into(),
                computed: expected.len().into(),
            });
        }
        let mut found = replay_calls(&calls, &expected, inputs);
        found.push(replayed(entry, ReplayOutcome::of(differences, None)));
        self.decision = Some(decision);
        found
    }

    pub fn review(&self, entry: &LoggedDecision<'_>) -> Result<ReplayOutcome, ReplayStop> {
        entry.require(&["review"])?;
        let review_id: String = entry.read_member("review_id")?;
        let decision = self.decision.as_ref().filter(|decision| decision.0.execution_id == review_id);
        let Some((inputs, envelope)) = decision.map(|decision| &**decision) else {
            return Ok(ReplayOutcome::NotReproducible(MissingInput::OtherEntries));
        };
        let review = ReviewCase::of(inputs, envelope);
        Ok(ReplayOutcome::of(entry.compare(&json!({ "review": review })), None))
    }
}

/// A decision that was made again, and its differences from the logged one.
type DecisionAgain = (Box<(DecisionInputs, Envelope)>, Vec<MemberDifference>);

fn decide_again(entry: &LoggedDecision<'_>) -> Result<DecisionAgain, ReplayStop> {
    entry.require(&["envelope_sha256", "envelope", "inputs"])?;
    let inputs: DecisionInputs = entry.read_member("inputs")?;
    let envelope = decide(&inputs);
    let differences = entry.compare(&json!({
        "execution_id": envelope.execution_id, "workflow_id": envelope.workflow, "kind": envelope.kind,
        "reasons": envelope.reasons, "envelope_sha256": envelope.sha256, "envelope": envelope,
    }));
    Ok((Box::new((inputs, envelope)), differences))
}

/// Compares the calls with the expected ones, which come last. The earlier ones are of sources that were queried again.
fn replay_calls(
    calls: &[LoggedDecision<'_>],
    expected: &[SourceCallEntry],
    inputs: &DecisionInputs,
) -> Vec<ReplayedDecision> {
    let (earlier, last) = calls.split_at(calls.len().saturating_sub(expected.len()));
    let earlier = earlier.iter().map(|call| {
        let outcome = if inputs.reverified {
            ReplayOutcome::NotReproducible(MissingInput::ReplacedAnswer)
        } else {
            let (member, logged) = ("oracle_id".to_owned(), call.value("oracle_id"));
            ReplayOutcome::Different(vec![MemberDifference { member, logged, computed: Value::Null }])
        };
        replayed(call, outcome)
    });
    let expected = expected.iter().skip(expected.len() - last.len());
    let last = last.iter().zip(expected).map(|(call, expected)| {
        let hidden = call.is_hidden("response_hash").then(|| call.missing_values(["response_hash"]));
        replayed(call, ReplayOutcome::of(call.compare_all(expected), hidden))
    });
    earlier.chain(last).collect()
}

fn replayed(entry: &LoggedDecision<'_>, outcome: ReplayOutcome) -> ReplayedDecision {
    ReplayedDecision { seq: entry.seq, event: entry.event, outcome }
}

/// Whether entries of this kind continue the calls of a verification.
pub fn continues_calls(event: &str) -> bool {
    [SourceAsked::NAME, VerificationDecided::NAME].contains(&event)
}

/// The decisions of an execution in the log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoggedExecution {
    /// The owner; `None` if it is not known or was erased, so that only operators may read the decisions.
    pub owner: Option<RequestOwner>,
    /// The decisions, in their order.
    pub decisions: Vec<LoggedVerification>,
}

impl LoggedExecution {
    /// Reads the lines of the entries, in the order of the log.
    ///
    /// # Errors
    /// A line is not the entry of a decision.
    pub fn read<'l>(lines: impl IntoIterator<Item = &'l str>) -> Result<Self, LogLineError> {
        let mut execution = Self::default();
        for line in lines {
            execution.decisions.push(LoggedVerification::read(line)?);
            execution.owner = execution.owner.or(read_owner(line)?);
        }
        Ok(execution)
    }
}

/// The owner in the entry of a decision: that of its inputs, or else its caller.
fn read_owner(line: &str) -> Result<Option<RequestOwner>, LogLineError> {
    // each value can be a hash instead, which has none of these members
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Inputs {
        owner: Option<RequestOwner>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Caller {
        application: Option<ApplicationName>,
        uid: Option<u32>,
    }
    #[derive(Deserialize)]
    struct Members {
        #[serde(default)]
        inputs: Inputs,
        #[serde(default)]
        caller: Caller,
    }
    let Members { inputs, caller } = serde_json::from_str(line)?;
    let (application, uid) = inputs.owner.map(|owner| (owner.application, owner.uid)).unzip();
    let uid = uid.flatten().or(caller.uid);
    Ok(application.or(caller.application).map(|application| RequestOwner { application, uid }))
}

/// The log entry of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoggedVerification {
    Whole(Box<VerificationEntry>),
    Erased(ErasedVerification),
}

/// A decision that cannot be shown or computed again, because values of its log entry were erased.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ErasedVerification {
    /// The number of the log entry.
    pub seq: u64,
    /// The execution id of the decision.
    pub execution_id: String,
    /// The workflow.
    pub workflow_id: WorkflowId,
    /// The time of the decision.
    pub timestamp: Timestamp,
    /// The kind of the envelope.
    pub kind: EnvelopeKind,
    /// The reasons why axes have no value; empty if all axes have one.
    pub reasons: BTreeSet<AxisReason>,
    /// The members of the log entry whose values were erased: `envelope`, `inputs` and others.
    #[serde(default)]
    pub erased: Vec<String>,
}

impl LoggedVerification {
    /// Reads the line of an entry.
    ///
    /// # Errors
    /// The line is not the entry of a decision.
    pub fn read(line: &str) -> Result<Self, LogLineError> {
        let hidden = hidden_members(line)?;
        let is_needed = |member: &String| VerificationDecided::ERASABLE.contains(&&**member);
        let erased: Vec<_> = hidden.into_iter().filter(is_needed).collect();
        if erased.is_empty() {
            return Ok(Self::Whole(serde_json::from_str(line)?));
        }
        let entry: ErasedVerification = serde_json::from_str(line)?;
        Ok(Self::Erased(ErasedVerification { erased, ..entry }))
    }

    /// The entry, if it has all values.
    #[must_use]
    pub fn into_whole(self) -> Option<VerificationEntry> {
        match self {
            Self::Whole(entry) => Some(*entry),
            Self::Erased(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide;
    use crate::tests::support::{answers, inputs, now, workflow};
    use domain_audit::leaf::{CALLER, EntryAdditions, EntrySalts, entry_text, hide_values};
    use domain_base::event::AuditEvent;
    use domain_ground::source::OracleTier::Primary;
    use serde_json::json;

    #[test]
    fn decision_without_its_values_names_the_erased_members() {
        let mut inputs = inputs(workflow(&["dose"], &["lab-a"], json!({})), &["dose"], json!({}));
        answers(&mut inputs, "lab-a", Primary, &[("dose", "10")]);
        let entry = VerificationEntry::of(inputs.clone(), &decide(&inputs));
        let event = AuditEvent::new(now(), None, VerificationDecided(entry.clone()));
        let line = entry_text(
            7,
            &event,
            EntryAdditions::default(),
            &EntrySalts { secret: [7; 16], covers_session_ids: false },
        )
        .line;
        let whole = LoggedVerification::read(&line).expect("a decision");
        assert_eq!(whole.into_whole(), Some(entry.clone()));
        let without_caller = hide_values(&line, |member| member == CALLER).expect("an entry");
        assert!(matches!(LoggedVerification::read(&without_caller), Ok(LoggedVerification::Whole(_))));
        for hidden in [&["inputs"][..], &["envelope_sha256", "envelope", "inputs"]] {
            let line = hide_values(&line, |member| hidden.contains(&member)).expect("an entry");
            let erased = LoggedVerification::read(&line).expect("a decision");
            let expected = ErasedVerification {
                seq: 7,
                execution_id: entry.execution_id.clone(),
                workflow_id: entry.workflow_id.clone(),
                timestamp: now(),
                kind: entry.kind,
                reasons: entry.reasons.clone(),
                erased: hidden.iter().map(|member| (*member).to_owned()).collect(),
            };
            assert_eq!(erased, LoggedVerification::Erased(expected));
        }
    }

    #[test]
    fn owner_is_that_of_the_inputs_or_else_the_caller() {
        let shop = json!({"application": "shop"});
        let caller = json!({"application": "default", "uid": 7, "gid": 7, "pid": null, "request_id": "r1"});
        let hidden = json!({"sha256": "0".repeat(64)});
        let operator = json!({"uid": 7, "gid": 7, "pid": null, "request_id": "r1"});
        let owner = |inputs: &Value, caller: &Value| {
            let line = json!({"seq": 1, "inputs": inputs, "caller": caller}).to_string();
            read_owner(&line).expect("an entry").map(|owner| (owner.application.to_string(), owner.uid))
        };
        let of_shop = json!({"owner": shop});
        assert_eq!(owner(&of_shop, &hidden), Some(("shop".to_owned(), None)));
        assert_eq!(owner(&of_shop, &caller), Some(("shop".to_owned(), Some(7))));
        for inputs in [&json!({}), &hidden] {
            assert_eq!(owner(inputs, &caller), Some(("default".to_owned(), Some(7))));
            assert_eq!((owner(inputs, &hidden), owner(inputs, &operator)), (None, None));
        }
        assert_eq!(read_owner("{}").expect("an entry"), None);
    }
}
