//! Entries of the log and sources that cannot be read.

use crate::system::ActorSystem;
use crate::testing::ground::PEER;
use crate::testing::{GOOD, TestSystem, id, test_submission, with_system};
use crate::tests::rules::fact_sources::{gathered, query_both_axes, source, with_a_source};
use actors_verdict::crosscheck::JudgeVerdict;
use actors_verdict::recall::RecallError;
use actors_verdict::submission::Submission;
use actors_verdict::what_if::WhatIfQuery;
use domain_base::digest::Sha256Hex;
use domain_base::event::{AuditEvent, EntryMembers, Event, EventClass};
use domain_base::gate_path::GatePath;
use domain_base::payload::VerdictPayload;
use domain_base::row::{IndexEntry, Row, Table};
use domain_ground::id::SourceId;
use domain_ground::run::record_id;
use domain_ground::source_state::SourceState;
use domain_rules::event::RulesEvaluated;
use domain_rules::{CandidateCheck, RuleId};
use domain_verdict::crosscheck::{UnexpectedFieldHandling, judge_with};
use domain_verdict::event::{CrosscheckEntry, TmmCrosscheck};
use domain_verdict::label::ProductTier;
use domain_verdict::policy::DeliveryPolicies;
use domain_verdict::query::CustomerQuery;
use domain_verdict::recall::{RunRecalled, STATEMENTS, UnknownCause};
use domain_verdict::recall_notice::{RecallNotice, RecallNoticeRead};
use domain_verdict::what_if::{NotCalculatedCause, NotCalculatedCount};
use jiff::Timestamp;
use oracled_store::{JournalRecord, RowWrite, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

/// An entry with the name of an evaluation, and without its members.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
struct BrokenEvaluation {}

impl Event for BrokenEvaluation {
    const NAME: &'static str = RulesEvaluated::NAME;
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = true;

    fn summary(_: EntryMembers<'_>) -> String {
        String::new()
    }
}

/// A row of a source without its members.
#[derive(Debug, Serialize, Deserialize)]
struct BrokenSource {}

impl Row for BrokenSource {
    type Key = SourceId;
    const TABLE: &'static Table = SourceState::TABLE;

    fn index(&self) -> Vec<IndexEntry> {
        Vec::new()
    }
}

const DAMAGED: NotCalculatedCount = NotCalculatedCount { cause: NotCalculatedCause::Damaged, decisions: 1 };

/// The number of unreadable entries, and the decisions that cannot be calculated.
async fn run_backtest(
    system: &ActorSystem,
    facts_as_of: Option<Timestamp>,
) -> (u64, Vec<NotCalculatedCount>) {
    let query = WhatIfQuery {
        unexpected_fields: UnexpectedFieldHandling::Strip,
        policies: DeliveryPolicies::default(),
        rules: None,
        wordlist: None,
        facts_as_of,
        since: None,
        tier: None,
    };
    let turn = system.what_if.wait_for_turn().await;
    let counts = system.what_if.run(&turn, &query, system.store.last_seq(), |_| true);
    let counts = counts.expect("the rest is calculated").expect("it was not ended");
    (counts.unreadable_entries, counts.not_calculated())
}

#[test]
fn backtest_and_index_of_recalls_count_entries_that_cannot_be_read() {
    with_system(|TestSystem { system, .. }| async move {
        let (now, query) = (system.clock.now(), CustomerQuery::new("Sell honey?".into()));
        let unexpected_fields = UnexpectedFieldHandling::Strip;
        let judgment = judge_with(unexpected_fields, ProductTier::Quick, VerdictPayload::raw(GOOD));
        let judged = TmmCrosscheck(CrosscheckEntry::of(&judgment, &query, GatePath::Submit));
        let events = vec![
            AuditEvent::new(now, id("cs_1"), judged),
            AuditEvent::new(now, id("cs_1"), BrokenEvaluation {}),
        ];
        let record = JournalRecord { events, ..JournalRecord::default() };
        system.log.commit(record).await.expect("the commit succeeds");
        let last = system.store.last_seq();

        let applied = system.recalls.catch_up(Duration::from_secs(5)).expect("the index is built");
        let mut damaged = BTreeSet::new();
        let visit = |_: &str, entries: &BTreeSet<u64>| {
            damaged.extend(entries.clone());
            Ok(())
        };
        system.store.postings(STATEMENTS).visit(&UnknownCause::Damaged.name(None), visit).expect("readable");
        assert_eq!((applied, damaged), (last, BTreeSet::from([last])));

        assert_eq!(run_backtest(&system, None).await, (1, vec![DAMAGED]));
    });
}

#[test]
fn backtest_counts_decisions_whose_facts_are_of_a_damaged_source() {
    with_system(|TestSystem { system, dir, .. }| async move {
        with_a_source(&system).await;
        let check = gathered(&system, vec![query_both_axes("ABW")]).await.expect("the source gives facts");
        let check = Some(Arc::new(CandidateCheck { rules: Some(vec![RuleId::Cont001]), ..check }));
        let submission = Submission { check, ..test_submission("cs_1", GOOD, GatePath::Submit) };
        let judged = system.crosscheck.ask(JudgeVerdict(submission)).await;
        judged.expect("the actor answers").expect("the judgment succeeds");
        let now = system.clock.now();
        assert_eq!(run_backtest(&system, Some(now)).await, (0, Vec::new()));

        for file in fs::read_dir(dir.join("ground/facts")).expect("the directory exists") {
            fs::write(file.expect("an entry").path(), "damaged").expect("the write succeeds");
        }
        system.store.reopen(&source());
        assert_eq!(run_backtest(&system, Some(now)).await, (0, vec![DAMAGED]));

        let event = RunRecalled { oracle_id: source(), run_id: Sha256Hex::of(b"run"), verdicts: 0 };
        let record = JournalRecord {
            writes: vec![RowWrite::put_at(&source(), &BrokenSource {})],
            ..JournalRecord::from(AuditEvent::new(now, None, event))
        };
        system.log.commit(record).await.expect("the commit succeeds");
        assert_eq!(run_backtest(&system, Some(now)).await, (0, vec![DAMAGED]));
    });
}

#[test]
fn draft_is_compared_again_after_the_repair_of_its_source() {
    with_system(|TestSystem { system, dir, .. }| async move {
        with_a_source(&system).await;
        let (now, view) = (system.clock.now(), system.store.view(&source()).expect("the source opens"));
        let run = &view.as_ref().expect("the source exists").state.completed[0];
        // the second record, which the next run has confirmed
        let statement = json!({"oracle_id": source(), "record_id": record_id(&run.run_id, 1), "axes": ["population"],
            "then": null, "now": [], "now_version": null, "checked": []});
        let verdict = json!({"session_id": "cs_1", "entry": 1, "evaluated_at": now, "result": "not_evaluated",
            "rules_verdict": null, "statements": [statement]});
        let recall = json!({"oracle_id": source(), "run_id": run.run_id, "verdict": verdict});
        let recall = serde_json::from_value(recall).expect("a valid recall");
        let notice = RecallNotice::drafted(None, recall, &Sha256Hex::of(b"text"), now);
        let record = JournalRecord {
            writes: vec![RowWrite::put(&notice)],
            ..JournalRecord::from(AuditEvent::new(now, id("cs_1"), RecallNoticeRead { peer: PEER }))
        };
        system.log.commit(record).await.expect("the commit succeeds");

        let file = dir.join("ground/facts").join(format!("{}.sorted", run.rows.sha256));
        let intact = fs::read(&file).expect("the file exists");
        fs::write(&file, "damaged").expect("the write succeeds");
        let notified = system.recalls.notify().await;
        assert!(matches!(notified, Err(RecallError::Store(StoreError::SourceFile { .. }))), "{notified:?}");
        fs::write(&file, intact).expect("the write succeeds");
        system.recalls.notify().await.expect("the draft is compared");
        assert_eq!(system.store.recall_notice(&id("cs_1")).expect("readable"), None, "it is withdrawn");
    });
}
