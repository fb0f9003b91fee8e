//! Finds the log entries from which the delivery of a stored answer follows. Such an answer was held by the policy, or is an opinion of an
//! earlier attempt. Other deliveries need no read of the log: their commit has the judgment, and their submission has the entry of the attempt.

use domain_base::event::{Event, LoggedEvent};
use domain_base::session_id::SessionId;
use domain_verdict::event::{PolicyApplied, TmmCrosscheck};
use domain_verdict::opinion::{OrderOpinion, SealedAnswer};
use domain_verdict::policy::HeldVerdict;
use oracled_store::{EvidenceEntry, LogLine, LogQuery, Store, StoreError};

/// The entries from which a held verdict follows. `revision` is that of its row. Entries that the log has dropped are missing.
pub(crate) fn evidence_of_held(
    store: &Store,
    held: &HeldVerdict,
    revision: u64,
) -> Result<Vec<EvidenceEntry>, StoreError> {
    let evidence = evidence_in(store, &lines_of(store, &held.session_id)?)?;
    let mut found = evidence.clone();
    found.retain(|entry| held.evidence.contains(&entry.seq()));
    let of_commit = judged_up_to(&evidence, revision);
    // if the answer is of an earlier attempt, the commit judges another answer before it applies the policy
    let is_judged_before = found.iter().any(is_crosscheck);
    let is_other = |entry: &EvidenceEntry| is_judged_before && entry.event() != PolicyApplied::NAME;
    found.extend(of_commit.into_iter().skip_while(is_other));
    Ok(found)
}

/// The entries from which an answer that became an opinion follows; `None` if the log has dropped the entry of the opinion.
pub(crate) fn evidence_of_answer(
    store: &Store,
    session_id: &SessionId,
    answer: &SealedAnswer,
) -> Result<Option<Vec<EvidenceEntry>>, StoreError> {
    let lines = lines_of(store, session_id)?;
    let is_its_opinion = |line: &&LogLine| {
        let opinion = LoggedEvent::<OrderOpinion>::read(&line.json);
        matches!(opinion, Ok(Some(opinion)) if opinion.event.attempt == answer.attempt)
    };
    let Some(opinion) = lines.iter().rfind(is_its_opinion) else { return Ok(None) };
    let evidence = evidence_in(store, &lines)?;
    let attempt = evidence.iter().find(|entry| Some(entry.seq()) == answer.attempt_seq).cloned();
    Ok(Some(attempt.into_iter().chain(judged_up_to(&evidence, opinion.seq)).collect()))
}

/// The evidence of one commit, up to its entry `last`. In a commit with a judgment, the crosscheck is the first evidence.
fn judged_up_to(evidence: &[EvidenceEntry], last: u64) -> Vec<EvidenceEntry> {
    let mut judged: Vec<_> = evidence.iter().filter(|entry| entry.seq() <= last).cloned().collect();
    let begin = judged.iter().rposition(is_crosscheck).unwrap_or(judged.len());
    judged.split_off(begin)
}

fn is_crosscheck(entry: &EvidenceEntry) -> bool {
    entry.event() == TmmCrosscheck::NAME
}

fn lines_of(store: &Store, session_id: &SessionId) -> Result<Vec<LogLine>, StoreError> {
    store.log(&LogQuery { session: Some(session_id.clone()), limit: usize::MAX, ..LogQuery::default() })
}

fn evidence_in(store: &Store, lines: &[LogLine]) -> Result<Vec<EvidenceEntry>, StoreError> {
    lines.iter().filter_map(|line| store.evidence(line).transpose()).collect()
}
