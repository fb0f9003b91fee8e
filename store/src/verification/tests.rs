use super::*;
use crate::testing::{at, open, options};
use crate::{
    ErasureStep, Journal, JournalRecord, RecordRejectedError, RemovalPlan, RowExpectation, RowName, RowWrite,
    Store, StoreOptions,
};
use domain_audit::event::ServiceStopped;
use domain_base::caller::PeerCredentials;
use domain_base::document::RegisteredDocument;
use domain_base::event::AuditEvent;
use domain_ground::ontology::Ontology;
use domain_ground::source::OracleTier;
use domain_verdict::session::RejectingCheck;
use domain_verification::adapter::Adapter;
use domain_verification::event::{
    ResolutionEntry, ReviewEntry, ReviewOpened, ReviewResolved, SourceAsked, SourceCallEntry,
    VerificationDecided, VerificationEntry,
};
use domain_verification::replay::LoggedVerification;
use domain_verification::review::{DismissalRecord, ResolutionRecord, ReviewState, Verifier};
use domain_verification::workflow::Workflow;
use domain_verification::{
    CachedAnswer, CandidateAnswer, DecisionInputs, OracleCall, OracleReply, ReviewCase, ReviewResolution,
    SubjectState, VerifyRequest, decide,
};
use serde_json::{Value as Json, json};
use std::path::Path;
use std::sync::Arc;

const REVIEWER: Verifier<'_> = Verifier { id: "1", name: Some("anna") };
const PEER: PeerCredentials = PeerCredentials { uid: 1, gid: 2, pid: None };

fn read<T: serde::de::DeserializeOwned>(document: Json) -> T {
    serde_json::from_value(document).expect("a document")
}

fn ontology() -> Ontology {
    read(json!({"ontology_id": "clinic", "version": "1", "axes": [
        {"axis": "patient", "type": "string", "class": "measured", "identity": true, "description": "whom"},
        {"axis": "dose", "type": "number", "class": "measured", "unit": "mg", "precision": 1, "description": "it"},
        {"axis": "note", "type": "string", "class": "self_reported", "description": "what is said"},
    ]}))
}

fn workflow(workflow_id: &str) -> Workflow {
    read(json!({
        "workflow_id": workflow_id, "domain": "clinic", "ontology": {"ontology_id": "clinic", "version": "1"},
        "axes": ["dose", "note"], "oracles": ["lab-a", "lab-b"],
        "conflict_resolution": {"escalation_delta_threshold": "0.50"},
        "oracle_latency": {"on_timeout": "FAIL_CLOSED_BLOCK"},
        "authority_latency": {"authority_latency_budget_ms": 6000, "enforcement_mode": "INLINE",
                              "on_timeout_behavior": "FAIL_CLOSED"}
    }))
}

fn registered(workflow_id: &str) -> RegisteredDocument<Workflow> {
    RegisteredDocument::new(workflow(workflow_id), at(0), "uid 1".into())
}

fn adapter() -> RegisteredDocument<Adapter> {
    let adapter: Adapter = read(json!({
        "oracle_id": "lab-a", "endpoint": "https://lab.example/{patient}", "records": "/data",
        "normalization": {
            "normalizer_id": "n", "source_schema_id": "s", "target_ontology_id": "clinic",
            "axis_mappings": [{"source_field": "dose", "target_axis": "dose", "cardinality": "one_to_one",
                               "required": true, "default_value": 1.5}],
        },

    }));
    RegisteredDocument::new(adapter, at(0), "uid 1".into())
}

fn candidate(oracle_id: &str, dose: &str, note: &str, second: i64) -> CandidateAnswer {
    let fresh = |axis: &str| {
        json!({"axis": axis, "age_seconds": 1, "max_age_seconds": 9, "stale": false,
               "stale_behavior": "fail_closed"})
    };
    read(json!({
        "where": {"patient": "p-1"},
        "values": {"dose": {"value": dose}, "note": {"value": note, "definition": "by word of mouth"}},
        "record": {
            "oracle_id": oracle_id, "oracle_tier": "primary", "source_locator": format!("oracle:{oracle_id}"),
            "source_version": "7", "retrieved_at": at(second), "verified_at": at(second),
            "verification_method": "controlled ingestion", "verifier_id": "oracled"
        },
        "observed_at": at(second), "freshness": [fresh("dose"), fresh("note")]
    }))
}

/// The inputs of a decision: two laboratories that disagree, a claim with another value, and a warning `warning`.
fn inputs(execution_id: &str, warning: &str) -> DecisionInputs {
    let request: VerifyRequest = read(json!({
        "workflow": "intake", "where": {"patient": "p-1"}, "axes": ["dose", "note"],
        "claimed": {"dose": {"value": 10.250, "claimed_by": "the patient", "confirmed": true}},
        "point_in_time": at(-5)
    }));
    let (workflow, ontology) = (workflow("intake"), ontology());
    let question = request.read(&workflow, &ontology, at(0)).expect("the value is valid");
    let mut inputs = DecisionInputs::new(execution_id.into(), workflow, &ontology, question, at(0));
    for (oracle_id, dose) in [("lab-a", "10.10"), ("lab-b", "12.3456789012345678901234567890")] {
        let candidate = Box::new(candidate(oracle_id, dose, "said", 0));
        let call = OracleCall {
            oracle_tier: OracleTier::Primary,
            axes: vec!["dose".into(), "note".into()],
            asked_at: Some(at(0)),
            ended_at: Some(at(1)),
            latency_ms: 100,
            cache_hit: false,
            reply: OracleReply::Answered { candidate: candidate.clone() },
            kept: Some(candidate),
            warnings: vec![warning.into()],
        };
        inputs.calls.insert(oracle_id.parse().expect("a valid id"), call);
    }
    inputs.decided_at = at(1);
    inputs
}

fn review(inputs: &DecisionInputs) -> ReviewCase {
    ReviewCase::of(inputs, &decide(inputs)).expect("a reviewer decides")
}

fn resolution() -> ReviewResolution {
    ReviewResolution {
        values: [("dose".to_owned(), json!("10.10"))].into(),
        definitions: [].into(),
        own_value: true,
        reason: "measured again".into(),
        valid_for_seconds: 3600,
        rule: None,
    }
}

fn resolved() -> ResolutionRecord {
    ResolutionRecord {
        resolution: resolution(),
        verifier_id: "1".into(),
        verifier_name: Some("anna".into()),
        resolved_at: at(9),
        held_against: [].into(),
    }
}

fn kept_key(oracle_id: &str, patient: &str) -> CachedAnswerKey {
    let subject = [("patient".to_owned(), domain_ground::value::AxisValue::Text(patient.into()))].into();
    CachedAnswerKey::of(&oracle_id.parse().expect("a valid id"), &subject, None)
}

fn subject_key(workflow_id: &str) -> SubjectKey {
    SubjectKey::of(&workflow_id.parse().expect("a valid id"), &inputs("x", "").question.subject, true)
}

fn cached_answer_of(oracle_id: &str, second: i64) -> CachedAnswer {
    let adapter_sha256 = domain_base::digest::Sha256Hex::of(b"an adapter");
    let candidate = Some(candidate(oracle_id, "10", "", second));
    CachedAnswer {
        candidate,
        point_in_time: None,
        adapter_sha256,
        issued_at: Some(at(second)),
        invalidation_count: 0,
        etag: None,
    }
}

fn subject(inputs: &DecisionInputs) -> SubjectState {
    let review = review(inputs);
    let locks = review.resolve(&ontology(), &resolution(), REVIEWER, at(9)).expect("the value is valid");
    let open = review.to_open_review();
    SubjectState { open: vec![open], locks, ..SubjectState::default() }
}

fn record(writes: Vec<RowWrite>) -> JournalRecord {
    JournalRecord { writes, ..JournalRecord::from(AuditEvent::new(at(0), None, ServiceStopped {})) }
}

fn commit(journal: &mut Journal, record: JournalRecord) -> u64 {
    let outcome = journal.commit(&[record]).expect("the commit succeeds").remove(0);
    outcome.expect("the expected value").last_seq
}

fn put_review(review_id: &str, resolved: Option<ResolutionRecord>) -> RowWrite {
    let review = review(&inputs(review_id, ""));
    RowWrite::put::<ReviewState>(&ReviewState { resolved, ..ReviewState::new_open(review) })
}

/// The log entries of one decision and of the resolution of its review.
fn decided(inputs: &DecisionInputs) -> Vec<AuditEvent> {
    let envelope = decide(inputs);
    let review = review(inputs);
    let (review_id, timestamp) = (review.review_id.clone(), at(1));
    let locks = review.resolve(&ontology(), &resolution(), REVIEWER, at(9)).expect("the value is valid");
    let calls = SourceCallEntry::all(inputs, &envelope).into_iter();
    let calls = calls.map(|call| AuditEvent::new(timestamp, None, SourceAsked(call)));
    let resolved = ResolutionEntry {
        review_id: review_id.clone(),
        resolution: resolution(),
        locks,
        verifier_name: Some("anna".into()),
        peer: PEER,
    };
    calls
        .chain([
            AuditEvent::new(
                timestamp,
                None,
                VerificationDecided(VerificationEntry::of(inputs.clone(), &envelope)),
            ),
            AuditEvent::new(
                timestamp,
                None,
                ReviewOpened(ReviewEntry { review_id, review: Box::new(review) }),
            ),
            AuditEvent::new(timestamp, None, ReviewResolved(resolved)),
        ])
        .collect()
}

#[test]
fn every_row_reads_back_equal_after_reopening_with_its_revision() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store) = open(dir.path());
    let inputs = inputs("v-1", "said");
    let state = ReviewState { resolved: Some(resolved()), ..ReviewState::new_open(review(&inputs)) };
    let revision = commit(
        &mut journal,
        record(vec![
            RowWrite::put(&registered("intake")),
            RowWrite::put(&registered("discharge")),
            RowWrite::put(&adapter()),
            RowWrite::put::<ReviewState>(&state),
            RowWrite::put_at(&subject_key("intake"), &subject(&inputs)),
            RowWrite::put_at(&kept_key("lab-a", "p-1"), &cached_answer_of("lab-a", 3)),
            RowWrite::put::<DecisionInputs>(&inputs),
        ]),
    );
    drop((journal, store));
    let (mut journal, store) = open(dir.path());
    assert_eq!(store.registered("intake").expect("read"), Some((registered("intake"), revision)));
    assert_eq!(store.registered("lab-a").expect("read"), Some((adapter(), revision)));
    assert_eq!(store.registered::<Adapter>("lab-b").expect("read"), None);
    assert_eq!(store.registered::<Workflow>("lab-a").expect("read"), None);
    assert_eq!(store.all_registered().expect("read"), [registered("discharge"), registered("intake")]);
    assert_eq!(store.review("v-1").expect("read"), Some((state, revision)));
    assert_eq!(store.subject(&subject_key("intake")).expect("read"), Some((subject(&inputs), revision)));
    assert_eq!(store.subject(&subject_key("discharge")).expect("read"), None);
    let found = store.cached_answer(&kept_key("lab-a", "p-1")).expect("read");
    assert_eq!(found, Some((cached_answer_of("lab-a", 3), revision)));
    assert_eq!(store.cached_answer(&kept_key("lab-a", "p-2")).expect("read"), None);
    assert_eq!(store.pending_decisions().expect("read"), [inputs]);
    store.audit_all().expect("nothing is missing");

    let removed = record(vec![
        RowWrite::remove::<SubjectState>(&subject_key("intake")),
        RowWrite::remove::<CachedAnswer>(&kept_key("lab-a", "p-1")),
        RowWrite::remove::<DecisionInputs>(&"v-1".to_owned()),
    ]);
    commit(&mut journal, removed);
    assert_eq!(store.subject(&subject_key("intake")).expect("read"), None);
    assert_eq!(store.cached_answer(&kept_key("lab-a", "p-1")).expect("read"), None);
    assert_eq!(store.pending_decisions().expect("read"), []);
    let counts = journal.counts();
    assert_eq!(
        ["documents", "reviews", "open_reviews", "subjects", "cached_answers", "pending"]
            .map(|table| counts.of(table)),
        [3, 1, 0, 0, 0, 0]
    );
    store.audit_all().expect("nothing is missing");
}

#[test]
fn second_of_two_concurrent_reviews_of_a_subject_is_stale() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store) = open(dir.path());
    let key = subject_key("intake");
    let open = |id: &str, revision: Option<u64>| JournalRecord {
        expect: vec![RowExpectation::new::<SubjectState>(&key, revision)],
        ..record(vec![put_review(id, None), RowWrite::put_at(&key, &subject(&inputs(id, "")))])
    };
    let outcomes = journal.commit(&[open("v-1", None), open("v-2", None)]).expect("the commit succeeds");
    assert_eq!(outcomes.last(), Some(&Err(RecordRejectedError::Stale(RowName::of::<SubjectState>(&key)))));
    assert_eq!(store.review("v-2").expect("read"), None);
    let (_, revision) = store.subject(&key).expect("read").expect("the subject exists");
    commit(&mut journal, open("v-2", Some(revision)));
    for row in [
        RowName::of::<RegisteredDocument<Workflow>>(&"intake".to_owned()),
        RowName::of::<ReviewState>(&"v-3".to_owned()),
        RowName::of::<CachedAnswer>(&kept_key("lab-a", "p-1")),
        RowName::of::<DecisionInputs>(&"v-1".to_owned()),
    ] {
        let expect = vec![RowExpectation { row: row.clone(), revision: Some(1) }];
        let outcomes =
            journal.commit(&[JournalRecord { expect, ..record(vec![]) }]).expect("the commit succeeds");
        assert_eq!(outcomes, [Err(RecordRejectedError::Stale(row))]);
    }
}

#[test]
fn reviews_are_listed_newest_first_with_an_open_filter() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store) = open(dir.path());
    let id = |n: usize| format!("v-{n:04}");
    for n in 0..40 {
        commit(&mut journal, record(vec![put_review(&id(n), None)]));
    }
    let found = |open_only: bool, before: Option<&str>, limit: usize| {
        let query = ReviewQuery { open_only, before: before.map(String::from), limit };
        let states = store.reviews(&query).expect("read");
        states.into_iter().map(|state| state.review.review_id).collect::<Vec<_>>()
    };
    assert_eq!(found(true, None, 3), [id(39), id(38), id(37)]);
    for n in (0..40).filter(|n| n % 10 != 0) {
        commit(&mut journal, record(vec![put_review(&id(n), Some(resolved()))]));
    }
    assert_eq!(found(true, None, 9), [id(30), id(20), id(10), id(0)]);
    assert_eq!(found(true, Some(&id(20)), usize::MAX), [id(10), id(0)]);
    assert_eq!(found(true, Some(&id(20)), 1), [id(10)]);
    assert_eq!(found(true, Some(&id(0)), 1), Vec::<String>::new());
    assert_eq!(found(true, Some(""), 1), Vec::<String>::new());
    assert_eq!(found(false, None, 2), [id(39), id(38)]);
    assert_eq!(found(false, Some("v-0002"), 9), [id(1), id(0)]);
    assert_eq!(found(false, Some("v-0002x"), 1), [id(2)]);
    assert_eq!(["reviews", "open_reviews"].map(|table| journal.counts().of(table)), [40, 4]);
    drop((journal, store));
    let (_, store) = open(dir.path());
    let open_of =
        |workflow: &str| store.open_reviews_of(&workflow.parse().expect("a valid id")).expect("read");
    assert_eq!((open_of("intake"), open_of("int"), open_of("intake-2")), (4, 0, 0));
    store.audit_all().expect("nothing is missing");
    let query = ReviewQuery { open_only: true, before: None, limit: 9 };
    assert_eq!(store.reviews(&query).expect("read").len(), 4);
}

#[test]
fn dismissed_review_is_not_open_and_keeps_its_reason() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store) = open(dir.path());
    commit(&mut journal, record(vec![put_review("v-1", None), put_review("v-2", None)]));
    let dismissed = DismissalRecord {
        reason: "healed".into(),
        verifier_id: "1".into(),
        verifier_name: Some("anna".into()),
        dismissed_at: at(9),
    };
    let mut state = ReviewState::new_open(review(&inputs("v-1", "")));
    assert!(state.is_open());
    state.dismissed = Some(dismissed);
    assert!(!state.is_open());
    commit(&mut journal, record(vec![RowWrite::put::<ReviewState>(&state)]));
    let found = |open_only: bool| {
        let query = ReviewQuery { open_only, before: None, limit: 9 };
        let states = store.reviews(&query).expect("read");
        states.into_iter().map(|state| state.review.review_id).collect::<Vec<_>>()
    };
    assert_eq!((found(true), found(false)), (vec!["v-2".into()], vec!["v-2".into(), "v-1".into()]));
    assert_eq!(["reviews", "open_reviews"].map(|table| journal.counts().of(table)), [2, 1]);
    drop((journal, store));
    let (_, store) = open(dir.path());
    assert_eq!(store.review("v-1").expect("read").expect("the review exists").0, state);
    store.audit_all().expect("nothing is missing");
}

#[test]
fn cached_answers_are_paged_with_their_revisions() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store) = open(dir.path());
    let mut revisions = std::collections::HashMap::new();
    for n in 0..10 {
        let key = kept_key(["lab-a", "lab-b"][n % 2], &format!("p-{n}"));
        let write = RowWrite::put_at(&key, &cached_answer_of("lab-a", n as i64));
        revisions.insert(key, (n, commit(&mut journal, record(vec![write]))));
    }
    for limit in [1, 3, 5, 10, 99] {
        let (mut after, mut old, mut pages) = (None, Vec::new(), 0);
        loop {
            let page = store.cached_answer_page(after.as_ref(), limit).expect("read");
            assert!(page.answers.len() <= limit);
            let before = |(_, cached, _): &(_, CachedAnswer, _)| cached.issued_at < Some(at(4));
            old.extend(page.answers.into_iter().filter(before).map(|(key, _, revision)| (key, revision)));
            pages += 1;
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(pages, 10 / limit + 1, "{limit}");
        let mut numbers: Vec<_> = old.iter().map(|(key, revision)| (revisions[key], *revision)).collect();
        numbers.sort_unstable();
        assert!(numbers.iter().all(|((_, put), revision)| put == revision));
        assert_eq!(numbers.iter().map(|((n, _), _)| *n).collect::<Vec<_>>(), [0, 1, 2, 3], "{limit}");
    }
}

#[test]
fn log_query_by_execution_returns_equal_decisions() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store) = open(dir.path());
    let (one, two) = (inputs("v-1", "said"), inputs("v-12", "said"));
    let delayed = DecisionInputs { stage: domain_verification::DecisionStage::Delayed, ..one.clone() };
    for inputs in [&one, &two, &delayed] {
        let events = [vec![AuditEvent::new(at(0), None, ServiceStopped {})], decided(inputs)].concat();
        commit(&mut journal, JournalRecord { events, ..JournalRecord::default() });
    }
    let seqs = |query: LogQuery| {
        store.log(&query).expect("read").into_iter().map(|line| line.seq).collect::<Vec<_>>()
    };
    let of = |execution: &str| LogQuery {
        execution: Some(execution.into()),
        limit: usize::MAX,
        ..LogQuery::default()
    };
    // six entries a commit: one of another kind, two calls, the decision, its review opened and resolved
    assert_eq!(seqs(of("v-1")), [2, 3, 4, 5, 6, 14, 15, 16, 17, 18]);
    assert_eq!(seqs(of("v-12")), [8, 9, 10, 11, 12]);
    assert_eq!(seqs(LogQuery { limit: 2, newest: true, ..of("v-1") }), [17, 18]);
    assert_eq!(seqs(LogQuery { after: 5, limit: 2, ..of("v-1") }), [6, 14]);
    assert_eq!(seqs(LogQuery { events: vec!["review_opened".into()], ..of("v-1") }), [5, 17]);
    assert_eq!(seqs(LogQuery { session: Some("v-1".parse().expect("a valid id")), ..of("v-1") }), [0; 0]);
    for odd in ["", "v", "v-1\0", "v-1\0\0\0\0\0\0\0\0\0\0\0", "\0"] {
        assert_eq!(seqs(of(odd)), [0; 0], "{odd:?}");
    }
    let entry = |inputs: &DecisionInputs| VerificationEntry::of(inputs.clone(), &decide(inputs));
    let decisions = whole_decisions(&store, "v-1");
    assert_eq!(decisions, [entry(&one), entry(&delayed)]);
    for decision in decisions {
        assert!(decision.read_envelope().is_ok() && decision.is_reproduced());
    }
    assert_eq!(whole_decisions(&store, "v-2"), []);
    drop((journal, store));
    assert_eq!(whole_decisions(&open(dir.path()).1, "v-12"), [entry(&two)]);
}

#[test]
fn decision_whose_values_were_erased_is_read_as_erased() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store) = open(dir.path());
    let inputs = inputs("v-1", "why");
    let entry = VerificationEntry::of(inputs.clone(), &decide(&inputs));
    let decided = AuditEvent::new(at(0), None, VerificationDecided(entry));
    commit(&mut journal, decided.into());
    let plan = RemovalPlan { verifications_up_to: Some(1), ..RemovalPlan::default() };
    let mut erasure = journal.begin_erasure(plan).expect("the journal accepts writes");
    erasure.rewrite_segments(&|| true).expect("the segments are whole");
    while journal.finish_erasure(&mut erasure).expect("the journal accepts writes") != ErasureStep::Finished {
        erasure.prepare(&|| true).expect("the disk is writable");
    }
    erasure.finish().expect("the disk is writable");
    let decisions = store.decisions("v-1").expect("the log is read").decisions;
    let [LoggedVerification::Erased(decision)] = &decisions[..] else { panic!("{decisions:?}") };
    let erased = ["envelope_sha256", "envelope", "inputs"].map(str::to_owned);
    assert_eq!((decision.seq, &decision.erased[..]), (1, &erased[..]));
}

fn whole_decisions(store: &Store, execution_id: &str) -> Vec<VerificationEntry> {
    let decisions = store.decisions(execution_id).expect("read").decisions.into_iter();
    decisions.map(|decision| decision.into_whole().expect("nothing is erased")).collect()
}

#[test]
fn mirror_of_a_large_decision_is_complete_and_repaired() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store) = open(dir.path());
    let large = inputs("v-1", &"\"\u{1}é".repeat(100_000));
    let writes = vec![RowWrite::put::<DecisionInputs>(&large)];
    commit(&mut journal, JournalRecord { events: decided(&large), writes, ..JournalRecord::default() });
    drop((journal, store));
    let name = dir.path().join("oracle_log.jsonl");
    let whole = std::fs::read(&name).expect("read");
    assert!(whole.len() > 2_000_000, "{}", whole.len());
    let decided_at = whole.iter().position(|byte| *byte == b'\n').expect("a line") + 1;
    for stored in [whole.len(), whole.len() - 1, decided_at + 1_900_000, decided_at + 65_536, decided_at + 7]
    {
        std::fs::write(&name, &whole[..stored]).expect("written");
        let (_, store) = open(dir.path());
        assert!(std::fs::read(&name).expect("read") == whole, "kept {stored} bytes");
        assert_eq!(std::fs::read_dir(dir.path()).expect("read").count(), files(dir.path()), "{stored}");
        let inputs = whole_decisions(&store, "v-1").remove(0).inputs;
        assert!(*inputs == large && store.pending_decisions().expect("read") == [large.clone()]);
    }
}

/// The number of files in a state directory, without files that were moved aside.
fn files(dir: &Path) -> usize {
    let entries = std::fs::read_dir(dir).expect("read");
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"));
    names.filter(|name| !name.contains("foreign")).count()
}

#[test]
fn low_space_refuses_new_review_except_for_pending_decision() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, _) = open(dir.path());
    commit(&mut journal, record(vec![put_review("v-1", None)]));
    drop(journal);
    let options = StoreOptions { min_free_bytes: 1 << 60, ..options(dir.path()) };
    let (mut journal, _) = Store::open(options).expect("the store opens");
    let session_id: domain_base::session_id::SessionId = "cs_1".parse().expect("a valid id");
    let check = Arc::new(domain_rules::CandidateCheck::default());
    let refusal = RowWrite::put::<RejectingCheck>(&RejectingCheck { session_id, check });
    for (writes, is_taken) in [
        (vec![put_review("v-2", None)], false),
        (vec![refusal], false),
        // an existing review can be resolved
        (vec![put_review("v-1", Some(resolved()))], true),
        // a pending decision is stored
        (vec![put_review("v-2", None), RowWrite::remove::<DecisionInputs>(&"v-2".to_owned())], true),
        // cached answers are bounded, so they are not new work
        (vec![RowWrite::put_at(&kept_key("lab-a", "p-1"), &cached_answer_of("lab-a", 1))], true),
    ] {
        let ends_work = writes.iter().any(|write| write.value().is_none());
        let record = JournalRecord { ends_work, ..record(writes.clone()) };
        let outcome = journal.commit(&[record]).expect("the commit succeeds").remove(0);
        let is_low = matches!(outcome, Err(RecordRejectedError::LowSpace(_)));
        assert_eq!((outcome.is_ok(), is_low), (is_taken, !is_taken), "{writes:?}: {outcome:?}");
    }
}

#[test]
fn preview_reads_writes_that_are_not_stored() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store) = open(dir.path());
    commit(&mut journal, record(vec![RowWrite::put(&registered("intake"))]));
    let other = RegisteredDocument { registered_by: "uid 2".into(), ..registered("intake") };
    let writes = [RowWrite::put(&registered("discharge")), RowWrite::put(&other), RowWrite::put(&adapter())];
    let mut preview = store.clone();
    preview.preview(&writes);
    assert_eq!(preview.all_registered().expect("read"), [registered("discharge"), other.clone()]);
    assert_eq!(preview.registered("intake").expect("read").map(|(row, _)| row), Some(other));
    assert_eq!(preview.registered("lab-a").expect("read").map(|(row, _)| row), Some(adapter()));
    assert_eq!(store.all_registered().expect("read"), [registered("intake")]);
    assert_eq!(store.registered::<Adapter>("lab-a").expect("read"), None);
}
