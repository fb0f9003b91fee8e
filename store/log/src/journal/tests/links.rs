//! The links between the entries of a delivery.

use super::{at, delivered, fill, id, open, whole_log};
use crate::audit::log::{EvidenceEntry, LogLine};
use crate::base::engine::TableReader;
use crate::journal::{CommitReceipt, JournalRecord, RecordRejectedError};
use domain_audit::leaf::{EntryLink, leaf_of};
use domain_audit::log_tree::leaf_hash;
use domain_base::digest::Sha256Hex;
use domain_base::event::AuditEvent;
use domain_base::gate_path::GatePath;
use domain_verdict::divergence::{DivergenceCheck, RegeneratedVerdict};
use domain_verdict::event::{OrderStopped, RegenDivergenceCheck};
use domain_verdict::label::{ProductTier, VerdictLabel};
use domain_verdict::order::{Order, OrderStopCause};
use serde::Deserialize;

#[derive(Deserialize)]
struct Linked {
    #[serde(default)]
    links: Vec<EntryLink>,
}

pub(crate) fn links_of(line: &LogLine) -> Vec<EntryLink> {
    serde_json::from_str::<Linked>(&line.json).expect("an entry").links
}

/// The links to these entries, computed from the lines of the log.
pub(crate) fn links_to(log: &[LogLine], numbers: &[u64]) -> Vec<EntryLink> {
    let named = log.iter().filter(|line| numbers.contains(&line.seq));
    let link = |line: &LogLine| EntryLink {
        seq: line.seq,
        leaf_sha256: Sha256Hex::from_bytes(&leaf_hash(leaf_of(&line.json).expect("an entry").as_bytes())),
    };
    named.map(link).collect()
}

fn line(log: &[LogLine], seq: u64) -> &LogLine {
    log.iter().find(|line| line.seq == seq).expect("the log has it")
}

/// The record of a stopped order: evidence of session `n` that is committed before its delivery.
pub(crate) fn stopped(n: usize) -> JournalRecord {
    let stopped = OrderStopped::without_operator(&Order::placed(at(0)), OrderStopCause::Policy);
    AuditEvent::new(at(0), id(n), stopped).into()
}

fn compared(n: usize) -> AuditEvent {
    let regenerated = RegeneratedVerdict {
        tier: ProductTier::Quick,
        label: VerdictLabel::Green,
        path: GatePath::Regen,
        prompt: None,
        settings: None,
    };
    AuditEvent::new(at(0), id(n), RegenDivergenceCheck(DivergenceCheck::of(None, &regenerated)))
}

/// The delivery to session `n`, which names `evidence`, and its comparison.
pub(crate) fn delivered_after(n: usize, evidence: Vec<EvidenceEntry>) -> JournalRecord {
    let mut record = JournalRecord { evidence, ..delivered(n, 40) };
    record.events.push(compared(n));
    record
}

fn only(outcomes: Vec<Result<CommitReceipt, RecordRejectedError>>) -> CommitReceipt {
    outcomes.into_iter().next().expect("an outcome").expect("the record is accepted")
}

fn read_evidence(store: &TableReader, seq: u64) -> Option<EvidenceEntry> {
    store.evidence(line(&whole_log(store), seq)).expect("an entry")
}

#[test]
fn delivery_names_the_evidence_of_its_record_and_of_earlier_ones() {
    for covers_session_ids in [false, true] {
        let dir = tempfile::tempdir().expect("a directory");
        let (mut journal, store) = open(dir.path());
        if covers_session_ids {
            journal.cover_session_ids();
        }
        fill(&mut journal, 0..2);
        let attempt = only(journal.commit(&[stopped(7)]).expect("it commits"));
        assert_eq!((attempt.first_seq, attempt.evidence.len()), (5, 1));
        // the receipt and the log have the same
        assert_eq!(read_evidence(&store, 5).as_ref(), attempt.evidence.first());
        // in a group of several records
        let group = [delivered(8, 40), stopped(9), delivered_after(7, attempt.evidence)];
        for outcome in journal.commit(&group).expect("it commits") {
            outcome.expect("it is accepted");
        }
        let log = whole_log(&store);
        // a delivery without earlier commits names the crosscheck of its own one
        assert_eq!(links_of(line(&log, 7)), links_to(&log, &[6]));
        assert_eq!(links_of(line(&log, 10)), links_to(&log, &[5, 9]));
        assert_eq!(links_of(line(&log, 11)), links_to(&log, &[10]));
        for seq in [5, 6, 8, 9] {
            assert!(links_of(line(&log, seq)).is_empty(), "{seq}");
        }
        assert_eq!(line(&log, 10).json.contains(r#""links":""#), covers_session_ids, "it has a salt");
        assert_eq!(read_evidence(&store, 10), None, "a delivery is no evidence");
    }
}

#[test]
fn judgment_of_another_answer_in_the_record_is_not_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store) = open(dir.path());
    let kept = JournalRecord { events: delivered(7, 20).events[..1].to_vec(), ..JournalRecord::default() };
    let kept = only(journal.commit(&[stopped(7), kept]).expect("it commits"));
    let first = [kept.evidence, vec![read_evidence(&store, 2).expect("a crosscheck")]].concat();
    only(journal.commit(&[delivered_after(7, first)]).expect("it commits"));
    let log = whole_log(&store);
    assert_eq!(links_of(line(&log, 4)), links_to(&log, &[1, 2]), "entry 3 is about another text");
}

#[test]
fn entry_of_another_session_or_of_another_log_is_not_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store) = open(dir.path());
    fill(&mut journal, 0..4);
    let of_other = only(journal.commit(&[stopped(7)]).expect("it commits")).evidence;
    let outcomes = journal.commit(&[delivered_after(8, of_other.clone()), stopped(8)]).expect("it answers");
    assert!(matches!(outcomes[..], [Err(RecordRejectedError::ForeignEvidence(9)), Ok(_)]), "{outcomes:?}");
    assert_eq!(whole_log(&store).len(), 10, "no part of the record was applied");
    // a shorter log has no entry of the number
    let other = tempfile::tempdir().expect("a directory");
    let (mut journal, _store) = open(other.path());
    let outcomes = journal.commit(&[delivered_after(7, of_other)]).expect("it answers");
    assert!(matches!(outcomes[..], [Err(RecordRejectedError::ForeignEvidence(9))]), "{outcomes:?}");
}
