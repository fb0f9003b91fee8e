//! Builds the index from statements to entries of evaluations from the log.

use domain_audit::event::{ErasureStarted, SessionsExpired};
use domain_base::digest::Sha256Hex;
use domain_base::event::{Event, event_in, read_open};
use domain_base::session_id::SessionId;
use domain_rules::event::RulesEvaluated;
use domain_verdict::event::{SessionRemoved, VerdictCached};
use domain_verdict::recall::{LoggedReferences, STATEMENTS, UnknownCause};
use oracled_store::{LogLine, LogQuery, PostingsChange, Store, StoreError};
use serde::{Deserialize, Deserializer};
use std::collections::HashMap;

/// The most entries, and the most additions to the index, that are applied at a time.
const STEP_ENTRIES: u64 = 200_000;
const STEP_ADDITIONS: usize = 50_000;
/// The number of entries that are read at a time.
const PAGE_ENTRIES: usize = 20_000;
/// The number of entries after an evaluation after which it is looked up in the log.
const RECORD_ENTRIES: u64 = 64;

/// Builds the index from the log.
#[derive(Debug, Default)]
pub(super) struct StatementIndexer {
    /// Whether the index was compared with the log since the start.
    is_verified: bool,
    /// The last entry that it has applied.
    applied: u64,
    /// The last evaluation of each session whose verdict is not delivered yet. Others are in the log.
    pending: HashMap<SessionId, LoggedReferences>,
}

/// The members of an entry `verdict_cached` that name the evaluation that permitted the delivery.
#[derive(Deserialize)]
struct DeliveryMembers {
    #[serde(default, deserialize_with = "read_open")]
    session_id: Option<SessionId>,
    /// `None`: it was delivered without facts. `Some(None)`: erased.
    #[serde(default, deserialize_with = "read_present")]
    evaluation_sha256: Option<Option<Sha256Hex>>,
}

fn read_present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<Sha256Hex>>, D::Error> {
    read_open(deserializer).map(Some)
}

impl StatementIndexer {
    /// Applies the next entries that the index lacks, if there are any. Returns the last applied entry.
    pub(super) fn apply_step(&mut self, store: &Store) -> Result<u64, StoreError> {
        let postings = store.postings(STATEMENTS);
        if !self.is_verified {
            postings.verify()?;
            self.is_verified = true;
        }
        let applied = postings.applied()?;
        if applied != self.applied {
            // after a start, or with a database that was built again
            *self = Self { is_verified: true, applied, ..Self::default() };
        }
        let last = store.last_seq().min(applied + STEP_ENTRIES);
        let mut change = PostingsChange { up_to: applied, ..PostingsChange::default() };
        let mut additions = 0;
        while change.up_to < last && additions < STEP_ADDITIONS {
            let after = change.up_to;
            let query =
                LogQuery { after, limit: PAGE_ENTRIES, skips_unreadable: true, ..LogQuery::default() };
            let page = store.log_page(&query)?;
            let mut unreadable = page.unreadable;
            for line in &page.lines {
                match self.read(store, line, &mut change) {
                    Err(error) if error.is_of_one_row() => unreadable.push(line.seq),
                    read => additions += read?,
                }
                change.up_to = line.seq;
            }
            if page.lines.is_empty() && unreadable.is_empty() && page.next.is_none() {
                break;
            }
            change.up_to = unreadable.iter().copied().fold(change.up_to, u64::max);
            additions += unreadable.len();
            note_unreadable(unreadable, &mut change);
        }
        if change.up_to > applied {
            self.applied = change.up_to;
            postings.apply(change)?;
        }
        Ok(self.applied)
    }

    /// Adds the changes that an entry causes. Returns the number of additions.
    fn read(
        &mut self,
        store: &Store,
        line: &LogLine,
        change: &mut PostingsChange,
    ) -> Result<usize, StoreError> {
        match event_in(&line.json) {
            Some(RulesEvaluated::NAME) => {
                if let Some(references) = read_references(store, line)? {
                    self.note_evaluation(references);
                }
                Ok(0)
            }
            Some(VerdictCached::NAME) => {
                let DeliveryMembers { session_id: Some(session_id), evaluation_sha256: Some(sha256) } =
                    store.parse_entry(line)?
                else {
                    return Ok(0);
                };
                // with several opinions, the delivered one is seldom the last
                let pending =
                    self.pending.remove(&session_id).filter(|pending| pending.may_be(sha256.as_ref()));
                let evaluation = match pending {
                    Some(pending) => Some(pending),
                    None => find_evaluation(store, session_id, line.seq, sha256.as_ref())?,
                };
                let Some(LoggedReferences { seq, names, .. }) = evaluation else { return Ok(0) };
                let additions = names.len();
                for name in names {
                    change.added.entry(name).or_default().insert(seq);
                }
                Ok(additions)
            }
            Some(SessionRemoved::NAME | ErasureStarted::NAME | SessionsExpired::NAME) => {
                for session_id in removed_sessions(store, line)? {
                    self.pending.remove(&session_id);
                    for LoggedReferences { seq, names, .. } in evaluations(store, session_id, line.seq)? {
                        for name in names {
                            change.removed.entry(name).or_default().insert(seq);
                        }
                    }
                }
                Ok(0)
            }
            _ => Ok(0),
        }
    }

    /// Notes an evaluation. If the verdict is delivered, that is most often the next entry.
    fn note_evaluation(&mut self, references: LoggedReferences) {
        if references.is_passed {
            self.pending.insert(references.session_id.clone(), references);
        }
        if self.pending.len() > PAGE_ENTRIES {
            let newest = self.pending.values().map(|pending| pending.seq).max().unwrap_or_default();
            self.pending.retain(|_, pending| pending.seq + RECORD_ENTRIES > newest);
        }
    }
}

/// Notes entries that cannot be read: on which statements the verdicts of these entries relied is not known.
fn note_unreadable(entries: Vec<u64>, change: &mut PostingsChange) {
    if let (Some(first), count) = (entries.first(), entries.len()) {
        tracing::error!(
            first,
            count,
            "the index of recalls leaves out entries of the log that cannot be read"
        );
        change.added.entry(UnknownCause::Damaged.name(None)).or_default().extend(entries);
    }
}

fn read_references(store: &Store, line: &LogLine) -> Result<Option<LoggedReferences>, StoreError> {
    store.read_entry(line, LoggedReferences::read)
}

/// The evaluations of a session before the entry `before`. Those that cannot be read are left out: they were noted as such.
fn evaluations(
    store: &Store,
    session_id: SessionId,
    before: u64,
) -> Result<Vec<LoggedReferences>, StoreError> {
    let events = vec![RulesEvaluated::NAME.to_owned()];
    let limit = usize::MAX;
    let query =
        LogQuery { session: Some(session_id), events, limit, skips_unreadable: true, ..LogQuery::default() };
    let lines = store.log(&query)?;
    let earlier = lines.iter().take_while(|line| line.seq < before);
    Ok(earlier.filter_map(|line| read_references(store, line).ok().flatten()).collect())
}

/// The last evaluation of a session before the entry `before` that may have permitted a delivery with this digest.
fn find_evaluation(
    store: &Store,
    session_id: SessionId,
    before: u64,
    sha256: Option<&Sha256Hex>,
) -> Result<Option<LoggedReferences>, StoreError> {
    let mut evaluations = evaluations(store, session_id, before)?;
    evaluations.retain(|evaluation| evaluation.is_passed && evaluation.may_be(sha256));
    Ok(evaluations.pop())
}

/// The session of an entry; `None` if it is erased.
pub(super) fn session_of(store: &Store, line: &LogLine) -> Result<Option<SessionId>, StoreError> {
    #[derive(Deserialize)]
    struct SessionMember {
        #[serde(default, deserialize_with = "read_open")]
        session_id: Option<SessionId>,
    }
    Ok(store.parse_entry::<SessionMember>(line)?.session_id)
}

/// The sessions whose rows an entry removes.
fn removed_sessions(store: &Store, line: &LogLine) -> Result<Vec<SessionId>, StoreError> {
    #[derive(Deserialize)]
    struct SessionMembers {
        #[serde(default, deserialize_with = "read_open")]
        session_id: Option<SessionId>,
        #[serde(default, deserialize_with = "read_open")]
        session_ids: Option<Vec<SessionId>>,
    }
    let SessionMembers { session_id, session_ids } = store.parse_entry(line)?;
    Ok(session_id.into_iter().chain(session_ids.into_iter().flatten()).collect())
}
